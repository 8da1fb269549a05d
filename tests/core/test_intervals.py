"""Interval arithmetic against plain sets of numbers."""

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from capstan.core import intervals as iv

numbers = st.frozensets(st.integers(1, 40), max_size=30)


def runs_of(members: frozenset[int]) -> iv.Intervals:
    """Independent construction: group consecutive numbers."""
    groups = groupby(enumerate(sorted(members)), key=lambda pair: pair[1] - pair[0])
    found = [[number for _, number in group] for _, group in groups]
    return tuple((run[0], run[-1] + 1) for run in found)


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 8)), max_size=12))
def test_merge_makes_sorted_runs_that_do_not_touch(pairs: list[tuple[int, int]]) -> None:
    """R43: overlapping and adjacent pairs in any order become one canonical form."""
    members = frozenset(n for start, size in pairs for n in range(start, start + size))
    assert iv.merge((start, start + size) for start, size in pairs) == runs_of(members)


@given(numbers, numbers)
def test_set_operations_agree_with_sets_of_numbers(
    left: frozenset[int], right: frozenset[int]
) -> None:
    """R108: union, intersection, difference and cover are those of the numbers themselves."""
    a, b = runs_of(left), runs_of(right)
    assert iv.union(a, b) == runs_of(left | right)
    assert iv.intersect(a, b) == runs_of(left & right)
    assert iv.subtract(a, b) == runs_of(left - right)
    assert iv.covers(a, b) == (right <= left)
    assert iv.count(a) == len(left)


@given(numbers, numbers)
def test_a_subset_is_always_covered(left: frozenset[int], right: frozenset[int]) -> None:
    """R108: a part is covered by its whole, and by the whole without one number it is not."""
    whole, part = runs_of(left | right), runs_of(right)
    assert iv.covers(whole, part)
    for number in right:
        assert not iv.covers(iv.subtract(whole, ((number, number + 1),)), part)


@given(numbers)
def test_contains_agrees_for_members_neighbours_and_strangers(members: frozenset[int]) -> None:
    """R38: membership is exact on both sides of every bound."""
    runs = runs_of(members)
    assert [n for n in range(43) if iv.contains(runs, n)] == sorted(members)


@given(numbers, st.lists(st.integers(1, 40), max_size=60))
def test_runs_grow_like_a_set_of_numbers(start: frozenset[int], added: list[int]) -> None:
    """R39: each number is new exactly once, in any order, whatever was there before."""
    runs = iv.Runs(runs_of(start))
    members = set(start)
    for number in added:
        assert runs.add(number) == (number not in members)
        members.add(number)
        assert runs.freeze() == runs_of(frozenset(members))


@given(numbers, st.lists(st.integers(1, 40), max_size=60))
def test_runs_are_the_same_without_a_freeze_between(
    start: frozenset[int], added: list[int]
) -> None:
    """R36: looking at the set while it grows changes nothing."""
    runs = iv.Runs(runs_of(start))
    fresh = [runs.add(number) for number in added]
    seen = set(start)
    assert fresh == [not (number in seen or seen.add(number)) for number in added]  # type: ignore[func-returns-value]
    assert runs.freeze() == runs_of(start | frozenset(added))


def test_a_run_that_fills_a_hole_joins_its_neighbours() -> None:
    """R36: a hole that fills up leaves one interval."""
    runs = iv.Runs(((1, 4), (7, 9), (20, 21)))
    assert [runs.add(number) for number in (4, 5, 6)] == [True, True, True]
    assert runs.freeze() == ((1, 9), (20, 21))
    assert not runs.add(6)
    assert runs.add(9)
    assert runs.freeze() == ((1, 10), (20, 21))


def test_a_frozen_set_does_not_grow_on() -> None:
    """R43: what was handed out stays as it was."""
    runs = iv.Runs()
    runs.add(1)
    before = runs.freeze()
    runs.add(2)
    assert before == ((1, 2),)
