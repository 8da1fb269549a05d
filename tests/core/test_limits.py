"""Budgets: which bound is in force, and how it is told."""

import pytest

from capstan.core.halts import HaltReason
from capstan.core.limits import Budget

MIB = 1 << 20


def test_by_default_a_transaction_may_hold_sixty_four_mebibytes() -> None:
    """D25: and has no limit of its own beside that."""
    assert Budget().limit == 64 * MIB


@pytest.mark.parametrize(
    ("memory", "total", "limit"),
    [(10, None, 10), (10, 5, 5), (10, 20, 10), (10, 10, 10)],
)
def test_the_narrower_bound_is_in_force(memory: int, total: int | None, limit: int) -> None:
    """D25: what may be held at all, or in memory."""
    assert Budget(memory=memory, total=total).limit == limit


def test_the_halt_tells_both_numbers_and_nothing_else() -> None:
    """D25, R265: how far it had grown, and against what."""
    halt = Budget(memory=100).exceeded(120).halt

    assert halt.reason is HaltReason.TRANSACTION_TOO_LARGE
    assert "120" in halt.detail
    assert "100" in halt.detail
