"""Claims about a supervisor that ends: verdicts, the ladder down, watches."""

import pytest
from helpers.puppets import (
    BLOCKS,
    DEADLINE,
    HALTS,
    HANGS,
    REFUSES,
    Order,
    Stage,
    Theatre,
    abc,
    child_of,
    lives,
    puppet,
    tree_of,
    wait_for_state,
)

from capstan.core.halts import Halt, HaltReason
from capstan.runtime import NORMAL_EXIT, ExitKind
from capstan.supervision.child import ChildSpec, Watch
from capstan.supervision.exits import Restart
from capstan.supervision.report import ChildState
from capstan.supervision.strategy import Strategy


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
