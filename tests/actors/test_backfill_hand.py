"""The coordinator with a backfill: the steps of a chunk, what is held, how it ends in between."""

import threading
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from helpers.changes_builder import (
    created,
    gtid,
    inserted,
    shape,
    transaction,
    up_to,
)
from helpers.mailboxes import Bench

from capstan import MemoryStore
from capstan.actors import backfill
from capstan.actors.backfill import Backfill, BackfillSettings
from capstan.actors.checkpoint import Checkpoint
from capstan.actors.coordinator import Coordinator
from capstan.actors.messages import (
    Assembled,
    ChunkRead,
    ChunkWanted,
    PinAsked,
    PinGranted,
    PinMissed,
    PositionIs,
    Processed,
    ReaderReady,
    SaveSnapshot,
    Settled,
    SinkOpened,
    SnapshotIs,
    SnapshotSaved,
    StreamOn,
    TablesResolved,
    TablesWanted,
    ViewPinned,
    WatermarkMoved,
)
from capstan.actors.reading import ReadingSettings
from capstan.core.changes import Change, Item, SchemaChange, SnapshotMeta, Transaction
from capstan.core.gtid import GtidSet
from capstan.core.halts import HaltReason
from capstan.core.snapshot.progress import SnapshotState, resolved
from capstan.core.tables import CaptureList, TableName
from capstan.core.watermark import Position
from capstan.runtime import NORMAL_EXIT, ExitKind, Running
from capstan.sinks.base import Sink
from capstan.telemetry.board import Board
from capstan.telemetry.events import ChunkDelivered, Event
from capstan.telemetry.hooks import Hooks

SERVER = "aaaaaaaa-0000-0000-0000-000000000001"
T = TableName("shop", "t")
SHAPE = shape("shop.t", "id int", key=["id"])
WIDER = shape("shop.t", "id int", "more int", key=["id"])
OTHER = shape("shop.o", "id int", key=["id"])
LONG = 3600.0


class Noting(Sink):
    """Notes what it gets; refuses chunks when told to."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.refuses = False

    def handle_snapshot(self, changes: Sequence[Change], meta: SnapshotMeta) -> None:
        if self.refuses:
            raise ValueError("sentinel-value")
        self.calls.append(f"chunk {meta.sequence} {[change.key for change in changes]}")

    def handle_transaction(self, transaction: Transaction) -> None:
        self.calls.append(f"rows {transaction.gtid.number}")

    def handle_schema_change(self, change: SchemaChange) -> None:
        self.calls.append(f"ddl {change.gtid.number}")


class Stage:
    """A coordinator whose checkpoint, reader and assembler are played by the test."""

    def __init__(self, bench: Bench, *, redoes_altered: bool = False) -> None:
        self.bench = bench
        self.sink = Noting()
        self.told: list[Event] = []
        self.checkpoint = bench.mailbox("checkpoint")
        self.reader = bench.mailbox("chunk_reader")
        self.assembler = bench.mailbox("assembler")
        self.saved = 0
        backfill = BackfillSettings(
            patterns=("shop.t",), gate_timeout=LONG, redoes_altered=redoes_altered
        )
        self.coordinator: Running = bench.spawn(
            lambda: Coordinator(
                self.sink,
                self.checkpoint.address,
                lambda: None,
                10,
                Board(),
                Hooks([self.told.append]),
                ReadingSettings(backfill=backfill, gate_timeout=LONG),
            )
        )

    def tell(self, *messages: object) -> None:
        for message in messages:
            self.coordinator.address.send(message)

    def begin(self, state: SnapshotState | None = None) -> None:
        """The stream stands at its beginning, on the reader's server."""
        self.checkpoint.wait_for(SinkOpened)
        self.tell(
            SnapshotIs(state),
            PositionIs(Position(watermark=GtidSet())),
            StreamOn(SERVER),
            ReaderReady(self.reader.address, 1),
        )

    def resolve(self) -> None:
        """The tables are known and on disk."""
        self.begin()
        self.reader.wait_for(TablesWanted)
        self.tell(TablesResolved(1, SERVER, (T,)))
        self.save()

    def save(self) -> SnapshotState:
        """The next state that is to be saved is on disk."""
        self.saved += 1
        state = self.checkpoint.wait_for(SaveSnapshot, self.saved).state
        self.tell(SnapshotSaved(state))
        return state

    def pin(self, order: int = 1) -> ChunkWanted:
        """The reader has got its n-th order and may lock the table."""
        want = self.reader.wait_for(ChunkWanted, order)
        self.tell(PinAsked(1, want.ticket, SERVER))
        self.reader.wait_for(PinGranted, order)
        return want

    def read(self, position: int, *keys: int, final: bool = False, order: int = 1) -> None:
        """The chunk of its n-th order."""
        want = self.pin(order)
        rows: list[tuple[object, ...]] = [(key,) for key in keys]
        self.tell(ViewPinned(1, want.ticket, up_to(position)))
        self.tell(ChunkRead(1, want.ticket, SHAPE, rows, final))

    def stream(self, *items: Item) -> None:
        """Each a piece of its own."""
        for item in items:
            self.tell(Assembled(self.assembler.address, SERVER, (item,)))

    def persist(self, count: int = 1) -> None:
        """The n-th batch is on disk."""
        self.tell(WatermarkMoved(self.checkpoint.wait_for(Processed, count).position))


@pytest.fixture
def stage(bench: Bench) -> Stage:
    """A coordinator at work."""
    return Stage(bench)


def rows(number: int, key: int = 1, table: Any = SHAPE) -> Transaction:
    return transaction(number, inserted(table, (key,)))


# --- the steps of a chunk -------------------------------------------------------------------------


def test_a_chunk_goes_out_between_two_writes(stage: Stage) -> None:
    """R104, R105, R106, R107, R123, R124: its mark before the sink has it, the cursor after."""
    stage.resolve()
    stage.read(0, 1, 2)
    marked = stage.checkpoint.wait_for(SaveSnapshot, 2).state
    assert stage.sink.calls == []
    stage.save()
    moved = stage.checkpoint.wait_for(SaveSnapshot, 3).state

    assert stage.sink.calls == ["chunk 0 [(1,), (2,)]"]
    assert (marked.tables[0].cursor, marked.tables[0].delivered) == (None, (2,))
    assert (moved.tables[0].cursor, moved.tables[0].delivered) == ((2,), (2,))
    (told,) = (event for event in stage.told if isinstance(event, ChunkDelivered))
    assert (told.schema, told.table, told.sequence, told.rows) == ("shop", "t", 0, 2)


def test_a_chunk_that_is_refused_moves_no_cursor(stage: Stage) -> None:
    """R118: the halt names the class alone."""
    stage.resolve()
    stage.sink.refuses = True
    stage.read(0, 1)
    stage.save()
    exit_ = stage.bench.exit_of(stage.coordinator)

    assert exit_.halt is not None
    assert (exit_.halt.reason, exit_.halt.detail) == (HaltReason.SINK_FAILED, "ValueError")
    assert len(stage.checkpoint.of(SaveSnapshot)) == 2


def test_a_mark_that_cannot_be_written_keeps_the_chunk_back(bench: Bench) -> None:
    """R129: the checkpoint halts, and says nothing to the coordinator."""

    class Full(MemoryStore):
        def save_snapshot(self, state: SnapshotState) -> None:
            raise OSError("sentinel-value")

    capture = CaptureList.parse(["shop.t"])
    checkpoint = bench.spawn(lambda: Checkpoint(Full(), capture, capture))
    coordinator = bench.mailbox("coordinator")
    state = resolved(["shop.t"], [T])
    checkpoint.address.send(SinkOpened(coordinator.address, None))
    checkpoint.address.send(SaveSnapshot(coordinator.address, state))
    exit_ = bench.exit_of(checkpoint)

    assert exit_.kind is ExitKind.HALTED
    assert exit_.halt is not None
    assert (exit_.halt.reason, exit_.halt.detail) == (HaltReason.STORE_FAILED, "OSError")
    assert coordinator.of(SnapshotSaved) == []


def test_a_reader_that_dies_is_followed_by_another(stage: Stage) -> None:
    """R130: the new one is asked for what the old one had not read."""
    stage.resolve()
    first = stage.pin()
    second = stage.bench.mailbox("another reader")
    stage.tell(ReaderReady(second.address, 2))
    again = second.wait_for(ChunkWanted)

    assert (again.table, again.after) == (first.table, first.after)
    assert again.ticket > first.ticket


# --- the watermark lets a chunk go ----------------------------------------------------------------

ITEMS: dict[str, Item] = {
    "delivered": rows(1, table=OTHER),
    "filtered": transaction(1),
    "a schema change": created(1, "shop.o"),
}


@pytest.mark.parametrize("what", ITEMS)
def test_whatever_moves_the_watermark_lets_a_chunk_go(stage: Stage, what: str) -> None:
    """R109, R132, R133, R134, R135, R137, R170: once it is on disk, and not before."""
    stage.resolve()
    stage.read(1, 7)
    stage.stream(ITEMS[what])
    position = stage.checkpoint.wait_for(Processed).position
    assert len(stage.checkpoint.of(SaveSnapshot)) == 1
    stage.tell(WatermarkMoved(position))
    stage.save()
    stage.checkpoint.wait_for(SaveSnapshot, 3)
    assert stage.sink.calls[-1] == "chunk 0 [(7,)]"


def test_a_duplicate_lets_no_chunk_go(stage: Stage) -> None:
    """R136: nothing was written for it, so nobody is told."""
    stage.resolve()
    stage.stream(transaction(1))
    stage.persist()
    stage.read(2, 7)
    stage.stream(transaction(1))
    stage.assembler.wait_for(Settled, 2)
    assert len(stage.checkpoint.of(Processed)) == 1
    assert stage.sink.calls == []
    stage.stream(transaction(2))
    stage.persist(2)
    stage.save()
    stage.checkpoint.wait_for(SaveSnapshot, 3)
    assert stage.sink.calls == ["chunk 0 [(7,)]"]


def test_watermark_and_stream_come_in_the_order_in_which_they_were_sent(stage: Stage) -> None:
    """R110: a chunk that the watermark lets go stands in front of the item behind it."""
    stage.resolve()
    stage.read(1, 7, final=True)
    stage.stream(rows(1, table=OTHER))
    position = stage.checkpoint.wait_for(Processed).position
    stage.stream(rows(2, key=7))
    stage.tell(WatermarkMoved(position))
    stage.save()
    stage.save()
    stage.checkpoint.wait_for(Processed, 2)
    assert stage.sink.calls == ["rows 1", "chunk 0 [(7,)]", "rows 2"]


def test_what_is_told_of_the_watermark_is_a_position_alone() -> None:
    """R139, D29: a set, an anchor, what the sink reports: nothing of any row."""
    assert [field.name for field in attrs.fields(WatermarkMoved)] == ["position"]
    names = {field.name for field in attrs.fields(Position)}
    assert names == {"watermark", "anchor", "sink_position"}


@pytest.mark.parametrize("backfills", [False, True])
def test_a_backfill_that_is_complete_changes_nothing(bench: Bench, backfills: bool) -> None:
    """R69, R138: the same items bring the same messages and calls as without one."""
    sink, checkpoint = Noting(), bench.mailbox("checkpoint")
    assembler = bench.mailbox("assembler")
    settings = BackfillSettings(patterns=("shop.t",), gate_timeout=LONG)
    reading = ReadingSettings(backfill=settings, gate_timeout=LONG) if backfills else None
    coordinator = bench.spawn(
        lambda: Coordinator(sink, checkpoint.address, lambda: None, 10, Board(), Hooks([]), reading)
    )
    state = resolved(["shop.t"], [T])
    done = state.replaced(attrs.evolve(state.tables[0], complete=True))
    for message in (
        *([SnapshotIs(done)] if backfills else []),
        PositionIs(Position(watermark=GtidSet())),
        StreamOn(SERVER),
        Assembled(assembler.address, SERVER, (rows(1), created(2, "shop.t"), transaction(3))),
    ):
        coordinator.address.send(message)
    position = checkpoint.wait_for(Processed).position
    coordinator.address.send(WatermarkMoved(position))
    assembler.wait_for(Settled)

    assert [type(message) for message in checkpoint.heard] == [SinkOpened, Processed]
    assert (position.watermark, position.anchor and position.anchor.gtid) == (up_to(3), gtid(3))
    assert sink.calls == ["rows 1", "ddl 2"]


# --- what is held, and ends in between ------------------------------------------------------------


def test_what_is_held_keeps_the_rest_of_the_queue(stage: Stage) -> None:
    """R111, D6: in stream order, until the chunk is in; nothing overtakes."""
    stage.resolve()
    stage.stream(rows(1, table=OTHER))
    stage.persist()
    want = stage.pin()
    stage.stream(rows(2, key=1), rows(3, table=OTHER))
    stage.tell(ViewPinned(1, want.ticket, up_to(1)))
    stage.tell(ChunkRead(1, want.ticket, SHAPE, [(1,)], True))
    stage.checkpoint.wait_for(SaveSnapshot, 2)
    assert stage.sink.calls == ["rows 1"]
    stage.save()
    stage.save()
    stage.persist(2)
    assert stage.sink.calls[:3] == ["rows 1", "chunk 0 [(1,)]", "rows 2"]
    stage.assembler.wait_for(Settled, 3)
    assert stage.sink.calls[3:] == ["rows 3"]


def test_a_drain_waits_for_the_second_write_of_a_chunk(stage: Stage) -> None:
    """R42, R124: what the sink has got is on disk; no further chunk is begun."""
    stage.resolve()
    stage.read(0, 1, 2)
    stage.checkpoint.wait_for(SaveSnapshot, 2)
    stage.read(0, 3, final=True, order=2)
    stage.coordinator.request_stop()
    stage.save()
    moved = stage.save()

    assert stage.bench.exit_of(stage.coordinator) == NORMAL_EXIT
    assert stage.sink.calls == ["chunk 0 [(1,), (2,)]"]
    assert moved.tables[0].cursor == (2,)
    assert len(stage.checkpoint.of(SaveSnapshot)) == 3


def test_a_drain_does_not_wait_for_what_is_held(stage: Stage) -> None:
    """R41, D6: it comes again; the reader may be gone already, and nothing would let it go."""
    stage.resolve()
    stage.pin()
    stage.stream(rows(1))
    stage.coordinator.request_stop()

    assert stage.bench.exit_of(stage.coordinator) == NORMAL_EXIT
    assert stage.sink.calls == []
    assert stage.checkpoint.of(Processed) == []


@pytest.mark.parametrize("dialled", [False, True])
def test_a_stop_before_the_tables_are_known_ends_at_once(stage: Stage, dialled: bool) -> None:
    """R42: nothing is under way yet."""
    if dialled:
        stage.begin()
        stage.reader.wait_for(TablesWanted)
    assert stage.bench.end(stage.coordinator) == NORMAL_EXIT
    assert stage.checkpoint.of(SaveSnapshot) == []


# --- tables that are read again -------------------------------------------------------------------


def test_a_view_of_an_altered_table_ahead_of_the_stream_begins_it_again(bench: Bench) -> None:
    """D8, D9, D28: so configured, there is no halt; the first chunk is the first again."""
    stage = Stage(bench, redoes_altered=True)
    stage.resolve()
    stage.read(0, 1, 2)
    stage.save()
    stage.save()
    want = stage.pin(2)
    stage.tell(ViewPinned(1, want.ticket, up_to(1)))
    stage.tell(ChunkRead(1, want.ticket, WIDER, [(3, 3)], True))
    state = stage.save()
    again = stage.reader.wait_for(ChunkWanted, 3)

    assert (state.tables[0].sequence, state.tables[0].cursor) == (0, None)
    assert (again.table, again.after) == (T, None)


def test_otherwise_it_halts(stage: Stage) -> None:
    """D9: portions of two shapes do not fit together."""
    stage.resolve()
    stage.read(0, 1, 2)
    stage.save()
    stage.save()
    want = stage.pin(2)
    stage.tell(ViewPinned(1, want.ticket, up_to(1)))
    stage.tell(ChunkRead(1, want.ticket, WIDER, [(3, 3)], True))
    exit_ = stage.bench.exit_of(stage.coordinator)

    assert exit_.halt is not None
    assert exit_.halt.reason is HaltReason.SNAPSHOT_SCHEMA_DRIFTED


# --- a moment of quiet ----------------------------------------------------------------------------


class Barrier:
    """A message that means nothing; whoever hears it has dealt with all before it."""


def passed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait until the coordinator has dealt with everything it was told."""
    reached = threading.Event()
    hear = Backfill.hear

    def hooked(self: Backfill, message: object, processed: GtidSet) -> None:
        hear(self, message, processed)
        if isinstance(message, Barrier):
            reached.set()

    monkeypatch.setattr(Backfill, "hear", hooked)
    stage.tell(Barrier())
    assert reached.wait(10)


@pytest.fixture
def captured(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> ChunkWanted:
    """A capture that has begun, and a transaction that came behind it."""
    monkeypatch.setattr(backfill, "_QUIET", LONG)
    stage.resolve()
    want = stage.pin()
    stage.stream(rows(1, table=OTHER))
    passed(stage, monkeypatch)
    assert stage.sink.calls == []
    return want


def test_the_sink_is_left_alone_until_the_view_is_there(
    stage: Stage, captured: ChunkWanted
) -> None:
    """D2: whoever holds a lock does not wait for the sink's computing."""
    stage.tell(ViewPinned(1, captured.ticket, up_to(0)))
    stage.persist()
    assert stage.sink.calls == ["rows 1"]


def test_a_capture_that_failed_keeps_nothing(stage: Stage, captured: ChunkWanted) -> None:
    """D2: the next attempt has a moment of its own."""
    stage.tell(PinMissed(1, captured.ticket))
    stage.persist()
    assert stage.sink.calls == ["rows 1"]


def test_a_reader_that_died_in_a_capture_keeps_nothing(stage: Stage, captured: ChunkWanted) -> None:
    """D2: its successor asks again."""
    stage.tell(ReaderReady(stage.reader.address, 2))
    stage.persist()
    assert stage.sink.calls == ["rows 1"]


def test_a_stop_does_not_wait_for_a_capture(stage: Stage, captured: ChunkWanted) -> None:
    """R20: a drain delivers what was assembled."""
    stage.coordinator.request_stop()
    stage.persist()
    assert stage.sink.calls == ["rows 1"]


def test_a_capture_that_takes_long_does_not_keep_the_stream(stage: Stage) -> None:
    """D2, D6: writers may keep the reader waiting for a second; the stream goes on meanwhile."""
    stage.resolve()
    stage.pin()
    stage.stream(rows(1, table=OTHER))
    stage.persist()
    assert stage.sink.calls == ["rows 1"]
