"""Puppets: supervised actors that do as they are told, and the stage where a test watches them.

House rules: nothing sleeps. Whatever happens to a puppet, and whatever a tree tells its observer,
is noted on the stage; a test waits for notes, with a deadline, and reads their order.
"""

import queue
import threading
from enum import StrEnum
from typing import Any

from capstan.core.halts import HaltReason, halted
from capstan.runtime import Actor, Exit, Running, spawn
from capstan.supervision.child import ChildSpec, SupervisorSpec
from capstan.supervision.intensity import Intensity
from capstan.supervision.report import ChildReport, ChildState, SupervisorReport
from capstan.supervision.roster import Roster
from capstan.supervision.strategy import Strategy
from capstan.supervision.tree import Tree, launch
from capstan.testing import ManualClock
from helpers.waiting import wait_until

DEADLINE = 20.0
SENTINEL = "row-value-4711"


class Order(StrEnum):
    """What a puppet can be told to do, as a message or in its constructor for its start."""

    HAPPY = "happy"
    CRASH = "crash"
    EXIT = "exit"
    HALT = "halt"
    FINISH = "finish"
    BLOCK = "block"
    HANG = "hang"


HANGS = {"at_start": Order.HANG}
BLOCKS = {"at_start": Order.BLOCK}
CRASHES = {"at_start": Order.CRASH}
HALTS = {"at_start": Order.HALT}
REFUSES = {"refuses": True}


class Stage:
    """Where notes are kept and waited for; thread-safe.

    A note says to whom something happened, and what: `coordinator#2 started`; the number is the
    incarnation. A supervisor's own notes look like `tree: child_exited coordinator#2 crashed`.

    Attributes:
        release: Set by a test, or at its end: puppets that hang go on.
    """

    def __init__(self) -> None:
        self.release = threading.Event()
        self._notes: list[str] = []
        self._changed = threading.Condition()

    def note(self, who: str, what: str) -> None:
        with self._changed:
            self._notes.append(f"{who} {what}")
            self._changed.notify_all()

    def observe(self, report: SupervisorReport) -> None:
        """Note what a supervisor tells."""
        child = "" if report.child is None else f" {report.child}#{report.incarnation}"
        exit_ = "" if report.exit is None else f" {report.exit.kind.value}"
        self.note(f"{report.supervisor}:", f"{report.context.value}{child}{exit_}")

    def notes(self, *only: str) -> list[str]:
        """All notes in order, or those that end with one of `only`."""
        with self._changed:
            return [note for note in self._notes if not only or note.endswith(only)]

    def wait_for(self, *notes: str) -> None:
        """Wait until all these notes are there."""
        with self._changed:
            done = self._changed.wait_for(lambda: set(notes) <= set(self._notes), DEADLINE)
            assert done, f"never saw all of {notes} in {self._notes}"


class Puppet(Actor):
    """Does as told; notes `started`, each order, `asked to stop`, `stopped` on its stage."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        *,
        at_start: Order = Order.HAPPY,
        at_end: Order = Order.HAPPY,
        refuses: bool = False,
    ) -> None:
        super().__init__()
        self._stage, self._name = stage, name
        self._at_start, self._at_end, self._refuses = at_start, at_end, refuses

    def started(self) -> None:
        self._name = f"{self._name}#{self.incarnation}"
        self.stop_signal.on_set(lambda: self._stage.note(self._name, "was interrupted"))
        self._stage.note(self._name, "starting")
        self._obey(self._at_start)
        self._stage.note(self._name, "started")

    def receive(self, message: Any) -> None:
        self._stage.note(self._name, str(message))
        if isinstance(message, Order):
            self._obey(message)

    def stop_requested(self) -> None:
        self._stage.note(self._name, "asked to stop")
        if not self._refuses:
            self.finish()

    def stopped(self) -> None:
        self._stage.note(self._name, "stopped")
        self._obey(self._at_end)

    def _obey(self, order: Order) -> None:
        match order:
            case Order.HAPPY:
                pass
            case Order.CRASH:
                raise ValueError(SENTINEL)
            case Order.EXIT:
                raise SystemExit(SENTINEL)
            case Order.HALT:
                raise halted(HaltReason.SINK_FAILED, self._name)
            case Order.FINISH:
                self.finish()
            case Order.BLOCK:
                with self.busy.doing("work"):
                    self.stop_signal.wait(DEADLINE)
            case Order.HANG:
                with self.busy.doing("work"):
                    self._stage.release.wait(DEADLINE)


class Owner:
    """Spawns puppets for one test and sees to it that all of them end."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.exits: queue.SimpleQueue[Exit] = queue.SimpleQueue()
        self._all: list[Running] = []

    def spawn(self, **puppet: Any) -> Running:
        """Spawn a puppet named `p`."""
        running = spawn(
            lambda: Puppet(self.stage, "p", **puppet),
            name="p",
            incarnation=1,
            on_exit=self.exits.put,
        )
        self._all.append(running)
        return running

    def exit_of(self, running: Running) -> Exit:
        """Wait for its end; the exit it was told is the one that shows."""
        exit_ = self.exits.get(timeout=DEADLINE)
        assert running.wait_ended(DEADLINE)
        assert running.exit == exit_
        return exit_

    def close(self) -> None:
        """End all that is left."""
        self.stage.release.set()
        for running in self._all:
            running.interrupt()
            assert running.wait_ended(DEADLINE)


def puppet(stage: Stage, id_: str, *lives: dict[str, Any], **spec: Any) -> ChildSpec:
    """Specify a puppet child.

    Args:
        stage: Where it plays.
        id_: Its id.
        lives: Keywords for the constructor of each life; the last one serves all later lives.
        spec: Fields of the child spec. Deadlines are so long that only a pushed clock passes them.
    """
    remaining = list(lives or ({},))

    def start(_: Roster) -> Actor:
        return Puppet(stage, id_, **(remaining.pop(0) if len(remaining) > 1 else remaining[0]))

    patience = {"shutdown": 1000.0, "grace": 1000.0, "start_within": 1000.0}
    return ChildSpec(id=id_, **{"start": start, **patience, **spec})


def tree_of(
    *children: ChildSpec | SupervisorSpec,
    id_: str = "tree",
    strategy: Strategy = Strategy.ONE_FOR_ONE,
    restarts: int = 3,
    seconds: float = 1_000_000.0,
) -> SupervisorSpec:
    """Specify a supervisor over `children`."""
    return SupervisorSpec(
        id=id_, strategy=strategy, intensity=Intensity(restarts, seconds), children=children
    )


class Theatre:
    """Trees of puppets for one test, on one stage, under one clock; all end with the test."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.clock = ManualClock()
        self._trees: list[Tree] = []

    def launch(self, spec: SupervisorSpec, *, ready: bool = True) -> Tree:
        """Launch a tree; wait until its children have started, unless a start is the subject."""
        tree = launch(spec, observer=self.stage.observe, clock=self.clock, tick=0.002)
        self._trees.append(tree)
        if ready:
            assert tree.wait_started(DEADLINE), self.stage.notes()
        return tree

    def tell(self, child: str, *orders: Order) -> None:
        """Give orders to a child of the tree launched last."""
        address = self._trees[-1].address_of(child)
        assert address is not None, child
        for order in orders:
            assert address.send(order)

    def exit_of(self, tree: Tree) -> Exit:
        """Wait for the end of a tree."""
        assert tree.wait_ended(DEADLINE), self.stage.notes()
        assert tree.exit is not None
        return tree.exit

    def close(self) -> None:
        """Let go of what hangs and end all trees."""
        self.stage.release.set()
        for tree in self._trees:
            tree.interrupt()
            assert tree.wait_ended(DEADLINE), self.stage.notes()


def abc(stage: Stage, **b: Any) -> tuple[ChildSpec, ...]:
    """Three puppets; the fields of the middle one can be given."""
    return puppet(stage, "a"), puppet(stage, "b", **b), puppet(stage, "c")


def reports(tree: Tree) -> dict[str, ChildReport]:
    """Each child and grandchild."""
    tops = tree.report().children
    return {child.id: child for top in tops for child in (top, *top.children)}


def lives(tree: Tree) -> dict[str, int]:
    """The incarnation of each child and grandchild."""
    return {id_: child.incarnation for id_, child in reports(tree).items()}


def child_of(tree: Tree, id_: str) -> ChildReport:
    """One child's report."""
    return reports(tree)[id_]


def wait_for_state(tree: Tree, id_: str, state: ChildState) -> None:
    """Wait until a child that says nothing itself shows a state; its deadline is set by then."""
    wait_until(lambda: child_of(tree, id_).state is state, what=f"{id_} is {state.value}")
