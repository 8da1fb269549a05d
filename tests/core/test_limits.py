"""Budgets: what rows weigh, and how it is told that there are too many."""

import sys
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from capstan.core.halts import HaltReason
from capstan.core.limits import Budget, over_total, weight_of

MIB = 1 << 20


def test_by_default_rows_may_take_sixty_four_mebibytes_and_there_may_be_any_number() -> None:
    """D25: the memory has a bound, the transaction has none."""
    assert Budget() == Budget(memory=64 * MIB, total=None)


@pytest.mark.parametrize(
    "row",
    [
        (1, 2, 3),
        (10**9, "ten bytes.", 2**63, None),
        (1.5, "ä" * 10, b"x" * 10, datetime(2026, 1, 1, tzinfo=UTC)),
        tuple(range(300, 1300)),
        (Decimal("12.34"), 400, "a", None),
        (None,),
    ],
)
def test_the_weight_is_near_what_python_takes(row: tuple[object, ...]) -> None:
    """D25: without the bytes on the wire, which are counted beside it; never off by half."""
    collector = 16
    real = sys.getsizeof(row) + collector + sum(sys.getsizeof(value) for value in row)
    on_the_wire = sum(len(value) for value in row if isinstance(value, str | bytes))

    assert 0.5 < (weight_of(len(row)) + on_the_wire) / real < 2


def test_the_halt_tells_both_numbers_and_nothing_else() -> None:
    """D25, R265: how far it had grown, and against what."""
    halt = over_total(120, 100).halt

    assert halt.reason is HaltReason.TRANSACTION_TOO_LARGE
    assert halt.detail == "row events of 120 bytes and more against a limit of 100"
