"""Builds compressed transactions byte by byte, independent of what opens them."""

import struct
from collections.abc import Sequence

import zstandard

from helpers import event_builder as events


def inside(raw: bytes) -> bytes:
    """The event as it stands inside a payload: without checksum, with its own size."""
    bare = raw[:-4]
    return bare[:9] + struct.pack("<I", len(bare)) + bare[13:]


def packed(number: int) -> bytes:
    """A packed integer."""
    if number < 251:
        return bytes([number])
    return b"\xfe" + struct.pack("<Q", number)


def field(kind: int, number: int) -> bytes:
    """One field of a payload's header."""
    value = packed(number)
    return packed(kind) + packed(len(value)) + value


def payload_event(raws: Sequence[bytes], compression: int = 0, *, declared_more: int = 0) -> bytes:
    """A TRANSACTION_PAYLOAD with these events inside; compressed, or not at all (255)."""
    plain = b"".join(map(inside, raws))
    squeezed = zstandard.ZstdCompressor().compress(plain) if compression == 0 else plain
    head = field(1, len(squeezed)) + field(2, compression)
    head += field(3, len(plain) + declared_more) + b"\0"
    return events.event(40, head + squeezed)
