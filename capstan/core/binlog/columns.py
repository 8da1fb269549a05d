"""What a table map says about a column: its wire type, its metadata, its public description.

House rules: this file knows type numbers and how wide their metadata is, and turns them into the
words of SQL. How values are read is not known here. A type that is not listed has no guessable
metadata, so the whole map is refused.
"""

from enum import IntEnum
from typing import Final

import attrs

from capstan.core.binlog.bounded_reader import BoundedReader, corrupt
from capstan.core.binlog.collations import LONGEST_CHARACTER
from capstan.core.tables import Column


class FieldType(IntEnum):
    """The type numbers of table maps."""

    DECIMAL = 0
    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    TYPED_ARRAY = 20
    VECTOR = 242
    INVALID = 243
    BOOL = 244
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


INTEGERS: Final = {
    FieldType.TINY: "tinyint",
    FieldType.SHORT: "smallint",
    FieldType.INT24: "mediumint",
    FieldType.LONG: "int",
    FieldType.LONGLONG: "bigint",
}
"""The integer types and their names."""

HAS_SIGN: Final = frozenset(
    {*INTEGERS, FieldType.NEWDECIMAL, FieldType.FLOAT, FieldType.DOUBLE, FieldType.YEAR}
)
"""The types that have a bit each in the signedness field, in column order."""

HAS_COLLATION: Final = frozenset(
    {FieldType.VARCHAR, FieldType.STRING, FieldType.BLOB, FieldType.VECTOR}
)
"""The types that have a collation each in the character set fields, ENUM and SET apart."""

HAS_LABELS: Final = frozenset({FieldType.ENUM, FieldType.SET})
"""The types with labels and a collation of their own."""

_METADATA_SIZE: Final = {
    FieldType.TINY: 0,
    FieldType.SHORT: 0,
    FieldType.INT24: 0,
    FieldType.LONG: 0,
    FieldType.LONGLONG: 0,
    FieldType.YEAR: 0,
    FieldType.DATE: 0,
    FieldType.TIME: 0,
    FieldType.DATETIME: 0,
    FieldType.TIMESTAMP: 0,
    FieldType.FLOAT: 1,
    FieldType.DOUBLE: 1,
    FieldType.TIMESTAMP2: 1,
    FieldType.DATETIME2: 1,
    FieldType.TIME2: 1,
    FieldType.BLOB: 1,
    FieldType.GEOMETRY: 1,
    FieldType.JSON: 1,
    FieldType.VECTOR: 1,
    FieldType.BIT: 2,
    FieldType.VARCHAR: 2,
    FieldType.NEWDECIMAL: 2,
    FieldType.STRING: 2,
}

_FIXED_NAMES: Final = {
    **INTEGERS,
    FieldType.FLOAT: "float",
    FieldType.DOUBLE: "double",
    FieldType.NEWDECIMAL: "decimal",
    FieldType.BIT: "bit",
    FieldType.YEAR: "year",
    FieldType.DATE: "date",
    FieldType.TIME: "time",
    FieldType.DATETIME: "datetime",
    FieldType.TIMESTAMP: "timestamp",
    FieldType.TIME2: "time",
    FieldType.DATETIME2: "datetime",
    FieldType.TIMESTAMP2: "timestamp",
    FieldType.ENUM: "enum",
    FieldType.SET: "set",
    FieldType.JSON: "json",
    FieldType.VECTOR: "vector",
}

_OLD_TEMPORALS: Final = frozenset({FieldType.TIME, FieldType.DATETIME, FieldType.TIMESTAMP})
"""As servers before 5.6 made them."""
_BLOB_SIZES: Final = {1: "tiny", 2: "", 3: "medium", 4: "long"}
_GEOMETRIES: Final = (
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geomcollection",
)
GEOMETRY_TYPES: Final = len(_GEOMETRIES)
"""Geometry type numbers are below this."""

_LENGTH_BYTES: Final = frozenset({1, 2, 3, 4})


@attrs.frozen(kw_only=True)
class WireColumn:
    """One column as its values lie in a row image.

    Attributes:
        name: Its name.
        type: Its type; ENUM and SET are told apart from CHAR.
        size: CHAR, VARCHAR: longest value in bytes. BLOB, JSON, GEOMETRY, VECTOR: bytes of the
            length in front. ENUM, SET: bytes of the value. BIT: bits. Else 0.
        precision: Total digits of a decimal.
        scale: Digits after the point of a decimal.
        fsp: Fractional second digits.
        nullable: Whether NULL is allowed.
        visible: False for an invisible column.
        unsigned: The bit of the signedness field; set for every YEAR.
        charset: Character set of text, enum and set; `binary` for bytes; None elsewhere.
        labels: The members of an ENUM or SET, as bytes in `charset`.
        geometry: The geometry type's number, 0 for any.
    """

    name: str
    type: FieldType
    size: int = 0
    precision: int | None = None
    scale: int | None = None
    fsp: int | None = None
    nullable: bool = True
    visible: bool = True
    unsigned: bool = False
    charset: str | None = None
    labels: tuple[bytes, ...] = attrs.field(default=(), repr=False)
    geometry: int = 0


@attrs.frozen(kw_only=True)
class TypeFacts:
    """A column's type number with its metadata read; the fields are those of `WireColumn`."""

    type: FieldType
    size: int = 0
    precision: int | None = None
    scale: int | None = None
    fsp: int | None = None


def type_name(number: int) -> str:
    """The word for a type number in halts."""
    try:
        return FieldType(number).name
    except ValueError:
        return f"type {number}"


def readable(number: int) -> bool:
    """Whether the metadata of this type number has a known width."""
    return number in _METADATA_SIZE


def read_facts(number: int, metadata: BoundedReader) -> TypeFacts:
    """Read one column's metadata; `readable(number)` must hold.

    Raises:
        Halted: `event_corrupt` for metadata that no server writes.
    """
    kind = FieldType(number)
    raw = metadata.take(_METADATA_SIZE[kind])
    if kind is FieldType.STRING:
        return _string_facts(raw[0], raw[1])
    if kind is FieldType.VARCHAR:
        return TypeFacts(type=kind, size=raw[0] | raw[1] << 8)
    if kind is FieldType.NEWDECIMAL:
        precision, scale = raw
        if not (1 <= precision <= 65 and scale <= min(precision, 30)):
            raise corrupt(f"a decimal({precision},{scale}) in a table map")
        return TypeFacts(type=kind, precision=precision, scale=scale)
    if kind is FieldType.BIT:
        bits = raw[0] + raw[1] * 8
        if not (raw[0] < 8 and 1 <= bits <= 64):
            raise corrupt(f"a bit({bits}) in a table map")
        return TypeFacts(type=kind, size=bits)
    if kind in _OLD_TEMPORALS:
        return TypeFacts(type=kind, fsp=0)
    if kind in (FieldType.TIMESTAMP2, FieldType.DATETIME2, FieldType.TIME2):
        if raw[0] > 6:
            raise corrupt(f"{raw[0]} fractional digits in a table map")
        return TypeFacts(type=kind, fsp=raw[0])
    if kind in (FieldType.BLOB, FieldType.GEOMETRY, FieldType.JSON, FieldType.VECTOR):
        if raw[0] not in _LENGTH_BYTES:
            raise corrupt(f"a length of {raw[0]} bytes in a table map")
        return TypeFacts(type=kind, size=raw[0])
    return TypeFacts(type=kind)


def _string_facts(high: int, low: int) -> TypeFacts:
    """CHAR, BINARY, ENUM and SET share a number.

    The first byte is the real type. For a CHAR of over 255 bytes two bits of the length are hidden
    in it, inverted, at 0x30.
    """
    if high | 0x30 == FieldType.STRING:
        return TypeFacts(type=FieldType.STRING, size=low | ((high & 0x30) ^ 0x30) << 4)
    if high == FieldType.ENUM and low in (1, 2):
        return TypeFacts(type=FieldType.ENUM, size=low)
    if high == FieldType.SET and low in (1, 2, 3, 4, 8):
        return TypeFacts(type=FieldType.SET, size=low)
    raise corrupt("impossible string metadata in a table map")


def public_column(wire: WireColumn, key_position: int | None) -> Column:
    """The public description of a column.

    A YEAR is not called unsigned: SQL has no such modifier for it.
    """
    return Column(
        name=wire.name,
        type=sql_type(wire),
        length=_length(wire),
        precision=wire.precision,
        scale=wire.scale,
        fsp=wire.fsp,
        unsigned=wire.unsigned and wire.type is not FieldType.YEAR,
        charset=wire.charset if wire.type is not FieldType.VECTOR else None,
        nullable=wire.nullable,
        visible=wire.visible,
        key_position=key_position,
    )


def sql_type(wire: WireColumn) -> str:
    """The column's type as `information_schema.columns.data_type` names it."""
    if (name := _FIXED_NAMES.get(wire.type)) is not None:
        return name
    bytes_only = wire.charset == "binary"
    if wire.type is FieldType.BLOB:
        return _BLOB_SIZES[wire.size] + ("blob" if bytes_only else "text")
    if wire.type is FieldType.GEOMETRY:
        return _GEOMETRIES[wire.geometry]
    base = "binary" if bytes_only else "char"
    return base if wire.type is FieldType.STRING else f"var{base}"


def _length(wire: WireColumn) -> int | None:
    if wire.type is FieldType.BIT:
        return wire.size
    if wire.type in (FieldType.STRING, FieldType.VARCHAR) and wire.charset is not None:
        return wire.size // LONGEST_CHARACTER[wire.charset]
    return None
