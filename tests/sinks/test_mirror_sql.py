"""The mirror's statements, tried on SQLite itself."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from helpers.changes_builder import shape

from capstan.sinks import mirror_sql as sql
from capstan.sinks.mirror_rows import add_functions


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        add_functions(made)
        yield made


KEYED = shape("shop.t", "v text", "id int", "line int", key=("line", "id"))
BARE = shape("shop.t", "a int", "b double")


def test_a_keyed_table_is_untyped_and_refuses_null_keys(connection: sqlite3.Connection) -> None:
    """No column has a type; key columns are NOT NULL, in key order."""
    connection.execute(sql.create_table("shop.t", KEYED.names, KEYED.key_columns))
    columns = connection.execute('PRAGMA table_info("shop.t")').fetchall()
    assert [(name, kind, notnull, key) for _, name, kind, notnull, _, key in columns] == [
        ("v", "", 0, 0),
        ("id", "", 1, 2),
        ("line", "", 1, 1),
    ]
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute("INSERT INTO \"shop.t\" VALUES ('x', NULL, 1)")


def test_an_upsert_takes_the_place_of_equal_keys(connection: sqlite3.Connection) -> None:
    """Several rows in one statement; the last one of a key stays."""
    connection.execute(sql.create_table("t", KEYED.names, KEYED.key_columns))
    statement = sql.upsert("t", KEYED, 3)
    connection.execute(statement, ["a", 1, 1, "b", 2, 1, "c", 1, 1])
    assert connection.execute("SELECT * FROM t").fetchall() == [("c", 1, 1), ("b", 2, 1)]


def test_an_upsert_of_a_table_that_is_all_key_changes_nothing(
    connection: sqlite3.Connection,
) -> None:
    """Equal keys are equal rows when there is nothing else."""
    all_key = shape("a.b", "a int", "b int", key=("a", "b"))
    connection.execute(sql.create_table("t", all_key.names, all_key.key_columns))
    for _ in range(2):
        connection.execute(sql.upsert("t", all_key, 1), [1, 2])
    assert connection.execute("SELECT * FROM t").fetchall() == [(1, 2)]


def test_an_upsert_replaces_a_float_key_by_its_equal(connection: sqlite3.Connection) -> None:
    """0.0 and -0.0 are one key to MySQL and to SQLite, but not one value."""
    floats = shape("a.b", "k double", key=("k",))
    connection.execute(sql.create_table("t", floats.names, floats.key_columns))
    connection.execute(sql.upsert("t", floats, 1), [0.0])
    connection.execute(sql.upsert("t", floats, 1), [-0.0])
    assert [repr(row) for row in connection.execute("SELECT k FROM t")] == ["(-0.0,)"]


@pytest.mark.parametrize("table", [KEYED, shape("a.b", "v int", "id int", key=("id",))])
def test_keys_are_counted_and_deleted_in_blocks(
    connection: sqlite3.Connection, table: object
) -> None:
    """One statement reaches exactly the keys it is given, through the key."""
    assert isinstance(table, type(KEYED))
    connection.execute(sql.create_table("t", table.names, table.key_columns))
    width, keys = len(table.names), len(table.key)
    for number in range(5):
        connection.execute(sql.insert("t", width, 1), [number] * width)
    values = [number for number in (1, 3, 9) for _ in range(keys)]
    count = sql.count_keys("t", table.key_columns, 3)
    assert connection.execute(count, values).fetchone() == (2,)
    assert connection.execute(sql.delete_keys("t", table.key_columns, 3), values).rowcount == 2
    (plan,) = [
        row[3]
        for row in connection.execute(f"EXPLAIN QUERY PLAN {count}", values)
        if " t " in f"{row[3]} "
    ]
    assert plan.startswith("SEARCH t USING PRIMARY KEY")


VALUES = [0, 0.0, -0.0, "0", b"0", None, 1, 1.0, "1", "", b""]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_full_row_match_is_exact_in_value_and_type(
    connection: sqlite3.Connection, value: object
) -> None:
    """One row goes, the one that equals the given one in every column, type and sign included."""
    connection.execute(sql.create_table("t", BARE.names, ()))
    for _ in range(2):
        connection.execute(sql.insert("t", 2, len(VALUES)), [x for v in VALUES for x in (7, v)])
    index = sql.match_index("t", 1, BARE, ())
    assert index is not None
    for prepare in ("SELECT 1", index):
        connection.execute(prepare)
        assert connection.execute(sql.delete_match("t", BARE), (7, value)).rowcount == 1
        assert connection.execute(sql.delete_match("t", BARE), (8, value)).rowcount == 0
    left = [repr(row[0]) for row in connection.execute("SELECT b FROM t")]
    expected = [repr(other) for other in VALUES for _ in range(2) if repr(other) != repr(value)]
    assert sorted(left) == sorted(expected)


def test_an_update_of_a_full_row_touches_one(connection: sqlite3.Connection) -> None:
    """Of equal rows one changes."""
    connection.execute(sql.create_table("t", BARE.names, ()))
    connection.execute(sql.insert("t", 2, 2), [1, 2.0, 1, 2.0])
    assert connection.execute(sql.update_match("t", BARE), (1, 3.0, 1, 2.0)).rowcount == 1
    assert connection.execute("SELECT b FROM t ORDER BY b").fetchall() == [(2.0,), (3.0,)]


def test_a_full_row_match_of_many_columns_is_no_deep_expression(
    connection: sqlite3.Connection,
) -> None:
    """SQLite's bound on the depth of an expression is out of reach at its column limit."""
    wide = shape("a.b", *(f"c{n} double" for n in range(2000)))
    connection.execute(sql.create_table("t", wide.names, ()))
    connection.execute(sql.insert("t", 2000, 1), [1.5] * 2000)
    assert (
        connection.execute(sql.update_match("t", wide), [2.5] * 2000 + [1.5] * 2000).rowcount == 1
    )
    assert connection.execute(sql.delete_match("t", wide), [2.5] * 2000).rowcount == 1


def test_a_search_index_leaves_long_columns_out() -> None:
    """Short columns make the index; without any there is none."""
    table = shape("a.b", "a text", "b int", "c json")
    assert sql.match_index("t", 3, table, (0, 2)) == (
        'CREATE INDEX IF NOT EXISTS "_capstan_match_3" ON "t" ("b")'
    )
    assert sql.match_index("t", 3, table, (0, 1, 2)) is None


def test_a_row_number_is_asked_for_by_a_name_no_column_has() -> None:
    """A source column may be called rowid."""
    assert sql.rowid(shape("a.b", "a int")) == "rowid"
    assert sql.rowid(shape("a.b", "RowID int")) == "_rowid_"
    assert sql.rowid(shape("a.b", "rowid int", "_ROWID_ int")) == "oid"
    assert sql.rowid(shape("a.b", "rowid int", "_rowid_ int", "oid int")) is None
