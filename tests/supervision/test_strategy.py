"""Claims about strategies, as a pure function of names."""

import pytest

from capstan.supervision.strategy import Strategy, affected

CHILDREN = ("checkpoint", "coordinator", "stream", "backfill")


@pytest.mark.parametrize(
    ("strategy", "failed", "expected"),
    [
        (Strategy.ONE_FOR_ONE, "checkpoint", ("checkpoint",)),
        (Strategy.ONE_FOR_ONE, "backfill", ("backfill",)),
        (Strategy.REST_FOR_ONE, "checkpoint", CHILDREN),
        (Strategy.REST_FOR_ONE, "stream", ("stream", "backfill")),
        (Strategy.REST_FOR_ONE, "backfill", ("backfill",)),
        (Strategy.ONE_FOR_ALL, "checkpoint", CHILDREN),
        (Strategy.ONE_FOR_ALL, "backfill", CHILDREN),
    ],
)
def test_a_strategy_names_who_shares_the_fate(
    strategy: Strategy, failed: str, expected: tuple[str, ...]
) -> None:
    """The failed child and its companions, always in start order."""
    assert affected(strategy, CHILDREN, failed) == expected
