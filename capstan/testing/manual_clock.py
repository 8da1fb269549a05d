"""A steady clock that a test can push forward.

House rules: it runs by itself, like the clock it stands for, because what it drives waits in real
time between two looks; it never goes back. Pipelines have no option for a clock: while it is in
force, the supervision of those that are started is given this one.
"""

import contextlib
import functools
import threading
import time
from types import TracebackType
from typing import Self

from capstan import pipeline
from capstan.supervision.tree import launch


class ManualClock:
    """Monotonic seconds plus what it was pushed; thread-safe.

    Inside its `with` block it is the clock of every pipeline that is started there: deadlines of
    sink calls, of starts and of stops pass when the test says so. Heartbeats, waits between dials
    and timeouts of the host's own calls run on real time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pushed = 0.0
        self._restore = contextlib.ExitStack()

    def __call__(self) -> float:
        """The time now."""
        with self._lock:
            return time.monotonic() + self._pushed

    def push(self, seconds: float) -> None:
        """Let so many seconds pass at once.

        Raises:
            ValueError: For a step back.
        """
        if seconds < 0:
            raise ValueError("a steady clock does not go back")
        with self._lock:
            self._pushed += seconds

    def __enter__(self) -> Self:
        self._restore.callback(setattr, pipeline, "launch", launch)
        setattr(pipeline, "launch", functools.partial(launch, clock=self))  # noqa: B010 - not its own
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore.close()
