"""How rows are applied: what must be there, what may be missing, what counts as the same row."""

import random
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from helpers.changes_builder import (
    Row,
    created,
    deleted,
    inserted,
    shape,
    transaction,
    updated,
)
from helpers.mirror_reader import BARE, ORDERS, mirrored
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capstan.core.changes import RowsChunk
from capstan.core.halts import Halted
from capstan.core.tables import TableShape
from capstan.sinks.sqlite_mirror import SqliteMirror

UNSEEN = [
    updated(ORDERS, ((7, "x"), (7, "y"))),
    updated(ORDERS, ((7, "x"), (8, "y"))),
    deleted(ORDERS, (7, "x")),
]
UNSEEN_BARE = [
    updated(BARE, ((7, "x"), (7, "y"))),
    deleted(BARE, (7, "x")),
    deleted(BARE, (1, "A")),
]


@pytest.mark.parametrize("chunk", UNSEEN, ids=repr)
def test_a_missing_row_of_a_complete_table_is_drift(
    mirror: SqliteMirror, path: Path, chunk: RowsChunk
) -> None:
    """R266: an UPDATE or DELETE that finds no row halts `mirror_drifted` and changes nothing."""
    mirror.handle_batch([created(1, "shop.orders"), transaction(2, inserted(ORDERS, (1, "a")))])
    with pytest.raises(Halted) as caught:
        mirror.handle_batch([transaction(3, inserted(ORDERS, (2, "b"))), transaction(4, chunk)])
    assert str(caught.value) == (
        "mirror_drifted: shop.orders: 1 updated or deleted rows are not in the mirror"
    )
    assert mirrored(path, "shop.orders") == [(1, "a")]


@pytest.mark.parametrize("chunk", UNSEEN_BARE, ids=repr)
def test_a_missing_row_of_a_complete_table_without_key_is_drift(
    mirror: SqliteMirror, path: Path, chunk: RowsChunk
) -> None:
    """R266: rows without a key match in full or not at all."""
    mirror.handle_batch([created(1, "shop.bare"), transaction(2, inserted(BARE, (1, "a")))])
    with pytest.raises(Halted, match=r"^mirror_drifted: shop\.bare: 1 updated or deleted rows"):
        mirror.handle_batch([transaction(3, chunk)])
    assert mirrored(path, "shop.bare") == [(1, "a")]


def test_a_row_deleted_twice_in_a_batch_is_drift(mirror: SqliteMirror) -> None:
    """R266: what the batch itself took away is missing too."""
    mirror.handle_batch([created(1, "shop.orders"), transaction(2, inserted(ORDERS, (1, "a")))])
    for again in (deleted(ORDERS, (1, "a")), updated(ORDERS, ((1, "a"), (1, "b")))):
        with pytest.raises(Halted, match=r"^mirror_drifted: shop\.orders: 1 "):
            mirror.handle_batch([transaction(3, deleted(ORDERS, (1, "a"))), transaction(4, again)])


def test_missing_rows_are_counted(mirror: SqliteMirror) -> None:
    """R265: the halt says how many rows are missing and never which."""
    mirror.handle_batch(
        [
            created(1, "shop.orders"),
            transaction(2, inserted(ORDERS, *((n, "a") for n in range(300)))),
        ]
    )
    gone = deleted(ORDERS, *((n, "a") for n in range(250, 550)))
    with pytest.raises(Halted) as caught:
        mirror.handle_batch([transaction(3, gone)])
    assert str(caught.value) == (
        "mirror_drifted: shop.orders: 250 updated or deleted rows are not in the mirror"
    )


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        (UNSEEN[0], [(1, "a"), (7, "y")]),
        (UNSEEN[1], [(1, "a"), (8, "y")]),
        (UNSEEN[2], [(1, "a")]),
        (updated(ORDERS, ((7, "x"), (1, "y"))), [(1, "y")]),
        (inserted(ORDERS, (1, "b")), [(1, "b")]),
    ],
)
def test_a_half_known_table_takes_upserts_and_deletes(
    mirror: SqliteMirror, path: Path, chunk: RowsChunk, expected: list[Row]
) -> None:
    """R117, R128: a stream that began late finds rows it never saw: an upsert or nothing."""
    mirror.handle_batch([transaction(1, inserted(ORDERS, (1, "a")))])
    mirror.handle_batch([transaction(2, chunk)])
    assert mirrored(path, "shop.orders") == expected


def test_a_half_known_table_without_key_takes_them_too(mirror: SqliteMirror, path: Path) -> None:
    """R128: an unseen row comes in with its update; its delete does nothing."""
    mirror.handle_batch([transaction(1, inserted(BARE, (1, "a")), *UNSEEN_BARE)])
    assert mirrored(path, "shop.bare") == [(1, "a"), (7, "y")]


def test_of_equal_rows_one_is_touched(mirror: SqliteMirror, path: Path) -> None:
    """D5: a table without key may hold a row many times; each event means one of them."""
    mirror.handle_batch(
        [
            created(1, "shop.bare"),
            transaction(2, inserted(BARE, (1, None), (1, None), (1, None))),
            transaction(3, deleted(BARE, (1, None)), updated(BARE, ((1, None), (2, "x")))),
        ]
    )
    assert mirrored(path, "shop.bare") == [(1, None), (2, "x")]


def test_a_column_may_be_called_rowid(mirror: SqliteMirror, path: Path) -> None:
    """R266: rows are found whatever their columns are called; three names too many are refused."""
    table = shape("shop.t", "rowid int", "_rowid_ int")
    mirror.handle_batch(
        [transaction(1, inserted(table, (5, 6), (5, 7)), updated(table, ((5, 7), (1, 2))))]
    )
    assert mirrored(path, "shop.t") == [(1, 2), (5, 6)]
    hidden = shape("shop.u", "rowid int", "_rowid_ int", "OID int")
    with pytest.raises(Halted, match=r"^mirror_name_conflict: shop\.u: its columns hide the row"):
        mirror.handle_batch([transaction(2, inserted(hidden, (1, 2, 3)))])


def test_keyless_rows_with_values_of_every_kind_are_found(mirror: SqliteMirror, path: Path) -> None:
    """D5: stored forms are compared, not Python's."""
    table = shape("shop.t", "d decimal(5,2)", "t datetime(3)", "u bigint unsigned", "b blob")
    row = (Decimal("1.50"), datetime(2024, 1, 1), 2**64 - 1, b"\x00")
    mirror.handle_batch([created(1, "shop.t"), transaction(2, inserted(table, row, (None,) * 4))])
    mirror.handle_batch([transaction(3, updated(table, (row, (Decimal("0.00"), *row[1:]))))])
    mirror.handle_batch([transaction(4, deleted(table, (None,) * 4))])
    assert mirrored(path, "shop.t") == [
        ("0.00", "2024-01-01 00:00:00.000", "18446744073709551615", b"\x00")
    ]


# -- against a model -------------------------------------------------------------------------------


class Script:
    """Random events that a source could log, and the rows it then has."""

    def __init__(self, table: TableShape, seed: int) -> None:
        self.table = table
        self.random = random.Random(seed)
        self.rows: list[Row] = []

    def row(self) -> Row:
        return (
            self.random.randrange(5),
            self.random.choice("xyz"),
            self.random.choice([None, 0, 1, 2**64 - 1]),
        )

    def free(self, row: Row, *, besides: Row | None = None) -> bool:
        """Whether the source could hold this row now."""
        key = self.table.key_of(row)
        others = list(self.rows)
        if besides is not None:
            others.remove(besides)
        return key is None or all(self.table.key_of(other) != key for other in others)

    def event(self, op: str) -> RowsChunk | None:
        row = self.row()
        if op == "insert":
            if not self.free(row):
                return None
            self.rows.append(row)
            return inserted(self.table, row)
        if not self.rows:
            return None
        old = self.random.choice(self.rows)
        if op == "delete":
            self.rows.remove(old)
            return deleted(self.table, old)
        if not self.free(row, besides=old):
            return None
        self.rows.remove(old)
        self.rows.append(row)
        return updated(self.table, (old, row))


OPS = st.lists(
    st.sampled_from(["insert", "insert", "update", "delete", "commit", "batch"]), max_size=60
)
COUNTER = iter(range(10**9))


def stored(row: Row) -> tuple[Any, ...]:
    return (*row[:2], str(row[2]) if row[2] == 2**64 - 1 else row[2])


@pytest.mark.parametrize("key", [("id",), ("b", "id"), ()], ids=["one column", "two", "none"])
@pytest.mark.parametrize("complete", [True, False], ids=["complete", "half-known"])
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(ops=OPS, seed=st.integers(0, 2**32))
def test_the_mirror_ends_with_the_rows_of_the_source(
    mirror: SqliteMirror,
    path: Path,
    key: tuple[str, ...],
    complete: bool,
    ops: list[str],
    seed: int,
) -> None:
    """R1, R266: any stream of changes, cut into transactions and batches in any way."""
    name = f"shop.t{next(COUNTER)}"
    table = shape(name, "id int", "b varchar(1)", "u bigint unsigned", key=key)
    script = Script(table, seed)
    number = mirror.position().count()
    batch: list[Any] = []
    events: list[RowsChunk] = []

    def commit() -> None:
        nonlocal number
        if events:
            number += 1
            batch.append(transaction(number, *events))
            events.clear()

    def deliver() -> None:
        commit()
        mirror.handle_batch(batch)
        batch.clear()

    if complete:
        number += 1
        batch.append(created(number, name))
    for op in ops:
        if op == "commit":
            commit()
        elif op == "batch":
            deliver()
        elif (event := script.event(op)) is not None:
            events.append(event)
    deliver()
    found = mirrored(path, name) if script.rows else []
    assert sorted(map(repr, found)) == sorted(repr(stored(row)) for row in script.rows)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    values=st.lists(st.sampled_from([0, 0.0, -0.0, "0", b"0", None, 1, 1.0, "1"]), max_size=12),
    data=st.data(),
)
def test_rows_without_key_match_by_value_and_type(
    mirror: SqliteMirror, path: Path, values: list[Any], data: st.DataObject
) -> None:
    """D5: 1, 1.0 and '1' are three values, 0.0 and -0.0 are two."""
    name = f"shop.k{next(COUNTER)}"
    table = shape(name, "v double")
    gone = data.draw(st.permutations(values))[: len(values) // 2]
    number = mirror.position().count() + 1
    mirror.handle_batch(
        [
            created(number, name),
            transaction(number + 1, inserted(table, *((v,) for v in values))),
            transaction(number + 2, deleted(table, *((v,) for v in gone))),
        ]
    )
    left = list(map(repr, values))
    for value in gone:
        left.remove(repr(value))
    found = [repr(row[0]) for row in mirrored(path, name)] if values else []
    assert sorted(found) == sorted(left)
