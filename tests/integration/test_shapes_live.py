"""Each shape that a statement has in the binlog, on a real server, with its one right outcome.

House rules: a row of `SHAPES` is a row of the list of what the server writes. Beside its outcome it
holds the rule that gives it, as a way to take that rule away: a second test plays the row without
its rule and must see another outcome, so that no row can pass for a reason of its own.
"""

import itertools
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
from helpers.mysql import Database, fresh_database
from helpers.stage import Outcome, Stage

from capstan import HaltReason
from capstan.core import shapes
from capstan.core.assembly import Fold
from capstan.core.binlog import statement_ddl
from capstan.core.binlog.header import EventType
from capstan.core.binlog.statement_types import UNKNOWN
from capstan.core.binlog.statements import StatementKind
from capstan.core.gtid import GtidAccumulator
from capstan.core.shapes import Cell, Shape, State
from capstan.demo.mysql_access import SqlServer

Removal = Callable[[pytest.MonkeyPatch], None]
"""Takes one rule away."""

XA = HaltReason.UNSUPPORTED_TRANSACTION_SHAPE
OTHER_SOURCE = str(uuid.uuid4())
NUMBERS = itertools.count(5, 10)
"""Of the transactions that a row numbers itself; each play takes a new one, far from the last."""


def without(state: State, shape: Shape) -> Removal:
    """The table of shapes lacks this cell."""
    return lambda patch: patch.delitem(shapes.TABLE[state], shape)


def instead(state: State, shape: Shape, action: str, then: State = State.OUTSIDE) -> Removal:
    """The table of shapes has another action here, such as other tools take."""
    return lambda patch: patch.setitem(shapes.TABLE[state], shape, Cell(then, action))


def one_table_map_at_a_time(patch: pytest.MonkeyPatch) -> None:
    """Rows belong to the last table map, not to the one whose id they have."""
    learn = Fold._map_table

    def forgetful(fold: Fold, data: bytes, start: int, end: int) -> None:
        fold._tables.clear()
        learn(fold, data, start, end)

    patch.setattr(Fold, "_map_table", forgetful)


def up_to_the_highest(patch: pytest.MonkeyPatch) -> None:
    """A source's set is 1 to the highest number that was seen."""
    add = GtidAccumulator.add

    def fill(processed: GtidAccumulator, source: str, tag: str, number: int) -> bool:
        return [add(processed, source, tag, each) for each in range(1, number + 1)][-1]

    patch.setattr(GtidAccumulator, "add", fill)


def no_tags(patch: pytest.MonkeyPatch) -> None:
    """A tag is taken for a part of the decoration."""
    begin = Fold._begin_tagged_group

    def tagless(fold: Fold, data: bytes, start: int, end: int) -> State | None:
        state = begin(fold, data, start, end)
        fold._group = fold._group._replace(tag="")
        return state

    patch.setattr(Fold, "_begin_tagged_group", tagless)


@attrs.frozen(kw_only=True)
class Row:
    """One shape.

    Attributes:
        setup: What must be there before.
        sessions: The statements, by session.
        logged: How many transactions the server writes.
        told: What the sink gets.
        halt: How it ends, None when the stream goes on.
        rule: Takes away the rule that the outcome rests on.
    """

    setup: tuple[str, ...] = ()
    sessions: tuple[tuple[str, ...], ...]
    logged: int
    told: list[Any] = attrs.field(factory=list)
    halt: HaltReason | None = None
    rule: Removal


def inserted(table: str, *rows: tuple[Any, ...]) -> list[Any]:
    """A transaction that only inserts."""
    return [("insert", table, row, None) for row in rows]


PREPARED = ("XA START 'a'", "INSERT INTO t VALUES (1, 'x')", "XA END 'a'", "XA PREPARE 'a'")

SHAPES: dict[str, Row] = {
    "self-committing statements": Row(
        sessions=(
            (
                "CREATE TABLE t2 (id INT PRIMARY KEY)",
                "ALTER TABLE t2 ADD x INT",
                "RENAME TABLE t2 TO t3",
                "TRUNCATE TABLE t3",
                "DROP TABLE t3",
                "CREATE VIEW v AS SELECT 1 AS a",
                "DROP VIEW v",
            ),
        ),
        logged=7,
        told=[
            "create_table t2",
            "alter_table t2",
            "rename_table t2 to t3",
            "truncate_table t3",
            "drop_table t3",
            "create_view v",
            "drop_view v",
        ],
        rule=without(State.STARTED, Shape.DDL),
    ),
    "self-committing statements that name nothing": Row(
        sessions=(("CREATE USER capstan_shape", "ANALYZE TABLE t", "DROP USER capstan_shape"),),
        logged=3,
        rule=lambda patch: patch.setitem(
            shapes.STATEMENT_SHAPES, StatementKind.OTHER, Shape.FOREIGN
        ),
    ),
    "CREATE TABLE … SELECT": Row(
        setup=("INSERT INTO t VALUES (1, 'a'), (2, NULL)",),
        sessions=(
            ("CREATE TABLE t2 AS SELECT id FROM t", "CREATE TABLE t3 COMMENT 'x' SELECT id FROM t"),
        ),
        logged=2,
        told=[
            *("create_table t2", inserted("t2", (1,), (2,))),
            *("create_table t3", inserted("t3", (1,), (2,))),
        ],
        rule=without(State.BLOCK, Shape.CREATE_SELECT),
    ),
    "DML of InnoDB": Row(
        sessions=(
            (
                "BEGIN",
                "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
                "UPDATE t SET v = 'c' WHERE id = 2",
                "DELETE FROM t WHERE id = 1",
                "COMMIT",
            ),
        ),
        logged=1,
        told=[
            [
                *inserted("t", (1, "a"), (2, "b")),
                ("update", "t", (2, "c"), (2, "b")),
                ("delete", "t", None, (1, "a")),
            ]
        ],
        rule=without(State.BLOCK, Shape.XID),
    ),
    "DML of MyISAM": Row(
        sessions=(("INSERT INTO m VALUES (1), (2)", "DELETE FROM m WHERE id = 1"),),
        logged=2,
        told=[inserted("m", (1,), (2,)), [("delete", "m", None, (1,))]],
        rule=without(State.BLOCK, Shape.COMMIT),
    ),
    "MyISAM inside a rolled back transaction": Row(
        sessions=(
            (
                "BEGIN",
                "INSERT INTO m VALUES (1)",
                "INSERT INTO t VALUES (1, 'a')",
                "ROLLBACK",
            ),
        ),
        logged=1,
        told=[inserted("m", (1,))],
        rule=without(State.BLOCK, Shape.COMMIT),
    ),
    "SAVEPOINT": Row(
        sessions=(
            (
                "BEGIN",
                "INSERT INTO t VALUES (1, 'a')",
                "SAVEPOINT s1",
                "INSERT INTO t VALUES (2, 'b')",
                "ROLLBACK TO s1",
                "INSERT INTO t VALUES (3, 'c')",
                "COMMIT",
            ),
        ),
        logged=1,
        told=[inserted("t", (1, "a"), (3, "c"))],
        rule=without(State.BLOCK, Shape.SAVEPOINT),
    ),
    "XA in two phases, committed": Row(
        sessions=(PREPARED, ("XA COMMIT 'a'",)),
        logged=2,
        halt=XA,
        rule=instead(State.XA_BLOCK, Shape.XA_PREPARE, "release"),
    ),
    "XA in two phases, rolled back": Row(
        sessions=(PREPARED, ("XA ROLLBACK 'a'",)),
        logged=2,
        halt=XA,
        rule=instead(State.XA_BLOCK, Shape.XA_PREPARE, "release"),
    ),
    "XA COMMIT of what was prepared before": Row(
        setup=(*PREPARED, "INSERT INTO t VALUES (2, 'y')"),
        sessions=(("XA COMMIT 'a'",),),
        logged=1,
        halt=XA,
        rule=instead(State.STARTED, Shape.XA_RESOLUTION, "take_ddl"),
    ),
    "XA ROLLBACK of what was prepared before": Row(
        setup=PREPARED,
        sessions=(("XA ROLLBACK 'a'",),),
        logged=1,
        halt=XA,
        rule=instead(State.STARTED, Shape.XA_RESOLUTION, "take_ddl"),
    ),
    "XA in one phase": Row(
        sessions=((*PREPARED[:-1], "XA COMMIT 'a' ONE PHASE"),),
        logged=1,
        halt=XA,
        rule=instead(State.XA_BLOCK, Shape.XA_PREPARE, "release"),
    ),
    "a change in statement format": Row(
        sessions=(("SET binlog_format = STATEMENT", "INSERT INTO t VALUES (1, 'a')"),),
        logged=1,
        halt=HaltReason.STATEMENT_BASED_CHANGE,
        rule=instead(State.BLOCK, Shape.STATEMENT, "pass_over", State.BLOCK),
    ),
    "the statement beside its rows": Row(
        sessions=(
            (
                "SET binlog_rows_query_log_events = ON",
                "INSERT INTO t VALUES (1, 'COMMIT') /* COMMIT */",
            ),
        ),
        logged=1,
        told=[inserted("t", (1, "COMMIT"))],
        rule=without(State.BLOCK, Shape.ROWS_QUERY),
    ),
    "a cascade over a foreign key": Row(
        setup=(
            "CREATE TABLE parent (id INT PRIMARY KEY)",
            "CREATE TABLE child (id INT PRIMARY KEY, p INT)",
            "ALTER TABLE child ADD FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE",
            "INSERT INTO parent VALUES (1), (2)",
            "INSERT INTO child VALUES (10, 1)",
        ),
        sessions=(("DELETE FROM parent WHERE id = 1",),),
        logged=1,
        told=[[("delete", "child", None, (10, 1)), ("delete", "parent", None, (1,))]],
        rule=one_table_map_at_a_time,
    ),
    "a GTID with a tag": Row(
        sessions=(("SET gtid_next = 'automatic:blue'", "INSERT INTO t VALUES (1, 'a')"),),
        logged=1,
        told=[inserted("t", (1, "a"))],
        rule=without(State.OUTSIDE, Shape.TAGGED_GTID),
    ),
    "a GTID whose tag counts": Row(
        # The same number with another tag is another transaction; a pipeline that lost the tag
        # would take the second for a repetition of the first.
        sessions=(
            (
                f"SET gtid_next = '{OTHER_SOURCE}:red:{{number}}'",
                "INSERT INTO t VALUES (1, 'a')",
                f"SET gtid_next = '{OTHER_SOURCE}:blue:{{number}}'",
                "INSERT INTO t VALUES (2, 'b')",
            ),
        ),
        logged=2,
        told=[inserted("t", (1, "a")), inserted("t", (2, "b"))],
        rule=no_tags,
    ),
    "a compressed transaction": Row(
        sessions=(
            (
                "SET binlog_transaction_compression = ON",
                "BEGIN",
                "INSERT INTO t VALUES (1, 'a')",
                "SAVEPOINT s",
                "UPDATE t SET v = 'b'",
                "COMMIT",
            ),
        ),
        logged=1,
        told=[[*inserted("t", (1, "a")), ("update", "t", (1, "b"), (1, "a"))]],
        rule=instead(State.STARTED, Shape.PAYLOAD, "release"),
    ),
    "an update of a document as diffs": Row(
        setup=(
            "CREATE TABLE j (id INT PRIMARY KEY, d JSON)",
            """INSERT INTO j VALUES (1, '{"a": 1, "b": "a text that is longer than its diff"}')""",
        ),
        sessions=(
            (
                "SET binlog_row_value_options = PARTIAL_JSON",
                "UPDATE j SET d = JSON_SET(d, '$.a', 2)",
            ),
        ),
        logged=1,
        told=[
            [
                (
                    "update",
                    "j",
                    (1, '{"a": 2, "b": "a text that is longer than its diff"}'),
                    (1, '{"a": 1, "b": "a text that is longer than its diff"}'),
                )
            ]
        ],
        rule=lambda patch: patch.delitem(shapes.SHAPES, EventType.PARTIAL_UPDATE_ROWS),
    ),
    "an empty transaction, which leaves a hole": Row(
        sessions=((f"SET gtid_next = '{OTHER_SOURCE}:{{number}}'", "BEGIN", "COMMIT"),),
        logged=1,
        rule=up_to_the_highest,
    ),
    "temporary tables": Row(
        sessions=(
            (
                "CREATE TEMPORARY TABLE tt (id INT)",
                "INSERT INTO tt VALUES (1)",
                "DROP TEMPORARY TABLE tt",
            ),
            # Only statement format has anything to say about them.
            (
                "SET binlog_format = STATEMENT",
                "CREATE TEMPORARY TABLE tt (id INT)",
                "DROP TEMPORARY TABLE tt",
            ),
        ),
        logged=2,
        rule=lambda patch: patch.setattr(statement_ddl, "HARMLESS", UNKNOWN),
    ),
}

TABLES = (
    "DROP TABLE IF EXISTS child, parent, j, t2, t3, t, m",
    "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))",
    "CREATE TABLE m (id INT PRIMARY KEY) ENGINE = MyISAM",
)


@pytest.fixture(scope="module")
def played_in(mysql_server: SqlServer) -> Iterator[Database]:
    """One database for all rows."""
    with fresh_database(mysql_server) as database:
        yield database


@pytest.fixture(scope="module")
def stage(played_in: Database) -> Iterator[Stage]:
    """A pipeline that goes on from row to row."""
    with Stage(played_in.server, played_in.name) as stage:
        yield stage


def played(stage: Stage, row: Row) -> Outcome:
    """The row, in tables of its own."""
    number = str(next(NUMBERS))
    sessions = [
        [statement.replace("{number}", number) for statement in session] for session in row.sessions
    ]
    return stage.play(*sessions, setup=(*TABLES, *row.setup))


def seen(outcome: Outcome) -> tuple[list[Any], HaltReason | None, bool]:
    """What the sink got, how it ended, and whether the position is exactly where it belongs."""
    kept = outcome.before if outcome.halt else outcome.executed
    return outcome.plain, outcome.halt, outcome.watermark == kept


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_comes_to_its_outcome(stage: Stage, name: str) -> None:
    """R1-R6, R9, R10, R15, R16, R18-R25, R33, D17, D19-D22: changes, position and halt of each."""
    row = SHAPES[name]

    outcome = played(stage, row)

    assert outcome.logged == row.logged
    assert seen(outcome) == (row.told, row.halt, True)


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_without_its_rule_comes_to_another(
    played_in: Database, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rule above is what its outcome rests on: the test would see that it is gone."""
    row = SHAPES[name]
    row.rule(monkeypatch)

    with Stage(played_in.server, played_in.name) as stage:
        outcome = played(stage, row)

    assert outcome.logged == row.logged
    assert seen(outcome) != (row.told, row.halt, True)
