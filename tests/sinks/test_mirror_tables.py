"""Shapes that change under the mirror, and what its catalogue remembers."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from helpers.changes_builder import (
    created,
    deleted,
    group,
    inserted,
    schema_change,
    shape,
    transaction,
    updated,
)
from helpers.mirror_reader import BARE, ORDERS, mirrored

from capstan.core.halts import Halted
from capstan.core.tables import TableShape
from capstan.sinks.sqlite_mirror import SqliteMirror

OTHER_COLUMNS = [
    shape("shop.orders", "id int", key=("id",)),
    shape("shop.orders", "id int", "text varchar(20)", key=("id",)),
    shape("shop.orders", "note varchar(20)", "id int", key=("id",)),
    shape("shop.orders", "id int", "note varchar(20)", "more int", key=("id",)),
]


@pytest.mark.parametrize("table", OTHER_COLUMNS, ids=lambda table: ",".join(table.names))
def test_rows_of_other_columns_are_refused_beside_old_ones(
    mirror: SqliteMirror, path: Path, table: TableShape
) -> None:
    """D28: a change of shape that nobody announced halts `mirror_rows_stale`."""
    mirror.handle_batch([transaction(1, inserted(ORDERS, (1, "a")))])
    row = tuple(range(len(table.names)))
    with pytest.raises(Halted) as caught:
        mirror.handle_batch([transaction(2, inserted(table, row))])
    assert str(caught.value) == "mirror_rows_stale: shop.orders: rows of other columns arrive"
    assert mirrored(path, "shop.orders") == [(1, "a")]


@pytest.mark.parametrize("table", OTHER_COLUMNS, ids=lambda table: ",".join(table.names))
def test_an_empty_table_takes_any_columns(
    mirror: SqliteMirror, path: Path, table: TableShape
) -> None:
    """D28: without rows there is nothing that the new shape could contradict."""
    mirror.handle_batch([transaction(1, inserted(ORDERS, (1, "a")))])
    row = tuple(range(len(table.names)))
    mirror.handle_batch(
        [transaction(2, deleted(ORDERS, (1, "a"))), transaction(3, inserted(table, row))]
    )
    assert mirrored(path, "shop.orders") == [row]


def test_an_equal_shape_is_the_same_table(mirror: SqliteMirror, path: Path) -> None:
    """R155: a new table map of the same columns goes on in the same buffer."""
    again = shape("shop.orders", "id int", "note varchar(20)", key=("id",))
    mirror.handle_batch(
        [
            created(1, "shop.orders"),
            transaction(2, inserted(ORDERS, (1, "a")), updated(again, ((1, "a"), (1, "b")))),
            transaction(3, updated(ORDERS, ((1, "b"), (1, "c")))),
        ]
    )
    assert mirrored(path, "shop.orders") == [(1, "c")]


KEYS = [("id",), ("note",), ("note", "id"), ("id", "note"), ()]


@pytest.mark.parametrize("old", KEYS, ids=str)
@pytest.mark.parametrize("new", KEYS, ids=str)
def test_another_key_over_the_same_columns_keeps_the_rows(
    mirror: SqliteMirror, path: Path, old: tuple[str, ...], new: tuple[str, ...]
) -> None:
    """D5, D28: an index that comes or goes changes what the server calls the key, not the rows."""
    before = shape("shop.t", "id int", "note varchar(20)", key=old)
    after = shape("shop.t", "id int", "note varchar(20)", key=new)
    mirror.handle_batch(
        [created(1, "shop.t"), transaction(2, inserted(before, (1, "a"), (2, "b"), (3, "c")))]
    )
    mirror.handle_batch(
        [
            group(schema_change(3, "alter_table", "shop.t", rows_may_change=False)),
            transaction(4, updated(after, ((2, "b"), (2, "B"))), deleted(after, (3, "c"))),
            transaction(5, inserted(after, (4, "d"))),
        ]
    )
    assert mirrored(path, "shop.t") == [(1, "a"), (2, "B"), (4, "d")]
    with closing(sqlite3.connect(path)) as reader:
        columns = reader.execute('PRAGMA table_info("shop.t")').fetchall()
    keyed = sorted((place, name) for _, name, _, _, _, place in columns if place)
    assert tuple(name for _, name in keyed) == new


def test_rows_that_do_not_fit_the_new_key_are_drift(mirror: SqliteMirror, path: Path) -> None:
    """R266: the server says that the key is unique; if it is not here, rows are wrong here."""
    keyed = shape("shop.bare", "a int", "b varchar(20)", key=("a",))
    mirror.handle_batch([transaction(1, inserted(BARE, (1, "a"), (1, "b")))])
    with pytest.raises(Halted) as caught:
        mirror.handle_batch([transaction(2, inserted(keyed, (2, "c")))])
    assert str(caught.value) == "mirror_drifted: shop.bare: its rows do not fit its new key"
    assert caught.value.__context__ is None
    assert mirrored(path, "shop.bare") == [(1, "a"), (1, "b")]


def test_the_catalogue_says_what_is_mirrored(mirror: SqliteMirror, path: Path) -> None:
    """R266: names, state, columns and key of each table, for people and for the next start."""
    mirror.handle_batch(
        [
            created(1, "shop.orders"),
            created(2, "shop.empty"),
            transaction(3, inserted(ORDERS, (1, "a")), inserted(BARE, (1, "x"))),
        ]
    )
    with closing(sqlite3.connect(path)) as reader:
        entries = reader.execute("SELECT * FROM _capstan_tables ORDER BY number").fetchall()
    assert entries == [
        (1, "shop", "orders", "complete", '["id", "note"]', '["id"]'),
        (2, "shop", "empty", "complete", "[]", "[]"),
        (3, "shop", "bare", "partial", '["a", "b"]', "[]"),
    ]


def test_a_table_that_was_searched_survives_a_restart(mirror: SqliteMirror, path: Path) -> None:
    """D5: the index that finds rows without a key is made once."""
    mirror.handle_batch(
        [created(1, "shop.bare"), transaction(2, inserted(BARE, (1, "a"), (2, "b")))]
    )
    for number, row in ((3, (1, "a")), (4, (2, "b"))):
        mirror.handle_batch([transaction(number, deleted(BARE, row), inserted(BARE, row))])
        mirror.close()
        mirror.open()
    assert mirrored(path, "shop.bare") == [(1, "a"), (2, "b")]
    with closing(sqlite3.connect(path)) as reader:
        found = reader.execute("SELECT name FROM sqlite_master WHERE type = 'index'").fetchall()
    assert ("_capstan_match_1",) in found
