"""Reads wire bytes step by step and never past their end.

House rules: for headers and metadata, where exactness counts and speed does not; rows are read by
generated code. Whatever does not fit is `event_corrupt`, named by what was being read, never by
what the bytes hold.
"""

from capstan.core.halts import Halted, HaltReason, halted


def corrupt(what: str) -> Halted:
    """The halt for bytes that cannot be what they are said to be."""
    return halted(HaltReason.EVENT_CORRUPT, what)


class BoundedReader:
    """A position in bytes, moved forward by what is read.

    Args:
        data: The bytes.
        what: Names the thing being read in halts.
        position: Where to begin.
        end: Where the thing ends; the end of the bytes when None.
    """

    __slots__ = ("_what", "data", "end", "position")

    def __init__(self, data: bytes, what: str, position: int = 0, end: int | None = None) -> None:
        self.data = data
        self.position = position
        self.end = len(data) if end is None else end
        self._what = what

    @property
    def left(self) -> int:
        """How many bytes are still unread."""
        return self.end - self.position

    def take(self, size: int) -> bytes:
        """The next `size` bytes.

        Raises:
            Halted: `event_corrupt` when fewer are left.
        """
        start = self.position
        stop = start + size
        if stop > self.end:
            raise corrupt(f"{self._what} ends early")
        self.position = stop
        return self.data[start:stop]

    def uint(self, size: int) -> int:
        """The next little-endian unsigned integer of `size` bytes."""
        return int.from_bytes(self.take(size), "little")

    def packed(self) -> int:
        """The next length-encoded integer (one byte below 251, else 2, 3 or 8 bytes more)."""
        first = self.uint(1)
        if first < 251:
            return first
        if first in (252, 253, 254):
            return self.uint((2, 3, 8)[first - 252])
        raise corrupt(f"{self._what} has an impossible length")

    def counted(self) -> bytes:
        """The next bytes with their length-encoded length before them."""
        return self.take(self.packed())

    def text(self) -> str:
        """The next counted bytes as the server's own names are written (UTF-8)."""
        try:
            return self.counted().decode()
        except UnicodeDecodeError:
            raise corrupt(f"{self._what} holds a name that is not UTF-8") from None
