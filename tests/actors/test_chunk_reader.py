"""The chunk reader alone: what it says, what it tries again and when it gives up."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from helpers.changes_builder import shape, up_to
from helpers.mailboxes import DEADLINE, Bench, Mailbox

from capstan.actors.chunk_reader import ChunkReader, ReaderSettings
from capstan.actors.messages import (
    CaptureRefused,
    ChunkRead,
    ChunkWanted,
    PinAsked,
    PinGranted,
    PinMissed,
    PurgedIs,
    PurgedWanted,
    ReaderReady,
    SurveyMade,
    SurveyWanted,
    TablesResolved,
    TablesWanted,
    ViewPinned,
)
from capstan.core.gtid import GtidSet
from capstan.core.halts import Halt, HaltReason, halted
from capstan.core.tables import TableName
from capstan.runtime import Exit, ExitKind, Running
from capstan.sources.base import (
    CaptureMissed,
    Chunk,
    LinkLost,
    Pinned,
    TableFacts,
    View,
    ViewSource,
)
from capstan.telemetry.board import Board
from capstan.telemetry.events import CaptureRetried, Event
from capstan.telemetry.hooks import Hooks

HERE, THERE = "aaaaaaaa-0000-0000-0000-000000000001", "aaaaaaaa-0000-0000-0000-000000000002"
T, U = TableName("shop", "t"), TableName("shop", "u")
FACTS = TableFacts(shape=shape("shop.t", "id int", key=["id"]))
MISSED = CaptureMissed(T, 1205)
FOR_EVER = 3600.0


class Play(ViewSource):
    """Views that answer from these lists, the last answer again and again; exceptions are raised.

    Attributes:
        opens: Server uuids.
        pins: Positions.
        chunks: Of rows.
        notes: What was called, in order.
        hangs: Set when a view hangs in `pin`; an interrupt lets it go.
    """

    def __init__(self) -> None:
        self.opens: deque[str | Exception] = deque([HERE])
        self.pins: deque[GtidSet | Exception] = deque([up_to(5)])
        self.chunks: deque[list[int] | Exception] = deque([[1, 2]])
        self.found: tuple[Halt, ...] = ()
        self.refused: dict[TableName, HaltReason] = {}
        self.notes: list[str] = []
        self.hangs = threading.Event()
        self.hanging = False

    def view(self) -> View:
        return PlayedView(self)

    def next(self, answers: deque[Any]) -> Any:
        answer = answers.popleft() if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class PlayedView(View):
    """One of them."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.interrupted = threading.Event()

    def open(self) -> str:
        self.play.notes.append("open")
        return str(self.play.next(self.play.opens))

    def tables(self) -> tuple[TableName, ...]:
        return (T, U)

    def findings(self) -> tuple[Halt, ...]:
        return self.play.found

    def describe(self, table: TableName) -> TableFacts:
        if table in self.play.refused:
            raise halted(self.play.refused[table], str(table))
        return FACTS

    def pin(self, table: TableName) -> Pinned:
        self.play.notes.append("pin")
        if self.play.hanging:
            self.play.hangs.set()
            assert self.interrupted.wait(DEADLINE)
            raise LinkLost("query")
        self.describe(table)
        position = self.play.next(self.play.pins)
        return Pinned(facts=FACTS, position=position, lock_seconds=0.001)

    def rows(self, after: tuple[Any, ...] | None, limit: int, max_bytes: int) -> Chunk:
        self.play.notes.append(f"rows after {after} {limit} {max_bytes}")
        keys = self.play.next(self.play.chunks)
        return Chunk(rows=[(key,) for key in keys], more=len(keys) == limit, size=9)

    def release(self) -> None:
        self.play.notes.append("release")

    def purged(self) -> GtidSet:
        return up_to(3)

    def estimate(self, table: TableName) -> int:
        return 1000

    def close(self) -> None:
        self.play.notes.append("close")

    def interrupt(self) -> None:
        self.interrupted.set()


class Budget:
    """So many delays, all of one length; progress fills it up."""

    def __init__(self, delays: int, seconds: float = 0.0) -> None:
        self.full = self.left = delays
        self.seconds = seconds
        self.asked = threading.Event()

    def next_delay(self) -> float | None:
        self.asked.set()
        self.left -= 1
        return None if self.left < 0 else self.seconds

    def progress(self) -> None:
        self.left = self.full


@attrs.define
class Scene:
    """A reader, whoever orders, and what is told."""

    bench: Bench
    play: Play = attrs.field(factory=Play)
    redial: Budget = attrs.field(factory=lambda: Budget(2))
    recapture: Budget = attrs.field(factory=lambda: Budget(2))
    board: Board = attrs.field(factory=Board)
    told: list[Event] = attrs.field(factory=list)
    coordinator: Mailbox = attrs.field(init=False)
    reader: Running = attrs.field(init=False)

    def start(self, incarnation: int = 7) -> None:
        self.coordinator = self.bench.mailbox("coordinator")
        self.reader = self.bench.spawn(
            lambda: ChunkReader(
                self.play,
                self.coordinator.address,
                ReaderSettings(chunk_size=2, chunk_bytes=99, rows_per_second=None),
                self.redial,
                self.recapture,
                self.board,
                Hooks([self.told.append]),
            ),
            incarnation=incarnation,
        )

    def tell(self, *messages: object) -> None:
        for message in messages:
            self.reader.address.send(message)

    def ask(self, ticket: int = 1, *, for_comparison: bool = False) -> None:
        """Order a chunk, and grant its pin as often as it is asked for."""
        self.tell(ChunkWanted(ticket, T, None, for_comparison=for_comparison), PinGranted(ticket))

    def halt(self) -> Halt:
        """The halt that the reader ends with."""
        exit_: Exit = self.bench.exit_of(self.reader)
        assert exit_.kind is ExitKind.HALTED
        assert exit_.halt is not None
        return exit_.halt


@pytest.fixture
def scene(bench: Bench) -> Scene:
    """A reader that is not started yet."""
    return Scene(bench)


def test_a_chunk_is_asked_for_pinned_told_and_read(scene: Scene) -> None:
    """R62, R76, D6: each message carries the reader's incarnation and the ticket of the order."""
    scene.start()
    scene.ask()
    read = scene.coordinator.wait_for(ChunkRead)

    assert scene.coordinator.heard == [
        ReaderReady(scene.reader.address, 7),
        PinAsked(7, 1, HERE),
        ViewPinned(7, 1, up_to(5)),
        read,
    ]
    assert (read.incarnation, read.ticket, read.shape) == (7, 1, FACTS.shape)
    assert (read.rows, read.final) == ([(1,), (2,)], False)
    assert scene.play.notes == ["open", "pin", "rows after None 2 99"]
    assert scene.board.figures.snapshot_estimates == {T: 1000}
    assert list(scene.board.figures.snapshot_locks) == [0.001]


def test_a_link_that_never_comes_back_is_given_up(scene: Scene) -> None:
    """R53, R164: the budget of dials is spent: `snapshot_chunk_read_failed`, value-free."""
    scene.play.opens = deque([LinkLost("connect", 2003)])
    scene.start()
    scene.ask()

    assert scene.halt().reason is HaltReason.SNAPSHOT_CHUNK_READ_FAILED
    assert scene.play.notes.count("open") == 3


def test_a_link_that_comes_back_is_asked_for_its_server_again(scene: Scene) -> None:
    """R154: what broke while reading is told, and the next attempt names the server it is on."""
    scene.play.opens = deque([HERE, LinkLost("connect", 2003), THERE])
    scene.play.chunks = deque([LinkLost("query", 2013), [1]])
    scene.start()
    scene.ask()
    scene.coordinator.wait_for(PinAsked, 2)
    scene.tell(PinGranted(1))
    scene.coordinator.wait_for(ChunkRead)

    kinds = [type(message) for message in scene.coordinator.heard[1:]]
    assert kinds == [PinAsked, ViewPinned, PinMissed, PinAsked, ViewPinned, ChunkRead]
    assert [asked.server_uuid for asked in scene.coordinator.of(PinAsked)] == [HERE, THERE]
    assert scene.redial.left == scene.redial.full


def test_a_lock_that_is_never_had_is_given_up(scene: Scene) -> None:
    """R83, D2, D4: after the last retry; each is counted and told, nothing is held."""
    scene.play.pins = deque([MISSED])
    scene.start()
    scene.ask()
    scene.coordinator.wait_for(PinAsked, 2)
    scene.tell(PinGranted(1))
    scene.coordinator.wait_for(PinAsked, 3)
    scene.tell(PinGranted(1))
    halt = scene.halt()

    assert halt.reason is HaltReason.SNAPSHOT_LOCK_UNAVAILABLE
    assert halt.detail == "shop.t: the last capture was missed with code 1205"
    assert scene.board.figures.snapshot_retries == 2
    retried = CaptureRetried(schema="shop", table="t", code=1205, retry_in=0.0)
    assert scene.told == [retried, retried]
    kinds = [type(message) for message in scene.coordinator.heard[1:]]
    assert kinds == [PinAsked, PinMissed, PinAsked, PinMissed, PinAsked, PinMissed]
    assert scene.play.notes == ["open", "pin", "pin", "pin", "close"]


def test_a_lock_that_is_had_fills_the_budget_up(scene: Scene) -> None:
    """D2: the limit is on misses in a row."""
    scene.play.pins = deque([MISSED, MISSED, up_to(5)])
    scene.start()
    scene.ask()
    for count in (2, 3):
        scene.coordinator.wait_for(PinAsked, count)
        scene.tell(PinGranted(1))
    scene.coordinator.wait_for(ChunkRead)
    assert scene.recapture.left == scene.recapture.full


def test_an_order_replaces_the_one_before(scene: Scene) -> None:
    """D8: a table that is read again: what was granted to the old order is void."""
    scene.start()
    scene.tell(
        ChunkWanted(1, T, (4,)),
        ChunkWanted(2, T, None),
        PinGranted(1),
        PinGranted(2),
        PinGranted(2),
    )
    read = scene.coordinator.wait_for(ChunkRead)
    scene.bench.end(scene.reader)

    assert read.ticket == 2
    assert scene.play.notes == ["open", "pin", "rows after None 2 99", "close"]


def _in_the_back_off(scene: Scene) -> threading.Event:
    scene.recapture = Budget(2, FOR_EVER)
    scene.play.pins = deque([MISSED])
    return scene.recapture.asked


def _between_dials(scene: Scene) -> threading.Event:
    scene.redial = Budget(2, FOR_EVER)
    scene.play.opens = deque([LinkLost("connect", 2003)])
    return scene.redial.asked


def _in_a_blocked_capture(scene: Scene) -> threading.Event:
    scene.play.hanging = True
    return scene.play.hangs


@pytest.mark.parametrize("where", [_in_the_back_off, _between_dials, _in_a_blocked_capture])
def test_an_interrupt_ends_whatever_it_waits_for(
    scene: Scene, where: Callable[[Scene], threading.Event]
) -> None:
    """R267: at once, and the views are closed."""
    waits = where(scene)
    scene.start()
    scene.ask()
    assert waits.wait(DEADLINE)
    scene.reader.interrupt()

    scene.bench.exit_of(scene.reader)
    assert scene.play.notes[-1] == "close"
    assert scene.coordinator.of(ChunkRead) == []


def test_what_cannot_be_backfilled_is_refused_with_all_its_reasons(scene: Scene) -> None:
    """R165, D4: the first finding halts and takes the others along."""
    first = Halt(HaltReason.SNAPSHOT_PRIVILEGE_MISSING, "shop")
    second = Halt(HaltReason.SNAPSHOT_ENGINE_UNSUPPORTED, "shop.u: MyISAM")
    scene.play.found = (first, second)
    scene.start()
    scene.tell(TablesWanted())

    assert scene.halt() == attrs.evolve(first, also=(second,))


def test_each_table_is_looked_at_before_it_is_named(scene: Scene) -> None:
    """R143, R150: no table halts later for what could be seen at the beginning."""
    scene.start()
    scene.tell(TablesWanted())
    assert scene.coordinator.wait_for(TablesResolved) == TablesResolved(7, HERE, (T, U))

    scene.play.refused = {U: HaltReason.SNAPSHOT_PK_UNSUPPORTED_TYPE}
    scene.tell(TablesWanted())
    assert scene.halt() == Halt(HaltReason.SNAPSHOT_PK_UNSUPPORTED_TYPE, "shop.u")


def test_a_refusal_ends_a_comparison_and_not_the_reader(scene: Scene) -> None:
    """D4: what cannot be compared is told by its reason; the next order is served."""
    scene.play.refused = {T: HaltReason.SNAPSHOT_SCHEMA_DRIFTED}
    scene.start()
    scene.tell(SurveyWanted())
    made = scene.coordinator.wait_for(SurveyMade)
    scene.ask(for_comparison=True)
    refused = scene.coordinator.wait_for(CaptureRefused)
    scene.play.refused = {}
    scene.ask(2, for_comparison=True)
    read = scene.coordinator.wait_for(ChunkRead)

    assert made.tables == ((T, HaltReason.SNAPSHOT_SCHEMA_DRIFTED), (U, None))
    assert refused == CaptureRefused(7, 1, HaltReason.SNAPSHOT_SCHEMA_DRIFTED)
    assert read.ticket == 2
    assert scene.board.figures.snapshot_estimates == {}


def test_what_was_purged_is_read_when_asked_for(scene: Scene) -> None:
    """D6: a gate that waits too long is told what will never come."""
    scene.start()
    scene.tell(PurgedWanted())
    assert scene.coordinator.wait_for(PurgedIs) == PurgedIs(7, up_to(3))


def test_the_looks_of_an_order_tell_no_rows_and_no_keys() -> None:
    """R119: neither an order nor what was read shows a value."""
    read = ChunkRead(1, 1, FACTS.shape, [(987654321,)], final=False)
    for message in (read, ChunkWanted(1, T, (987654321,))):
        assert "987654321" not in repr(message)
