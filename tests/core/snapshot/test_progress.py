"""The durable state of a backfill and its transitions."""

from typing import Any

import attrs
import pytest
from helpers.changes_builder import shape, up_to

from capstan.core.halts import Halted
from capstan.core.snapshot.progress import (
    ChunkMark,
    SnapshotState,
    TableProgress,
    check_drift,
    resolved,
    shape_digest,
)
from capstan.core.tables import TableName

FRESH = TableProgress(schema="shop", table="t")
T, U = TableName("shop", "t"), TableName("shop", "u")
SECRET = 987654321


def mark(last: int | None, *, position: int = 5, rows: int = 2, final: bool = False) -> ChunkMark:
    return ChunkMark(
        position=up_to(position),
        key_columns=("id",),
        shape_digest="d",
        last_key=None if last is None else (last,),
        rows=rows,
        final=final,
    )


def after(*marks: ChunkMark) -> TableProgress:
    progress = FRESH
    for each in marks:
        progress = progress.marked(each).moved(each)
    return progress


def test_the_mark_goes_ahead_and_the_cursor_follows() -> None:
    """R107, R123, R124: before the sink only the mark moves, after it the cursor."""
    marked = FRESH.marked(mark(7))
    assert (marked.delivered, marked.cursor, marked.sequence, marked.rows) == ((7,), None, 0, 0)
    moved = marked.moved(mark(7))
    assert (moved.delivered, moved.cursor, moved.sequence, moved.rows) == ((7,), (7,), 1, 2)
    assert not moved.complete


def test_the_mark_never_goes_back() -> None:
    """D7: a smaller chunk after a crash leaves what the larger one had reached."""
    crashed = after(mark(3)).marked(mark(9))
    again = crashed.marked(mark(5)).moved(mark(5))
    assert (again.cursor, again.delivered) == ((5,), (9,))
    assert again.marked(mark(12)).delivered == (12,)


def test_an_empty_final_chunk_completes_and_moves_no_key() -> None:
    """R78: an empty table has one chunk, and it is the last."""
    only = after(mark(None, rows=0, final=True))
    assert (only.complete, only.cursor, only.delivered, only.sequence) == (True, None, None, 1)
    last = after(mark(4), mark(None, rows=0, final=True))
    assert (last.complete, last.cursor, last.delivered) == (True, (4,), (4,))


def test_the_first_chunk_says_what_is_captured_and_of_which_shape() -> None:
    """D9: the lowest G is kept; until the first chunk is in, a new attempt replaces it."""
    tried = FRESH.marked(mark(7, position=5))
    assert tried.first_position == up_to(5)
    begun = tried.marked(mark(6, position=8)).moved(mark(6, position=8))
    assert begun.first_position == up_to(8)
    assert begun.marked(mark(9, position=12)).first_position == up_to(8)
    assert (begun.key_columns, begun.shape_digest) == (("id",), "d")


def test_done_again_is_as_if_nothing_had_been_done() -> None:
    """D8: the sequence is 0 again, so the sink empties the table."""
    assert after(mark(4), mark(8, final=True)).redone() == FRESH


def test_a_state_holds_its_tables_in_order() -> None:
    """R60, R162: sorted by name, none twice, each found and replaced by its name."""
    state = resolved(["shop.*", "shop.t", "shop.*"], [U, T, U])
    assert state.patterns == ("shop.*", "shop.t")
    assert [each.name for each in state.tables] == [T, U]
    begun = state.replaced(after(mark(4)))
    assert begun.find(T) == after(mark(4))
    assert begun.find(U) == TableProgress(schema="shop", table="u")
    assert begun.find(TableName("shop", "v")) is None


def test_a_state_is_complete_when_every_table_is() -> None:
    """R131: the last chunk of the last table."""
    state = resolved(["shop.t", "shop.u"], [T, U])
    half = state.replaced(after(mark(4, final=True)))
    assert not half.complete
    rest = attrs.evolve(after(mark(4, final=True)), table="u")
    assert half.replaced(rest).complete
    assert not half.replaced(rest).redone(U).complete


def test_one_table_or_all_are_done_again() -> None:
    """R163, D8: the others keep what they have; a table outside is an error."""
    state = resolved(["shop.t", "shop.u"], [T, U]).replaced(after(mark(4)))
    assert state.redone(U) == state
    assert state.redone(T) == state.redone() == resolved(["shop.t", "shop.u"], [T, U])
    with pytest.raises(ValueError, match="no table of this backfill"):
        state.redone(TableName("shop", "v"))


@pytest.mark.parametrize(
    ("patterns", "tables", "why"),
    [
        (["shop.t", "shop.x"], [T], "snapshot: there is no table shop.x"),
        (["shop.*"], [], "snapshot: the list names no table"),
    ],
)
def test_a_list_that_names_nothing_is_refused(
    patterns: list[str], tables: list[TableName], why: str
) -> None:
    """R166, D11: a name without a table, or a whole list without one, is `config_invalid`."""
    with pytest.raises(Halted) as caught:
        resolved(patterns, tables)
    assert str(caught.value) == f"config_invalid: {why}"


@pytest.mark.parametrize(
    ("stored", "configured"),
    [
        (["shop.t", "shop.u"], ["shop.u", "shop.t", "shop.t"]),
        (["shop.*"], ["shop.*"]),
        (["shop.*"], ["shop.u", "shop.t"]),
        (["shop.t", "shop.*"], ["shop.t", "shop.u"]),
    ],
)
@pytest.mark.parametrize("complete", [False, True])
def test_the_same_set_in_other_words_is_no_drift(
    stored: list[str], configured: list[str], complete: bool
) -> None:
    """R161, R162, D11: another order, or the names that a pattern once stood for."""
    check_drift(of(stored, complete), configured)


@pytest.mark.parametrize(
    ("stored", "configured", "why"),
    [
        (["shop.t", "shop.u"], ["shop.t", "shop.u", "shop.v"], "added: shop.v; removed: none"),
        (["shop.t", "shop.u"], ["shop.t"], "added: none; removed: shop.u"),
        (["shop.*"], ["shop.t"], "added: none; removed: shop.u"),
        (["shop.t", "shop.u"], ["shop.*"], "added: shop.*; removed: shop.t, shop.u"),
        (["shop.*"], ["shop.*", "bar.*"], "added: bar.*; removed: none"),
    ],
)
@pytest.mark.parametrize("complete", [False, True])
def test_another_set_is_a_drift(
    stored: list[str], configured: list[str], why: str, complete: bool
) -> None:
    """R159, R160, R161, D11: added, removed, or a pattern nobody resolved; complete or not."""
    with pytest.raises(Halted) as caught:
        check_drift(of(stored, complete), configured)
    assert str(caught.value) == f"snapshot_config_drifted: {why}"


def of(patterns: list[str], complete: bool) -> SnapshotState:
    state = resolved(patterns, [T, U])
    tables = tuple(attrs.evolve(each, complete=complete) for each in state.tables)
    return attrs.evolve(state, tables=tables)


def test_no_repr_shows_a_key() -> None:
    """R119, R265: cursor and mark are hidden in progress, state and mark."""
    progress = after(mark(SECRET))
    for shown in (progress, mark(SECRET), resolved(["shop.t"], [T]).replaced(progress)):
        assert str(SECRET) not in repr(shown)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"type": "bigint"},
        {"unsigned": True},
        {"nullable": True},
        {"visible": False},
        {"charset": "latin1"},
        {"length": 3},
        {"precision": 3},
        {"scale": 3},
        {"fsp": 3},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_digest_tells_shapes_apart(change: dict[str, Any]) -> None:
    """D9: any property of any column counts; the table's name does not."""
    one = shape("shop.t", "id int", "v int", key=("id",))
    assert shape_digest(one) == shape_digest(shape("bar.u", "id int", "v int", key=("id",)))
    columns = (one.columns[0], attrs.evolve(one.columns[1], **{"nullable": False, **change}))
    same = (one.columns[0], attrs.evolve(one.columns[1], nullable=False))
    assert shape_digest(attrs.evolve(one, columns=columns)) != shape_digest(
        attrs.evolve(one, columns=same)
    )


def test_a_digest_tells_keys_apart() -> None:
    """D9: so does the key, its order included."""
    keys = [(), ("a",), ("a", "b"), ("b", "a")]
    digests = {shape_digest(shape("shop.t", "a int", "b int", key=key)) for key in keys}
    assert len(digests) == len(keys)
