"""Writer processes around a test, and the strict sink that they are watched by."""

import contextlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from capstan import Change, Sink, SnapshotMeta, Transaction
from capstan.demo.mysql_access import SqlServer
from helpers import backfill_writer as writer
from helpers.mysql import Database, execute

Content = dict[str, dict[Any, Any]]


class StrictSink(Sink):
    """Keeps the tables; takes nothing that does not fit what it has.

    A key comes once: by a chunk or by an insert; updates and deletes find their row. So a gap, a
    duplicate and a phantom are refused where they happen.

    Attributes:
        content: Table → key → row.
        by_chunk: How often each key came by a chunk.
        by_stream: How often each key came by an insert, or by an update of another key.
    """

    def __init__(self) -> None:
        self.content: Content = {}
        self.by_chunk: Counter[tuple[str, Any]] = Counter()
        self.by_stream: Counter[tuple[str, Any]] = Counter()

    def handle_snapshot(self, changes: Sequence[Change], meta: SnapshotMeta) -> None:
        """Rows that must not be there yet."""
        table = self.content.setdefault(meta.table, {})
        if meta.sequence == 0:
            table.clear()
        for change in changes:
            if change.key in table:
                raise DuplicateKey
            table[change.key] = change.values
            self.by_chunk[meta.table, change.key] += 1

    def handle_transaction(self, transaction: Transaction) -> None:
        """Changes that must fit."""
        for change in transaction.changes:
            table = self.content.setdefault(change.table, {})
            if change.old_values is not None and table.pop(change.old_key, None) is None:
                raise MissingRow
            if change.values is not None:
                if change.key in table:
                    raise DuplicateKey
                table[change.key] = change.values
                if change.old_key != change.key:
                    self.by_stream[change.table, change.key] += 1


class DuplicateKey(Exception):  # noqa: N818 - its name is what the halt shows
    """A row came that was there."""


class MissingRow(Exception):  # noqa: N818 - as above
    """A change came for a row that was not there."""


def tables_for(database: Database, rows: int) -> None:
    """Make the writers' tables, with rows in them."""
    with contextlib.closing(database.server.connect()) as connection:
        for statement in writer.create(database.name):
            execute(connection, statement)
        writer.fill(connection, database.name, rows)


def content_of(server: SqlServer, schema: str) -> Content:
    """What the source holds, as the strict sink would."""
    found: Content = {}
    with contextlib.closing(server.connect()) as connection:
        for table, (_, _, width) in writer.TABLES.items():
            rows = execute(connection, f"SELECT * FROM {schema}.{table}")
            found[table] = {tuple(row[:width]): tuple(row) for row in rows}
    return found


@contextmanager
def writing(database: Database, count: int, rows: int, seed: int = 1) -> Iterator[None]:
    """Several processes that write while the block runs, and have begun before it."""
    server = database.server
    address = [server.host, str(server.port), server.user, server.password]
    program = str(Path(writer.__file__))
    processes = [
        subprocess.Popen(
            [sys.executable, program, *address, database.name, str(seed + n), str(rows)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for n in range(count)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline(), "a writer ended before it wrote"
        yield
    finally:
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in processes:
            assert process.stdout is not None
            process.stdout.read()
            process.stdout.close()
            assert process.wait(60) == 0
