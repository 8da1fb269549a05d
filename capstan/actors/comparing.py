"""The coordinator's hand in a verification: carries orders out, hears the answers, tells the board.

House rules: as `backfill`, whose turn comes first: while a backfill reads, no range is compared. A
verification that cannot go on names the table and the reason, and never holds the stream for longer
than the gate's timeout.
"""

import time

from capstan.actors.messages import (
    CaptureRefused,
    ChunkRead,
    ChunkWanted,
    LookAtGate,
    PinAsked,
    PinGranted,
    PinMissed,
    ReaderReady,
    StreamOn,
    SurveyMade,
    SurveyWanted,
    VerifyWanted,
    ViewPinned,
)
from capstan.core.changes import Item
from capstan.core.gtid import GtidSet
from capstan.core.halts import HaltReason
from capstan.core.snapshot.orders import CompareRange, GrantPin, WantChunk
from capstan.core.snapshot.verify_desk import VerifyDesk, VerifyOrder
from capstan.core.verification import Differences
from capstan.telemetry.board import Board


class Comparing:
    """Verifications as the coordinator sees them, one at a time.

    Args:
        board: Where the outcome goes.
        gate_timeout: Seconds without any progress that a range waits for the stream.
    """

    def __init__(self, board: Board, gate_timeout: float) -> None:
        self._board = board
        self._gate_timeout = gate_timeout
        self._number = 0
        self._desk: VerifyDesk | None = None
        self._reader: ReaderReady | None = None
        self._stream: StreamOn | None = None
        self._missing: GtidSet | None = None
        self._missing_since = 0.0

    @property
    def active(self) -> bool:
        """Whether an item of the stream may have to wait."""
        return self._desk is not None and self._desk.active

    def holds(self, item: Item) -> bool:
        """Whether this item, and all behind it, has to wait."""
        return self._desk is not None and self._desk.holds(item)

    def hear(self, message: object, processed: GtidSet) -> None:
        """One step of the conversation."""
        match message:
            case VerifyWanted(number=number):
                self._begin(number)
            case ReaderReady():
                self._reader = message
            case StreamOn():
                self._stream = message
        if self._desk is not None:
            self._tell(self._desk, message, processed)

    def _begin(self, number: int) -> None:
        self._number, self._desk = number, VerifyDesk()
        if self._reader is not None:
            self._desk.reader_ready(self._reader.incarnation)
        if self._stream is not None:
            self._desk.stream_on(self._stream.server_uuid)

    def _tell(self, desk: VerifyDesk, message: object, processed: GtidSet) -> None:
        match message:
            case ReaderReady():
                desk.reader_ready(message.incarnation)
            case StreamOn():
                desk.stream_on(message.server_uuid)
            case SurveyMade():
                desk.surveyed(message.incarnation, message.tables)
            case PinAsked():
                desk.pin_asked(message.incarnation, message.ticket, message.server_uuid)
            case ViewPinned():
                desk.view_pinned(message.incarnation, message.ticket, message.position)
            case PinMissed():
                desk.pin_missed(message.incarnation, message.ticket)
            case CaptureRefused():
                desk.capture_refused(message.incarnation, message.ticket, message.reason)
            case ChunkRead(shape=shape, rows=rows, final=final):
                desk.chunk_read(message.incarnation, message.ticket, shape, rows, final=final)
            case LookAtGate():
                self._look_at_gate(desk, processed)

    def next_comparison(self, processed: GtidSet, *, reader_is_free: bool) -> CompareRange | None:
        """Carry out what is to be done now; returns the range that the sink is to compare, if any.

        Only to be called while no batch is out.
        """
        desk = self._desk
        if desk is None:
            return None
        if not reader_is_free:
            desk.interrupted()
            return None
        while (order := desk.next_order(processed)) is not None:
            if isinstance(order, CompareRange):
                return order
            self._send(order)
        if desk.outcome is not None:
            self._board.update(verified=(self._number, desk.outcome))
            self._desk = None
        return None

    def _send(self, order: VerifyOrder) -> None:
        assert self._reader is not None  # the desk orders nothing before there is one
        match order:
            case WantChunk(ticket=ticket, table=table, after=after):
                self._reader.reply_to.send(ChunkWanted(ticket, table, after, for_comparison=True))
            case GrantPin(ticket=ticket):
                self._reader.reply_to.send(PinGranted(ticket))
            case _:
                self._reader.reply_to.send(SurveyWanted())

    def compared(self, differences: Differences) -> None:
        """The sink has been looked at."""
        assert self._desk is not None
        self._desk.range_compared(differences)

    def _look_at_gate(self, desk: VerifyDesk, processed: GtidSet) -> None:
        missing, now = desk.missing(processed), time.monotonic()
        if missing is None or missing != self._missing:
            self._missing, self._missing_since = missing, now
        elif now - self._missing_since >= self._gate_timeout:
            desk.give_up(HaltReason.SNAPSHOT_GATE_STALLED)
