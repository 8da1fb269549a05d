"""Claims about a supervisor that goes on: order, strategies, restarts."""

import pykka
import pytest
from helpers.puppets import (
    CRASHES,
    DEADLINE,
    HANGS,
    SENTINEL,
    Order,
    Stage,
    Theatre,
    abc,
    child_of,
    lives,
    puppet,
    tree_of,
)

from capstan.core.halts import Halt, HaltReason
from capstan.runtime import NORMAL_EXIT, Actor, Exit, ExitKind
from capstan.supervision.child import ChildSpec
from capstan.supervision.exits import Restart
from capstan.supervision.report import ChildState
from capstan.supervision.roster import Roster
from capstan.supervision.signals import ChildExited
from capstan.supervision.strategy import Strategy
from capstan.supervision.supervisor import Supervisor
from capstan.supervision.tree import Tree


class TestOrder:
    def test_children_start_in_order_and_stop_in_the_mirror_of_it(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """Each start waits for the one before, each stop for the one behind."""
        tree = theatre.launch(tree_of(*abc(stage)))
        tree.request_stop()

        assert theatre.exit_of(tree) == NORMAL_EXIT
        puppets = [note for note in stage.notes() if not note.startswith("tree:")]
        up = [f"{child}#1 {what}" for child in "abc" for what in ("starting", "started")]
        down = [f"{child}#1 {what}" for child in "cba" for what in ("asked to stop", "stopped")]
        assert puppets == up + down

    def test_a_child_whose_start_has_not_returned_holds_back_the_next(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """The next begins only when `started()` of the one before has returned."""
        first = puppet(stage, "a", HANGS)
        tree = theatre.launch(tree_of(first, puppet(stage, "b")), ready=False)
        stage.wait_for("a#1 starting")
        held_back = stage.notes()
        stage.release.set()

        assert tree.wait_started(DEADLINE)
        assert held_back == ["a#1 starting"]
        assert stage.notes("#1 starting", "#1 started")[:3] == [
            "a#1 starting",
            "a#1 started",
            "b#1 starting",
        ]

    def test_a_stop_during_the_start_stops_only_what_has_begun(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """What still waited for its turn never begins."""
        tree = theatre.launch(tree_of(puppet(stage, "a", HANGS), puppet(stage, "b")), ready=False)
        stage.wait_for("a#1 starting")
        tree.request_stop()
        stage.release.set()

        assert theatre.exit_of(tree) == NORMAL_EXIT
        assert stage.notes("asked to stop", "b#1 starting") == ["a#1 asked to stop"]
        assert child_of(tree, "b").state is ChildState.WAITING


RESTARTED = {
    Strategy.ONE_FOR_ONE: "b",
    Strategy.REST_FOR_ONE: "bc",
    Strategy.ONE_FOR_ALL: "abc",
}


@pytest.mark.parametrize("strategy", Strategy)
class TestStrategies:
    def test_plain(self, theatre: Theatre, stage: Stage, strategy: Strategy) -> None:
        """A crash takes its companions down in mirror order and brings them up in order."""
        tree = theatre.launch(tree_of(*abc(stage), strategy=strategy))
        theatre.tell("b", Order.CRASH)
        together = RESTARTED[strategy]
        stage.wait_for(f"tree: child_started {together[-1]}#2")

        assert lives(tree) == {child: 2 if child in together else 1 for child in "abc"}
        companions = [child for child in reversed(together) if child != "b"]
        assert stage.notes("asked to stop") == [f"{c}#1 asked to stop" for c in companions]
        assert stage.notes("#2 starting") == [f"{c}#2 starting" for c in together]
        assert child_of(tree, "b").restarts == 1

    def test_escalation(self, theatre: Theatre, stage: Stage, strategy: Strategy) -> None:
        """R267: one crash too many ends the tree; the verdict names child, class and place only."""
        tree = theatre.launch(tree_of(*abc(stage), strategy=strategy, restarts=1))
        theatre.tell("b", Order.CRASH)
        stage.wait_for(f"tree: child_started {RESTARTED[strategy][-1]}#2")
        theatre.tell("b", Order.CRASH)

        exit_ = theatre.exit_of(tree)

        assert exit_.kind is ExitKind.HALTED
        assert exit_.halt is not None
        assert exit_.halt.reason is HaltReason.RESTARTS_EXHAUSTED
        assert exit_.halt.detail.startswith("b: over 1 restarts in 1e+06 s, last ValueError at ")
        assert "puppets.py:" in exit_.halt.detail
        assert SENTINEL not in exit_.halt.detail
        last = {child: lives(tree)[child] for child in "ca"}
        assert stage.notes("asked to stop")[-2:] == [
            f"{c}#{n} asked to stop" for c, n in last.items()
        ]

    def test_another_child_fails_meanwhile(
        self, theatre: Theatre, stage: Stage, strategy: Strategy
    ) -> None:
        """A second failure during a restart widens it; nobody is left out, nobody comes twice."""
        failing, expected = {
            Strategy.ONE_FOR_ONE: ("c#1", {"a": 1, "b": 2, "c": 2}),
            Strategy.REST_FOR_ONE: ("a#1", {"a": 2, "b": 3, "c": 2}),
            Strategy.ONE_FOR_ALL: ("a#2", {"a": 3, "b": 3, "c": 2}),
        }[strategy]
        middle = puppet(stage, "b", {}, HANGS, {})
        children = (puppet(stage, "a"), middle, puppet(stage, "c"))
        tree = theatre.launch(tree_of(*children, strategy=strategy))
        theatre.tell("b", Order.CRASH)
        stage.wait_for("b#2 starting")
        theatre.tell(failing[0], Order.CRASH)
        stage.wait_for(f"tree: child_exited {failing} crashed")
        stage.release.set()
        stage.wait_for(*(f"tree: child_started {c}#{n}" for c, n in expected.items()))

        assert lives(tree) == expected
        assert tree.exit is None


class TestRestarts:
    @pytest.mark.parametrize(
        ("restart", "order", "comes_again"),
        [
            (Restart.PERMANENT, Order.FINISH, True),
            (Restart.PERMANENT, Order.EXIT, True),
            (Restart.TRANSIENT, Order.FINISH, False),
            (Restart.TRANSIENT, Order.CRASH, True),
            (Restart.TEMPORARY, Order.FINISH, False),
            (Restart.TEMPORARY, Order.CRASH, False),
        ],
    )
    def test_a_child_comes_again_as_its_kind_says(
        self, theatre: Theatre, stage: Stage, restart: Restart, order: Order, comes_again: bool
    ) -> None:
        """The triage, live; a sibling's restart is the barrier that shows nothing more comes."""
        tree = theatre.launch(tree_of(puppet(stage, "x", restart=restart), puppet(stage, "y")))
        theatre.tell("x", order)
        stage.wait_for(f"tree: child_exited x#1 {'normal' if order is Order.FINISH else 'crashed'}")
        theatre.tell("y", Order.CRASH)
        stage.wait_for("tree: child_started y#2")

        assert lives(tree) == {"x": 2 if comes_again else 1, "y": 2}
        if not comes_again:
            assert child_of(tree, "x").state is ChildState.ENDED

    def test_a_transient_child_that_was_done_comes_again_with_its_sibling(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """Its work was for a life that is over; a temporary one in its place stays away."""
        done = puppet(stage, "done", restart=Restart.TRANSIENT)
        once = puppet(stage, "once", restart=Restart.TEMPORARY)
        spec = tree_of(puppet(stage, "a"), done, once, strategy=Strategy.REST_FOR_ONE)
        tree = theatre.launch(spec)
        theatre.tell("done", Order.FINISH)
        stage.wait_for("tree: child_exited done#1 normal")
        for number in (2, 3):
            theatre.tell("a", Order.CRASH)
            stage.wait_for(f"tree: child_started done#{number}")

        assert lives(tree) == {"a": 3, "done": 3, "once": 1}
        assert child_of(tree, "once").exit == NORMAL_EXIT

    def test_a_start_that_fails_is_tried_again(self, theatre: Theatre, stage: Stage) -> None:
        """A failed start counts as a restart; what comes behind waits for the one that succeeds."""
        first = puppet(stage, "a", CRASHES, CRASHES, {})
        tree = theatre.launch(tree_of(first, puppet(stage, "b"), restarts=2))

        assert lives(tree) == {"a": 3, "b": 1}
        assert stage.notes("never_started") == [
            note
            for number in (1, 2)
            for note in (
                f"tree: child_exited a#{number} never_started",
                f"tree: child_restarting a#{number} never_started",
            )
        ]

    def test_starts_that_always_fail_exhaust_the_intensity(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """R267: the tree never gets ready, and says which child and why."""
        tree = theatre.launch(tree_of(puppet(stage, "a", CRASHES), restarts=2), ready=False)

        exit_ = theatre.exit_of(tree)

        assert exit_.halt is not None
        assert exit_.halt.reason is HaltReason.RESTARTS_EXHAUSTED
        assert exit_.halt.detail.startswith("a: over 2 restarts in 1e+06 s, last ValueError at")
        assert not tree.wait_started(DEADLINE)
        assert lives(tree) == {"a": 3}

    def test_a_stop_overtakes_a_start_that_is_tried_again_and_again(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """A retry goes through the mailbox, so it is no loop: the stop in front of it wins."""
        trees: list[Tree] = []
        attempts: list[int] = []
        stage_is_set = stage.release

        def start(_: Roster) -> Actor:
            attempts.append(len(attempts))
            if len(attempts) == 2:
                assert stage_is_set.wait(DEADLINE)
                trees[0].request_stop()
            raise ValueError(SENTINEL)

        broken = ChildSpec(id="a", start=start, start_within=10.0, grace=1.0)
        trees.append(theatre.launch(tree_of(broken, restarts=1000), ready=False))
        stage_is_set.set()

        assert theatre.exit_of(trees[0]) == NORMAL_EXIT
        assert len(attempts) == 2

    def test_restarts_further_apart_than_the_window_never_exhaust_it(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """One within ten thousand seconds, live: the clock moves on between the crashes."""
        child = puppet(stage, "a", start_within=10.0, grace=1.0)
        tree = theatre.launch(tree_of(child, restarts=1, seconds=10_000.0))
        for number in range(1, 4):
            theatre.tell("a", Order.CRASH)
            stage.wait_for(f"tree: child_started a#{number + 1}")
            theatre.clock.push(10_001.0)

        assert tree.exit is None
        assert child_of(tree, "a").restarts == 3

    def test_what_is_said_about_an_older_life_is_dropped(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """A late word about the first life does no harm to the second."""
        tree = theatre.launch(tree_of(puppet(stage, "a"), puppet(stage, "b")))
        theatre.tell("a", Order.CRASH)
        stage.wait_for("tree: child_started a#2")
        (supervisor,) = pykka.ActorRegistry.get_by_class(Supervisor)
        halted = Exit(ExitKind.HALTED, Halt(HaltReason.SINK_FAILED))
        supervisor.tell(ChildExited("a", 1, halted))
        theatre.tell("b", Order.CRASH)
        stage.wait_for("tree: child_started b#2")

        assert lives(tree) == {"a": 2, "b": 2}
        assert tree.exit is None

    def test_a_permanent_child_that_ends_normally_too_often_is_named(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """R267: without a crash the verdict says so."""
        tree = theatre.launch(tree_of(puppet(stage, "a"), restarts=0))
        theatre.tell("a", Order.FINISH)

        halt = theatre.exit_of(tree).halt

        assert halt is not None
        assert halt.detail == "a: over 0 restarts in 1e+06 s, last a normal end"
