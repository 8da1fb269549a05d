"""Files of capstan's own: locked for one writer, private, recognised, never made anew in silence.

House rules: this file knows locks, permissions and what makes a SQLite file one of ours (its
application id and format version). It knows nothing of what stands inside. A file comes into being
whole: it is built beside its place and renamed. A file that is foreign, newer, damaged, or that
vanished while it was held is a `Halted`. Drivers put values into their exceptions (SQLite quotes
what it was given), so nothing but a class, a code and a name of ours leaves here.

SQLite's own locks are lost when a process opens and closes the same file by other means: a data
file is therefore only ever opened through SQLite, and the lock lives in a file beside it.
"""

import errno
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final

import attrs

from capstan.core.halts import Halted, HaltReason, halted

PRIVATE: Final = 0o600
_BUSY_SECONDS: Final = 10.0
_STATEMENTS: Final = 512


class FileLock:
    """An exclusive lock between processes, and between two holders in one process.

    The file stays when the lock is released: removing it could let two holders in.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    def acquire(self) -> bool:
        """Take the lock without waiting; True when it is held, by this call or an earlier one.

        Raises:
            OSError: When the file cannot be opened or locked.
        """
        while self._descriptor is None:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return False
            except BaseException:
                os.close(descriptor)
                raise
            # Someone may have removed the file between the two calls: then this lock is nobody's.
            if _identity(self._path) == _identity_of(os.fstat(descriptor)):
                self._descriptor = descriptor
            else:
                os.close(descriptor)
        return True

    def release(self) -> None:
        """Give the lock back; nothing happens when it is not held."""
        if self._descriptor is not None:
            # Closing alone would leave it with a forked child that shares the descriptor.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        return _identity_of(path.stat())
    except FileNotFoundError:
        return None


def _identity_of(found: os.stat_result) -> tuple[int, int]:
    return (found.st_dev, found.st_ino)


def create_private(path: Path) -> int:
    """Create a file that only its owner may read; returns its descriptor, opened for writing.

    Raises:
        FileExistsError: When there is one already.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)


def sync_directory(folder: Path) -> None:
    """Make a new name in this folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fault_name(error: BaseException) -> str:
    """An exception in words that hold no value: its class, and SQLite's or the system's code."""
    code = getattr(error, "sqlite_errorname", None)
    if isinstance(error, OSError) and error.errno is not None:
        code = errno.errorcode.get(error.errno)
    return f"{type(error).__name__} {code}" if code else type(error).__name__


@contextmanager
def value_free(reason: HaltReason, subject: Callable[[], str]) -> Iterator[None]:
    """Turn what a driver, a codec or the system raises into a `Halted` that holds no value.

    Args:
        reason: The halt's reason.
        subject: What was at work, asked for when it failed: a name of ours.

    Raises:
        Halted: Without the original as its cause or context: it may hold what was being written.
    """
    fault = None
    try:
        yield
    except (sqlite3.Error, OSError, ArithmeticError, ValueError, TypeError) as error:
        fault = fault_name(error)
    if fault is not None:
        verdict = halted(reason, f"{subject()}: {fault}")
        try:
            raise verdict
        finally:
            verdict.__context__ = None


@attrs.frozen(kw_only=True)
class FileKind:
    """What makes a SQLite file one of ours.

    Attributes:
        name: What it is called in a halt: `store`, `mirror`.
        application_id: The mark in SQLite's file header.
        version: The format written and the newest one read, counted from 1.
        schema: The statements that make an empty one.
        failed: The reason of the halt when it cannot be used.
    """

    name: str
    application_id: int
    version: int
    schema: tuple[str, ...]
    failed: HaltReason


class SqliteFile:
    """One SQLite file of ours; used by one thread at a time.

    Args:
        path: Where it is, or is to be made; links are followed.
        kind: What it must be.
    """

    def __init__(self, path: str | os.PathLike[str], kind: FileKind) -> None:
        self.path = Path(os.path.realpath(path))
        self._kind = kind
        self._lock = FileLock(self._beside(".lock"))
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None

    def __str__(self) -> str:
        return f"{self._kind.name} {self.path}"

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    def guard(self, subject: Callable[[], str] | None = None) -> AbstractContextManager[None]:
        """A context that turns driver errors into a halt that names `subject` (the file's name)."""
        return value_free(self._kind.failed, subject or self.__str__)

    def hold(self) -> None:
        """Claim the file for one writer until `close()`; it need not exist yet.

        Raises:
            Halted: `store_locked` when another pipeline holds it.
        """
        with self.guard():
            taken = self._lock.acquire()
        if not taken:
            raise halted(HaltReason.STORE_LOCKED, f"{self} is held by another pipeline")

    def reading(self) -> sqlite3.Connection | None:
        """The connection; None when there is no file.

        Raises:
            Halted: When the file is not usable, or has vanished since it was opened.
        """
        with self.guard():
            if self._connection is None:
                if _identity(self.path) is None:
                    if self._opened is not None:
                        raise self._vanished()
                    return None
                self._connect()
            self.check_present()
            return self._connection

    def writing(self) -> sqlite3.Connection:
        """The connection, held for writing; the file is made when there is none.

        Raises:
            Halted: As `hold` and `reading`.
        """
        self.hold()
        connection = self.reading()
        if connection is None:
            with self.guard():
                self._make()
            connection = self.reading()
            assert connection is not None
        return connection

    def check_present(self) -> None:
        """See that the open file still stands under its name.

        Raises:
            Halted: When it was deleted or exchanged: what is written to it would be lost.
        """
        if _identity(self.path) != self._opened:
            raise self._vanished()

    def close(self) -> None:
        """Let go of file and lock; the next call opens it again."""
        connection, self._connection = self._connection, None
        try:
            if connection is not None:
                with self.guard():
                    connection.close()
        finally:
            self._lock.release()

    def _vanished(self) -> Halted:
        return self._refused("was deleted or exchanged while it was in use")

    def _refused(self, why: str) -> Halted:
        return halted(self._kind.failed, f"{self} {why}")

    def _connect(self) -> None:
        connection = _connect(self.path)
        try:
            self._recognise(connection)
            connection.execute("PRAGMA synchronous = FULL")
            # Where a plain fsync does not reach the disk (macOS), this one does.
            connection.execute("PRAGMA fullfsync = ON")
            self._opened = _identity(self.path)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _recognise(self, connection: sqlite3.Connection) -> None:
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if mark != self._kind.application_id or version < 1:
            raise self._refused(f"is not a {self._kind.name} of capstan")
        if version > self._kind.version:
            raise self._refused(
                f"has format version {version}; this capstan reads up to {self._kind.version}"
            )

    def _make(self) -> None:
        """Build the file beside its place and put it there whole; the lock is held."""
        draft = self._beside(".new")
        # A log without its file is what a crash and a deletion leave: it would be played back.
        for leftover in (draft, self._beside("-wal"), self._beside("-shm")):
            with suppress(FileNotFoundError):
                leftover.unlink()
        descriptor = create_private(draft)
        try:
            connection = _connect(draft)
            try:
                self._fill(connection)
            finally:
                connection.close()
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        draft.rename(self.path)
        sync_directory(self.path.parent)

    def _fill(self, connection: sqlite3.Connection) -> None:
        # The larger page keeps more rows of a clustered table side by side.
        connection.execute("PRAGMA page_size = 8192")
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise self._refused("cannot have a write-ahead log in this folder")
        connection.execute("BEGIN IMMEDIATE")
        for statement in self._kind.schema:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {self._kind.application_id}")
        connection.execute(f"PRAGMA user_version = {self._kind.version}")
        connection.execute("COMMIT")


def _connect(path: Path) -> sqlite3.Connection:
    """Open an existing file; SQLite is told not to create one."""
    return sqlite3.connect(
        f"{path.as_uri()}?mode=rw",
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=_STATEMENTS,
    )
