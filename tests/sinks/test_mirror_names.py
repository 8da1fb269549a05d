"""Names in the mirror: no two alike, none reserved, each readable."""

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capstan.sinks.mirror_names import folded, quoted, table_name

NAMES = st.text('a.A%2Eé"_', min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("schema", "table", "name"),
    [
        ("shop", "orders", "shop.orders"),
        ("Shop", "Örders 1", "Shop.Örders 1"),
        ("a.b", "c", "a%2Eb.c"),
        ("a", "b.c", "a.b%2Ec"),
        ('q"q', "100%", "q%22q.100%25"),
        ("sqlite_x", "t", "%73qlite_x.t"),
        ("SQLite_x", "t", "%53QLite_x.t"),
        ("sqlite", "sqlite_t", "sqlite.sqlite_t"),
        ("_capstan_x", "t", "%5Fcapstan_x.t"),
        ("_cap", "_capstan_tables", "_cap._capstan_tables"),
    ],
)
def test_a_name_is_schema_dot_table(schema: str, table: str, name: str) -> None:
    """The plain form for plain names; what could be misread is escaped."""
    assert table_name(schema, table) == name
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE {quoted(name)} (a)")
        (found,) = connection.execute("SELECT name FROM sqlite_master").fetchone()
    assert found == name


@given(st.tuples(NAMES, NAMES), st.tuples(NAMES, NAMES))
def test_no_two_tables_share_a_name(one: tuple[str, str], other: tuple[str, str]) -> None:
    """R266: whatever stands in the names, different tables have different names."""
    assert (table_name(*one) == table_name(*other)) == (one == other)


@given(NAMES, NAMES)
def test_no_name_is_reserved(schema: str, table: str) -> None:
    """SQLite's own tables and the mirror's bookkeeping are never meant."""
    for prefix in ("", "sqlite_", "SQLITE_", "_capstan", "_CAPSTAN_"):
        name = folded(table_name(prefix + schema, table))
        assert not name.startswith(("sqlite_", "_capstan"))
        assert '"' not in name


def test_folding_is_sqlites_own() -> None:
    """ASCII letters fold, all others differ: what SQLite finds equal is equal here."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for one, other in (("shop.T", "SHOP.t"), ("é", "É"), ("ß", "ss"), ("K", "\u212a")):
            connection.execute(f"CREATE TABLE {quoted(one)} (a)")
            same = True
            try:
                connection.execute(f"CREATE TABLE {quoted(other)} (a)")
                same = False
            except sqlite3.OperationalError:
                pass
            assert same == (folded(one) == folded(other)), one


def test_quoting_keeps_quotes() -> None:
    """A quote inside a column name is doubled."""
    assert quoted('a"b') == '"a""b"'
