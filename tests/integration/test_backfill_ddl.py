"""Schema changes before, between and behind the chunks of a table, on a real server."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from helpers.backfill_acts import acting
from helpers.backfills import Upserting, backfilling, ten_items
from helpers.mysql import Database
from helpers.pipelines import catch_up, executed

from capstan import HaltReason, MemoryStore, Pipeline, PipelineHalted, SqliteMirror
from capstan.core.tables import TableName

DEADLINE = 60.0


@pytest.fixture
def items(database: Database) -> Database:
    """A database with one table of ten rows."""
    return ten_items(database)


def halts_after(items: Database, statements: tuple[str, ...], **snapshot: Any) -> Upserting:
    """Backfill in chunks of four with these run behind the first one; it drifts.

    Returns:
        What the sink got until then.
    """
    sink = Upserting()
    config = backfilling(
        items, sink, MemoryStore(), tables=[f"{items.name}.items"], chunk_size=4, **snapshot
    )

    def act() -> None:
        for statement in statements:
            items.execute(statement)

    with (
        pytest.raises(PipelineHalted) as caught,
        Pipeline(config, views=acting(config, act, before_pin=2)) as pipeline,
    ):
        pipeline.wait(DEADLINE)
    assert caught.value.halt.reason is HaltReason.SNAPSHOT_SCHEMA_DRIFTED
    assert f"{items.name}.items" in caught.value.halt.detail
    return sink


ANOTHER = "CREATE TABLE another (id INT PRIMARY KEY, name VARCHAR(50))"

DRIFTS = {
    "dropped": ("DROP TABLE items",),
    "dropped among others": (ANOTHER, "DROP TABLE another, items"),
    "dropped and made again": (
        "DROP TABLE items",
        "CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(50))",
    ),
    "altered": ("ALTER TABLE items ADD COLUMN more INT",),
    "altered to the same": (
        "ALTER TABLE items DROP COLUMN name, ADD COLUMN name VARCHAR(50) DEFAULT 'x'",
    ),
    "renamed away": ("RENAME TABLE items TO gone",),
    "swapped": (
        ANOTHER,
        "INSERT INTO another VALUES (70, 'n70')",
        "RENAME TABLE items TO gone, another TO items",
    ),
    "truncated": ("TRUNCATE TABLE items",),
}


@pytest.mark.parametrize("case", DRIFTS)
def test_a_table_changed_between_two_chunks_drifts(items: Database, case: str) -> None:
    """D9: cases 150-152: whether its columns are others by then or not; no foreign row comes."""
    sink = halts_after(items, DRIFTS[case])

    assert [meta.sequence for meta in sink.chunks] in ([], [0])
    assert set(sink.came) <= {(n,) for n in range(1, 5)}


@pytest.mark.parametrize("what", ["TRUNCATE PARTITION", "EXCHANGE PARTITION"])
def test_a_table_changed_in_its_partitions_drifts(items: Database, what: str) -> None:
    """D9: case 151: a truncated partition counts, and so do both sides of an exchange."""
    partitioned = "PARTITION BY RANGE (id) (PARTITION low VALUES LESS THAN (999))"
    items.execute(f"ALTER TABLE items {partitioned}")
    items.execute(ANOTHER)
    other = " WITH TABLE another" if what.startswith("EXCHANGE") else ""
    halts_after(items, (f"ALTER TABLE items {what} low{other}",))


def test_a_drift_is_over_once_the_table_is_read_again(items: Database) -> None:
    """D8, D9: the remedy that the halt names does not meet the same halt."""
    sink, store = Upserting(), MemoryStore()
    config = backfilling(items, sink, store, chunk_size=4)
    views = acting(config, lambda: items.execute("TRUNCATE TABLE items"), before_pin=2)
    with pytest.raises(PipelineHalted), Pipeline(config, views=views) as pipeline:
        pipeline.wait(DEADLINE)

    items.execute("INSERT INTO items VALUES (5, 'new')")
    store.clear_snapshot(TableName(items.name, "items"))
    with Pipeline(config) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)
        catch_up(pipeline, items.server)

    assert sink.content == {(5,): (5, "new")}


def test_a_schema_change_before_any_capture_passes(items: Database) -> None:
    """R61, D9: behind P0 and in front of the first view: every chunk shows its effect."""
    sink = Upserting()
    config = backfilling(items, sink, MemoryStore(), chunk_size=4)
    altered = "ALTER TABLE items ADD COLUMN more INT DEFAULT 3"
    views = acting(config, lambda: items.execute(altered), before_pin=1)

    with Pipeline(config, views=views) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)

    assert sink.content == {(n,): (n, f"n{n}", 3) for n in range(1, 11)}
    assert [change.kind for change in sink.schema_changes] == ["alter_table"]


def test_schema_changes_of_other_tables_do_not_drift(items: Database) -> None:
    """R137, R170, D9: they advance; a chunk that waits for them is let go by that alone."""
    sink, store = Upserting(), MemoryStore()
    config = backfilling(items, sink, store, tables=[f"{items.name}.items"], chunk_size=4)

    def act() -> None:
        items.execute(ANOTHER)
        items.execute("INSERT INTO another VALUES (99, 'other')")
        items.execute("ALTER TABLE another ADD COLUMN more INT")
        items.execute("DROP TABLE another")

    with Pipeline(config, views=acting(config, act, before_pin=3)) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)
        assert executed(items.server) == store.load_watermark()

    assert sink.content.pop((99,)) == (99, "other")
    assert sink.content == {(n,): (n, f"n{n}") for n in range(1, 11)}
    assert [m.sequence for m in sink.chunks] == [0, 1, 2]


# --- tables that are read again -------------------------------------------------------------------

REWRITES = {
    "other columns": ("DROP COLUMN name, ADD COLUMN name INT DEFAULT 7", 7),
    "the same columns": ("DROP COLUMN name, ADD COLUMN name VARCHAR(50) DEFAULT 'x'", "x"),
}


@pytest.mark.parametrize("before_pin", [2, 3])
@pytest.mark.parametrize("case", REWRITES)
def test_a_table_altered_between_chunks_is_read_again_when_so_configured(
    items: Database, tmp_path: Path, case: str, before_pin: int
) -> None:
    """D9, D28: in the middle of its backfill, too, there is no halt."""
    what, value = REWRITES[case]
    mirror = SqliteMirror(tmp_path / "mirror.db")
    config = backfilling(items, mirror, MemoryStore(), chunk_size=4, on_alter="backfill")
    views = acting(config, lambda: items.execute(f"ALTER TABLE items {what}"), before_pin)

    with Pipeline(config, views=views) as pipeline:
        catch_up(pipeline, items.server)
        assert pipeline.wait_snapshot(DEADLINE)
        items.execute("DELETE FROM items WHERE id = 3")
        catch_up(pipeline, items.server)

    rows = rows_of(tmp_path / "mirror.db", items)
    assert rows == [(n, value) for n in range(1, 11) if n != 3]


def test_an_alter_among_other_changes_is_seen(items: Database, tmp_path: Path) -> None:
    """D28: in one piece of the stream with changes before and behind it."""
    mirror, store = SqliteMirror(tmp_path / "mirror.db"), MemoryStore()
    config = backfilling(items, mirror, store, chunk_size=4, on_alter="backfill")
    with Pipeline(config) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)
    items.execute("UPDATE items SET name = 'changed' WHERE id = 2")
    items.execute("ALTER TABLE items DROP COLUMN name, ADD COLUMN name INT DEFAULT 7")
    items.execute("UPDATE items SET name = 8 WHERE id = 2")
    with Pipeline(config) as pipeline:
        catch_up(pipeline, items.server)
        assert pipeline.wait_snapshot(DEADLINE)

    rows = rows_of(tmp_path / "mirror.db", items)
    assert rows == [(n, 8 if n == 2 else 7) for n in range(1, 11)]


def rows_of(mirror: Path, database: Database) -> list[tuple[Any, ...]]:
    """The table as the mirror has it."""
    with contextlib.closing(sqlite3.connect(mirror)) as connection:
        return connection.execute(f'SELECT * FROM "{database.name}.items" ORDER BY id').fetchall()
