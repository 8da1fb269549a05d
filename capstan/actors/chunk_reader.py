"""The chunk reader: takes exact views of the source's tables and reads chunks from them.

House rules: it reads what it is ordered to and decides nothing about the stream. It asks before
every capture, since from then on the coordinator holds changes of the table, and says at once when
a capture failed. A link that breaks is dialled again, a lock that is not had is tried again; each
within a budget of its own, which progress fills up. Whatever blocks ends with the stop signal.
"""

import time
from collections.abc import Callable
from typing import Protocol, TypeVar

import attrs

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
from capstan.core.halts import Halted, HaltReason, halted
from capstan.core.tables import TableName
from capstan.runtime import Actor, Address
from capstan.sources.base import CaptureMissed, LinkLost, View, ViewSource
from capstan.telemetry.board import Board
from capstan.telemetry.events import CaptureRetried
from capstan.telemetry.hooks import Hooks

_LOCKS_KEPT = 1000
"""Lock holds remembered for the percentiles that are shown."""

Answer = TypeVar("Answer")


class RetryBudget(Protocol):
    """How often and how soon to try again; `sources.redial` has the real one."""

    def next_delay(self) -> float | None:
        """Seconds to wait before the next attempt; None when the budget is spent."""

    def progress(self) -> None:
        """An attempt succeeded: the budget is full again."""


@attrs.frozen(kw_only=True)
class ReaderSettings:
    """What the reader must know of the configuration.

    Attributes:
        chunk_size: Rows in a chunk at most.
        chunk_bytes: Bytes of rows on the wire after which a chunk ends early.
        rows_per_second: A limit on the rate over time; None without one.
    """

    chunk_size: int
    chunk_bytes: int
    rows_per_second: int | None


class ChunkReader(Actor):
    """Reads one chunk after another, as ordered.

    Args:
        source: Makes views.
        coordinator: Who orders, and gets what was read.
        settings: Bounds of a chunk.
        redial: The budget for links.
        recapture: The budget for captures.
        board: Where figures are shown.
        hooks: Who is told.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - wired in one place, each a room of its own
        self,
        source: ViewSource,
        coordinator: Address,
        settings: ReaderSettings,
        redial: RetryBudget,
        recapture: RetryBudget,
        board: Board,
        hooks: Hooks,
    ) -> None:
        super().__init__()
        self._source = source
        self._coordinator = coordinator
        self._settings = settings
        self._redial = redial
        self._recapture = recapture
        self._board = board
        self._hooks = hooks
        self._order: ChunkWanted | None = None
        self._view: View | None = None
        self._server_uuid = ""
        self._forget: Callable[[], object] = lambda: None
        self._estimated: set[TableName] = set()

    def started(self) -> None:
        """Say that orders can come."""
        self._coordinator.send(ReaderReady(self.address, self.incarnation))

    def stopped(self) -> None:
        """Hang up; the server frees what was locked."""
        self._hang_up()

    def receive(self, message: object) -> None:
        """One step of the conversation."""
        match message:
            case TablesWanted():
                self._resolve()
            case SurveyWanted():
                tables = self._with_view(_surveyed)
                if tables is not None:
                    self._coordinator.send(SurveyMade(self.incarnation, tables))
            case ChunkWanted():
                self._order = message
                self._carry_out(message, self._ask_pin)
            case PinGranted(ticket=ticket):
                if self._order is not None and self._order.ticket == ticket:
                    self._carry_out(self._order, self._capture)
            case PurgedWanted():
                purged = self._with_view(lambda view: view.purged())
                if purged is not None:
                    self._coordinator.send(PurgedIs(self.incarnation, purged))

    # -- orders --------------------------------------------------------------------------------

    def _resolve(self) -> None:
        tables = self._with_view(_examined)
        if tables is not None:
            self._coordinator.send(TablesResolved(self.incarnation, self._server_uuid, tables))

    def _carry_out(self, order: ChunkWanted, step: Callable[[ChunkWanted], None]) -> None:
        """Do what halts a backfill when it is refused, and only ends a comparison."""
        try:
            step(order)
        except Halted as verdict:
            if not order.for_comparison:
                raise
            self._order = None
            self._recapture.progress()
            reason = verdict.halt.reason
            self._coordinator.send(CaptureRefused(self.incarnation, order.ticket, reason))

    def _ask_pin(self, order: ChunkWanted) -> None:
        """Ask to capture what is ordered; on a live link, whose server is named."""
        if order.table not in self._estimated and not order.for_comparison:
            estimate = self._with_view(lambda view: view.estimate(order.table))
            if estimate is None:
                return
            self._estimated.add(order.table)
            estimates = {**self._board.figures.snapshot_estimates, order.table: estimate}
            self._board.update(snapshot_estimates=estimates)
        if self._with_view(lambda _: True):
            self._coordinator.send(PinAsked(self.incarnation, order.ticket, self._server_uuid))

    def _capture(self, order: ChunkWanted) -> None:
        """One attempt: pin, tell, read; what fails is told, and asked for again."""
        assert self._view is not None  # it was dialled before asking
        try:
            self._read(self._view, order)
        except (CaptureMissed, LinkLost) as trouble:
            self._coordinator.send(PinMissed(self.incarnation, order.ticket))
            if isinstance(trouble, LinkLost):
                self._lost(trouble)
            else:
                self._missed(order, trouble)
            if not self.stop_signal.is_set():
                self._ask_pin(order)

    def _read(self, view: View, order: ChunkWanted) -> None:
        settings, began = self._settings, time.monotonic()
        pinned = view.pin(order.table)
        self._coordinator.send(ViewPinned(self.incarnation, order.ticket, pinned.position))
        chunk = view.rows(order.after, settings.chunk_size, settings.chunk_bytes)
        self._redial.progress()
        self._recapture.progress()
        self._show_lock(pinned.lock_seconds)
        self._order = None
        self._coordinator.send(
            ChunkRead(
                self.incarnation, order.ticket, pinned.facts.shape, chunk.rows, not chunk.more
            )
        )
        if settings.rows_per_second is not None:
            due = began + len(chunk.rows) / settings.rows_per_second
            self.stop_signal.wait(max(0.0, due - time.monotonic()))

    def _missed(self, order: ChunkWanted, missed: CaptureMissed) -> None:
        delay = self._recapture.next_delay()
        if delay is None:
            raise halted(
                HaltReason.SNAPSHOT_LOCK_UNAVAILABLE,
                f"{order.table}: the last capture was missed with code {missed.code}",
            )
        retries = self._board.figures.snapshot_retries + 1
        self._board.update(snapshot_retries=retries)
        self._hooks.emit(
            CaptureRetried(
                schema=order.table.schema,
                table=order.table.table,
                code=missed.code,
                retry_in=delay,
            )
        )
        self.stop_signal.wait(delay)

    def _show_lock(self, seconds: float) -> None:
        locks = self._board.figures.snapshot_locks
        self._board.update(snapshot_locks=(*locks[1 - _LOCKS_KEPT :], seconds))

    # -- links ---------------------------------------------------------------------------------

    def _with_view(self, work: Callable[[View], Answer]) -> Answer | None:
        """Do something on a live link, dialled again as often as the budget allows.

        Returns:
            None when the stop signal came first.
        """
        while not self.stop_signal.is_set():
            try:
                return work(self._view or self._dial())
            except LinkLost as lost:
                self._lost(lost)
        return None

    def _dial(self) -> View:
        view = self._source.view()
        self._forget = self.stop_signal.on_set(view.interrupt)
        self._view = view
        self._server_uuid = view.open()
        return view

    def _lost(self, lost: LinkLost) -> None:
        """Both links are gone: wait as the budget says."""
        self._hang_up()
        if self.stop_signal.is_set():
            return
        delay = self._redial.next_delay()
        if delay is None:
            raise halted(HaltReason.SNAPSHOT_CHUNK_READ_FAILED, f"the last link failed at {lost}")
        self.stop_signal.wait(delay)

    def _hang_up(self) -> None:
        self._forget()
        self._forget = lambda: None
        if self._view is not None:
            self._view.close()
            self._view = None


def _examined(view: View) -> tuple[TableName, ...]:
    """The tables to backfill, each of them proven to be one that can be.

    Raises:
        Halted: The first refusal, with all the others.
    """
    found = view.findings()
    if found:
        raise Halted(attrs.evolve(found[0], also=found[1:]))
    tables = view.tables()
    for table in tables:
        view.describe(table)
    return tables


def _surveyed(view: View) -> tuple[tuple[TableName, HaltReason | None], ...]:
    """The tables, and which of them cannot be read at exact positions."""
    return tuple((table, _refusal(view, table)) for table in view.tables())


def _refusal(view: View, table: TableName) -> HaltReason | None:
    try:
        view.describe(table)
    except Halted as verdict:
        return verdict.halt.reason
    return None
