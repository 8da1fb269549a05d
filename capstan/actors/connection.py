"""The connection: dials, reads on credit, cuts packets; never decodes.

House rules: what comes next is `core.dialling`'s answer. Every dial starts from the durable
position, asked for along the stream's own way, and is an epoch of its own, so that two dials never
mix. The socket is read only with credit; the deadline for silence runs only while reading. A
blocked dial, read or wait ends at once when the stop signal is given.
"""

import time
from collections.abc import Callable
from typing import Protocol

import attrs

from capstan.actors.messages import (
    ConnectionReady,
    CreditGranted,
    PacketsRead,
    PositionIs,
    PositionWanted,
    ReadOn,
    SeedWanted,
    StreamLost,
    StreamOpened,
)
from capstan.core.binlog.framing import PacketCutter, ServerError
from capstan.core.dialling import Event, Life, Phase, Step
from capstan.core.epoch import Epoch
from capstan.core.gtid import GtidSet
from capstan.core.halts import Halt, Halted, HaltReason, halted
from capstan.core.preflight import ServerFacts, findings, position_verdict
from capstan.core.server_errors import classify_dump_error, is_transient
from capstan.core.tables import CaptureList
from capstan.core.watermark import Anchor, Position
from capstan.runtime import Actor, Address
from capstan.sources.base import Link, LinkLost, Source
from capstan.telemetry.board import Board
from capstan.telemetry.events import ConnectionEstablished, ConnectionLost
from capstan.telemetry.hooks import Hooks

_LOOK = 1.0
"""Seconds after which a silent read looks at the clock again."""
_STEADY = 10
"""Liveness timeouts after which a link that was cut does not count as flapping."""


class DialBudget(Protocol):
    """How often and how soon to dial again; `sources.redial` has the real one."""

    def next_delay(self, *, counted: bool) -> float | None:
        """Seconds to wait before the next dial; None when the budget is spent."""

    def progress(self) -> None:
        """The watermark moved: the budget is full again."""


class Patience(Protocol):
    """How long to look again at a transaction that gtid_executed does not have yet (D14)."""

    def next_delay(self) -> float | None:
        """Seconds until the next look; None when it is time to give up."""


@attrs.frozen(kw_only=True)
class StreamSettings:
    """What the connection must know of the configuration.

    Attributes:
        capture: The capture list, for the preflight.
        server_id: This reader's own id.
        accepted_cascades: Tables whose unlogged cascades are accepted.
        allowed_sources: The server_uuids that may answer; empty for any.
        liveness_timeout: Seconds of silence, while reading, that end a link.
        patience: Makes the patience for one dial (D14).
    """

    capture: CaptureList
    server_id: int
    accepted_cascades: tuple[str, ...]
    allowed_sources: tuple[str, ...]
    liveness_timeout: float
    patience: Callable[[], Patience]


class Connection(Actor):
    """Keeps one stream open.

    Args:
        source: Makes links.
        assembler: Who gets the packets, grants the credit and hands on the question where we stand.
        checkpoint: Who persists the first position.
        settings: Deadlines and what the preflight needs.
        budget: How often to dial again.
        board: Where figures are shown.
        hooks: Who is told.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - wired in one place, each a room of its own
        self,
        source: Source,
        assembler: Address,
        checkpoint: Address,
        settings: StreamSettings,
        budget: DialBudget,
        board: Board,
        hooks: Hooks,
    ) -> None:
        super().__init__()
        self._source = source
        self._assembler = assembler
        self._checkpoint = checkpoint
        self._settings = settings
        self._budget = budget
        self._board = board
        self._hooks = hooks
        self._life = Life()
        self._dials = 0
        self._position = Position(watermark=GtidSet())
        self._link: Link | None = None
        self._forget: Callable[[], object] = lambda: None
        self._cutter = PacketCutter()
        self._opened_at = self._heard_at = 0.0
        self._anchor_left_out = False
        self._leave_anchor_in = False
        self._seed_wanted = False

    def started(self) -> None:
        """Ask for credit."""
        self._assembler.send(ConnectionReady(self.address))

    def stopped(self) -> None:
        """Hang up."""
        self._hang_up()
        self._board.update(connection="closed")

    def receive(self, message: object) -> None:
        """One step of the conversation."""
        match message:
            case ReadOn(number=number):
                if number == self._number and self._life.phase is Phase.STREAMING:
                    self._read()
            case CreditGranted(pieces=pieces):
                self._heard_at = max(self._heard_at, self._resumed_at())
                self._do(self._life.granted(pieces))
            case PositionIs(position=position, seed_wanted=seed_wanted):
                self._seed_wanted = seed_wanted
                if position.watermark != self._position.watermark:
                    self._progressed()
                    self._leave_anchor_in = False
                self._position = position
                self._do(self._life.on(Event.POSITION_KNOWN))

    @property
    def _number(self) -> tuple[int, int]:
        return (self.incarnation, self._dials)

    def _resumed_at(self) -> float:
        """Now, when reading begins again after a pause: silence before it does not count."""
        return time.monotonic() if self._life.phase is Phase.PAUSED else 0.0

    def _do(self, step: Step) -> None:
        self._board.update(connection=self._life.phase.value)
        match step:
            case Step.ASK_POSITION:
                self._assembler.send(PositionWanted(self.address))
            case Step.DIAL:
                self._dial()
            case Step.READ:
                self.address.send(ReadOn(self._number))
            case Step.NOTHING | Step.BACK_OFF:
                pass

    # -- dialling ------------------------------------------------------------------------------

    def _dial(self) -> None:
        self._dials += 1
        began = time.monotonic()
        try:
            link = self._link = self._source.link()
            self._forget = self.stop_signal.on_set(link.interrupt)
            facts = self._examine(link)
            if self._seed_wanted:
                self._seed(facts.gtid_executed)
                return
            asked, anchor = self._question(facts)
            link.dump(asked)
        except LinkLost as lost:
            self._failed(lost)
            return
        self._cutter = PacketCutter()
        self._opened_at = self._heard_at = time.monotonic()
        epoch = Epoch(
            start=self._position.watermark,
            server_uuid=facts.server_uuid,
            anchor=anchor,
            folds_names=facts.folds_names,
        )
        self._assembler.send(StreamOpened(self._number, epoch))
        connects = self._board.figures.connects + 1
        self._board.update(server_uuid=facts.server_uuid, connects=connects)
        self._hooks.emit(
            ConnectionEstablished(
                server_version=facts.version_text,
                server_uuid=facts.server_uuid,
                tls=link.tls,
                seconds=self._opened_at - began,
            )
        )
        self._do(self._life.on(Event.ESTABLISHED))

    def _examine(self, link: Link) -> ServerFacts:
        """Preflight, identity and gap check; on the stream's own link, at every dial."""
        facts = link.open()
        found = findings(
            facts,
            self._settings.capture,
            server_id=self._settings.server_id,
            accepted_cascades=self._settings.accepted_cascades,
            allowed_sources=self._settings.allowed_sources,
        )
        if found:
            raise Halted(attrs.evolve(found[0], also=found[1:]))
        if self._seed_wanted:
            return facts
        patience = self._settings.patience()
        while True:
            verdict = position_verdict(facts, self._position.watermark, self._position.anchor)
            if verdict.halt is None:
                return facts
            delay = patience.next_delay() if verdict.may_settle else None
            if delay is None:
                raise Halted(verdict.halt)
            if self.stop_signal.wait(delay):
                raise LinkLost("query")
            facts = attrs.evolve(facts, gtid_executed=link.executed())

    def _seed(self, executed: GtidSet) -> None:
        """Have the first position persisted before anything is asked for (R63, R64)."""
        self._hang_up()
        self._checkpoint.send(SeedWanted(self.address, executed))
        self._do(self._life.on(Event.SEEDED))

    def _question(self, facts: ServerFacts) -> tuple[GtidSet, Anchor | None]:
        """The set to ask the dump for, and the anchor that must come by because it is left out."""
        anchor = self._position.anchor
        watermark = self._position.watermark
        purged = anchor is not None and anchor.gtid in facts.gtid_purged
        if anchor is None or purged or self._leave_anchor_in:
            self._anchor_left_out = False
            return watermark, None
        self._anchor_left_out = True
        return watermark.without(anchor.gtid), anchor

    def _failed(self, lost: LinkLost, *, counted: bool = True) -> None:
        """The link is gone: wait as the budget says, then dial again from the position."""
        self._hang_up()
        if self.stop_signal.is_set():
            return
        if self._life.phase is not Phase.DIALLING:
            self._assembler.send(StreamLost(self._number))
            steady = _STEADY * self._settings.liveness_timeout
            if time.monotonic() - self._opened_at >= steady:
                self._progressed()
            counted = counted and not self._life.excuses_cut()
        delay = self._budget.next_delay(counted=counted)
        if delay is None:
            raise self._exhausted(lost)
        self._life.on(Event.FAILED)
        failed = self._board.figures.failed_dials + 1
        self._board.update(connection=self._life.phase.value, failed_dials=failed)
        self._hooks.emit(ConnectionLost(stage=lost.stage, code=lost.code, retry_in=delay))
        if not self.stop_signal.wait(delay):
            self._do(self._life.on(Event.WAITED))

    def _progressed(self) -> None:
        self._budget.progress()
        self._life.progressed()

    def _exhausted(self, lost: LinkLost) -> Halted:
        stalled = lost.stage == "liveness"
        reason = HaltReason.STREAM_STALLED if stalled else HaltReason.COMMAND_RETRIES_EXHAUSTED
        return halted(reason, f"the last link failed at {lost}")

    def _hang_up(self) -> None:
        self._forget()
        self._forget = lambda: None
        if self._link is not None:
            self._link.close()
            self._link = None

    # -- reading -------------------------------------------------------------------------------

    def _read(self) -> None:
        assert self._link is not None
        silent_until = self._heard_at + self._settings.liveness_timeout
        left = silent_until - time.monotonic()
        try:
            piece = self._link.read(max(0.0, min(_LOOK, left)))
        except LinkLost as lost:
            self._failed(lost)
            return
        now = time.monotonic()
        if piece:
            self._heard_at = now
            self._hand_over(piece)
        elif piece is not None:
            self._failed(LinkLost("read"))
        elif now >= silent_until:
            self._failed(LinkLost("liveness"))
        else:
            self._do(Step.READ)

    def _hand_over(self, piece: bytes) -> None:
        cut = self._cutter.feed(piece)
        step = Step.READ
        if cut.packets:
            self._assembler.send(PacketsRead(self._number, cut.packets))
            step = self._life.spent()
        if cut.error is not None:
            self._server_error(cut.error)
        elif cut.ended:
            self._failed(LinkLost("read"))
        else:
            self._do(step)

    def _server_error(self, error: ServerError) -> None:
        if is_transient(error.code):
            self._failed(LinkLost("read", error.code))
            return
        reason = classify_dump_error(error.code, error.message)
        if reason is HaltReason.DATA_GAP and self._anchor_left_out:
            self._leave_anchor_in = True
            self._failed(LinkLost("dump", error.code), counted=False)
            return
        raise Halted(Halt(reason, f"the dump ended with code {error.code}"))
