"""What a session can switch on changes how it is logged, never what is delivered.

House rules: one workload, played under every combination of the switches; each combination must
come to the same, and the same once more for a pipeline that reads all of it late.
"""

import itertools

from helpers.mysql import fresh_database
from helpers.stage import Outcome, Stage

from capstan.demo.mysql_access import SqlServer

SWITCHES = (
    "binlog_transaction_compression = ON",
    "binlog_row_value_options = PARTIAL_JSON",
    "binlog_rows_query_log_events = ON",
    "gtid_next = 'automatic:mixed'",
)
COMBINATIONS = [
    chosen
    for count in range(len(SWITCHES) + 1)
    for chosen in itertools.combinations(SWITCHES, count)
]
TEXT = "a text that is longer than its diff"
SETUP = (
    "DROP TABLE IF EXISTS c, p, m, copy, plain",
    "CREATE TABLE p (id INT PRIMARY KEY, d JSON)",
    "CREATE TABLE c (id INT PRIMARY KEY, p INT)",
    "ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE",
    "CREATE TABLE m (id INT PRIMARY KEY) ENGINE = MyISAM",
)
WORKLOAD = (
    "BEGIN",
    f"""INSERT INTO p VALUES (1, '{{"a": 1, "b": "{TEXT}"}}'), (2, NULL)""",
    "SAVEPOINT `COMMIT`",
    "INSERT INTO c VALUES (10, 1), (20, 2)",
    "ROLLBACK TO `COMMIT`",
    "INSERT INTO c VALUES (11, 1)",
    "COMMIT",
    "UPDATE p SET d = JSON_SET(d, '$.a', 2) WHERE id = 1",
    "INSERT INTO m VALUES (1)",
    "CREATE TABLE copy ENGINE = InnoDB SELECT id FROM p",
    "CREATE TABLE plain (id INT)",
    "DELETE FROM p WHERE id = 1",
    "BEGIN",
    "INSERT INTO p VALUES (3, NULL)",
    "ROLLBACK",
)
EXPECTED = [
    [
        ("insert", "p", (1, f'{{"a": 1, "b": "{TEXT}"}}'), None),
        ("insert", "p", (2, None), None),
        ("insert", "c", (11, 1), None),
    ],
    [
        (
            "update",
            "p",
            (1, f'{{"a": 2, "b": "{TEXT}"}}'),
            (1, f'{{"a": 1, "b": "{TEXT}"}}'),
        )
    ],
    [("insert", "m", (1,), None)],
    "create_table copy",
    [("insert", "copy", (1,), None), ("insert", "copy", (2,), None)],
    "create_table plain",
    [
        ("delete", "c", None, (11, 1)),
        ("delete", "p", None, (1, f'{{"a": 2, "b": "{TEXT}"}}')),
    ],
]


def tags(outcome: Outcome) -> set[str]:
    """Of the GTIDs that the workload was logged under."""
    return {tag for _, tag in (outcome.executed - outcome.before).sources()}


def test_a_combination_of_switches_changes_nothing(mysql_server: SqlServer) -> None:
    """R1, D19, D20, D22: six transactions, each whole, whatever form they were logged in."""
    with fresh_database(mysql_server) as database, Stage(mysql_server, database.name) as stage:
        outcomes = {
            chosen: stage.play([*(f"SET {switch}" for switch in chosen), *WORKLOAD], setup=SETUP)
            for chosen in COMBINATIONS
        }
        first, *_, last = outcomes.values()
        late = stage.late(first.before, last.executed)

    for chosen, outcome in outcomes.items():
        assert (chosen, outcome.halt, outcome.plain) == (chosen, None, EXPECTED)
        assert (outcome.logged, outcome.watermark) == (6, outcome.executed)
        assert tags(outcome) == ({"mixed"} if SWITCHES[3] in chosen else {""})
    rows = [told for told in late.plain if not isinstance(told, str)]
    assert rows == [told for told in EXPECTED if not isinstance(told, str)] * len(COMBINATIONS)
    assert (late.halt, late.watermark) == (None, last.executed)
