"""Values in the mirror: what a row becomes on its way into an untyped SQLite column. Pure.

House rules: int, float, str, bytes and None are stored as they are, except an unsigned integer
above 2^63-1, which SQLite cannot hold and which becomes its text; decimals, dates and times become
the text that a SELECT prints. A table without such columns has no converter at all: its rows are
handed to SQLite untouched.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from capstan.core.changes import Row
from capstan.core.tables import Column
from capstan.core.values import TEXT_TYPES, text_of

Converter = Callable[[Row], Sequence[Any]]

LARGEST_INTEGER: Final = 2**63 - 1

_SMALL_LENGTH: Final = 255
_BOUNDED: Final = frozenset({"char", "varchar", "binary", "varbinary"})
_SMALL: Final = TEXT_TYPES | {
    *("tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit"),
    *("float", "double", "enum", "set"),
}


def converter(columns: Sequence[Column]) -> Converter | None:
    """The function that turns a row into what is stored; None when rows are stored as they are."""
    steps = tuple(
        (place, step) for place, column in enumerate(columns) if (step := _step(column)) is not None
    )
    if not steps:
        return None

    def convert(row: Row) -> list[Any]:
        stored = list(row)
        for place, step in steps:
            value = stored[place]
            if value is not None:
                stored[place] = step(value)
        return stored

    return convert


def _step(column: Column) -> Callable[[Any], Any] | None:
    if column.type in TEXT_TYPES:
        return lambda value: text_of(value, column)
    # Only these can exceed it; every other integer type is narrower.
    if (column.type == "bigint" and column.unsigned) or column.type == "bit":
        return _integer
    return None


def _integer(value: int) -> int | str:
    return value if value <= LARGEST_INTEGER else str(value)


def large_columns(columns: Sequence[Column]) -> tuple[int, ...]:
    """Where values stand that can be long: whoever holds rows back must weigh these."""
    return tuple(place for place, column in enumerate(columns) if not _small(column))


def _small(column: Column) -> bool:
    if column.type in _BOUNDED:
        return column.length is not None and column.length <= _SMALL_LENGTH
    return column.type in _SMALL
