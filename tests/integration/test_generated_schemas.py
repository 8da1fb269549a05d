"""Whole tables that nobody thought of, on the live server: streamed equals SELECTed."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import attrs
from helpers.mysql import Database
from helpers.row_stream import position, rows_since
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SERVER_ID = 751
"""Of these dumps; no pipeline of another test uses it."""

CHARSETS = ("utf8mb4", "utf8mb3", "latin1", "ucs2", "utf16", "utf32", "cp1251", "gbk", "sjis")
TEXTS = st.text(st.sampled_from("aZ9 ~'\\\"%_"), max_size=12)
"""Characters of every character set above."""


@attrs.frozen
class Kind:
    """One type of column and the values that it can hold.

    Attributes:
        sql: The type as it is declared.
        values: What may be stored.
        select: How the value is asked for.
    """

    sql: str
    values: "st.SearchStrategy[Any]" = attrs.field(repr=False)
    select: str = "{0}"


@st.composite
def integers(draw: st.DrawFn) -> Kind:
    """An integer of some width, signed or not."""
    name, bits = draw(st.sampled_from([*zip(WIDTHS, (8, 16, 24, 32, 64), strict=True)]))
    if draw(st.booleans()):
        return Kind(f"{name} UNSIGNED", st.integers(0, (1 << bits) - 1))
    return Kind(name, st.integers(-1 << bits - 1, (1 << bits - 1) - 1))


WIDTHS = ("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT")


@st.composite
def decimals(draw: st.DrawFn) -> Kind:
    """A DECIMAL of some precision and scale."""
    scale = draw(st.integers(0, 30))
    precision = draw(st.integers(max(scale, 1), 65))
    most = 10**precision - 1
    values = st.integers(-most, most).map(
        lambda number: Decimal((number < 0, _digits(number), -scale))
    )
    return Kind(f"DECIMAL({precision},{scale})", values)


def _digits(number: int) -> tuple[int, ...]:
    return tuple(int(digit) for digit in str(abs(number)))


@st.composite
def temporals(draw: st.DrawFn) -> Kind:
    """A date or a time with some fsp."""
    fsp = draw(st.integers(0, 6))
    unit = 10 ** (6 - fsp)

    def kept(value: datetime) -> datetime:
        return value.replace(microsecond=value.microsecond // unit * unit)

    stamps = st.datetimes(datetime(1970, 1, 1, 0, 0, 1), datetime(2038, 1, 19, 3, 14, 6))
    spans = st.timedeltas(timedelta(hours=-838), timedelta(hours=838))
    tick = timedelta(microseconds=unit)
    return draw(
        st.sampled_from(
            [
                Kind("DATE", st.dates(date(1000, 1, 1))),
                Kind(f"DATETIME({fsp})", st.datetimes(datetime(1000, 1, 1)).map(kept)),
                Kind(f"TIMESTAMP({fsp})", stamps.map(kept)),
                Kind(f"TIME({fsp})", spans.map(lambda span: span // tick * tick)),
                Kind("YEAR", st.sampled_from([0, 1901, 2000, 2155])),
            ]
        )
    )


@st.composite
def strings(draw: st.DrawFn) -> Kind:
    """Text of some character set, or bytes."""
    form = draw(st.sampled_from(["CHAR(20)", "VARCHAR(20)", "VARCHAR(300)", "TINYTEXT", "TEXT"]))
    charset = draw(st.sampled_from([*CHARSETS, "binary"]))
    if charset != "binary":
        trimmed = TEXTS.map(lambda text: text.rstrip(" "))
        return Kind(f"{form} CHARACTER SET {charset}", trimmed)
    kind = draw(st.sampled_from(["BINARY(5)", "VARBINARY(12)", "VARBINARY(400)", "BLOB"]))
    return Kind(kind, st.binary(max_size=5))


@st.composite
def labelled(draw: st.DrawFn) -> Kind:
    """An ENUM or a SET with some number of members."""
    count = draw(st.sampled_from([1, 2, 8, 9, 64, 255, 256, 300]))
    charset = draw(st.sampled_from(CHARSETS))
    if count <= 64 and draw(st.booleans()):
        name, values = "SET", st.integers(0, (1 << count) - 1)
    else:
        name, values = "ENUM", st.integers(1, count)
    members = ",".join(f"'m{number}'" for number in range(count))
    return Kind(f"{name}({members}) CHARACTER SET {charset}", values)


def documents() -> "st.SearchStrategy[Kind]":
    """A JSON column; its documents come as text."""
    leaves = st.sampled_from(["null", "true", "1", "-70000", "1.5", '"x"', '"\\u00e9"'])
    nested = st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]")
            | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3).map(
                lambda parts: (
                    f"{{{', '.join(f'{chr(34)}{k}{chr(34)}: {v}' for k, v in parts.items())}}}"
                )
            )
        ),
        max_leaves=8,
    )
    return st.just(Kind("JSON", nested))


@st.composite
def bits(draw: st.DrawFn) -> Kind:
    """A BIT of some width; SELECT gives it as a number."""
    width = draw(st.integers(1, 64))
    return Kind(f"BIT({width})", st.integers(0, (1 << width) - 1), "{0} + 0")


DOUBLES = Kind("DOUBLE", st.floats(allow_nan=False, allow_infinity=False))
COLUMNS = (
    integers() | decimals() | temporals() | strings() | labelled() | documents() | bits()
) | st.just(DOUBLES)


@attrs.frozen
class Table:
    """A table and its rows.

    Attributes:
        kinds: Its columns.
        nullable: Which of them allow NULL.
        rows: What is inserted.
    """

    kinds: list[Kind]
    nullable: list[bool]
    rows: list[list[Any]] = attrs.field(repr=False)

    @property
    def definition(self) -> str:
        """The columns as they are declared."""
        return ",".join(
            f"c{place} {kind.sql} {'NULL' if null else 'NOT NULL'}"
            for place, (kind, null) in enumerate(zip(self.kinds, self.nullable, strict=True))
        )

    @property
    def selected(self) -> str:
        """The columns as they are asked for."""
        return ",".join(kind.select.format(f"c{place}") for place, kind in enumerate(self.kinds))


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Random columns and a few rows of them."""
    kinds = draw(st.lists(COLUMNS, min_size=1, max_size=12))
    nullable = [draw(st.booleans()) for _ in kinds]
    each = [
        st.none() | kind.values if null else kind.values
        for kind, null in zip(kinds, nullable, strict=True)
    ]
    return Table(kinds, nullable, draw(st.lists(st.tuples(*each).map(list), max_size=6)))


def expected(table: Table, selected: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """What SELECT gave, with times of TIMESTAMP columns in UTC as they were printed."""
    stamps = [kind.sql.startswith("TIMESTAMP") for kind in table.kinds]
    return [
        (
            number,
            *(
                value.replace(tzinfo=UTC) if stamp and value is not None else value
                for value, stamp in zip(values, stamps, strict=True)
            ),
        )
        for number, *values in selected
    ]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(table=tables())
def test_generated_tables_stream_what_select_gives(database: Database, table: Table) -> None:
    """R266, D27: random columns, signs, fractions, character sets and nulls, insert to delete."""
    database.execute("SET SESSION sql_mode = '', time_zone = '+00:00'")
    database.execute("DROP TABLE IF EXISTS g")
    database.execute(f"CREATE TABLE g (id INT PRIMARY KEY, {table.definition})")
    start = position(database)
    marks = ",".join(["%s"] * (1 + len(table.kinds)))
    for number, row in enumerate(table.rows):
        database.execute(f"INSERT INTO g VALUES ({marks})", number, *row)
    selected = database.execute(f"SELECT id,{table.selected} FROM g ORDER BY id")
    database.execute("DELETE FROM g")
    events = rows_since(database, start, SERVER_ID)
    inserted = [image for event in events if event.op == "insert" for image in event.images]
    deleted = [image for event in events if event.op == "delete" for image in event.images]
    assert repr(inserted) == repr(expected(table, selected))
    assert repr(deleted) == repr(inserted)
