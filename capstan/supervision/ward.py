"""One child as its supervisor keeps it: spec, thread, state, deadline.

House rules: a ward knows the ladder of one child (starting, running, asked to stop, interrupted,
given up, ended) and nothing of its siblings; it never waits and decides no one's fate but its own.
The next life begins only when the one before has ended: a ward that was given up stays given up.
"""

import math
from collections.abc import Callable
from typing import Final

import attrs

from capstan.core.halts import Halt
from capstan.runtime import Actor, Address, Crash, Exit, ExitKind, Running, spawn
from capstan.supervision.child import ChildSpec, SupervisorSpec
from capstan.supervision.report import Board, BoardRow, ChildReport, ChildState
from capstan.supervision.signals import ChildExited, ChildStarted

_TIMED_OUT: Final = Crash("TimeoutError", "started()")


@attrs.define(eq=False)
class Ward:
    """One child under a supervisor, over all its lives.

    Attributes:
        spec: What it is.
        state: Where it stands.
        running: Its present or last life; before the first a dead one.
        incarnation: Number of that life; 0 before the first.
        exit: How its last ended life ended.
        deadline: When its supervisor loses patience with it, in its clock's seconds.
        below: What it shows, when it is a supervisor; else empty.
    """

    spec: ChildSpec | SupervisorSpec
    state: ChildState = ChildState.WAITING
    running: Running = attrs.field(init=False)
    incarnation: int = 0
    exit: Exit | None = None
    deadline: float = math.inf
    below: Board = attrs.field(factory=Board)
    _interrupted: bool = False
    _start_timed_out: bool = False
    _given_up: bool = False

    @running.default
    def _never_lived(self) -> Running:
        return Running(Address(self.spec.id, 0), lambda: None, lambda _: None)

    @property
    def id(self) -> str:
        """Its name."""
        return self.spec.id

    @property
    def in_transit(self) -> bool:
        """Whether it is on its way up or down, so that nobody else may set out."""
        return self.state.alive and self.state is not ChildState.RUNNING

    def start(
        self, factory: Callable[[], Actor], incarnation: int, now: float, owner: Address
    ) -> None:
        """Begin the next life; `owner` hears of its start (an actor's only) and its end."""
        self.state, self.incarnation = ChildState.STARTING, incarnation
        self.deadline = now + self.spec.start_within
        self._interrupted = self._start_timed_out = False
        id_ = self.id
        is_actor = isinstance(self.spec, ChildSpec)
        self.running = spawn(
            factory,
            name=id_,
            incarnation=incarnation,
            on_started=lambda: is_actor and owner.send(ChildStarted(id_, incarnation)),
            on_exit=lambda exit_: owner.send(ChildExited(id_, incarnation, exit_)),
        )

    def has_started(self) -> None:
        """Note that its start is over."""
        if self.state is ChildState.STARTING:
            self.state, self.deadline = ChildState.RUNNING, math.inf

    def stop(self, now: float) -> None:
        """Ask it to drain, or interrupt it when it has nothing to drain; once."""
        if self.state not in {ChildState.STARTING, ChildState.RUNNING}:
            return
        if self.spec.shutdown == 0:
            self.interrupt(now)
            return
        self.state, self.deadline = ChildState.STOPPING, now + self.spec.shutdown
        self.running.request_stop()

    def interrupt(self, now: float) -> None:
        """Give its stop signal, once."""
        if self.state is ChildState.INTERRUPTED or not self.state.alive:
            return
        self.state, self.deadline = ChildState.INTERRUPTED, now + self.spec.grace
        self._interrupted = True
        self.running.interrupt()

    def lose_patience(self, now: float) -> bool:
        """Take the next rung down when its deadline has passed; True when it was given up."""
        if not self.state.alive or now < self.deadline:
            return False
        if self.state is ChildState.INTERRUPTED:
            self.give_up()
            return True
        self._start_timed_out = self.state is ChildState.STARTING
        self.interrupt(now)
        return False

    def give_up(self) -> None:
        """Note that it would not stop."""
        self.state, self.deadline, self._given_up = ChildState.WOULD_NOT_STOP, math.inf, True

    def has_ended(self, exit_: Exit) -> Exit:
        """Note its end; give back the exit that counts.

        A start that took too long was interrupted; however that ended, short of a halt, it is a
        start that failed.
        """
        if self._start_timed_out and exit_.halt is None:
            exit_ = Exit(ExitKind.NEVER_STARTED, crash=exit_.crash or _TIMED_OUT)
        self.state, self.deadline, self.exit = ChildState.ENDED, math.inf, exit_
        return exit_

    def wait_out(self) -> None:
        """Wait for the end it was interrupted for; only when no tick will come any more."""
        patience = None if math.isinf(self.spec.grace) else self.spec.grace
        if self.running.wait_ended(patience) and self.running.exit is not None:
            self.has_ended(self.running.exit)
        else:
            self.give_up()

    def over_limit(self, now: float) -> Halt | None:
        """Give the verdict of the first watch whose limit is passed."""
        if not self.state.alive or self.state is ChildState.INTERRUPTED:
            return None
        for watch in self.spec.watches:
            busy = self.running.busy.seconds(watch.label, now)
            if busy is not None and busy > watch.limit_seconds:
                return watch.halt
        return None

    def row(self) -> BoardRow:
        """Show it."""
        report = ChildReport(
            id=self.id,
            state=self.state,
            incarnation=self.incarnation,
            restarts=max(0, self.incarnation - 1),
            exit=self.exit,
            interrupted=self._interrupted,
            would_not_stop=self._given_up,
        )
        return BoardRow(report, self.running.address if self.state.alive else None, self.below)
