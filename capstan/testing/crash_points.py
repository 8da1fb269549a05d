"""Crash points: named places in a running pipeline where a test can strike.

House rules: the pipeline itself knows nothing of them. Stores and sinks are wrapped, and while
`CrashPoints` is active every message between actors passes through it. A point is named
`before actor call` or `after actor call`, where the call is a method of store or sink, `start`,
`send Message` or `receive Message`. Unused, nothing of this is in the way of anything.

How it works: actors are told apart by their thread's name, which is the actor's.
"""

import contextlib
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, ClassVar, Final, Self, TypeVar

import attrs

from capstan.config import Config
from capstan.runtime import Actor, Address
from capstan.sinks.base import Sink
from capstan.stores.base import Store

Act = Callable[[], object]
Base = TypeVar("Base")

_CONVERSATION: Final = "capstan.actors"
"""Where the actors and their messages come from; what supervisors say is left alone."""
_NOT_STRUCK: Final = frozenset({"handle_schema_change", "set_position"})
"""Called by the sink's own code, or by nobody while a pipeline runs."""
_ALWAYS: Final = frozenset(
    {"open", "close", "position", "handle_transaction", "handle_schema_changes"}
)
_WORDS: Final = 3


class PlannedCrash(BaseException):
    """What `crash` raises: no `Exception`, so that nobody takes it for a failure of a store."""


def crash() -> None:
    """Crash the actor that gets there; its supervisor starts it again.

    At a call of the sink it is a refusal like any other exception and halts `sink_failed`: crash at
    `before coordinator receive Assembled` or `before coordinator send Processed` instead.
    """
    raise PlannedCrash


def kill_process() -> None:
    """End this process on the spot, as a power cut would; for a process of its own only."""
    os.kill(os.getpid(), signal.SIGKILL)


@attrs.define(kw_only=True)
class _Strike:
    point: str
    act: Act
    first: int
    last: int


class CrashPoints:
    """Strikes at named points while its `with` block lasts.

    One at a time in a process. It counts every point that is passed, struck or not.
    """

    _active: ClassVar["CrashPoints | None"] = None

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._strikes: list[_Strike] = []
        self._passed: Counter[str] = Counter()
        self._actors: set[str] = set()
        self._restore = contextlib.ExitStack()

    def at(self, point: str, act: Act = crash, *, hit: int = 1, times: int = 1) -> None:
        """Strike there.

        Args:
            point: The point's name, such as `before checkpoint save_watermark`.
            act: What is done there: `crash`, `kill_process`, or code of the test's own.
            hit: At which time it is passed from the beginning, counted from 1.
            times: At how many times in a row.

        Raises:
            ValueError: For a name that is not built like one.
        """
        words = point.split(" ")
        if words[0] not in {"before", "after"} or len(words) < _WORDS:
            raise ValueError("a point is named 'before actor call' or 'after actor call'")
        strike = _Strike(point=point, act=act, first=hit, last=hit + times - 1)
        with self._lock:
            self._strikes.append(strike)

    @property
    def passed(self) -> Counter[str]:
        """Every point that was passed, and how often."""
        with self._lock:
            return Counter(self._passed)

    def wrap(self, config: Config) -> Config:
        """The same configuration with its sink and its store watched."""
        return attrs.evolve(config, sink=self.sink(config.sink), store=self.store(config.store))

    def store(self, store: Store) -> Store:
        """A store that does what this one does, with a point before and after each call."""
        return self._watched(Store, store, _public(Store))  # type: ignore[type-abstract]

    def sink(self, sink: Sink) -> Sink:
        """A sink that does what this one does, with a point before and after each call."""
        # What a sink does not do itself is left to its base class: pipelines look at that.
        own = {name for name in _public(Sink) if _overrides(type(sink), name)}
        return self._watched(Sink, sink, _ALWAYS | own)

    def __enter__(self) -> Self:
        if CrashPoints._active is not None:
            raise RuntimeError("crash points are active already")
        CrashPoints._active = self
        send, start, dispatch = Address.send, Actor._start, Actor._dispatch

        def watched_send(address: Address, message: object) -> bool:
            if not _in_conversation(message):
                return send(address, message)
            return bool(self._around(f"send {type(message).__name__}", send, address, message))

        def watched_start(actor: Actor) -> None:
            if not _in_conversation(actor):
                start(actor)
                return
            with self._lock:
                self._actors.add(actor.address.name)
            self._around("start", start, actor)

        def watched_dispatch(actor: Actor, message: object) -> None:
            if not _in_conversation(message):
                dispatch(actor, message)
                return
            self._around(f"receive {type(message).__name__}", dispatch, actor, message)

        self._replace(Address, "send", watched_send)
        self._replace(Actor, "_start", watched_start)
        self._replace(Actor, "_dispatch", watched_dispatch)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore.close()
        CrashPoints._active = None

    # -- in here -------------------------------------------------------------------------------

    def _replace(self, owner: type, name: str, method: Callable[..., object]) -> None:
        self._restore.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, method)

    def _watched(self, base: type[Base], inner: Base, names: Iterable[str]) -> Base:
        """An object of this class that hands these calls on, watched or not."""

        def handing_on(name: str) -> Callable[..., Any]:
            method = getattr(inner, name)
            if name in _NOT_STRUCK:
                return lambda _, *values, **named: method(*values, **named)
            return lambda _, *values, **named: self._around(name, method, *values, **named)

        methods = {name: handing_on(name) for name in names}
        watched: Base = type(f"Watched{base.__name__}", (base,), methods)()
        return watched

    def _around(self, call: str, method: Callable[..., Any], *values: Any, **named: Any) -> Any:
        actor = threading.current_thread().name
        if actor not in self._actors:
            return method(*values, **named)
        self._pass(f"before {actor} {call}")
        result = method(*values, **named)
        self._pass(f"after {actor} {call}")
        return result

    def _pass(self, point: str) -> None:
        with self._lock:
            self._passed[point] += 1
            count = self._passed[point]
            due = [s for s in self._strikes if s.point == point and s.first <= count <= s.last]
        for strike in due:
            strike.act()


def _in_conversation(thing: object) -> bool:
    return type(thing).__module__.startswith(_CONVERSATION)


def _public(base: type) -> set[str]:
    return {name for name in dir(base) if not name.startswith("_")}


def _overrides(kind: type, name: str) -> bool:
    return getattr(kind, name, None) not in {None, getattr(Sink, name)}
