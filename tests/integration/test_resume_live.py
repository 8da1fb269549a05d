"""A stream resumes behind exactly the set it is given: tags, holes, several sources, any order.

House rules: the server commits one numbered row under each GTID of a list that is out of order on
purpose; whatever subset a position holds, the other rows and no others must come.
"""

import itertools
import uuid
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from helpers.mysql import Database, fresh_database
from helpers.pipelines import config_for, halt_of
from helpers.stage import Listener, Stage, plain
from hypothesis import given, settings
from hypothesis import strategies as st

from capstan import GtidSet, HaltReason, Pipeline, SqliteStore, Transaction
from capstan.core.gtid import MAX_NUMBER, Gtid
from capstan.demo.mysql_access import SqlServer

ONE, OTHER = str(uuid.uuid4()), str(uuid.uuid4())
ORDER = [
    Gtid(ONE, "", 7),
    Gtid(ONE, "", 9),
    Gtid(ONE, "blue", 2),
    Gtid(OTHER, "", MAX_NUMBER - 1),
    Gtid(ONE, "", 8),
    Gtid(ONE, "blue", 1),
    Gtid(OTHER, "_9", 5),
    Gtid(ONE, "", 1),
    Gtid(OTHER, "", 3),
    Gtid(ONE, "green", 2),
    Gtid(ONE, "", 20),
    Gtid(ONE, "", 10),
]
"""As they are committed; row n is that of the n-th."""
ROWS = {gtid: number for number, gtid in enumerate(ORDER)}


@attrs.frozen
class History:
    """What the server has committed.

    Attributes:
        stage: Over its database.
        before: What the server had executed before the first of `ORDER`.
        after: What it had executed after the last.
    """

    stage: Stage
    before: GtidSet
    after: GtidSet


@pytest.fixture(scope="module")
def numbered(mysql_server: SqlServer) -> Iterator[Database]:
    """A database with one table."""
    with fresh_database(mysql_server) as database:
        database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        yield database


@pytest.fixture(scope="module")
def history(numbered: Database) -> Iterator[History]:
    """All of `ORDER`, committed."""
    with Stage(numbered.server, numbered.name) as stage:
        before = stage.executed()
        for gtid, number in ROWS.items():
            numbered.execute(f"SET gtid_next = '{gtid}'")
            numbered.execute(f"INSERT INTO t VALUES ({number})")
        numbered.execute("SET gtid_next = 'automatic'")
        yield History(stage, before, stage.executed())


@settings(max_examples=12, deadline=None)
@given(held=st.frozensets(st.sampled_from(ORDER)))
def test_what_a_position_lacks_comes_and_nothing_else(
    history: History, held: frozenset[Gtid]
) -> None:
    """R43, D22: membership, never a maximum (case 100)."""
    outcome = history.stage.late(history.before.add_all(held), history.after)

    assert outcome.halt is None
    assert [change.values for change in outcome.changes] == [
        (number,) for gtid, number in ROWS.items() if gtid not in held
    ]
    assert outcome.watermark == history.after


class Refusing(Listener):
    """Takes so many transactions and no more."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def handle_transaction(self, transaction: Transaction) -> None:
        """Keep it or refuse it."""
        if len(self.told) == self.count:
            raise RuntimeError
        super().handle_transaction(transaction)

    @property
    def numbers(self) -> list[int]:
        """Of the rows, in order."""
        return [
            plain(change)[2][0] for told in self.told if isinstance(told, list) for change in told
        ]


@pytest.mark.parametrize("steps", [(1,), (2, 3), (5, 1, 4)])
def test_each_start_goes_on_where_the_last_one_was_broken_off(
    numbered: Database, history: History, tmp_path: Path, steps: tuple[int, ...]
) -> None:
    """R31, R39, R40, R43, D22: kept on disk with holes and tags; each comes once, in order."""
    save(tmp_path, history.before)
    came: list[int] = []
    for count in itertools.cycle(steps):
        sink, store = Refusing(count), SqliteStore(tmp_path / "state.db")
        config = config_for(numbered.server, sink, [f"{numbered.name}.*"], store)
        ended = halt_of(config) if len(came) + count < len(ORDER) else None
        if ended is None:
            with Pipeline(config) as pipeline:
                assert pipeline.wait_for(history.after, 30)
        came += sink.numbers
        assert kept(tmp_path) == history.before.add_all(ORDER[: len(came)])
        if ended is None:
            break
        assert ended is HaltReason.SINK_FAILED

    assert came == list(ROWS.values())


def save(folder: Path, position: GtidSet) -> None:
    store = SqliteStore(folder / "state.db")
    store.hold()
    store.save_watermark(position)
    store.close()


def kept(folder: Path) -> GtidSet | None:
    store = SqliteStore(folder / "state.db")
    try:
        return store.load_watermark()
    finally:
        store.close()
