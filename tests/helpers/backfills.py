"""Backfills over a real server, for tests: a table, a configuration, a sink that upserts."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs

from capstan import Change, Config, Sink, Snapshot, SnapshotMeta, Store, Transaction
from helpers.mysql import Database
from helpers.pipelines import Recording, config_for


class Upserting(Recording):
    """Keeps chunks too, and what they and the stream come to, by table and key.

    Attributes:
        chunks: The facts of each, in order.
        content: Key → row of the table that was written last.
        came: How often each key came by a chunk.
    """

    def __init__(self) -> None:
        super().__init__()
        self.chunks: list[SnapshotMeta] = []
        self.content: dict[Any, Any] = {}
        self.came: Counter[Any] = Counter()

    def handle_snapshot(self, changes: Sequence[Change], meta: SnapshotMeta) -> None:
        """Upsert; the first chunk empties the table."""
        if meta.sequence == 0:
            self.content.clear()
        self.chunks.append(meta)
        for change in changes:
            assert change.op == "snapshot"
            self.content[change.key] = change.values
            self.came[change.key] += 1

    def handle_transaction(self, transaction: Transaction) -> None:
        """Apply by key."""
        super().handle_transaction(transaction)
        for change in transaction.changes:
            if change.old_key is not None:
                self.content.pop(change.old_key, None)
            if change.values is not None:
                self.content[change.key] = change.values


def backfilling(database: Database, sink: Sink, store: Store, **snapshot: Any) -> Config:
    """A configuration that captures and, unless told otherwise, backfills the whole database."""
    config = config_for(database.server, sink, [f"{database.name}.*"], store)
    return attrs.evolve(config, snapshot=Snapshot(**snapshot))


def ten_items(database: Database) -> Database:
    """Make a table `items` with the rows 1 to 10."""
    database.execute("CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(50))")
    rows = ", ".join(f"({n}, 'n{n}')" for n in range(1, 11))
    database.execute(f"INSERT INTO items VALUES {rows}")
    return database
