"""Opens compressed transactions: one TRANSACTION_PAYLOAD event becomes the events inside it (D22).

House rules: what is inside is inflated and cut piece by piece, so that its size is no matter of
memory. The declared size and the real one must agree and neither is trusted for the other: what is
inflated never goes further beyond the declared size than one step, and a size that is declared is
never a reason to allocate. Only ZSTD and "not compressed" are known, anything else is a halt. What
comes out is whole events without checksums; what they mean is not known here. Until the last piece
is out nothing says that the payload is good.

Wire: fields of (type, length, value), each a packed integer: 1 size of the payload, 2 compression
type, 3 size of what is inside; 0 ends them. Then the payload.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import zstandard

from capstan.core.binlog.framing import MAX_EVENT_BYTES, Packets
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
_STEP: Final = 256
"""Input bytes at a time: a block of four bytes can inflate to 128 KiB, so this bounds what one step
can give, to 8 MiB."""
_PIECE: Final = 1 << 17
"""Inflated bytes that are worth a walk over the events in them."""


def open_payload(data: bytes, start: int, end: int) -> Iterator[Packets]:
    """The events inside the payload event with the body `data[start:end]`, piece by piece.

    Args:
        data: The bytes that hold the event.
        start: Where its body begins.
        end: Where its body ends, before any checksum.

    Raises:
        Halted: `event_corrupt` for sizes that do not agree, truncation or a nested payload;
            `unsupported_transaction_shape` for an unknown compression. While it is iterated, too.
    """
    fields, position = _read_fields(data, start, end)
    if fields.get(_PAYLOAD_SIZE) != end - position:
        raise _corrupt("its size is not the declared one")
    declared = fields.get(_INFLATED_SIZE, end - position)
    compression = fields.get(_COMPRESSION)
    squeezed = memoryview(data)[position:end]
    if compression == _NONE:
        return _cut(_steps(squeezed, _PIECE), declared)
    if compression != _ZSTD:
        raise halted(
            HaltReason.UNSUPPORTED_TRANSACTION_SHAPE, f"compression type {compression} unknown"
        )
    return _cut(_inflate(squeezed), declared)


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


def _steps(data: memoryview, size: int) -> Iterator[memoryview]:
    return (data[at : at + size] for at in range(0, len(data), size))


def _inflate(squeezed: memoryview) -> Iterator[bytes]:
    # Streaming: the frame's own idea of its size is never a reason to allocate.
    inflater = zstandard.ZstdDecompressor().decompressobj()
    try:
        for step in _steps(squeezed, _STEP):
            yield inflater.decompress(step)
    except zstandard.ZstdError:
        raise _corrupt("it cannot be inflated") from None
    if not inflater.eof or inflater.unused_data:
        raise _corrupt("its frame is truncated, or more follows it")


def _cut(parts: Iterable[bytes | memoryview], declared: int) -> Iterator[Packets]:
    """Cut whole events out of what comes; together it must have the declared size."""
    size, waiting, wanted = 0, bytearray(), _PIECE
    for part in parts:
        size += len(part)
        if size > declared:
            raise _corrupt("more is inside than declared")
        waiting += part
        if len(waiting) >= wanted:
            bounds, missing = _bounds(waiting)
            if missing > declared - size:
                raise _corrupt("an event inside goes beyond its end")
            wanted = max(_PIECE, len(waiting) - bounds[-1] + missing)
            if len(bounds) > 1:
                yield Packets(bytes(waiting), bounds, gap=0)
                del waiting[: bounds[-1]]
    if size != declared:
        raise _corrupt("what is inside has another size than declared")
    bounds, missing = _bounds(waiting)
    if missing or bounds[-1] != len(waiting):
        raise _corrupt("its last event is cut off")
    yield Packets(bytes(waiting), bounds, gap=0)


def _bounds(inside: bytearray) -> tuple[list[int], int]:
    """Where each whole event begins, and the one behind them; how much that one lacks."""
    bounds, position, have = [0], 0, len(inside)
    while have - position >= SIZE:
        code, size, _log_pos, _flags = unpack_header(inside, position)
        if size < SIZE:
            raise _corrupt("an event inside is shorter than its header")
        if size > MAX_EVENT_BYTES:
            raise _corrupt(f"an event inside of over {MAX_EVENT_BYTES} bytes")
        if code in _NEVER_INSIDE:
            raise _corrupt(f"{type_name(code)} is inside")
        if position + size > have:
            return bounds, position + size - have
        position += size
        bounds.append(position)
    return bounds, 0


def _corrupt(what: str) -> Halted:
    return halted(HaltReason.EVENT_CORRUPT, f"TRANSACTION_PAYLOAD: {what}")
