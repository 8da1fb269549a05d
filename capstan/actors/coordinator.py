"""The coordinator: the delivery desk, the only caller of the sink.

House rules: what is delivered and when is decided by `core.delivery`; here is the call, its guard
and the wait for the disk. Whatever the sink raises ends the pipeline; what it accepted before is
persisted first (D15). The mark "busy with the sink" is what the supervisor's clock watches.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import attrs

from capstan.actors.messages import (
    Assembled,
    LookAtGate,
    PositionIs,
    PositionWanted,
    Processed,
    Settled,
    SinkOpened,
    WatermarkMoved,
)
from capstan.actors.reading import Reading, ReadingSettings
from capstan.core.changes import SchemaChangeGroup, Transaction
from capstan.core.delivery import Batch, Desk, Piece
from capstan.core.gtid import GtidSet
from capstan.core.halts import Halt, Halted, HaltReason, halted
from capstan.core.snapshot.orders import EmitChunk
from capstan.core.spooling import SpooledChanges
from capstan.core.watermark import Position
from capstan.runtime import Actor, Address
from capstan.sinks.base import Sink
from capstan.telemetry.board import Board
from capstan.telemetry.events import BatchSettled, SchemaChangeDelivered
from capstan.telemetry.hooks import Hooks

BUSY_WITH_SINK = "sink"


class Coordinator(Actor):
    """Hands batches to the sink, one at a time.

    Args:
        sink: Where items go.
        checkpoint: Who persists the watermark.
        close_store: Lets the store go, when this actor outlives the checkpoint: until a sink call
            that hangs has really ended, no other pipeline may go on from that store.
        max_batch: Items settled together at most.
        board: Where figures are shown.
        hooks: Who is told.
        reading: What to know of backfill and verification; None without a chunk reader.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - wired in one place, each a room of its own
        self,
        sink: Sink,
        checkpoint: Address,
        close_store: Callable[[], None],
        max_batch: int,
        board: Board,
        hooks: Hooks,
        reading: ReadingSettings | None = None,
    ) -> None:
        super().__init__()
        self._sink = sink
        self._whole_batches = type(sink).handle_batch is not Sink.handle_batch
        self._checkpoint = checkpoint
        self._close_store = close_store
        self._max_batch = max_batch
        self._board = board
        self._hooks = hooks
        self._reading: Reading | None = None
        if reading is not None:
            self._reading = Reading(reading, checkpoint, board, hooks, self.after)
        self._desk: Desk[Address] | None = None
        self._refusal: Halt | None = None
        self._settling: BatchSettled | None = None
        self._question: PositionWanted | None = None
        self._stopping = False

    def started(self) -> None:
        """Open the sink and tell the checkpoint what it reports."""
        if self._reading is not None:
            self.after(self._reading.look_again_in, LookAtGate())
        with self._in_sink():
            self._sink.open()
        self._checkpoint.send(SinkOpened(self.address, self._sink_position()))

    def stop_requested(self) -> None:
        """Drain: what is assembled is delivered and persisted before the end."""
        self._stopping = True
        self._pump()

    def interrupted(self) -> None:
        """Give up: what is queued comes again."""
        self._leave()

    def stopped(self) -> None:
        """Close the sink; a store that waited for that is closed too."""
        try:
            with self._in_sink():
                self._sink.close()
        finally:
            if not self._checkpoint.alive:
                self._close_store()

    def receive(self, message: object) -> None:
        """One step of the conversation."""
        match message:
            case Assembled(reply_to=assembler, server_uuid=server_uuid, items=items):
                assert self._desk is not None  # nobody dials before it has its position
                self._desk.arrive(Piece(items, server_uuid, assembler))
            case WatermarkMoved(position=position):
                self._board.update(watermark=position.watermark)
                self._settle()
            case PositionIs(position=position, seed_wanted=seed_wanted):
                self._take_position(position, seed_wanted=seed_wanted)
            case PositionWanted():
                self._question = message
            case _ if self._reading is not None:
                self._reading.hear(message, self._board.figures.watermark)
                if isinstance(message, LookAtGate):
                    self.after(self._reading.look_again_in, message)
        self._pump()
        self._hand_on_question()

    def _hand_on_question(self) -> None:
        """The connection may dial again once nothing of its last dial is under way."""
        if self._question is not None and (self._desk is None or self._desk.idle):
            self._checkpoint.send(self._question)
            self._question = None

    def _take_position(self, position: Position, *, seed_wanted: bool) -> None:
        """Know where the stream starts; with a backfill, only once that is on disk (R62)."""
        if seed_wanted:
            return
        self._desk = Desk(position, self._max_batch, self._reading)
        self._board.update(watermark=position.watermark)

    def _pump(self) -> None:
        if not self._checkpoint.alive:
            # Nothing that the sink accepts now could be persisted, and no answer will come.
            if self._stopping:
                self._leave()
            return
        desk = self._desk
        while desk is not None and (batch := self._next_batch(desk)) is not None:
            accepted = self._deliver(batch)
            if self.stop_signal.is_set():
                # Given up while the sink was busy: nothing of that call may be persisted.
                return
            position = desk.accepted(accepted)
            if position is None:
                self._settle()
                continue
            position = attrs.evolve(position, sink_position=self._sink_position())
            self._checkpoint.send(Processed(self.address, position))
        midway = self._reading is not None and self._reading.midway
        if self._stopping and (desk is None or (desk.resting and not midway)):
            self._leave()

    def _next_batch(self, desk: Desk[Address]) -> Batch | None:
        """The next batch, once the reader's chunks and ranges have had their turn."""
        if self._reading is not None and desk.resting:
            self._serve_reader(self._reading, desk)
            quiet = self._reading.quiet and not self._stopping
            if quiet or self._reading.exclusive or self.stop_signal.is_set():
                return None
            for table in self._reading.to_announce():
                with self._in_sink():
                    self._sink.await_backfill(table.schema, table.table)
        return desk.next_batch()

    def _serve_reader(self, reading: Reading, desk: Desk[Address]) -> None:
        """Make the calls of the sink that are due between two batches."""
        front = desk.front
        is_new = isinstance(front, SchemaChangeGroup) and front.gtid not in desk.watermark
        if isinstance(front, SchemaChangeGroup) and is_new and not reading.exclusive:
            reading.redo_stale(front)
        while not self.stop_signal.is_set():
            call = reading.next_call(self.address, desk.watermark, stopping=self._stopping)
            if call is None:
                return
            if isinstance(call, EmitChunk):
                self._emit(reading, call)
            else:
                with self._in_sink():
                    differences = self._sink.compare_range(
                        call.shape, call.rows, call.after, final=call.final
                    )
                reading.compared(differences)

    def _emit(self, reading: Reading, chunk: EmitChunk) -> None:
        began = time.monotonic()
        with self._in_sink():
            self._sink.handle_snapshot(chunk.changes, chunk.meta)
        if not self.stop_signal.is_set():
            reading.emitted(chunk, time.monotonic() - began)

    def _leave(self) -> None:
        """End; a refusal that still waits for the disk is told in any case."""
        if self._refusal is not None:
            raise Halted(self._refusal)
        self.finish()

    def _settle(self) -> None:
        """The batch that was out is over: report it, give credit back, tell a refusal."""
        assert self._desk is not None
        if self._settling is not None:
            self._report(self._settling)
            self._settling = None
        for assembler in self._desk.settled():
            assembler.send(Settled(1))
        if self._refusal is not None:
            raise Halted(self._refusal)

    # -- the sink ------------------------------------------------------------------------------

    def _deliver(self, batch: Batch) -> int:
        """Call the sink; returns how many entries of the batch are accepted."""
        began = time.monotonic()
        accepted = batch.calls[0][0] if batch.calls else 0
        try:
            with self._in_sink():
                for accepted in self._calls(batch):
                    if self.stop_signal.is_set():
                        # Given up during the call before: the sink is not called again.
                        return accepted
            accepted = len(batch.entries)
        except Halted as verdict:
            self._refusal = verdict.halt
        finally:
            for changes in batch.spooled:
                changes.release()
        self._settling = _summary(batch, accepted, time.monotonic() - began)
        for place, item in batch.calls:
            if place < accepted and isinstance(item, SchemaChangeGroup):
                self._tell_schema_changes(item)
        return accepted

    def _calls(self, batch: Batch) -> Iterator[int]:
        """Before each call of the sink: how many entries are accepted so far."""
        spooled = batch.spooled
        for changes in spooled:
            # To write gigabytes takes long: who still reads does not hang.
            changes.on_read(partial(self.busy.again, BUSY_WITH_SINK))
        if self._whole_batches and batch.calls:
            yield batch.calls[0][0]
            self._sink.handle_batch([item for _, item in batch.calls])
            for changes in spooled:
                changes.conclude()
            return
        handle_transaction, began_again = self._sink.handle_transaction, self.busy.again
        for place, item in batch.calls:
            yield place
            began_again(BUSY_WITH_SINK)
            if isinstance(item, Transaction):
                handle_transaction(item)
                if spooled and isinstance(item.changes, SpooledChanges):
                    item.changes.conclude()
            else:
                self._sink.handle_schema_changes(item.changes)

    @contextmanager
    def _in_sink(self) -> Iterator[None]:
        """Where the sink's code runs: watched, and whatever it raises is a refusal."""
        try:
            with self.busy.doing(BUSY_WITH_SINK), self._hooks.host_code():
                yield
        except Halted:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a sink raises is a refusal
            raise _sink_failed(error) from None

    def _sink_position(self) -> GtidSet | None:
        with self._in_sink():
            return self._sink.position()

    # -- reports -------------------------------------------------------------------------------

    def _tell_schema_changes(self, group: SchemaChangeGroup) -> None:
        for change in group.changes:
            self._hooks.emit(
                SchemaChangeDelivered(
                    gtid=change.gtid, schema=change.schema, table=change.table, kind=change.kind
                )
            )

    def _report(self, settled: BatchSettled) -> None:
        before = self._board.figures
        self._board.update(
            transactions=before.transactions + settled.transactions,
            changes=before.changes + settled.changes,
            filtered=before.filtered + settled.filtered,
            skipped=before.skipped + settled.skipped,
            schema_changes=before.schema_changes + settled.schema_changes,
            batches=before.batches + 1,
            lag_seconds=settled.lag_seconds,
        )
        self._hooks.emit(settled)


def _sink_failed(error: BaseException) -> Halted:
    return halted(HaltReason.SINK_FAILED, type(error).__name__)


def _summary(batch: Batch, accepted: int, seconds: float) -> BatchSettled:
    transactions = changes = schema_changes = groups = 0
    for place, item in batch.calls:
        if place >= accepted:
            break
        if isinstance(item, Transaction):
            transactions += 1
            changes += len(item.changes)
        else:
            groups += 1
            schema_changes += len(item.changes)
    lag = 0.0
    if accepted:
        lag = max(0.0, time.time() - batch.entries[accepted - 1].committed.arrived_micros / 1e6)
    return BatchSettled(
        transactions=transactions,
        changes=changes,
        filtered=accepted - transactions - groups,
        skipped=batch.skipped,
        schema_changes=schema_changes,
        sink_seconds=seconds,
        lag_seconds=lag,
    )
