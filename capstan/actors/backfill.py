"""The coordinator's hand in a backfill: carries orders out, hears the answers, watches the gate.

House rules: which chunk is wanted, what is held and when a chunk may leave is decided by
`core.snapshot.snapshot_desk`; here are the addresses, the clock and the figures. Everything runs on
the coordinator's thread, and the sink is called by the coordinator alone.
"""

import time
from collections.abc import Callable

import attrs

from capstan.actors.messages import (
    ChunkRead,
    ChunkWanted,
    LookAtGate,
    PinAsked,
    PinGranted,
    PinMissed,
    PinTakesLong,
    PurgedIs,
    PurgedWanted,
    ReaderReady,
    SaveSnapshot,
    SnapshotIs,
    SnapshotSaved,
    StreamOn,
    TablesResolved,
    TablesWanted,
    ViewPinned,
)
from capstan.core.changes import Item, SchemaChange, SchemaChangeGroup
from capstan.core.dialling import Phase
from capstan.core.gtid import GtidSet
from capstan.core.halts import Halted, HaltReason
from capstan.core.snapshot.chunk_capture import gate_verdict
from capstan.core.snapshot.orders import (
    EmitChunk,
    GrantPin,
    Order,
    SaveState,
    WantChunk,
    WantTables,
)
from capstan.core.snapshot.progress import TableProgress
from capstan.core.snapshot.snapshot_desk import SnapshotDesk
from capstan.core.tables import TableName
from capstan.runtime import Address
from capstan.telemetry.board import Board, TableFigures
from capstan.telemetry.events import ChunkDelivered
from capstan.telemetry.hooks import Hooks

_REWRITES = frozenset({"alter_table", "alter_partition", "exchange_partition"})
"""Statements that can change stored rows with no row event (D28) and leave the table in place."""

_QUIET = 0.02
"""Seconds without a call of the sink while a view is captured. The reader waits for answers under a
lock, and for the interpreter each time when somebody computes; a capture that waits for writers
takes longer and does not keep the stream."""

_LIVE = frozenset({Phase.STREAMING.value, Phase.PAUSED.value})


@attrs.frozen(kw_only=True)
class BackfillSettings:
    """What the coordinator must know of the configuration.

    Attributes:
        patterns: Canonical texts of the snapshot list.
        gate_timeout: Seconds without any progress, while the stream is live, that a chunk waits.
        redoes_altered: Whether a table whose stored rows an ALTER made stale is read again.
    """

    patterns: tuple[str, ...]
    gate_timeout: float
    redoes_altered: bool = False


class Backfill:
    """One backfill as the coordinator sees it.

    Attributes:
        desk: Its judgement; None until the durable state is known.
    """

    desk: SnapshotDesk | None = None

    def __init__(
        self,
        settings: BackfillSettings,
        checkpoint: Address,
        board: Board,
        hooks: Hooks,
        after: Callable[[float, object], None],
    ) -> None:
        """Remember whom to ask and to tell.

        Args:
            settings: Of the configuration.
            checkpoint: Writes the state.
            board: Where the figures go.
            hooks: Where the events go.
            after: Sends the coordinator a message in so many seconds.
        """
        self._settings = settings
        self._checkpoint = checkpoint
        self._board = board
        self._hooks = hooks
        self._after = after
        self._pinning: int | None = None
        self._reader: ReaderReady | None = None
        self._missing: GtidSet | None = None
        self._missing_since = 0.0
        self._began = time.monotonic()
        self._rows_now = 0
        self._announced: set[TableName] = set()

    @property
    def active(self) -> bool:
        """Whether something is left to do."""
        return self.desk is None or self.desk.active

    @property
    def watching(self) -> bool:
        """Whether the items of the stream are to be looked at, schema changes one by one."""
        return self.active or self._settings.redoes_altered

    def holds(self, item: Item) -> bool:
        """Whether this item, and all behind it, has to wait (D6)."""
        return self.desk is not None and self.desk.active and self.desk.holds(item)

    def judged(self, item: Item) -> Item:
        """The item as the sink may see it.

        Raises:
            Halted: `snapshot_schema_drifted` (D9).
        """
        desk = self.desk
        return item if desk is None or not desk.active else desk.judged(item)

    @property
    def exclusive(self) -> bool:
        """Whether the stream has to wait for a write of the backfill."""
        return self.desk is not None and self.desk.exclusive

    @property
    def midway(self) -> bool:
        """Whether a chunk is between its two writes: a drain waits for the second."""
        return self.exclusive and self.desk is not None and self.desk.state is not None

    @property
    def quiet(self) -> bool:
        """Whether a view is just being captured: for a moment the sink is better not called."""
        return self._pinning is not None

    def hear(self, message: object, processed: GtidSet) -> None:
        """One step of the conversation with reader and checkpoint.

        Raises:
            Halted: What the desk refuses, and a gate that stalled.
        """
        self._end_quiet(message)
        match message:
            case SnapshotIs(state=state):
                self.desk = SnapshotDesk(self._settings.patterns, state)
                if self._reader is not None:
                    self.desk.reader_ready(self._reader.incarnation)
                self._show()
            case ReaderReady():
                self._reader = message
                if self.desk is not None:
                    self.desk.reader_ready(message.incarnation)
            case _ if self.desk is not None:
                self._tell(self.desk, message, processed)

    def _end_quiet(self, message: object) -> None:
        match message:
            case ReaderReady():
                self._pinning = None
            case ViewPinned(ticket=ticket) | PinMissed(ticket=ticket) | PinTakesLong(ticket=ticket):
                if ticket == self._pinning:
                    self._pinning = None

    def _tell(self, desk: SnapshotDesk, message: object, processed: GtidSet) -> None:
        match message:
            case StreamOn(server_uuid=server_uuid):
                desk.stream_on(server_uuid)
            case TablesResolved():
                desk.tables_resolved(message.incarnation, message.server_uuid, message.tables)
            case PinAsked():
                desk.pin_asked(message.incarnation, message.ticket, message.server_uuid)
            case ViewPinned():
                desk.view_pinned(message.incarnation, message.ticket, message.position)
            case PinMissed():
                desk.pin_missed(message.incarnation, message.ticket)
            case ChunkRead():
                self._take_chunk(desk, message)
            case SnapshotSaved(state=state):
                desk.state_saved(state)
                self._show()
            case LookAtGate():
                self._look_at_gate(desk.missing(processed))
            case PurgedIs(purged=purged):
                missing = desk.missing(processed)
                if missing is not None and missing == self._missing:
                    raise Halted(gate_verdict(missing, purged))

    def _take_chunk(self, desk: SnapshotDesk, chunk: ChunkRead) -> None:
        try:
            desk.chunk_read(
                chunk.incarnation, chunk.ticket, chunk.shape, chunk.rows, final=chunk.final
            )
        except Halted as verdict:
            drifted = verdict.halt.reason is HaltReason.SNAPSHOT_SCHEMA_DRIFTED
            if not (drifted and self._settings.redoes_altered):
                raise
            # The view is ahead of the stream, which has yet to bring the ALTER.
            self._redo(desk, TableName(chunk.shape.schema, chunk.shape.table))

    def _redo(self, desk: SnapshotDesk, table: TableName) -> None:
        self._announced.discard(table)
        desk.redo(table)

    def redo_stale(self, group: SchemaChangeGroup) -> None:
        """Begin again with the tables whose stored rows these schema changes make stale."""
        if self.desk is None or self.desk.state is None or not self._settings.redoes_altered:
            return
        for progress in self.desk.state.tables:
            if progress.sequence and any(
                _makes_stale(each, progress.name) for each in group.changes
            ):
                self._redo(self.desk, progress.name)

    def to_announce(self) -> tuple[TableName, ...]:
        """The tables at their beginning that the sink has not been told of in this life."""
        if self.desk is None or self.desk.state is None:
            return ()
        new = tuple(
            progress.name
            for progress in self.desk.state.tables
            if _untouched(progress) and progress.name not in self._announced
        )
        self._announced.update(new)
        return new

    def next_emission(self, coordinator: Address, processed: GtidSet) -> EmitChunk | None:
        """Carry out what is to be done now; returns the chunk that the sink is to get, if any.

        Only to be called while no batch is out.

        Args:
            coordinator: Whom to answer.
            processed: The durable watermark.
        """
        desk = self.desk
        while (
            desk is not None
            and not self.quiet
            and (order := desk.next_order(processed, settled=True)) is not None
        ):
            if isinstance(order, EmitChunk):
                return order
            self._carry_out(order, coordinator)
        return None

    def _carry_out(self, order: Order, coordinator: Address) -> None:
        match order:
            case SaveState(state=state):
                self._checkpoint.send(SaveSnapshot(coordinator, state))
            case WantTables():
                self._send_reader(TablesWanted())
            case WantChunk(ticket=ticket, table=table, after=after):
                self._send_reader(ChunkWanted(ticket, table, after))
            case GrantPin(ticket=ticket):
                self._pinning = ticket
                self._after(_QUIET, PinTakesLong(ticket))
                self._send_reader(PinGranted(ticket))

    def _send_reader(self, message: object) -> None:
        """Tell the reader; a dead one is followed by another, which announces itself."""
        if self._reader is not None:
            self._reader.reply_to.send(message)

    def emitted(self, order: EmitChunk, seconds: float) -> None:
        """The sink has accepted the chunk."""
        assert self.desk is not None
        self.desk.chunk_emitted()
        self._rows_now += len(order.changes)
        meta = order.meta
        self._hooks.emit(
            ChunkDelivered(
                schema=meta.schema,
                table=meta.table,
                sequence=meta.sequence,
                rows=len(order.changes),
                final=meta.final,
                sink_seconds=seconds,
            )
        )

    # -- the gate's clock, the figures ---------------------------------------------------------

    def _look_at_gate(self, missing: GtidSet | None) -> None:
        """Ask for what was purged when nothing of what is missing came for too long (D6)."""
        now = time.monotonic()
        live = self._board.figures.connection in _LIVE
        if missing is None or missing != self._missing or not live:
            self._missing, self._missing_since = missing, now
        elif now - self._missing_since >= self._settings.gate_timeout:
            self._send_reader(PurgedWanted())

    def _show(self) -> None:
        assert self.desk is not None
        state = self.desk.state
        tables = () if state is None else state.tables
        self._board.update(
            snapshot_tables=tuple(
                TableFigures(one.schema, one.table, one.rows, one.sequence, one.complete)
                for one in tables
            ),
            snapshot_resolved=state is not None,
            snapshot_complete=state is not None and state.complete,
            snapshot_rows=self._rows_now,
            snapshot_seconds=time.monotonic() - self._began,
            suppressed=self.desk.suppressed,
        )


def _makes_stale(change: SchemaChange, name: TableName) -> bool:
    named = ((change.schema, change.table), (change.new_schema, change.new_table))
    return (
        change.kind in _REWRITES and change.rows_may_change and (name.schema, name.table) in named
    )


def _untouched(progress: TableProgress) -> bool:
    """Whether no chunk of the table can have reached the sink since its beginning."""
    return progress.sequence == 0 and progress.delivered is None and not progress.complete
