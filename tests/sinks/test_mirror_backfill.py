"""Backfills: a table begins empty, chunks are upserts, the last one makes it complete."""

from pathlib import Path

import pytest
from helpers.changes_builder import (
    UUID,
    chunk,
    chunk_facts,
    created,
    deleted,
    group,
    inserted,
    schema_change,
    shape,
    transaction,
    up_to,
    updated,
)
from helpers.mirror_reader import BARE, ORDERS, is_strict, mirrored, mirrored_tables

from capstan.core.changes import ChunkedChanges
from capstan.core.gtid import GtidSet
from capstan.core.halts import Halted
from capstan.sinks.sqlite_mirror import SqliteMirror

FIRST = chunk_facts("shop.orders", 0)
MIDDLE = chunk_facts("shop.orders", 1)
LAST = chunk_facts("shop.orders", 2, final=True)


def test_a_backfill_fills_a_table(mirror: SqliteMirror, path: Path) -> None:
    """R57, R59: rows of all chunks are there; the position is not touched."""
    for rows, facts in (([(1, "a"), (2, "b")], FIRST), ([(3, "c")], MIDDLE), ([], LAST)):
        mirror.handle_snapshot(chunk(ORDERS, *rows), facts)
    assert mirrored(path, "shop.orders") == [(1, "a"), (2, "b"), (3, "c")]
    assert mirror.position() == GtidSet()


def test_the_first_chunk_empties_the_table(mirror: SqliteMirror, path: Path) -> None:
    """D8: no phantom of an earlier backfill or stream stays, whatever its columns were."""
    old = shape("shop.orders", "id int", "more int", "columns int", key=("id",))
    mirror.handle_batch([transaction(1, inserted(old, (7, 0, 0), (8, 0, 0)))])
    mirror.handle_snapshot(chunk(ORDERS, (1, "a")), FIRST)
    assert mirrored(path, "shop.orders") == [(1, "a")]


def test_an_empty_table_is_emptied_too(mirror: SqliteMirror, path: Path) -> None:
    """D8: a backfill without a single row still takes the old ones away."""
    mirror.handle_batch([transaction(1, inserted(ORDERS, (7, "x")))])
    mirror.handle_snapshot(ChunkedChanges(), chunk_facts("shop.orders", 0, final=True))
    assert mirrored(path, "shop.orders") == []
    assert is_strict(mirror, ORDERS)


def test_a_chunk_that_comes_again_changes_nothing(mirror: SqliteMirror, path: Path) -> None:
    """R121, R122: the chunk of a crash window is an upsert by key."""
    mirror.handle_snapshot(chunk(ORDERS, (1, "a")), FIRST)
    mirror.handle_snapshot(chunk(ORDERS, (2, "b"), (3, "c")), MIDDLE)
    mirror.handle_snapshot(chunk(ORDERS, (2, "newer"), (3, "c"), (4, "d")), MIDDLE)
    assert mirrored(path, "shop.orders") == [(1, "a"), (2, "newer"), (3, "c"), (4, "d")]


def test_chunks_may_come_as_a_plain_list(mirror: SqliteMirror, path: Path) -> None:
    """R114: a concrete sequence of changes is all that a sink is promised."""
    mirror.handle_snapshot(list(chunk(ORDERS, (1, "a"), (2, "b"))), FIRST)
    assert mirrored(path, "shop.orders") == [(1, "a"), (2, "b")]


def test_stream_and_chunks_meet_in_one_table(mirror: SqliteMirror, path: Path) -> None:
    """R90, R127: forwarded changes during a backfill are upserts and harmless deletes."""
    mirror.handle_snapshot(chunk(ORDERS, (1, "a"), (2, "b")), FIRST)
    mirror.handle_batch(
        [
            transaction(1, updated(ORDERS, ((1, "a"), (1, "A"))), deleted(ORDERS, (2, "b"))),
            transaction(2, deleted(ORDERS, (3, "never came"))),
        ]
    )
    mirror.handle_snapshot(chunk(ORDERS, (4, "d")), LAST)
    assert mirrored(path, "shop.orders") == [(1, "A"), (4, "d")]
    assert mirror.position() == up_to(2)


def test_a_table_is_complete_after_its_last_chunk(mirror: SqliteMirror) -> None:
    """R266: backfilled to the end: from the next call on a missing row is drift."""
    mirror.handle_snapshot(chunk(ORDERS, (1, "a")), FIRST)
    assert not is_strict(mirror, ORDERS)
    mirror.handle_snapshot(ChunkedChanges(), LAST)
    assert is_strict(mirror, ORDERS)


def test_a_table_is_complete_after_a_clean_end(mirror: SqliteMirror) -> None:
    """R266: a pipeline that stops right after the backfill has not lost its strictness."""
    mirror.handle_snapshot(chunk(ORDERS, (1, "a")), chunk_facts("shop.orders", 0, final=True))
    mirror.close()
    mirror.open()
    assert is_strict(mirror, ORDERS)


def test_a_killed_pipeline_does_not_trust_its_last_chunk(mirror: SqliteMirror, path: Path) -> None:
    """R127, R128: until its cursor is on disk the chunk comes again, and deletes overtake it."""
    mirror.handle_snapshot(chunk(ORDERS, (1, "a")), chunk_facts("shop.orders", 0, final=True))
    mirror._writer = None
    mirror._file.close()
    mirror.open()
    assert not is_strict(mirror, ORDERS)
    mirror.handle_snapshot(chunk(ORDERS, (1, "a"), (2, "b")), LAST)
    assert is_strict(mirror, ORDERS)
    assert mirrored(path, "shop.orders") == [(1, "a"), (2, "b")]


def test_a_new_backfill_makes_a_complete_table_unsure_again(mirror: SqliteMirror) -> None:
    """D8, R127: during a redo deletes may name rows that were never sent."""
    mirror.handle_batch([created(1, "shop.orders"), transaction(2, inserted(ORDERS, (1, "a")))])
    mirror.handle_snapshot(chunk(ORDERS, (1, "a")), FIRST)
    assert not is_strict(mirror, ORDERS)


def test_a_failed_chunk_leaves_the_table_as_it_was(mirror: SqliteMirror, path: Path) -> None:
    """R118, D8: the table is not even emptied."""
    mirror.handle_batch([transaction(1, inserted(ORDERS, (7, "x")))])
    with pytest.raises(Halted, match=r"^sink_failed: shop\.orders: "):
        mirror.handle_snapshot(chunk(ORDERS, (1, "a"), (2, 2**70)), FIRST)
    assert mirrored(path, "shop.orders") == [(7, "x")]


def test_a_chunk_of_a_table_without_key_is_refused(mirror: SqliteMirror, path: Path) -> None:
    """R117: without a key a chunk that comes twice would double its rows."""
    with pytest.raises(Halted) as caught:
        mirror.handle_snapshot(chunk(BARE, (1, "x")), chunk_facts("shop.bare"))
    assert str(caught.value) == "sink_failed: shop.bare: a chunk of a table without a key"
    assert mirrored_tables(path) == set()


# -- a table that awaits its backfill --------------------------------------------------------------

STALE = [
    schema_change(3, "alter_table", "shop.orders"),
    schema_change(3, "alter_partition", "shop.orders"),
    schema_change(3, "rename_table", "new.orders", "shop.orders", captured=False),
    schema_change(3, "exchange_partition", "shop.orders", "new.orders", new_captured=False),
    schema_change(3, "exchange_partition", "new.orders", "shop.orders", captured=False),
]


@pytest.mark.parametrize("change", STALE, ids=lambda change: change.kind)
def test_a_stale_table_goes_on_after_its_backfill_was_ordered(
    mirror: SqliteMirror, path: Path, change: object
) -> None:
    """D9: the statement that halted the mirror comes again at the restart; the remedy must hold."""
    assert isinstance(change, type(STALE[0]))
    mirror.handle_batch([created(1, "shop.orders"), transaction(2, inserted(ORDERS, (1, "a")))])
    with pytest.raises(Halted, match=r"^mirror_rows_stale: shop\.orders: "):
        mirror.handle_batch([group(change)])
    mirror.await_backfill("shop", "orders")
    mirror.close()
    mirror.open()
    mirror.handle_batch([group(change)])
    assert mirror.position() == up_to(3)
    altered = shape("shop.orders", "id int", "extra int", key=("id",))
    mirror.handle_snapshot(chunk(altered, (1, 2)), chunk_facts("shop.orders", 0, final=True))
    assert mirrored(path, "shop.orders") == [(1, 2)]
    assert is_strict(mirror, altered)


@pytest.mark.parametrize(
    "change",
    [
        schema_change(1, "drop_table", "shop.orders"),
        schema_change(1, "drop_database", "shop"),
        schema_change(1, "truncate_table", "shop.orders"),
        schema_change(1, "create_table", "shop.orders"),
        schema_change(1, "rename_table", "shop.orders", "old.orders", new_captured=False),
    ],
    ids=lambda change: change.kind,
)
def test_no_schema_change_ends_the_waiting(mirror: SqliteMirror, change: object) -> None:
    """D9: whatever comes before the first chunk, the next ALTER does not halt."""
    assert isinstance(change, type(STALE[0]))
    mirror.await_backfill("shop", "orders")
    mirror.handle_batch([group(change), transaction(2, inserted(ORDERS, (1, "a")))])
    mirror.handle_batch([group(STALE[0])])
    assert mirror.position() == up_to(3)


def test_a_table_renamed_onto_one_that_waits_is_taken_away(
    mirror: SqliteMirror, path: Path
) -> None:
    """D9: the backfill of the name will bring the rows."""
    other = shape("shop.other", "id int", key=("id",))
    mirror.handle_batch([created(1, "shop.other"), transaction(2, inserted(other, (1,)))])
    mirror.await_backfill("shop", "orders")
    mirror.handle_batch([group(schema_change(3, "rename_table", "shop.other", "shop.orders"))])
    assert mirrored_tables(path) == set()
    mirror.handle_batch([group(schema_change(4, "alter_table", "shop.orders"))])


def test_a_table_renamed_while_it_waits_is_stale_under_its_new_name(mirror: SqliteMirror) -> None:
    """D28: the backfill was ordered for the old name; the rows of the new one are unknown."""
    mirror.await_backfill("shop", "orders")
    change = schema_change(1, "rename_table", "shop.orders", "shop.moved")
    with pytest.raises(Halted) as caught:
        mirror.handle_batch([group(change)])
    assert str(caught.value) == (
        f"mirror_rows_stale: shop.moved: unseen rows come in with {UUID}:1"
    )
