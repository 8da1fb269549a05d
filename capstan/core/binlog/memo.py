"""A bounded memory of computed values, read at the speed of a dict.

House rules: only for pure functions of small values that repeat: dates, label sets, key sections of
documents. When it is full it starts again from nothing: no order is kept, no book is held.
"""

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(dict[K, V]):
    """`memo[key]` is `compute(key)`, remembered for up to `limit` keys.

    Args:
        compute: A pure function; what it raises passes through and is not remembered.
        limit: How many values are kept at most.
    """

    __slots__ = ("_compute", "_limit")

    def __init__(self, compute: Callable[[K], V], limit: int) -> None:
        super().__init__()
        self._compute = compute
        self._limit = limit

    def __missing__(self, key: K) -> V:
        value = self._compute(key)
        if len(self) >= self._limit:
            self.clear()
        self[key] = value
        return value
