"""Waiting in tests: for a condition, never for a time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_POLL_SECONDS = 0.005


def wait_until(condition: Callable[[], T], *, timeout: float = 20.0, what: str) -> T:
    """Call ``condition`` until it gives something true, and return that.

    Args:
        condition: looked at every few milliseconds; what it raises goes to the caller.
        timeout: seconds after which the test fails.
        what: the condition in words, for the failure's message.

    Raises:
        AssertionError: the condition stayed false until the deadline.
    """
    deadline = time.monotonic() + timeout
    while not (seen := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout} s in vain: {what}")
        time.sleep(_POLL_SECONDS)
    return seen
