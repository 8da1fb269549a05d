"""The coordinator: who is called when, what counts as accepted, how it ends."""

import threading
import time
from collections.abc import Sequence

import pytest
from helpers.changes_builder import (
    committed,
    group,
    inserted,
    schema_change,
    shape,
    transaction,
    up_to,
)
from helpers.mailboxes import Bench, Mailbox
from helpers.waiting import wait_until

from capstan.actors.coordinator import Coordinator
from capstan.actors.messages import (
    Assembled,
    CheckpointEnded,
    PositionIs,
    PositionWanted,
    Processed,
    Settled,
    SinkOpened,
    WatermarkMoved,
)
from capstan.core.changes import ChunkedChanges, Item, PositionLog, SchemaChange, Transaction
from capstan.core.gtid import GtidSet
from capstan.core.halts import HaltReason, halted
from capstan.core.watermark import Position
from capstan.runtime import NORMAL_EXIT, Actor, Address, ExitKind
from capstan.sinks.base import Sink
from capstan.telemetry.board import Board
from capstan.telemetry.events import BatchSettled, Event, SchemaChangeDelivered
from capstan.telemetry.hooks import Hooks

SERVER = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
ITEMS = shape("shop.items", "id int", key=["id"])


def rows(number: int) -> Transaction:
    return transaction(number, inserted(ITEMS, (number,)))


def nothing(number: int) -> Transaction:
    return transaction(number)


def statement(number: int, *, captured: bool = True, rows_follow: bool = False) -> Item:
    change = schema_change(number, "create_table", "shop.items", captured=captured)
    return group(change, rows_follow=rows_follow)


class Noting(Sink):
    """Notes each call; raises at one transaction; hangs while its gate is closed."""

    def __init__(self, refuse: int | None = None, error: BaseException | None = None) -> None:
        self.calls: list[str] = []
        self.refuse = refuse
        self.error = error or ValueError("sentinel-value")
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def open(self) -> None:
        self.calls.append("open")

    def close(self) -> None:
        self.calls.append("close")

    def handle_transaction(self, transaction: Transaction) -> None:
        self._handle(transaction.gtid.number, "")

    def handle_schema_change(self, change: SchemaChange) -> None:
        self._handle(change.gtid.number, "ddl ")

    def _handle(self, number: int, kind: str) -> None:
        self.entered.set()
        assert self.gate.wait(60)
        if number == self.refuse:
            raise self.error
        self.calls.append(f"{kind}{number}")


class Batching(Noting):
    """Takes whole batches; all or nothing."""

    def handle_batch(self, items: Sequence[Item]) -> None:
        self.entered.set()
        assert self.gate.wait(60)
        numbers = [item.gtid.number for item in items]
        if self.refuse in numbers:
            raise self.error
        self.calls.append(" ".join(map(str, numbers)))


class Disk(Actor):
    """A checkpoint that persists everything at once."""

    def receive(self, message: object) -> None:
        if isinstance(message, Processed):
            message.reply_to.send(WatermarkMoved(message.position))


class Desk:
    """One coordinator, its checkpoint played by hand, and an assembler."""

    def __init__(
        self,
        bench: Bench,
        sink: Sink,
        max_batch: int = 10,
        observer: list[Event] | None = None,
        checkpoint: Address | None = None,
    ) -> None:
        self.bench, self.sink = bench, sink
        self.checkpoint = bench.mailbox("checkpoint")
        self.assembler = bench.mailbox("assembler")
        self.board = Board()
        self.store_closed = threading.Event()
        self.hooks = Hooks([] if observer is None else [observer.append])
        self.running = bench.spawn(
            lambda: Coordinator(
                sink,
                checkpoint or self.checkpoint.address,
                self.store_closed.set,
                max_batch,
                self.board,
                self.hooks,
            ),
            name="coordinator",
        )

    def tell(self, message: object) -> None:
        assert self.running.address.send(message)

    def begin(self, processed: int = 0) -> "Desk":
        self.tell(PositionIs(Position(watermark=up_to(processed))))
        return self

    def assemble(self, *items: Item) -> None:
        self.tell(Assembled(self.assembler.address, SERVER, items))

    def answer(self, count: int = 1) -> Position:
        """Persist the batch: the n-th `Processed` is answered."""
        position = self.checkpoint.wait_for(Processed, count).position
        self.tell(WatermarkMoved(position))
        return position


def sizes(mailbox: Mailbox) -> list[int]:
    return [m.position.watermark.count() for m in mailbox.of(Processed)]


class TestOrder:
    def test_the_sink_is_open_before_its_position_is_told(self, bench: Bench) -> None:
        """D12: what it reports is reconciled before anybody dials."""
        desk = Desk(bench, Noting())

        assert desk.checkpoint.wait_for(SinkOpened).position is None
        assert desk.sink.calls == ["open"]  # type: ignore[attr-defined]

    def test_the_sink_is_called_again_only_behind_the_disk(self, bench: Bench) -> None:
        """D15: sink → Processed → WatermarkMoved → the next call."""
        sink = Noting()
        desk = Desk(bench, sink, max_batch=2).begin()
        desk.assemble(rows(1), rows(2), rows(3))
        desk.assemble(rows(4))
        desk.checkpoint.wait_for(Processed)
        assert sink.calls == ["open", "1", "2"]

        desk.answer()
        desk.checkpoint.wait_for(Processed, 2)

        assert sink.calls == ["open", "1", "2", "3", "4"]
        assert sizes(desk.checkpoint) == [2, 4]

    def test_credit_goes_back_behind_the_disk_once_for_each_piece(self, bench: Bench) -> None:
        """A piece is settled when its last transaction is on disk."""
        desk = Desk(bench, Noting(), max_batch=2).begin()
        desk.assemble(rows(1), rows(2), rows(3))
        desk.answer()
        desk.checkpoint.wait_for(Processed, 2)
        assert desk.assembler.heard == []

        desk.answer(2)

        assert desk.assembler.wait_for(Settled).pieces == 1

    def test_nobody_dials_before_all_is_settled(self, bench: Bench) -> None:
        """D15, R38: the question where we stand goes on behind the last item of the last dial."""
        desk = Desk(bench, Noting(), max_batch=1).begin()
        desk.assemble(rows(1), rows(2))
        question = PositionWanted(desk.assembler.address)
        desk.tell(question)
        for count in (1, 2):
            desk.checkpoint.wait_for(Processed, count)
            assert desk.checkpoint.of(PositionWanted) == []
            desk.answer(count)

        desk.checkpoint.wait_for(PositionWanted)
        desk.assembler.wait_for(Settled)
        assert desk.checkpoint.of(PositionWanted) == [question]

    def test_before_the_first_position_a_dial_waits_for_nothing(self, bench: Bench) -> None:
        """R62-R64: it is the dial that seeds it."""
        desk = Desk(bench, Noting())
        desk.tell(PositionWanted(desk.assembler.address))
        assert desk.checkpoint.wait_for(PositionWanted).reply_to == desk.assembler.address

    def test_the_watermark_is_shown_when_it_is_on_disk(self, bench: Bench) -> None:
        """What `wait_for` sees is durable."""
        desk = Desk(bench, Noting()).begin()
        desk.assemble(rows(1))
        desk.checkpoint.wait_for(Processed)
        assert desk.board.figures.watermark == GtidSet()

        desk.answer()

        assert desk.board.wait(lambda figures: figures.watermark == up_to(1), 20)

    def test_what_only_advances_never_reaches_the_sink(self, bench: Bench) -> None:
        """R32, R33, R35: empty and filtered transactions are persisted without a call."""
        sink = Noting()
        desk = Desk(bench, sink).begin()
        desk.assemble(nothing(1), statement(2, captured=False), nothing(3))

        assert desk.checkpoint.wait_for(Processed).position.watermark == up_to(3)
        assert sink.calls == ["open"]

    def test_what_was_processed_before_is_settled_without_a_write(self, bench: Bench) -> None:
        """R39: an older epoch brought it; its credit comes back all the same."""
        sink = Noting()
        desk = Desk(bench, sink).begin(processed=2)
        desk.assemble(rows(1), rows(2))

        desk.assembler.wait_for(Settled)
        assert sink.calls == ["open"]
        assert desk.checkpoint.of(Processed) == []

    def test_settling_a_dead_assembler_disturbs_nobody(self, bench: Bench) -> None:
        """What an older life of it handed on is delivered; its credit died with it."""
        sink = Noting()
        desk = Desk(bench, sink).begin()
        desk.assemble(rows(1))
        desk.checkpoint.wait_for(Processed)
        desk.assembler.die()
        desk.answer()
        newer = bench.mailbox("assembler-2")
        desk.tell(Assembled(newer.address, SERVER, (rows(1), rows(2))))
        desk.answer(2)

        assert newer.wait_for(Settled).pieces == 1
        assert sink.calls == ["open", "1", "2"]

    def test_the_sinks_position_is_told_with_each_batch(self, bench: Bench) -> None:
        """D12: the store keeps what the sink was last seen to report."""

        class Positioned(Noting):
            def position(self) -> GtidSet:
                return up_to(len(self.calls) - 1)

        desk = Desk(bench, Positioned(), max_batch=1).begin()
        desk.assemble(rows(1), rows(2))
        desk.answer()
        desk.checkpoint.wait_for(Processed, 2)

        assert desk.checkpoint.wait_for(SinkOpened).position == GtidSet()
        told = [m.position.sink_position for m in desk.checkpoint.of(Processed)]
        assert told == [up_to(1), up_to(2)]


class TestRefusal:
    def test_what_was_accepted_before_is_persisted_first(self, bench: Bench) -> None:
        """R40, R41, D15: items 1 to k-1 are on disk before the halt is told."""
        desk = Desk(bench, Noting(refuse=3)).begin()
        desk.assemble(rows(1), nothing(2), rows(3), rows(4))
        assert desk.checkpoint.wait_for(Processed).position.watermark == up_to(2)
        assert desk.running.exit is None

        desk.answer()
        exit_ = bench.exit_of(desk.running)

        assert exit_.halt is not None
        assert (exit_.halt.reason, exit_.halt.detail) == (HaltReason.SINK_FAILED, "ValueError")

    def test_a_refused_first_item_writes_nothing(self, bench: Bench) -> None:
        """R41: the checkpoint stays where it was."""
        desk = Desk(bench, Noting(refuse=1)).begin()
        desk.assemble(rows(1))

        assert bench.end(desk.running).kind is ExitKind.HALTED
        assert desk.checkpoint.of(Processed) == []

    def test_of_a_refused_batch_nothing_counts_but_what_stands_before_it(
        self, bench: Bench
    ) -> None:
        """D15: a sink that takes whole batches takes all or nothing."""
        desk = Desk(bench, Batching(refuse=4)).begin()
        desk.assemble(nothing(1), rows(2), nothing(3), rows(4))

        assert desk.answer().watermark == up_to(1)
        assert bench.exit_of(desk.running).kind is ExitKind.HALTED

    def test_nothing_is_delivered_behind_a_refusal(self, bench: Bench) -> None:
        """R41: the order of the stream is never broken."""
        sink = Noting(refuse=2)
        desk = Desk(bench, sink, max_batch=2).begin()
        desk.assemble(rows(1), rows(2), rows(3))
        desk.assemble(rows(4))
        desk.answer()
        bench.exit_of(desk.running)

        assert sink.calls == ["open", "1", "close"]
        assert sizes(desk.checkpoint) == [1]

    @pytest.mark.parametrize("error", [SystemExit(), KeyboardInterrupt(), GeneratorExit()])
    def test_whatever_a_sink_raises_is_a_refusal(self, bench: Bench, error: BaseException) -> None:
        """Also what is no `Exception`: it must not look like a crash and be tried again."""
        desk = Desk(bench, Noting(refuse=1, error=error)).begin()
        desk.assemble(rows(1))
        exit_ = bench.exit_of(desk.running)

        assert exit_.halt is not None
        assert exit_.halt.reason is HaltReason.SINK_FAILED

    def test_a_sinks_own_halt_keeps_its_reason(self, bench: Bench) -> None:
        """A mirror says itself what is wrong."""
        error = halted(HaltReason.MIRROR_DRIFTED, "shop.items")
        desk = Desk(bench, Noting(refuse=1, error=error)).begin()
        desk.assemble(rows(1))

        assert bench.exit_of(desk.running).halt == error.halt

    def test_an_open_that_raises_is_a_halt(self, bench: Bench) -> None:
        """A sink that cannot be opened is not tried again."""

        class Shut(Noting):
            def open(self) -> None:
                raise ConnectionError("sentinel-value")

        exit_ = bench.exit_of(Desk(bench, Shut()).running)

        assert exit_.halt is not None
        assert (exit_.halt.reason, exit_.halt.detail) == (HaltReason.SINK_FAILED, "ConnectionError")

    def test_a_close_that_raises_is_a_halt(self, bench: Bench) -> None:
        """What a sink could not let go of in good order is told."""

        class Stuck(Noting):
            def close(self) -> None:
                raise OSError("sentinel-value")

        exit_ = bench.end(Desk(bench, Stuck()).begin().running)

        assert exit_.halt is not None
        assert (exit_.halt.reason, exit_.halt.detail) == (HaltReason.SINK_FAILED, "OSError")


def pair(number: int) -> tuple[Item, Item]:
    return statement(number, rows_follow=True), rows(number)


class TestStatementWithRows:
    """CREATE TABLE … SELECT: a schema change and rows under one GTID (D20)."""

    def test_the_watermark_moves_once_with_the_rows(self, bench: Bench) -> None:
        """D20: the statement alone is settled without a write."""
        sink = Noting()
        desk = Desk(bench, sink, max_batch=1).begin()
        desk.assemble(*pair(1))

        assert desk.answer().watermark == up_to(1)
        assert sink.calls == ["open", "ddl 1", "1"]
        assert desk.assembler.wait_for(Settled).pieces == 1
        assert sizes(desk.checkpoint) == [1]

    def test_a_crash_between_the_two_brings_both_again(self, bench: Bench) -> None:
        """D20, R268: nothing was persisted, so no row is lost; the statement comes twice."""
        sink = Noting()
        first = Desk(bench, sink, max_batch=1).begin()
        first.assemble(pair(1)[0])
        wait_until(lambda: "ddl 1" in sink.calls, what="the statement delivered")
        first.running.interrupt()
        bench.exit_of(first.running)
        second = Desk(bench, sink, max_batch=1).begin()
        second.assemble(*pair(1))

        assert second.answer().watermark == up_to(1)
        assert sink.calls == ["open", "ddl 1", "close", "open", "ddl 1", "1"]
        assert first.checkpoint.of(Processed) == []

    @pytest.mark.parametrize("max_batch", [1, 2, 3, 4])
    def test_an_older_epochs_pair_is_not_doubled_by_the_next(
        self, bench: Bench, max_batch: int
    ) -> None:
        """R39, D13: after a cut both come again while the first ones are still queued."""
        sink = Noting()
        sink.gate.clear()
        disk = bench.spawn(Disk, name="disk").address
        desk = Desk(bench, sink, max_batch, checkpoint=disk).begin()
        desk.assemble(rows(1))
        assert sink.entered.wait(20)
        desk.assemble(*pair(2))
        desk.assemble(*pair(2), rows(3))
        sink.gate.set()
        desk.assembler.wait_for(Settled, 3)

        assert sink.calls == ["open", "1", "ddl 2", "2", "3"]

    def test_rows_refused_behind_an_accepted_statement_move_nothing(self, bench: Bench) -> None:
        """D15, D20: its GTID is not processed before its rows are."""

        class NoRows(Noting):
            def handle_schema_change(self, change: SchemaChange) -> None:
                self.calls.append("ddl")

        sink = NoRows(refuse=2)
        desk = Desk(bench, sink).begin()
        desk.assemble(rows(1), *pair(2))

        assert desk.answer().watermark == up_to(1)
        assert bench.exit_of(desk.running).kind is ExitKind.HALTED
        assert sink.calls == ["open", "1", "ddl", "close"]
        assert sizes(desk.checkpoint) == [1]


class TestStop:
    def test_everything_assembled_is_delivered_and_persisted(self, bench: Bench) -> None:
        """The drain goes on, batch by batch, until nothing is queued or out."""
        sink = Noting()
        desk = Desk(bench, sink, max_batch=2).begin()
        desk.assemble(rows(1), rows(2), rows(3))
        desk.assemble(rows(4), rows(5))
        desk.running.request_stop()
        for count in (1, 2, 3):
            desk.answer(count)

        assert bench.exit_of(desk.running) == NORMAL_EXIT
        assert sink.calls == ["open", "1", "2", "3", "4", "5", "close"]
        assert sizes(desk.checkpoint) == [2, 4, 5]

    def test_before_the_first_position_there_is_nothing_to_drain(self, bench: Bench) -> None:
        """A stop that comes first ends at once."""
        desk = Desk(bench, Noting())
        desk.running.request_stop()

        assert bench.exit_of(desk.running) == NORMAL_EXIT

    @pytest.mark.parametrize("told", ["before", "after"])
    def test_nothing_waits_for_a_checkpoint_that_has_ended(self, bench: Bench, told: str) -> None:
        """R42: no answer will come, so the batch that is out comes again instead."""
        sink = Noting()
        desk = Desk(bench, sink, max_batch=1).begin()
        desk.assemble(rows(1), rows(2))
        desk.checkpoint.wait_for(Processed)
        if told == "after":
            desk.running.request_stop()
        desk.checkpoint.die()
        desk.running.address.send(CheckpointEnded())
        if told == "before":
            desk.running.request_stop()

        assert bench.exit_of(desk.running) == NORMAL_EXIT
        assert sink.calls == ["open", "1", "close"]

    def test_a_dead_checkpoint_holds_the_sink(self, bench: Bench) -> None:
        """D15: what could not be persisted is not delivered in the first place."""
        sink = Noting()
        desk = Desk(bench, sink).begin()
        desk.assemble(nothing(1))
        desk.answer()
        desk.checkpoint.die()
        desk.assemble(rows(2))
        bench.end(desk.running)

        assert sink.calls == ["open", "close"]

    @pytest.mark.parametrize("end", ["stop", "interrupt"])
    def test_a_refusal_that_waits_for_the_disk_is_told_in_any_case(
        self, bench: Bench, end: str
    ) -> None:
        """R41: neither a checkpoint that crashed nor a stop in a hurry hides it."""
        desk = Desk(bench, Noting(refuse=2)).begin()
        desk.assemble(rows(1), rows(2))
        desk.checkpoint.wait_for(Processed)
        if end == "stop":
            desk.checkpoint.die()
            desk.running.request_stop()
        else:
            desk.running.interrupt()
        exit_ = bench.exit_of(desk.running)

        assert exit_.halt is not None
        assert exit_.halt.reason is HaltReason.SINK_FAILED

    @pytest.mark.parametrize("kind", [Noting, Batching])
    def test_a_call_that_was_given_up_counts_for_nothing(
        self, bench: Bench, kind: type[Noting]
    ) -> None:
        """Nothing of it is persisted, even when it returns later, and no other call is made."""
        sink = kind()
        sink.gate.clear()
        desk = Desk(bench, sink).begin()
        desk.assemble(rows(1), rows(2))
        assert sink.entered.wait(20)
        desk.running.interrupt()
        sink.gate.set()

        assert bench.exit_of(desk.running) == NORMAL_EXIT
        assert desk.checkpoint.of(Processed) == []
        assert len(sink.calls) == 3

    def test_who_ends_behind_the_checkpoint_closes_the_store(self, bench: Bench) -> None:
        """Until a sink call that hangs has really ended, the store stays locked."""
        sink = Noting()
        sink.gate.clear()
        desk = Desk(bench, sink).begin()
        desk.assemble(rows(1))
        assert sink.entered.wait(20)
        desk.checkpoint.die()
        desk.running.interrupt()
        assert not desk.store_closed.is_set()
        sink.gate.set()

        bench.exit_of(desk.running)
        assert desk.store_closed.is_set()

    def test_who_ends_before_the_checkpoint_leaves_the_store_to_it(self, bench: Bench) -> None:
        """The usual end."""
        desk = Desk(bench, Noting()).begin()
        bench.end(desk.running)

        assert not desk.store_closed.is_set()


class TestReports:
    def test_a_batch_is_told_when_it_is_on_disk(self, bench: Bench) -> None:
        """What was delivered, filtered, skipped; and never twice."""
        heard: list[Event] = []
        desk = Desk(bench, Noting(), observer=heard).begin(processed=1)
        desk.assemble(rows(1), rows(2), nothing(3), statement(4))
        desk.checkpoint.wait_for(Processed)
        assert [event.name for event in heard] == ["schema_change.delivered"]
        desk.answer()
        desk.assembler.wait_for(Settled)
        settled = heard[-1]

        assert isinstance(settled, BatchSettled)
        assert (settled.transactions, settled.changes, settled.filtered) == (1, 1, 1)
        assert (settled.skipped, settled.schema_changes) == (1, 1)
        figures = desk.board.figures
        assert (figures.transactions, figures.changes, figures.filtered) == (1, 1, 1)
        assert (figures.skipped, figures.schema_changes, figures.batches) == (1, 1, 1)

    def test_only_what_was_accepted_is_told(self, bench: Bench) -> None:
        """A schema change behind a refused item never reached the sink."""
        heard: list[Event] = []
        desk = Desk(bench, Noting(refuse=2), observer=heard).begin()
        desk.assemble(statement(1), rows(2), statement(3))
        desk.answer()
        bench.exit_of(desk.running)
        told = [event for event in heard if isinstance(event, SchemaChangeDelivered)]

        assert [event.gtid.number for event in told] == [1]
        assert desk.board.figures.schema_changes == 1

    def test_only_changes_of_captured_tables_are_told(self, bench: Bench) -> None:
        """D20: of one statement, those that the sink got."""
        heard: list[Event] = []
        desk = Desk(bench, Noting(), observer=heard).begin()
        both = [
            schema_change(1, "drop_table", "other.a", captured=False),
            schema_change(1, "drop_table", "shop.b"),
        ]
        desk.assemble(group(*both))
        desk.checkpoint.wait_for(Processed)
        told = [event for event in heard if isinstance(event, SchemaChangeDelivered)]

        assert [(event.schema, event.table) for event in told] == [("shop", "b")]

    def test_lag_runs_from_the_commit_on_the_server_it_came_from(self, bench: Bench) -> None:
        """Of the last one accepted; a clock that runs behind makes it no less than zero."""
        now = time.time()
        desk = Desk(bench, Noting(refuse=2)).begin()
        desk.assemble(arrived(1, now - 500), arrived(2, now - 9000))
        desk.answer()
        bench.exit_of(desk.running)

        lag = desk.board.figures.lag_seconds
        assert lag is not None
        assert 500 <= lag < 9000

    def test_lag_is_never_negative(self, bench: Bench) -> None:
        """The server's clock may be ahead of ours."""
        desk = Desk(bench, Noting()).begin()
        desk.assemble(arrived(1, time.time() + 3600))
        desk.answer()
        desk.assembler.wait_for(Settled)

        assert desk.board.figures.lag_seconds == 0.0


def arrived(number: int, seconds: float) -> Transaction:
    """One row, committed elsewhere long ago, on the server it was read from at `seconds`."""
    at = committed(number)._replace(arrived_micros=int(seconds * 1_000_000))
    log = PositionLog(up_to(number - 1))
    log.run.append(at)
    return Transaction(at, ChunkedChanges([inserted(ITEMS, (number,))]), log, 0)
