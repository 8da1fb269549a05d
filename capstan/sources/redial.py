"""When to dial again and when to give up: the one door to tenacity.

House rules: delays come out as numbers, nobody sleeps here, so that whoever waits can be stopped.
The budget counts failures without progress, not connects (a link that flaps ends too), and only
`progress()` fills it up again. Wait and stop are tenacity's objects, composed once below; a test
puts its own in their place.
"""

import time
from collections.abc import Callable
from typing import Final

from tenacity import RetryCallState, Retrying
from tenacity.stop import stop_after_attempt, stop_after_delay
from tenacity.wait import wait_base, wait_exponential, wait_fixed, wait_random

_FIRST: Final = 0.1
_LONGEST: Final = 30.0

REDIAL_WAIT: Final = wait_exponential(multiplier=_FIRST, max=_LONGEST) + wait_random(0, _FIRST)
"""0.1 s, doubled with each failure up to 30 s, and up to 0.1 s more by chance."""

SETTLE_WAIT: Final = wait_exponential(multiplier=0.05, max=1.0)
"""0.05 s, doubled up to 1 s: a look costs one short query."""


def recapture_wait(lock_wait: float) -> wait_base:
    """How long to leave a table alone after a missed capture: ten times the lock wait (D2).

    While a lock is waited for, writers queue behind it; so they have ten times as long in peace.
    """
    return wait_fixed(10 * lock_wait) + wait_random(0, lock_wait)


class Redial:
    """A budget of failed dials in a row, and the delay before each next one."""

    def __init__(self, attempts: int, wait: wait_base = REDIAL_WAIT) -> None:
        """Start with a full budget.

        Args:
            attempts: Failures without progress that exhaust it; at least 1.
            wait: How long after which failure.
        """
        self._stop = stop_after_attempt(attempts)
        self._wait = wait
        self._failures = 0

    @property
    def failures(self) -> int:
        """Failures counted since the last progress."""
        return self._failures

    def next_delay(self, *, counted: bool = True) -> float | None:
        """Note a failure.

        Args:
            counted: False for a cut that is nobody's fault, such as the server's patience
                ending while the reader had no credit: it costs nothing of the budget.

        Returns:
            Seconds to wait before dialling again; None when the budget is exhausted.
        """
        self._failures += counted
        state = _state(max(1, self._failures))
        if counted and self._stop(state):
            return None
        return float(self._wait(state))

    def progress(self) -> None:
        """The watermark moved: the budget is full again."""
        self._failures = 0


class Settling:
    """Looks again at a transaction that gtid_executed does not have yet (D14)."""

    def __init__(
        self,
        timeout: float,
        wait: wait_base = SETTLE_WAIT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the time running.

        Args:
            timeout: Seconds after which to give up.
            wait: How long after which look.
            clock: Seconds on a steady clock.
        """
        self._timeout = timeout
        self._stop = stop_after_delay(timeout)
        self._wait = wait
        self._clock = clock
        self._started = clock()
        self._looks = 0

    def next_delay(self) -> float | None:
        """Seconds until the next look, the last one when the time is up; None after that one."""
        self._looks += 1
        state = _state(self._looks)
        elapsed = self._clock() - self._started
        state.start_time, state.outcome_timestamp = 0.0, elapsed
        if self._stop(state):
            return None
        return min(float(self._wait(state)), self._timeout - elapsed)


def _state(attempt: int) -> RetryCallState:
    """What tenacity's strategies look at."""
    state = RetryCallState(Retrying(), fn=None, args=(), kwargs={})
    state.attempt_number = attempt
    return state
