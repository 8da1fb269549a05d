"""Text forms of Python values, by table and against what a real server prints."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from helpers.changes_builder import column
from helpers.mysql import Database

from capstan.core.tables import Column
from capstan.core.values import text_of

MINUTE = timedelta(minutes=1)
LONGEST = timedelta(hours=838, minutes=59, seconds=59)
MICRO = timedelta(microseconds=1)
FORMS: list[tuple[str, Any, str]] = [
    ("decimal(5,2)", Decimal("0.00"), "0.00"),
    ("decimal(5,2)", Decimal("-1.50"), "-1.50"),
    ("decimal(65,0)", Decimal("9" * 65), "9" * 65),
    ("decimal(30,30)", Decimal("1E-30"), "0.000000000000000000000000000001"),
    ("decimal(40,10)", Decimal("-1234567890123456.0123456789"), "-1234567890123456.0123456789"),
    ("date", date(1, 1, 1), "0001-01-01"),
    ("date", date(9999, 12, 31), "9999-12-31"),
    ("date", "2020-00-00", "2020-00-00"),
    ("datetime", datetime(999, 1, 2, 3, 4, 5), "0999-01-02 03:04:05"),
    ("datetime(1)", datetime(2024, 2, 29, 23, 59, 59, 500_000), "2024-02-29 23:59:59.5"),
    ("datetime(3)", datetime(2024, 2, 29), "2024-02-29 00:00:00.000"),
    ("datetime(6)", datetime(2024, 2, 29, 0, 0, 0, 1), "2024-02-29 00:00:00.000001"),
    ("datetime(6)", datetime(9999, 12, 31, 23, 59, 59, 999_999), "9999-12-31 23:59:59.999999"),
    ("datetime(3)", "0000-00-00 00:00:00.000", "0000-00-00 00:00:00.000"),
    ("timestamp", datetime(2024, 10, 27, 1, tzinfo=UTC), "2024-10-27 01:00:00"),
    ("timestamp(6)", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "1970-01-01 00:00:01.000000"),
    ("timestamp(2)", "0000-00-00 00:00:00.00", "0000-00-00 00:00:00.00"),
    ("time", timedelta(0), "00:00:00"),
    ("time", LONGEST, "838:59:59"),
    ("time", -LONGEST, "-838:59:59"),
    ("time(1)", timedelta(hours=25, microseconds=500_000), "25:00:00.5"),
    ("time(6)", -MICRO, "-00:00:00.000001"),
    ("time(6)", -(100 * 60 * MINUTE + MICRO), "-100:00:00.000001"),
    ("time(3)", timedelta(seconds=1), "00:00:01.000"),
]  # fmt: skip


def column_of(type_text: str) -> Column:
    name, _, size = type_text.rstrip(")").partition("(")
    if name in {"decimal", "date"}:
        return Column(name="c", type=name)
    return column(f"c {name}({size or 0})")


@pytest.mark.parametrize(("type_text", "value", "text"), FORMS)
def test_a_value_becomes_its_text(type_text: str, value: Any, text: str) -> None:
    """R106: scale, fraction digits, long and negative times and zero dates are kept exactly."""
    assert text_of(value, column_of(type_text)) == text


def test_the_texts_are_what_a_server_prints(database: Database) -> None:
    """D27: for every form above the server's own SELECT gives the same text."""
    database.execute("SET sql_mode = '', time_zone = '+00:00'")
    columns = ", ".join(f"c{n} {form[0]} NULL" for n, form in enumerate(FORMS))
    database.execute(f"CREATE TABLE forms ({columns})")
    places = ", ".join(["%s"] * len(FORMS))
    database.execute(f"INSERT INTO forms VALUES ({places})", *(text for _, _, text in FORMS))
    casts = ", ".join(f"CAST(c{n} AS CHAR)" for n in range(len(FORMS)))
    (printed,) = database.execute(f"SELECT {casts} FROM forms")
    assert list(printed) == [text for _, _, text in FORMS]


def test_a_decimal_has_no_exponent() -> None:
    """A decimal that Python prints with an exponent is written out."""
    assert text_of(Decimal("0E-10"), column_of("decimal(20,10)")) == "0.0000000000"
    assert text_of(Decimal("1E+3"), column_of("decimal(5,0)")) == "1000"


def test_an_aware_moment_is_printed_in_utc() -> None:
    """A TIMESTAMP in another zone is the same instant in UTC."""
    moment = datetime(2024, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    assert text_of(moment, column_of("timestamp")) == "2023-12-31 23:00:00"


@pytest.mark.parametrize(
    ("type_text", "value"),
    [
        ("datetime", datetime(2024, 1, 1, 0, 0, 0, 1)),
        ("datetime(3)", datetime(2024, 1, 1, 0, 0, 0, 123_456)),
        ("time", MICRO),
        ("time(5)", MICRO),
    ],
)
def test_digits_that_the_column_has_not_are_refused(type_text: str, value: Any) -> None:
    """R266: nothing is rounded; the error names no value."""
    with pytest.raises(ValueError, match=r"^more fractional digits than the column has$"):
        text_of(value, column_of(type_text))


@pytest.mark.parametrize("value", [7, 1.5, b"x", None, True])
def test_other_types_have_no_text_form(value: object) -> None:
    """R265: a value that a sink keeps as it is has no text form; the error names its type only."""
    with pytest.raises(TypeError, match=rf"^no text form for {type(value).__name__}$"):
        text_of(value, column_of("date"))
