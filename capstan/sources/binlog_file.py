"""A binlog file on disk: its magic, its bytes as a memory map, its growth.

House rules: nothing is written and nothing is locked. What is no plain binlog file is refused by
name. Bytes are handed out as a map of the whole file, so that an offset is the same number here, in
the file and in every message; pages that were passed are given back, so that the memory held does
not grow with the file. What an event is, is not known here.

A map shows a file as it is: who cuts a file shorter while it is read ends the process (SIGBUS).
Servers never do that; they delete whole files, which does no harm.
"""

import mmap
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Final, Self

MAGIC: Final = b"\xfebin"
_ENCRYPTED: Final = b"\xfdbin"
_RELEASE_STEP: Final = 8 << 20
_FLAGS_AT: Final = len(MAGIC) + 17
_IN_USE: Final = 1


class FileErrorKind(StrEnum):
    """Why a file, or a row of files, is not read."""

    UNREADABLE = "unreadable"
    NOT_A_BINLOG = "not_a_binlog"
    ENCRYPTED = "encrypted"
    NOT_IN_SEQUENCE = "not_in_sequence"


class BinlogFileError(Exception):
    """A file cannot be read, or does not belong behind the one before it.

    Attributes:
        kind: Why.
        path: Which file.
        detail: Names and GTIDs in one line; may be empty.
    """

    def __init__(self, kind: FileErrorKind, path: Path, detail: str = "") -> None:
        super().__init__(kind, path, detail)
        self.kind = kind
        self.path = path
        self.detail = detail

    def __str__(self) -> str:
        text = f"{self.path}: {self.kind.value}"
        return f"{text}: {self.detail}" if self.detail else text


class BinlogFile:
    """One open file.

    Args:
        path: Where it lies.

    Attributes:
        path: The same.
        data: Its bytes as they were at the last look.

    Raises:
        BinlogFileError: `unreadable`, `not_a_binlog`, `encrypted`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data: mmap.mmap | bytes = b""
        self._released = 0
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise self._refused(FileErrorKind.UNREADABLE, error.strerror or "") from None
        try:
            self.look()
        except BaseException:
            self.close()
            raise

    def look(self) -> bool:
        """Look at the file again; whether there is more of it than before."""
        try:
            size = self._file.seek(0, 2)
            if size <= len(self.data):
                return False
            data = mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ)
        except OSError as error:
            raise self._refused(FileErrorKind.UNREADABLE, error.strerror or "") from None
        self._unmap()
        self.data = data
        self._check_magic(data[: len(MAGIC)])
        return True

    @property
    def in_use(self) -> bool:
        """Whether its server marks it as open: it may still grow, or was never closed."""
        return len(self.data) > _FLAGS_AT and bool(self.data[_FLAGS_AT] & _IN_USE)

    def passed(self, offset: int) -> None:
        """Give the memory of what lies before an offset back, in steps; it can be read again."""
        if offset < self._released:
            self._released = 0
        length = (offset - self._released) // _RELEASE_STEP * _RELEASE_STEP
        if length and isinstance(self.data, mmap.mmap):
            self.data.madvise(mmap.MADV_DONTNEED, self._released, length)
            self._released += length

    def close(self) -> None:
        """Let go of the file."""
        self._unmap()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _unmap(self) -> None:
        if isinstance(self.data, mmap.mmap):
            self.data.close()
        self.data = b""

    def _check_magic(self, found: bytes) -> None:
        if found == _ENCRYPTED:
            raise self._refused(
                FileErrorKind.ENCRYPTED,
                "written with binlog_encryption; let the server itself send it "
                "(mysqlbinlog --read-from-remote-server --raw)",
            )
        if not MAGIC.startswith(found):
            raise self._refused(FileErrorKind.NOT_A_BINLOG, "it does not begin like one")

    def _refused(self, kind: FileErrorKind, detail: str) -> BinlogFileError:
        return BinlogFileError(kind, self.path, detail)
