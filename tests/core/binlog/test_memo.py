"""The bounded memory of computed values."""

import pytest

from capstan.core.binlog.memo import Memo


def test_a_value_is_computed_once_while_it_is_remembered():
    """R266: the memory gives what the function gave."""
    asked = []

    def double(number: int) -> int:
        asked.append(number)
        return 2 * number

    memo = Memo(double, 2)
    assert [memo[1], memo[1], memo[2]] == [2, 2, 4]
    assert asked == [1, 2]


def test_a_full_memory_starts_again():
    """R266: it never holds more than its limit."""
    memo = Memo(str, 3)
    for number in range(100):
        assert memo[number] == str(number)
        assert len(memo) <= 3


def test_a_failure_passes_through_and_is_not_remembered():
    """R266: what cannot be computed has no value."""
    memo = Memo(int, 3)
    with pytest.raises(ValueError):
        memo["x"]
    assert not memo
