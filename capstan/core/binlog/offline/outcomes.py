"""What the offline decoders give back: finished transactions, and how the others ended.

House rules: values only, whole transactions only. Row values are reachable through the attributes
that a caller reads and never through a repr; a transaction that was rolled back or not finished has
no rows here at all.
"""

from operator import add
from typing import Final, NamedTuple

import attrs

from capstan.core.binlog.offline.raw_event import EventHeader
from capstan.core.changes import Op, RowsChunk
from capstan.core.tables import TableShape


class RowEvent(NamedTuple):
    """One row event of a committed transaction, with the table as it was described before it.

    Attributes:
        offset: Where the event begins.
        header: Its header.
        table_id: The number that ties it to its table map.
        rows: Its rows; iterating over them gives each `Change`.
    """

    offset: int
    header: EventHeader
    table_id: int
    rows: RowsChunk

    @property
    def op(self) -> Op:
        """Insert, update or delete."""
        return self.rows.op

    @property
    def shape(self) -> TableShape:
        """The table as its table map described it."""
        return self.rows.shape

    @property
    def row_changes(self) -> int:
        """How many rows changed; an update's two images are one change."""
        return len(self.rows)


class TableTotals(NamedTuple):
    """What one transaction did to one table.

    Attributes:
        schema: The database name.
        table: The table name.
        inserts: Rows inserted.
        updates: Rows updated.
        deletes: Rows deleted.
        row_events: Events that hold those rows.
        wire_bytes: Bytes of those events.
    """

    schema: str
    table: str
    inserts: int
    updates: int
    deletes: int
    row_events: int
    wire_bytes: int

    @property
    def row_changes(self) -> int:
        """Rows changed in any way."""
        return self.inserts + self.updates + self.deletes


Counts = dict[TableShape, list[int]]
"""Per table, in the order of `TableTotals`: inserts, updates, deletes, row events, bytes."""

_ZEROS: Final = [0, 0, 0, 0, 0]
_PLACES: Final = {Op.INSERT: 0, Op.UPDATE: 1, Op.DELETE: 2}


def count_rows(
    counts: Counts, shape: TableShape, op: Op, row_changes: int, wire_bytes: int
) -> None:
    """Count one row event."""
    count = counts.get(shape)
    if count is None:
        count = counts[shape] = _ZEROS[:]
    count[_PLACES[op]] += row_changes
    count[3] += 1
    count[4] += wire_bytes


class CommittedTransaction(NamedTuple):
    """One transaction, from its BEGIN to its COMMIT or XID, whole.

    Attributes:
        start_offset: Where its BEGIN begins.
        end_offset: Behind its closing event.
        xid: The storage engine's number for the commit; None when a COMMIT closed it. No GTID,
            and unique neither beyond its server nor beyond a restart.
        row_events: Its row events in order; empty when the decoder was told not to keep rows.
        event_count: All its events, BEGIN, table maps and the closing one included.
        row_changes: Rows changed; an update's two images are one change.
        counted: What was counted in place of rows that were not kept; read `tables` instead.
    """

    start_offset: int
    end_offset: int
    xid: int | None
    row_events: tuple[RowEvent, ...]
    event_count: int
    row_changes: int
    counted: Counts | None = None

    @property
    def wire_bytes(self) -> int:
        """Bytes of all its events: they lie side by side."""
        return self.end_offset - self.start_offset

    @property
    def tables(self) -> tuple[TableTotals, ...]:
        """What it did to each table, in the order in which they were first met."""
        tally = Tally()
        tally.include(self)
        return tally.totals()

    def __repr__(self) -> str:
        return (
            f"<CommittedTransaction {self.start_offset} to {self.end_offset},"
            f" {self.event_count} events, {self.row_changes} row changes>"
        )


class Tally:
    """Adds up committed transactions, table by table."""

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], list[int]] = {}

    def include(self, committed: CommittedTransaction) -> None:
        """Add everything that a transaction did."""
        counts = committed.counted
        if counts is None:
            counts = {}
            for event in committed.row_events:
                wire_bytes = event.header.event_size
                count_rows(counts, event.shape, event.op, event.row_changes, wire_bytes)
        for shape, more in counts.items():
            name = (shape.schema, shape.table)
            sum_ = self._sums.get(name, _ZEROS)
            self._sums[name] = list(map(add, sum_, more))

    def totals(self) -> tuple[TableTotals, ...]:
        """One value a table, in the order in which they were first met."""
        return tuple(TableTotals(*name, *sum_) for name, sum_ in self._sums.items())


@attrs.frozen(kw_only=True)
class RolledBack:
    """A transaction that its ROLLBACK undid.

    Attributes:
        start_offset: Where its BEGIN begins.
        end_offset: Behind its ROLLBACK.
        discarded: How many row changes it had.
    """

    start_offset: int
    end_offset: int
    discarded: int


@attrs.frozen(kw_only=True)
class IncompleteTransaction:
    """A transaction of which the input ended before its closing event.

    Attributes:
        start_offset: Where its BEGIN begins.
        end_offset: Behind its last event.
        event_count: Its events so far.
        row_changes: Its row changes so far.
        wire_bytes: The bytes of its events so far.
    """

    start_offset: int
    end_offset: int
    event_count: int
    row_changes: int
    wire_bytes: int


Outcome = CommittedTransaction | RolledBack
"""How a transaction ended, when it ended."""


class TransactionStep(NamedTuple):
    """What one event did.

    Attributes:
        header: Its header; `event_size` says how many bytes were consumed.
        outcome: The transaction that it finished, if any.
    """

    header: EventHeader
    outcome: Outcome | None
