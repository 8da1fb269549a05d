"""The connection: when it dials, what it asks for, when it reads, when it gives up."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import event_builder as events
from helpers.histories import gtid, insert, up_to
from helpers.mailboxes import Bench
from helpers.scripted_source import (
    SERVER_UUID,
    Script,
    ScriptedLink,
    ScriptedSource,
    cut,
    facts_with,
    one_by_one,
    pieces,
)
from helpers.waiting import wait_until

import capstan.actors.connection
from capstan.actors.connection import Connection, StreamSettings
from capstan.actors.messages import (
    ConnectionReady,
    CreditGranted,
    PacketsRead,
    PositionIs,
    PositionWanted,
    ReadOn,
    StreamOpened,
)
from capstan.core.gtid import GtidSet
from capstan.core.halts import HaltReason
from capstan.core.preflight import ServerFacts
from capstan.core.tables import CaptureList
from capstan.core.watermark import Anchor, Position
from capstan.runtime import NORMAL_EXIT
from capstan.sources.base import LinkLost, Source
from capstan.telemetry.board import Board
from capstan.telemetry.events import ConnectionEstablished, ConnectionLost, Event
from capstan.telemetry.hooks import Hooks
from capstan.testing import ManualClock

PURGED = "Cannot replicate because the source purged required binary logs. sentinel-value"
ENDLESS = 3600.0


class Budget:
    """A budget of dials without delays.

    Attributes:
        left: Counted failures that it still bears.
        asked: Whether each failure was counted.
        delay: Seconds before each dial.
    """

    def __init__(self, left: int = 3, delay: float = 0.0) -> None:
        self.full = self.left = left
        self.delay = delay
        self.asked: list[bool] = []

    def next_delay(self, *, counted: bool) -> float | None:
        self.asked.append(counted)
        self.left -= counted
        return None if self.left <= 0 and counted else self.delay

    def progress(self) -> None:
        self.left = self.full


class Looks:
    """Patience for so many looks."""

    def __init__(self, looks: int, delay: float = 0.0) -> None:
        self._looks, self._delay = looks, delay
        self.asked = threading.Event()

    def next_delay(self) -> float | None:
        self.asked.set()
        self._looks -= 1
        return self._delay if self._looks >= 0 else None


class Line:
    """One connection over a scripted source; assembler and checkpoint are played by hand."""

    def __init__(
        self,
        bench: Bench,
        source: Source,
        *,
        budget: Budget | None = None,
        liveness: float = ENDLESS,
        looks: Looks | None = None,
        incarnation: int = 1,
        allowed: tuple[str, ...] = (),
    ) -> None:
        self.bench = bench
        self.assembler, self.checkpoint = bench.mailbox("assembler"), bench.mailbox("checkpoint")
        self.budget = budget or Budget()
        self.board = Board()
        self.events: list[Event] = []
        settings = StreamSettings(
            capture=CaptureList.parse(["shop.*"]),
            server_id=9,
            accepted_cascades=(),
            allowed_sources=allowed,
            liveness_timeout=liveness,
            patience=lambda: looks or Looks(0),
        )
        self.running = bench.spawn(
            lambda: Connection(
                source,
                self.assembler.address,
                self.checkpoint.address,
                settings,
                self.budget,
                self.board,
                Hooks([self.events.append]),
            ),
            name="connection",
            incarnation=incarnation,
        )

    def grant(self, credit: int = 100) -> "Line":
        assert self.running.address.send(CreditGranted(credit))
        return self

    def answer(self, position: Position | None = None, count: int = 1) -> "Line":
        """Tell the position, when it was asked for the n-th time."""
        self.assembler.wait_for(PositionWanted, count)
        assert self.running.address.send(PositionIs(position or Position(watermark=GtidSet())))
        return self

    def opened(self, count: int = 1) -> StreamOpened:
        return self.assembler.wait_for(StreamOpened, count)

    def phase(self) -> str:
        return self.board.figures.connection

    def halt(self) -> HaltReason | None:
        exit_ = self.bench.exit_of(self.running)
        return None if exit_.halt is None else exit_.halt.reason


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """The connection's clock, which a test can push forward."""
    shifted = ManualClock()
    monkeypatch.setattr(capstan.actors.connection, "time", SimpleNamespace(monotonic=shifted))
    return shifted


def anchored(number: int, server: str = SERVER_UUID) -> Position:
    anchor = Anchor(
        gtid=gtid(number), commit_micros=number, arrived_micros=number, server_uuid=server
    )
    return Position(watermark=up_to(number), anchor=anchor)


def playing(*scripts: Script, facts: ServerFacts | None = None) -> ScriptedSource:
    """A source whose dials play these scripts, the last one again and again."""
    plays = [list(script) for script in scripts]
    source = ScriptedSource(lambda dial: plays[min(dial, len(plays) - 1)])
    source.facts = facts or source.facts
    return source


class TestDialling:
    def test_it_asks_for_credit_then_for_the_position_then_dials(self, bench: Bench) -> None:
        """Nothing is opened without credit, nor from anything but the durable position."""
        source = playing([])
        line = Line(bench, source)
        line.assembler.wait_for(ConnectionReady)
        assert line.assembler.of(PositionWanted) == []

        line.grant()
        line.assembler.wait_for(PositionWanted)
        assert source.links == 0

        line.answer(Position(watermark=up_to(7)))
        assert line.opened().epoch.start == up_to(7)
        assert source.asked == [up_to(7)]

    def test_the_stream_is_opened_before_its_first_piece(self, bench: Bench) -> None:
        """What an older epoch left half-built is thrown away first."""
        line = Line(bench, playing(pieces(insert(1)))).grant().answer()
        line.assembler.wait_for(PacketsRead)

        kinds = [type(message) for message in line.assembler.heard]
        assert kinds == [ConnectionReady, PositionWanted, StreamOpened, PacketsRead]

    def test_every_dial_is_an_epoch_of_its_own_from_a_position_asked_afresh(
        self, bench: Bench
    ) -> None:
        """Two dials never mix, nor do two lives of the connection."""
        source = playing([*pieces(insert(1)), cut()], [])
        line = Line(bench, source, incarnation=4).grant().answer()
        line.answer(Position(watermark=up_to(1)), 2)
        second = line.opened(2)

        assert [m.number for m in line.assembler.of(StreamOpened)] == [(4, 1), (4, 2)]
        assert [m.number for m in line.assembler.of(PacketsRead)] == [(4, 1)]
        assert second.epoch.start == up_to(1)

    def test_a_refused_preflight_asks_for_no_dump(self, bench: Bench) -> None:
        """All findings at once, on the stream's own link."""
        source = playing([], facts=facts_with(binlog_format="MIXED", gtid_mode="OFF"))
        line = Line(bench, source).grant().answer()
        halt = bench.exit_of(line.running).halt

        assert halt is not None
        assert {halt.reason, *(also.reason for also in halt.also)} == {
            HaltReason.BINLOG_FORMAT_NOT_ROW,
            HaltReason.GTID_MODE_NOT_ON,
        }
        assert source.asked == []

    def test_a_position_the_source_never_executed_is_refused(self, bench: Bench) -> None:
        """D14: before the dump is asked for; the server itself would stream on."""
        source = playing([], facts=facts_with(gtid_executed=up_to(3)))
        line = Line(bench, source).grant().answer(Position(watermark=up_to(5)))

        assert line.halt() is HaltReason.SOURCE_IDENTITY_MISMATCH
        assert source.asked == []

    @pytest.mark.parametrize("allowed", [SERVER_UUID, str(gtid(1).uuid)])
    def test_a_server_that_is_not_allowed_is_asked_for_nothing(
        self, bench: Bench, allowed: str
    ) -> None:
        """D14: looked at on every dial, whatever the server has executed."""
        source = playing([])
        line = Line(bench, source, allowed=(allowed,)).grant().answer()

        if allowed == SERVER_UUID:
            assert line.opened().epoch.server_uuid == SERVER_UUID
        else:
            assert line.halt() is HaltReason.SOURCE_IDENTITY_MISMATCH
            assert source.asked == []

    def test_what_may_settle_is_looked_at_again(self, bench: Bench) -> None:
        """D14: under semi-sync a transaction is here before gtid_executed has it."""

        class Settles(ScriptedLink):
            def executed(self) -> GtidSet:
                self._source.facts = facts_with()
                return up_to(5)

        source = playing([], facts=facts_with(gtid_executed=up_to(4)))
        source.link = lambda: Settles(source, iter([]))  # type: ignore[method-assign]
        line = Line(bench, source, looks=Looks(1)).grant().answer(anchored(5))

        line.opened()
        assert source.asked == [up_to(4)]

    def test_what_does_not_settle_in_time_is_refused(self, bench: Bench) -> None:
        """D14: patience ends."""
        source = playing([], facts=facts_with(gtid_executed=up_to(4)))
        line = Line(bench, source, looks=Looks(3)).grant().answer(anchored(5))

        assert line.halt() is HaltReason.SOURCE_IDENTITY_MISMATCH


class TestAnchor:
    """D13: the last processed transaction must come by again."""

    def test_the_dump_is_asked_without_it(self, bench: Bench) -> None:
        """D13: so that the server has to show it."""
        source = playing([])
        line = Line(bench, source).grant().answer(anchored(5))

        assert line.opened().epoch.anchor == anchored(5).anchor
        assert line.opened().epoch.start == up_to(5)
        assert source.asked == [up_to(4)]

    def test_a_purged_one_is_left_in(self, bench: Bench) -> None:
        """D13: the server has it no more and would refuse."""
        source = playing([], facts=facts_with(gtid_purged=up_to(5)))
        line = Line(bench, source).grant().answer(anchored(5))

        assert line.opened().epoch.anchor is None
        assert source.asked == [up_to(5)]

    def test_a_purged_refusal_is_tried_once_more_with_it(self, bench: Bench) -> None:
        """D13: it may be purged between two looks; the second dial costs nothing of the budget."""
        source = playing([events.error_packet(1236, PURGED)], [])
        line = Line(bench, source, budget=Budget(left=1)).grant().answer(anchored(5))
        line.answer(anchored(5), 2)

        assert line.opened(2).epoch.anchor is None
        assert source.asked == [up_to(4), up_to(5)]

    def test_a_second_purged_refusal_is_a_gap(self, bench: Bench) -> None:
        """R46, D13: with it in there is nothing left to leave out."""
        source = playing([events.error_packet(1236, PURGED)])
        line = Line(bench, source).grant().answer(anchored(5)).answer(anchored(5), 2)

        assert line.halt() is HaltReason.DATA_GAP
        assert source.asked == [up_to(4), up_to(5)]

    def test_it_is_asked_for_again_when_the_watermark_has_moved(self, bench: Bench) -> None:
        """D13: the next anchor is another transaction, and not purged."""
        purged = [events.error_packet(1236, PURGED)]
        source = playing(purged, [*pieces(insert(6)), cut()], [])
        line = Line(bench, source).grant().answer(anchored(5)).answer(anchored(5), 2)
        line.answer(anchored(6), 3)
        line.opened(3)

        assert source.asked == [up_to(4), up_to(5), up_to(5)]
        assert line.opened(3).epoch.anchor == anchored(6).anchor


class TestCredit:
    def test_no_more_is_read_than_was_granted(self, bench: Bench) -> None:
        """One credit, one piece; it pauses until the next comes."""
        source = playing(one_by_one(insert(n) for n in range(1, 30)))
        line = Line(bench, source).grant(3).answer()
        wait_until(lambda: "waiting for credit" in line.phase(), what="the pause")
        assert source.reads == 3

        line.grant(2)
        line.assembler.wait_for(PacketsRead, 5)
        wait_until(lambda: "waiting for credit" in line.phase(), what="the pause")

        assert source.reads == 5

    def test_a_piece_without_a_whole_event_costs_nothing(self, bench: Bench) -> None:
        """Nobody would give the credit back."""
        source = playing(pieces(insert(1), size=7))
        line = Line(bench, source).grant(20).answer()
        line.assembler.wait_for(PacketsRead, 8)
        bench.end(line.running)

        handed = len(line.assembler.of(PacketsRead))
        assert handed < source.reads

    def test_a_link_lost_without_credit_is_not_dialled_again(self, bench: Bench) -> None:
        """It rests: memory stays flat however often the server cuts."""
        source = playing([*pieces(insert(1)), cut()])
        line = Line(bench, source).grant(1).answer()
        wait_until(lambda: "waiting for credit" in line.phase(), what="the pause")
        line.grant(1).answer(count=2)
        line.opened(2)
        wait_until(lambda: "waiting for credit" in line.phase(), what="the pause")
        bench.end(line.running)

        assert source.reads == 2
        assert source.links == 2

    @pytest.mark.parametrize("number", [(1, 1), (1, 0), (0, 1), (1, 2)])
    def test_a_call_to_read_on_is_heard_only_while_streaming(
        self, bench: Bench, number: tuple[int, int]
    ) -> None:
        """Neither a pause nor another epoch is read through by a message from before it."""
        source = playing(one_by_one([insert(1), insert(2)]))
        line = Line(bench, source).grant(1).answer()
        wait_until(lambda: "waiting for credit" in line.phase(), what="the pause")
        line.running.address.send(ReadOn(number))
        bench.end(line.running)

        assert source.reads == 1


class TestBudget:
    def test_failures_without_progress_end_it(self, bench: Bench) -> None:
        """A connect that succeeds fills nothing up: a flapping link ends."""
        source = playing([*pieces([]), cut()])
        line = Line(bench, source, budget=Budget(left=3)).grant()
        for count in (1, 2, 3):
            line.answer(count=count)

        assert line.halt() is HaltReason.COMMAND_RETRIES_EXHAUSTED
        assert source.links == 3

    def test_a_moved_watermark_fills_it_up(self, bench: Bench) -> None:
        """Progress is what is on disk."""
        source = playing([*pieces([]), cut()])
        line = Line(bench, source, budget=Budget(left=2)).grant()
        for count in range(1, 6):
            line.answer(Position(watermark=up_to(count)), count)
        line.answer(Position(watermark=up_to(5)), 6)

        assert line.halt() is HaltReason.COMMAND_RETRIES_EXHAUSTED
        assert source.links == 6

    def test_a_cut_after_a_pause_costs_nothing(self, bench: Bench) -> None:
        """The server's patience with a slow reader is nobody's fault."""
        source = playing([*pieces(insert(1)), cut()], [])
        line = Line(bench, source, budget=Budget(left=1)).grant(1).answer()
        wait_until(lambda: "waiting for credit" in line.phase(), what="the pause")
        line.grant(5).answer(count=2)
        line.opened(2)

        assert line.budget.asked == [False]

    def test_pauses_do_not_let_a_link_flap_for_ever(self, bench: Bench) -> None:
        """One cut is excused until the watermark moves: a transaction that never gets through."""
        half = [*pieces(insert(1)[:3]), cut()]
        source = playing(half)
        line = Line(bench, source, budget=Budget(left=3))
        for count in range(1, 5):
            line.grant(1).answer(count=count)
            wait_until(lambda: "waiting for credit" in line.phase(), what="the pause")
        line.grant(1)

        assert line.halt() is HaltReason.COMMAND_RETRIES_EXHAUSTED
        assert line.budget.asked == [False, True, True, True]

    def test_silence_beyond_the_deadline_ends_the_link(
        self, bench: Bench, clock: ManualClock
    ) -> None:
        """`stream_stalled`: the link was there, and said nothing."""
        line = Line(bench, playing([]), budget=Budget(left=1), liveness=100).grant().answer()
        line.opened()
        clock.push(101)

        assert line.halt() is HaltReason.STREAM_STALLED

    def test_silence_counts_only_while_it_reads(self, bench: Bench, clock: ManualClock) -> None:
        """A sink that takes its time does not make the server look dead."""
        opening, piece = one_by_one([insert(1)])
        silent_once: list[Any] = [opening, None, piece]
        line = Line(bench, playing(silent_once), budget=Budget(left=1), liveness=100)
        line.grant(1).answer()
        wait_until(lambda: "waiting for credit" in line.phase(), what="the pause")
        clock.push(1000)
        line.grant(5)

        line.assembler.wait_for(PacketsRead, 2)
        assert bench.end(line.running) == NORMAL_EXIT

    def test_a_link_that_held_for_long_fills_it_up(self, bench: Bench, clock: ManualClock) -> None:
        """A cut after hours of a quiet stream is not one more failure in a row."""
        hold = threading.Event()

        def script(dial: int) -> Iterator[bytes | Exception]:
            if dial == 1:
                assert hold.wait(20)
            yield cut()

        line = Line(bench, ScriptedSource(script), budget=Budget(left=2), liveness=100).grant()
        line.answer().answer(count=2)
        line.opened(2)
        clock.push(1001)
        hold.set()
        line.answer(count=3)

        assert line.halt() is HaltReason.COMMAND_RETRIES_EXHAUSTED
        assert line.budget.asked == [True, True, True]

    def test_events_tell_each_link_and_each_loss(self, bench: Bench) -> None:
        """Codes and seconds; the figures count both."""
        source = playing([*pieces([]), cut("read", 2013)], [])
        line = Line(bench, source).grant().answer().answer(count=2)
        line.opened(2)
        wait_until(lambda: len(line.events) == 3, what="the events")
        first, lost, _ = line.events

        assert isinstance(first, ConnectionEstablished)
        assert (first.server_uuid, first.server_version, first.tls) == (SERVER_UUID, "9.7.4", False)
        assert lost == ConnectionLost(stage="read", code=2013, retry_in=0.0)
        assert (line.board.figures.connects, line.board.figures.failed_dials) == (2, 1)


class TestServerErrors:
    @pytest.mark.parametrize(
        ("code", "text", "reason"),
        [
            (
                1236,
                "A replica with the same server_uuid/server_id as this replica has connected",
                HaltReason.SERVER_ID_CONFLICT,
            ),
            (1236, PURGED, HaltReason.DATA_GAP),
            (1236, "sentinel-value", HaltReason.UNRECOGNIZED_DUMP_ERROR),
        ],
    )
    def test_a_verdict_of_the_server_halts(
        self, bench: Bench, code: int, text: str, reason: HaltReason
    ) -> None:
        """R45, R46, R48, R52, R55: classified, not dialled again, not quoted."""
        source = playing([events.error_packet(code, text)])
        line = Line(bench, source).grant().answer()
        halt = bench.exit_of(line.running).halt

        assert halt is not None
        assert halt.reason is reason
        assert "sentinel" not in halt.detail
        assert source.links == 1

    def test_what_was_sent_before_the_error_is_handed_over(self, bench: Bench) -> None:
        """R14: the last transactions of the stream are not lost with it."""
        data = events.packets([*events.opening(), *insert(1)])
        data += events.error_packet(1236, "sentinel-value", sequence=9)
        line = Line(bench, playing([data])).grant().answer()
        bench.exit_of(line.running)
        line.assembler.die()

        assert len(line.assembler.of(PacketsRead)) == 1

    def test_a_transient_error_is_dialled_again(self, bench: Bench) -> None:
        """A server that shuts down comes back."""
        source = playing([events.error_packet(1053, "Server shutdown in progress")], [])
        line = Line(bench, source).grant().answer().answer(count=2)

        line.opened(2)
        assert isinstance(line.events[1], ConnectionLost)
        assert line.events[1].code == 1053

    @pytest.mark.parametrize("end", [b"", b"\x05\x00\x00\x01\xfe\x00\x00\x02\x00"])
    def test_an_end_in_good_order_is_dialled_again(self, bench: Bench, end: bytes) -> None:
        """The server closed, or said that it has no more to say."""
        line = Line(bench, playing([end], [])).grant().answer().answer(count=2)

        assert line.opened(2).number == (1, 2)

    def test_garbage_on_the_wire_halts(self, bench: Bench) -> None:
        """A packet out of sequence is never skipped."""
        line = Line(bench, playing([events.packets(events.opening(), 7)])).grant().answer()

        assert line.halt() is HaltReason.UNEXPECTED_STREAM_PACKET


class Stubborn(ScriptedSource):
    """Blocks in one step of its links until it is interrupted."""

    def __init__(self, step: str) -> None:
        super().__init__(lambda _: [])
        self.step = step
        self.blocked = threading.Event()

    def link(self) -> "StubbornLink":
        self.links += 1
        return StubbornLink(self, iter([]))


class StubbornLink(ScriptedLink):
    def _block(self, step: str) -> None:
        source: Any = self._source
        if source.step == step:
            source.blocked.set()
            assert self._interrupted.wait(60)
            raise LinkLost(step)

    def open(self) -> ServerFacts:
        self._block("connect")
        return super().open()

    def dump(self, gtid_set: GtidSet) -> None:
        self._block("dump")
        super().dump(gtid_set)

    def read(self, timeout: float) -> bytes | None:
        self._block("read")
        return super().read(timeout)


class TestStop:
    @pytest.mark.parametrize("step", ["connect", "dump", "read"])
    def test_a_blocked_step_ends_at_once(self, bench: Bench, step: str) -> None:
        """The stop signal reaches the socket."""
        source = Stubborn(step)
        line = Line(bench, source).grant().answer()
        assert source.blocked.wait(20)
        line.running.interrupt()

        assert bench.exit_of(line.running) == NORMAL_EXIT
        assert line.budget.asked == []
        assert line.phase() == "closed"

    @pytest.mark.parametrize("script", [[cut()], [b""]])
    def test_a_back_off_ends_at_once(self, bench: Bench, script: Script) -> None:
        """Nobody sits out the wait before the next dial."""
        line = Line(bench, playing(script), budget=Budget(delay=ENDLESS)).grant().answer()
        wait_until(lambda: line.phase() == "waiting before the next dial", what="the back-off")
        line.running.interrupt()

        assert bench.exit_of(line.running) == NORMAL_EXIT

    def test_the_patience_with_a_server_ends_at_once(self, bench: Bench) -> None:
        """D14: nor the wait for gtid_executed."""
        looks = Looks(9, ENDLESS)
        source = playing([], facts=facts_with(gtid_executed=up_to(4)))
        line = Line(bench, source, looks=looks).grant().answer(anchored(5))
        assert looks.asked.wait(20)
        line.running.interrupt()

        assert bench.exit_of(line.running) == NORMAL_EXIT
        assert line.budget.asked == []

    @pytest.mark.parametrize("granted", [False, True])
    def test_before_the_first_dial_it_just_ends(self, bench: Bench, granted: bool) -> None:
        """Without credit, or without an answer."""
        source = playing([])
        line = Line(bench, source)
        if granted:
            line.grant()
            line.assembler.wait_for(PositionWanted)
        line.running.interrupt()

        assert bench.exit_of(line.running) == NORMAL_EXIT
        assert source.links == 0

    def test_every_link_is_closed(self, bench: Bench) -> None:
        """After a cut, after a halt, at the end."""
        closed: list[int] = []

        class Counted(ScriptedLink):
            def close(self) -> None:
                closed.append(self._source.links)
                super().close()

        source = ScriptedSource(lambda _: [])
        steps: Iterator[Script] = iter([[cut()], [b""], [], []])
        source.link = lambda: made(source, Counted, next(steps))  # type: ignore[method-assign]
        line = Line(bench, source).grant()
        for count in (1, 2, 3):
            line.answer(count=count)
        line.opened(3)
        line.running.interrupt()
        bench.exit_of(line.running)

        assert sorted(set(closed)) == [1, 2, 3]


def made(source: ScriptedSource, kind: type[ScriptedLink], script: Script) -> ScriptedLink:
    source.links += 1
    return kind(source, iter(script))
