"""Single actors on a bench: the real one under test, and mailboxes that only listen around it.

House rules: nothing sleeps. Whoever looks into a mailbox sees everything that was sent to it before
the look; to see that something was *not* sent, end the actor first.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from capstan.runtime import Actor, Address, Exit, Running, spawn

M = TypeVar("M")

DEADLINE = 20.0


class Mailbox:
    """Somebody who is told things and keeps them."""

    def __init__(self, bench: "Bench", name: str) -> None:
        self._heard: list[Any] = []
        self._changed = threading.Condition()
        self._running = bench.spawn(lambda: _Listener(self._hear), name=name)

    @property
    def address(self) -> Address:
        """Where to send to."""
        return self._running.address

    def _hear(self, message: object) -> None:
        if isinstance(message, threading.Event):
            message.set()
            return
        with self._changed:
            self._heard.append(message)
            self._changed.notify_all()

    @property
    def heard(self) -> list[Any]:
        """Every message sent so far, in order."""
        caught_up = threading.Event()
        if self.address.send(caught_up):
            assert caught_up.wait(DEADLINE)
        return list(self._heard)

    def of(self, kind: type[M]) -> list[M]:
        """The messages of one kind sent so far."""
        return [message for message in self.heard if isinstance(message, kind)]

    def wait_for(self, kind: type[M], count: int = 1) -> M:
        """Wait for so many messages of one kind; gives the last of them."""

        def found() -> list[M]:
            return [message for message in self._heard if isinstance(message, kind)]

        with self._changed:
            heard = self._changed.wait_for(lambda: len(found()) >= count, DEADLINE)
            assert heard, f"{len(found())} of {count} {kind.__name__} in {self._heard}"
            return found()[count - 1]

    def die(self) -> None:
        """End: nothing can be sent here any more."""
        self._running.request_stop()
        assert self._running.wait_ended(DEADLINE)


class _Listener(Actor):
    def __init__(self, hear: Callable[[object], None]) -> None:
        super().__init__()
        self._hear = hear

    def receive(self, message: object) -> None:
        self._hear(message)


class Bench:
    """Where actors of one test are spawned; all end with the test."""

    def __init__(self) -> None:
        self._all: list[Running] = []

    def spawn(
        self, factory: Callable[[], Actor], *, name: str = "actor", incarnation: int = 1
    ) -> Running:
        """Spawn an actor; wait until it has started or ended."""
        running = spawn(factory, name=name, incarnation=incarnation, on_exit=lambda _: None)
        self._all.append(running)
        running.wait_started(DEADLINE)
        return running

    def mailbox(self, name: str) -> Mailbox:
        """Somebody to talk to."""
        return Mailbox(self, name)

    def exit_of(self, running: Running) -> Exit:
        """Wait for the end that an actor comes to by itself."""
        assert running.wait_ended(DEADLINE), f"{running.address.name} lives on"
        assert running.exit is not None
        return running.exit

    def end(self, running: Running) -> Exit:
        """Let an actor handle what it was told, and end it."""
        running.request_stop()
        return self.exit_of(running)

    def close(self) -> None:
        """End all that is left."""
        for running in self._all:
            running.interrupt()
        for running in self._all:
            assert running.wait_ended(DEADLINE), f"{running.address.name} lives on"
