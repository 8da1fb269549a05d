"""Which position wins at a start, and that it only grows."""

import pytest
from helpers.changes_builder import UUID, gtid, up_to
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.gtid import GtidSet
from capstan.core.halts import Halted
from capstan.core.watermark import Anchor, Position, advanced, reconcile

ANCHOR = Anchor(gtid=gtid(9), commit_micros=1, arrived_micros=2, server_uuid=UUID)
SETS = st.frozensets(st.integers(1, 12)).map(lambda numbers: GtidSet.of(map(gtid, numbers)))


def test_an_empty_store_starts_where_the_sink_stands() -> None:
    """D12: a sink with a position beside an empty store starts there."""
    assert reconcile(None, up_to(4)) == Position(watermark=up_to(4), sink_position=up_to(4))


def test_an_empty_store_and_a_sink_without_position_start_from_nothing() -> None:
    """D12: nobody knows a position; the empty set says so."""
    assert reconcile(None, None) == Position(watermark=GtidSet())


def test_a_fresh_sink_with_a_position_is_not_one_without() -> None:
    """D12: an empty position is remembered as a position."""
    assert reconcile(None, GtidSet()).sink_position == GtidSet()


def test_a_sink_without_position_starts_at_the_watermark() -> None:
    """D12: the store alone decides, and the anchor stays."""
    stored = Position(watermark=up_to(9), anchor=ANCHOR)
    assert reconcile(stored, None) == stored


def test_a_sink_that_is_ahead_is_believed() -> None:
    """D12: a crash between sink commit and store write starts at the union."""
    stored = Position(watermark=up_to(9), anchor=ANCHOR, sink_position=up_to(7))
    expected = Position(watermark=up_to(12), anchor=ANCHOR, sink_position=up_to(12))
    assert reconcile(stored, up_to(12)) == expected


def test_filtered_transactions_do_not_look_like_a_loss() -> None:
    """D12: the watermark may be far ahead of what the sink was given."""
    stored = Position(watermark=up_to(10_000), sink_position=up_to(2))
    assert reconcile(stored, up_to(2)).watermark == up_to(10_000)


def test_a_sink_that_has_less_than_it_had_is_a_halt() -> None:
    """D12: a deleted, restored or exchanged mirror names what it lacks."""
    stored = Position(watermark=up_to(9), sink_position=up_to(9))
    with pytest.raises(Halted) as caught:
        reconcile(stored, up_to(4))
    assert str(caught.value) == f"sink_position_lost: the sink lacks {UUID}:5-9"
    with pytest.raises(Halted, match=r"^sink_position_lost: "):
        reconcile(stored, GtidSet())


def test_a_sink_that_lost_its_whole_position_is_a_halt() -> None:
    """D12: a sink that reported a position and now has none was exchanged."""
    stored = Position(watermark=up_to(9), sink_position=up_to(9))
    with pytest.raises(Halted) as caught:
        reconcile(stored, None)
    assert str(caught.value) == (
        "sink_position_lost: the sink reports no position; it was last seen with 9 GTIDs"
    )


def test_a_sink_may_lose_a_position_that_held_nothing() -> None:
    """D12: an empty position is nothing that could be missing."""
    stored = Position(watermark=up_to(9), sink_position=GtidSet())
    assert reconcile(stored, None) == Position(watermark=up_to(9))


@given(watermark=SETS, seen=SETS, reported=SETS)
def test_a_start_never_leaves_out_what_either_side_has(
    watermark: GtidSet, seen: GtidSet, reported: GtidSet
) -> None:
    """D12: the start is the union of both, or a halt exactly when P lacks something of p."""
    stored = Position(watermark=watermark, sink_position=seen)
    if seen <= reported:
        start = reconcile(stored, reported)
        assert start.watermark == watermark | reported
        assert start.sink_position == reported
    else:
        with pytest.raises(Halted, match=r"^sink_position_lost: "):
            reconcile(stored, reported)


def test_a_watermark_grows() -> None:
    """D15: what is told is persisted as it is, anchor and sink position included."""
    told = Position(watermark=up_to(5), anchor=ANCHOR, sink_position=up_to(5))
    assert advanced(Position(watermark=up_to(3)), told) == told
    assert advanced(told, told) == told


def test_a_watermark_that_shrinks_is_a_halt() -> None:
    """D15: a told set without something already processed names it."""
    with pytest.raises(Halted) as caught:
        advanced(Position(watermark=up_to(5)), Position(watermark=up_to(3)))
    assert str(caught.value) == f"watermark_regressed: the next watermark lacks {UUID}:4-5"


@given(held=SETS, told=SETS)
def test_a_watermark_is_a_set_and_not_a_maximum(held: GtidSet, told: GtidSet) -> None:
    """D15: holes count: only a superset may follow."""
    if held <= told:
        assert advanced(Position(watermark=held), Position(watermark=told)).watermark == told
    else:
        with pytest.raises(Halted, match=r"^watermark_regressed: "):
            advanced(Position(watermark=held), Position(watermark=told))
