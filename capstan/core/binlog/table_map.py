"""Parses TABLE_MAP bodies: which table row events belong to and how its rows are laid out.

House rules: the body is judged whole before anything of it is used; nothing is completed by guess.
A server whose binlog_row_metadata is not FULL leaves out names or signs: that is a halt naming the
table, not a table with invented names. A filtered table costs only `peek_name`.

The key is the one the server names here (D5): the primary key, else the unique key that the server
itself takes for it; never a functional one. A primary key with a prefix part still is the key: when
prefixes are unique whole values are too. Its prefix lengths stand in `key_prefixes`, for whoever
needs the key's order as well. The server never names a unique key with a prefix part.
"""

from collections.abc import Collection, Iterator
from typing import TypeVar

import attrs

from capstan.core.binlog.bounded_reader import BoundedReader, corrupt
from capstan.core.binlog.collations import CHARSET_OF_COLLATION
from capstan.core.binlog.columns import (
    GEOMETRY_TYPES,
    HAS_COLLATION,
    HAS_LABELS,
    HAS_SIGN,
    FieldType,
    TypeFacts,
    WireColumn,
    public_column,
    read_facts,
    readable,
    type_name,
)
from capstan.core.binlog.optional_metadata import (
    DefaultCollation,
    OptionalMetadata,
    read_optional,
)
from capstan.core.halts import Halted, HaltReason, halted
from capstan.core.tables import TableShape

MAX_COLUMNS = 4096
"""The server's own limit."""

_WHAT = "a table map"
_T = TypeVar("_T")


@attrs.frozen(eq=False)
class TableMap:
    """A parsed table map.

    Attributes:
        shape: The public description.
        wire: Each column as it lies in a row image.
        key_prefixes: For each column of the key the length of its prefix, 0 for a whole column.
    """

    shape: TableShape
    wire: tuple[WireColumn, ...]
    key_prefixes: tuple[int, ...] = ()


def peek_name(body: bytes) -> tuple[str, str]:
    """Only the schema and the table of a TABLE_MAP body.

    Raises:
        Halted: `event_corrupt` when the names are cut off or no UTF-8.
    """
    return _read_name(BoundedReader(body, _WHAT))


def parse(body: bytes) -> TableMap:
    """Read a TABLE_MAP body.

    Args:
        body: The event's bytes behind the 8 bytes of table id and flags, without checksum.

    Raises:
        Halted: `event_corrupt` for a malformed body, `binlog_row_metadata_not_full` when names,
            signs, collations or labels are missing, `unsupported_column_type` for a type or
            collation that is not known.
    """
    reader = BoundedReader(body, _WHAT)
    schema, table = _read_name(reader)
    count = reader.packed()
    if not 1 <= count <= MAX_COLUMNS:
        raise corrupt(f"a table map with {count} columns")
    numbers = reader.take(count)
    metadata = BoundedReader(reader.counted(), _WHAT)
    nullable = reader.take((count + 7) // 8)
    optional = read_optional(reader)
    where = f"{schema}.{table}"
    names = _exactly(range(count), optional.names, where, "column names")
    facts = _read_types(numbers, names, metadata, where)
    wire = tuple(_wire_columns(where, names, facts, nullable, optional))
    key = _checked_key(optional.key or (), count)
    places = {place: position for position, (place, _) in enumerate(key)}
    columns = tuple(public_column(column, places.get(i)) for i, column in enumerate(wire))
    shape = TableShape(schema, table, columns, tuple(places))
    return TableMap(shape, wire, tuple(prefix for _, prefix in key))


def _read_name(reader: BoundedReader) -> tuple[str, str]:
    names: list[str] = []
    for _ in range(2):
        names.append(reader.text())
        if reader.uint(1):
            raise corrupt("a name in a table map is not ended")
    return names[0], names[1]


def _read_types(
    numbers: bytes, names: dict[int, str], metadata: BoundedReader, where: str
) -> list[TypeFacts]:
    facts: list[TypeFacts] = []
    for place, number in enumerate(numbers):
        if not readable(number):
            raise halted(
                HaltReason.UNSUPPORTED_COLUMN_TYPE,
                f"{where}.{names[place]}: {type_name(number)}",
            )
        facts.append(read_facts(number, metadata))
    if metadata.left:
        raise corrupt("a table map with more metadata than columns")
    return facts


def _wire_columns(
    where: str,
    names: dict[int, str],
    facts: list[TypeFacts],
    nullable: bytes,
    optional: OptionalMetadata,
) -> Iterator[WireColumn]:
    kinds = [fact.type for fact in facts]
    signs = _bits(_places(kinds, HAS_SIGN), optional.unsigned, where, "signs")
    labels = _labels(kinds, optional, where)
    charsets = _charsets(kinds, optional, names, where)
    geometries = _exactly(
        _places(kinds, {FieldType.GEOMETRY}), optional.geometries, where, "geometry types"
    )
    visible = {} if optional.visible is None else _bits(names, optional.visible, where, "")
    for place, fact in enumerate(facts):
        yield WireColumn(
            name=names[place],
            type=fact.type,
            size=fact.size,
            precision=fact.precision,
            scale=fact.scale,
            fsp=fact.fsp,
            nullable=bool(nullable[place >> 3] & 1 << (place & 7)),
            visible=visible.get(place, True),
            unsigned=signs.get(place, False),
            charset=charsets.get(place),
            labels=labels.get(place, ()),
            geometry=_known_geometry(geometries.get(place, 0)),
        )


def _places(kinds: list[FieldType], wanted: Collection[FieldType]) -> list[int]:
    return [place for place, kind in enumerate(kinds) if kind in wanted]


def _exactly(
    places: Collection[int], values: Collection[_T] | None, where: str, what: str
) -> dict[int, _T]:
    """Give each place its value; there must be as many as places."""
    if not places:
        return {}
    if values is None:
        raise _not_full(where, what)
    if len(values) != len(places):
        raise corrupt(f"{len(values)} {what} for {len(places)} columns of {where}")
    return dict(zip(places, values, strict=True))


def _bits(
    places: Collection[int], bits: tuple[bool, ...] | None, where: str, what: str
) -> dict[int, bool]:
    """Like `_exactly`, for bits that fill up whole bytes."""
    if bits is not None and len(bits) == (len(places) + 7) // 8 * 8:
        bits = bits[: len(places)]
    return _exactly(places, bits, where, what)


def _labels(
    kinds: list[FieldType], optional: OptionalMetadata, where: str
) -> dict[int, tuple[bytes, ...]]:
    enums = _exactly(_places(kinds, {FieldType.ENUM}), optional.enum_labels, where, "enum labels")
    sets = _exactly(_places(kinds, {FieldType.SET}), optional.set_labels, where, "set labels")
    return enums | sets


def _charsets(
    kinds: list[FieldType], optional: OptionalMetadata, names: dict[int, str], where: str
) -> dict[int, str]:
    collations: dict[int, int] = {}
    for wanted, given in (
        (HAS_COLLATION, optional.collations),
        (HAS_LABELS, optional.label_collations),
    ):
        places = _places(kinds, wanted)
        each = given.spread(len(places)) if isinstance(given, DefaultCollation) else given
        collations |= _exactly(places, each, where, "collations")
    charsets: dict[int, str] = {}
    for place, collation in collations.items():
        if collation not in CHARSET_OF_COLLATION:
            raise halted(
                HaltReason.UNSUPPORTED_COLUMN_TYPE,
                f"{where}.{names[place]}: unknown collation {collation}",
            )
        charsets[place] = CHARSET_OF_COLLATION[collation]
    return charsets


def _known_geometry(number: int) -> int:
    if number >= GEOMETRY_TYPES:
        raise corrupt(f"a table map with geometry type {number}")
    return number


def _checked_key(key: tuple[tuple[int, int], ...], count: int) -> tuple[tuple[int, int], ...]:
    places = [place for place, _ in key]
    if len(set(places)) != len(places) or any(place >= count for place in places):
        raise corrupt("a table map with an impossible key")
    return key


def _not_full(where: str, missing: str) -> Halted:
    return halted(HaltReason.BINLOG_ROW_METADATA_NOT_FULL, f"{where}: no {missing}")
