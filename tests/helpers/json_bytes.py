"""Writes MySQL's binary JSON, as the server writes a new document, without the code under test."""

from collections.abc import Sequence
from struct import pack
from typing import Any

import attrs


@attrs.frozen
class Opaque:
    """A value that JSON itself does not have: MySQL's type number and its bytes."""

    kind: int
    raw: bytes


@attrs.frozen
class Int:
    """An integer of a chosen width: type byte and `struct` character."""

    kind: int
    layout: str
    value: int


def length(size: int) -> bytes:
    """A length of 7 bits a byte."""
    out = bytearray()
    while size > 127:
        out.append(size & 127 | 128)
        size >>= 7
    return bytes([*out, size])


def document(value: Any, *, large: bool = False) -> bytes:
    """A whole document; `large` forces the large form everywhere."""
    kind, raw = encoded(value, large=large)
    return bytes([kind]) + raw


def encoded(value: Any, *, large: bool = False) -> tuple[int, bytes]:
    """The type byte and the bytes of one value."""
    if isinstance(value, dict):
        return (1 if large else 0), _container(list(value.items()), large)
    if isinstance(value, list):
        return (3 if large else 2), _container([(None, item) for item in value], large)
    if value is None or isinstance(value, bool):
        return 4, bytes([{None: 0, True: 1, False: 2}[value]])
    if isinstance(value, str):
        return 12, length(len(value.encode())) + value.encode()
    if isinstance(value, float):
        return 11, pack("<d", value)
    if isinstance(value, Opaque):
        return 15, bytes([value.kind]) + length(len(value.raw)) + value.raw
    if isinstance(value, Int):
        return value.kind, pack(f"<{value.layout}", value.value)
    return _integer(value)


def _integer(value: int) -> tuple[int, bytes]:
    for kind, layout, bits, signed in (
        (5, "h", 16, True),
        (6, "H", 16, False),
        (7, "i", 32, True),
        (8, "I", 32, False),
        (9, "q", 64, True),
        (10, "Q", 64, False),
    ):
        low = -(1 << bits - 1) if signed else 0
        if low <= value < low + (1 << bits):
            return kind, pack(f"<{layout}", value)
    raise AssertionError(value)


def _container(items: Sequence[tuple[str | None, Any]], large: bool) -> bytes:
    """Count, size, key entries, value entries, keys, values."""
    number, wide = ("I", 4) if large else ("H", 2)
    inline = {4, 5, 6, 7, 8} if large else {4, 5, 6}
    keys = [key.encode() for key, _ in items if key is not None]
    place = 2 * wide + len(keys) * (wide + 2) + len(items) * (wide + 1)
    key_entries = b""
    for key in keys:
        key_entries += pack(f"<{number}H", place, len(key))
        place += len(key)
    value_entries = values = b""
    for _, item in items:
        kind, raw = encoded(item, large=large)
        if kind in inline:
            value_entries += bytes([kind]) + raw.ljust(wide, b"\0")
        else:
            value_entries += bytes([kind]) + pack(f"<{number}", place)
            values += raw
            place += len(raw)
    head = pack(f"<{number}{number}", len(items), place)
    return head + key_entries + value_entries + b"".join(keys) + values
