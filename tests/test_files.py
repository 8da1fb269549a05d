"""Locks, private files, and SQLite files that are recognised or refused."""

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from capstan.core.halts import Halted, HaltReason, halted
from capstan.files import (
    FileKind,
    FileLock,
    SqliteFile,
    create_private,
    fault_name,
    sync_directory,
    value_free,
)

KIND = FileKind(
    name="drawer",
    application_id=0x11223344,
    version=2,
    schema=("CREATE TABLE thing (name TEXT)",),
    failed=HaltReason.STORE_FAILED,
)
SENTINEL = "s3ntinel-value"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def another_process_holds(path: Path) -> Iterator[None]:
    """A process of its own that holds the lock until the block ends."""
    code = (
        "import sys; from pathlib import Path; from capstan.files import FileLock\n"
        "print(FileLock(Path(sys.argv[1])).acquire(), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        yield
        process.communicate()


@pytest.fixture
def drawer(tmp_path: Path) -> Iterator[SqliteFile]:
    with closing(SqliteFile(tmp_path / "drawer.db", KIND)) as file:
        yield file


def halt_of(action: Callable[[], object]) -> str:
    with pytest.raises(Halted) as caught:
        action()
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    return str(caught.value)


# -- locks -----------------------------------------------------------------------------------------


def test_a_lock_has_one_holder_in_one_process(tmp_path: Path) -> None:
    """A second lock object on the same path is refused until the first lets go."""
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert first.acquire()
    assert first.acquire(), "taking it again changes nothing"
    assert not second.acquire()
    assert not second.held
    first.release()
    assert second.acquire()
    second.release()


def test_a_lock_is_seen_by_other_processes(tmp_path: Path) -> None:
    """A lock held elsewhere is refused, and free again when that process is gone."""
    lock = FileLock(tmp_path / "lock")
    with another_process_holds(tmp_path / "lock"):
        assert not lock.acquire()
    assert lock.acquire()
    lock.release()


def test_a_released_lock_is_not_kept_by_a_forked_child(tmp_path: Path) -> None:
    """A descriptor that a child shares, as after a fork, does not hold the lock on."""
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    first.acquire()
    assert first._descriptor is not None
    shared = os.dup(first._descriptor)
    first.release()
    assert second.acquire()
    second.release()
    os.close(shared)


def test_a_lock_on_a_removed_file_is_nobodys(tmp_path: Path) -> None:
    """A holder of a removed lock file does not keep the next one out, who locks a new file."""
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    first.acquire()
    (tmp_path / "lock").unlink()
    assert second.acquire()
    first.release()
    second.release()


def test_a_lock_file_is_private(tmp_path: Path) -> None:
    """Nobody but the owner may read the lock file."""
    lock = FileLock(tmp_path / "lock")
    lock.acquire()
    assert mode_of(tmp_path / "lock") == 0o600
    lock.release()


# -- private files ---------------------------------------------------------------------------------


def test_a_private_file_is_made_once(tmp_path: Path) -> None:
    """A private file is 0600 whatever the umask allows, and never takes another one's place."""
    before = os.umask(0)
    try:
        os.close(create_private(tmp_path / "secret"))
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "secret") == 0o600
    with pytest.raises(FileExistsError):
        create_private(tmp_path / "secret")
    sync_directory(tmp_path)


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (ValueError(SENTINEL), "ValueError"),
        (FileNotFoundError(2, SENTINEL), "FileNotFoundError ENOENT"),
        (OSError(SENTINEL), "OSError"),
        (sqlite3.ProgrammingError(SENTINEL), "ProgrammingError"),
    ],
)
def test_a_fault_is_named_without_its_text(error: Exception, name: str) -> None:
    """R265: an error is its class and its code; its text stays behind."""
    assert fault_name(error) == name


def test_a_fault_of_sqlite_carries_its_code() -> None:
    """A driver error keeps SQLite's own name for it, which holds no value."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (a UNIQUE)")
        connection.execute("INSERT INTO t VALUES (?)", (SENTINEL,))
        with pytest.raises(sqlite3.IntegrityError) as caught:
            connection.execute("INSERT INTO t VALUES (?)", (SENTINEL,))
    assert fault_name(caught.value) == "IntegrityError SQLITE_CONSTRAINT_UNIQUE"


def test_what_a_driver_raises_leaves_as_a_halt_without_context() -> None:
    """R265: neither text, cause nor context of the halt leads to what was being written."""

    def fail() -> None:
        with value_free(HaltReason.SINK_FAILED, lambda: "shop.orders"):
            raise ValueError(SENTINEL)

    assert halt_of(fail) == "sink_failed: shop.orders: ValueError"


def test_a_halt_passes_the_guard_as_it_is() -> None:
    """A verdict made inside keeps its own reason."""

    def fail() -> None:
        with value_free(HaltReason.SINK_FAILED, lambda: "shop.orders"):
            raise halted(HaltReason.MIRROR_DRIFTED, "shop.orders")

    assert halt_of(fail) == "mirror_drifted: shop.orders"


# -- SQLite files ----------------------------------------------------------------------------------


def test_a_file_is_made_whole_private_and_durable(drawer: SqliteFile) -> None:
    """A new file has its tables, mark, version and log from the first moment it can be seen."""
    connection = drawer.writing()
    connection.execute("INSERT INTO thing VALUES ('a')")
    assert connection.execute("PRAGMA application_id").fetchone() == (KIND.application_id,)
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    beside = sorted(path.name for path in drawer.path.parent.iterdir())
    assert beside == ["drawer.db", "drawer.db-shm", "drawer.db-wal", "drawer.db.lock"]
    assert {mode_of(path) for path in drawer.path.parent.iterdir()} == {0o600}


def test_reading_makes_no_file_and_takes_no_lock(drawer: SqliteFile) -> None:
    """Looking at a file that is not there leaves nothing behind; looking never locks."""
    assert drawer.reading() is None
    assert list(drawer.path.parent.iterdir()) == []
    with closing(SqliteFile(drawer.path, KIND)) as holder:
        holder.writing().execute("INSERT INTO thing VALUES ('a')")
        connection = drawer.reading()
        assert connection is not None
        assert connection.execute("SELECT name FROM thing").fetchone() == ("a",)


def test_a_second_holder_is_refused(drawer: SqliteFile) -> None:
    """`store_locked` names the file; the holder may be this process under another path."""
    drawer.hold()
    link = drawer.path.parent / "link.db"
    link.symlink_to(drawer.path)
    with closing(SqliteFile(link, KIND)) as second:
        assert halt_of(second.hold) == (
            f"store_locked: drawer {drawer.path} is held by another pipeline"
        )
        assert halt_of(second.writing).startswith("store_locked: ")


def test_a_holder_in_another_process_is_seen(drawer: SqliteFile) -> None:
    """`store_locked`: the lock file beside the data file is what counts."""
    with another_process_holds(Path(f"{drawer.path}.lock")):
        assert halt_of(drawer.writing).startswith("store_locked: ")
    drawer.writing()


def test_closing_lets_others_in(drawer: SqliteFile) -> None:
    """After `close()` another holder writes, and the first may open it again later."""
    drawer.writing().execute("INSERT INTO thing VALUES ('a')")
    drawer.close()
    with closing(SqliteFile(drawer.path, KIND)) as second:
        second.writing().execute("INSERT INTO thing VALUES ('b')")
    assert drawer.writing().execute("SELECT count(*) FROM thing").fetchone() == (2,)


def _zero_bytes(path: Path) -> None:
    path.touch()


def _text(path: Path) -> None:
    path.write_text("not a database, but long enough to be taken for one " * 40)


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE thing (name TEXT)")


def _newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA application_id = {KIND.application_id}")
        connection.execute("PRAGMA user_version = 3")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_zero_bytes, "is not a drawer of capstan"),
        (_text, "DatabaseError SQLITE_NOTADB"),
        (_foreign, "is not a drawer of capstan"),
        (_newer, "has format version 3; this capstan reads up to 2"),
    ],
)
def test_what_is_not_ours_is_refused_and_left_alone(
    drawer: SqliteFile, make: Callable[[Path], None], why: str
) -> None:
    """A foreign, damaged or newer file halts and keeps every byte."""
    make(drawer.path)
    before = drawer.path.read_bytes()
    for use in (drawer.reading, drawer.writing):
        message = halt_of(use)
        assert message.startswith(f"store_failed: drawer {drawer.path}")
        assert message.endswith(why)
    assert drawer.path.read_bytes() == before


@pytest.mark.parametrize("closed", [False, True], ids=["while open", "between two uses"])
def test_a_file_that_vanished_is_not_made_anew(drawer: SqliteFile, closed: bool) -> None:
    """A file deleted under its holder halts; nothing stands in its place afterwards."""
    drawer.writing()
    if closed:
        drawer.close()
    drawer.path.unlink()
    for use in (drawer.reading, drawer.writing):
        assert halt_of(use).endswith("was deleted or exchanged while it was in use")
    assert not drawer.path.exists()


def test_a_file_that_was_exchanged_is_seen(drawer: SqliteFile, tmp_path: Path) -> None:
    """Another file under the same name is not the one that is open."""
    drawer.writing()
    with closing(SqliteFile(tmp_path / "other.db", KIND)) as other:
        other.writing()
    (tmp_path / "other.db").rename(drawer.path)
    assert halt_of(drawer.check_present).endswith("was deleted or exchanged while it was in use")


def test_a_log_without_its_file_is_not_played_back(drawer: SqliteFile, tmp_path: Path) -> None:
    """What a crash and a deletion leave beside the name does not reach the new file."""
    with closing(SqliteFile(tmp_path / "old.db", KIND)) as old:
        old.writing().execute("INSERT INTO thing VALUES ('ghost')")
        log = Path(f"{old.path}-wal").read_bytes()
    assert log
    Path(f"{drawer.path}-wal").write_bytes(log)
    Path(f"{drawer.path}.new").write_bytes(b"half-made")
    assert drawer.writing().execute("SELECT count(*) FROM thing").fetchone() == (0,)


def test_a_missing_folder_is_named_by_its_code(tmp_path: Path) -> None:
    """A folder that is not there is a halt, not a traceback."""
    with closing(SqliteFile(tmp_path / "none" / "drawer.db", KIND)) as file:
        assert halt_of(file.writing).endswith("FileNotFoundError ENOENT")
