"""The checkpoint: what is on disk before anybody hears of it, and where a start begins."""

from pathlib import Path

import pytest
from helpers.histories import gtid, up_to
from helpers.mailboxes import Bench, Mailbox

from capstan.actors.checkpoint import Checkpoint
from capstan.actors.messages import (
    CheckpointEnded,
    PositionIs,
    PositionWanted,
    Processed,
    SinkOpened,
    WatermarkMoved,
)
from capstan.core.gtid import GtidSet
from capstan.core.halts import HaltReason, halted
from capstan.core.tables import CaptureList
from capstan.core.watermark import Anchor, Position
from capstan.runtime import Exit, Running
from capstan.stores.base import Store
from capstan.stores.memory import MemoryStore
from capstan.stores.sqlite import SqliteStore

SERVER = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"


class Watched(MemoryStore):
    """Notes what is done to it; fails when told to.

    Attributes:
        done: `save 1-3`, `tables`, `close`, in order.
        failure: Raised by the next save.
    """

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []
        self.failure: Exception | None = None

    def save_watermark(
        self,
        gtid_set: GtidSet,
        anchor: Anchor | None = None,
        sink_position: GtidSet | None = None,
    ) -> None:
        if self.failure is not None:
            raise self.failure
        self.done.append(f"save {gtid_set.count()}")
        super().save_watermark(gtid_set, anchor, sink_position)

    def save_tables(self, tables: object) -> None:
        self.done.append("tables")
        super().save_tables(tables)  # type: ignore[arg-type]

    def close(self) -> None:
        self.done.append("close")


def checkpoint(bench: Bench, store: Store, *patterns: str) -> Running:
    capture = CaptureList.parse(patterns or ("shop.*",))
    return bench.spawn(lambda: Checkpoint(store, capture), name="checkpoint")


def opened(running: Running, coordinator: Mailbox, position: GtidSet | None = None) -> None:
    assert running.address.send(SinkOpened(coordinator.address, position))


def processed(
    running: Running, coordinator: Mailbox, number: int, sink_position: GtidSet | None = None
) -> None:
    anchor = Anchor(
        gtid=gtid(number), commit_micros=number, arrived_micros=number, server_uuid=SERVER
    )
    position = Position(watermark=up_to(number), anchor=anchor, sink_position=sink_position)
    assert running.address.send(Processed(coordinator.address, position))


def reason(exit_: Exit) -> HaltReason | None:
    return None if exit_.halt is None else exit_.halt.reason


def test_an_empty_store_begins_with_nothing(bench: Bench) -> None:
    """Nothing processed, nothing written."""
    store, coordinator = Watched(), bench.mailbox("coordinator")
    opened(checkpoint(bench, store), coordinator)

    assert coordinator.wait_for(PositionIs).position == Position(watermark=GtidSet())
    assert store.done == []


def test_the_position_is_on_disk_before_it_is_told(bench: Bench) -> None:
    """R40, D15: `WatermarkMoved` says what is in the store, watermark, anchor and all."""
    store, coordinator = Watched(), bench.mailbox("coordinator")
    running = checkpoint(bench, store)
    opened(running, coordinator)
    processed(running, coordinator, 3, sink_position=up_to(3))
    moved = coordinator.wait_for(WatermarkMoved).position

    assert (store.load_watermark(), store.load_anchor()) == (moved.watermark, moved.anchor)
    assert store.load_sink_position() == up_to(3)


def test_a_position_is_answered_behind_what_was_processed_before(bench: Bench) -> None:
    """D15: through the mailbox, so the answer holds every earlier `Processed`."""
    store = Watched()
    coordinator, connection = bench.mailbox("coordinator"), bench.mailbox("connection")
    running = checkpoint(bench, store)
    opened(running, coordinator)
    for number in (1, 2, 3):
        processed(running, coordinator, number)
        running.address.send(PositionWanted(connection.address))
    connection.wait_for(PositionIs, 3)

    assert [m.position.watermark for m in connection.of(PositionIs)] == [
        up_to(n) for n in (1, 2, 3)
    ]


def test_what_a_dead_coordinator_had_processed_still_counts(bench: Bench) -> None:
    """Its sink accepted it: the next life starts behind it, and only that one is told."""
    store, old, new = Watched(), bench.mailbox("old"), bench.mailbox("new")
    running = checkpoint(bench, store)
    opened(running, old)
    old.wait_for(PositionIs)
    old.die()
    processed(running, old, 5)
    opened(running, new)

    assert new.wait_for(PositionIs).position.watermark == up_to(5)
    assert new.of(WatermarkMoved) == []


def test_a_set_that_lacks_something_processed_halts(bench: Bench) -> None:
    """D15: no superset is `watermark_regressed`, and nothing is written."""
    store, coordinator = Watched(), bench.mailbox("coordinator")
    running = checkpoint(bench, store)
    opened(running, coordinator)
    processed(running, coordinator, 5)
    processed(running, coordinator, 4)

    assert reason(bench.exit_of(running)) is HaltReason.WATERMARK_REGRESSED
    assert store.load_watermark() == up_to(5)


def test_a_failed_write_moves_nothing(bench: Bench) -> None:
    """R42, R265: no `WatermarkMoved`; the halt names the class only."""
    store, coordinator = Watched(), bench.mailbox("coordinator")
    running = checkpoint(bench, store)
    opened(running, coordinator)
    coordinator.wait_for(PositionIs)
    store.failure = OSError("sentinel-value")
    processed(running, coordinator, 1)
    exit_ = bench.end(running)

    assert exit_.halt is not None
    assert (reason(exit_), exit_.halt.detail) == (HaltReason.STORE_FAILED, "OSError")
    assert coordinator.of(WatermarkMoved) == []
    assert store.load_watermark() is None


def test_a_store_that_halts_keeps_its_own_reason(bench: Bench, tmp_path: Path) -> None:
    """A locked store is `store_locked`, before anything is read from it."""
    holder, store = SqliteStore(tmp_path / "state.db"), SqliteStore(tmp_path / "state.db")
    holder.hold()
    try:
        running = checkpoint(bench, store)
        assert reason(bench.exit_of(running)) is HaltReason.STORE_LOCKED
    finally:
        holder.close()


class TestWhereToStart:
    """D12: the store's position against the sink's own."""

    def test_a_sink_ahead_of_the_store_counts_before_anybody_hears(self, bench: Bench) -> None:
        """D12: the union is on disk first; the anchor stays."""
        store, coordinator = Watched(), bench.mailbox("coordinator")
        anchor = Anchor(gtid=gtid(3), commit_micros=3, arrived_micros=3, server_uuid=SERVER)
        store.save_watermark(up_to(3), anchor, up_to(3))
        opened(checkpoint(bench, store), coordinator, up_to(5))
        position = coordinator.wait_for(PositionIs).position

        assert position == Position(watermark=up_to(5), anchor=anchor, sink_position=up_to(5))
        assert (store.load_watermark(), store.load_anchor()) == (up_to(5), anchor)

    def test_an_empty_store_starts_at_the_sinks_position(self, bench: Bench) -> None:
        """D12: a deleted store beside a mirror that knows where it is."""
        store, coordinator = Watched(), bench.mailbox("coordinator")
        opened(checkpoint(bench, store), coordinator, up_to(5))

        assert coordinator.wait_for(PositionIs).position.watermark == up_to(5)
        assert store.load_watermark() == up_to(5)

    @pytest.mark.parametrize("reported", [GtidSet(), up_to(3), None])
    def test_a_sink_that_has_less_than_it_had_halts(
        self, bench: Bench, reported: GtidSet | None
    ) -> None:
        """D12: deleted, restored from a copy, or exchanged for a sink without position."""
        store, coordinator = Watched(), bench.mailbox("coordinator")
        store.save_watermark(up_to(4), None, up_to(4))
        running = checkpoint(bench, store)
        opened(running, coordinator, reported)

        assert reason(bench.exit_of(running)) is HaltReason.SINK_POSITION_LOST
        assert coordinator.of(PositionIs) == []

    def test_the_rules_hold_for_a_coordinator_that_started_again(self, bench: Bench) -> None:
        """D12: what the sink committed before its coordinator crashed is not asked for again."""
        store, old, new = Watched(), bench.mailbox("old"), bench.mailbox("new")
        running = checkpoint(bench, store)
        opened(running, old, GtidSet())
        processed(running, old, 2, sink_position=up_to(2))
        old.wait_for(WatermarkMoved)
        opened(running, new, up_to(4))
        assert new.wait_for(PositionIs).position.watermark == up_to(4)
        opened(running, new, up_to(1))

        assert reason(bench.exit_of(running)) is HaltReason.SINK_POSITION_LOST


class TestCaptureList:
    """D16: what was processed under which list."""

    def test_a_widened_list_halts(self, bench: Bench) -> None:
        """D16: the new tables' past would silently be missing."""
        store = Watched()
        store.save_watermark(up_to(1))
        store.save_tables(["shop.items"])

        exit_ = bench.exit_of(checkpoint(bench, store, "shop.items", "shop.more"))

        assert reason(exit_) is HaltReason.CAPTURE_CONFIG_DRIFTED
        assert store.load_tables() == ("shop.items",)

    def test_a_list_is_kept_before_anything_is_processed_under_it(self, bench: Bench) -> None:
        """D16: a crash between the two writes must not leave the older, wider list."""
        store, coordinator = Watched(), bench.mailbox("coordinator")
        store.save_watermark(up_to(1))
        store.save_tables(["shop.*"])
        store.done.clear()
        running = checkpoint(bench, store, "shop.items")
        opened(running, coordinator)
        processed(running, coordinator, 2)
        processed(running, coordinator, 3)
        bench.end(running)

        assert store.done == ["tables", "save 2", "save 3"]
        assert store.load_tables() == ("shop.items",)

    def test_a_list_under_which_nothing_was_processed_is_forgotten(self, bench: Bench) -> None:
        """D16: a run that never got anywhere (a table misspelt) leaves no trace."""
        store, coordinator = Watched(), bench.mailbox("coordinator")
        store.save_watermark(up_to(1))
        store.save_tables(["shop.*"])
        mistaken = checkpoint(bench, store, "shop.itmes")
        opened(mistaken, coordinator)
        bench.end(mistaken)

        assert store.load_tables() == ("shop.*",)


class TestTheEnd:
    """Who lets the store go."""

    def test_alone_it_closes_the_store(self, bench: Bench) -> None:
        """The usual end: the coordinator ended before it."""
        store, coordinator = Watched(), bench.mailbox("coordinator")
        running = checkpoint(bench, store)
        opened(running, coordinator)
        coordinator.wait_for(PositionIs)
        coordinator.die()
        bench.end(running)

        assert store.done == ["close"]

    def test_it_leaves_the_store_locked_while_the_coordinator_lives(self, bench: Bench) -> None:
        """A sink call that hangs may still deliver: no other pipeline may start meanwhile."""
        store, coordinator = Watched(), bench.mailbox("coordinator")
        running = checkpoint(bench, store)
        opened(running, coordinator)
        coordinator.wait_for(PositionIs)
        running.request_stop()
        bench.exit_of(running)

        coordinator.wait_for(CheckpointEnded)
        assert store.done == []

    def test_a_halt_tells_the_coordinator_that_no_answer_will_come(self, bench: Bench) -> None:
        """It would wait for `WatermarkMoved` until its deadline."""
        store, coordinator = Watched(), bench.mailbox("coordinator")
        running = checkpoint(bench, store)
        opened(running, coordinator)
        store.failure = OSError()
        processed(running, coordinator, 1)
        bench.exit_of(running)

        coordinator.wait_for(CheckpointEnded)

    def test_a_store_that_cannot_be_closed_halts(self, bench: Bench) -> None:
        """What a host's store raises at the end is a verdict too."""
        store = Watched()
        store.close = lambda: 1 / 0  # type: ignore[method-assign, assignment]
        running = checkpoint(bench, store)
        running.request_stop()

        exit_ = bench.exit_of(running)
        assert exit_.halt is not None
        assert (reason(exit_), exit_.halt.detail) == (HaltReason.STORE_FAILED, "ZeroDivisionError")


def test_a_halted_of_the_store_is_not_renamed(bench: Bench) -> None:
    """R265: the store's own verdict already is value-free."""
    store, coordinator = Watched(), bench.mailbox("coordinator")
    running = checkpoint(bench, store)
    opened(running, coordinator)
    coordinator.wait_for(PositionIs)
    store.failure = halted(HaltReason.STORE_FAILED, "store x: DatabaseError")
    processed(running, coordinator, 1)

    exit_ = bench.exit_of(running)
    assert exit_.halt is not None
    assert exit_.halt.detail == "store x: DatabaseError"
