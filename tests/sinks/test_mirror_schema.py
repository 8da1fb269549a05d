"""What schema changes do to the mirror, kind by kind."""

from pathlib import Path

import pytest
from helpers.changes_builder import (
    UUID,
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
from helpers.mirror_reader import ORDERS, is_strict, mirrored, mirrored_tables

from capstan.core.changes import SchemaChange
from capstan.core.halts import Halted
from capstan.sinks.sqlite_mirror import SqliteMirror


def fill(mirror: SqliteMirror, *names: str) -> None:
    """Follow these tables from their CREATE, each with one row that names it."""
    for name in names:
        number = mirror.position().count() + 1
        table = shape(name, "id int", "note varchar(20)", key=("id",))
        mirror.handle_batch(
            [created(number, name), transaction(number + 1, inserted(table, (1, name)))]
        )


def ddl(mirror: SqliteMirror, *changes: SchemaChange) -> None:
    mirror.handle_schema_changes(changes)


def next_change(mirror: SqliteMirror, *arguments: object, **options: object) -> SchemaChange:
    return schema_change(mirror.position().count() + 1, *arguments, **options)  # type: ignore[arg-type]


def halt_of(mirror: SqliteMirror, *changes: SchemaChange) -> str:
    before = mirror.position()
    with pytest.raises(Halted) as caught:
        ddl(mirror, *changes)
    assert mirror.position() == before
    return str(caught.value)


def strict(mirror: SqliteMirror, name: str) -> bool:
    """Whether a DELETE of a row that is not there halts."""
    return is_strict(mirror, shape(name, "id int", "note varchar(20)", key=("id",)))


def test_a_created_table_comes_with_its_first_row(mirror: SqliteMirror, path: Path) -> None:
    """D28: a CREATE carries no columns; from it on the table is complete."""
    ddl(mirror, next_change(mirror, "create_table", "shop.orders", rows_may_change=False))
    assert mirrored_tables(path) == set()
    mirror.handle_batch([transaction(2, inserted(ORDERS, (1, "a")))])
    assert mirrored(path, "shop.orders") == [(1, "a")]
    assert strict(mirror, "shop.orders")


def test_a_create_that_did_nothing_changes_nothing(mirror: SqliteMirror, path: Path) -> None:
    """D28: CREATE TABLE IF NOT EXISTS of a table with rows is in the binlog like any other."""
    fill(mirror, "shop.orders")
    ddl(mirror, next_change(mirror, "create_table", "shop.orders", rows_may_change=False))
    assert mirrored(path, "shop.orders") == [(1, "shop.orders")]
    assert strict(mirror, "shop.orders")


def test_a_create_does_not_make_a_half_known_table_complete(mirror: SqliteMirror) -> None:
    """D28: rows from before the start stay unknown."""
    mirror.handle_batch([transaction(1, inserted(ORDERS, (1, "a")))])
    ddl(mirror, next_change(mirror, "create_table", "shop.orders", rows_may_change=False))
    assert not strict(mirror, "shop.orders")


def test_a_dropped_table_is_gone(mirror: SqliteMirror, path: Path) -> None:
    """D20: each table of a multi-table DROP; a new one of the same name begins anew."""
    fill(mirror, "shop.a", "shop.b", "shop.c")
    ddl(
        mirror,
        next_change(mirror, "drop_table", "shop.a"),
        next_change(mirror, "drop_table", "shop.never_seen"),
        next_change(mirror, "drop_table", "shop.c"),
    )
    assert mirrored_tables(path) == {"shop.b"}
    number = mirror.position().count() + 1
    other = shape("shop.a", "x int", "y int", "z int", key=("z",))
    mirror.handle_batch(
        [created(number, "shop.a"), transaction(number + 1, inserted(other, (1, 2, 3)))]
    )
    assert mirrored(path, "shop.a") == [(1, 2, 3)]


def test_a_dropped_database_takes_its_tables(mirror: SqliteMirror, path: Path) -> None:
    """D9: all of DROP DATABASE, and nothing of databases with similar names."""
    fill(mirror, "shop.a", "shop.b", "shop2.a", "Shop.c")
    ddl(mirror, next_change(mirror, "drop_database", "shop"))
    assert mirrored_tables(path) == {"shop2.a", "Shop.c"}


def test_a_truncated_table_is_empty_and_still_followed(mirror: SqliteMirror, path: Path) -> None:
    """D28: TRUNCATE has no row events."""
    fill(mirror, "shop.orders", "shop.other")
    ddl(mirror, next_change(mirror, "truncate_table", "shop.orders"))
    assert mirrored(path, "shop.orders") == []
    assert mirrored(path, "shop.other") == [(1, "shop.other")]
    assert strict(mirror, "shop.orders")


def test_a_table_created_dropped_and_created_in_one_batch_ends_right(
    mirror: SqliteMirror, path: Path
) -> None:
    """R1: schema changes and rows keep their order inside a batch."""
    mirror.handle_batch(
        [
            created(1, "shop.orders"),
            transaction(2, inserted(ORDERS, (1, "old"), (2, "old"))),
            group(schema_change(3, "drop_table", "shop.orders")),
            created(4, "shop.orders"),
            transaction(5, inserted(ORDERS, (1, "new"))),
            group(schema_change(6, "rename_table", "shop.orders", "shop.moved")),
            transaction(7, inserted(ORDERS, (9, "again"))),
        ]
    )
    assert mirrored(path, "shop.moved") == [(1, "new")]
    assert mirrored(path, "shop.orders") == [(9, "again")]


# -- renames ---------------------------------------------------------------------------------------


def test_a_renamed_table_keeps_its_rows(mirror: SqliteMirror, path: Path) -> None:
    """D28: also across databases, and as complete as before."""
    fill(mirror, "shop.a", "shop.b")
    ddl(
        mirror,
        next_change(mirror, "rename_table", "shop.a", "archive.a"),
        next_change(mirror, "rename_table", "shop.b", "shop.a"),
    )
    assert mirrored_tables(path) == {"archive.a", "shop.a"}
    assert mirrored(path, "archive.a") == [(1, "shop.a")]
    assert mirrored(path, "shop.a") == [(1, "shop.b")]
    assert strict(mirror, "archive.a")


def test_two_tables_swap_names_in_one_statement(mirror: SqliteMirror, path: Path) -> None:
    """D9: `RENAME a TO tmp, b TO a, tmp TO b`, with different columns and in order."""
    fill(mirror, "shop.a")
    wide = shape("shop.b", "x text", "id int", "y int", key=("id",))
    mirror.handle_batch([created(3, "shop.b"), transaction(4, inserted(wide, ("x", 1, 9)))])
    ddl(
        mirror,
        next_change(mirror, "rename_table", "shop.a", "shop.tmp"),
        next_change(mirror, "rename_table", "shop.b", "shop.a"),
        next_change(mirror, "rename_table", "shop.tmp", "shop.b"),
    )
    assert mirrored(path, "shop.a") == [("x", 1, 9)]
    assert mirrored(path, "shop.b") == [(1, "shop.a")]
    renamed = shape("shop.a", "x text", "id int", "y int", key=("id",))
    mirror.handle_batch([transaction(6, updated(renamed, (("x", 1, 9), ("y", 1, 8))))])
    assert mirrored(path, "shop.a") == [("y", 1, 8)]


def test_a_rename_may_change_letter_case_only(mirror: SqliteMirror, path: Path) -> None:
    """`mirror_name_conflict` is about two tables, not about one with a new name."""
    fill(mirror, "shop.orders")
    ddl(mirror, next_change(mirror, "rename_table", "shop.orders", "shop.Orders"))
    assert mirrored_tables(path) == {"shop.Orders"}
    assert mirrored(path, "shop.Orders") == [(1, "shop.orders")]


def test_a_rename_onto_a_name_equal_but_for_case_is_a_conflict(mirror: SqliteMirror) -> None:
    """`mirror_name_conflict`: the other table still stands there."""
    fill(mirror, "shop.a", "shop.b")
    change = next_change(mirror, "rename_table", "shop.a", "shop.B")
    assert halt_of(mirror, change) == (
        "mirror_name_conflict: shop.B and shop.b are one name to SQLite"
    )


def test_a_table_created_but_never_filled_can_be_renamed(mirror: SqliteMirror, path: Path) -> None:
    """D28: that it is followed from its CREATE moves with the name."""
    ddl(mirror, next_change(mirror, "create_table", "shop.a", rows_may_change=False))
    ddl(mirror, next_change(mirror, "rename_table", "shop.a", "shop.b"))
    assert strict(mirror, "shop.b")
    assert not strict(mirror, "shop.a")


def test_a_rename_out_of_the_capture_list_takes_the_rows_along(
    mirror: SqliteMirror, path: Path
) -> None:
    """D28: what is not captured any more leaves the mirror."""
    fill(mirror, "shop.orders")
    ddl(
        mirror,
        next_change(mirror, "rename_table", "shop.orders", "old.orders", new_captured=False),
    )
    assert mirrored_tables(path) == set()


def test_a_rename_into_the_capture_list_is_refused(mirror: SqliteMirror, path: Path) -> None:
    """D28: rows that were never seen come in: what gh-ost ends with, seen from its table."""
    fill(mirror, "shop.orders")
    number = mirror.position().count() + 1
    message = halt_of(
        mirror,
        next_change(mirror, "rename_table", "shop.orders", "shop._old", new_captured=False),
        next_change(mirror, "rename_table", "shop._new", "shop.orders", captured=False),
    )
    assert message == f"mirror_rows_stale: shop.orders: unseen rows come in with {UUID}:{number}"
    assert mirrored(path, "shop.orders") == [(1, "shop.orders")]


def test_a_rename_of_a_table_never_seen_leaves_it_unknown(mirror: SqliteMirror, path: Path) -> None:
    """D28: a stream that began late knows as little of it under the new name."""
    fill(mirror, "shop.stale")
    ddl(mirror, next_change(mirror, "rename_table", "shop.unseen", "shop.stale"))
    assert mirrored_tables(path) == set()
    assert not strict(mirror, "shop.stale")


def test_a_rename_takes_the_place_of_what_cannot_be_there(mirror: SqliteMirror, path: Path) -> None:
    """D28: the server renames only onto free names; a leftover under it is no row of the source."""
    fill(mirror, "shop.a", "shop.b")
    ddl(mirror, next_change(mirror, "rename_table", "shop.a", "shop.b"))
    assert mirrored(path, "shop.b") == [(1, "shop.a")]


# -- alterations -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["alter_table", "alter_partition"])
def test_an_alteration_that_leaves_rows_alone_is_followed(
    mirror: SqliteMirror, path: Path, kind: str
) -> None:
    """D28: `rows_may_change` False."""
    fill(mirror, "shop.orders")
    ddl(mirror, next_change(mirror, kind, "shop.orders", rows_may_change=False))
    assert mirrored(path, "shop.orders") == [(1, "shop.orders")]
    assert strict(mirror, "shop.orders")


@pytest.mark.parametrize("kind", ["alter_table", "alter_partition"])
def test_an_alteration_that_may_change_rows_is_refused(
    mirror: SqliteMirror, path: Path, kind: str
) -> None:
    """D28: the values that the server gave to old rows are not in the binlog."""
    fill(mirror, "shop.orders")
    number = mirror.position().count() + 1
    assert halt_of(mirror, next_change(mirror, kind, "shop.orders")) == (
        f"mirror_rows_stale: shop.orders: {kind} in {UUID}:{number}"
    )
    assert mirrored(path, "shop.orders") == [(1, "shop.orders")]


def test_an_empty_table_may_be_altered_in_any_way(mirror: SqliteMirror, path: Path) -> None:
    """D28: there is nothing stale in it; the next row brings the new columns."""
    fill(mirror, "shop.orders")
    mirror.handle_batch([transaction(3, deleted(ORDERS, (1, "shop.orders")))])
    ddl(mirror, next_change(mirror, "alter_table", "shop.orders"))
    altered = shape("shop.orders", "id bigint", "extra int", key=("id",))
    mirror.handle_batch([transaction(5, inserted(altered, (1, 2)))])
    assert mirrored(path, "shop.orders") == [(1, 2)]
    assert is_strict(mirror, altered)


def test_an_alteration_may_rename_as_well(mirror: SqliteMirror, path: Path) -> None:
    """D28: ALTER TABLE … RENAME TO is both, and refused when rows may have changed."""
    fill(mirror, "shop.a")
    change = next_change(mirror, "alter_table", "shop.a", "shop.b", rows_may_change=False)
    ddl(mirror, change)
    assert mirrored(path, "shop.b") == [(1, "shop.a")]
    message = halt_of(mirror, next_change(mirror, "alter_table", "shop.b", "shop.c"))
    assert message.startswith("mirror_rows_stale: shop.b: alter_table in ")


@pytest.mark.parametrize(
    ("mine", "theirs"), [("shop.orders", "shop.part"), ("shop.part", "shop.orders")]
)
@pytest.mark.parametrize("captured", [True, False])
def test_an_exchange_of_partitions_is_refused(
    mirror: SqliteMirror, mine: str, theirs: str, captured: bool
) -> None:
    """D9: both sides are named; rows go and come without events."""
    fill(mirror, "shop.orders")
    change = next_change(
        mirror,
        "exchange_partition",
        mine,
        theirs,
        captured=captured or mine == "shop.orders",
        new_captured=captured or theirs == "shop.orders",
    )
    assert halt_of(mirror, change).startswith("mirror_rows_stale: shop.")


def test_an_exchange_between_empty_tables_is_followed(mirror: SqliteMirror) -> None:
    """D9: two tables followed from their CREATE that hold nothing have nothing to swap."""
    for name in ("shop.a", "shop.b"):
        ddl(mirror, next_change(mirror, "create_table", name, rows_may_change=False))
    ddl(mirror, next_change(mirror, "exchange_partition", "shop.a", "shop.b"))
    assert strict(mirror, "shop.a")


def test_an_exchange_with_rows_never_seen_is_refused(mirror: SqliteMirror) -> None:
    """D9: an empty table does not stay empty when its partner is unknown."""
    ddl(mirror, next_change(mirror, "create_table", "shop.a", rows_may_change=False))
    change = next_change(mirror, "exchange_partition", "shop.a", "shop.b", new_captured=False)
    assert halt_of(mirror, change).startswith("mirror_rows_stale: shop.a: ")


# -- what does not concern the mirror --------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("other", None),
        ("other", "shop.orders"),
        ("create_view", "shop.orders"),
        ("alter_view", "shop.orders"),
        ("drop_view", "shop.orders"),
        ("create_database", "shop"),
        ("alter_database", "shop"),
        ("drop_database", "elsewhere"),
    ],
)
def test_other_kinds_leave_the_mirror_alone(
    mirror: SqliteMirror, path: Path, kind: str, name: str | None
) -> None:
    """D28: they move the position and nothing else."""
    fill(mirror, "shop.orders")
    ddl(mirror, next_change(mirror, kind, name))
    assert mirrored(path, "shop.orders") == [(1, "shop.orders")]
    assert mirror.position() == up_to(3)


@pytest.mark.parametrize(
    "kind", ["create_table", "drop_table", "truncate_table", "alter_table", "alter_partition"]
)
def test_tables_outside_the_capture_list_do_not_matter(
    mirror: SqliteMirror, path: Path, kind: str
) -> None:
    """D20: a statement may name captured and other tables; only its captured ones count."""
    fill(mirror, "shop.orders")
    ddl(mirror, next_change(mirror, kind, "shop.orders", captured=False))
    ddl(mirror, next_change(mirror, kind, "shop.other", captured=False))
    ddl(
        mirror,
        next_change(mirror, "rename_table", "x.a", "x.b", captured=False, new_captured=False),
    )
    assert mirrored(path, "shop.orders") == [(1, "shop.orders")]
    assert not strict(mirror, "shop.other")
