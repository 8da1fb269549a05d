"""Goes through a row of binlog files, event by event, in order.

House rules: files must follow one another, and each must end with a whole event; what does not is
an error with its file and offset. A file that is being written may be waited for, by a `Tail` that
decides how long and when to stop. What events mean is decided in `core`.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Final, Protocol

from capstan.core.binlog.file_sequence import FileSequence, SequenceError, successor
from capstan.core.binlog.header import SIZE
from capstan.core.binlog.offline.decode_errors import DecodeError, DecodeErrorKind
from capstan.core.binlog.offline.format_description import MAGIC_SIZE
from capstan.core.gtid import GtidSet
from capstan.sources.binlog_file import BinlogFile, BinlogFileError, FileErrorKind

_TYPE_AND_SIZE: Final = Struct("<4xB4xI").unpack_from

_STEP: Final = 4 << 20


class Tail(Protocol):
    """Waits for files to grow."""

    def wait(self) -> bool:
        """Let some time pass; False to read no further."""


def unwatched(_path: Path, _offset: int) -> None:
    """Watch nothing."""


class Place:
    """Where the reading of one file is.

    Args:
        file: The open file.
        tail: Waits for more of it; None to take it as it is.
        watch: Told how far the reading is.

    Attributes:
        file: The file.
        offset: Where the next event begins.
        end: Where it ends, behind `at_event`.
        last: Set when nothing can come any more: the file was rotated or its server stopped.
        stopped: Whether the tail said to stop.
    """

    def __init__(
        self, file: BinlogFile, tail: Tail | None, watch: Callable[[Path, int], None]
    ) -> None:
        self.file = file
        self.offset = self.end = MAGIC_SIZE
        self.last = False
        self.stopped = False
        self._tail = tail
        self._watch = watch
        self._mark = _STEP

    def at_event(self) -> bool:
        """Whether a whole event begins here; False at the end of the file.

        Raises:
            DecodeError: `truncated`.
        """
        while True:
            have = len(self.file.data) - self.offset
            code, size = None, SIZE
            if have >= SIZE:
                code, size = _TYPE_AND_SIZE(self.file.data, self.offset)
                if have >= size:
                    # A size that cannot be is told by whoever reads the event.
                    self.end = self.offset + max(size, SIZE)
                    return True
            if self._tail is not None and not self.last and self._grows(self._tail):
                continue
            if have <= 0 or self.stopped:
                return False
            what = f"{have} of {size} bytes" if code is not None else f"{have} bytes of a header"
            raise DecodeError(
                DecodeErrorKind.TRUNCATED,
                offset=self.offset,
                event_type=code,
                detail=f"the file ends in its last event: {what} are there",
            )

    def move(self, offset: int) -> None:
        """Go on to the event at an offset."""
        self.offset = offset
        if offset >= self._mark:
            self.passed(offset)

    def passed(self, offset: int) -> None:
        """Note how far the reading is; worth a call now and then."""
        self._mark = offset + _STEP
        self.file.passed(offset)
        self._watch(self.file.path, offset)

    def _grows(self, tail: Tail) -> bool:
        """Wait for more; False when there will be none."""
        while not self.file.look():
            if _follower(self.file.path, None) is not None:
                # What was written between the look and the birth of the next file.
                return self.file.look()
            if not tail.wait():
                self.stopped = True
                return False
        return True


class BinlogWalk:
    """Opens file after file.

    Args:
        paths: In order.
        tail: Waits for growth of the last file, and for those that follow it; None to end there.
        watch: Told how far the reading is.

    Attributes:
        path: The file that is being read.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        tail: Tail | None = None,
        watch: Callable[[Path, int], None] = unwatched,
    ) -> None:
        self._paths = list(paths)
        self._tail = tail
        self._watch = watch
        self._sequence = FileSequence()
        self.path = self._paths[0]
        self._place: Place | None = None
        self._ended_waiting = False
        self._next: str | None = None

    @property
    def stopped(self) -> bool:
        """Whether the tail said to stop."""
        return self._ended_waiting or (self._place is not None and self._place.stopped)

    def places(self) -> Iterator[Place]:
        """One place a file; what is done with it must be told by `begun` and `ended`.

        Raises:
            BinlogFileError: For a file that is none, or not the next one.
        """
        waiting = list(reversed(self._paths))
        while waiting:
            self.path = waiting.pop()
            self._check(lambda: self._sequence.enter(self.path.name))
            with BinlogFile(self.path) as file:
                # Only of the last file is more to be expected.
                self._place = Place(file, None if waiting else self._tail, self._watch)
                if not self._place.at_event():
                    if not self.stopped:
                        kind = FileErrorKind.NOT_A_BINLOG
                        raise BinlogFileError(kind, self.path, "no event is in it")
                    return
                self._next = None
                yield self._place
            if not waiting and self._tail is not None and not self.stopped:
                waiting += self._awaited(self._tail)

    def begun(self, previous_gtids: GtidSet | None) -> None:
        """Hear what the file says of those before it."""
        if previous_gtids is not None:
            self._check(lambda: self._sequence.previous_gtids(previous_gtids))

    def ended(self, next_file: str | None, found: GtidSet) -> None:
        """Hear what the file was: which file it names, and all GTIDs that were read so far."""
        self._next = next_file
        self._sequence.leave(next_file, found)

    def _awaited(self, tail: Tail) -> list[Path]:
        while (path := _follower(self.path, self._next)) is None:
            if not tail.wait():
                self._ended_waiting = True
                return []
        return [path]

    def _check(self, look: Callable[[], None]) -> None:
        try:
            look()
        except SequenceError as error:
            raise BinlogFileError(FileErrorKind.NOT_IN_SEQUENCE, self.path, str(error)) from None


def _follower(path: Path, named: str | None) -> Path | None:
    """The file that goes on behind this one, when it exists."""
    name = successor(path.name) if named is None else named.rpartition("/")[2]
    following = None if not name else path.with_name(name)
    return following if following is not None and following.exists() else None
