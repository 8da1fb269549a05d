"""What every store promises: one contract, run against each implementation."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from helpers.changes_builder import UUID, gtid, up_to

from capstan.core.gtid import Gtid, GtidSet
from capstan.core.watermark import Anchor
from capstan.stores.base import Store
from capstan.stores.memory import MemoryStore
from capstan.stores.sqlite import SqliteStore

TAGGED = GtidSet.parse(
    f"{UUID}:1-3:7:blue:2,4e11fa47-71ca-11e1-9e33-c80aa9429562:1-9223372036854775806"
)
ANCHOR = Anchor(
    gtid=Gtid(UUID, "blue", 2),
    commit_micros=1_700_000_000_123_456,
    arrived_micros=1_700_000_000_999_999,
    server_uuid="5e11fa47-71ca-11e1-9e33-c80aa9429562",
)


@pytest.fixture(params=[SqliteStore, MemoryStore])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    kind: Callable[..., Store] = request.param
    with closing(kind(tmp_path / "state.db") if kind is SqliteStore else kind()) as made:
        yield made


def test_an_empty_store_says_so(store: Store) -> None:
    """D12: nothing saved is None, not an empty set."""
    assert store.load_watermark() is None
    assert store.load_anchor() is None
    assert store.load_sink_position() is None
    assert store.load_tables() is None


@pytest.mark.parametrize("gtid_set", [GtidSet(), up_to(5), TAGGED], ids=str)
def test_a_watermark_comes_back_as_it_was(store: Store, gtid_set: GtidSet) -> None:
    """R31: tags, several sources and the largest number survive; empty is not None."""
    store.save_watermark(gtid_set)
    assert store.load_watermark() == gtid_set


def test_watermark_anchor_and_sink_position_are_saved_together(store: Store) -> None:
    """D12, D13: one call keeps the three."""
    store.save_watermark(TAGGED, ANCHOR, up_to(2))
    assert store.load_watermark() == TAGGED
    assert store.load_anchor() == ANCHOR
    assert store.load_sink_position() == up_to(2)


def test_a_save_without_an_anchor_clears_the_old_one(store: Store) -> None:
    """D13: a seed or a hand-set checkpoint leaves no anchor and no sink position behind."""
    store.save_watermark(up_to(2), ANCHOR, up_to(2))
    store.save_watermark(up_to(3))
    assert store.load_anchor() is None
    assert store.load_sink_position() is None


def test_an_empty_sink_position_is_not_a_missing_one(store: Store) -> None:
    """D12: a sink that has a position but nothing in it differs from one without."""
    store.save_watermark(up_to(2), None, GtidSet())
    assert store.load_sink_position() == GtidSet()


def test_the_last_save_counts(store: Store) -> None:
    """R36: a store keeps one position, whether it grew or was set back by hand."""
    for number in (1, 3, 2):
        store.save_watermark(up_to(number), anchor_of(number))
    assert store.load_watermark() == up_to(2)
    assert store.load_anchor() == anchor_of(2)


def anchor_of(number: int) -> Anchor:
    return Anchor(gtid=gtid(number), commit_micros=1, arrived_micros=2, server_uuid=UUID)


def test_the_capture_list_comes_back_in_order(store: Store) -> None:
    """D16: entries survive whatever stands in them; saving replaces the old list."""
    store.save_tables(["a.*"])
    store.save_tables(['shop.it\'s "odd"', "shop.日本?", "*"])
    assert store.load_tables() == ('shop.it\'s "odd"', "shop.日本?", "*")


def test_the_capture_list_is_no_position(store: Store) -> None:
    """D12, D16: a store that knows its capture list may still have no position."""
    store.save_tables(["a.*"])
    assert store.load_watermark() is None


def test_a_closed_store_opens_again(store: Store) -> None:
    """What was saved is there after `close()`, and may be claimed and saved again."""
    store.hold()
    store.save_watermark(up_to(1), ANCHOR)
    store.save_tables(["a.*"])
    store.close()
    assert store.load_watermark() == up_to(1)
    store.hold()
    assert store.load_anchor() == ANCHOR
    store.save_watermark(up_to(2))
    store.close()
    assert store.load_watermark() == up_to(2)
    assert store.load_tables() == ("a.*",)


def test_holding_twice_changes_nothing(store: Store) -> None:
    """A restarted checkpoint may claim a store that it holds already."""
    store.hold()
    store.hold()
    store.save_watermark(up_to(1))
    assert store.load_watermark() == up_to(1)
