"""What a backfill does when it is ended in the middle, begun otherwise, or led astray."""

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import pytest
from helpers.backfills import Upserting, backfilling, ten_items
from helpers.mysql import Database, PrivateServers, execute
from helpers.pipelines import catch_up, halt_of
from helpers.views import Altered, AlteredSource

from capstan import (
    Change,
    Config,
    GtidSet,
    HaltReason,
    MemoryStore,
    Pipeline,
    PipelineHalted,
    SnapshotMeta,
)
from capstan.core.tables import TableName
from capstan.demo.mysql_access import SqlServer
from capstan.sources.base import Chunk, Pinned, ViewSource
from capstan.wiring import view_source

DEADLINE = 60.0


@pytest.fixture
def items(database: Database) -> Database:
    """A database with one table of ten rows."""
    return ten_items(database)


@contextmanager
def shop_on(server: SqlServer) -> Iterator[Database]:
    with contextlib.closing(server.connect()) as connection:
        execute(connection, "CREATE DATABASE shop")
        execute(connection, "CREATE TABLE shop.items (id INT PRIMARY KEY)")
        yield Database(name="shop", server=server, connection=connection)


class RefusingChunk(Upserting):
    """Refuses the chunk of one number, once."""

    def __init__(self, sequence: int) -> None:
        super().__init__()
        self.sequence: int | None = sequence

    def handle_snapshot(self, changes: Sequence[Change], meta: SnapshotMeta) -> None:
        if meta.sequence == self.sequence:
            self.sequence = None
            raise ValueError("sentinel-value")
        super().handle_snapshot(changes, meta)


def test_a_refused_chunk_comes_again_and_nothing_older(items: Database) -> None:
    """R118, R121-R124, R130, R168: the mark was on disk before the sink, the cursor only after."""
    sink, store = RefusingChunk(2), MemoryStore()
    config = backfilling(items, sink, store, chunk_size=3)

    assert halt_of(config) is HaltReason.SINK_FAILED
    state = store.load_snapshot()
    assert state is not None
    (progress,) = state.tables
    assert (progress.cursor, progress.delivered, progress.sequence) == ((6,), (9,), 2)

    with Pipeline(config) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)

    assert [m.sequence for m in sink.chunks] == [0, 1, 2, 3]
    assert sink.content == {(n,): (n, f"n{n}") for n in range(1, 11)}
    assert set(sink.came.values()) == {1}


def test_a_deleted_row_of_a_refused_chunk_leaves_no_phantom(items: Database) -> None:
    """R125, R127: between mark and cursor a delete is forwarded, as the chunk may be there."""
    sink, store = RefusingChunk(1), MemoryStore()
    config = backfilling(items, sink, store, chunk_size=3)
    assert halt_of(config) is HaltReason.SINK_FAILED

    # What a crash behind the sink's acceptance leaves: the rows are there, the cursor is not.
    sink.content.update({(n,): (n, f"n{n}") for n in range(4, 7)})
    items.execute("DELETE FROM items WHERE id = 5")
    with Pipeline(config) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)
        catch_up(pipeline, items.server)

    assert sorted(sink.content) == [(n,) for n in (1, 2, 3, 4, 6, 7, 8, 9, 10)]


def test_a_complete_backfill_never_begins_again(items: Database) -> None:
    """R131: with the same store nothing is read again."""
    sink, store = Upserting(), MemoryStore()
    config = backfilling(items, sink, store)
    for _ in range(2):
        with Pipeline(config) as pipeline:
            assert pipeline.wait_snapshot(DEADLINE)

    assert len(sink.chunks) == 1


def test_a_cleared_state_is_resolved_and_read_afresh(items: Database) -> None:
    """R163, D8: without the durable state every table begins with sequence 0 again."""
    sink, store = Upserting(), MemoryStore()
    config = backfilling(items, sink, store)
    with Pipeline(config) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)
    items.execute("CREATE TABLE more (id INT PRIMARY KEY)")
    store.clear_snapshot()
    with Pipeline(config) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)

    assert [(m.table, m.sequence) for m in sink.chunks] == [("items", 0), ("items", 0), ("more", 0)]


@pytest.mark.parametrize(
    ("first", "then", "drifts"),
    [
        (["items"], ["items", "other"], True),
        (["items", "other"], ["items"], True),
        (["items", "other"], ["other", "items"], False),
    ],
)
def test_another_list_of_tables_is_a_drift(
    items: Database, first: list[str], then: list[str], drifts: bool
) -> None:
    """R159-R162: added or removed, also behind a complete backfill; never mere order."""
    items.execute("CREATE TABLE other (id INT PRIMARY KEY)")
    store = MemoryStore()

    def config(tables: list[str]) -> Any:
        named = [f"{items.name}.{table}" for table in tables]
        return backfilling(items, Upserting(), store, tables=named)

    with Pipeline(config(first)) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)
    if drifts:
        assert halt_of(config(then)) is HaltReason.SNAPSHOT_CONFIG_DRIFTED
        return
    with Pipeline(config(then)) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)


def test_a_seed_never_replaces_a_position(items: Database) -> None:
    """R67, R68: a store that has one goes on from it."""
    store = MemoryStore()
    config = backfilling(items, Upserting(), store)
    with Pipeline(config) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)
    before = store.load_watermark()
    items.execute("INSERT INTO items VALUES (11, 'n11')")
    sink = Upserting()
    with Pipeline(attrs.evolve(config, sink=sink)) as pipeline:
        catch_up(pipeline, items.server)

    assert sink.values == [(11, "n11")]
    assert before is not None
    assert before < (store.load_watermark() or GtidSet())


def test_a_reader_that_crashes_goes_on(items: Database) -> None:
    """R130: another reader begins behind the cursor; nothing comes twice."""
    sink = Upserting()
    config = backfilling(items, sink, MemoryStore(), chunk_size=3)
    views = AlteredSource(views_of(config), CrashesOnce)

    with Pipeline(config, views=views) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)

    assert views.made == 2
    assert set(sink.came.values()) == {1}
    assert [m.sequence for m in sink.chunks] == [0, 1, 2, 3]


def views_of(config: Config) -> ViewSource:
    """The real views of a configuration."""
    assert config.snapshot is not None
    return view_source(config, config.snapshot)


def halt_with(config: Config, views: ViewSource) -> HaltReason:
    """Why a pipeline with these views halts."""
    with pytest.raises(PipelineHalted) as caught, Pipeline(config, views=views) as pipeline:
        pipeline.wait(DEADLINE)
    return caught.value.halt.reason


class CrashesOnce(Altered):
    """Fails in a way nobody named, at the second chunk of the first view."""

    def rows(self, after: Any, limit: int, max_bytes: int) -> Chunk:
        if after is not None and self.number == 1:
            raise RuntimeError("sentinel-value")
        return super().rows(after, limit, max_bytes)


class Ahead(Altered):
    """Tells of a transaction that will never come."""

    def pin(self, table: TableName) -> Pinned:
        pinned = super().pin(table)
        foreign = GtidSet.parse("00000000-0000-0000-0000-000000000001:7")
        return attrs.evolve(pinned, position=pinned.position | foreign)


def test_a_gate_that_waits_for_nothing_stalls(items: Database) -> None:
    """D6: what G holds and the stream never brings is a halt, not a wait."""
    config = backfilling(items, Upserting(), MemoryStore(), gate_timeout=0.5)

    assert halt_with(config, AlteredSource(views_of(config), Ahead)) is (
        HaltReason.SNAPSHOT_GATE_STALLED
    )


def test_transactions_purged_by_hand_are_a_gap(new_server: PrivateServers) -> None:
    """D6: GTIDs that were put into gtid_purged never stream."""

    class PurgesByHand(Altered):
        def pin(self, table: TableName) -> Pinned:
            if self.number == 1:
                shop.execute("SET GLOBAL gtid_purged = '+00000000-0000-0000-0000-000000000001:1-5'")
                self.number = 0
            return super().pin(table)

    with shop_on(new_server()) as shop:
        config = backfilling(shop, Upserting(), MemoryStore(), gate_timeout=0.5)
        assert halt_with(config, AlteredSource(views_of(config), PurgesByHand)) is (
            HaltReason.DATA_GAP
        )


def test_views_of_another_server_are_refused(new_server: PrivateServers) -> None:
    """R153-R155, D3: a name that leads elsewhere by now."""
    with shop_on(new_server()) as here, shop_on(new_server()) as there:
        elsewhere = views_of(backfilling(there, Upserting(), MemoryStore()))
        config = backfilling(here, Upserting(), MemoryStore())

        assert halt_with(config, elsewhere) is HaltReason.SNAPSHOT_SOURCE_MISMATCH
