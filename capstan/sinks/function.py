"""A sink of plain functions.

House rules: nothing is kept and nothing is caught; a function that returns has accepted.
"""

from collections.abc import Callable, Sequence

from capstan.core.changes import Change, SchemaChange, SnapshotMeta, Transaction
from capstan.sinks.base import Sink


class FunctionSink(Sink):
    """Hands everything to functions of the caller's.

    Args:
        on_transaction: Called with each transaction.
        on_snapshot: Called with the changes and facts of each chunk of a backfill; must be given
            when one is configured.
        on_schema_change: Called with each schema change; they are passed over without it.
    """

    def __init__(
        self,
        on_transaction: Callable[[Transaction], object],
        on_snapshot: Callable[[Sequence[Change], SnapshotMeta], object] | None = None,
        on_schema_change: Callable[[SchemaChange], object] | None = None,
    ) -> None:
        self._on_transaction = on_transaction
        self._on_snapshot = on_snapshot
        self._on_schema_change = on_schema_change

    def handle_transaction(self, transaction: Transaction) -> None:
        """Hand one transaction over."""
        self._on_transaction(transaction)

    def handle_schema_change(self, change: SchemaChange) -> None:
        """Hand one schema change over, when somebody wants it."""
        if self._on_schema_change is not None:
            self._on_schema_change(change)

    def takes_snapshots(self) -> bool:
        """Whether a function was given for chunks."""
        return self._on_snapshot is not None

    def handle_snapshot(self, changes: Sequence[Change], meta: SnapshotMeta) -> None:
        """Hand one chunk over.

        Raises:
            NotImplementedError: When no function was given for it.
        """
        if self._on_snapshot is None:
            raise NotImplementedError("this FunctionSink was given no on_snapshot")
        self._on_snapshot(changes, meta)
