"""A backfill under writer processes into a mirror, with a strict sink beside it that watches."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from helpers.backfills import backfilling
from helpers.mysql import Database
from helpers.pipelines import catch_up
from helpers.writers import StrictSink, content_of, tables_for, writing

from capstan import Change, Pipeline, SnapshotMeta, SqliteMirror, SqliteStore, Transaction
from capstan.core.changes import Item
from capstan.core.tables import CaptureList
from capstan.demo.compare import compare

DEADLINE = 90.0


class WatchedMirror(SqliteMirror):
    """A mirror; what it is given has to fit what it was given before.

    Attributes:
        strict: Refuses what comes twice and what has no row.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.strict = StrictSink()

    def handle_snapshot(self, changes: Sequence[Change], meta: SnapshotMeta) -> None:
        """Watched, then written."""
        self.strict.handle_snapshot(changes, meta)
        super().handle_snapshot(changes, meta)

    def handle_batch(self, items: Sequence[Item]) -> None:
        """Watched, then written."""
        for item in items:
            if isinstance(item, Transaction):
                self.strict.handle_transaction(item)
        super().handle_batch(items)


def mirrored(database: Database, folder: Path, rows: int, writers: int, chunk_size: int) -> None:
    """Backfill, verify and compare, with writers that write all the while but at the end."""
    tables_for(database, rows)
    before = content_of(database.server, database.name)
    mirror = WatchedMirror(folder / "mirror.db")
    store = SqliteStore(folder / "state.db")
    config = backfilling(database, mirror, store, chunk_size=chunk_size)

    with Pipeline(config) as pipeline:
        with writing(database, writers, rows):
            assert pipeline.wait_snapshot(DEADLINE * 10)
            progress = pipeline.status().snapshot
            verified = pipeline.verify(DEADLINE * 10)
        catch_up(pipeline, database.server, DEADLINE * 10)

    assert progress is not None
    assert progress.suppressed > 0
    assert verified is not None
    assert verified.identical, verified
    strict = mirror.strict
    assert set(strict.by_chunk.values()) == {1}
    # Whoever was there before came by a chunk, or by the stream when it was moved or put back.
    there = {(table, key) for table, keys in before.items() for key in keys}
    never = there - set(strict.by_chunk) - set(strict.by_stream)
    now = content_of(database.server, database.name)
    assert all(key not in now[table] for table, key in never)
    assert strict.content == now
    with contextlib.closing(database.server.connect()) as connection:
        capture = CaptureList.parse([f"{database.name}.*"])
        comparison = compare(connection, capture, folder / "mirror.db")
    assert comparison.differences == ()
    assert comparison.tables == 4


def test_a_mirror_under_writers_is_identical(database: Database, tmp_path: Path) -> None:
    """R61, R120, R147, R167, R169: keys of every kind, each once; verified while they write."""
    mirrored(database, tmp_path, rows=250, writers=3, chunk_size=20)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_large_mirror_under_writers_is_identical(database: Database, tmp_path: Path) -> None:
    """R61, R120, R147, R167, R169: 300,000 rows and 8 writers."""
    mirrored(database, tmp_path, rows=75_000, writers=8, chunk_size=1000)
