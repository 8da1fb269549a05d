"""The bar of long readings: on a terminal, for large files, and nowhere else."""

import sys
from pathlib import Path

import pytest

from capstan.cli.inspect_progress import Following, progress
from capstan.sources.binlog_walk import unwatched

MIB = 1 << 20


def sparse(path: Path, size: int) -> Path:
    """A file of a size that takes no room."""
    with path.open("wb") as file:
        file.truncate(size)
    return path


@pytest.mark.parametrize(("size", "terminal"), [(101 * MIB, False), (99 * MIB, True)])
def test_there_is_no_bar_for_small_files_or_without_a_terminal(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    size: int,
    terminal: bool,
) -> None:
    """R260: what reads the output of a script finds nothing else in it."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    path = sparse(tmp_path / "b.1", size)
    with progress([path]) as watch:
        assert watch is unwatched
        watch(path, MIB)
    assert capsys.readouterr() == ("", "")


def test_a_bar_is_shown_on_a_terminal_for_large_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """R260: on standard error; files that come later by --follow are no surprise to it."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    paths = [sparse(tmp_path / f"b.{number}", 60 * MIB) for number in (1, 2)]
    with progress(paths) as watch:
        for path in (*paths, tmp_path / "b.3"):
            watch(path, 30 * MIB)
    out, err = capsys.readouterr()
    assert out == ""
    assert "b.3" in err


def test_waiting_ends_when_it_is_told_to_stop() -> None:
    """R260: at once, and for good."""
    following = Following()
    following.stop()
    assert not following.wait()
    assert not following.wait()
