"""A sink of one's own and its tests: `pytest examples/sink_under_test.py`, no MySQL needed."""

import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

import capstan
from capstan.testing import CrashPoints, ScriptedMysql, Table, misbehaviours

ORDERS = Table("shop.orders", "id int unsigned", "state varchar(20)", key="id")


class StateCounts(capstan.Sink):
    """Counts orders by state; counts and position change in one transaction of the target."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with contextlib.closing(sqlite3.connect(path)) as target, target:
            target.execute("CREATE TABLE IF NOT EXISTS counts (state UNIQUE, orders)")
            target.execute("CREATE TABLE IF NOT EXISTS position (id PRIMARY KEY, done)")

    def handle_transaction(self, transaction: capstan.Transaction) -> None:
        """Take old rows off their state, add new ones to theirs."""
        with contextlib.closing(sqlite3.connect(self.path)) as target, target:
            for change in transaction.changes:
                for record, step in ((change.old_record, -1), (change.record, 1)):
                    if record is not None:
                        values = (record["state"], step)
                        target.execute(
                            "INSERT INTO counts VALUES (?, ?) ON CONFLICT (state)"
                            " DO UPDATE SET orders = orders + excluded.orders",
                            values,
                        )
            done = str(transaction.position)
            target.execute("INSERT OR REPLACE INTO position VALUES (1, ?)", (done,))

    def position(self) -> capstan.GtidSet:
        """What is counted already."""
        rows = self.rows("SELECT done FROM position")
        return capstan.GtidSet.parse(str(rows[0][0]) if rows else "")

    def rows(self, query: str) -> Sequence[tuple[object, ...]]:
        """Ask the target."""
        with contextlib.closing(sqlite3.connect(self.path)) as target:
            return target.execute(query).fetchall()


@pytest.mark.parametrize(
    "point",
    ["before coordinator send Processed", "before checkpoint save_watermark", "nowhere"],
)
def test_each_order_is_counted_once(
    capstan_source: ScriptedMysql, capstan_points: CrashPoints, tmp_path: Path, point: str
) -> None:
    """Whatever crashes in between, and although the source is cut in a transaction."""
    sink = StateCounts(tmp_path / "counts.db")
    if point != "nowhere":
        capstan_points.at(point)
    config = capstan_source.config(sink, tables=["shop.*"])
    capstan_source.commit(ORDERS.insert((1, "new"), (2, "new")))
    with capstan.Pipeline(capstan_points.wrap(config)) as pipeline:
        capstan_source.misbehave(misbehaviours.cut_in_transaction(), times=1)
        capstan_source.commit(ORDERS.update(((1, "new"), (1, "paid"))))
        capstan_source.commit(ORDERS.delete((2, "new")))
        assert pipeline.wait_for(capstan_source.executed, timeout=30)
    assert sink.rows("SELECT state, orders FROM counts ORDER BY state") == [("new", 0), ("paid", 1)]
