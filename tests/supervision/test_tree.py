"""Claims about a tree seen from outside, and about its manners towards the process it lives in."""

import logging
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pykka
import pytest
from helpers.puppets import DEADLINE, SENTINEL, Order, Stage, Theatre, puppet, tree_of

import capstan.runtime
from capstan.core.halts import Halt, HaltReason
from capstan.runtime import NORMAL_EXIT, ExitKind
from capstan.supervision.report import ChildState, SupervisorReport
from capstan.supervision.tree import launch


class TestLaunch:
    def test_a_bad_spec_is_refused_before_the_first_child_starts(self, stage: Stage) -> None:
        """Nothing has to be cleaned up behind a refusal."""
        bad = puppet(stage, "b", grace=-1.0)

        with pytest.raises(ValueError, match="child 'b': grace"):
            launch(tree_of(puppet(stage, "a"), bad), observer=stage.observe)

        assert stage.notes() == []

    def test_a_tick_of_nothing_is_refused(self, stage: Stage) -> None:
        """Without a tick there are no deadlines."""
        with pytest.raises(ValueError, match="tick must be more than zero"):
            launch(tree_of(puppet(stage, "a")), tick=0.0)

        assert stage.notes() == []

    def test_without_a_thread_for_its_ticker_a_tree_does_not_stay(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A tree that could keep no deadline ends before `launch` has raised it to the caller."""
        real = threading.Thread.start

        def refuse_ticker(thread: threading.Thread) -> None:
            if thread.name == "tree ticker":
                raise RuntimeError("can't start new thread")
            real(thread)

        monkeypatch.setattr(threading.Thread, "start", refuse_ticker)

        with pytest.raises(RuntimeError):
            launch(tree_of(puppet(stage, "a")), observer=stage.observe)

        stage.wait_for("tree: supervisor_ending normal")


class TestWaiting:
    def test_waiting_says_what_has_happened(self, theatre: Theatre, stage: Stage) -> None:
        """Started and ended are two questions; a timeout answers both with False."""
        spec = tree_of(puppet(stage, "a", {"at_start": Order.HANG}))
        tree = theatre.launch(spec, ready=False)

        assert (tree.wait_started(0.0), tree.wait_ended(0.0), tree.exit) == (False, False, None)
        stage.release.set()
        assert tree.wait_started(DEADLINE)
        assert tree.stop(DEADLINE) is True
        assert tree.exit == NORMAL_EXIT

    def test_a_stop_that_takes_longer_says_so_and_goes_on(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """False is no verdict: the tree is still draining."""
        tree = theatre.launch(tree_of(puppet(stage, "a", {"refuses": True})))

        assert tree.stop(0.0) is False
        stage.wait_for("a#1 asked to stop")
        theatre.tell("a", Order.FINISH)
        assert theatre.exit_of(tree) == NORMAL_EXIT

    def test_a_stop_of_a_tree_that_has_ended_is_harmless(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """Stop, interrupt and stop again change nothing about the exit."""
        tree = theatre.launch(tree_of(puppet(stage, "a")))
        theatre.tell("a", Order.HALT)
        exit_ = theatre.exit_of(tree)

        assert tree.stop(DEADLINE)
        tree.interrupt()
        assert tree.exit == exit_


class TestLooking:
    def test_the_report_shows_the_whole_tree(self, theatre: Theatre, stage: Stage) -> None:
        """Root, supervisors and children, while they run and after."""
        stream = tree_of(puppet(stage, "b"), id_="stream")
        tree = theatre.launch(tree_of(puppet(stage, "a"), stream))
        while_it_runs = tree.report()
        assert tree.stop(DEADLINE)
        after = tree.report()

        assert [child.id for child in while_it_runs.children] == ["a", "stream"]
        assert [child.id for child in while_it_runs.children[1].children] == ["b"]
        assert (while_it_runs.state, while_it_runs.exit) == (ChildState.RUNNING, None)
        assert (after.state, after.exit) == (ChildState.ENDED, NORMAL_EXIT)
        below = after.children[1].children[0]
        assert (below.state, below.exit) == (ChildState.ENDED, NORMAL_EXIT)

    def test_a_child_is_found_by_id_or_path(self, theatre: Theatre, stage: Stage) -> None:
        """While it is alive; after that there is no address, and a wrong name is an error."""
        stream = tree_of(puppet(stage, "b"), id_="stream")
        tree = theatre.launch(tree_of(stream))
        address = tree.address_of("b")

        assert address is not None
        assert (address.name, address.incarnation) == ("b", 1)
        assert tree.address_of("stream/b") is address
        for wrong in ("tree/b", "a", ""):
            with pytest.raises(KeyError):
                tree.address_of(wrong)
        assert tree.stop(DEADLINE)
        assert tree.address_of("b") is None

    def test_the_observer_hears_of_everything_in_order(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """Starts, ends, restarts and the verdict, each as a structured record."""
        tree = theatre.launch(tree_of(puppet(stage, "a"), restarts=1))
        theatre.tell("a", Order.CRASH)
        stage.wait_for("tree: child_started a#2")
        theatre.tell("a", Order.HALT)
        theatre.exit_of(tree)

        assert [note for note in stage.notes() if note.startswith("tree:")] == [
            "tree: child_started a#1",
            "tree: child_exited a#1 crashed",
            "tree: child_restarting a#1 crashed",
            "tree: child_started a#2",
            "tree: child_exited a#2 halted",
            "tree: supervisor_ending halted",
        ]

    def test_an_observer_that_raises_disturbs_nothing(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        """R265: the tree restarts and ends as ever, and nothing of the raise is logged."""

        def raising(report: SupervisorReport) -> None:
            stage.observe(report)
            raise SystemExit(SENTINEL)

        caplog.set_level(logging.DEBUG)
        tree = launch(tree_of(puppet(stage, "a")), observer=raising)
        assert tree.wait_started(DEADLINE)
        address = tree.address_of("a")
        assert address is not None
        address.send(Order.CRASH)
        stage.wait_for("tree: child_started a#2")

        assert tree.stop(DEADLINE)
        assert tree.exit == NORMAL_EXIT
        assert SENTINEL not in caplog.text


class TestManners:
    @pytest.mark.parametrize("order", [Order.CRASH, Order.EXIT, Order.HALT])
    def test_p9_nothing_of_a_message_or_an_exception_reaches_a_log(
        self, theatre: Theatre, stage: Stage, caplog: pytest.LogCaptureFixture, order: Order
    ) -> None:
        """R265: neither what a child was told nor what it raised is written anywhere."""
        caplog.set_level(logging.DEBUG)
        tree = theatre.launch(tree_of(puppet(stage, "a"), restarts=0))
        address = tree.address_of("a")
        assert address is not None
        address.send(SENTINEL)
        pykka.ActorRegistry.broadcast(SENTINEL, target_class="Supervisor")
        address.send(order)
        theatre.exit_of(tree)

        assert SENTINEL not in caplog.text
        assert SENTINEL not in repr((tree.report(), tree.report().as_dict(), tree.exit))
        assert not [record for record in caplog.records if record.levelno > logging.DEBUG]

    def test_p12_a_tree_that_the_host_stops_ends_stopped_from_outside(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """`stop_all` ends every level, nothing comes again, and who waits is woken."""
        stream = tree_of(puppet(stage, "b"), puppet(stage, "c"), id_="stream")
        tree = theatre.launch(tree_of(puppet(stage, "a"), stream))

        pykka.ActorRegistry.stop_all(block=False)

        exit_ = theatre.exit_of(tree)
        assert exit_.kind is ExitKind.HALTED
        assert exit_.halt == Halt(HaltReason.STOPPED_FROM_OUTSIDE)
        assert sorted(stage.notes("stopped")) == ["a#1 stopped", "b#1 stopped", "c#1 stopped"]

    def test_p12_one_child_stopped_by_the_host_ends_the_tree(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """R267: it is a halt like any other; the rest is asked to stop."""
        tree = theatre.launch(tree_of(puppet(stage, "a"), puppet(stage, "b")))
        _, last = pykka.ActorRegistry.get_by_class_name("Puppet")
        last.stop(block=False)

        assert theatre.exit_of(tree).halt == Halt(HaltReason.STOPPED_FROM_OUTSIDE)
        assert stage.notes("asked to stop") == ["a#1 asked to stop"]

    def test_p12_a_supervisor_that_the_host_stops_leaves_no_child_behind(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """It interrupts its children and waits for them before it is gone."""
        stream = tree_of(puppet(stage, "b", {"refuses": True}), id_="stream")
        tree = theatre.launch(tree_of(puppet(stage, "a"), stream))
        _, below = pykka.ActorRegistry.get_by_class_name("Supervisor")
        below.stop(block=False)

        assert theatre.exit_of(tree).halt == Halt(HaltReason.STOPPED_FROM_OUTSIDE)
        assert stage.notes("stopped") == ["b#1 stopped", "a#1 stopped"]

    def test_p12_the_verdict_there_was_stays_the_reason(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """R267: a host that stops everything while the tree is ending changes no reason."""
        tree = theatre.launch(tree_of(puppet(stage, "a", {"refuses": True}), puppet(stage, "b")))
        theatre.tell("b", Order.HALT)
        stage.wait_for("a#1 asked to stop")

        pykka.ActorRegistry.stop_all(block=False)

        assert theatre.exit_of(tree).halt == Halt(HaltReason.SINK_FAILED, "b#1")

    def test_a_supervisor_that_crashes_itself_leaves_no_child_behind(self, stage: Stage) -> None:
        """A bug of the supervisor's own ends its children before anybody could replace them."""
        broken = threading.Event()

        def clock() -> float:
            if broken.is_set():
                raise ArithmeticError(SENTINEL)
            return 0.0

        spec = tree_of(puppet(stage, "a"), puppet(stage, "b", {"refuses": True}))
        tree = launch(spec, observer=stage.observe, clock=clock, tick=0.002)
        assert tree.wait_started(DEADLINE)
        broken.set()

        assert tree.wait_ended(DEADLINE)
        assert tree.exit is not None
        assert tree.exit.kind is ExitKind.CRASHED
        assert tree.exit.crash is not None
        assert tree.exit.crash.exception_class == "ArithmeticError"
        assert [child.state for child in tree.report().children] == [ChildState.ENDED] * 2

    def test_a_crashed_supervisor_whose_child_would_not_stop_is_not_restarted(
        self, stage: Stage
    ) -> None:
        """R266: the leftover turns the crash into a halt, so no second copy can come beside it."""
        broken = threading.Event()

        def clock() -> float:
            if broken.is_set():
                raise ArithmeticError
            return 0.0

        spec = tree_of(puppet(stage, "a", grace=0.001))
        tree = launch(spec, observer=stage.observe, clock=clock, tick=0.002)
        assert tree.wait_started(DEADLINE)
        address = tree.address_of("a")
        assert address is not None
        address.send(Order.HANG)
        stage.wait_for("a#1 hang")
        broken.set()

        assert tree.wait_ended(DEADLINE)
        assert tree.exit is not None
        assert tree.exit.halt == Halt(HaltReason.CHILD_WOULD_NOT_STOP, "a")
        assert tree.report().children[0].would_not_stop
        stage.release.set()
        stage.wait_for("a#1 stopped")

    def test_several_trees_live_side_by_side(self, theatre: Theatre, stage: Stage) -> None:
        """Same ids, same process: one halts, the other does not notice."""
        first = theatre.launch(tree_of(puppet(Stage(), "a")))
        second = theatre.launch(tree_of(puppet(stage, "a")))
        first_address = first.address_of("a")
        assert first_address is not None
        first_address.send(Order.HALT)

        assert theatre.exit_of(first).kind is ExitKind.HALTED
        theatre.tell("a", Order.HAPPY)
        stage.wait_for("a#1 happy")
        assert second.exit is None

    def test_an_ended_tree_leaves_no_thread_and_no_actor(
        self, theatre: Theatre, stage: Stage
    ) -> None:
        """The ticker ends with the tree it belongs to."""
        before = set(threading.enumerate())
        tree = theatre.launch(tree_of(puppet(stage, "a"), tree_of(puppet(stage, "b"), id_="s")))
        ours = set(threading.enumerate()) - before
        assert tree.stop(DEADLINE)
        for thread in ours:
            thread.join(DEADLINE)

        assert {thread.name for thread in ours} == {"tree", "tree ticker", "a", "s", "b"}
        assert not [thread for thread in ours if thread.is_alive()]
        assert pykka.ActorRegistry.get_by_class_name("Supervisor") == []

    def test_p11_a_tree_with_a_stuck_child_does_not_keep_the_process_alive(self) -> None:
        """The process exits with its own code while a child hangs and the tree goes on."""
        program = """
            import sys, threading
            from capstan.runtime import Actor
            from capstan.supervision.child import ChildSpec, SupervisorSpec
            from capstan.supervision.intensity import Intensity
            from capstan.supervision.strategy import Strategy
            from capstan.supervision.tree import launch

            class Stuck(Actor):
                def receive(self, message):
                    stuck.set()
                    threading.Event().wait()

            stuck = threading.Event()
            child = ChildSpec(id="stuck", start=lambda roster: Stuck(), shutdown=0.0, grace=0.01)
            tree = launch(SupervisorSpec(
                id="tree", strategy=Strategy.ONE_FOR_ONE,
                intensity=Intensity(1, 100.0), children=(child,),
            ))
            assert tree.wait_started(30)
            tree.address_of("stuck").send("go")
            assert stuck.wait(30)
            assert tree.stop(30)
            print(tree.exit.halt)
            sys.exit(3)
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            cwd=Path(capstan.runtime.__file__).parent.parent,
            stdout=subprocess.PIPE,
            text=True,
            timeout=90,
            check=False,
        )

        assert (done.returncode, done.stdout.strip()) == (3, "child_would_not_stop: stuck")
