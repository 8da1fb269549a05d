"""The JSON lines sink: one JSON object a change, appended to a file or written to a stream.

House rules: returning means that the lines are out: flushed, and for a file on the disk. It keeps
no position: after a crash the items of one batch may come again. A file is written by one pipeline
at a time; the incomplete line that a crash leaves at its end is cut off when it is opened, and what
a failed call wrote is taken back. What the lines look like is told in `jsonl_text`.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from capstan.core.changes import Change, Item, SchemaChange, SnapshotMeta, Transaction
from capstan.core.halts import HaltReason, halted
from capstan.files import FileLock, sync_directory, value_free
from capstan.sinks import jsonl_text
from capstan.sinks.base import Sink

_PIECE: Final = 1 << 16
_BEGINNINGS: Final = (b'{"gtid": "', b'{"position": "')
_LONGEST_BEGINNING: Final = max(_BEGINNINGS, key=len)


class JsonLinesSink(Sink):
    """Writes changes as JSON lines.

    Args:
        stream_or_path: A text stream, left open at the end; or the path of a file to append to,
            made private to its owner when there is none.
    """

    def __init__(self, stream_or_path: IO[str] | str | os.PathLike[str]) -> None:
        if isinstance(stream_or_path, str | os.PathLike):
            self._target: _File | _Stream = _File(Path(stream_or_path))
        else:
            self._target = _Stream(stream_or_path)
        self._lines = jsonl_text.Lines()

    def __repr__(self) -> str:
        return f"JsonLinesSink({self._target})"

    def open(self) -> None:
        """Open the file and cut off an incomplete last line.

        Raises:
            Halted: `store_locked` when another pipeline writes it, `sink_failed` when it cannot be
                opened or ends in something that is no line of this sink.
        """
        self._target.open()

    def close(self) -> None:
        """Close the file; a stream is left alone."""
        self._target.close()

    def handle_transaction(self, transaction: Transaction) -> None:
        """Write one transaction."""
        self._target.write(self._lines.transaction(transaction))

    def handle_schema_changes(self, changes: Sequence[SchemaChange]) -> None:
        """Write all schema changes of one GTID."""
        self._target.write(jsonl_text.schema_changes(changes))

    def handle_snapshot(self, changes: Sequence[Change], meta: SnapshotMeta) -> None:
        """Write one chunk of a backfill."""
        self._target.write(self._lines.snapshot(changes, meta))

    def handle_batch(self, items: Sequence[Item]) -> None:
        """Write several items with one flush."""
        self._target.write(line for item in items for line in self._item(item))

    def _item(self, item: Item) -> Iterator[str]:
        if isinstance(item, Transaction):
            return self._lines.transaction(item)
        return jsonl_text.schema_changes(item.changes)


class _Stream:
    """A stream of the host's: written and flushed, never closed."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __str__(self) -> str:
        return "a stream"

    def open(self) -> None:
        """Nothing to do: it is open."""

    def close(self) -> None:
        """Nothing to do: it is the host's."""

    def write(self, lines: Iterable[str]) -> None:
        with value_free(HaltReason.SINK_FAILED, self.__str__):
            self._stream.writelines(lines)
            self._stream.flush()


class _File:
    """A file of lines, locked while it is open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock(path)
        self._descriptor: int | None = None

    def __str__(self) -> str:
        return f"file {self._path}"

    def open(self) -> None:
        if self._descriptor is not None:
            return
        with value_free(HaltReason.SINK_FAILED, self.__str__):
            taken = self._lock.acquire()
        if not taken:
            raise halted(HaltReason.STORE_LOCKED, f"{self} is held by another pipeline")
        with value_free(HaltReason.SINK_FAILED, self.__str__):
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        try:
            with value_free(HaltReason.SINK_FAILED, self.__str__):
                self._prepare(self._descriptor)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        try:
            if descriptor is not None:
                os.close(descriptor)
        finally:
            self._lock.release()

    def write(self, lines: Iterable[str]) -> None:
        self.open()
        assert self._descriptor is not None
        start = os.fstat(self._descriptor).st_size
        try:
            with value_free(HaltReason.SINK_FAILED, self.__str__):
                _append(self._descriptor, lines)
                os.fsync(self._descriptor)
        except BaseException:
            # None of it counts as accepted. Where this fails too, the lines come twice.
            with suppress(OSError):
                os.truncate(self._descriptor, start)
            raise

    def _prepare(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise halted(HaltReason.SINK_FAILED, f"{self} is not a regular file")
        tail = _after_last_break(descriptor, found.st_size)
        kept = os.pread(descriptor, len(_LONGEST_BEGINNING), tail)
        if not any(kept.startswith(b[: len(kept)]) for b in _BEGINNINGS):
            raise halted(HaltReason.SINK_FAILED, f"{self} does not end in a line of capstan")
        os.truncate(descriptor, tail)
        os.fsync(descriptor)
        sync_directory(self._path.parent)


def _append(descriptor: int, lines: Iterable[str]) -> None:
    held = bytearray()
    for line in lines:
        held += line.encode()
        if len(held) >= _PIECE:
            _write_all(descriptor, held)
            held.clear()
    _write_all(descriptor, held)


def _write_all(descriptor: int, data: bytearray) -> None:
    written = 0
    while written < len(data):
        written += os.write(descriptor, bytes(data[written:]))


def _after_last_break(descriptor: int, size: int) -> int:
    """Where the last line that lacks its line break begins; the end when none does."""
    end = size
    while end > 0:
        start = max(0, end - _PIECE)
        place = os.pread(descriptor, end - start, start).rfind(b"\n")
        if place >= 0:
            return start + place + 1
        end = start
    return 0
