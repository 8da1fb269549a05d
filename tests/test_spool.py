"""Spool files on a real disk: private, nameless, closed for good, faults by name."""

import gc
import os
import stat
import threading
from pathlib import Path

import pytest

from capstan.core.halts import Halted, HaltReason
from capstan.spool import SpoolFile, SpoolFolder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where files are spooled."""
    made = tmp_path / "spool"
    made.mkdir()
    return made


def descriptors(folder: Path) -> list[str]:
    """The open files of this process that lie, or lay, in a folder."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:  # the descriptor with which this folder is read
            continue
        if target.startswith(f"{folder}/"):
            found.append(target)
    return found


def descriptor_of(file: SpoolFile) -> int:
    assert file._descriptor is not None
    return file._descriptor


def found_of(file: SpoolFile) -> os.stat_result:
    return os.fstat(descriptor_of(file))


def test_what_is_written_is_read(folder: Path) -> None:
    """D25: from any place, in any order, while more is written."""
    file = SpoolFolder(str(folder)).open()
    file.write(b"first")
    assert file.read(1, 3) == b"irs"
    file.write(b"second" * 100_000)

    assert file.read(0, 11) == b"firstsecond"
    assert file.read(5, 600_000) == b"second" * 100_000
    assert file.read(605, 0) == b""


def test_a_file_has_no_name_and_is_its_owners_alone(folder: Path) -> None:
    """D25: nothing can find it while it is open, nothing is left when the process is killed."""
    old = os.umask(0)
    try:
        file = SpoolFolder(str(folder)).open()
    finally:
        os.umask(old)
    file.write(b"rows")

    assert list(folder.iterdir()) == []
    assert stat.S_IMODE(found_of(file).st_mode) == 0o600
    assert found_of(file).st_nlink == 0
    assert not os.get_inheritable(descriptor_of(file))
    assert len(descriptors(folder)) == 1


def test_where_files_cannot_be_made_nameless_the_name_is_taken_away(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems cannot do it in one step."""
    monkeypatch.setattr("tempfile._O_TMPFILE_WORKS", False)
    file = SpoolFolder(str(folder)).open()

    assert list(folder.iterdir()) == []
    assert found_of(file).st_nlink == 0
    assert stat.S_IMODE(found_of(file).st_mode) == 0o600


def test_the_system_says_where_when_nobody_else_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder for temporary files."""
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    file = SpoolFolder(None).open()

    assert len(descriptors(folder)) == 1
    file.close()


def test_closing_lets_the_descriptor_go_and_nothing_works_any_more(folder: Path) -> None:
    """D25: a clear error, whatever the descriptor's number is by then."""
    spools = SpoolFolder(str(folder))
    file = spools.open()
    file.write(b"rows")
    file.close()
    file.close()

    assert descriptors(folder) == []
    assert file.closed
    assert spools.open_files() == 0
    with pytest.raises(RuntimeError, match="closed"):
        file.read(0, 4)
    with pytest.raises(RuntimeError, match="closed"):
        file.write(b"more")


def test_a_file_that_nobody_has_any_more_is_closed_in_silence(folder: Path) -> None:
    """A transaction that is dropped takes its file along."""
    spools = SpoolFolder(str(folder))
    file = spools.open()
    assert spools.open_files() == 1

    del file
    gc.collect()

    assert descriptors(folder) == []
    assert spools.open_files() == 0


def test_all_can_be_closed_at_once(folder: Path) -> None:
    """The end of everybody who could ask for them."""
    spools = SpoolFolder(str(folder))
    files = [spools.open() for _ in range(3)]
    files[1].close()

    spools.close_all()

    assert descriptors(folder) == []
    assert [file.closed for file in files] == [True, True, True]
    later = spools.open()
    assert not later.closed


def test_a_folder_that_has_gone_is_told_by_class_and_code(folder: Path) -> None:
    """R265: names and codes; the file's words are the system's and stay there."""
    folder.rmdir()
    with pytest.raises(Halted) as caught:
        SpoolFolder(str(folder)).open()

    assert caught.value.halt.reason is HaltReason.SPOOL_FAILED
    assert caught.value.halt.detail == f"spool in {folder}: FileNotFoundError ENOENT"
    assert caught.value.__context__ is None


def test_a_file_that_became_shorter_is_told(folder: Path) -> None:
    """D25: what is missing is never taken for an end."""
    file = SpoolFolder(str(folder)).open()
    file.write(b"rows")
    os.truncate(descriptor_of(file), 3)

    with pytest.raises(Halted) as caught:
        file.read(0, 4)

    assert caught.value.halt.reason is HaltReason.SPOOL_FAILED


def test_a_reader_is_never_given_another_file(folder: Path) -> None:
    """Closed by one thread while another reads: all that was written, or the error."""
    spools = SpoolFolder(str(folder))
    for _ in range(30):
        file = spools.open()
        file.write(b"a" * 4096)
        seen: list[bytes] = []
        reader = threading.Thread(target=_read_until_closed, args=(file, seen))
        reader.start()
        spools.close_all()
        other = spools.open()
        other.write(b"b" * 4096)
        reader.join(30)
        assert not reader.is_alive()
        assert set(seen) <= {b"a" * 4096}
        other.close()


def _read_until_closed(file: SpoolFile, seen: list[bytes]) -> None:
    while True:
        try:
            seen.append(file.read(0, 4096))
        except RuntimeError:
            return
