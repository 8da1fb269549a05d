"""Claims about `capstan.runtime`: actors, addresses, stop signals, busy marks, crashes."""

import gc
import logging
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pykka
import pytest
from helpers.puppets import DEADLINE, SENTINEL, Order, Owner, Puppet

import capstan.runtime
from capstan.core.halts import Halt, Halted, HaltReason
from capstan.runtime import (
    NORMAL_EXIT,
    Actor,
    BusyMark,
    Crash,
    Exit,
    ExitKind,
    StopSignal,
    spawn,
)

SINK_FAILED = Halt(HaltReason.SINK_FAILED, "p#1")


@pytest.fixture
def owner() -> Iterator[Owner]:
    owner = Owner()
    yield owner
    owner.close()


class TestActor:
    def test_an_actor_handles_what_it_is_told_in_order_on_its_own_thread(
        self, owner: Owner
    ) -> None:
        """One mailbox, one thread, named after the actor."""
        running = owner.spawn()
        assert running.wait_started(DEADLINE)
        for message in ("a", "b", "c"):
            assert running.address.send(message)
        running.request_stop()
        named = "p" in {thread.name for thread in threading.enumerate()}
        owner.exit_of(running)

        assert named or running.exit
        assert owner.stage.notes() == [
            "p#1 starting",
            "p#1 started",
            "p#1 a",
            "p#1 b",
            "p#1 c",
            "p#1 asked to stop",
            "p#1 stopped",
        ]

    def test_nothing_is_handled_once_an_exit_is_decided(self, owner: Owner) -> None:
        """What stands behind a crash in the queue never reaches the actor."""
        running = owner.spawn(at_start=Order.HANG)
        for message in ("before", Order.CRASH, "behind", Order.HALT):
            running.address.send(message)
        owner.stage.release.set()

        assert owner.exit_of(running).kind is ExitKind.CRASHED
        assert owner.stage.notes()[-3:] == ["p#1 before", "p#1 crash", "p#1 stopped"]

    def test_a_halt_raised_anywhere_is_the_exit(self, owner: Owner) -> None:
        """R266: `Halted` is a verdict at the start, in a handler and at the end."""
        for spawned in ({"at_start": Order.HALT}, {"at_end": Order.HALT}, {}):
            running = owner.spawn(**spawned)
            running.address.send(Order.FINISH if spawned else Order.HALT)

            assert owner.exit_of(running) == Exit(ExitKind.HALTED, SINK_FAILED)

    def test_a_raise_in_the_constructor_is_a_start_that_failed(self) -> None:
        """Nothing was started, nothing is registered, and the owner is told."""
        exits: list[Exit] = []

        class Unmade(Puppet):
            def __init__(self) -> None:
                raise KeyError(SENTINEL)

        running = spawn(Unmade, name="u", incarnation=7, on_exit=exits.append)

        assert running.exit is not None
        assert exits == [running.exit]
        assert running.exit.kind is ExitKind.NEVER_STARTED
        assert not running.wait_started(0.0)
        assert running.wait_ended(0.0)
        assert running.address.incarnation == 7
        assert running.address.send("anybody?") is False
        assert pykka.ActorRegistry.get_by_class(Unmade) == []

    def test_a_halt_in_the_constructor_is_a_halt(self) -> None:
        """R266: a verdict counts before the first thread, too."""

        def refuse() -> Actor:
            raise Halted(SINK_FAILED)

        running = spawn(refuse, name="u", incarnation=1, on_exit=lambda _: None)

        assert running.exit == Exit(ExitKind.HALTED, SINK_FAILED)

    def test_an_actor_lives_only_once(self, owner: Owner) -> None:
        """A factory that gives the same actor twice fails to start, and the first lives on."""
        actor = Puppet(owner.stage, "p")
        first = spawn(lambda: actor, name="p", incarnation=1, on_exit=lambda _: None)
        second = spawn(lambda: actor, name="p", incarnation=2, on_exit=lambda _: None)

        assert second.exit is not None
        assert second.exit.kind is ExitKind.NEVER_STARTED
        assert first.address.send("hello")
        owner.stage.wait_for("p#1 hello")
        first.request_stop()
        assert first.wait_ended(DEADLINE)

    def test_no_thread_to_be_had_is_a_start_that_failed(
        self, owner: Owner, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """When the system refuses a thread the owner is told, and `stopped()` cleans up."""

        def refuse(_: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", refuse)
        running = owner.spawn()

        assert owner.exit_of(running).kind is ExitKind.NEVER_STARTED
        assert owner.stage.notes() == ["p stopped"]

    def test_a_crash_in_stopped_is_recorded_and_replaces_only_a_normal_end(
        self, owner: Owner
    ) -> None:
        """R266: the reason of a halt stays; what went wrong at the end stands beside it."""
        kinds = {}
        for order in (Order.FINISH, Order.HALT, Order.CRASH):
            running = owner.spawn(at_end=Order.EXIT)
            running.address.send(order)
            exit_ = owner.exit_of(running)
            assert exit_.crash is not None
            kinds[order] = (exit_.kind, exit_.halt, exit_.crash.exception_class)

        assert kinds == {
            Order.FINISH: (ExitKind.CRASHED, None, "SystemExit"),
            Order.HALT: (ExitKind.HALTED, SINK_FAILED, "SystemExit"),
            Order.CRASH: (ExitKind.CRASHED, None, "ValueError"),
        }

    def test_a_halt_in_stopped_outranks_a_crash(self, owner: Owner) -> None:
        """R266: a crash would be restarted, so a verdict at the end may not hide behind it."""
        running = owner.spawn(at_end=Order.HALT)
        running.address.send(Order.CRASH)

        exit_ = owner.exit_of(running)

        assert (exit_.kind, exit_.halt) == (ExitKind.HALTED, SINK_FAILED)
        assert exit_.crash is not None
        assert exit_.crash.exception_class == "ValueError"

    def test_a_second_stop_request_is_not_heard(self, owner: Owner) -> None:
        """One that drains is asked once."""
        running = owner.spawn(refuses=True)
        running.request_stop()
        running.request_stop()
        running.address.send(Order.FINISH)

        owner.exit_of(running)

        assert owner.stage.notes("asked to stop") == ["p#1 asked to stop"]

    def test_a_listener_that_raises_disturbs_nobody(
        self, owner: Owner, caplog: pytest.LogCaptureFixture
    ) -> None:
        """R265: the actor still ends in order, and nothing of it is logged."""

        def raising(*_: object) -> None:
            raise SystemExit(SENTINEL)

        caplog.set_level(logging.DEBUG)
        running = spawn(
            lambda: Puppet(owner.stage, "p"),
            name="p",
            incarnation=1,
            on_exit=raising,
            on_started=raising,
        )
        running.request_stop()

        assert running.wait_ended(DEADLINE)
        assert running.exit == NORMAL_EXIT
        assert SENTINEL not in caplog.text

    def test_an_ended_actor_is_out_of_the_registry_and_free(self, owner: Owner) -> None:
        """Its address and its handle keep nothing of it."""
        actors: list[weakref.ref[Puppet]] = []

        def make() -> Puppet:
            actor = Puppet(owner.stage, "p")
            actors.append(weakref.ref(actor))
            return actor

        running = spawn(make, name="free", incarnation=1, on_exit=lambda _: None)
        running.request_stop()
        assert running.wait_ended(DEADLINE)
        for thread in threading.enumerate():
            if thread.name == "free":
                thread.join(DEADLINE)
        gc.collect()

        assert actors[0]() is None
        assert pykka.ActorRegistry.get_by_class(Puppet) == []


class TestAddress:
    def test_an_address_can_be_a_key_and_names_its_actor(self, owner: Owner) -> None:
        """Two lives of one name have two addresses."""
        first, second = owner.spawn(), owner.spawn()

        assert len({first.address, second.address, first.address}) == 2
        assert repr(first.address) == "Address(name='p', incarnation=1)"


class TestStopSignal:
    def test_the_signal_is_given_once_and_for_ever(self) -> None:
        """Setting it twice runs no callback twice."""
        signal, calls = StopSignal(), []
        signal.on_set(lambda: calls.append("called"))

        assert (signal.is_set(), signal.wait(0.0)) == (False, False)
        signal.set()
        signal.set()

        assert (signal.is_set(), signal.wait(0.0)) == (True, True)
        assert calls == ["called"]

    def test_a_callback_that_comes_late_runs_at_once(self) -> None:
        """A socket opened just after the interrupt is woken too."""
        signal, calls = StopSignal(), []
        signal.set()

        signal.on_set(lambda: calls.append("called"))

        assert calls == ["called"]

    def test_a_forgotten_callback_does_not_run(self) -> None:
        """A socket closed long ago is neither woken nor kept."""
        signal, calls = StopSignal(), []
        forget = signal.on_set(lambda: calls.append("forgotten"))
        signal.on_set(lambda: calls.append("kept"))

        forget()
        signal.set()
        forget()

        assert calls == ["kept"]

    @pytest.mark.parametrize("late", [False, True])
    def test_a_callback_that_raises_keeps_none_from_being_woken(self, late: bool) -> None:
        """Not the next callback, not the setter, not who registers late."""
        signal, calls = StopSignal(), []

        def broken() -> None:
            raise OSError(SENTINEL)

        if late:
            signal.set()
        signal.on_set(broken)
        signal.on_set(lambda: calls.append("woken"))
        signal.set()

        assert calls == ["woken"]


class TestBusyMark:
    def test_a_mark_says_since_when(self) -> None:
        """Seconds count from the beginning of the block on the mark's own clock."""
        mark = BusyMark(clock=lambda: 100.0)

        with mark.doing("sink"):
            assert mark.seconds("sink", 107.5) == 7.5
            assert mark.seconds("store", 107.5) is None

        assert mark.seconds("sink", 107.5) is None

    def test_a_mark_ends_with_its_block_however_that_ends(self) -> None:
        """An exception leaves no mark behind."""
        mark = BusyMark()

        with pytest.raises(KeyError), mark.doing("sink"):
            raise KeyError

        assert mark.seconds("sink", 0.0) is None

    def test_of_nested_blocks_the_outer_counts(self) -> None:
        """Calling the sink from inside a sink call does not start the time again."""
        times = iter([1.0, 5.0])
        mark = BusyMark(clock=lambda: next(times))

        with mark.doing("sink"):
            with mark.doing("sink"):
                assert mark.seconds("sink", 10.0) == 9.0
            assert mark.seconds("sink", 10.0) == 9.0


class TestCrash:
    def test_a_crash_names_the_innermost_place_inside_capstan(self) -> None:
        """R265: class, file and line of where capstan called what raised; never the message."""
        place = Path(capstan.runtime.__file__).parent / "core" / "halts.py"

        def raising() -> None:
            raise KeyError(SENTINEL)

        with pytest.raises(KeyError) as caught:
            exec(compile("raising()", str(place), "exec"), {"raising": raising})

        assert Crash.of(caught.value) == Crash("KeyError", "halts.py:1")

    def test_a_crash_outside_of_capstan_names_the_innermost_place(self) -> None:
        """The guard's own frame, which is in every traceback, does not count."""
        signal = StopSignal()

        with pytest.raises(TypeError) as caught:
            signal.wait("soon")  # type: ignore[arg-type]

        assert Crash.of(caught.value).place.startswith("threading.py:")
