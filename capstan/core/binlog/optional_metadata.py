"""The fields behind a table map's null bitmap: signs, collations, names, labels, keys, visibility.

House rules: this file cuts the fields apart and gives each its plain Python form; which column a
value belongs to is decided by the table map, which knows the types. A field of a number unknown
here is passed over by its length: newer servers add fields, and none changes how rows are laid out.

Wire: repeated (number: 1 byte, length: length-encoded, value).
"""

from collections.abc import Iterable
from enum import IntEnum

import attrs

from capstan.core.binlog.bounded_reader import BoundedReader, corrupt


class MetadataField(IntEnum):
    """The numbers of the fields that are read."""

    SIGNEDNESS = 1
    DEFAULT_COLLATION = 2
    COLUMN_COLLATION = 3
    COLUMN_NAME = 4
    SET_LABELS = 5
    ENUM_LABELS = 6
    GEOMETRY_TYPE = 7
    SIMPLE_KEY = 8
    KEY_WITH_PREFIX = 9
    LABEL_DEFAULT_COLLATION = 10
    LABEL_COLLATION = 11
    VISIBILITY = 12


@attrs.frozen
class DefaultCollation:
    """One collation for most columns, others by place.

    Attributes:
        collation: The collation of every column that is not in `others`.
        others: Collations by place among the columns that have one.
    """

    collation: int
    others: dict[int, int]

    def spread(self, count: int) -> tuple[int, ...]:
        """The collation of each of `count` columns."""
        if any(place >= count for place in self.others):
            raise corrupt("a table map names a collation for a column that it lacks")
        return tuple(self.others.get(place, self.collation) for place in range(count))


@attrs.frozen(kw_only=True)
class OptionalMetadata:
    """The fields in plain form; None where the server sent none.

    Attributes:
        unsigned: A bit for each column that has a sign, padded to whole bytes.
        collations: Of the text columns.
        names: Of all columns.
        set_labels: The members of each SET.
        enum_labels: The members of each ENUM.
        geometries: The type number of each geometry column.
        key: Pairs of column place and prefix length (0 for a whole column), in key order.
        label_collations: Of the ENUM and SET columns.
        visible: A bit for each column, padded to whole bytes.
    """

    unsigned: tuple[bool, ...] | None = None
    collations: tuple[int, ...] | DefaultCollation | None = None
    names: tuple[str, ...] | None = None
    set_labels: tuple[tuple[bytes, ...], ...] | None = None
    enum_labels: tuple[tuple[bytes, ...], ...] | None = None
    geometries: tuple[int, ...] | None = None
    key: tuple[tuple[int, int], ...] | None = None
    label_collations: tuple[int, ...] | DefaultCollation | None = None
    visible: tuple[bool, ...] | None = None


def read_optional(reader: BoundedReader) -> OptionalMetadata:
    """Read every field up to the reader's end.

    Raises:
        Halted: `event_corrupt` for a field that does not fill its length, or stands there twice.
    """
    found: dict[str, object] = {}
    while reader.left:
        number = reader.uint(1)
        value = BoundedReader(reader.counted(), "table map metadata")
        if number not in _READERS:
            continue
        name, read = _READERS[MetadataField(number)]
        if name in found:
            raise corrupt(f"a table map with two fields for {name}")
        found[name] = read(value)
    return OptionalMetadata(**found)  # type: ignore[arg-type] # each reader gives its field's type


def _bits(value: BoundedReader) -> tuple[bool, ...]:
    return tuple(bool(byte & 0x80 >> bit) for byte in value.take(value.left) for bit in range(8))


def _numbers(value: BoundedReader) -> tuple[int, ...]:
    numbers: list[int] = []
    while value.left:
        numbers.append(value.packed())
    return tuple(numbers)


def _pairs(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    steps = iter(numbers)
    try:
        return tuple(zip(steps, steps, strict=True))
    except ValueError:
        raise corrupt("half a pair in table map metadata") from None


def _default(value: BoundedReader) -> DefaultCollation:
    return DefaultCollation(value.packed(), dict(_pairs(_numbers(value))))


def _names(value: BoundedReader) -> tuple[str, ...]:
    names: list[str] = []
    while value.left:
        names.append(value.text())
    return tuple(names)


def _labels(value: BoundedReader) -> tuple[tuple[bytes, ...], ...]:
    columns: list[tuple[bytes, ...]] = []
    while value.left:
        count = value.packed()
        if count > value.left:
            raise corrupt("more labels than bytes in table map metadata")
        columns.append(tuple(value.counted() for _ in range(count)))
    return tuple(columns)


def _simple_key(value: BoundedReader) -> tuple[tuple[int, int], ...]:
    return tuple((place, 0) for place in _numbers(value))


def _key_with_prefix(value: BoundedReader) -> tuple[tuple[int, int], ...]:
    return _pairs(_numbers(value))


_READERS = {
    MetadataField.SIGNEDNESS: ("unsigned", _bits),
    MetadataField.DEFAULT_COLLATION: ("collations", _default),
    MetadataField.COLUMN_COLLATION: ("collations", _numbers),
    MetadataField.COLUMN_NAME: ("names", _names),
    MetadataField.SET_LABELS: ("set_labels", _labels),
    MetadataField.ENUM_LABELS: ("enum_labels", _labels),
    MetadataField.GEOMETRY_TYPE: ("geometries", _numbers),
    MetadataField.SIMPLE_KEY: ("key", _simple_key),
    MetadataField.KEY_WITH_PREFIX: ("key", _key_with_prefix),
    MetadataField.LABEL_DEFAULT_COLLATION: ("label_collations", _default),
    MetadataField.LABEL_COLLATION: ("label_collations", _numbers),
    MetadataField.VISIBILITY: ("visible", _bits),
}
"""Two forms of one thing share a name: a table map holds one of them."""
