"""A range of a mirrored table beside the rows that the source has in it: counts of what differs.

House rules: nothing is written and nothing leaves but counts. A range is cut by the source's order
of keys, which is SQLite's own but for one thing: an unsigned integer above 2^63-1 stands there as
text, behind all numbers and by its length first.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final

from capstan.core.changes import Row
from capstan.core.tables import TableShape
from capstan.core.verification import Differences
from capstan.sinks.mirror_names import quoted
from capstan.sinks.mirror_sql import select_rows
from capstan.sinks.mirror_tables import MirrorTable
from capstan.sinks.mirror_values import LARGEST_INTEGER, converter

_ROWS: Final = 2000


def compare(
    connection: sqlite3.Connection,
    table: MirrorTable | None,
    shape: TableShape,
    rows: Sequence[Row],
    bounds: tuple[Row | None, Row | None],
) -> Differences:
    """Compare one range.

    Args:
        connection: To the mirror.
        table: Its entry of the source table; None when it has none.
        shape: The table as the source has it.
        rows: The source's rows in the range.
        bounds: Key values that the range begins behind, and those that it ends with; None where it
            has no such end.
    """
    if table is None or not table.columns:
        return Differences(missing=len(rows))
    if set(table.columns) != set(shape.names):
        # Not one row can be equal; how many there are is not worth a look.
        return Differences(differing=len(rows)) if rows else Differences()
    convert = converter(shape.columns)
    wanted = [tuple(convert(row)) if convert else row for row in rows]
    by_key = {shape.key_of(row): row for row in wanted}
    extra = differing = found = 0
    for stored in _range(connection, table, shape, bounds):
        expected = by_key.get(shape.key_of(stored))
        if expected is None:
            extra += 1
            continue
        found += 1
        differing += not _same(stored, expected)
    return Differences(missing=len(rows) - found, extra=extra, differing=differing)


def _same(one: Row, other: Row) -> bool:
    return one == other and list(map(type, one)) == list(map(type, other))


def _range(
    connection: sqlite3.Connection,
    table: MirrorTable,
    shape: TableShape,
    bounds: tuple[Row | None, Row | None],
) -> Iterator[Row]:
    terms: list[str] = []
    values: list[Any] = []
    key = [shape.columns[place] for place in shape.key]
    wide = [column.type == "bigint" and column.unsigned for column in key]
    names = zip((quoted(column.name) for column in key), wide, strict=True)
    order = ", ".join(_ordered(name, wide=is_wide) for name, is_wide in names)
    for bound, operator in zip(bounds, (">", "<="), strict=True):
        if bound is not None:
            given = list(chain.from_iterable(map(_given, bound, wide)))
            terms.append(f"({order}) {operator} ({', '.join('?' * len(given))})")
            values += given
    cursor = connection.execute(select_rows(table.name, shape.names, terms), values)
    while part := cursor.fetchmany(_ROWS):
        yield from part


def _ordered(name: str, *, wide: bool) -> str:
    """A key column as what SQLite can compare in the source's order."""
    if not wide:
        return name
    return f"CASE typeof({name}) WHEN 'text' THEN length({name}) ELSE 0 END, {name}"


def _given(value: Any, wide: bool) -> tuple[Any, ...]:
    """A bound in the same form."""
    if not wide:
        return (value,)
    return (len(str(value)), str(value)) if value > LARGEST_INTEGER else (0, value)
