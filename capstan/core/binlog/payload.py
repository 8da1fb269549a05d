"""Opens compressed transactions: one TRANSACTION_PAYLOAD event becomes the events inside it (D22).

House rules: sizes are bounded twice, the declared one before anything is inflated and the real one
while it is; neither is trusted for the other. Only ZSTD and "not compressed" are known, anything
else is a halt. What comes out is whole events without checksums; what they mean is not known here.

Wire: fields of (type, length, value), each a packed integer: 1 size of the payload, 2 compression
type, 3 size of what is inside; 0 ends them. Then the payload.
"""

from collections.abc import Iterator
from typing import Final

import zstandard

from capstan.core.binlog.framing import Packets
from capstan.core.binlog.header import SIZE, EventType, type_name, unpack_header
from capstan.core.halts import Halted, HaltReason, halted

_END, _PAYLOAD_SIZE, _COMPRESSION, _INFLATED_SIZE = 0, 1, 2, 3
_ZSTD, _NONE = 0, 255
_NEVER_INSIDE: Final = frozenset(
    {
        EventType.STOP,
        EventType.ROTATE,
        EventType.FORMAT_DESCRIPTION,
        EventType.HEARTBEAT,
        EventType.GTID,
        EventType.ANONYMOUS_GTID,
        EventType.PREVIOUS_GTIDS,
        EventType.TRANSACTION_PAYLOAD,
        EventType.HEARTBEAT_V2,
        EventType.GTID_TAGGED,
    }
)
"""Events of files, and those that begin a group of their own."""
_STEP: Final = 1024
"""Input bytes at a time: a block of a few bytes can inflate to 128 KiB, so this bounds how far one
step can go beyond the declared size before it is seen."""


def open_payload(data: bytes, start: int, end: int, limit: int) -> Packets:
    """The events inside the payload event with the body `data[start:end]`.

    Args:
        data: The bytes that hold the event.
        start: Where its body begins.
        end: Where its body ends, before any checksum.
        limit: Bytes that may be inside at most.

    Raises:
        Halted: `event_corrupt` for sizes that do not agree, truncation or a nested payload;
            `unsupported_transaction_shape` for an unknown compression; `transaction_too_large`
            for more than `limit` inside.
    """
    fields, position = _read_fields(data, start, end)
    if fields.get(_PAYLOAD_SIZE) != end - position:
        raise _corrupt("its size is not the declared one")
    declared = fields.get(_INFLATED_SIZE, end - position)
    if declared > limit:
        raise halted(
            HaltReason.TRANSACTION_TOO_LARGE,
            f"a compressed transaction of {declared} bytes against a limit of {limit}",
        )
    inside = _inflate(data[position:end], fields.get(_COMPRESSION), declared)
    if len(inside) != declared:
        raise _corrupt("what is inside has another size than declared")
    return Packets(inside, list(_bounds(inside)), gap=0)


def _read_fields(data: bytes, start: int, end: int) -> tuple[dict[int, int], int]:
    fields: dict[int, int] = {}
    position = start
    while True:
        kind, position = _packed(data, position, end)
        if kind == _END:
            return fields, position
        length, position = _packed(data, position, end)
        if position + length > end or kind in fields:
            raise _corrupt("its header is malformed")
        fields[kind], stop = _packed(data, position, end)
        if kind in (_PAYLOAD_SIZE, _COMPRESSION, _INFLATED_SIZE) and stop != position + length:
            raise _corrupt("its header is malformed")
        position += length


def _packed(data: bytes, position: int, end: int) -> tuple[int, int]:
    if position >= end:
        raise _corrupt("its header is truncated")
    first = data[position]
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first, 0)
    if first in (0xFB, 0xFF) or position + 1 + size > end:
        raise _corrupt("its header is malformed")
    if not size:
        return first, position + 1
    return int.from_bytes(data[position + 1 : position + 1 + size], "little"), position + 1 + size


def _inflate(payload: bytes, compression: int | None, declared: int) -> bytes:
    if compression == _NONE:
        return payload
    if compression != _ZSTD:
        raise halted(
            HaltReason.UNSUPPORTED_TRANSACTION_SHAPE, f"compression type {compression} unknown"
        )
    parts: list[bytes] = []
    size = 0
    try:
        # Streaming: the frame's own idea of its size is never a reason to allocate.
        inflater = zstandard.ZstdDecompressor().decompressobj()
        for at in range(0, len(payload), _STEP):
            part = inflater.decompress(payload[at : at + _STEP])
            size += len(part)
            if size > declared:
                raise _corrupt("more is inside than declared")
            parts.append(part)
    except zstandard.ZstdError:
        raise _corrupt("it cannot be inflated") from None
    if not inflater.eof or inflater.unused_data:
        raise _corrupt("its frame is truncated, or more follows it")
    return b"".join(parts)


def _bounds(inside: bytes) -> Iterator[int]:
    position = 0
    while position < len(inside):
        if len(inside) - position < SIZE:
            raise _corrupt("an event inside is shorter than its header")
        code, size, _log_pos, _flags = unpack_header(inside, position)
        if size < SIZE or position + size > len(inside):
            raise _corrupt("an event inside goes beyond its end")
        if code in _NEVER_INSIDE:
            raise _corrupt(f"{type_name(code)} is inside")
        yield position
        position += size
    yield position


def _corrupt(what: str) -> Halted:
    return halted(HaltReason.EVENT_CORRUPT, f"TRANSACTION_PAYLOAD: {what}")
