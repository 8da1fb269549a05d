"""When to dial again, and when to look again."""

import itertools

import pytest
from tenacity.wait import wait_exponential, wait_fixed

from capstan.sources.redial import REDIAL_WAIT, Redial, Settling, _state, recapture_wait

STEADY = wait_exponential(multiplier=1, max=10)


def test_the_budget_is_so_many_failures_and_the_waits_between_them() -> None:
    """R53: four failures leave three waits; then it is exhausted and stays so."""
    redial = Redial(4, wait=STEADY)
    assert [redial.next_delay() for _ in range(6)] == [1.0, 2.0, 4.0, None, None, None]


def test_a_budget_of_one_ends_with_the_first_failure() -> None:
    """R53: the number of dials is bounded."""
    assert Redial(1, wait=STEADY).next_delay() is None


def test_progress_fills_the_budget_and_starts_the_waits_again() -> None:
    """R53: only a moved watermark does; a connect that succeeds is not told to it."""
    redial = Redial(3, wait=STEADY)
    assert (redial.next_delay(), redial.next_delay(), redial.failures) == (1.0, 2.0, 2)
    redial.progress()
    assert redial.failures == 0
    assert [redial.next_delay() for _ in range(3)] == [1.0, 2.0, None]


def test_a_cut_that_is_not_counted_costs_nothing() -> None:
    """D15: the server's patience may end a thousand times while the reader has no credit."""
    redial = Redial(2, wait=STEADY)
    assert {redial.next_delay(counted=False) for _ in range(1000)} == {1.0}
    assert redial.next_delay() == 1.0
    assert redial.next_delay(counted=False) == 1.0
    assert redial.next_delay() is None


def test_the_usual_waits_grow_with_jitter_up_to_a_bound() -> None:
    """R53: never zero, never two dialers in step, never longer than the bound."""
    waits = [[REDIAL_WAIT(_state(attempt)) for _ in range(20)] for attempt in range(1, 15)]
    assert all(0.1 <= wait <= 0.2 for wait in waits[0])
    assert all(30.0 <= wait <= 30.1 for wait in waits[-1])
    assert all(len(set(row)) > 1 for row in waits)
    assert all(min(later) > min(row) for row, later in itertools.pairwise(waits[:9]))


def test_settling_looks_more_and_more_rarely_and_once_more_at_the_end() -> None:
    """D14: the last look falls on the time-out itself."""
    now = 100.0
    settling = Settling(10.0, wait=wait_exponential(multiplier=1, max=4), clock=lambda: now)
    delays = []
    while (delay := settling.next_delay()) is not None:
        delays.append(delay)
        now += delay
    assert delays == [1.0, 2.0, 4.0, 3.0]
    assert settling.next_delay() is None


def test_a_slow_look_counts_as_time() -> None:
    """D14: what the query itself takes is part of the time-out."""
    times = iter([0.0, 9.5, 10.0])
    settling = Settling(10.0, wait=wait_fixed(2), clock=lambda: next(times))
    assert settling.next_delay() == pytest.approx(0.5)
    assert settling.next_delay() is None


def test_a_missed_capture_leaves_the_table_alone_for_ten_lock_waits() -> None:
    """D2: writers that queued behind the lock have ten times as long in peace."""
    redial = Redial(30, wait=recapture_wait(2))
    delays = [redial.next_delay() for _ in range(29)]
    assert all(20 <= delay <= 22 for delay in delays if delay is not None)
    assert None not in delays
    assert redial.next_delay() is None
