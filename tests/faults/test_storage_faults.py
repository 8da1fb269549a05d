"""Disks and files that fail: a clear halt, nothing lost, nothing made anew in silence."""

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from faults import poor_process

from capstan import GtidSet, HaltReason, SqliteStore

SMALL = 100_000
"""Bytes a file may have: room for new files and for a few writes to them."""
REASONS = {"state.db": HaltReason.STORE_FAILED, "mirror.db": HaltReason.SINK_FAILED}


def run(folder: Path) -> dict[str, str]:
    """Stream into the two files of this folder."""
    return poor_process.stream(folder / "state.db", folder / "mirror.db")


def run_poor(folder: Path, limit: int = 0) -> dict[str, str]:
    """Do so in a process that has no rights over files but those of their owner."""
    places = [path for path in sys.path if path]
    done = subprocess.run(
        [
            sys.executable,
            poor_process.__file__,
            str(folder / "state.db"),
            str(folder / "mirror.db"),
            str(limit),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
    )
    assert done.returncode == 0, done.stderr
    outcome: dict[str, str] = json.loads(done.stdout)
    return outcome


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of a run that a full disk ended."""
    folder = tmp_path_factory.mktemp("half")
    run_poor(folder, SMALL)
    return folder


@pytest.fixture
def folder(half: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(half, tmp_path / "files"))


def mirrored(file: Path) -> tuple[int, int]:
    """How many rows a mirror has, and how many different ones."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        (found,) = connection.execute('SELECT count(*), count(DISTINCT id) FROM "shop.items"')
    return tuple(found)


def stored(file: Path) -> int:
    """How many transactions a store stands for."""
    with closing(SqliteStore(file)) as store:
        return (store.load_watermark() or GtidSet()).count()


def test_a_disk_that_fills_up_halts_in_step_and_goes_on_when_it_has_room(tmp_path: Path) -> None:
    """R31, R42, R266: store and mirror stand at the same transaction, and nothing is lost."""
    outcome = run_poor(tmp_path, SMALL)
    assert outcome["reason"] in {HaltReason.STORE_FAILED, HaltReason.SINK_FAILED}
    rows, different = mirrored(tmp_path / "mirror.db")
    assert 0 < stored(tmp_path / "state.db") <= rows == different < poor_process.TRANSACTIONS
    assert_goes_on(tmp_path)


def test_everything_that_is_written_is_private(folder: Path) -> None:
    """R265: rows and positions are for their owner alone, whatever the umask."""
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert {"state.db", "mirror.db", "state.db.lock", "mirror.db.lock"} <= set(modes)
    assert set(modes.values()) == {0o600}


# --- permissions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REASONS)
@pytest.mark.parametrize("mode", [0o000, 0o400], ids=["not readable", "not writable"])
@pytest.mark.parametrize("what", ["", ".lock"], ids=["the file", "its lock"])
def test_a_file_without_rights_is_a_halt_and_stays_as_it_is(
    folder: Path, name: str, mode: int, what: str
) -> None:
    """R42, R266: what may not be read or written is left alone, and gone on with afterwards."""
    file = folder / (name + what)
    before = (folder / name).read_bytes()
    file.chmod(mode)
    outcome = run_poor(folder)
    # SQLite gives the rights of a file to the log that it makes beside it.
    for path in folder.iterdir():
        path.chmod(0o600)

    assert outcome["reason"] == REASONS[name]
    assert name in outcome["detail"] or "shop.items" in outcome["detail"]
    assert (folder / name).read_bytes() == before
    assert_goes_on(folder)


@pytest.mark.parametrize("name", REASONS)
def test_a_folder_without_rights_is_a_halt(folder: Path, tmp_path: Path, name: str) -> None:
    """R42, R266: a file of a folder in which nothing can be written is not written."""
    closed = tmp_path / "closed"
    closed.mkdir()
    for path in folder.glob(f"{name}*"):
        path.rename(closed / path.name)
        path.symlink_to(closed / path.name)
    before = (closed / name).read_bytes()
    closed.chmod(0o500)
    outcome = run_poor(folder)
    closed.chmod(0o700)

    assert outcome["reason"] == REASONS[name]
    assert (closed / name).read_bytes() == before
    assert_goes_on(folder)


@pytest.mark.parametrize("name", REASONS)
def test_a_new_file_in_a_folder_without_rights_is_a_halt(tmp_path: Path, name: str) -> None:
    """R42, R266: what cannot be made is not done without."""
    closed = tmp_path / "closed"
    closed.mkdir()
    (tmp_path / name).symlink_to(closed / name)
    closed.chmod(0o500)
    outcome = run_poor(tmp_path)
    closed.chmod(0o700)

    assert outcome["reason"] == REASONS[name]
    assert list(closed.iterdir()) == []
    assert_goes_on(tmp_path)


# --- damage ---------------------------------------------------------------------------------------


def _newer(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 999")


def _foreign(file: Path) -> None:
    file.unlink()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE somebodys (thing TEXT)")


def _torn(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def _overwritten(file: Path) -> None:
    size = file.stat().st_size
    with file.open("r+b") as opened:
        opened.seek(8192)
        opened.write(b"\xa5" * (size - 8192))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a newer format": _newer,
    "somebody else's database": _foreign,
    "torn": _torn,
    "overwritten": _overwritten,
    "emptied": lambda file: os.truncate(file, 0),
    "a text": lambda file: file.write_text("no database at all " * 1000, encoding="utf-8"),
    "a beginning without the rest": lambda file: os.truncate(file, 100),
}


@pytest.mark.parametrize("name", REASONS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_a_halt_and_is_not_made_anew(
    half: Path, folder: Path, name: str, damage: str
) -> None:
    """R42, R44, R266: torn, corrupt, foreign, newer: every byte stays, nothing is streamed."""
    file = folder / name
    DAMAGES[damage](file)
    before = file.read_bytes()
    outcome = run(folder)

    assert outcome["reason"] == REASONS[name]
    assert file.read_bytes() == before
    shutil.copy(half / name, file)
    assert_goes_on(folder)


def assert_goes_on(folder: Path) -> None:
    """With the cause mended all of it arrives, once."""
    assert run(folder) == {"reason": "", "detail": "arrived: True"}
    assert stored(folder / "state.db") == poor_process.TRANSACTIONS
    assert mirrored(folder / "mirror.db") == (poor_process.TRANSACTIONS,) * 2
