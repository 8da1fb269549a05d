"""What passes the gate, and in which form."""

from typing import Any

import pytest
from helpers import event_builder as events
from helpers.changes_builder import deleted, inserted, shape, updated
from helpers.spools import MemorySpool
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.binlog.row_compiler import compile_rows
from capstan.core.binlog.table_map import parse
from capstan.core.changes import Change, Changes, ChunkedChanges, RowsChunk
from capstan.core.halts import Halted
from capstan.core.snapshot.key_gate import GatedSpool, Marks, MarksByTable, gated
from capstan.core.spooling import SpooledChanges, SpoolWriter

T = shape("shop.t", "id int", "v int", key=("id",))
WIDE = shape("shop.w", "v int", "b binary(4)", "a int unsigned", key=("a", "b"))
OTHER = shape("shop.o", "id int", "v int", key=("id",))
SECRET = 987654321

Plain = tuple[str, Any, Any]


def marks(cursor: int | None, delivered: int | None = None) -> MarksByTable:
    """Of `t`; the mark is where the cursor is, unless told."""
    mark = delivered if delivered is not None else cursor
    as_key = [None if value is None else (value,) for value in (cursor, mark)]
    return {("shop", "t"): Marks(("id",), *as_key)}


def plain(changes: Changes) -> list[Plain]:
    return [
        (
            change.op.value,
            change.old_values and change.old_values[0],
            change.values and change.values[0],
        )
        for change in changes
    ]


def passing(table: MarksByTable, *chunks: RowsChunk) -> list[Plain]:
    return plain(gated(ChunkedChanges(chunks), table)[0])


def test_inserts_and_updates_pass_up_to_the_cursor() -> None:
    """R90, R91, R92, R126: at the cursor is behind it."""
    chunks = inserted(T, (4, 0), (5, 0), (6, 0)), updated(T, ((5, 0), (5, 1)), ((6, 0), (6, 1)))
    passed = [("insert", None, 4), ("insert", None, 5), ("update", 5, 5)]
    assert passing(marks(5), *chunks) == passed
    assert passing(marks(5, 9), *chunks) == passed


def test_deletes_pass_up_to_the_mark() -> None:
    """R125, R127: what the sink may have got before a crash is taken away again."""
    chunk = deleted(T, (5, 0), (6, 0), (9, 0), (10, 0))
    assert passing(marks(5, 9), chunk) == [("delete", n, None) for n in (5, 6, 9)]
    assert passing(marks(None, 5), chunk) == [("delete", 5, None)]


def test_before_the_first_chunk_nothing_passes() -> None:
    """R93: whatever the change, and without a look at any key."""
    chunks = inserted(T, (1, 0)), updated(T, ((1, 0), (1, 1))), deleted(T, (1, 1))
    changes, suppressed = gated(ChunkedChanges(chunks), marks(None))
    assert (plain(changes), len(changes), suppressed) == ([], 0, 3)


def test_other_tables_and_complete_ones_pass_as_they_are() -> None:
    """R94, R95, D10: the very same object, a key change in one piece."""
    changes = ChunkedChanges([updated(OTHER, ((1, 0), (9, 0))), inserted(OTHER, (7, 0))])
    assert gated(changes, marks(3)) == (changes, 0)
    assert gated(changes, {})[0] is changes


@pytest.mark.parametrize(
    ("old", "new", "passed"),
    [
        (10, 90, [("delete", 10, None)]),
        (80, 20, [("insert", None, 20)]),
        (30, 31, [("delete", 30, None), ("insert", None, 31)]),
        (60, 61, []),
        (50, 51, [("delete", 50, None)]),
        (51, 50, [("insert", None, 50)]),
    ],
)
def test_a_key_change_is_a_delete_and_an_insert(old: int, new: int, passed: list[Plain]) -> None:
    """R98-R102, D10, case 146: each half is judged by its own key."""
    changes, suppressed = gated(ChunkedChanges([updated(T, ((old, 1), (new, 2)))]), marks(50))
    assert (plain(changes), suppressed) == (passed, int(len(passed) < 2))
    for change in changes:
        assert (change.old_values, change.values) in {((old, 1), None), (None, (new, 2))}


def test_the_delete_of_a_key_change_goes_by_the_mark() -> None:
    """R99, R125, D10: between cursor and mark the delete passes and the insert does not."""
    assert passing(marks(50, 70), updated(T, ((60, 0), (65, 0)))) == [("delete", 60, None)]


def test_an_update_that_keeps_its_key_is_one_change() -> None:
    """R103: also between two that do not."""
    chunk = updated(T, ((1, 0), (2, 0)), ((3, 0), (3, 1)), ((3, 1), (3, 2)), ((2, 0), (1, 0)))
    assert passing(marks(50), chunk) == [
        ("delete", 1, None),
        ("insert", None, 2),
        ("update", 3, 3),
        ("update", 3, 3),
        ("delete", 2, None),
        ("insert", None, 1),
    ]


def test_order_is_kept_within_a_transaction() -> None:
    """R97, case 146: a swap through a spare key, over the cursor."""
    swap = [((40, "a"), (0, "a")), ((70, "b"), (40, "b")), ((0, "a"), (70, "a"))]
    assert passing(marks(50), *(updated(T, pair) for pair in swap)) == [
        ("delete", 40, None),
        ("insert", None, 0),
        ("insert", None, 40),
        ("delete", 0, None),
    ]


def test_composite_keys_are_compared_as_tuples_in_key_order() -> None:
    """R142, case 144: padded binary parts, unsigned parts beyond 2^63, key order not row order."""
    cursor = (2**63, b"\1\0\0\0")
    table = {("shop", "w"): Marks(("a", "b"), cursor, cursor)}
    rows = [
        (0, b"\xff\xff\xff\xff", 2**63 - 1),
        (1, b"\1\0\0\0", 2**63),
        (2, b"\1\0\0\1", 2**63),
        (3, b"\0\0\0\0", 2**63 + 1),
    ]
    assert [row[0] for row in passing_rows(table, *rows)] == [0, 1]


def passing_rows(table: MarksByTable, *rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [change.values for change in gated(ChunkedChanges([inserted(WIDE, *rows)]), table)[0]]  # type: ignore[misc]


def test_suppressed_changes_are_counted() -> None:
    """R169: a key change counts once, whether one half or both do not pass."""
    chunks = [
        inserted(T, (4, 0), (6, 0)),
        updated(T, ((4, 0), (9, 0)), ((8, 0), (9, 0)), ((2, 0), (3, 0))),
        deleted(T, (6, 0)),
        inserted(OTHER, (9, 0)),
    ]
    assert gated(ChunkedChanges(chunks), marks(5))[1] == 4


def test_another_key_than_the_marks_is_a_halt() -> None:
    """R265, D9: names or types differ and rows were delivered: no guess, no value in the halt."""
    for other in (
        shape("shop.t", "id int", "n int", key=("n",)),
        shape("shop.t", "id varbinary(4)", "n int", key=("id",)),
        shape("shop.t", "id int", "n int"),
    ):
        with pytest.raises(Halted) as caught:
            gated(ChunkedChanges([inserted(other, (SECRET, SECRET))]), marks(5))
        assert str(caught.value) == "snapshot_schema_drifted: shop.t: another key"


def test_another_key_before_the_first_chunk_is_suppressed() -> None:
    """D8, D9: all rows will be emptied away; a mark from before the DDL is not compared."""
    other = shape("shop.t", "id varbinary(4)", "n int", key=("id",))
    assert passing(marks(None, 9), deleted(other, (b"a", 0))) == []


def test_no_repr_shows_a_mark() -> None:
    """R119: marks are hidden."""
    assert str(SECRET) not in repr(marks(SECRET))


# -- spooled transactions --------------------------------------------------------------------------

BODY = events.table_map(80, table=b"t")[27:-4]
DECODER = compile_rows(parse(BODY))
Step = tuple[int, int, int]
steps = st.lists(
    st.tuples(st.sampled_from([30, 31, 32]), st.integers(0, 9), st.integers(0, 9)),
    min_size=1,
    max_size=12,
)


def rows_body(step: Step) -> bytes:
    kind, one, other = step
    images = [(one, "a"), (other, "b")]
    return events.rows(kind, 80, images)[27:-4]


def spooled(run: list[Step]) -> SpooledChanges:
    writer = SpoolWriter(MemorySpool(), 0)
    for step in run:
        writer.add(step[0], BODY, rows_body(step), 2)
    return writer.finish([])


def spool_marks(cursor: int, delivered: int) -> MarksByTable:
    return {("shop", "t"): Marks(DECODER.shape.key_columns, (cursor,), (max(cursor, delivered),))}


def seen(change: Change) -> tuple[Any, ...]:
    return change.op, change.old_values, change.values


@given(steps, st.integers(-1, 10), st.integers(-1, 10))
def test_a_spooled_transaction_passes_as_one_in_memory(
    run: list[Step], cursor: int, delivered: int
) -> None:
    """D10, D25: by iteration twice, by place in any order, in chunks, and as many suppressed."""
    table = spool_marks(cursor, delivered)
    whole = spooled(run)
    expected, count = gated(ChunkedChanges(list(whole.chunks)), table)
    passed, suppressed = gated(whole, table)
    want = [seen(change) for change in expected]
    assert (suppressed, len(passed), passed.spooled) == (count, len(want), True)
    for _ in range(2):
        assert [seen(change) for change in passed] == want
    places = [*range(len(want)), *reversed(range(len(want)))]
    assert [seen(passed[place]) for place in places] == [want[place] for place in places]
    chunks = [(chunk.op, chunk.images) for chunk in passed.chunks]
    assert chunks == [(chunk.op, chunk.images) for chunk in expected.chunks]
    assert [chunk.op for chunk in passed.chunks[:]] == [op for op, _ in chunks]
    if chunks:
        assert passed.chunks[-1].images == chunks[-1][1]
    with pytest.raises(IndexError):
        passed.chunks[len(chunks)]


def test_a_gated_spool_owns_its_spool() -> None:
    """D25: also when nothing passes; after its release whoever looks is told."""
    for cursor in (4, -1):
        passed, _ = gated(spooled([(30, 3, 5)]), spool_marks(cursor, cursor))
        assert isinstance(passed, GatedSpool)
        assert [change.values for change in passed] == ([(3, "a")] if cursor == 4 else [])
        passed.release()
        with pytest.raises(RuntimeError):
            list(passed)


def test_a_released_spool_answers_no_place_either() -> None:
    """D25: what was found last is forgotten."""
    passed, _ = gated(spooled([(30, 3, 5)]), spool_marks(4, 4))
    assert passed[0].values == (3, "a")
    assert isinstance(passed, GatedSpool)
    passed.release()
    with pytest.raises(RuntimeError):
        passed[0]


def test_a_spooled_transaction_that_passes_whole_is_left_alone() -> None:
    """D25: the same object, with its faster ways to one change."""
    whole = spooled([(30, 3, 4)])
    assert gated(whole, spool_marks(9, 9))[0] is whole
