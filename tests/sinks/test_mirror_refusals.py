"""What the mirror refuses, and that nothing it raises holds a value."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from helpers.changes_builder import (
    UUID,
    created,
    group,
    gtid,
    inserted,
    schema_change,
    shape,
    transaction,
    up_to,
)
from helpers.mirror_reader import BARE, ORDERS, mirrored, mirrored_tables

from capstan.core.gtid import GtidSet
from capstan.core.halts import Halted
from capstan.sinks.sqlite_mirror import SqliteMirror

SENTINEL = "s3ntinel-value"


def test_a_transaction_that_comes_twice_is_refused(mirror: SqliteMirror, path: Path) -> None:
    """R39: the mirror itself counts: an item of its position is never applied again."""
    mirror.handle_batch([transaction(1, inserted(BARE, (1, "x")))])
    with pytest.raises(Halted) as caught:
        mirror.handle_batch([transaction(1, inserted(BARE, (1, "x")))])
    assert str(caught.value) == f"sink_failed: {gtid(1)} came twice"
    with pytest.raises(Halted, match="came twice"):
        mirror.handle_schema_changes(created(1, "shop.orders").changes)
    assert mirrored(path, "shop.bare") == [(1, "x")]


def test_a_position_that_would_shrink_is_refused(mirror: SqliteMirror, path: Path) -> None:
    """D15: a position that lacks what is mirrored names it and moves nothing."""
    mirror.handle_batch([transaction(5, inserted(ORDERS, (5, "x")))])
    with pytest.raises(Halted) as caught:
        mirror.handle_batch([transaction_of_another_history(), transaction_of_another_history()])
    assert str(caught.value) == (
        f"watermark_regressed: the mirror's next position lacks {UUID}:1-5"
    )
    assert mirror.position() == up_to(5)
    assert mirrored(path, "shop.orders") == [(5, "x")]


def transaction_of_another_history() -> Any:
    from capstan.core.changes import ChunkedChanges, Committed, PositionLog, Transaction

    log = PositionLog(GtidSet())
    log.run.append(Committed("9e11fa47-71ca-11e1-9e33-c80aa9429562", "", 1, 0, 0))
    return Transaction(log.run[0], ChunkedChanges([inserted(ORDERS, (6, "y"))]), log, 0)


def test_a_failed_batch_leaves_nothing(mirror: SqliteMirror, path: Path) -> None:
    """R41: rows, tables, catalogue and position are as before; the next batch works."""
    mirror.handle_batch([created(1, "shop.orders"), transaction(2, inserted(ORDERS, (1, "a")))])
    new = shape("shop.new", "id int", key=("id",))
    with pytest.raises(Halted):
        mirror.handle_batch(
            [
                transaction(3, inserted(ORDERS, (2, "b"))),
                group(schema_change(4, "rename_table", "shop.orders", "shop.moved")),
                created(5, "shop.new"),
                transaction(6, inserted(new, (1,))),
                transaction(7, inserted(new, (object(),))),
            ]
        )
    assert mirror.position() == up_to(2)
    assert mirrored_tables(path) == {"shop.orders"}
    mirror.handle_batch([transaction(3, inserted(ORDERS, (2, "b")))])
    assert mirrored(path, "shop.orders") == [(1, "a"), (2, "b")]


BAD_ROWS = [
    (SENTINEL + "\ud800", 1),
    (SENTINEL, 2**64),
    (SENTINEL, {SENTINEL}),
    (SENTINEL, Decimal(1)),
    (None, 1),
]


@pytest.mark.parametrize("row", BAD_ROWS, ids=["surrogate", "huge", "set", "decimal", "null key"])
@pytest.mark.parametrize("keyed", [True, False])
def test_no_exception_holds_a_value(
    mirror: SqliteMirror, row: tuple[Any, ...], keyed: bool
) -> None:
    """R265: a row that SQLite refuses is named by table and class; cause and context are empty."""
    table = shape("shop.t", "a varchar(9)", "b int", key=("a",) if keyed else ())
    if row[0] is None and not keyed:
        row = (b"", 2**70)
    with pytest.raises(Halted) as caught:
        mirror.handle_batch([transaction(1, inserted(table, row))])
    message = str(caught.value)
    assert message.startswith("sink_failed: shop.t: ")
    assert SENTINEL not in message
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_a_value_that_has_no_text_form_is_named_by_its_column_table(mirror: SqliteMirror) -> None:
    """R265: conversion errors leave as the table's name and a class too."""
    table = shape("shop.t", "id int", "d decimal(5,2)", key=("id",))
    with pytest.raises(Halted) as caught:
        mirror.handle_batch([transaction(1, inserted(table, (1, {SENTINEL})))])
    assert str(caught.value) == "sink_failed: shop.t: TypeError"
    assert caught.value.__context__ is None


def test_reprs_hold_no_row(mirror: SqliteMirror, path: Path) -> None:
    """R265: the mirror and its writer print names only."""
    mirror.handle_batch([transaction(1, inserted(ORDERS, (1, SENTINEL)))])
    assert repr(mirror) == f"SqliteMirror({str(path)!r})"
    assert SENTINEL not in repr(vars(mirror))


def test_a_table_wider_than_sqlite_is_refused(mirror: SqliteMirror, path: Path) -> None:
    """R266: 2,000 columns are mirrored, one more is named and counted."""
    wide = shape("shop.wide", *(f"c{n} int" for n in range(2000)), key=("c0",))
    mirror.handle_batch([transaction(1, inserted(wide, tuple(range(2000))))])
    assert mirrored(path, "shop.wide") == [tuple(range(2000))]
    wider = shape("shop.wider", *(f"c{n} int" for n in range(2001)), key=("c0",))
    with pytest.raises(Halted) as caught:
        mirror.handle_batch([transaction(2, inserted(wider, tuple(range(2001))))])
    assert str(caught.value) == (
        "sink_failed: shop.wider has 2001 columns; SQLite takes 2000 at most"
    )


@pytest.mark.parametrize("other", ["shop.Orders", "SHOP.orders"])
def test_names_equal_but_for_case_are_a_conflict(
    mirror: SqliteMirror, other: str, path: Path
) -> None:
    """`mirror_name_conflict`: SQLite would take both for one table."""
    mirror.handle_batch([created(1, "shop.orders")])
    table = shape(other, "id int", key=("id",))
    with pytest.raises(Halted) as caught:
        mirror.handle_batch([transaction(2, inserted(table, (1,)))])
    assert str(caught.value) == (
        f"mirror_name_conflict: {other} and shop.orders are one name to SQLite"
    )
    mirror.handle_batch([group(schema_change(2, "drop_table", "shop.orders"))])
    mirror.handle_batch([transaction(3, inserted(table, (1,)))])
    assert mirrored(path, other) == [(1,)]


def test_columns_equal_but_for_case_are_a_conflict(mirror: SqliteMirror) -> None:
    """`mirror_name_conflict`: two columns that SQLite would take for one."""
    table = shape("shop.t", "a int", "A int")
    with pytest.raises(Halted) as caught:
        mirror.handle_batch([transaction(1, inserted(table, (1, 2)))])
    assert str(caught.value) == "mirror_name_conflict: shop.t: two columns are one name to SQLite"
