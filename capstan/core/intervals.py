"""Sets of whole numbers as sorted runs: the only interval arithmetic there is (R108).

House rules: a set is a sorted tuple of half-open `(start, end)` pairs that neither overlap nor
touch, so equal sets are equal tuples. The functions are pure and linear. `Runs` is the one mutable
thing: it grows number by number and hands out such a tuple. Nothing here knows what is counted.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import chain
from typing import Final

Interval = tuple[int, int]
Intervals = tuple[Interval, ...]

_ABOVE_ALL: Final = float("inf")


def merge(pairs: Iterable[Interval]) -> Intervals:
    """The set covered by non-empty pairs in any order, overlapping or not."""
    merged: list[Interval] = []
    last_start, last_end = -1, -1
    for start, end in sorted(pairs):
        if merged and start <= last_end:
            if end > last_end:
                last_end = end
                merged[-1] = (last_start, last_end)
        else:
            last_start, last_end = start, end
            merged.append((start, end))
    return tuple(merged)


def union(left: Intervals, right: Intervals) -> Intervals:
    """What is in one or the other."""
    if not right or left == right:
        return left
    if not left:
        return right
    return merge(chain(left, right))


def intersect(left: Intervals, right: Intervals) -> Intervals:
    """What is in both."""
    common: list[Interval] = []
    i = j = 0
    while i < len(left) and j < len(right):
        start = max(left[i][0], right[j][0])
        end = min(left[i][1], right[j][1])
        if start < end:
            common.append((start, end))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(common)


def subtract(left: Intervals, right: Intervals) -> Intervals:
    """What is in `left` and not in `right`."""
    rest: list[Interval] = []
    j = 0
    for start, end in left:
        while j < len(right) and right[j][1] <= start:
            j += 1
        k = j
        while k < len(right) and right[k][0] < end:
            if start < right[k][0]:
                rest.append((start, right[k][0]))
            start = right[k][1]  # noqa: PLW2901 - the pair is eaten from its left end
            k += 1
        if start < end:
            rest.append((start, end))
        j = max(j, k - 1)
    return tuple(rest)


def contains(intervals: Intervals, number: int) -> bool:
    """Whether the number is a member: at once near the top, else by bisection."""
    if not intervals:
        return False
    start, end = intervals[-1]
    if number >= start:
        return number < end
    index = bisect_right(intervals, (number, _ABOVE_ALL)) - 1
    return index >= 0 and number < intervals[index][1]


def covers(whole: Intervals, part: Intervals) -> bool:
    """Whether every number of `part` is in `whole`."""
    i = 0
    for start, end in part:
        while i < len(whole) and whole[i][1] < end:
            i += 1
        if i == len(whole) or whole[i][0] > start:
            return False
    return True


def count(intervals: Intervals) -> int:
    """How many numbers the set holds."""
    return sum(end - start for start, end in intervals)


class Runs:
    """A set that grows number by number; the next number of the run last grown costs O(1).

    That run is kept open: `top` is its end and `room` the highest number it can take without
    touching the run above it. The lists hold the other runs, and are made whole when needed.
    """

    __slots__ = ("_ends", "_open", "_starts", "room", "top")

    def __init__(self, intervals: Intervals = ()) -> None:
        self._starts = [start for start, _ in intervals]
        self._ends = [end for _, end in intervals]
        self._reopen(len(intervals) - 1)

    def _reopen(self, index: int) -> None:
        self._open = index
        self.top = self._ends[index] if index >= 0 else -1
        above = index + 1
        self.room = self._starts[above] - 2 if above < len(self._starts) else _ABOVE_ALL

    def _settle(self) -> None:
        if self._open >= 0:
            self._ends[self._open] = self.top

    def add(self, number: int) -> bool:
        """Put a number in; False when it was a member already."""
        if number == self.top and number <= self.room:
            self.top = number + 1
            return True
        self._settle()
        starts, ends = self._starts, self._ends
        above = bisect_right(starts, number)
        if above and number < ends[above - 1]:
            return False
        touches_below = above > 0 and ends[above - 1] == number
        touches_above = above < len(starts) and starts[above] == number + 1
        if touches_below and touches_above:
            del ends[above - 1], starts[above]
        elif touches_below:
            ends[above - 1] = number + 1
        elif touches_above:
            starts[above] = number
        else:
            starts.insert(above, number)
            ends.insert(above, number + 1)
        self._reopen(above - 1 if touches_below else above)
        return True

    def freeze(self) -> Intervals:
        """The set as it is now."""
        self._settle()
        return tuple(zip(self._starts, self._ends, strict=True))
