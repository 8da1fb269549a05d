"""The comparison: a mirror written by hand, equal and then wrong in one way at a time."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from helpers.mysql import Database

from capstan.core.tables import CaptureList
from capstan.demo.compare import Comparison, Difference, IncomparableError, compare

_TYPES = """CREATE TABLE types (
    id BIGINT UNSIGNED NOT NULL, tiny TINYINT, amount DECIMAL(12, 4), day DATE, moment DATETIME(6),
    stamp TIMESTAMP(3) NULL, span TIME(2), year YEAR, bits BIT(64), text VARCHAR(40), latin TEXT
    CHARACTER SET latin1, fixed BINARY(4), data BLOB, kind ENUM('a', 'b'), marks SET('x', 'y'),
    document JSON, single FLOAT, twice DOUBLE, PRIMARY KEY (id)
) CHARACTER SET utf8mb4"""

_SOURCE = (
    (
        18446744073709551615, -128, "-1.5000", "0999-12-31", "2024-02-29 01:02:03.000004",
        "2038-01-19 03:14:07.499", "-838:59:58.99", 2155, 2**64 - 1, "🦀 crab", "é", b"a",
        b"\0\xff", "b", "x,y", '{"b": [1, 2.50, null], "a": "🦀"}', 1.1, 0.1,
    ),
    (9223372036854775807, *[None] * 17),
)  # fmt: skip
_MIRROR = (
    (
        "18446744073709551615", -128, "-1.5000", "0999-12-31", "2024-02-29 01:02:03.000004",
        "2038-01-19 03:14:07.499", "-838:59:58.99", 2155, "18446744073709551615", "🦀 crab", "é",
        b"a\0\0\0", b"\0\xff", "b", "x,y", '{"a": "🦀", "b": [1, 2.5, null]}', 1.1, 0.1,
    ),
    (9223372036854775807, *[None] * 17),
)  # fmt: skip
_COLUMNS = [
    "id", "tiny", "amount", "day", "moment", "stamp", "span", "year", "bits", "text", "latin",
    "fixed", "data", "kind", "marks", "document", "single", "twice",
]  # fmt: skip


class Pair:
    """A database and a mirror of it that is written by hand."""

    def __init__(self, database: Database, path: Path) -> None:
        self.database = database
        self.path = path / "mirror.db"
        self.write("CREATE TABLE _capstan_position (gtid_set TEXT)")

    def write(self, sql: str, *rows: tuple[Any, ...]) -> None:
        """Run a statement in the mirror, once or for each row."""
        with contextlib.closing(sqlite3.connect(self.path)) as mirror, mirror:
            mirror.executemany(sql, rows) if rows else mirror.execute(sql)

    def mirror_table(self, table: str, columns: list[str], *rows: tuple[Any, ...]) -> None:
        """Create a table in the mirror and fill it."""
        name = f'"{self.database.name}.{table}"'
        self.write(f"CREATE TABLE {name} ({', '.join(columns)})")
        if rows:
            self.write(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", *rows)

    def compare(self) -> Comparison:
        """Compare every table of the database."""
        with contextlib.closing(self.database.connect()) as connection:
            return compare(connection, CaptureList.parse([f"{self.database.name}.*"]), self.path)

    def only_difference(self) -> Difference:
        """The one difference there is; its table's name without the database."""
        (difference,) = self.compare().differences
        assert difference.table.startswith(f"{self.database.name}.")
        return difference


@pytest.fixture
def pair(database: Database, tmp_path: Path) -> Pair:
    """An empty database and an empty mirror."""
    return Pair(database, tmp_path)


@pytest.fixture
def types(pair: Pair) -> Pair:
    """One table with every type, mirrored as it should be."""
    pair.database.execute("SET time_zone = '+00:00'")
    pair.database.execute(_TYPES)
    places = ", ".join(["%s"] * len(_COLUMNS))
    for row in _SOURCE:
        pair.database.execute(f"INSERT INTO types VALUES ({places})", *row)
    pair.mirror_table("types", _COLUMNS, *_MIRROR)
    return pair


def test_a_mirror_with_every_type_in_its_form_is_identical(types: Pair) -> None:
    """Large unsigned numbers and exact types are texts, times are in UTC, bytes are bytes."""
    comparison = types.compare()
    assert comparison == Comparison(tables=1, rows=2, differences=())
    assert comparison.identical


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("tiny", "-128"),
        ("amount", "-1.5"),
        ("amount", -1.5),
        ("moment", "2024-02-29 01:02:03"),
        ("stamp", "2038-01-19 04:14:07.499"),
        ("bits", -1),
        ("latin", "é".encode("latin-1")),
        ("fixed", b"a"),
        ("data", "\0ÿ"),
        ("document", '{"b": [1, 2.5, null], "a": "🦀"}'),
        ("single", 1.100000023841858),
        ("twice", "0.1"),
        ("text", None),
    ],
)
def test_a_value_in_another_form_differs(types: Pair, column: str, value: object) -> None:
    """Whatever is not exactly what it should be, type included, is told as a differing row."""
    name = f'"{types.database.name}.types"'
    types.write(f"UPDATE {name} SET {column} = ? WHERE tiny = -128", (value,))
    assert types.only_difference().differing == 1


def test_rows_that_are_missing_and_rows_that_are_extra_are_counted(types: Pair) -> None:
    """Keys on one side only are told by side."""
    name = f'"{types.database.name}.types"'
    types.write(f"DELETE FROM {name} WHERE tiny IS NULL")
    types.write(f"INSERT INTO {name} (id) VALUES (?)", (1,), (2,))
    difference = types.only_difference()
    assert (difference.missing, difference.extra, difference.differing) == (1, 2, 0)
    assert str(difference) == f"{types.database.name}.types: 1 missing, 2 extra"


def test_equal_rows_of_a_table_without_key_are_counted_by_their_number(pair: Pair) -> None:
    """A row that stands twice in the source and three times in the mirror is one too many."""
    pair.database.execute("CREATE TABLE bag (colour VARCHAR(9), size INT)")
    pair.database.execute("INSERT INTO bag VALUES ('red', 1), ('red', 1), (NULL, 2)")
    pair.mirror_table("bag", ["colour", "size"], *[("red", 1)] * 3)
    difference = pair.only_difference()
    assert (difference.missing, difference.extra) == (1, 1)


def test_a_table_without_rows_need_not_be_in_the_mirror(pair: Pair) -> None:
    """Nothing of an empty table was ever streamed; with a row it must be there."""
    pair.database.execute("CREATE TABLE hollow (id INT PRIMARY KEY)")
    assert pair.compare().identical
    pair.database.execute("INSERT INTO hollow VALUES (1)")
    difference = pair.only_difference()
    assert (difference.missing, difference.note) == (1, "not in the mirror")


def test_a_table_that_the_source_does_not_have_is_a_difference(pair: Pair) -> None:
    """A dropped or filtered table must not be in the mirror, with rows or without."""
    pair.mirror_table("gone", ["id"], (1,))
    difference = pair.only_difference()
    assert (difference.extra, difference.note) == (1, "not in the source")


def test_other_columns_are_a_difference(pair: Pair) -> None:
    """Columns are compared by name, in any order, as long as there are rows."""
    pair.database.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    pair.mirror_table("t", ["b", "a"])
    assert pair.compare().identical
    pair.database.execute("INSERT INTO t VALUES (1, 2)")
    pair.write(f'INSERT INTO "{pair.database.name}.t" VALUES (2, 1)')
    assert pair.compare().identical
    pair.database.execute("ALTER TABLE t ADD COLUMN c INT")
    assert pair.only_difference().note == "other columns"


def test_a_type_without_a_rule_is_refused_by_name(pair: Pair) -> None:
    """What cannot be compared is never passed over."""
    pair.database.execute("CREATE TABLE shapes (id INT PRIMARY KEY, place POINT)")
    with pytest.raises(IncomparableError, match=r"column place of .* is of type point"):
        pair.compare()


def test_tables_outside_the_capture_list_do_not_count(pair: Pair) -> None:
    """Only captured tables are looked for."""
    pair.database.execute("CREATE TABLE other (id INT PRIMARY KEY)")
    pair.database.execute("INSERT INTO other VALUES (1)")
    capture = CaptureList.parse([f"{pair.database.name}.wanted*"])
    with contextlib.closing(pair.database.connect()) as connection:
        assert compare(connection, capture, pair.path) == Comparison(
            tables=0, rows=0, differences=()
        )
