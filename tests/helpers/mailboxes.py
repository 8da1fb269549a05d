"""Single actors on a bench: the real one under test, and mailboxes that only listen around it.

House rules: nothing sleeps. To see that something was *not* sent, end the actor: what it sent is in
the mailboxes by then (`Bench.end`).
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from capstan.runtime import Actor, Address, Exit, Running, spawn

M = TypeVar("M")

DEADLINE = 20.0


class Mailbox:
    """Somebody who is told things and keeps them.

    Attributes:
        heard: Every message, in order.
    """

    def __init__(self, bench: "Bench", name: str) -> None:
        self.heard: list[Any] = []
        self._changed = threading.Condition()
        self._running = bench.spawn(lambda: _Listener(self._hear), name=name)

    @property
    def address(self) -> Address:
        """Where to send to."""
        return self._running.address

    def _hear(self, message: object) -> None:
        with self._changed:
            self.heard.append(message)
            self._changed.notify_all()

    def of(self, kind: type[M]) -> list[M]:
        """The messages of one kind."""
        return [message for message in self.heard if isinstance(message, kind)]

    def wait_for(self, kind: type[M], count: int = 1) -> M:
        """Wait for so many messages of one kind; gives the last of them."""
        with self._changed:
            heard = self._changed.wait_for(lambda: len(self.of(kind)) >= count, DEADLINE)
            assert heard, f"{len(self.of(kind))} of {count} {kind.__name__} in {self.heard}"
            return self.of(kind)[count - 1]

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
        self._mailboxes: list[Mailbox] = []

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
        mailbox = Mailbox(self, name)
        self._mailboxes.append(mailbox)
        return mailbox

    def exit_of(self, running: Running) -> Exit:
        """Wait for the end that an actor comes to by itself."""
        assert running.wait_ended(DEADLINE), f"{running.address.name} lives on"
        assert running.exit is not None
        return running.exit

    def end(self, running: Running) -> Exit:
        """Let an actor handle what it was told and end it; all that it sent has been heard then."""
        running.request_stop()
        exit_ = self.exit_of(running)
        for mailbox in self._mailboxes:
            mailbox.die()
        return exit_

    def close(self) -> None:
        """End all that is left."""
        for running in self._all:
            running.interrupt()
        for running in self._all:
            assert running.wait_ended(DEADLINE), f"{running.address.name} lives on"
