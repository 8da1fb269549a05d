"""Tables made by hand: what a real server would write for them, byte by byte."""

from struct import error as wrong_value
from typing import Any

import pytest
from helpers.mysql import Database
from helpers.row_stream import _events, position

from capstan.testing import Table
from capstan.testing.made_events import DELETE_ROWS, ROWS, TABLE_MAP, UPDATE_ROWS, WRITE_ROWS

COLUMNS = (
    "id int unsigned",
    "a tinyint",
    "b smallint unsigned",
    "c mediumint",
    "d bigint unsigned",
    "e double",
    "f varchar(20)",
    "g varchar(200)",
    "h varbinary(20)",
    "i text",
    "j blob",
)
LOW = (1, -128, 0, -(2**23), 0, -1.5, "", "é😀", b"", "", b"\0\xff")
HIGH = (
    2**32 - 1,
    127,
    65535,
    2**23 - 1,
    2**64 - 1,
    1e300,
    "x" * 20,
    "y" * 200,
    b"z" * 20,
    "t",
    b"",
)
NULLS = (5, *[None] * 10)
KEY = 8
"""Bytes of table id and flags in front of a table map's and a row event's body."""


def written(database: Database, *statements: str) -> list[tuple[int, bytes]]:
    """Type and body, behind the table id, of what a real server logs for these statements."""
    start = position(database)
    for statement in statements:
        database.execute(statement)
    database.connection.commit()
    events = _events(database, start, 771)
    return [(raw[4], raw[19 + KEY :]) for raw in events if raw[4] in {TABLE_MAP, *ROWS}]


def literal(value: Any) -> str:
    """A value in SQL."""
    match value:
        case None:
            return "NULL"
        case bytes():
            return f"x'{value.hex()}'"
        case str():
            return f"'{value}'"
    return repr(value)


def test_tables_and_rows_are_written_as_a_real_server_writes_them(database: Database) -> None:
    """The kit's word for a legal transaction is the server's: maps, inserts, updates, deletes."""
    columns = [column.replace("text", "longtext").replace("blob", "longblob") for column in COLUMNS]
    columns[0] += " not null"
    database.execute(f"CREATE TABLE t ({', '.join(columns)}, PRIMARY KEY (id))")
    table = Table(f"{database.name}.t", *COLUMNS, key="id")
    values = [f"({', '.join(map(literal, row))})" for row in (LOW, HIGH, NULLS)]
    real = written(
        database,
        f"INSERT INTO t VALUES {', '.join(values)}",
        "UPDATE t SET a = 0 WHERE id = 1",
        "DELETE FROM t WHERE id = 5",
    )
    changed = (LOW[0], 0, *LOW[2:])
    made = [
        (event.kind, event.body[KEY:])
        for change in (
            table.insert(LOW, HIGH, NULLS),
            table.update((LOW, changed)),
            table.delete(NULLS),
        )
        for event in change.events(0)
    ]
    assert [kind for kind, _ in real] == [
        TABLE_MAP,
        WRITE_ROWS,
        TABLE_MAP,
        UPDATE_ROWS,
        TABLE_MAP,
        DELETE_ROWS,
    ]
    assert made == real


@pytest.mark.parametrize(
    "columns",
    [
        ["v varchar(20)"],
        ["a varchar(5)", "b varbinary(5)"],
        ["a varchar(5)", "b varbinary(5)", "c varbinary(5)", "d varbinary(5)"],
        ["a varbinary(5)", "b int", "c varchar(5)", "d varchar(5)", "e varchar(5)"],
        ["a int"],
    ],
    ids=" ".join,
)
def test_collations_are_noted_in_the_form_that_a_real_server_chooses(
    database: Database, columns: list[str]
) -> None:
    """Default and exceptions, or one for each column."""
    database.execute(f"CREATE TABLE t ({', '.join(columns)})")
    real = written(database, f"INSERT INTO t VALUES ({', '.join(['1'] * len(columns))})")
    table = Table(f"{database.name}.t", *columns)
    assert real[0] == (TABLE_MAP, table.map(0).body[KEY:])


@pytest.mark.parametrize(
    "text", ["", "id", "id decimal(3)", "id varchar", "id int(", "id int unsigned zerofill"]
)
def test_a_column_that_the_kit_does_not_know_is_refused(text: str) -> None:
    """The message says what it may be."""
    with pytest.raises(ValueError, match="a column"):
        Table("shop.t", text)


def test_a_key_that_is_no_column_is_refused() -> None:
    """A slip of the pen is found when the table is made."""
    with pytest.raises(ValueError, match="nothing"):
        Table("shop.t", "id int", key="nothing")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("a tinyint", 128),
        ("a tinyint unsigned", -1),
        ("a varchar(2)", "é" * 5),
        ("a varbinary(2)", b"abc"),
        ("a double", "1"),
    ],
)
def test_a_value_that_a_server_would_not_store_is_refused(column: str, value: Any) -> None:
    """A test that means something else finds out at once."""
    table = Table("shop.t", column)
    with pytest.raises((ValueError, OverflowError, wrong_value)):
        table.insert((value,)).events(0)


def test_a_row_of_another_width_is_refused() -> None:
    """Every column has a value."""
    with pytest.raises(ValueError, match="has 1 values"):
        Table("shop.t", "a int").insert((1, 2)).events(0)
