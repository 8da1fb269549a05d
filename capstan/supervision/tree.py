"""The door to the room: launch a tree, ask it to end, read how it stands.

House rules: a tree owns its supervisors, their children and one ticking thread, and nothing else in
the process: no signal handler, no logging set-up, nobody else's actors. Several live side by side.
"""

import threading
import time
from collections.abc import Callable

from capstan.runtime import Address, Exit, spawn
from capstan.supervision.child import SupervisorSpec, validate
from capstan.supervision.report import Board, ChildReport, ChildState, SupervisorReport
from capstan.supervision.signals import Tick
from capstan.supervision.supervisor import Setting, Supervisor


class Tree:
    """A running tree, seen from outside; every method may be called from any thread."""

    def __init__(self, spec: SupervisorSpec, setting: Setting, tick: float) -> None:
        self._id = spec.id
        self._board = Board()
        self._is_ready = False
        self._start_decided, self._over = threading.Event(), threading.Event()
        self._root = spawn(
            lambda: Supervisor(spec, setting, self._board, self._on_ready),
            name=spec.id,
            incarnation=1,
            on_exit=self._on_exit,
        )
        try:
            self._start_ticking(tick)
        except BaseException:  # without its ticker a tree has no deadlines
            self._root.interrupt()
            raise

    def request_stop(self) -> None:
        """Ask for the end: all children drain in the mirror of their start order."""
        self._root.request_stop()

    def interrupt(self) -> None:
        """Interrupt all children at once; each has its grace to end."""
        self._root.interrupt()

    def stop(self, timeout: float | None = None) -> bool:
        """Ask for the end and wait for it; on a thread of the tree itself this waits in vain.

        Returns:
            True when the tree has ended, whatever is left over is in its report; False on timeout.
        """
        self.request_stop()
        return self.wait_ended(timeout)

    def wait_started(self, timeout: float | None = None) -> bool:
        """Wait until all children have started once; False on timeout or when it ended before."""
        return self._start_decided.wait(timeout) and self._is_ready

    def wait_ended(self, timeout: float | None = None) -> bool:
        """Wait until the root supervisor has ended; False on timeout."""
        return self._root.wait_ended(timeout)

    @property
    def exit(self) -> Exit | None:
        """How the tree ended: normal, halted with the first halt; crashed is a bug of this room."""
        return self._root.exit

    def report(self) -> ChildReport:
        """Give the whole tree as data."""
        exit_ = self.exit
        running = ChildState.RUNNING if self._is_ready else ChildState.STARTING
        return ChildReport(
            id=self._id,
            state=running if exit_ is None else ChildState.ENDED,
            incarnation=1,
            exit=exit_,
            children=self._board.reports(),
        )

    def address_of(self, child: str) -> Address | None:
        """Find a child by its id or its path (`stream/assembler`); None while it is not alive.

        Raises:
            KeyError: When the tree has no such child, or it has not been reached yet.
        """
        for path, address in self._board.addresses():
            if child in {path[-1], "/".join(path)}:
                return address
        raise KeyError(f"the tree has no child {child!r}")

    def _on_ready(self) -> None:
        self._is_ready = True
        self._start_decided.set()

    def _on_exit(self, _: Exit) -> None:
        self._start_decided.set()
        self._over.set()

    def _start_ticking(self, seconds: float) -> None:
        def tick() -> None:
            while not self._over.wait(seconds):
                self._root.address.send(Tick())

        threading.Thread(target=tick, name=f"{self._id} ticker", daemon=True).start()


def launch(
    spec: SupervisorSpec,
    *,
    observer: Callable[[SupervisorReport], object] | None = None,
    clock: Callable[[], float] = time.monotonic,
    tick: float = 0.05,
) -> Tree:
    """Start a tree; returns at once, while its children are starting.

    Args:
        spec: The root supervisor.
        observer: Told each event on a supervisor's thread, by two threads at once in a deep tree;
            what it raises is lost.
        clock: Monotonic seconds, the same that busy marks run on.
        tick: Real seconds between two looks at deadlines and watches.

    Raises:
        ValueError: When the spec breaks a rule or `tick` is not positive; nothing was started.
    """
    validate(spec)
    if not tick > 0:
        raise ValueError("tick must be more than zero seconds")
    return Tree(spec, Setting(clock=clock, observer=observer or (lambda _: None)), tick)
