"""Claims about the guard around pykka, trap by trap (P1 to P12)."""

import ast
import gc
import logging
import socket
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pykka
import pytest
from helpers.puppets import DEADLINE, SENTINEL, Order, Owner, Puppet

import capstan.runtime
from capstan.core.halts import Halt, HaltReason
from capstan.runtime import (
    NORMAL_EXIT,
    Actor,
    Exit,
    ExitKind,
    spawn,
)

CRASH_KINDS = [Order.CRASH, Order.EXIT]


@pytest.fixture
def owner() -> Iterator[Owner]:
    owner = Owner()
    yield owner
    owner.close()


class Neighbour(pykka.ThreadingActor):
    """A foreign actor, as the host application may have them."""

    def on_receive(self, message: Any) -> Any:
        return message


@pytest.fixture
def neighbour() -> Iterator[pykka.ActorRef[Neighbour]]:
    ref = Neighbour.start()
    yield ref
    ref.stop(block=True, timeout=DEADLINE)


class TestTheTrapsOfPykka:
    @pytest.mark.parametrize("order", CRASH_KINDS)
    def test_p1_a_raise_in_on_start_is_an_exit_and_stopped_still_runs(
        self, owner: Owner, order: Order
    ) -> None:
        """A failed start is told to the owner, and `stopped()` cleans up behind it."""
        running = owner.spawn(at_start=order)

        exit_ = owner.exit_of(running)

        assert exit_.kind is ExitKind.NEVER_STARTED
        assert not running.wait_started(DEADLINE)
        assert owner.stage.notes() == ["p#1 starting", "p#1 stopped"]

    def test_p2_a_raise_while_answering_an_ask_ends_the_actor(self, owner: Owner) -> None:
        """Even an ask by the host, through the registry, cannot hide a crash."""
        running = owner.spawn()
        assert running.wait_started(DEADLINE)
        (ref,) = pykka.ActorRegistry.get_by_class(Puppet)

        answer = ref.ask(Order.CRASH, block=True, timeout=DEADLINE)

        assert answer is None
        assert owner.exit_of(running).kind is ExitKind.CRASHED

    def test_p3_messages_behind_a_stop_are_dropped_and_those_in_front_are_not(
        self, owner: Owner
    ) -> None:
        """A stop request stands in the queue: what was told before is handled, the rest is not."""
        running = owner.spawn(at_start=Order.HANG)
        running.address.send("in front")
        running.request_stop()
        behind = running.address.send("behind")
        owner.stage.release.set()

        owner.exit_of(running)

        assert behind is True
        assert "p#1 in front" in owner.stage.notes()
        assert "p#1 behind" not in owner.stage.notes()

    @pytest.mark.parametrize("at", ["at_start", "receive", "at_end"])
    def test_p4_a_base_exception_in_one_actor_leaves_all_others_alive(
        self, owner: Owner, neighbour: pykka.ActorRef[Neighbour], at: str
    ) -> None:
        """Neither another capstan actor nor the host's own is stopped by a SystemExit."""
        other = owner.spawn()
        running = owner.spawn(**({} if at == "receive" else {at: Order.EXIT}))
        running.address.send(Order.EXIT)

        exit_ = owner.exit_of(running)

        assert exit_.crash is not None
        assert exit_.crash.exception_class == "SystemExit"
        assert neighbour.ask("hello", block=True, timeout=DEADLINE) == "hello"
        assert other.address.send("hello")
        owner.stage.wait_for("p#1 hello")

    def test_p5_the_stop_signal_reaches_a_handler_that_is_still_running(self, owner: Owner) -> None:
        """An interrupt wakes what waits on the stop signal, long before its own time-out."""
        running = owner.spawn()
        running.address.send(Order.BLOCK)
        running.address.send("never handled")
        owner.stage.wait_for("p#1 block")

        running.interrupt()

        assert owner.exit_of(running) == NORMAL_EXIT
        assert "p#1 never handled" not in owner.stage.notes()

    def test_p5_a_blocked_read_on_a_socket_is_interrupted(self) -> None:
        """A read that would wait for ever ends when the signal's callback shuts the socket."""
        ours, theirs = socket.socketpair()
        reading = threading.Event()

        class Reader(Actor):
            def started(self) -> None:
                self.stop_signal.on_set(lambda: ours.shutdown(socket.SHUT_RDWR))
                reading.set()
                assert ours.recv(1) == b""

            def receive(self, message: Any) -> None:
                raise AssertionError

        with ours, theirs:
            running = spawn(Reader, name="r", incarnation=1, on_exit=lambda _: None)
            assert reading.wait(DEADLINE)
            running.interrupt()
            assert running.wait_ended(DEADLINE)

        assert running.exit == NORMAL_EXIT

    def test_p6_telling_a_dead_actor_answers_false_and_raises_nothing(self, owner: Owner) -> None:
        """An address outlives its actor and says so."""
        running = owner.spawn()
        running.request_stop()
        owner.exit_of(running)

        assert running.address.send("anybody?") is False

    def test_p7_a_mailbox_has_no_bound_and_dies_with_its_actor(self, owner: Owner) -> None:
        """A sender never blocks, and what was queued is let go when the actor ends."""

        class Piece:
            pass

        running = owner.spawn(at_start=Order.HANG)
        piece = Piece()
        queued = weakref.ref(piece)
        told = [running.address.send(piece) for _ in range(10_000)]
        running.interrupt()
        owner.stage.release.set()
        owner.exit_of(running)
        del piece
        for thread in threading.enumerate():
            if thread.name == "p":
                thread.join(DEADLINE)
        gc.collect()

        assert all(told)
        assert queued() is None
        assert running.address.send("anybody?") is False

    def test_p8_an_actor_that_ignores_its_interrupt_is_seen_not_to_end(self, owner: Owner) -> None:
        """A thread cannot be killed: it shows as not ended until it really is."""
        running = owner.spawn()
        running.address.send(Order.HANG)
        owner.stage.wait_for("p#1 hang")
        running.interrupt()

        assert not running.wait_ended(0.0)
        assert running.exit is None
        owner.stage.release.set()
        assert owner.exit_of(running) == NORMAL_EXIT

    @pytest.mark.parametrize("at", ["at_start", "receive", "at_end"])
    @pytest.mark.parametrize("order", CRASH_KINDS)
    def test_p9_no_exception_text_reaches_a_log(
        self, owner: Owner, caplog: pytest.LogCaptureFixture, at: str, order: Order
    ) -> None:
        """R265: pykka would log the text of an exception, which may hold a row's value."""
        caplog.set_level(logging.DEBUG)
        running = owner.spawn(**({} if at == "receive" else {at: order}))
        running.address.send(order)

        exit_ = owner.exit_of(running)

        assert exit_.crash is not None
        assert SENTINEL not in caplog.text
        assert SENTINEL not in repr(exit_) + str(exit_.crash)
        assert not [record for record in caplog.records if record.levelno > logging.DEBUG]

    def test_p10_nobody_here_asks(self) -> None:
        """Whoever asks can wait for ever: the runtime and the supervision only tell."""
        room = Path(capstan.runtime.__file__).parent
        files = [room / "runtime.py", *sorted((room / "supervision").glob("*.py"))]
        trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
        called = {n.attr for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Attribute)}

        assert "tell" in called
        assert not called & {"ask", "proxy", "stop_all", "broadcast"}

    def test_p11_a_stuck_actor_does_not_keep_the_process_alive(self) -> None:
        """`sys.exit` returns with its code while an actor hangs in a handler."""
        program = """
            import sys, threading
            from capstan.runtime import Actor, spawn

            stuck = threading.Event()

            class Stuck(Actor):
                def receive(self, message):
                    stuck.set()
                    threading.Event().wait()

            running = spawn(Stuck, name="stuck", incarnation=1, on_exit=print)
            running.address.send("go")
            stuck.wait()
            sys.exit(3)
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            cwd=Path(capstan.runtime.__file__).parent.parent,
            timeout=60,
            check=False,
        )

        assert done.returncode == 3

    def test_p12_an_actor_stopped_by_the_host_ends_as_stopped_from_outside(
        self, owner: Owner
    ) -> None:
        """`stop_all` is no request of the owner's, so it is a halt that says who did it."""
        running = owner.spawn()
        assert running.wait_started(DEADLINE)

        pykka.ActorRegistry.stop_all(block=False)

        halt = Halt(HaltReason.STOPPED_FROM_OUTSIDE)
        assert owner.exit_of(running) == Exit(ExitKind.HALTED, halt)
        assert owner.stage.notes("stopped") == ["p#1 stopped"]

    def test_p12_a_drain_that_the_host_cuts_short_was_asked_for(self, owner: Owner) -> None:
        """Who was asked to stop has ended normally, whoever came second."""
        running = owner.spawn(refuses=True)
        running.request_stop()
        owner.stage.wait_for("p#1 asked to stop")

        pykka.ActorRegistry.stop_all(block=False)

        assert owner.exit_of(running) == NORMAL_EXIT
