"""Rows on their way into one mirrored table: held back for a moment, written many at a time.

House rules: rows are held inside one SQLite transaction only, so nobody can see in which order they
are written; what counts is the state after `flush()`, and that is the one that the stream's own
order makes. With a key, a row's last state is all that is written; without one, order is kept and
rows match in full, value and type. On a strict table a row that is updated or deleted must be
there, or it is `mirror_drifted`. No value leaves here but into SQLite.

Why many at a time: at every step SQLite lets other threads run, and where one of those is busy each
step waits for its turn. One statement for many rows makes few steps.
"""

import math
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from itertools import chain, islice
from operator import itemgetter
from typing import Any, Final

from capstan.core.changes import Op
from capstan.core.halts import Halted, HaltReason, halted
from capstan.core.tables import TableShape
from capstan.sinks import mirror_sql as sql
from capstan.sinks.mirror_tables import MirrorTable
from capstan.sinks.mirror_values import large_columns

StoredRow = Sequence[Any]

_BLOCKS: Final = (256, 32, 4, 1)


def add_functions(connection: sqlite3.Connection) -> None:
    """Teach a connection the function that keyless tables need to compare rows."""
    connection.create_function(sql.SIGN_FUNCTION, 1, _sign, deterministic=True)


def _sign(value: Any) -> float | None:
    return math.copysign(1.0, value) if isinstance(value, float) else None


def row_buffer(
    connection: sqlite3.Connection, table: MirrorTable, shape: TableShape
) -> "KeyedRows | KeylessRows":
    """The buffer that fits the table; `table` has this shape already."""
    kind = KeyedRows if shape.key else KeylessRows
    return kind(connection, table, shape)


class KeyedRows:
    """Rows of a table with a key: the last state of each key that was touched."""

    def __init__(
        self, connection: sqlite3.Connection, table: MirrorTable, shape: TableShape
    ) -> None:
        self._connection = connection
        self._table = table
        self._width = len(shape.names)
        self._key_width = len(shape.key)
        self._key: Callable[[StoredRow], Any] = itemgetter(*shape.key)
        self._rows: dict[Any, StoredRow | None] = {}
        self._expected: set[Any] = set()
        name, key = table.name, shape.key_columns
        self._upsert = cache(lambda rows: sql.upsert(name, shape, rows))
        self._count = cache(lambda keys: sql.count_keys(name, key, keys))
        self._delete = cache(lambda keys: sql.delete_keys(name, key, keys))

    def add(self, op: Op, images: Sequence[StoredRow]) -> None:
        """Take the images of one row event, in wire order."""
        if op is Op.UPDATE:
            self._update(images)
        elif op is Op.DELETE:
            for key in map(self._key, images):
                self._expect(key)
                self._rows[key] = None
        else:
            self._rows.update(zip(map(self._key, images), images, strict=True))

    def _update(self, images: Sequence[StoredRow]) -> None:
        keys = map(self._key, images)
        for old, new, row in zip(keys, keys, images[1::2], strict=False):
            self._expect(old)
            if old != new:
                self._rows[old] = None
            self._rows[new] = row

    def _expect(self, key: Any) -> None:
        if self._table.strict:
            if key not in self._rows:
                self._expected.add(key)
            elif self._rows[key] is None:
                raise _drifted(self._table, 1)

    def flush(self) -> None:
        """Write what is held back."""
        rows, expected = self._rows, self._expected
        found = sum(cursor.fetchone()[0] for cursor in self._by_key(self._count, expected))
        if found != len(expected):
            raise _drifted(self._table, len(expected) - found)
        gone = [key for key, row in rows.items() if row is None]
        for _ in self._by_key(self._delete, gone):
            pass
        kept = [row for row in rows.values() if row is not None]
        for block in _blocks(self._connection, kept, self._width):
            self._connection.execute(self._upsert(len(block)), _flat(block))
        self._rows, self._expected = {}, set()

    def _by_key(
        self, statement: Callable[[int], str], keys: Collection[Any]
    ) -> Iterator[sqlite3.Cursor]:
        for block in _blocks(self._connection, keys, self._key_width):
            values = block if self._key_width == 1 else _flat(block)
            yield self._connection.execute(statement(len(block)), values)


class KeylessRows:
    """Rows of a table without a key: inserts held back, the rest one by one."""

    def __init__(
        self, connection: sqlite3.Connection, table: MirrorTable, shape: TableShape
    ) -> None:
        if sql.rowid(shape) is None:
            raise halted(
                HaltReason.MIRROR_NAME_CONFLICT, f"{table}: its columns hide the row number"
            )
        self._connection = connection
        self._table = table
        self._width = len(shape.names)
        self._rows: list[StoredRow] = []
        self._insert = cache(lambda rows: sql.insert(table.name, self._width, rows))
        self._delete = sql.delete_match(table.name, shape)
        self._update = sql.update_match(table.name, shape)
        self._index = sql.match_index(table.name, table.number, shape, large_columns(shape.columns))

    def add(self, op: Op, images: Sequence[StoredRow]) -> None:
        """Take the images of one row event, in wire order."""
        if op is Op.UPDATE:
            self._prepare_search()
            for before, after in zip(images[::2], images[1::2], strict=True):
                if not self._hit(self._update, (*after, *before)):
                    self._rows.append(after)
                    self.flush()
        elif op is Op.DELETE:
            self._prepare_search()
            for image in images:
                self._hit(self._delete, image)
        else:
            self._rows.extend(images)

    def _prepare_search(self) -> None:
        self.flush()
        if self._index is not None:
            self._connection.execute(self._index)
            self._index = None

    def _hit(self, statement: str, values: StoredRow) -> bool:
        found = self._connection.execute(statement, values).rowcount == 1
        if not found and self._table.strict:
            raise _drifted(self._table, 1)
        return found

    def flush(self) -> None:
        """Write what is held back."""
        for block in _blocks(self._connection, self._rows, self._width):
            self._connection.execute(self._insert(len(block)), _flat(block))
        self._rows = []


def _blocks(
    connection: sqlite3.Connection, rows: Collection[Any], width: int
) -> Iterator[list[Any]]:
    """Cut rows into blocks of few sizes, so that few statements are ever prepared."""
    largest = connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // width
    left, source = len(rows), iter(rows)
    for size in _BLOCKS:
        while left >= size and (size <= largest or size == 1):
            yield list(islice(source, size))
            left -= size


def _flat(rows: Sequence[StoredRow]) -> list[Any]:
    return list(chain.from_iterable(rows))


def _drifted(table: MirrorTable, missing: int) -> Halted:
    return halted(
        HaltReason.MIRROR_DRIFTED,
        f"{table}: {missing} updated or deleted rows are not in the mirror",
    )
