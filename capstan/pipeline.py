"""The composition root: a configuration becomes a supervision tree; start, wait, look, stop.

House rules: this is the only place that knows every room. It decides nothing about data. A pipeline
lives once; several live beside each other in one process, and none touches another's actors, the
host's signals or its logging.
"""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import attrs

from capstan.actors.assembler import Assembler
from capstan.actors.checkpoint import Checkpoint
from capstan.actors.connection import Connection, StreamSettings
from capstan.actors.coordinator import BUSY_WITH_SINK, Coordinator
from capstan.config import Config
from capstan.core.assembly import Fold
from capstan.core.gtid import GtidSet
from capstan.core.halts import Halt, HaltReason
from capstan.core.limits import Budget
from capstan.errors import PipelineHalted
from capstan.runtime import NORMAL_EXIT, Actor, Exit
from capstan.sources.base import Source
from capstan.sources.live import LiveSource
from capstan.sources.redial import Redial, Settling
from capstan.supervision.child import ChildSpec, SupervisorSpec, Watch
from capstan.supervision.intensity import Intensity
from capstan.supervision.report import Context, SupervisorReport
from capstan.supervision.roster import Roster
from capstan.supervision.strategy import Strategy
from capstan.supervision.tree import Tree, launch
from capstan.telemetry.board import Board, Figures
from capstan.telemetry.events import ChildRestarted, PipelineEnded
from capstan.telemetry.hooks import Hooks

CREDIT_PIECES: Final = 4
"""Pieces of about 128 KiB that may be unsettled at once: fewer leave the sink waiting for the
socket, more only hold memory (measured: no gain beyond four)."""

RESTARTS: Final = Intensity(restarts=5, seconds=120.0)
START_WITHIN: Final = 20.0
STOP_TIMEOUT: Final = 30.0
_GRACE: Final = 2.0


@attrs.frozen(kw_only=True)
class Status:
    """One look at a pipeline.

    Attributes:
        state: `new`, `running`, `stopping`, `stopped` or `halted`.
        halt: Why it halted; None otherwise.
        watermark: The processed set that is on disk.
        lag_seconds: Commit to delivery of the last batch; None before the first.
        drained: After the end: whether all that was assembled has been delivered and persisted.
        counters: Figures by name.
        connection: The connection's phase in words.
        server_uuid: The server last streamed from.
        tree: The supervision tree as plain data.
    """

    state: str
    halt: Halt | None
    watermark: GtidSet
    lag_seconds: float | None
    drained: bool | None
    counters: dict[str, int]
    connection: str
    server_uuid: str | None
    tree: list[dict[str, object]]


class Pipeline:
    """Streams one source into one sink, under supervision.

    Args:
        config: What to read, where to, and how.
        source: Another source than the live server of the configuration, for tests.
    """

    def __init__(self, config: Config, *, source: Source | None = None) -> None:
        self._config = config
        self._source = source
        self._board = Board()
        self._hooks = Hooks(config.observers)
        self._tree: Tree | None = None
        self._told = False
        # No Event: its lock is not for a signal handler, which may interrupt its holder.
        self._stopping = False
        self._end_told = threading.Event()

    # -- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the tree and wait for the outcome of the first dial.

        Returns when the stream is open, or when the first dial failed in a way that may pass.

        Raises:
            RuntimeError: When it was started before.
            PipelineHalted: For a failed preflight, a locked store, a lost position, ….
        """
        if self._tree is not None:
            raise RuntimeError("a pipeline is started once")
        self._tree = launch(self._spec(), observer=self._observe)
        if self._stopping:
            self._tree.request_stop()
        threading.Thread(target=self._await_end, name="capstan-end", daemon=True).start()
        try:
            self._board.wait(lambda figures: bool(figures.connects or figures.failed_dials), None)
        except BaseException:  # an interrupted start leaves nothing running that nobody would stop
            self.request_stop()
            raise
        self._raise_if_halted()

    def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """Drain and end: what is assembled is delivered and persisted.

        From inside the host's code on one of the pipeline's own threads it only asks for the stop.

        Args:
            timeout: Seconds for the drain, of which one actor gets no more than 30; then
                everything is interrupted.
        """
        self.request_stop()
        if self._tree is None or self._hooks.in_host_code():
            return
        if not self._tree.stop(timeout):
            self._tree.interrupt()
            self._tree.wait_ended(None)
        self._end_told.wait(_GRACE)

    def request_stop(self) -> None:
        """Ask for the end and return at once; from any thread, a signal handler included.

        Before `start()` it is remembered: what is started then ends at once.
        """
        self._stopping = True
        if self._tree is not None:
            self._tree.request_stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end.

        Returns:
            True when it was ended by `stop()`, False on timeout.

        Raises:
            PipelineHalted: When it halts or has halted.
        """
        tree = self._started()
        ended = tree.wait_ended(timeout)
        self._raise_if_halted()
        return ended

    def wait_for(self, gtid_set: GtidSet | str, timeout: float | None = None) -> bool:
        """Wait until everything in `gtid_set` is processed and persisted.

        Returns:
            True then, False on timeout or when the pipeline was stopped before.

        Raises:
            PipelineHalted: When it halts or has halted.
            ValueError: For a malformed set.
        """
        self._started()
        wanted = GtidSet.parse(gtid_set) if isinstance(gtid_set, str) else gtid_set
        reached = self._board.wait(lambda figures: wanted <= figures.watermark, timeout)
        if not reached:
            self._raise_if_halted()
        return reached

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if kind is None and not self._told:
            self._raise_if_halted()

    # -- looks ---------------------------------------------------------------------------------

    @property
    def watermark(self) -> GtidSet:
        """The processed set that is on disk."""
        return self._board.figures.watermark

    @property
    def halt(self) -> Halt | None:
        """Why it halted; None while it runs and after `stop()`."""
        exit_ = None if self._tree is None else self._tree.exit
        return None if exit_ is None else exit_.halt or _unnamed(exit_)

    def status(self) -> Status:
        """Look at everything at once; from any thread, without a wait."""
        figures = self._board.figures
        tree = self._tree
        return Status(
            state=self._state(),
            halt=self.halt,
            watermark=figures.watermark,
            lag_seconds=figures.lag_seconds,
            drained=None if tree is None or tree.exit is None else _drained(tree),
            counters=_counters(figures),
            connection=figures.connection,
            server_uuid=figures.server_uuid,
            tree=[] if tree is None else [child.as_dict() for child in tree.report().children],
        )

    def _state(self) -> str:
        if self._tree is None:
            return "new"
        if self._tree.exit is not None:
            return "stopped" if self.halt is None else "halted"
        return "stopping" if self._stopping else "running"

    def _started(self) -> Tree:
        if self._tree is None:
            raise RuntimeError("the pipeline was not started")
        return self._tree

    def _raise_if_halted(self) -> None:
        halt = self.halt
        if halt is not None:
            self._told = True
            # The host may end its process now: observers come first, but not for ever.
            self._end_told.wait(_GRACE)
            raise PipelineHalted(halt)

    # -- the tree ------------------------------------------------------------------------------

    def _spec(self) -> SupervisorSpec:
        delivery = self._config.delivery
        stalled = Halt(
            HaltReason.SINK_STALLED, f"a call has not returned for {delivery.sink_timeout:g} s"
        )
        return SupervisorSpec(
            id="capstan",
            strategy=Strategy.REST_FOR_ONE,
            intensity=RESTARTS,
            children=(
                _child("checkpoint", self._checkpoint),
                _child(
                    "coordinator",
                    self._coordinator,
                    watches=(Watch(BUSY_WITH_SINK, delivery.sink_timeout, stalled),),
                ),
                SupervisorSpec(
                    id="stream",
                    strategy=Strategy.REST_FOR_ONE,
                    intensity=RESTARTS,
                    children=(
                        _child("assembler", self._assembler),
                        _child("connection", self._connection, shutdown=0.0),
                    ),
                ),
            ),
        )

    def _checkpoint(self, _roster: Roster) -> Actor:
        return Checkpoint(self._config.store, self._config.tables)

    def _coordinator(self, roster: Roster) -> Actor:
        return Coordinator(
            self._config.sink,
            roster["checkpoint"],
            self._config.store.close,
            self._config.delivery.max_batch,
            self._board,
            self._hooks,
        )

    def _assembler(self, roster: Roster) -> Actor:
        limits = self._config.limits
        budget = Budget(memory=limits.transaction_memory, total=limits.transaction_bytes)
        return Assembler(Fold(self._config.tables, budget), roster["coordinator"], CREDIT_PIECES)

    def _connection(self, roster: Roster) -> Actor:
        source = self._config.source
        return Connection(
            self._source or self._live_source(),
            roster["assembler"],
            roster["checkpoint"],
            StreamSettings(
                capture=self._config.tables,
                server_id=source.server_id,
                accepted_cascades=source.accept_unlogged_cascades,
                liveness_timeout=source.liveness_timeout,
                patience=lambda: Settling(source.settle_timeout),
            ),
            Redial(source.reconnect_attempts),
            self._board,
            self._hooks,
        )

    def _live_source(self) -> Source:
        return live_source(self._config)

    # -- ends ----------------------------------------------------------------------------------

    def _observe(self, report: SupervisorReport) -> None:
        if report.context is Context.CHILD_RESTARTING and report.exit is not None:
            crash = report.exit.crash
            self._hooks.emit(
                ChildRestarted(
                    child=report.child or "",
                    exception_class=crash.exception_class if crash else "",
                    place=crash.place if crash else "",
                )
            )

    def _await_end(self) -> None:
        self._started().wait_ended(None)
        self._board.over()
        halt = self.halt
        self._hooks.emit(
            PipelineEnded(
                reason=None if halt is None else halt.reason.value,
                detail="" if halt is None else halt.detail,
            )
        )
        self._end_told.set()


def live_source(config: Config) -> Source:
    """The configured server, as the stream and `capstan check` see it."""
    return LiveSource(
        config.source, config.tables, write_timeout=config.delivery.sink_timeout + _GRACE
    )


def _child(
    id_: str,
    start: Callable[[Roster], Actor],
    *,
    shutdown: float = STOP_TIMEOUT,
    watches: tuple[Watch, ...] = (),
) -> ChildSpec:
    return ChildSpec(
        id=id_,
        start=start,
        shutdown=shutdown,
        grace=_GRACE,
        start_within=START_WITHIN,
        watches=watches,
    )


def _unnamed(exit_: Exit) -> Halt | None:
    """A tree that ended by a crash of its own root: still a stop with a name."""
    if exit_.crash is None:
        return None
    return Halt(HaltReason.RESTARTS_EXHAUSTED, f"supervisor: {exit_.crash}")


def _counters(figures: Figures) -> dict[str, int]:
    return {
        name: value
        for name, value in attrs.asdict(figures, recurse=False).items()
        if isinstance(value, int)
    }


def _drained(tree: Tree) -> bool:
    """Whether those who hand things on to sink and store came to a good end by themselves."""
    return not any(
        child.interrupted or child.would_not_stop or child.exit != NORMAL_EXIT
        for child in tree.report().children
        if child.id in ("checkpoint", "coordinator")
    )
