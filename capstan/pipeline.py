"""The composition root: a configuration becomes a supervision tree; start, wait, look, stop.

House rules: with its `wiring` the only place that knows every room. It decides nothing about data.
A pipeline lives once; several live beside each other in one process, and none touches another's
actors, the host's signals or its logging.
"""

import itertools
import threading
import time
from functools import partial
from types import TracebackType
from typing import Final, Self

import attrs

from capstan.actors.messages import VerifyWanted
from capstan.config import Config
from capstan.core.gtid import GtidSet
from capstan.core.halts import Halt, HaltReason
from capstan.core.verification import Verification
from capstan.errors import PipelineHalted
from capstan.runtime import NORMAL_EXIT, Exit
from capstan.sinks.base import Sink
from capstan.sources.base import Source, ViewSource
from capstan.supervision.report import Context, SupervisorReport
from capstan.supervision.tree import Tree, launch
from capstan.telemetry.backfill_progress import SnapshotProgress, snapshot_progress
from capstan.telemetry.board import Board, Figures
from capstan.telemetry.events import ChildRestarted, PipelineEnded
from capstan.telemetry.hooks import Hooks
from capstan.wiring import GRACE, STOP_TIMEOUT, Wiring

_LOOK: Final = 1.0
"""Seconds after which whoever waits for a verification looks whether anybody still works at it."""


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
        snapshot: How far the backfill is; None without one.
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
    snapshot: SnapshotProgress | None
    tree: list[dict[str, object]]


class Pipeline:
    """Streams one source into one sink, under supervision.

    Args:
        config: What to read, where to, and how.
        source: Another source than the live server of the configuration, for tests.
        views: Another source of views, likewise.
        verifies: Make `verify()` possible without a `[snapshot]` section, too.
    """

    def __init__(
        self,
        config: Config,
        *,
        source: Source | None = None,
        views: ViewSource | None = None,
        verifies: bool = False,
    ) -> None:
        self._config = config
        self._verifies = verifies or config.snapshot is not None
        self._verifications = itertools.count(1)
        self._board = Board()
        self._hooks = Hooks(config.observers)
        self._wiring = Wiring(config, self._board, self._hooks, source, views, verifies=verifies)
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
        self._tree = launch(self._wiring.spec(), observer=self._observe)
        if self._stopping:
            self._tree.request_stop()
        threading.Thread(target=self._await_end, name="capstan-end", daemon=True).start()
        try:
            self._board.wait(self._is_open, None)
        except BaseException:  # an interrupted start leaves nothing running that nobody would stop
            self.request_stop()
            raise
        self._raise_if_halted()

    def _is_open(self, figures: Figures) -> bool:
        if figures.failed_dials:
            return True
        backfilling = self._config.snapshot is not None
        return bool(figures.connects) and (figures.snapshot_resolved or not backfilling)

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
        self._end_told.wait(GRACE)

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

    def wait_snapshot(self, timeout: float | None = None) -> bool:
        """Wait until every table of the backfill is complete.

        Returns:
            True then, False on timeout, when the pipeline was stopped before, or without a
            backfill.

        Raises:
            PipelineHalted: When it halts or has halted.
        """
        self._started()
        if self._config.snapshot is None:
            return False
        complete = self._board.wait(lambda figures: figures.snapshot_complete, timeout)
        if not complete:
            self._raise_if_halted()
        return complete

    def verify(self, timeout: float | None = None) -> Verification | None:
        """Compare the source with the sink, range by range, each at one exact position.

        Writers and the stream go on meanwhile; a backfill that runs comes first. Tables without a
        key that can be paged, and engines without a view, are named as refused.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Returns:
            The outcome; None on timeout or when the pipeline was stopped before.

        Raises:
            PipelineHalted: When it halts or has halted.
            ValueError: For a sink without `compare_range`, and for a pipeline without a chunk
                reader (`[snapshot]`, or `Pipeline(…, verifies=True)`).
        """
        tree = self._started()
        self._refuse_unverifiable()
        number, asked = next(self._verifications), 0
        deadline = None if timeout is None else time.monotonic() + timeout
        while tree.exit is None and (deadline is None or time.monotonic() < deadline):
            address = tree.address_of("coordinator")
            if address is not None and address.incarnation != asked:
                # Another life of the coordinator knows nothing of what was asked of the last.
                asked = address.incarnation
                address.send(VerifyWanted(number))
            left = _LOOK if deadline is None else max(0.0, deadline - time.monotonic())
            self._board.wait(partial(_is_verified, number=number), min(_LOOK, left))
            figures = self._board.figures
            if figures.verified is not None and figures.verified[0] == number:
                return figures.verified[1]
        self._raise_if_halted()
        return None

    def _refuse_unverifiable(self) -> None:
        if type(self._config.sink).compare_range is Sink.compare_range:
            raise ValueError("the sink cannot be compared: it has no compare_range")
        if not self._verifies:
            raise ValueError("nothing reads tables here: Pipeline(config, verifies=True) does")

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
            snapshot=None if self._config.snapshot is None else snapshot_progress(figures),
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
            self._end_told.wait(GRACE)
            raise PipelineHalted(halt)

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
        self._wiring.spools.close_all()
        self._board.over()
        halt = self.halt
        self._hooks.emit(
            PipelineEnded(
                reason=None if halt is None else halt.reason.value,
                detail="" if halt is None else halt.detail,
            )
        )
        self._end_told.set()


def _is_verified(figures: Figures, *, number: int) -> bool:
    return figures.verified is not None and figures.verified[0] == number


def _unnamed(exit_: Exit) -> Halt | None:
    """A tree that ended by a crash of its own root: still a stop with a name."""
    if exit_.crash is None:
        return None
    return Halt(HaltReason.RESTARTS_EXHAUSTED, f"supervisor: {exit_.crash}")


def _counters(figures: Figures) -> dict[str, int]:
    return {
        name: value
        for name, value in attrs.asdict(figures, recurse=False).items()
        if isinstance(value, int) and not isinstance(value, bool)
    }


def _drained(tree: Tree) -> bool:
    """Whether those who hand things on to sink and store came to a good end by themselves."""
    return not any(
        child.interrupted or child.would_not_stop or child.exit != NORMAL_EXIT
        for child in tree.report().children
        if child.id in ("checkpoint", "coordinator")
    )
