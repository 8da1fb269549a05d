"""A spool in memory that fails when it is told to, and says how it was used."""

from capstan.core.halts import HaltReason, halted


class MemorySpool:
    """Keeps what is written; may refuse to write, to read, or give wrong bytes back.

    Attributes:
        data: What was written.
        closed: How often it was let go.
        reads: The sizes asked for.
        refuses: `write` or `read`, which then is a halt.
        flips: Whether one bit of what is read comes back wrong.
    """

    def __init__(self, refuses: str = "") -> None:
        self.data = bytearray()
        self.closed = 0
        self.reads: list[int] = []
        self.refuses = refuses
        self.flips = False

    def write(self, data: bytes) -> None:
        """Append."""
        assert not self.closed
        if self.refuses == "write":
            raise halted(HaltReason.SPOOL_FAILED, "no room")
        self.data += data

    def read(self, offset: int, size: int) -> bytes:
        """What lies there."""
        if self.closed:
            raise RuntimeError("closed")
        if self.refuses == "read":
            raise halted(HaltReason.SPOOL_FAILED, "gone")
        self.reads.append(size)
        found = bytearray(self.data[offset : offset + size])
        if self.flips:
            found[-1] ^= 1
        return bytes(found)

    def close(self) -> None:
        """Count."""
        self.closed += 1


class MemorySpools:
    """Opens them.

    Attributes:
        opened: All that were opened, in order.
        refuses: What the next ones refuse; `open` for themselves.
    """

    def __init__(self, refuses: str = "") -> None:
        self.opened: list[MemorySpool] = []
        self.refuses = refuses

    def __call__(self) -> MemorySpool:
        """A new one."""
        if self.refuses == "open":
            raise halted(HaltReason.SPOOL_FAILED, "no folder")
        self.opened.append(MemorySpool(self.refuses))
        return self.opened[-1]
