"""Claims about a supervisor: order, strategies, verdicts, the ladder down, supervisors below."""

from typing import Any

import pytest
from helpers.puppets import DEADLINE, SENTINEL, Order, Puppet, Stage, Theatre, puppet, tree_of
from helpers.waiting import wait_until

from capstan.core.halts import Halt, HaltReason
from capstan.runtime import NORMAL_EXIT, Actor, ExitKind
from capstan.supervision.child import ChildSpec, Watch
from capstan.supervision.exits import Restart
from capstan.supervision.report import ChildReport, ChildState
from capstan.supervision.roster import Roster
from capstan.supervision.strategy import Strategy
from capstan.supervision.tree import Tree

HANGS = {"at_start": Order.HANG}
BLOCKS = {"at_start": Order.BLOCK}
CRASHES = {"at_start": Order.CRASH}
HALTS = {"at_start": Order.HALT}
REFUSES = {"refuses": True}


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
        theatre.tell("a", Order.CRASH)
        stage.wait_for("tree: child_started done#2")

        assert lives(tree) == {"a": 2, "done": 2, "once": 1}
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

    def test_a_permanent_child_that_ends_normally_too_often_is_named(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """R267: without a crash the verdict says so."""
        tree = theatre.launch(tree_of(puppet(stage, "a"), restarts=0))
        theatre.tell("a", Order.FINISH)

        halt = theatre.exit_of(tree).halt

        assert halt is not None
        assert halt.detail == "a: over 0 restarts in 1e+06 s, last a normal end"


class TestHalts:
    @pytest.mark.parametrize("strategy", Strategy)
    @pytest.mark.parametrize("restart", [Restart.PERMANENT, Restart.TRANSIENT])
    def test_a_halt_ends_the_tree_and_nothing_comes_again(
        self, theatre: Theatre, stage: Stage, strategy: Strategy, restart: Restart
    ) -> None:
        """R267: the others are asked to stop, upstream first, so that they can drain."""
        tree = theatre.launch(tree_of(*abc(stage, restart=restart), strategy=strategy))
        theatre.tell("b", Order.HALT)

        exit_ = theatre.exit_of(tree)

        assert (exit_.kind, exit_.halt) == (ExitKind.HALTED, Halt(HaltReason.SINK_FAILED, "b#1"))
        assert stage.notes("asked to stop") == ["c#1 asked to stop", "a#1 asked to stop"]
        assert lives(tree) == {"a": 1, "b": 1, "c": 1}
        assert stage.notes()[-1] == "tree: supervisor_ending halted"

    def test_a_temporary_child_halts_the_tree_too(self, theatre: Theatre, stage: Stage) -> None:
        """R266: a verdict counts, whoever gives it."""
        tree = theatre.launch(tree_of(puppet(stage, "a", restart=Restart.TEMPORARY)))
        theatre.tell("a", Order.HALT)

        assert theatre.exit_of(tree).halt == Halt(HaltReason.SINK_FAILED, "a#1")

    def test_the_first_halt_stays_the_reason(self, theatre: Theatre, stage: Stage) -> None:
        """R267: what halts while the tree is ending shows only in the report."""
        late = puppet(stage, "c", {"at_end": Order.HALT})
        tree = theatre.launch(tree_of(puppet(stage, "a"), puppet(stage, "b"), late))
        theatre.tell("b", Order.HALT)

        assert theatre.exit_of(tree).halt == Halt(HaltReason.SINK_FAILED, "b#1")
        reported = child_of(tree, "c").exit
        assert reported is not None
        assert reported.halt == Halt(HaltReason.SINK_FAILED, "c#1")

    def test_a_halt_at_the_start_ends_the_tree_before_the_next_begins(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """R267: a verdict in `started()` is not tried again."""
        spec = tree_of(puppet(stage, "a"), puppet(stage, "b", HALTS), puppet(stage, "c"))
        tree = theatre.launch(spec, ready=False)

        assert theatre.exit_of(tree).halt == Halt(HaltReason.SINK_FAILED, "b#1")
        assert not tree.wait_started(DEADLINE)
        assert lives(tree) == {"a": 1, "b": 1, "c": 0}

    def test_a_halt_during_a_stop_is_the_exit(self, theatre: Theatre, stage: Stage) -> None:
        """R266: a drain that fails does not pass for an orderly end."""
        tree = theatre.launch(tree_of(puppet(stage, "a", {"at_end": Order.HALT})))
        tree.request_stop()

        assert theatre.exit_of(tree).halt == Halt(HaltReason.SINK_FAILED, "a#1")

    def test_a_crash_during_a_stop_is_told_and_not_restarted(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """The end was asked for; how it went is in the report."""
        tree = theatre.launch(tree_of(puppet(stage, "a", {"at_end": Order.CRASH})))
        tree.request_stop()

        assert theatre.exit_of(tree) == NORMAL_EXIT
        assert "tree: child_exited a#1 crashed" in stage.notes()
        assert lives(tree) == {"a": 1}

    def test_a_halt_during_a_restart_calls_it_off(self, theatre: Theatre, stage: Stage) -> None:
        """R267: who was due to come again does not come any more."""
        children = (puppet(stage, "a"), puppet(stage, "b", {}, HANGS), puppet(stage, "c"))
        tree = theatre.launch(tree_of(*children, strategy=Strategy.REST_FOR_ONE))
        theatre.tell("b", Order.CRASH)
        stage.wait_for("b#2 starting")
        theatre.tell("a", Order.HALT)
        stage.wait_for("tree: child_exited a#1 halted")
        stage.release.set()

        assert theatre.exit_of(tree).halt == Halt(HaltReason.SINK_FAILED, "a#1")
        assert lives(tree) == {"a": 1, "b": 2, "c": 1}


class TestTheLadderDown:
    def test_p8_who_does_not_drain_in_time_is_interrupted(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """The shutdown deadline, then the interrupt, then a normal end that says how it came."""
        tree = theatre.launch(tree_of(puppet(stage, "a", REFUSES, shutdown=30.0)))
        tree.request_stop()
        stage.wait_for("a#1 asked to stop")
        theatre.clock.push(31.0)

        assert theatre.exit_of(tree) == NORMAL_EXIT
        assert stage.notes("was interrupted", "stopped") == ["a#1 was interrupted", "a#1 stopped"]
        assert child_of(tree, "a").interrupted

    def test_each_child_has_a_deadline_of_its_own(self, theatre: Theatre, stage: Stage) -> None:
        """The time one child takes to stop is not taken from the next."""
        first = puppet(stage, "a", REFUSES, shutdown=30.0)
        tree = theatre.launch(tree_of(first, puppet(stage, "b", REFUSES, shutdown=60.0)))
        tree.request_stop()
        stage.wait_for("b#1 asked to stop")
        theatre.clock.push(61.0)
        stage.wait_for("a#1 asked to stop")
        theatre.tell("a", Order.FINISH)

        assert theatre.exit_of(tree) == NORMAL_EXIT
        assert [child.interrupted for child in tree.report().children] == [False, True]

    def test_a_child_with_nothing_to_drain_is_interrupted_at_once(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """A shutdown of 0 asks nothing: whoever blocks in a read is woken."""
        tree = theatre.launch(tree_of(puppet(stage, "a", shutdown=0.0)))
        theatre.tell("a", Order.BLOCK)
        stage.wait_for("a#1 block")
        tree.request_stop()

        assert theatre.exit_of(tree) == NORMAL_EXIT
        assert stage.notes("asked to stop") == []

    def test_p8_who_would_not_stop_halts_the_tree_and_is_named(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """R266: after interrupt and grace the tree ends without it, and the report says so."""
        tree = theatre.launch(tree_of(*abc(stage, shutdown=30.0, grace=5.0)))
        theatre.tell("b", Order.HANG)
        stage.wait_for("b#1 hang")
        tree.request_stop()
        wait_for_state(tree, "b", ChildState.STOPPING)
        theatre.clock.push(31.0)
        stage.wait_for("b#1 was interrupted")
        theatre.clock.push(6.0)

        exit_ = theatre.exit_of(tree)

        assert exit_.halt == Halt(HaltReason.CHILD_WOULD_NOT_STOP, "b")
        stuck = child_of(tree, "b")
        assert (stuck.would_not_stop, stuck.state) == (True, ChildState.WOULD_NOT_STOP)
        assert stage.notes("asked to stop") == ["c#1 asked to stop", "a#1 asked to stop"]

    def test_a_halt_that_came_before_stays_the_reason_of_a_child_that_would_not_stop(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """R267: the first verdict counts; the leftover is in the report."""
        stuck = puppet(stage, "b", shutdown=0.0, grace=5.0)
        tree = theatre.launch(tree_of(puppet(stage, "a"), stuck))
        theatre.tell("b", Order.HANG)
        stage.wait_for("b#1 hang")
        theatre.tell("a", Order.HALT)
        stage.wait_for("b#1 was interrupted")
        theatre.clock.push(6.0)

        assert theatre.exit_of(tree).halt == Halt(HaltReason.SINK_FAILED, "a#1")
        assert child_of(tree, "b").would_not_stop

    def test_no_second_life_begins_beside_one_that_would_not_stop(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """A restart that cannot get rid of the old life ends the tree instead."""
        stuck = puppet(stage, "b", shutdown=0.0, grace=5.0)
        tree = theatre.launch(tree_of(puppet(stage, "a"), stuck, strategy=Strategy.ONE_FOR_ALL))
        theatre.tell("b", Order.HANG)
        stage.wait_for("b#1 hang")
        theatre.tell("a", Order.CRASH)
        stage.wait_for("b#1 was interrupted")
        theatre.clock.push(6.0)

        assert theatre.exit_of(tree).halt == Halt(HaltReason.CHILD_WOULD_NOT_STOP, "b")
        assert lives(tree) == {"a": 1, "b": 1}

    def test_a_start_that_takes_too_long_is_interrupted_and_tried_again(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """It counts as a start that failed, even when `started()` returns after the interrupt."""
        slow = puppet(stage, "a", BLOCKS, {}, start_within=30.0, grace=5.0)
        tree = theatre.launch(tree_of(slow, puppet(stage, "b")), ready=False)
        stage.wait_for("a#1 starting")
        theatre.clock.push(31.0)

        assert tree.wait_started(DEADLINE)
        assert "tree: child_exited a#1 never_started" in stage.notes()
        assert lives(tree) == {"a": 2, "b": 1}
        reported = child_of(tree, "a").exit
        assert reported is not None
        assert str(reported.crash) == "TimeoutError at started()"

    def test_a_start_that_ignores_its_interrupt_would_not_stop(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """It is never replaced, as any other that would not stop."""
        stuck = puppet(stage, "a", HANGS, start_within=30.0, grace=5.0)
        tree = theatre.launch(tree_of(stuck), ready=False)
        stage.wait_for("a#1 starting")
        theatre.clock.push(31.0)
        stage.wait_for("a#1 was interrupted")
        theatre.clock.push(6.0)

        assert theatre.exit_of(tree).halt == Halt(HaltReason.CHILD_WOULD_NOT_STOP, "a")
        assert lives(tree) == {"a": 1}

    def test_an_interrupt_of_the_tree_reaches_all_children_at_once(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """Nobody drains, nobody waits for a sibling; a stop that was under way is cut short."""
        tree = theatre.launch(tree_of(puppet(stage, "a"), puppet(stage, "b", REFUSES)))
        tree.request_stop()
        stage.wait_for("b#1 asked to stop")
        tree.interrupt()

        assert theatre.exit_of(tree) == NORMAL_EXIT
        assert stage.notes("asked to stop") == ["b#1 asked to stop"]
        assert [child.interrupted for child in tree.report().children] == [True, True]


class TestWatches:
    STALLED = Halt(HaltReason.SINK_STALLED, "sink")

    def watched(self, stage: Stage) -> ChildSpec:
        watch = Watch("work", 30.0, self.STALLED)
        return puppet(stage, "b", shutdown=1000.0, grace=5.0, watches=(watch,))

    def test_busy_for_too_long_ends_the_tree_with_the_verdict_of_the_watch(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """R266: the stuck child is interrupted at once and given up; the reason is its watch's."""
        tree = theatre.launch(tree_of(puppet(stage, "a"), self.watched(stage), puppet(stage, "c")))
        theatre.tell("b", Order.HANG)
        stage.wait_for("b#1 hang")
        theatre.clock.push(31.0)
        stage.wait_for("b#1 was interrupted")
        theatre.clock.push(6.0)

        exit_ = theatre.exit_of(tree)

        assert (exit_.kind, exit_.halt) == (ExitKind.HALTED, self.STALLED)
        assert child_of(tree, "b").would_not_stop
        assert "tree: child_over_limit b#1" in stage.notes()
        assert stage.notes("asked to stop") == ["c#1 asked to stop", "a#1 asked to stop"]

    def test_a_call_that_returns_after_the_verdict_changes_nothing(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """R267: the child ends after all, what was queued is not handled, the reason stays."""
        tree = theatre.launch(tree_of(self.watched(stage)))
        theatre.tell("b", Order.BLOCK, Order.HALT)
        stage.wait_for("b#1 block")
        theatre.clock.push(31.0)

        assert theatre.exit_of(tree).halt == self.STALLED
        assert child_of(tree, "b").exit == NORMAL_EXIT
        assert stage.notes(" halt") == []

    def test_a_watch_counts_while_the_child_is_draining_too(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """R266: a sink that hangs during the stop is a stalled sink, not a slow drain."""
        tree = theatre.launch(tree_of(self.watched(stage)))
        theatre.tell("b", Order.BLOCK)
        stage.wait_for("b#1 block")
        tree.request_stop()
        wait_for_state(tree, "b", ChildState.STOPPING)
        theatre.clock.push(31.0)

        assert theatre.exit_of(tree).halt == self.STALLED


class TestSupervisorsBelow:
    def test_a_supervisor_below_starts_and_stops_in_its_place(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """Its children start before its next sibling and stop after it."""
        stream = tree_of(puppet(stage, "b"), puppet(stage, "c"), id_="stream")
        tree = theatre.launch(tree_of(puppet(stage, "a"), stream, puppet(stage, "d")))
        tree.request_stop()

        assert theatre.exit_of(tree) == NORMAL_EXIT
        assert stage.notes("#1 starting") == [f"{child}#1 starting" for child in "abcd"]
        assert stage.notes("asked to stop") == [f"{child}#1 asked to stop" for child in "dcba"]

    def test_a_halt_below_goes_up_to_the_root(self, theatre: Theatre, stage: Stage) -> None:
        """R267: the same halt ends every supervisor on the way, the others drain."""
        stream = tree_of(puppet(stage, "b"), puppet(stage, "c"), id_="stream")
        tree = theatre.launch(tree_of(puppet(stage, "a"), stream))
        theatre.tell("b", Order.HALT)

        assert theatre.exit_of(tree).halt == Halt(HaltReason.SINK_FAILED, "b#1")
        assert stage.notes("asked to stop") == ["c#1 asked to stop", "a#1 asked to stop"]
        assert stage.notes("ending halted") == [
            "stream: supervisor_ending halted",
            "tree: supervisor_ending halted",
        ]

    def test_exhaustion_below_is_a_halt_above(self, theatre: Theatre, stage: Stage) -> None:
        """R267: the parent does not try again what its child has given up."""
        stream = tree_of(puppet(stage, "b"), id_="stream", restarts=0)
        tree = theatre.launch(tree_of(puppet(stage, "a"), stream, restarts=5))
        theatre.tell("stream/b", Order.CRASH)

        halt = theatre.exit_of(tree).halt

        assert halt is not None
        assert halt.reason is HaltReason.RESTARTS_EXHAUSTED
        assert halt.detail.startswith("b: over 0 restarts")
        assert lives(tree) == {"a": 1, "stream": 1, "b": 1}

    def test_a_restart_above_takes_everything_below_along_and_numbers_go_on(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """An older life of the same name always has a lower number, whoever restarted it."""
        stream = tree_of(puppet(stage, "b"), id_="stream")
        tree = theatre.launch(tree_of(puppet(stage, "a"), stream, strategy=Strategy.REST_FOR_ONE))
        theatre.tell("b", Order.CRASH)
        stage.wait_for("stream: child_started b#2")
        theatre.tell("a", Order.CRASH)
        stage.wait_for("tree: child_started stream#2")

        assert lives(tree) == {"a": 2, "stream": 2, "b": 3}

    def test_deadlines_and_watches_count_below_too(self, theatre: Theatre, stage: Stage) -> None:
        """R266: the tick reaches every supervisor; a leaf that would not stop is named."""
        stream = tree_of(puppet(stage, "b", shutdown=30.0, grace=5.0), id_="stream")
        tree = theatre.launch(tree_of(puppet(stage, "a"), stream))
        theatre.tell("b", Order.HANG)
        stage.wait_for("b#1 hang")
        tree.request_stop()
        wait_for_state(tree, "b", ChildState.STOPPING)
        theatre.clock.push(31.0)
        stage.wait_for("b#1 was interrupted")
        theatre.clock.push(6.0)

        assert theatre.exit_of(tree).halt == Halt(HaltReason.CHILD_WOULD_NOT_STOP, "b")
        assert child_of(tree, "b").would_not_stop

    def test_an_interrupt_reaches_everything_below(self, theatre: Theatre, stage: Stage) -> None:
        """A child two levels down that only hears its stop signal ends at once."""
        stream = tree_of(puppet(stage, "b", REFUSES), id_="stream")
        tree = theatre.launch(tree_of(tree_of(stream, id_="middle")))
        theatre.tell("b", Order.BLOCK)
        stage.wait_for("b#1 block")
        tree.interrupt()

        assert theatre.exit_of(tree) == NORMAL_EXIT
        assert stage.notes("b#1 was interrupted") == ["b#1 was interrupted"]

    def test_children_find_what_started_before_them_at_every_life(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """The roster reaches up one level, and after a restart gives the new address."""
        found: list[tuple[str, int]] = []

        def start(roster: Roster) -> Actor:
            address = roster["desk"]
            found.append((address.name, address.incarnation))
            return Puppet(stage, "b")

        below = ChildSpec(id="b", start=start, start_within=10.0, grace=1.0)
        stream = tree_of(below, id_="stream")
        spec = tree_of(puppet(stage, "desk"), stream, strategy=Strategy.REST_FOR_ONE)
        theatre.launch(spec)
        theatre.tell("desk", Order.CRASH)
        stage.wait_for("tree: child_started stream#2")

        assert found == [("desk", 1), ("desk", 2)]
