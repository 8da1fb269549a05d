"""Claims about supervisors below supervisors, and what their children find."""

from helpers.puppets import (
    REFUSES,
    Order,
    Puppet,
    Stage,
    Theatre,
    child_of,
    lives,
    puppet,
    tree_of,
    wait_for_state,
)

from capstan.core.halts import Halt, HaltReason
from capstan.runtime import NORMAL_EXIT, Actor
from capstan.supervision.child import ChildSpec
from capstan.supervision.report import ChildState
from capstan.supervision.roster import Roster
from capstan.supervision.strategy import Strategy


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

    def test_a_child_does_not_find_what_starts_behind_it_even_while_that_runs(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """A dependency against the start order is a start that fails."""
        wanted = [None, "b", None]

        def start(roster: Roster) -> Actor:
            name = wanted.pop(0)
            if name is not None:
                roster[name]
            return Puppet(stage, "a")

        first = ChildSpec(id="a", start=start, start_within=10.0, grace=1.0)
        theatre.launch(tree_of(first, puppet(stage, "b")))
        theatre.tell("a", Order.CRASH)
        stage.wait_for("tree: child_started a#3")

        assert "tree: child_exited a#2 never_started" in stage.notes()
