"""The report: its arithmetic and its verdict."""

import pytest

from capstan.demo.compare import Comparison, Difference
from capstan.demo.delivery_log import Deliveries
from capstan.demo.demo_report import Report, percentile
from capstan.demo.workload_session import Tally

SAME = Comparison(tables=3, rows=40, differences=())


def report(deliveries: Deliveries, comparison: Comparison = SAME) -> Report:
    return Report(
        seed=12,
        tally=Tally(journalled=10, rolled_back=2),
        restarts=4,
        deliveries=deliveries,
        comparison=comparison,
        backfilled=2000,
        chunks=3,
    )


def test_a_percentile_is_the_smallest_value_that_covers_its_share() -> None:
    """Nearest rank: always one of the values."""
    values = list(range(100, 0, -1))
    assert percentile(values, 0.5) == 50
    assert percentile(values, 0.99) == 99
    assert percentile(values, 1.0) == 100
    assert percentile([7], 0.01) == 7
    assert percentile([1, 2, 3], 0.5) == 2


def test_an_identical_mirror_without_duplicates_is_good() -> None:
    """The verdict and the figures stand in the report."""
    good = report(Deliveries(transactions=9, rows=30, latencies=[1000, 9000], undisturbed=[1000]))
    assert good.good
    lines = good.lines()
    assert "mirror identical: yes" in lines
    assert "delivered twice: 0" in lines
    text = "\n".join(lines)
    assert "p50 1.0 ms, p99 1.0 ms while streaming; p50 1.0 ms, p99 9.0 ms" in text
    assert "9 in the mirror" in text
    assert "4 after SIGKILL" in text
    assert "2000 rows of before, in 3 chunks" in text


@pytest.mark.parametrize("wrong", [Deliveries(duplicates=1), Deliveries(torn=1)])
def test_a_duplicate_or_a_torn_batch_is_not_good(wrong: Deliveries) -> None:
    """An identical mirror alone is not enough."""
    assert not report(wrong).good
    assert "none measured" in "\n".join(report(wrong).lines())


def test_differences_are_told_by_table_and_count() -> None:
    """A mirror that differs says where and in how many rows."""
    comparison = Comparison(
        tables=1, rows=2, differences=(Difference(table="shop.orders", missing=3, differing=1),)
    )
    wrong = report(Deliveries(), comparison)
    assert not wrong.good
    assert wrong.lines()[-3:] == [
        "  shop.orders: 3 missing, 1 differing",
        "mirror identical: no",
        "seed: 12",
    ]
