"""The backfill on a real server: rows that were there before, woven into the stream."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from helpers.backfills import Upserting, backfilling, ten_items
from helpers.mysql import Database
from helpers.pipelines import catch_up, config_for, executed, halt_of, start_from_now
from helpers.waiting import wait_until
from helpers.writers import StrictSink, content_of, tables_for, writing

from capstan import (
    HaltReason,
    MemoryStore,
    Pipeline,
    PipelineHalted,
    SqliteMirror,
)

DEADLINE = 60.0


@pytest.fixture
def items(database: Database) -> Database:
    """A database with one table of ten rows."""
    return ten_items(database)


def test_rows_that_were_there_arrive_in_chunks(items: Database) -> None:
    """R58, R62-R64, R74-R79, R106: P0 first, chunks in key order, the last one said to be."""
    sink, store = Upserting(), MemoryStore()
    before = executed(items.server)
    config = backfilling(items, sink, store, chunk_size=5)

    with Pipeline(config) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)
        progress = pipeline.status().snapshot

    assert sink.content == {(n,): (n, f"n{n}") for n in range(1, 11)}
    assert set(sink.came.values()) == {1}
    assert [(m.table, m.sequence, m.final) for m in sink.chunks] == [
        ("items", 0, False),
        ("items", 1, True),
    ]
    assert store.load_watermark() == before
    assert progress is not None
    assert [(t.table, t.rows, t.complete) for t in progress.tables] == [("items", 10, True)]
    assert progress.lock_p99 is not None


def test_under_writers_each_key_comes_once_and_the_end_is_identical(database: Database) -> None:
    """R61, R120, R167, R169: no gap, no duplicate, no phantom; something was suppressed."""
    rows = 1500
    tables_for(database, rows)
    sink = StrictSink()
    config = backfilling(database, sink, MemoryStore(), chunk_size=100, rows_per_second=3000)

    with Pipeline(config) as pipeline:
        with writing(database, 3, rows):
            assert pipeline.wait_snapshot(DEADLINE)
        catch_up(pipeline, database.server)
        progress = pipeline.status().snapshot

    assert sink.content == content_of(database.server, database.name)
    assert set(sink.by_chunk.values()) == {1}
    assert progress is not None
    assert progress.suppressed > 0


def test_an_altered_table_is_read_again_when_so_configured(items: Database, tmp_path: Path) -> None:
    """D28: rows that an ALTER rewrote without row events come again, while the stream runs."""
    mirror = SqliteMirror(tmp_path / "mirror.db")
    config = backfilling(items, mirror, MemoryStore(), chunk_size=4, on_alter="backfill")

    with Pipeline(config) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)
        items.execute("ALTER TABLE items DROP COLUMN name, ADD COLUMN name INT DEFAULT 7")
        items.execute("INSERT INTO items VALUES (11, 8)")
        catch_up(pipeline, items.server)
        wait_until(
            lambda: len(rows_of(tmp_path / "mirror.db", items)) == 11,
            timeout=DEADLINE,
            what="the table in the mirror again",
        )
        assert pipeline.wait_snapshot(DEADLINE)

    assert rows_of(tmp_path / "mirror.db", items) == [*((n, 7) for n in range(1, 11)), (11, 8)]


def test_an_altered_table_halts_a_mirror_otherwise(items: Database, tmp_path: Path) -> None:
    """The remedy that the halt names is a backfill of the table."""
    mirror = SqliteMirror(tmp_path / "mirror.db")
    with Pipeline(backfilling(items, mirror, MemoryStore())) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)
        items.execute("ALTER TABLE items DROP COLUMN name, ADD COLUMN name INT DEFAULT 7")
        with pytest.raises(PipelineHalted) as caught:
            pipeline.wait(DEADLINE)

    assert caught.value.halt.reason is HaltReason.MIRROR_ROWS_STALE


def rows_of(mirror: Path, database: Database) -> list[tuple[Any, ...]]:
    """The table as the mirror has it."""
    with contextlib.closing(sqlite3.connect(mirror)) as connection:
        return connection.execute(f'SELECT * FROM "{database.name}.items" ORDER BY id').fetchall()


def test_a_backfill_added_later_is_the_remedy_for_stale_rows(
    items: Database, tmp_path: Path
) -> None:
    """D28: a mirror that never had one passes the ALTER that it halted at, and reads the rows."""
    mirror, store = (
        SqliteMirror(tmp_path / "mirror.db"),
        start_from_now(MemoryStore(), items.server),
    )
    streaming = config_for(items.server, mirror, [f"{items.name}.*"], store)
    items.execute("INSERT INTO items VALUES (11, 'n11')")
    items.execute("ALTER TABLE items DROP COLUMN name, ADD COLUMN name INT DEFAULT 7")
    assert halt_of(streaming) is HaltReason.MIRROR_ROWS_STALE

    with Pipeline(backfilling(items, mirror, store)) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)
        catch_up(pipeline, items.server)

    assert rows_of(tmp_path / "mirror.db", items) == [(n, 7) for n in range(1, 12)]


def test_a_longer_capture_list_is_accepted_when_it_is_backfilled(items: Database) -> None:
    """D16: the past of the new tables is not missing then."""
    items.execute("CREATE TABLE other (id INT PRIMARY KEY)")
    items.execute("INSERT INTO other VALUES (1)")
    store = start_from_now(MemoryStore(), items.server)
    with Pipeline(
        config_for(items.server, Upserting(), [f"{items.name}.items"], store)
    ) as pipeline:
        items.execute("INSERT INTO items VALUES (11, 'n11')")
        catch_up(pipeline, items.server)

    wider = config_for(items.server, Upserting(), [f"{items.name}.*"], store)
    assert halt_of(wider) is HaltReason.CAPTURE_CONFIG_DRIFTED
    sink = Upserting()
    with Pipeline(backfilling(items, sink, store)) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)

    assert {meta.table for meta in sink.chunks} == {"items", "other"}
