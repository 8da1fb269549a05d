"""Faults that users of other tools met, as workloads: events, transactions, DDL, XA, compression.

House rules: each case is played on a real server under a pipeline, then read once more by a
pipeline that starts when all of it is past; both must be told the same. Cases of one session lie in
`tests/data/cases/grammar`, those of several are made here.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import attrs
import pytest
from helpers.mysql import PrivateServers, execute
from helpers.stage import Outcome, Stage, Statement

from capstan import Change, HaltReason
from capstan.demo.mysql_install import MysqlPrograms
from capstan.demo.mysql_server import MysqlServer

FOLDER = Path(__file__).parents[1] / "data" / "cases" / "grammar"
XA = HaltReason.UNSUPPORTED_TRANSACTION_SHAPE


@pytest.fixture(scope="module")
def server(mysql_programs: MysqlPrograms) -> Iterator[MysqlServer]:
    """A server with the databases that the cases name."""
    with closing(PrivateServers(mysql_programs)) as servers:
        server = servers(options={"max_allowed_packet": "64M", "innodb_flush_method": "nosync"})
        with server.connect() as connection:
            execute(connection, "CREATE DATABASE bugs")
            execute(connection, "CREATE DATABASE bugs_other")
        yield server


@pytest.fixture(scope="module")
def stage(server: MysqlServer) -> Iterator[Stage]:
    """A pipeline over both databases."""
    with Stage(server, "bugs", ["bugs.*", "bugs_other.*"]) as stage:
        yield stage


# -- of one session ------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Case:
    """One workload of one session.

    Attributes:
        setup: Before it.
        workload: Its statements.
        changes: What must be delivered of rows, None when it must halt.
        schema_changes: What must be delivered else: kind, database, table.
    """

    setup: list[Statement]
    workload: list[Statement]
    changes: list[Any] | None
    schema_changes: list[tuple[str, str, str]]


def statement(text: str) -> Statement:
    """As it is sent."""
    return bytes.fromhex(text[4:]) if text.startswith("hex:") else text


def read(path: Path) -> Case:
    """A case file."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return Case(
        setup=list(map(statement, data["setup"])),
        workload=list(map(statement, data["workload"])),
        changes=data["expect"].get("changes"),
        schema_changes=[(*names,) for names in data["expect"].get("schema_changes", ())],
    )


CASES = {path.stem: read(path) for path in sorted(FOLDER.glob("*.json"))}
HALTS = {"060-unknown-query-status-variable": HaltReason.STATEMENT_BASED_CHANGE}
DELIVERED = [name for name in CASES if name not in HALTS]


def wanted(spec: dict[str, Any]) -> Any:
    """An expected value."""
    if spec["type"] == "null":
        return None
    if spec["type"] == "int":
        return int(spec["value"])
    if spec["type"] == "bytes":
        return bytes.fromhex(spec["hex"]) if "hex" in spec else (spec["len"], spec["sha256"])
    return spec["value"]


def image(record: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A delivered image; long values as length and digest."""
    return record and {
        name: (len(value), sha256(value).hexdigest())
        if isinstance(value, bytes) and len(value) > 1000
        else value
        for name, value in record.items()
    }


def expected(spec: dict[str, Any] | None) -> dict[str, Any] | None:
    """An expected image."""
    return spec and {name: wanted(value) for name, value in spec.items()}


def comparable(change: Change) -> tuple[Any, ...]:
    """A delivered change with names; the order of columns counts."""
    before, after = image(change.old_record), image(change.record)
    return change.op.value, change.table, before, after, list(after or before or ())


def assert_told(outcome: Outcome, case: Case) -> None:
    """Exactly the expected changes, in order, by name."""
    assert outcome.halt is None
    assert [comparable(change) for change in outcome.changes] == [
        (
            spec["op"],
            spec["table"],
            expected(spec["before"]),
            expected(spec["after"]),
            list(spec["after"] or spec["before"]),
        )
        for spec in case.changes or ()
    ]
    told = [(change.kind, change.schema, change.table) for change in outcome.schema_changes]
    assert told == case.schema_changes


@pytest.mark.parametrize("name", DELIVERED)
def test_a_case_arrives_as_it_must(stage: Stage, name: str) -> None:
    """R1-R6, R9, R10, R16-R18, D19-D22: no row lost or doubled, no statement mistaken."""
    case = CASES[name]

    outcome = stage.play(case.workload, setup=case.setup)

    assert_told(outcome, case)
    assert outcome.watermark == outcome.executed
    assert_told(stage.late(outcome.before, outcome.executed), case)


@pytest.mark.parametrize("name", HALTS)
def test_a_case_that_must_halt_does_and_does_again(stage: Stage, name: str) -> None:
    """R15, D21: a change without row images, whatever else its event holds."""
    case = CASES[name]

    outcome = stage.play(case.workload, setup=case.setup)

    for seen in (outcome, stage.late(outcome.before, outcome.executed)):
        assert (seen.told, seen.halt, seen.watermark) == ([], HALTS[name], outcome.before)


# -- XA ------------------------------------------------------------------------------------------


def prepared(xid: str, number: int) -> list[Statement]:
    """A branch with one row."""
    return [
        f"XA START {xid}",
        f"INSERT INTO x VALUES ({number}, {number})",
        f"XA END {xid}",
        f"XA PREPARE {xid}",
    ]


ODD_XID = "'COMMIT',x'0022270a',1"
XA_CASES: dict[str, tuple[list[Statement], list[list[Statement]], int]] = {
    "092 prepared here, committed there": (
        [],
        [
            prepared("'a1','b1',7", 1),
            ["INSERT INTO x VALUES (2, 2)", "XA COMMIT 'a1','b1',7"],
        ],
        3,
    ),
    "093 prepared, rolled back": ([], [[*prepared("'r1'", 3), "XA ROLLBACK 'r1'"]], 2),
    "094 one phase": ([], [[*prepared("'o1'", 4)[:-1], "XA COMMIT 'o1' ONE PHASE"]], 1),
    "096 empty, read-only, rolled back, an odd id": (
        [],
        [
            ["XA START 'e'", "XA END 'e'", "XA PREPARE 'e'", "XA COMMIT 'e'"],
            ["XA START 'e'", "DO (SELECT 1)", "XA END 'e'", "XA PREPARE 'e'", "XA ROLLBACK 'e'"],
            [*prepared("'e'", 7)[:-1], "XA ROLLBACK 'e'"],
            [*prepared(ODD_XID, 8), f"XA COMMIT {ODD_XID}"],
        ],
        2,
    ),
    "097 the outcome seen first": (
        [*prepared("'two'", 9), *prepared("'three'", 10)],
        [["XA COMMIT 'three'", "XA ROLLBACK 'two'"]],
        2,
    ),
}


@pytest.mark.parametrize("name", XA_CASES)
def test_xa_ends_in_its_halt_with_nothing_delivered(stage: Stage, name: str) -> None:
    """R19-R25, R29, D17: no row, no schema change, no move; the same again after a restart."""
    setup, sessions, logged = XA_CASES[name]

    outcome = stage.play(
        *sessions,
        setup=["DROP TABLE IF EXISTS x", "CREATE TABLE x (id INT PRIMARY KEY, v INT)", *setup],
    )

    assert outcome.logged == logged
    for seen in (outcome, stage.late(outcome.watermark, outcome.executed)):
        assert (seen.told, seen.halt, seen.watermark) == ([], XA, outcome.before)


# -- of many rows, several tables, several engines -------------------------------------------------


def numbered(first: int, last: int) -> str:
    """A table `r` with a column `n`."""
    return (
        f"WITH RECURSIVE r (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM r WHERE n < {last})"
    )


def test_statements_of_many_events_are_one_transaction_each(stage: Stage) -> None:
    """R1: 20,000 rows in some hundred events under one table map (case 066)."""
    outcome = stage.play(
        [
            f"INSERT INTO mr1 {numbered(1, 20000)} SELECT n, REPEAT('v', 40) FROM r",
            "UPDATE mr1 SET v = CONCAT(id, '')",
        ],
        setup=[
            "CREATE TABLE mr1 (id INT PRIMARY KEY, v VARCHAR(40))",
            "SET cte_max_recursion_depth = 100000",
        ],
    )

    numbers = range(1, 20001)
    assert outcome.plain == [
        [("insert", "mr1", (n, "v" * 40), None) for n in numbers],
        [("update", "mr1", (n, str(n)), (n, "v" * 40)) for n in numbers],
    ]


CHILD = "id INT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES fp (id)"


def test_rows_that_a_foreign_key_changes_arrive_with_their_cause(stage: Stage) -> None:
    """R1: children of two tables and the parent, in one transaction each (case 068)."""
    outcome = stage.play(
        ["DELETE FROM fp WHERE id = 1", "UPDATE fp SET id = 20 WHERE id = 2"],
        setup=[
            "CREATE TABLE fp (id INT PRIMARY KEY)",
            f"CREATE TABLE fc ({CHILD} ON DELETE CASCADE ON UPDATE CASCADE)",
            f"CREATE TABLE fn ({CHILD} ON DELETE SET NULL)",
            "INSERT INTO fp VALUES (1), (2)",
            "INSERT INTO fc VALUES (1, 1), (2, 1), (3, 2)",
            "INSERT INTO fn VALUES (1, 1)",
        ],
    )

    assert [sorted(changes, key=repr) for changes in outcome.plain] == [
        [
            ("delete", "fc", None, (1, 1)),
            ("delete", "fc", None, (2, 1)),
            ("delete", "fp", None, (1,)),
            ("update", "fn", (1, None), (1, 1)),
        ],
        [("update", "fc", (3, 20), (3, 2)), ("update", "fp", (20,), (2,))],
    ]


def test_a_loaded_file_arrives_as_rows(stage: Stage, server: MysqlServer) -> None:
    """R1: LOAD DATA with REPLACE and generated keys (case 077)."""
    file = server.files / "rows.txt"
    file.write_bytes(b"a\t5\nb\\tc\t6\n\\N\t\\N\n")
    file.chmod(0o644)

    outcome = stage.play(
        [f"LOAD DATA INFILE '{file}' REPLACE INTO TABLE ld (v, u)"],
        setup=[
            "CREATE TABLE ld (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20), u INT UNIQUE)",
            "INSERT INTO ld VALUES (1, 'old', 5)",
        ],
    )

    assert outcome.plain == [
        [
            ("update", "ld", (2, "a", 5), (1, "old", 5)),
            ("insert", "ld", (3, "b\tc", 6), None),
            ("insert", "ld", (4, None, None), None),
        ]
    ]


def test_a_loaded_file_in_statement_format_is_refused(stage: Stage, server: MysqlServer) -> None:
    """D21: BEGIN_LOAD_QUERY and what follows it are a change without row images (case 077)."""
    file = server.files / "row.txt"
    file.write_bytes(b"1\n")
    file.chmod(0o644)

    outcome = stage.play(
        ["SET binlog_format = STATEMENT", f"LOAD DATA INFILE '{file}' INTO TABLE ls"],
        setup=["CREATE TABLE ls (id INT PRIMARY KEY)"],
    )

    assert (outcome.told, outcome.halt) == ([], HaltReason.STATEMENT_BASED_CHANGE)
    assert outcome.watermark == outcome.before


def test_engines_with_and_without_transactions_do_not_mix(stage: Stage) -> None:
    """R1, R2, R10: what is rolled back is absent, what cannot be is there (case 132)."""
    outcome = stage.play(
        ["BEGIN", "INSERT INTO mxi VALUES (1)", "!INSERT INTO mxm VALUES (1)", "COMMIT"],
        ["BEGIN", "INSERT INTO mxm VALUES (2)", "INSERT INTO mxi VALUES (2)", "ROLLBACK"],
        [
            "INSERT INTO mxm SELECT 10 UNION ALL SELECT 11",
            "CREATE TRIGGER trg AFTER INSERT ON mxi FOR EACH ROW INSERT INTO mxm VALUES (NEW.id)",
            "!INSERT INTO mxi VALUES (3)",
            "DROP TRIGGER trg",
        ],
        setup=[
            "CREATE TABLE mxi (id INT PRIMARY KEY)",
            "CREATE TABLE mxm (id INT PRIMARY KEY) ENGINE = MyISAM",
        ],
    )

    assert outcome.plain == [
        [("insert", "mxi", (1,), None)],
        [("insert", "mxm", (2,), None)],
        [("insert", "mxm", (10,), None), ("insert", "mxm", (11,), None)],
    ]
    assert (outcome.logged, outcome.watermark) == (5, outcome.executed)


# -- compression -----------------------------------------------------------------------------------


def test_compressed_and_other_transactions_alternate(stage: Stage) -> None:
    """D22: one transaction for each GTID, savepoints and a large one included (case 098)."""
    outcome = stage.play(
        [
            "INSERT INTO cz VALUES (0, 0)",
            "SET binlog_transaction_compression = ON",
            "BEGIN",
            "INSERT INTO cz VALUES (1, 1), (2, 2)",
            "SAVEPOINT s",
            "UPDATE cz SET v = 9 WHERE id = 1",
            "COMMIT",
            "CREATE TABLE cz_ddl (a INT)",
            f"INSERT INTO cz {numbered(10, 30010)} SELECT n, n FROM r",
            "SET binlog_transaction_compression = OFF",
            "INSERT INTO cz VALUES (3, 3)",
            "DROP TABLE cz_ddl",
        ],
        setup=[
            "CREATE TABLE cz (id INT PRIMARY KEY, v INT)",
            "SET cte_max_recursion_depth = 100000",
        ],
    )

    one, several, created, many, last, dropped = outcome.plain
    assert (created, dropped) == ("create_table cz_ddl", "drop_table cz_ddl")
    assert (one, last) == ([("insert", "cz", (0, 0), None)], [("insert", "cz", (3, 3), None)])
    assert several == [
        ("insert", "cz", (1, 1), None),
        ("insert", "cz", (2, 2), None),
        ("update", "cz", (1, 9), (1, 1)),
    ]
    assert many == [("insert", "cz", (n, n), None) for n in range(10, 30011)]
    assert (outcome.logged, outcome.watermark) == (6, outcome.executed)
