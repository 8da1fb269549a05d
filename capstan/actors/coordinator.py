"""The coordinator: the delivery desk, the only caller of the sink.

House rules: what is delivered and when is decided by `core.delivery`; here is the call, its guard
and the wait for the disk. Whatever the sink raises ends the pipeline; what it accepted before is
persisted first (D15). The mark "busy with the sink" is what the supervisor's clock watches.
"""

import time
from collections.abc import Callable, Sequence

import attrs

from capstan.actors.messages import (
    Assembled,
    PositionIs,
    Processed,
    Settled,
    SinkOpened,
    WatermarkMoved,
)
from capstan.core.changes import SchemaChangeGroup, Transaction
from capstan.core.delivery import Batch, Desk, Item, Piece
from capstan.core.gtid import GtidSet
from capstan.core.halts import Halt, Halted, HaltReason, halted
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
        max_batch: Items settled together at most.
        board: Where figures are shown.
        hooks: Who is told.
    """

    def __init__(
        self, sink: Sink, checkpoint: Address, max_batch: int, board: Board, hooks: Hooks
    ) -> None:
        super().__init__()
        self._sink = sink
        self._whole_batches = type(sink).handle_batch is not Sink.handle_batch
        self._checkpoint = checkpoint
        self._max_batch = max_batch
        self._board = board
        self._hooks = hooks
        self._desk: Desk[Address] | None = None
        self._early: list[Assembled] = []
        self._refusal: Halt | None = None
        self._settling: BatchSettled | None = None
        self._stopping = False

    def started(self) -> None:
        """Open the sink and tell the checkpoint what it reports."""
        self._call(self._sink.open)
        self._checkpoint.send(SinkOpened(self.address, self._sink_position()))

    def stop_requested(self) -> None:
        """Drain: what is assembled is delivered and persisted before the end."""
        self._stopping = True
        self._pump()

    def stopped(self) -> None:
        """Close the sink."""
        self._call(self._sink.close)

    def receive(self, message: object) -> None:
        """One step of the conversation."""
        match message:
            case Assembled():
                self._arrive(message)
            case WatermarkMoved(position=position):
                self._moved(position)
            case PositionIs(position=position):
                self._desk = Desk(position, self._max_batch)
                self._board.update(watermark=position.watermark)
                early, self._early = self._early, []
                for assembled in early:
                    self._arrive(assembled)
        self._pump()

    def _arrive(self, message: Assembled) -> None:
        if self._desk is None:
            self._early.append(message)
        else:
            self._desk.arrive(Piece(message.items, message.server_uuid, message.reply_to))

    def _pump(self) -> None:
        desk = self._desk
        while desk is not None and (batch := desk.next_batch()) is not None:
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
        if self._stopping and (desk is None or desk.idle):
            self.finish()

    def _moved(self, position: Position) -> None:
        self._board.update(watermark=position.watermark)
        self._settle()

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
        accepted = len(batch.entries)
        try:
            if self._whole_batches and batch.calls:
                accepted = batch.calls[0][0]
                self._call(self._sink.handle_batch, [item for _, item in batch.calls])
                accepted = len(batch.entries)
            else:
                for place, item in batch.calls:
                    accepted = place
                    self._hand_over(item)
                accepted = len(batch.entries)
        except Halted as verdict:
            self._refusal = verdict.halt
        self._settling = _summary(batch, accepted, time.monotonic() - began)
        for _, item in batch.calls:
            if isinstance(item, SchemaChangeGroup):
                self._tell_schema_changes(item)
        return accepted

    def _hand_over(self, item: Item) -> None:
        if isinstance(item, Transaction):
            self._call(self._sink.handle_transaction, item)
        else:
            self._call(self._sink.handle_schema_changes, item.changes)

    def _call(self, method: Callable[..., None], *arguments: object) -> None:
        try:
            with self.busy.doing(BUSY_WITH_SINK), self._hooks.host_code():
                method(*arguments)
        except Halted:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a sink raises is a refusal
            raise _sink_failed(error) from None

    def _sink_position(self) -> GtidSet | None:
        try:
            with self.busy.doing(BUSY_WITH_SINK), self._hooks.host_code():
                return self._sink.position()
        except Halted:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a sink raises is a refusal
            raise _sink_failed(error) from None

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
    calls = [item for place, item in batch.calls if place < accepted]
    transactions: Sequence[Transaction] = [c for c in calls if isinstance(c, Transaction)]
    groups = [c for c in calls if isinstance(c, SchemaChangeGroup)]
    lag = 0.0
    if batch.entries:
        lag = max(0.0, time.time() - batch.entries[-1].committed.arrived_micros / 1e6)
    return BatchSettled(
        transactions=len(transactions),
        changes=sum(len(transaction.changes) for transaction in transactions),
        filtered=accepted - len(calls),
        skipped=batch.skipped,
        schema_changes=sum(len(group.changes) for group in groups),
        sink_seconds=seconds,
        lag_seconds=lag,
    )
