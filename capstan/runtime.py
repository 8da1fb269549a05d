"""The one door to pykka: guarded actors, addresses that outlive them, exits as data.

House rules:

* Nobody else imports pykka, and nothing here knows what an actor is for.
* Each hook of an actor runs inside one guard. Whatever it raises, `BaseException` included, becomes
  an `Exit`; pykka's own handlers see nothing: they would log exception texts (which may hold
  values), miss a failed start, and answer a `BaseException` by stopping every actor in the process.
* An exit carries names only: a halt, or a crash's class and place. Never a message, never a frame.
* Actors are only told, never asked: an ask can hide a crash, or stay unanswered for ever. A mailbox
  has no bound: flow control belongs to the conversation.
* A thread cannot be killed: what may block watches its stop signal, and threads are daemons, so
  that a stuck one never keeps the process alive. Nobody else's actor is ever touched.
"""

import enum
import queue
import threading
import time
import traceback
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import attrs
import pykka

from capstan.core.halts import Halt, Halted, HaltReason

_PACKAGE: Final = Path(__file__).parent
_STOP: Final = object()
_WAKE: Final = object()


class StopSignal:
    """Says "stop now" to whatever may be blocking; given once, from any thread, for ever."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: dict[object, Callable[[], object]] = {}

    def is_set(self) -> bool:
        """Whether the signal was given."""
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait at most `timeout` seconds; True once the signal is given."""
        return self._event.wait(timeout)

    def set(self) -> None:
        """Give the signal and run the callbacks on this thread; the second call does nothing."""
        with self._lock:
            self._event.set()
            callbacks, self._callbacks = self._callbacks, {}
        for callback in callbacks.values():
            with suppress(BaseException):  # waking one must not keep the next from being woken
                callback()

    def on_set(self, callback: Callable[[], object]) -> Callable[[], object]:
        """Run `callback` once when the signal comes, at once if it has; what it raises is lost.

        Returns:
            A call that forgets the callback (which may be running already), for a closed socket.
        """
        ticket = object()
        with self._lock:
            if not self._event.is_set():
                self._callbacks[ticket] = callback
                return lambda: self._callbacks.pop(ticket, None)
        with suppress(BaseException):  # as in `set()`
            callback()
        return lambda: None


class BusyMark:
    """What an actor is busy with, and since when; written by the actor, read from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}

    @contextmanager
    def doing(self, label: str) -> Iterator[None]:
        """Mark the block as busy with `label`; of nested blocks with one label the outer counts."""
        outermost = label not in self._since
        if outermost:
            self._since[label] = self._clock()
        try:
            yield
        finally:
            if outermost:
                del self._since[label]

    def again(self, label: str) -> None:
        """Inside `doing(label)`: another round of the same begins now."""
        self._since[label] = self._clock()

    def seconds(self, label: str, now: float) -> float | None:
        """Seconds spent with `label` until `now` on the mark's clock; None when it is not on."""
        since = self._since.get(label)
        return None if since is None else now - since


@attrs.frozen
class Crash:
    """An exception nobody named, without its message.

    Attributes:
        exception_class: The name of its class.
        place: `file.py:line` of its innermost frame inside capstan, else of its innermost frame.
    """

    exception_class: str
    place: str

    def __str__(self) -> str:
        return f"{self.exception_class} at {self.place}"

    @classmethod
    def of(cls, error: BaseException) -> "Crash":
        """Keep what may be told of an exception that was raised."""
        steps = traceback.walk_tb(error.__traceback__)
        frames = [(Path(frame.f_code.co_filename), line) for frame, line in steps]
        # The guard below stands in every traceback, so its own file would tell nothing.
        ours = [f for f in frames if f[0].is_relative_to(_PACKAGE) and f[0] != Path(__file__)]
        file, line = (ours or frames)[-1]
        return cls(type(error).__name__, f"{file.name}:{line}")


class ExitKind(enum.StrEnum):
    """How an actor ended."""

    NORMAL = "normal"
    HALTED = "halted"
    CRASHED = "crashed"
    NEVER_STARTED = "never_started"


@attrs.frozen
class Exit:
    """How an actor ended; a `crash` beside a `halt` is that of another raise."""

    kind: ExitKind
    halt: Halt | None = None
    crash: Crash | None = None

    @classmethod
    def of(cls, error: BaseException, *, starting: bool = False) -> "Exit":
        """Triage what a hook raised; `starting` when it was the constructor or `started()`."""
        if isinstance(error, Halted):
            return cls(ExitKind.HALTED, error.halt)
        kind = ExitKind.NEVER_STARTED if starting else ExitKind.CRASHED
        return cls(kind, crash=Crash.of(error))

    def then(self, last: "Exit") -> "Exit":
        """What counts when `stopped()` raised as well.

        A halt outranks a crash (which would be restarted), a crash outranks a normal end; of equals
        the earlier stays.
        """
        if self.kind is ExitKind.NORMAL:
            return last
        if last.kind is ExitKind.HALTED and self.kind is not ExitKind.HALTED:
            return attrs.evolve(last, crash=self.crash)
        return attrs.evolve(self, crash=self.crash or last.crash)


NORMAL_EXIT: Final = Exit(ExitKind.NORMAL)


@attrs.frozen(eq=False)
class Address:
    """Where an actor can be told something; outlives it without keeping anything of it.

    Attributes:
        name: The actor's name.
        incarnation: Which life of the actor of that name; a later life has a higher number.
    """

    name: str
    incarnation: int
    _ref: Callable[[], pykka.ActorRef[Any] | None] = attrs.field(repr=False, default=lambda: None)

    @property
    def alive(self) -> bool:
        """Whether the actor has not ended yet."""
        ref = self._ref()
        return ref is not None and ref.is_alive()

    def send(self, message: object) -> bool:
        """Put a message into the mailbox; never blocks, never raises.

        Returns:
            False when the actor is dead. True is no promise: what stands behind an exit is dropped.
        """
        ref = self._ref()
        if ref is None:
            return False
        try:
            ref.tell(message)
        except pykka.ActorDeadError:
            return False
        return True


class Running:
    """A spawned actor as its owner sees it, from any thread; outlives it without keeping it.

    Attributes:
        address: Where to send to.
        busy: What the actor is busy with.
        exit: How it ended; None while it lives.
    """

    def __init__(
        self, address: Address, on_started: Callable[[], object], on_exit: Callable[[Exit], object]
    ) -> None:
        self.address = address
        self.busy = BusyMark()
        self.exit: Exit | None = None
        self._stop_signal = StopSignal()
        self._on_started, self._on_exit = on_started, on_exit
        self._has_started = False
        self._start_decided, self._ended = threading.Event(), threading.Event()

    def wait_started(self, timeout: float | None) -> bool:
        """Wait until `started()` has returned; False on timeout or when it ended before that."""
        return self._start_decided.wait(timeout) and self._has_started

    def wait_ended(self, timeout: float | None) -> bool:
        """Wait until it has ended and its owner was told; False on timeout."""
        return self._ended.wait(timeout)

    def request_stop(self) -> None:
        """Ask for the end; the actor handles what is queued first, then drains as it sees fit."""
        self.address.send(_STOP)

    def interrupt(self) -> None:
        """Give the stop signal; the actor ends behind the message it is handling."""
        self._stop_signal.set()
        self.address.send(_WAKE)

    def _carry(self, actor: "Actor") -> None:
        if hasattr(actor, "_running"):
            raise RuntimeError("an actor lives only once: a factory has to make a new one")
        self.address = attrs.evolve(self.address, ref=weakref.ref(actor.actor_ref))
        self.busy, self._stop_signal = actor.busy, actor.stop_signal

    def _mark_started(self) -> None:
        self._has_started = True
        self._start_decided.set()
        with suppress(BaseException):  # a listener's raise must not reach pykka
            self._on_started()

    def _mark_ended(self, exit_: Exit) -> None:
        self.exit, self._stop_signal = exit_, StopSignal()  # the old one's callbacks hold the actor
        self._start_decided.set()
        with suppress(BaseException):  # as above
            self._on_exit(exit_)
        self._ended.set()


class Actor(pykka.ThreadingActor):
    """A guarded actor: one thread, one mailbox, one life that ends in exactly one `Exit`.

    Subclasses override the hooks; all run on the actor's own thread. A raise in any of them ends
    the actor: `Halted` as halted, everything else as crashed, in `started()` as never started.
    The constructor runs on the spawner's thread and must not block: I/O belongs into `started()`.

    Attributes:
        address: Its own address, to hand out; from `started()` on.
        incarnation: Which life of its name this is; from `started()` on.
        stop_signal: Given when it is interrupted: whatever blocks has to watch it.
        busy: Its mark, for its supervisor's watches.
    """

    use_daemon_thread = True
    address: Address
    incarnation: int
    _running: Running

    def __init__(self) -> None:
        super().__init__()
        self.stop_signal = StopSignal()
        self.busy = BusyMark()
        self._finishing = self._stop_asked = self._interrupt_seen = False

    def started(self) -> None:
        """Run first; no message is handled before it has returned."""

    @abstractmethod
    def receive(self, message: Any) -> None:
        """Handle one message."""

    def stop_requested(self) -> None:
        """Hear, once, that its owner wants it to end; who has to drain calls `finish()` later."""
        self.finish()

    def interrupted(self) -> None:
        """Hear, once, that the stop signal was given; nothing queued is handled any more."""
        self.finish()

    def stopped(self) -> None:
        """Run last, exactly once, after any end; nothing can be sent to the actor any more."""

    def exit_from_outside(self) -> Exit:
        """How it ends when somebody else used pykka's own stop on it (`stop_all` does)."""
        if self._stop_asked:
            return NORMAL_EXIT
        return Exit(ExitKind.HALTED, halt=Halt(HaltReason.STOPPED_FROM_OUTSIDE))

    def after(self, seconds: float, message: object) -> None:
        """Send `message` to itself in so many seconds; lost when the actor has ended by then."""
        timer = threading.Timer(seconds, self.address.send, [message])
        timer.daemon = True
        timer.start()

    def finish(self) -> None:
        """End normally behind the hook that calls this."""
        self._finishing = True

    @staticmethod
    def _create_actor_inbox() -> "queue.SimpleQueue[Any]":
        return queue.SimpleQueue()

    def on_start(self) -> None:
        """Begin the life (pykka's hook)."""
        threading.current_thread().name = self.address.name
        self._guard(self._start, starting=True)

    def on_receive(self, message: Any) -> None:
        """Handle one message (pykka's hook)."""
        self._guard(self._dispatch, message)

    def on_stop(self) -> None:
        """End the life (pykka's hook for its own stop, which is never used here)."""
        self._conclude(self.exit_from_outside())

    def _begin(self, running: Running) -> None:
        self._running = running
        self.address, self.incarnation = running.address, running.address.incarnation
        pykka.ActorRegistry.register(self.actor_ref)
        try:
            self._start_actor_loop()
        except RuntimeError as error:  # the system gives no more threads
            self._conclude(Exit.of(error, starting=True))

    def _start(self) -> None:
        self.started()
        self._running._mark_started()

    def _dispatch(self, message: Any) -> None:
        if self.stop_signal.is_set() and not self._interrupt_seen:
            self._interrupt_seen = True
            self.interrupted()
        if self._finishing or message is _WAKE:
            return
        if message is not _STOP:
            self.receive(message)
        elif not self._stop_asked:
            self._stop_asked = True
            self.stop_requested()

    def _guard(self, hook: Callable[..., None], *args: Any, starting: bool = False) -> None:
        try:
            hook(*args)
        except BaseException as error:  # noqa: BLE001 - nothing at all may reach pykka's handlers
            self._conclude(Exit.of(error, starting=starting))
        else:
            if self._finishing:
                self._conclude(NORMAL_EXIT)

    def _conclude(self, exit_: Exit) -> None:
        pykka.ActorRegistry.unregister(self.actor_ref)
        self.actor_stopped.set()
        try:
            self.stopped()
        except BaseException as error:  # noqa: BLE001 - as above
            exit_ = exit_.then(Exit.of(error))
        self._running._mark_ended(exit_)


def spawn(
    factory: Callable[[], Actor],
    *,
    name: str,
    incarnation: int,
    on_exit: Callable[[Exit], object],
    on_started: Callable[[], object] = lambda: None,
) -> Running:
    """Make an actor and start its thread; never raises for what the actor does.

    Args:
        factory: Makes a new actor on this thread; its raise is an exit, as in `started()`.
        name: The actor's name, and its thread's.
        incarnation: Which life of that name this is.
        on_exit: Told the exit once, on the actor's thread (on this one when nothing was started).
        on_started: Told once that `started()` has returned, on the actor's thread.
    """
    running = Running(Address(name, incarnation), on_started, on_exit)
    try:
        actor = factory()
        running._carry(actor)
    except BaseException as error:  # noqa: BLE001 - a constructor's raise is an exit like any other
        running._mark_ended(Exit.of(error, starting=True))
    else:
        actor._begin(running)
    return running
