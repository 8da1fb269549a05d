"""Counts what a row of binlog files holds: transactions, and changes table by table.

House rules: only what is finished is counted as done; of a transaction that was rolled back or cut
off nothing but the fact is kept. Counts, names and GTIDs are all that is here.
"""

import attrs

from capstan.core.binlog.envelope import FileTransaction, SelfCommitting
from capstan.core.binlog.offline.outcomes import CommittedTransaction, RolledBack
from capstan.core.changes import Op
from capstan.core.gtid import GtidAccumulator, GtidSet


@attrs.define(kw_only=True)
class TableCount:
    """What committed transactions did to one table.

    Attributes:
        inserts: Rows inserted.
        updates: Rows updated.
        deletes: Rows deleted.
        wire_bytes: Bytes of the row events, as they were decoded: inflated, when compressed.
    """

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    wire_bytes: int = 0

    @property
    def row_changes(self) -> int:
        """Rows changed in any way."""
        return self.inserts + self.updates + self.deletes


class FileTally:
    """The count so far.

    Attributes:
        transactions: Committed ones.
        rolled_back: Those that a ROLLBACK undid.
        incomplete: Those that were begun and not finished.
        ddl: Statements that commit themselves.
        tables: (schema, table) → its count.
    """

    def __init__(self) -> None:
        self.transactions = 0
        self.rolled_back = 0
        self.incomplete = 0
        self.ddl = 0
        self.tables: dict[tuple[str, str], TableCount] = {}
        self._gtids = GtidAccumulator(GtidSet())

    @property
    def gtids(self) -> GtidSet:
        """Who was finished: committed, rolled back and self-committing alike."""
        return self._gtids.freeze()

    def count(self, name: tuple[str, str], op: Op, row_changes: int, wire_bytes: int) -> None:
        """Count committed changes of one kind in one table."""
        table = self.tables.get(name)
        if table is None:
            table = self.tables[name] = TableCount()
        if op is Op.INSERT:
            table.inserts += row_changes
        elif op is Op.UPDATE:
            table.updates += row_changes
        else:
            table.deletes += row_changes
        table.wire_bytes += wire_bytes

    def has(self, uuid: str, tag: str, number: int) -> None:
        """Count one GTID as finished."""
        self._gtids.add(uuid, tag, number)

    def add(self, transaction: FileTransaction) -> None:
        """Count one transaction."""
        outcome = transaction.outcome
        if isinstance(outcome, CommittedTransaction):
            self.transactions += 1
            for totals in outcome.tables:
                count = self.tables.setdefault((totals.schema, totals.table), TableCount())
                count.inserts += totals.inserts
                count.updates += totals.updates
                count.deletes += totals.deletes
                count.wire_bytes += totals.wire_bytes
        elif isinstance(outcome, RolledBack):
            self.rolled_back += 1
        elif isinstance(outcome, SelfCommitting):
            self.ddl += 1
        else:
            self.incomplete += 1
            return
        if transaction.prefix is not None and transaction.prefix.gtid is not None:
            gtid = transaction.prefix.gtid
            self.has(gtid.uuid, gtid.tag, gtid.number)
