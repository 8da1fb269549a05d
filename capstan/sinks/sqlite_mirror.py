"""The SQLite mirror: the source's captured tables in one SQLite file, their position beside them.

House rules: data and position are one SQLite transaction with synchronous=FULL: what `position()`
reports survives a power cut together with the rows that belong to it, and an item is applied
exactly once. A batch is one transaction; whatever goes wrong in it takes all of it back. The file
is locked for one pipeline; others may read it at any time. Nothing raised here holds a value.

The table `shop.orders` is the SQLite table `"shop.orders"`; names, values, schema changes and the
catalogue have files of their own (`mirror_names`, `mirror_values`, `mirror_schema`,
`mirror_tables`), rows are written by `mirror_rows`, and `mirror_writer` brings them together.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from capstan.core.changes import Change, Item, Row, SchemaChange, SnapshotMeta, Transaction
from capstan.core.gtid import GtidSet
from capstan.core.halts import Halted, HaltReason
from capstan.core.tables import TableShape
from capstan.core.verification import Differences
from capstan.files import FileKind, SqliteFile
from capstan.sinks import mirror_compare, mirror_tables, mirror_writer
from capstan.sinks.base import Sink
from capstan.sinks.mirror_writer import MirrorWriter

_KIND: Final = FileKind(
    name="mirror",
    application_id=0x43504D52,
    version=1,
    schema=(*mirror_writer.SCHEMA, *mirror_tables.SCHEMA),
    failed=HaltReason.SINK_FAILED,
)


class SqliteMirror(Sink):
    """Keeps the captured tables in a SQLite file.

    Args:
        path: The file; `open()` makes it, private to its owner, when there is none.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = SqliteFile(path, _KIND)
        self._writer: MirrorWriter | None = None

    def __repr__(self) -> str:
        return f"SqliteMirror({str(self._file.path)!r})"

    def open(self) -> None:
        """Claim the file and read its position.

        Raises:
            Halted: `store_locked` when another pipeline holds it, `sink_failed` when it is not a
                mirror of capstan, is damaged or of a newer format.
        """
        self._claim()

    def close(self) -> None:
        """Let go of the file."""
        # A backfill that cannot be noted as ended costs strictness, not rows.
        with suppress(Halted):
            if self._writer is not None and self._writer.backfills_ended:
                with self._transaction() as writer:
                    writer.settle_backfills()
        self._writer = None
        self._file.close()

    def position(self) -> GtidSet:
        """The processed set that stands beside the data; empty for a new mirror.

        Before `open()` it is read without claiming or making the file.
        """
        if self._writer is not None:
            return self._writer.position
        connection = self._file.reading()
        if connection is None:
            return GtidSet()
        with self._file.guard():
            return mirror_writer.read_position(connection)

    def set_position(self, position: GtidSet) -> None:
        """Put the position where a person wants it; what the tables hold is unsure from then on."""
        with self._transaction() as writer:
            writer.set_position(position)
            writer.distrust()

    def await_backfill(self, schema: str, table: str) -> None:
        """Empty a table ahead of its backfill: until that begins no schema change of it halts."""
        with self._transaction() as writer:
            writer.await_backfill(schema, table)

    def handle_transaction(self, transaction: Transaction) -> None:
        """Apply one transaction."""
        self.handle_batch((transaction,))

    def handle_schema_changes(self, changes: Sequence[SchemaChange]) -> None:
        """Apply all schema changes of one GTID.

        Raises:
            Halted: `mirror_rows_stale`, `mirror_name_conflict`; as `handle_batch`.
        """
        with self._transaction() as writer:
            writer.write_schema_changes(changes)

    def handle_batch(self, items: Sequence[Item]) -> None:
        """Apply several items and the position after them, all or nothing.

        Raises:
            Halted: `mirror_drifted` when a row that must be there is not, `mirror_rows_stale` and
                `mirror_name_conflict` for what cannot be mirrored, `sink_failed` when SQLite fails.
        """
        with self._transaction() as writer:
            writer.write(items)

    def handle_snapshot(self, changes: Sequence[Change], meta: SnapshotMeta) -> None:
        """Apply one chunk of a backfill; the position stays where it is.

        Raises:
            Halted: As `handle_batch`.
        """
        with self._transaction() as writer:
            writer.snapshot(changes, meta)

    def compare_range(
        self, shape: TableShape, rows: Sequence[Row], after: Row | None, *, final: bool
    ) -> Differences:
        """Count how a range of a table differs from the source's rows."""
        connection, writer = self._claim()
        through = None if final or not rows else shape.key_of(rows[-1])
        with self._file.guard():
            table = writer.table(shape.schema, shape.table)
            return mirror_compare.compare(connection, table, shape, rows, (after, through))

    def _claim(self) -> tuple[sqlite3.Connection, MirrorWriter]:
        connection = self._file.writing()
        if self._writer is None:
            with self._file.guard():
                self._writer = MirrorWriter(connection)
        return connection, self._writer

    @contextmanager
    def _transaction(self) -> Iterator[MirrorWriter]:
        connection, writer = self._claim()
        writer.subject = ""
        try:
            with self._file.guard(lambda: writer.subject or str(self._file)):
                connection.execute("BEGIN IMMEDIATE")
                yield writer
                self._file.check_present()
                connection.execute("COMMIT")
        except BaseException:
            # What the writer remembers is true of a state that is being taken back.
            self._writer = None
            with suppress(sqlite3.Error):
                connection.rollback()
            raise
