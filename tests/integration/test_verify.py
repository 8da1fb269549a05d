"""Source and mirror compared at exact positions, on a real server, while writers write."""

import contextlib
import sqlite3
from pathlib import Path

import pytest
from helpers.backfills import Upserting, backfilling, ten_items
from helpers.mysql import Database
from helpers.pipelines import catch_up, config_for, start_from_now
from helpers.writers import tables_for, writing

from capstan import MemoryStore, Pipeline, SqliteMirror
from capstan.core.verification import Differences, Finding, Verification

DEADLINE = 60.0


@pytest.fixture
def items(database: Database) -> Database:
    """A database with one table of ten rows."""
    return ten_items(database)


def change(mirror: Path, sql: str) -> None:
    """Write into a mirror behind everybody's back."""
    with contextlib.closing(sqlite3.connect(mirror)) as connection:
        connection.execute(sql)
        connection.commit()


def outcome_of(pipeline: Pipeline) -> Verification:
    outcome = pipeline.verify(DEADLINE)
    assert outcome is not None
    return outcome


def test_an_untouched_mirror_is_identical(items: Database, tmp_path: Path) -> None:
    """A backfilled table, one without rows, and one that cannot be paged, which is named."""
    items.execute("CREATE TABLE nothing (id INT PRIMARY KEY)")
    mirror = SqliteMirror(tmp_path / "mirror.db")
    with Pipeline(backfilling(items, mirror, MemoryStore(), chunk_size=4)) as pipeline:
        outcome = outcome_of(pipeline)

    assert outcome.identical
    assert [(t.name.table, t.rows, t.ranges) for t in outcome.tables] == [
        ("items", 10, 3),
        ("nothing", 0, 1),
    ]


def test_every_kind_of_difference_is_counted_where_it_is(items: Database, tmp_path: Path) -> None:
    """Counts by range number and no value; the pipeline goes on."""
    path = tmp_path / "mirror.db"
    mirror = SqliteMirror(path)
    name = f'"{items.name}.items"'
    with Pipeline(backfilling(items, mirror, MemoryStore(), chunk_size=4)) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)
        change(path, f"DELETE FROM {name} WHERE id = 2")
        change(path, f"UPDATE {name} SET name = 'other' WHERE id IN (5, 6)")
        change(path, f"INSERT INTO {name} VALUES (0, 'before'), (11, 'behind')")
        first = outcome_of(pipeline)
        change(path, f"DELETE FROM {name} WHERE id IN (0, 11)")
        change(path, f"UPDATE {name} SET name = 'n' || id")
        change(path, f"INSERT INTO {name} VALUES (2, 'n2')")
        second = outcome_of(pipeline)
        items.execute("INSERT INTO items VALUES (12, 'n12')")
        catch_up(pipeline, items.server)

    (table,) = first.tables
    assert not first.identical
    assert table.findings == (
        Finding(number=0, differences=Differences(missing=1, extra=1)),
        Finding(number=1, differences=Differences(differing=2)),
        Finding(number=2, differences=Differences(extra=1)),
    )
    assert "other" not in repr(first)
    assert second.identical


def test_writers_are_no_difference(database: Database, tmp_path: Path) -> None:
    """Each range at its own exact position: keys of every kind, also around 2^63."""
    rows = 600
    tables_for(database, rows)
    config = backfilling(
        database, SqliteMirror(tmp_path / "mirror.db"), MemoryStore(), chunk_size=100
    )
    with Pipeline(config) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)
        with writing(database, 2, rows):
            for _ in range(2):
                outcome = outcome_of(pipeline)
                assert outcome.identical, outcome
                assert sum(table.ranges for table in outcome.tables) > 8


def test_tables_that_cannot_be_paged_are_named_and_the_stream_goes_on(
    items: Database, tmp_path: Path
) -> None:
    """Without a backfill, too: what cannot be compared is not called identical."""
    items.execute("CREATE TABLE words (word VARCHAR(20) PRIMARY KEY)")
    items.execute("CREATE TABLE heap (id INT) ENGINE = MyISAM")
    store = start_from_now(MemoryStore(), items.server)
    config = config_for(
        items.server, SqliteMirror(tmp_path / "mirror.db"), [f"{items.name}.*"], store
    )
    with Pipeline(config, verifies=True) as pipeline:
        outcome = outcome_of(pipeline)
        items.execute("INSERT INTO words VALUES ('a')")
        catch_up(pipeline, items.server)

    assert not outcome.identical
    assert {t.name.table: t.refused and t.refused.value for t in outcome.tables} == {
        "heap": "snapshot_engine_unsupported",
        "items": None,
        "words": "snapshot_pk_unsupported_type",
    }
    assert outcome.tables[1].differences == Differences(missing=10)


def test_what_cannot_be_compared_is_refused_at_once(items: Database, tmp_path: Path) -> None:
    """A sink without the method, and a pipeline without a reader."""
    store = start_from_now(MemoryStore(), items.server)
    with (
        Pipeline(backfilling(items, Upserting(), store)) as pipeline,
        pytest.raises(ValueError, match="compare_range"),
    ):
        pipeline.verify()
    plain = config_for(
        items.server, SqliteMirror(tmp_path / "mirror.db"), [f"{items.name}.*"], store
    )
    with Pipeline(plain) as pipeline, pytest.raises(ValueError, match="verifies"):
        pipeline.verify()
