"""The supervisor: starts its children in order, stops them in the mirror of it, judges each end.

House rules:

* It never waits. Starts, ends and the tick are messages, deadlines are looked at on the tick, so a
  stop request overtakes whatever is going on, and a retry can never become a loop.
* All it wants is kept in two sets: who has to go (`_condemned`) and who has to come (`_due`).
  `_proceed` takes the one next step towards them: first the last of those who have to go, then,
  when all are gone and the supervisor is ending, the end; else the first of those who have to come.
* The first halt is the verdict; later ones are only reported. A halt ends the tree: the others are
  asked to stop, with their deadlines, so that what they hold is still drained.
* No second life begins beside a first. Who would not stop ends the tree, and no exit of a
  supervisor leaves a child behind in silence, not even its own crash.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs

from capstan.core.halts import Halt, Halted, HaltReason
from capstan.runtime import NORMAL_EXIT, Actor, Exit, ExitKind
from capstan.supervision.child import ChildSpec, SupervisorSpec
from capstan.supervision.exits import Action, Restart, triage
from capstan.supervision.report import Board, ChildState, Context, SupervisorReport
from capstan.supervision.roster import Roster
from capstan.supervision.signals import ChildExited, ChildStarted, Tick
from capstan.supervision.strategy import affected
from capstan.supervision.ward import Ward


@attrs.frozen(kw_only=True)
class Setting:
    """What all supervisors of one tree share.

    Attributes:
        clock: Monotonic seconds; the children's busy marks run on the same.
        observer: Told each event, on the supervisor's thread; what it raises is lost.
    """

    clock: Callable[[], float]
    observer: Callable[[SupervisorReport], object]
    _incarnations: dict[str, int] = attrs.field(factory=dict, init=False)

    def next_incarnation(self, id_: str) -> int:
        """Number the next life; numbers go on when a supervisor above starts all over again."""
        self._incarnations[id_] = self._incarnations.get(id_, 0) + 1
        return self._incarnations[id_]

    def tell(self, report: SupervisorReport) -> None:
        """Tell the observer."""
        with suppress(BaseException):  # who only watches must not disturb
            self.observer(report)


class Supervisor(Actor):
    """One supervisor, a child or the root."""

    def __init__(
        self,
        spec: SupervisorSpec,
        setting: Setting,
        board: Board,
        on_ready: Callable[[], object],
        above: Roster | None = None,
    ) -> None:
        """Make a supervisor that has not begun.

        Args:
            spec: Its spec, validated.
            setting: The tree's.
            board: Where it shows its children.
            on_ready: Called once, when all children have started for the first time.
            above: What is in front of it, for its children to find.
        """
        super().__init__()
        self._spec, self._setting, self._board, self._above = spec, setting, board, above
        self._on_ready: Callable[[], object] | None = on_ready
        self._wards = {child.id: Ward(child) for child in spec.children}
        self._condemned: set[str] = set()
        self._due = set(self._wards)
        self._stamps: tuple[float, ...] = ()
        self._ending = False
        self._halt: Halt | None = None
        self._show()

    # What it hears.

    def started(self) -> None:
        """Start the first child; the others follow one by one."""
        self._proceed()

    def receive(self, message: Any) -> None:
        """Hear of a child, or of time."""
        match message:
            case ChildStarted(id_, incarnation) if self._lives(id_, incarnation):
                self._child_started(self._wards[id_])
            case ChildExited(id_, incarnation, exit_) if self._lives(id_, incarnation):
                self._child_exited(self._wards[id_], exit_)
            case Tick():
                self._tick(message)
        self._proceed()

    def stop_requested(self) -> None:
        """Stop the children in the mirror of their start order, each with its deadline."""
        self._end()
        self._proceed()

    def interrupted(self) -> None:
        """Interrupt all children at once and end when they have ended or were given up."""
        for ward in self._alive():
            ward.interrupt(self._setting.clock())
        self._end()
        self._proceed()

    def exit_from_outside(self) -> Exit:
        """Keep the verdict there was."""
        if self._halt is None:
            return super().exit_from_outside()
        return Exit(ExitKind.HALTED, self._halt)

    def stopped(self) -> None:
        """See to it that no child is left behind, when the end was not a planned one."""
        left = list(self._alive())
        for ward in left:
            ward.interrupt(math.inf)
        for ward in left:
            ward.wait_out()
        self._show()
        stuck = next((w for w in left if w.state is ChildState.WOULD_NOT_STOP), None)
        if stuck is not None:
            raise Halted(self._would_not_stop(stuck))

    def _lives(self, id_: str, incarnation: int) -> bool:
        return self._wards[id_].incarnation == incarnation

    def _child_started(self, ward: Ward) -> None:
        ward.has_started()
        self._tell(Context.CHILD_STARTED, ward)

    def _child_exited(self, ward: Ward, exit_: Exit) -> None:
        expected = self._ending or ward.id in self._condemned
        exit_ = ward.has_ended(exit_)
        self._condemned.discard(ward.id)
        self._tell(Context.CHILD_EXITED, ward, exit_)
        action = triage(ward.spec.restart, exit_.kind)
        if action is Action.END_TREE:
            self._end(exit_.halt)
        elif action is Action.RESTART and not expected:
            self._restart(ward, exit_)

    def _tick(self, tick: Tick) -> None:
        now = self._setting.clock()
        for ward in self._alive():
            if isinstance(ward.spec, SupervisorSpec):
                ward.running.address.send(tick)
            halt = ward.over_limit(now)
            if halt is not None:
                self._tell(Context.CHILD_OVER_LIMIT, ward)
                ward.interrupt(now)
                self._end(halt)
            if ward.lose_patience(now):
                self._tell(Context.CHILD_WOULD_NOT_STOP, ward)
                self._end(self._would_not_stop(ward))

    # What it decides.

    def _restart(self, failed: Ward, exit_: Exit) -> None:
        stamps = self._spec.intensity.add_restart(self._stamps, self._setting.clock())
        if stamps is None:
            self._end(self._exhausted(failed, exit_))
            return
        self._stamps = stamps
        self._tell(Context.CHILD_RESTARTING, failed, exit_)
        for id_ in affected(self._spec.strategy, tuple(self._wards), failed.id):
            ward = self._wards[id_]
            if ward.state.alive:
                self._condemned.add(id_)
            if ward.spec.restart is not Restart.TEMPORARY:
                self._due.add(id_)

    def _end(self, halt: Halt | None = None) -> None:
        self._halt = self._halt or halt
        self._ending = True
        self._condemned = {ward.id for ward in self._alive()}

    def _exhausted(self, ward: Ward, exit_: Exit) -> Halt:
        limit = self._spec.intensity
        last = "a normal end" if exit_.crash is None else str(exit_.crash)
        detail = f"{ward.id}: over {limit.restarts} restarts in {limit.seconds:g} s, last {last}"
        return Halt(HaltReason.RESTARTS_EXHAUSTED, detail)

    @staticmethod
    def _would_not_stop(ward: Ward) -> Halt:
        return Halt(HaltReason.CHILD_WOULD_NOT_STOP, ward.id)

    # What it does.

    def _proceed(self) -> None:
        """Take the one next step; called behind everything it hears."""
        wards = self._wards.values()
        doomed = next((w for w in reversed(wards) if w.id in self._condemned), None)
        if doomed is not None:
            doomed.stop(self._setting.clock())
        elif self._ending:
            self._finish_with_verdict()
        elif not any(ward.in_transit for ward in wards):
            self._start_next()
        self._show()

    def _start_next(self) -> None:
        ward = next((w for w in self._wards.values() if w.id in self._due), None)
        if ward is not None:
            self._due.discard(ward.id)
            incarnation = self._setting.next_incarnation(ward.id)
            factory = self._factory(ward, incarnation)
            ward.start(factory, incarnation, self._setting.clock(), self.address)
        elif self._on_ready is not None:
            on_ready, self._on_ready = self._on_ready, None
            on_ready()

    def _factory(self, ward: Ward, incarnation: int) -> Callable[[], Actor]:
        ids = list(self._wards)
        in_front = frozenset(ids[: ids.index(ward.id)])
        roster = Roster(self._board, in_front, self._above)
        spec, below, owner = ward.spec, ward.below, self.address
        if isinstance(spec, ChildSpec):
            return lambda: spec.start(roster)
        ready = ChildStarted(ward.id, incarnation)
        return lambda: Supervisor(spec, self._setting, below, lambda: owner.send(ready), roster)

    def _finish_with_verdict(self) -> None:
        self._show()
        exit_ = NORMAL_EXIT if self._halt is None else Exit(ExitKind.HALTED, self._halt)
        self._setting.tell(SupervisorReport(self._spec.id, Context.SUPERVISOR_ENDING, exit=exit_))
        if self._halt is not None:
            raise Halted(self._halt)
        self.finish()

    def _alive(self) -> list[Ward]:
        return [ward for ward in self._wards.values() if ward.state.alive]

    def _show(self) -> None:
        self._board.show(tuple(ward.row() for ward in self._wards.values()))

    def _tell(self, context: Context, ward: Ward, exit_: Exit | None = None) -> None:
        report = SupervisorReport(self._spec.id, context, ward.id, ward.incarnation, exit_)
        self._setting.tell(report)
