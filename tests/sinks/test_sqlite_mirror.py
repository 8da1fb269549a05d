"""The SQLite mirror from outside: what rows and position are after a call."""

import os
import sqlite3
from contextlib import closing
from datetime import date
from decimal import Decimal
from pathlib import Path

import attrs
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
from helpers.mirror_reader import BARE, ORDERS, mirrored, mirrored_tables

from capstan.core.gtid import GtidSet
from capstan.sinks.sqlite_mirror import SqliteMirror


def test_a_fresh_mirror_stands_at_the_empty_set(mirror: SqliteMirror) -> None:
    """D12: a mirror has a position from the first moment, and nothing in it."""
    assert mirror.position() == GtidSet()


def test_rows_and_position_arrive_together(mirror: SqliteMirror, path: Path) -> None:
    """R31: after the call another reader sees the rows and the position that belongs to them."""
    mirror.handle_transaction(transaction(1, inserted(ORDERS, (1, "a"), (2, "b"))))
    assert mirrored(path, "shop.orders") == [(1, "a"), (2, "b")]
    assert mirror.position() == up_to(1)
    with closing(sqlite3.connect(path)) as reader:
        kept = reader.execute("SELECT gtid_set FROM _capstan_position").fetchall()
    assert kept == [(f"{UUID}:1",)]


def test_a_batch_ends_in_the_state_that_its_order_makes(mirror: SqliteMirror, path: Path) -> None:
    """R1: inserts, updates, deletes and key changes of several tables, in stream order."""
    mirror.handle_batch(
        [
            created(1, "shop.orders"),
            transaction(
                2, inserted(ORDERS, (1, "a"), (2, "b"), (3, "c")), inserted(BARE, (1, "x"))
            ),
            transaction(3, updated(ORDERS, ((1, "a"), (1, "A"))), deleted(ORDERS, (2, "b"))),
            transaction(4, inserted(ORDERS, (2, "again")), updated(BARE, ((1, "x"), (2, "y")))),
            transaction(5, updated(ORDERS, ((3, "c"), (4, "moved")))),
            transaction(6, deleted(ORDERS, (1, "A")), inserted(ORDERS, (3, "new"))),
        ]
    )
    assert mirrored(path, "shop.orders") == [(2, "again"), (3, "new"), (4, "moved")]
    assert mirrored(path, "shop.bare") == [(2, "y")]
    assert mirror.position() == up_to(6)


@pytest.mark.parametrize("complete", [True, False])
def test_rows_of_one_transaction_swap_their_keys(
    mirror: SqliteMirror, complete: bool, path: Path
) -> None:
    """D10: key changes one after the other end where the source ends."""
    first = [created(1, "shop.orders")] if complete else []
    swap = updated(ORDERS, ((1, "a"), (99, "a")), ((2, "b"), (1, "b")), ((99, "a"), (2, "a")))
    mirror.handle_batch(
        [*first, transaction(2, inserted(ORDERS, (1, "a"), (2, "b"))), transaction(3, swap)]
    )
    assert mirrored(path, "shop.orders") == [(1, "b"), (2, "a")]


def test_keys_shift_over_each_other(mirror: SqliteMirror, path: Path) -> None:
    """D10: `SET id = id + 1`, last row first, as the server logs it."""
    count = 600
    before = [(n, str(n)) for n in range(count)]
    shift = [((n, str(n)), (n + 1, str(n))) for n in reversed(range(count))]
    mirror.handle_batch([created(1, "shop.orders"), transaction(2, inserted(ORDERS, *before))])
    mirror.handle_batch([transaction(3, updated(ORDERS, *shift))])
    assert mirrored(path, "shop.orders") == [(n + 1, str(n)) for n in range(count)]


def test_many_rows_in_one_batch_all_arrive(mirror: SqliteMirror, path: Path) -> None:
    """More rows than are held back at once, in blocks of every size."""
    count = 9_001
    events = [
        inserted(ORDERS, *((n, str(n)) for n in range(start, min(start + 101, count))))
        for start in range(0, count, 101)
    ]
    mirror.handle_batch([created(1, "shop.orders"), transaction(2, *events)])
    assert mirrored(path, "shop.orders") == [(n, str(n)) for n in range(count)]
    mirror.handle_batch([transaction(3, deleted(ORDERS, *((n, str(n)) for n in range(1, count))))])
    assert mirrored(path, "shop.orders") == [(0, "0")]


def test_long_values_are_not_held_back(mirror: SqliteMirror, path: Path) -> None:
    """R15: rows of many megabytes are written as they come, and belong to one transaction."""
    table = shape("shop.big", "id int", "body mediumblob", "note mediumtext", key=("id",))
    body = os.urandom(1 << 20)
    events = [inserted(table, (n, body, None if n % 2 else "x" * n)) for n in range(12)]
    mirror.handle_batch([transaction(1, *events)])
    assert [row[0] for row in mirrored(path, "shop.big")] == list(range(12))
    assert {row[1] for row in mirrored(path, "shop.big")} == {body}


def test_a_composite_key_is_the_row(mirror: SqliteMirror, path: Path) -> None:
    """D5: rows are found by all columns of the key, in blocks too."""
    table = shape("shop.lines", "note text", "a int", "b varchar(9)", key=("b", "a"))
    some = [(f"{a}{b}", a, b) for a in range(40) for b in "xyz"]
    mirror.handle_batch([created(1, "shop.lines"), transaction(2, inserted(table, *some))])
    mirror.handle_batch([transaction(3, deleted(table, *(row for row in some if row[2] == "y")))])
    assert mirrored(path, "shop.lines", "2, 3") == [row for row in some if row[2] != "y"]


def test_values_stand_as_the_value_model_says(mirror: SqliteMirror, path: Path) -> None:
    """R147: large unsigned integers and what SELECT prints as text, the rest native."""
    table = shape(
        "shop.t",
        *("id bigint unsigned", "d decimal(5,2)", "day date", "f double", "b blob", "n int"),
        key=("id",),
    )
    row = (2**64 - 1, Decimal("1.50"), date(2024, 2, 29), 0.5, b"\x00\xff", None)
    mirror.handle_batch([transaction(1, inserted(table, row))])
    stored = ("18446744073709551615", "1.50", "2024-02-29", 0.5, b"\x00\xff", None)
    assert mirrored(path, "shop.t") == [stored]
    mirror.handle_batch([transaction(2, updated(table, (row, (7, *row[1:]))))])
    assert mirrored(path, "shop.t") == [(7, *stored[1:])]


def test_odd_names_stay_apart(mirror: SqliteMirror, path: Path) -> None:
    """R266: dots, quotes and reserved beginnings in names never make one table of two."""
    names = ["a.b\0c", "a\0b.c", 'q"\0t', "sqlite_x\0t", "_capstan_x\0t", "日本\0表"]
    for number, name in enumerate(names, 1):
        table = shape(name, 'x"y int', "select int", "100%s int", key=('x"y',))
        mirror.handle_batch([transaction(number, inserted(table, (number, 0, 0)))])
    assert mirrored_tables(path) == {
        *("a%2Eb.c", "a.b%2Ec", "q%22.t", "%73qlite_x.t", "日本.表"),
        *("%5Fcapstan_x.t",),
    }
    for number, name in enumerate(["a%2Eb.c", "a.b%2Ec", "q%22.t"], 1):
        assert mirrored(path, name) == [(number, 0, 0)]


def test_schema_changes_alone_move_the_position(mirror: SqliteMirror) -> None:
    """R38: a DDL is in the position like a transaction."""
    mirror.handle_schema_changes(created(1, "shop.orders").changes)
    assert mirror.position() == up_to(1)
    mirror.handle_batch([group(schema_change(2, "other"))])
    assert mirror.position() == up_to(2)
    mirror.handle_schema_changes([])
    assert mirror.position() == up_to(2)


def test_create_and_rows_of_one_gtid_come_in_two_steps(mirror: SqliteMirror, path: Path) -> None:
    """D20: the position takes the GTID with the rows; after a crash in between both come again."""
    change = schema_change(2, "create_table", "shop.orders", rows_may_change=False)
    create = group(attrs.evolve(change, position=up_to(1)), rows_follow=True)
    mirror.handle_batch([transaction(1, inserted(BARE, (1, "x"))), create])
    assert mirror.position() == up_to(1)
    mirror.handle_batch([create, transaction(2, inserted(ORDERS, (1, "a")))])
    assert mirror.position() == up_to(2)
    assert mirrored(path, "shop.orders") == [(1, "a")]


def test_a_backfill_leaves_the_position_alone(mirror: SqliteMirror, path: Path) -> None:
    """R57, R59: a chunk's own position never becomes the mirror's."""
    mirror.handle_batch([transaction(1, inserted(BARE, (1, "x")))])
    mirror.handle_snapshot(
        chunk(ORDERS, (1, "a")), chunk_facts("shop.orders", position=50, final=True)
    )
    assert mirror.position() == up_to(1)
    assert mirrored(path, "shop.orders") == [(1, "a")]


@pytest.mark.parametrize("number", [1, 9])
def test_a_position_set_by_hand_makes_every_table_unsure(
    mirror: SqliteMirror, number: int, path: Path
) -> None:
    """D12: backwards or forwards, what was followed to the letter is an upsert or nothing then."""
    mirror.handle_batch([created(1, "shop.orders"), transaction(2, inserted(ORDERS, (1, "a")))])
    mirror.set_position(up_to(number))
    assert mirror.position() == up_to(number)
    mirror.handle_batch(
        [transaction(number + 1, deleted(ORDERS, (7, "z")), updated(ORDERS, ((8, "y"), (8, "Y"))))]
    )
    assert mirrored(path, "shop.orders") == [(1, "a"), (8, "Y")]
