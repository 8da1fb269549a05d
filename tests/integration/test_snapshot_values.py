"""A chunk gives what the stream gives: shapes and values of every type on the live server."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.exact_views import ROOMY, name_in, opened, view_for
from helpers.mysql import Database
from helpers.row_stream import RowEvent, position, rows_since
from hypothesis import HealthCheck, given, settings
from integration.test_streamed_values import CASES, ROWS, lax

from capstan.core.halts import Halt, Halted, HaltReason
from capstan.demo.mysql_access import SqlServer
from capstan.sources.exact_view import ExactView

SERVER_ID = 732
"""Of these dumps; no pipeline of another test uses it."""


@pytest.fixture(scope="module")
def view(mysql_server: SqlServer) -> Iterator[ExactView]:
    """One view for all tests here: they capture tables of different databases with it."""
    with opened(view_for(mysql_server, ["capstan_*.*"])) as made:
        yield made


def insert(database: Database, *statements: str) -> RowEvent:
    """Every image that the statements insert, under the shape of the first."""
    start = position(database)
    for statement in statements:
        database.execute(statement)
    events = rows_since(database, start, SERVER_ID)
    images = [image for event in events for image in event.images]
    return RowEvent("insert", events[0].shape, images)


def assert_equal(view: ExactView, database: Database, streamed: RowEvent) -> None:
    """Shape and rows of chunk and stream are equal, in value and type."""
    shape = view.pin(name_in(database)).facts.shape
    assert shape.columns == streamed.shape.columns
    assert shape.key == streamed.shape.key
    assert (shape.schema, shape.table) == (streamed.shape.schema, streamed.shape.table)
    rows = view.rows(None, 1000, ROOMY).rows
    pairs = zip(rows, streamed.images, strict=True)
    assert [pair for pair in pairs if repr(pair[0]) != repr(pair[1])] == []


@pytest.mark.parametrize("kind", CASES)
def test_chunk_values_are_the_streams(database: Database, view: ExactView, kind: str) -> None:
    """R148, D5, D27: a chunk equals the insert images in type and value, and so do the shapes."""
    literals, _ = CASES[kind]
    lax(database)
    database.execute(f"CREATE TABLE t (id INT PRIMARY KEY, v {kind} NULL, w VARCHAR(9))")
    rows = ",".join(f"({place},{text},'end')" for place, text in enumerate([*literals, "NULL"]))
    streamed = insert(database, f"INSERT INTO t VALUES {rows}")
    assert len(streamed.images) == len(literals) + 1
    assert_equal(view, database, streamed)


FLOATS = ("1.1", "-0.0e0", "16777216", "123456.789", "1e-45", "3.4028234e38", "0.01", "12345.67")


@pytest.mark.parametrize("kind", ["float", "float(9,2)", "float unsigned", "double(12,2)"])
def test_chunk_floats_are_the_streams(database: Database, view: ExactView, kind: str) -> None:
    """R148: the print of a FLOAT has six digits; its double has them all."""
    lax(database)
    database.execute(f"CREATE TABLE t (id INT PRIMARY KEY, v {kind})")
    rows = ",".join(f"({place},{text})" for place, text in enumerate([*FLOATS, "NULL"]))
    assert_equal(view, database, insert(database, f"INSERT INTO t VALUES {rows}"))


def test_chunk_columns_of_every_place_are_the_streams(database: Database, view: ExactView) -> None:
    """R148, D5: generated, invisible and unsigned columns, a key in the middle, many NULLs."""
    columns = ", ".join(f"c{place} INT" for place in range(70))
    database.execute(
        "CREATE TABLE t (h INT UNSIGNED INVISIBLE DEFAULT 4294967295,"
        " v BIGINT UNSIGNED AS (k + 0) VIRTUAL, k BIGINT UNSIGNED,"
        " s VARCHAR(30) AS (CONCAT('x', k)) STORED, j JSON, b BINARY(3),"
        f" {columns}, PRIMARY KEY (k, b), KEY ((k + 1)), KEY ((CAST(j->'$' AS UNSIGNED ARRAY))))"
    )
    streamed = insert(
        database,
        "INSERT INTO t (k, b, j, c69) VALUES (1, x'01', '[1, 2]', 7)",
        "INSERT INTO t (k, b, h) VALUES (9223372036854775808, x'', 5)",
    )
    assert_equal(view, database, streamed)


KINDS = ("INT", "VARCHAR(4) CHARACTER SET latin1", "DATE")


def test_tables_wider_than_code_is_made_for_are_read_too(
    database: Database, view: ExactView
) -> None:
    """R148: the careful way gives the same rows."""
    columns = ", ".join(f"c{place} {KINDS[place % 3]}" for place in range(600))
    database.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
    streamed = insert(
        database,
        "INSERT INTO t (id, c0, c1, c2, c598) VALUES (1, 5, 'five', '2024-02-29', 'é')",
    )
    assert_equal(view, database, streamed)


UNDECODABLE = {"gbk": "a2ab", "sjis": "8740", "big5": "a3e1", "ucs2": "d83d", "ujis": "a9a1"}


@contextlib.contextmanager
def undecodable(database: Database) -> Iterator[None]:
    """The block ends in this halt."""
    with pytest.raises(Halted) as caught:
        yield
    assert caught.value.halt == Halt(HaltReason.UNDECODABLE_TEXT, f"{database.name}.t.v")


@pytest.mark.parametrize("charset", UNDECODABLE)
def test_what_the_server_cannot_print_halts_in_both(
    database: Database, view: ExactView, charset: str
) -> None:
    """D27: never a replacement character; chunk and stream name the same column."""
    database.execute(
        f"CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET {charset}, w INT)"
    )
    with undecodable(database):
        insert(database, f"INSERT INTO t VALUES (1, _{charset} x'{UNDECODABLE[charset]}', 5)")
    view.pin(name_in(database))
    with undecodable(database):
        view.rows(None, 9, ROOMY)


def test_a_zone_and_a_mode_of_the_writer_do_not_show(database: Database, view: ExactView) -> None:
    """D27: case 156; the repeated hour of a clock change is two instants in chunk and stream."""
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, v TIMESTAMP, w CHAR(5))")
    streamed = insert(
        database,
        "SET SESSION time_zone = '+02:00'",
        "INSERT INTO t VALUES (1, '2024-10-27 02:30:00', 'a')",
        "SET SESSION time_zone = '+01:00', sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'",
        "INSERT INTO t VALUES (2, '2024-10-27 02:30:00', 'b')",
    )
    assert_equal(view, database, streamed)


def test_generated_values_are_equal(database: Database, view: ExactView) -> None:
    """R148: documents, doubles, decimals, texts and bytes that nobody thought of."""
    database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, j JSON, d DOUBLE, n DECIMAL(20,3),"
        " t VARCHAR(100), b VARBINARY(20))"
    )

    @settings(
        max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(rows=ROWS)
    def check(rows: list[Any]) -> None:
        database.execute("DELETE FROM t")
        start = position(database)
        for document, *values in rows:
            database.execute(
                "INSERT INTO t (j, d, n, t, b) VALUES (%s, %s, %s, %s, %s)",
                json.dumps(document),
                *values,
            )
        images = [
            image for event in rows_since(database, start, SERVER_ID) for image in event.images
        ]
        view.pin(name_in(database))
        assert repr(view.rows(None, 1000, ROOMY).rows) == repr(images)

    check()
