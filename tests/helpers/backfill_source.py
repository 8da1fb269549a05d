"""A simulated source: writers, locks, binlog, gtid_executed and what readers can see.

A transaction goes through BEGUN (it holds its tables and rows), FLUSHED (the stream can read it),
then in either order EXECUTED (its GTID is in gtid_executed) and VISIBLE (a new view shows it), and
is done, which lets its tables and rows go. So the stream may run ahead of what can be seen, GTIDs
and visibility may lead each other, and transactions may commit in another order than they are
logged in; rows of one key keep one order.
"""

from random import Random
from typing import Any

import attrs

from capstan.core.changes import RowsChunk, SchemaChangeGroup, Transaction
from capstan.core.gtid import GtidSet
from capstan.core.tables import TableShape
from helpers.changes_builder import (
    deleted,
    group,
    gtid,
    inserted,
    schema_change,
    shape,
    transaction,
    updated,
)

Key = tuple[Any, ...]
Rows = dict[Key, int]

SHAPES: dict[str, TableShape] = {
    "t": shape("shop.t", "id int", "v int", key=("id",)),
    "u": shape("shop.u", "v int", "a bigint", "b varbinary(2)", key=("a", "b")),
    "o": shape("shop.o", "id int", "v int", key=("id",)),
}
KEYS: dict[str, list[Key]] = {
    "t": [(n,) for n in range(-8, 8)],
    "u": [(a, b) for a in range(-2, 3) for b in (b"", b"\0", b"z")],
    "o": [(n,) for n in range(3)],
}


def row_of(table: str, key: Key, version: int) -> tuple[Any, ...]:
    """A row image; `u` has its key behind its value."""
    return (version, *key) if table == "u" else (*key, version)


@attrs.frozen
class Write:
    """One row's change: of `key` to `new_key` (None: no row); no version is used twice."""

    table: str
    key: Key | None
    new_key: Key | None
    old_version: int
    version: int

    def apply(self, rows: dict[str, Rows]) -> None:
        if self.key is not None:
            del rows[self.table][self.key]
        if self.new_key is not None:
            rows[self.table][self.new_key] = self.version

    def chunk(self) -> RowsChunk:
        table = SHAPES[self.table]
        before = None if self.key is None else row_of(self.table, self.key, self.old_version)
        after = None if self.new_key is None else row_of(self.table, self.new_key, self.version)
        if before is None:
            assert after is not None
            return inserted(table, after)
        return deleted(table, before) if after is None else updated(table, (before, after))


@attrs.define
class Writing:
    """A transaction on its way.

    Attributes:
        number: Of its GTID.
        writes: What it changes; none for a DDL of another table and for one that is filtered out.
        flushed: Whether it is in the binlog.
        executed: Whether gtid_executed has it.
        visible: Whether a new view shows it.
    """

    number: int
    writes: list[Write]
    ddl: bool = False
    flushed: bool = False
    executed: bool = False
    visible: bool = False

    @property
    def tables(self) -> set[str]:
        return {write.table for write in self.writes}

    @property
    def keys(self) -> set[tuple[str, Key | None]]:
        return {(w.table, key) for w in self.writes for key in (w.key, w.new_key)}

    def item(self) -> Transaction | SchemaChangeGroup:
        if self.ddl:
            return group(schema_change(self.number, "alter_table", "shop.o"))
        return transaction(self.number, *(write.chunk() for write in self.writes))


class SimulatedSource:
    """The server.

    Args:
        random: Who decides.
        transactions: How many the writers still make.
    """

    def __init__(self, random: Random, transactions: int) -> None:
        self._random = random
        self._left = transactions
        self._number = 0
        self._version = 0
        self._active: list[Writing] = []
        self._locked: str | None = None
        self.binlog: list[Writing] = []
        self.executed = GtidSet()
        self.visible: dict[str, Rows] = {table: {} for table in SHAPES}
        for table, keys in KEYS.items():
            for key in random.sample(keys, random.choice((0, 1, len(keys) // 2, len(keys)))):
                self.visible[table][key] = self._next_version()
        self.at_start = {table: dict(rows) for table, rows in self.visible.items()}
        self.kept = {table: set(rows) for table, rows in self.visible.items()}

    @property
    def quiet(self) -> bool:
        """Whether the writers have ended."""
        return not self._left and not self._active

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    def write(self) -> None:
        """One step of one writer."""
        if self._left and (len(self._active) < 3 and self._random.random() < 0.5):
            self._begin()
        elif self._active:
            self._advance(self._random.choice(self._active))

    def _begin(self) -> None:
        writes: list[Write] = []
        busy = {key for other in self._active for key in other.keys}
        rows = {table: dict(found) for table, found in self.visible.items()}
        for _ in range(self._random.choice((0, 1, 2, 3, 4))):
            table = self._random.choice("tttuuo")
            write = self._choose(table, rows[table], busy)
            if table != self._locked and write is not None:
                write.apply(rows)
                writes.append(write)
        self._left -= 1
        self._number += 1
        ddl = not writes and self._random.random() < 0.3
        self._active.append(Writing(self._number, writes, ddl))

    def _choose(self, table: str, rows: Rows, busy: set[Any]) -> Write | None:
        free = [key for key in KEYS[table] if (table, key) not in busy]
        there = [key for key in free if key in rows]
        gone = [key for key in free if key not in rows]
        version = self._next_version()
        kind = self._random.choice(("insert", "update", "move", "delete", "delete"))
        if kind == "insert" and gone:
            return Write(table, None, self._random.choice(gone), 0, version)
        if kind == "insert" or not there:
            return None
        key = self._random.choice(there)
        if kind == "update":
            return Write(table, key, key, rows[key], version)
        if kind == "move" and gone:
            return Write(table, key, self._random.choice(gone), rows[key], version)
        return Write(table, key, None, rows[key], version)

    def _advance(self, writing: Writing) -> None:
        if not writing.flushed:
            writing.flushed = True
            self.binlog.append(writing)
            return
        executes = writing.visible or (not writing.executed and self._random.random() < 0.5)
        if executes:
            writing.executed = True
            self.executed = self.executed.add(gtid(writing.number))
        else:
            writing.visible = True
            for write in writing.writes:
                write.apply(self.visible)
                if write.key != write.new_key and write.key is not None:
                    self.kept[write.table].discard(write.key)
        if writing.executed and writing.visible:
            self._active.remove(writing)

    def capture(self, table: str, *, locks: bool = True) -> tuple[GtidSet, Rows] | None:
        """G and a view, with writers at work between the steps; None when the lock is not had."""
        if locks and any(table in writing.tables for writing in self._active):
            return None
        self._locked = table if locks else None
        self._meanwhile()
        position = self.executed
        self._meanwhile()
        view = dict(self.visible[table])
        self._meanwhile()
        self._locked = None
        return position, view

    def _meanwhile(self) -> None:
        for _ in range(self._random.choice((0, 0, 1, 3))):
            self.write()
