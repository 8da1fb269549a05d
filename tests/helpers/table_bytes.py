"""Builds TABLE_MAP bodies and row events byte by byte, without the code under test.

Everything is written out from the wire format, so that a test can also write what no server would.
"""

from collections.abc import Sequence
from typing import Final

import attrs

UTF8MB4: Final = 255
BINARY: Final = 63
LATIN1: Final = 8
HEAD: Final = 8
"""Bytes of table id and flags in front of an event's body."""


@attrs.frozen
class Spec:
    """One column of a made table map: everything a server would say about it."""

    name: str
    number: int
    metadata: bytes = b""
    nullable: bool = True
    unsigned: bool | None = None
    collation: int | None = None
    labels: tuple[bytes, ...] | None = None
    geometry: int | None = None
    visible: bool = True


def integer(name: str, *, unsigned: bool = False, nullable: bool = True) -> Spec:
    """An INT."""
    return Spec(name, 3, unsigned=unsigned, nullable=nullable)


def varchar(name: str, size: int = 400, *, collation: int = UTF8MB4, nullable: bool = True) -> Spec:
    """A VARCHAR of at most `size` bytes."""
    return Spec(name, 15, size.to_bytes(2, "little"), collation=collation, nullable=nullable)


def packed(number: int) -> bytes:
    """A length-encoded integer."""
    if number < 251:
        return bytes([number])
    for first, size in ((252, 2), (253, 3), (254, 8)):
        if number < 1 << 8 * size:
            return bytes([first]) + number.to_bytes(size, "little")
    raise AssertionError(number)


def counted(value: bytes) -> bytes:
    """Bytes behind their length-encoded length."""
    return packed(len(value)) + value


def field(number: int, value: bytes) -> bytes:
    """One field of the optional metadata."""
    return bytes([number]) + counted(value)


def _bits(flags: Sequence[bool]) -> bytes:
    """A bit each, the first one highest."""
    padded = [*flags, *[False] * (-len(flags) % 8)]
    return bytes(
        sum(128 >> place for place in range(8) if padded[start + place])
        for start in range(0, len(padded), 8)
    )


def _labels(columns: Sequence[Spec]) -> bytes:
    return b"".join(
        packed(len(column.labels or ())) + b"".join(map(counted, column.labels or ()))
        for column in columns
    )


def full_metadata(columns: Sequence[Spec]) -> dict[int, bytes]:
    """The fields of binlog_row_metadata=FULL by number, without a key."""
    signed = [column.unsigned for column in columns if column.unsigned is not None]
    labelled = [column for column in columns if column.labels is not None]
    texts = [c.collation for c in columns if c.collation is not None and c.labels is None]
    sets = [column for column in labelled if column.metadata[0] == 0xF8]
    enums = [column for column in labelled if column.metadata[0] == 0xF7]
    fields = {
        1: _bits(signed),
        3: b"".join(map(packed, texts)),
        4: b"".join(counted(column.name.encode()) for column in columns),
        5: _labels(sets),
        6: _labels(enums),
        7: b"".join(packed(c.geometry) for c in columns if c.geometry is not None),
        11: b"".join(packed(column.collation or 0) for column in labelled),
        12: _bits([column.visible for column in columns]),
    }
    return {number: value for number, value in fields.items() if value}


def table_map(
    columns: Sequence[Spec],
    *,
    schema: bytes = b"shop",
    table: bytes = b"orders",
    fields: dict[int, bytes] | None = None,
    **more: bytes,
) -> bytes:
    """A TABLE_MAP body; `fields` stands in for the whole optional metadata, `more` adds raw bytes.

    `more` may hold `key` (places of a simple key) and `tail` (bytes at the very end).
    """
    nullable = sum(1 << place for place, column in enumerate(columns) if column.nullable)
    metadata = b"".join(column.metadata for column in columns)
    optional = dict(full_metadata(columns) if fields is None else fields)
    if "key" in more:
        optional[8] = more["key"]
    return (
        counted(schema)
        + b"\0"
        + counted(table)
        + b"\0"
        + packed(len(columns))
        + bytes(column.number for column in columns)
        + counted(metadata)
        + nullable.to_bytes((len(columns) + 7) // 8, "little")
        + b"".join(field(number, value) for number, value in sorted(optional.items()))
        + more.get("tail", b"")
    )


def image(columns: int, values: Sequence[bytes | None]) -> bytes:
    """One row image: the null bitmap, padded with ones as the server pads it, and the values."""
    mask = sum(1 << place for place, value in enumerate(values) if value is None)
    mask |= (1 << -columns % 8) - 1 << columns
    size = (columns + 7) // 8
    return mask.to_bytes(size, "little") + b"".join(value for value in values if value is not None)


def row_event(
    columns: int,
    images: Sequence[bytes],
    *,
    bitmaps: int = 1,
    extra: bytes = b"",
    present: int | None = None,
) -> bytes:
    """The body of a version 2 row event from its extra data's length on."""
    size = (columns + 7) // 8
    bits = (1 << 8 * size) - 1 if present is None else present
    return (
        (2 + len(extra)).to_bytes(2, "little")
        + extra
        + packed(columns)
        + bits.to_bytes(size, "little") * bitmaps
        + b"".join(images)
    )
