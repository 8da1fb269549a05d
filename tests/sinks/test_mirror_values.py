"""What a row becomes in an untyped SQLite column."""

import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from helpers.changes_builder import shape

from capstan.sinks.mirror_values import converter, large_columns


def stored(column: str, value: Any) -> Any:
    """What comes out of an untyped SQLite column after the value went in."""
    columns = shape("a.b", column).columns
    convert = converter(columns)
    row = (value,) if convert is None else tuple(convert((value,)))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (v)")
        connection.execute("INSERT INTO t VALUES (?)", row)
        (out,) = connection.execute("SELECT v FROM t").fetchone()
    return out


@pytest.mark.parametrize(
    ("column", "value", "out"),
    [
        ("v tinyint unsigned", 255, 255),
        ("v bigint", -(2**63), -(2**63)),
        ("v bigint unsigned", 2**63 - 1, 2**63 - 1),
        ("v bigint unsigned", 2**63, "9223372036854775808"),
        ("v bigint unsigned", 2**64 - 1, "18446744073709551615"),
        ("v bit(64)", 2**64 - 1, "18446744073709551615"),
        ("v bit(1)", 1, 1),
        ("v year", 2024, 2024),
        ("v float", 1.1, 1.1),
        ("v double", -0.0, -0.0),
        ("v double", 5e-324, 5e-324),
        ("v decimal(4,2)", Decimal("1.50"), "1.50"),
        ("v date", date(2024, 2, 29), "2024-02-29"),
        ("v date", "0000-00-00", "0000-00-00"),
        ("v datetime(6)", datetime(2024, 1, 1), "2024-01-01 00:00:00.000000"),
        ("v timestamp", datetime(2024, 1, 1, tzinfo=UTC), "2024-01-01 00:00:00"),
        ("v time", timedelta(hours=-838), "-838:00:00"),
        ("v char(9)", "1.50", "1.50"),
        ("v varchar(9)", "2020\0é😀", "2020\0é😀"),
        ("v enum", "", ""),
        ("v json", "[1.50]", "[1.50]"),
        ("v blob", b"", b""),
        ("v binary(2)", b"1\x00", b"1\x00"),
        ("v int", None, None),
        ("v decimal(4,2)", None, None),
        ("v bigint unsigned", None, None),
    ],
)
def test_a_value_is_stored_exactly(column: str, value: Any, out: Any) -> None:
    """R266: native where SQLite holds it, text where it does not; types never change in SQLite."""
    found = stored(column, value)
    assert type(found) is type(out)
    assert repr(found) == repr(out)


def test_rows_that_need_nothing_are_not_touched() -> None:
    """A shape of plain columns has no converter."""
    plain = shape("a.b", "a int", "b varchar(9)", "c double", "d blob", "e json", "f bigint")
    assert converter(plain.columns) is None


def test_each_column_is_converted_by_its_own_rule() -> None:
    """Places and fraction digits of neighbours are not mixed up."""
    mixed = shape("a.b", "a datetime(1)", "b int", "c datetime(6)", "d bigint unsigned")
    convert = converter(mixed.columns)
    assert convert is not None
    moment = datetime(2024, 1, 1, 0, 0, 0, 500_000)
    assert list(convert((moment, 1, moment, 2**63))) == [
        "2024-01-01 00:00:00.5",
        1,
        "2024-01-01 00:00:00.500000",
        "9223372036854775808",
    ]


def test_long_values_are_known_by_their_columns() -> None:
    """What can be long must be weighed by whoever holds rows back; unknown types count as long."""
    table = shape(
        *("a.b", "a int", "b char(255)", "c varchar(256)", "d text", "e json", "f decimal(65,30)"),
        *(
            "g varbinary(255)",
            "h varchar",
            "i mediumblob",
            "j polygon",
            "k whatever",
            "l datetime(6)",
        ),
    )
    assert large_columns(table.columns) == (2, 3, 4, 7, 8, 9, 10)
