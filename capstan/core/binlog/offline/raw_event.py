"""Cuts one event out of a buffer: its header, its bytes, its checksum.

House rules: exactly one event is looked at; what lies behind it does not exist here. Nothing is
believed before it was measured: the header against the buffer, the size against the header, the
bytes against their CRC32. What an event means is not known here.
"""

from struct import Struct
from typing import Final, NamedTuple, Protocol, overload
from zlib import crc32

from capstan.core.binlog.checksum import RESIDUE
from capstan.core.binlog.header import SIZE, type_name
from capstan.core.binlog.offline.decode_errors import DecodeError, DecodeErrorKind
from capstan.core.binlog.offline.decode_limits import U64_MAX

CHECKSUM_SIZE: Final = 4

_HEADER: Final = Struct("<IBIIIH").unpack_from
_new_header: Final = tuple.__new__


class Buffer(Protocol):
    """Bytes, or a memory map: what gives bytes when it is sliced."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int, /) -> int: ...
    @overload
    def __getitem__(self, index: slice, /) -> bytes: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...


class EventHeader(NamedTuple):
    """The 19 bytes before every event.

    Attributes:
        timestamp: Seconds since 1970, when the statement began.
        event_type: The type's number.
        server_id: Of the server that first logged the event.
        event_size: Bytes of the whole event, header and checksum included.
        next_position: Where the server says the next event begins; never relied upon.
        flags: The event's flags.
    """

    timestamp: int
    event_type: int
    server_id: int
    event_size: int
    next_position: int
    flags: int

    @classmethod
    def parse(cls, data: Buffer, offset: int, *, base: int = 0) -> "EventHeader":
        """Read the header at an offset.

        Args:
            data: The buffer.
            offset: Where the event begins.
            base: Where the buffer begins.

        Raises:
            DecodeError: `truncated` when the buffer ends before the header does; `size_invalid`
                for a size below the header's own.
        """
        if not 0 <= offset - base <= len(data) - SIZE:
            raise DecodeError(
                DecodeErrorKind.TRUNCATED, offset=offset, detail="no whole event header is here"
            )
        header = _new_header(cls, _HEADER(data, offset - base))
        if header.event_size < SIZE:
            raise _refused(DecodeErrorKind.SIZE_INVALID, header, offset, f"{header.event_size} B")
        return header

    @property
    def type_name(self) -> str:
        """The type's name, or its number when it is unknown."""
        return type_name(self.event_type)


def whole_event(
    data: Buffer, offset: int, *, checksums: bool, largest: int = U64_MAX, base: int = 0
) -> tuple[EventHeader, bytes, int]:
    """The event at an offset.

    Args:
        data: The buffer; read from `offset` to the event's end.
        offset: Where the event begins.
        checksums: Whether the event ends in a CRC32.
        largest: Bytes that it may have.
        base: Where the buffer begins, when it is only a part of the file.

    Returns:
        Its header, its bytes from the header on, and where in those its body ends: before the
        checksum. The body begins at 19.

    Raises:
        DecodeError: `truncated`, `size_invalid`, `limit_exceeded`, `checksum_mismatch`.
    """
    header = EventHeader.parse(data, offset, base=base)
    start, size = offset - base, header.event_size
    if size > largest:
        detail = f"an event of {size} bytes against a limit of {largest}"
        raise _refused(DecodeErrorKind.LIMIT_EXCEEDED, header, offset, detail)
    raw = data[start : start + size]
    if len(raw) != size:
        detail = f"{len(raw)} of {size} bytes are here"
        raise _refused(DecodeErrorKind.TRUNCATED, header, offset, detail)
    if not checksums:
        return header, raw, size
    if size < SIZE + CHECKSUM_SIZE:
        raise _refused(DecodeErrorKind.SIZE_INVALID, header, offset, f"{size} B with a checksum")
    if crc32(raw) != RESIDUE:
        raise _refused(DecodeErrorKind.CHECKSUM_MISMATCH, header, offset, "")
    return header, raw, size - CHECKSUM_SIZE


def _refused(kind: DecodeErrorKind, header: EventHeader, offset: int, detail: str) -> DecodeError:
    return DecodeError(kind, offset=offset, event_type=header.event_type, detail=detail)
