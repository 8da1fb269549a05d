"""Writes items into an open mirror, inside a SQLite transaction that its owner begins and ends.

House rules: order is kept where it can be seen: rows are held back per table, and every schema
change, every other shape of a table and the end of the batch wait until they are written. What is
held in memory is good for one mirror state: after a rollback the writer is thrown away. The
position only moves with the data that belongs to it.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

import attrs

from capstan.core.changes import (
    Change,
    Changes,
    Item,
    Op,
    RowsChunk,
    SchemaChange,
    SnapshotMeta,
    Transaction,
)
from capstan.core.gtid import Gtid, GtidSet
from capstan.core.halts import HaltReason, halted
from capstan.core.tables import TableShape
from capstan.sinks.mirror_rows import KeyedRows, KeylessRows, add_functions, row_buffer
from capstan.sinks.mirror_schema import follow
from capstan.sinks.mirror_tables import MirrorTable, MirrorTables, State
from capstan.sinks.mirror_values import Converter, converter, large_columns

SCHEMA: Final = (
    """CREATE TABLE _capstan_position (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        gtid_set TEXT NOT NULL
    )""",
    "INSERT INTO _capstan_position VALUES (1, '')",
)

_MAX_HELD_ROWS: Final = 4096
_MAX_HELD_LENGTH: Final = 4 << 20
_MAX_PLANS: Final = 4096


def read_position(connection: sqlite3.Connection) -> GtidSet:
    """The position that stands in an open mirror."""
    row = connection.execute("SELECT gtid_set FROM _capstan_position").fetchone()
    return GtidSet.parse(str(row[0]))


@attrs.frozen(eq=False)
class _Plan:
    """How rows of one shape go into the mirror."""

    table: MirrorTable
    buffer: KeyedRows | KeylessRows
    convert: Converter | None
    large: tuple[int, ...]


class MirrorWriter:
    """One open mirror, as far as it is written."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        add_functions(connection)
        self.subject = ""
        self.position = read_position(connection)
        self._connection = connection
        self._tables = MirrorTables(connection)
        self._plans: dict[TableShape, _Plan] = {}
        self._buffers: dict[MirrorTable, KeyedRows | KeylessRows] = {}
        self._held_rows = 0
        self._held_length = 0
        self._backfilled: list[MirrorTable] = []

    def table(self, schema: str, table: str) -> MirrorTable | None:
        """The entry of a source table; None when it has none."""
        return self._tables.find(schema, table)

    # -- the stream ----------------------------------------------------------------------------

    def write(self, items: Iterable[Item]) -> None:
        """Write items in stream order, and the position after the last one."""
        self.settle_backfills()
        last: Transaction | SchemaChange | None = None
        for item in items:
            self._see_first_time(item.gtid)
            if isinstance(item, Transaction):
                for chunk in item.changes.chunks:
                    self._take(chunk)
                last = item
            elif item.changes:
                self._follow(item.changes)
                last = item.changes[-1]
        self._flush()
        if last is not None:
            self._move_to(last.position)

    def write_schema_changes(self, changes: Sequence[SchemaChange]) -> None:
        """Apply the schema changes of one GTID, and the position after them."""
        self.settle_backfills()
        if changes:
            self._see_first_time(changes[-1].gtid)
            self._follow(changes)
            self._move_to(changes[-1].position)

    def _see_first_time(self, gtid: Gtid) -> None:
        if gtid in self.position:
            raise halted(HaltReason.SINK_FAILED, f"{gtid} came twice")

    def _follow(self, changes: Sequence[SchemaChange]) -> None:
        self._flush()
        for change in changes:
            self.subject = f"{change.schema}.{change.table}"
            follow(self._tables, change)
        self._forget_plans()

    def _move_to(self, position: GtidSet) -> None:
        if not self.position <= position:
            lost = self.position - position
            raise halted(HaltReason.WATERMARK_REGRESSED, f"the mirror's next position lacks {lost}")
        self.set_position(position)

    def set_position(self, position: GtidSet) -> None:
        """Put down a position as it is given."""
        self._connection.execute("UPDATE _capstan_position SET gtid_set = ?", (str(position),))
        self.position = position

    # -- backfills -----------------------------------------------------------------------------

    def snapshot(self, changes: Sequence[Change], meta: SnapshotMeta) -> None:
        """Write one chunk; the first one empties the table, the last one makes it complete."""
        self.settle_backfills()
        self.subject = f"{meta.schema}.{meta.table}"
        table = self._tables.find_or_add(meta.schema, meta.table)
        if meta.sequence == 0:
            self._tables.clear(table)
            self._tables.set_state(table, State.PARTIAL)
        for chunk in _chunks(changes):
            if not chunk.shape.key:
                raise halted(HaltReason.SINK_FAILED, f"{table}: a chunk of a table without a key")
            self._take(chunk)
        self._flush()
        if meta.final:
            self._backfilled.append(table)

    @property
    def backfills_ended(self) -> bool:
        """Whether a backfill has ended and is not yet trusted."""
        return bool(self._backfilled)

    def settle_backfills(self) -> None:
        """Trust the backfills that ended in an earlier call.

        Not in the call that brought the last chunk: until its cursor is on disk that chunk may come
        again, and before it does the stream may delete rows that were never here.
        """
        for table in self._backfilled:
            self._tables.set_state(table, State.COMPLETE)
        self._backfilled.clear()

    def await_backfill(self, schema: str, table: str) -> None:
        """Empty a table and keep it so until its backfill begins."""
        found = self._tables.find_or_add(schema, table)
        self._tables.clear(found)
        self._tables.set_state(found, State.AWAITING)

    def distrust(self) -> None:
        """The position was moved by hand: no table can be sure of its rows any more."""
        for table in self._tables:
            if table.state is State.COMPLETE:
                self._tables.set_state(table, State.PARTIAL)

    # -- rows ----------------------------------------------------------------------------------

    def _take(self, chunk: RowsChunk) -> None:
        plan = self._plans.get(chunk.shape)
        if plan is None:
            plan = self._plan(chunk.shape)
        images: Sequence[Sequence[Any]] = chunk.images
        if plan.convert is not None:
            self.subject = str(plan.table)
            images = [plan.convert(image) for image in chunk.images]
        plan.buffer.add(chunk.op, images)
        self._held_rows += len(images)
        for place in plan.large:
            self._held_length += sum(_length(image[place]) for image in images)
        if self._held_rows >= _MAX_HELD_ROWS or self._held_length >= _MAX_HELD_LENGTH:
            self._flush()

    def _plan(self, shape: TableShape) -> _Plan:
        self.subject = f"{shape.schema}.{shape.table}"
        table = self._tables.find_or_add(shape.schema, shape.table)
        if table.columns != shape.names or table.key != shape.key_columns:
            self._flush()
            self._tables.fit(table, shape)
            self._forget_plans()
        if len(self._plans) >= _MAX_PLANS:
            self._flush()
            self._forget_plans()
        buffer = self._buffers.get(table)
        if buffer is None:
            buffer = self._buffers[table] = row_buffer(self._connection, table, shape)
        plan = _Plan(table, buffer, converter(shape.columns), large_columns(shape.columns))
        self._plans[shape] = plan
        return plan

    def _flush(self) -> None:
        for table, buffer in self._buffers.items():
            self.subject = str(table)
            buffer.flush()
        self._held_rows = self._held_length = 0

    def _forget_plans(self) -> None:
        self._plans.clear()
        self._buffers.clear()


def _length(value: object) -> int:
    return len(value) if isinstance(value, str | bytes) else 0


def _chunks(changes: Sequence[Change]) -> Sequence[RowsChunk]:
    """A chunk's rows, which are of one shape as a rule, as runs."""
    if isinstance(changes, Changes):
        return changes.chunks
    return [
        RowsChunk(
            Op.SNAPSHOT, shape, [change.values for change in run if change.values is not None]
        )
        for shape, run in groupby(changes, key=attrgetter("shape"))
    ]
