"""What a sink must do: accept whole transactions, in order, one call at a time.

House rules: returning means accepted, raising means refused and ends the pipeline (`sink_failed`,
with the exception's class name only; a `Halted` keeps its own reason). Calls come from one thread,
never two at once. A sink without `position()` is called at least once for each item: after a crash
the items of one batch may come again. A sink that keeps data and position in one transaction of its
own returns the position and is called exactly once for each transaction.
"""

from collections.abc import Sequence

from capstan.core.changes import (
    Change,
    Item,
    Row,
    SchemaChange,
    SnapshotMeta,
    Transaction,
)
from capstan.core.gtid import GtidSet
from capstan.core.tables import TableShape
from capstan.core.verification import Differences


class Sink:
    """Base class of all sinks; only `handle_transaction` must be written."""

    def open(self) -> None:
        """Get ready; called before the first item, on the thread that delivers."""

    def close(self) -> None:
        """Let go. After a crash of the actor that delivers, the sink is closed and opened again.

        It is called after an `open()` that raised, too.
        """

    def position(self) -> GtidSet | None:
        """The processed set that the sink keeps beside its data; None if it keeps none.

        Asked for after `open()` and after each batch.
        """
        return None

    def set_position(self, position: GtidSet) -> None:
        """Keep another position, set by hand (`capstan checkpoint set`); data stays as it is.

        Only called on a sink whose `position()` is not None.
        """
        raise NotImplementedError

    def handle_transaction(self, transaction: Transaction) -> None:
        """Accept one transaction; its `changes` are never empty.

        Those of a transaction that was too large for memory (`changes.spooled`) are read from a
        file while they are looked at, and only until this call, or the one of `handle_batch`,
        returns: a sink that keeps changes has to copy what it needs.
        """
        raise NotImplementedError

    def handle_schema_changes(self, changes: Sequence[SchemaChange]) -> None:
        """Accept all schema changes of one GTID."""
        for change in changes:
            self.handle_schema_change(change)

    def handle_schema_change(self, change: SchemaChange) -> None:
        """Accept one schema change; does nothing by default."""

    def takes_snapshots(self) -> bool:
        """Whether `handle_snapshot` can be called: by default, whether a subclass has its own."""
        return type(self).handle_snapshot is not Sink.handle_snapshot

    def handle_snapshot(self, changes: Sequence[Change], meta: SnapshotMeta) -> None:
        """Accept one chunk of a backfill as upserts by key; `meta.sequence == 0` empties first."""
        raise NotImplementedError

    def await_backfill(self, schema: str, table: str) -> None:
        """Know that a table is about to be backfilled from its start; does nothing by default.

        Called for each such table before the stream goes on, and perhaps again after a restart.
        Until the chunk with `sequence == 0` comes, nothing of the table comes but schema changes:
        whatever those do to rows that are there does not matter any more.
        """

    def compare_range(
        self, shape: TableShape, rows: Sequence[Row], after: Row | None, *, final: bool
    ) -> Differences:
        """Say how a range of a table differs from the source's rows; for `Pipeline.verify()`.

        Called when the sink holds exactly what the source held when the rows were read.

        Args:
            shape: The table as it was read; `shape.key` says where its key values stand.
            rows: The source's rows in the range, in key order.
            after: Key values that the range begins behind; None for the table's beginning.
            final: Whether the range goes on to the table's end; else it ends with the last row.
        """
        raise NotImplementedError

    def handle_batch(self, items: Sequence[Item]) -> None:
        """Accept several items at once, all or nothing.

        The default hands them over one by one; a sink that overrides it (and commits once a batch)
        is fast. When it raises, none of the items counts as accepted.
        """
        for item in items:
            if isinstance(item, Transaction):
                self.handle_transaction(item)
            else:
                self.handle_schema_changes(item.changes)
