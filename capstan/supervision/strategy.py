"""Strategies: which children share the fate of a failed one.

House rules: pure; knows names in start order and nothing else.
"""

from enum import StrEnum


class Strategy(StrEnum):
    """Who is stopped and started again when a child has to be restarted."""

    ONE_FOR_ONE = "one_for_one"
    """Only the failed child."""

    REST_FOR_ONE = "rest_for_one"
    """The failed child and all that started after it: they hold its address."""

    ONE_FOR_ALL = "one_for_all"
    """All children: they hold each other's addresses."""


def affected(strategy: Strategy, children: tuple[str, ...], failed: str) -> tuple[str, ...]:
    """Name the children to stop and start again, the failed one included.

    Args:
        strategy: The supervisor's strategy.
        children: All ids in start order.
        failed: The one that ended.

    Returns:
        Ids in start order; stopping goes the other way.
    """
    match strategy:
        case Strategy.ONE_FOR_ONE:
            return (failed,)
        case Strategy.REST_FOR_ONE:
            return children[children.index(failed) :]
        case Strategy.ONE_FOR_ALL:
            return children
