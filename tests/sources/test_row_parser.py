"""Row packets become values, or a halt that names the column and no value."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.halts import Halt, Halted, HaltReason
from capstan.core.tables import Column, TableShape
from capstan.sources.row_parser import RowParser

FAILED = HaltReason.SNAPSHOT_CHUNK_READ_FAILED


def shape(*columns: Column) -> TableShape:
    return TableShape("shop", "orders", columns, (0,))


def column(name: str, kind: str, **options: Any) -> Column:
    return Column(name=name, type=kind, **options)


def field(raw: bytes | None) -> bytes:
    """One field in the wire's form."""
    if raw is None:
        return b"\xfb"
    size = len(raw)
    if size < 251:
        return bytes([size]) + raw
    for mark, width in ((0xFC, 2), (0xFD, 3), (0xFE, 8)):
        if size < 1 << 8 * width:
            return bytes([mark]) + size.to_bytes(width, "little") + raw
    raise AssertionError


def packet(*raws: bytes | None) -> bytes:
    return b"".join(map(field, raws))


NUMBERS = shape(column("id", "int"), column("name", "varchar", charset="utf8mb4"))


def halt_of(parser: RowParser, *packets: bytes) -> Halt:
    with pytest.raises(Halted) as caught:
        parser.rows(packets)
    return caught.value.halt


VALUES: list[tuple[Column, bytes, Any]] = [
    (column("c", "bigint", unsigned=True), b"18446744073709551615", (1 << 64) - 1),
    (column("c", "int"), b"-0000007", -7),
    (column("c", "year"), b"0000", 0),
    (column("c", "bit", length=10), b"\2\1", 513),
    (column("c", "decimal", precision=5, scale=2), b"-000.50", Decimal("-0.50")),
    (column("c", "float"), b"1.100000023841858", 1.1),
    (column("c", "double"), b"-0", -0.0),
    (column("c", "date"), b"2024-02-29", date(2024, 2, 29)),
    (column("c", "date"), b"2021-02-31", "2021-02-31"),
    (
        column("c", "datetime", fsp=3),
        b"2024-02-29 23:59:59.123",
        datetime(2024, 2, 29, 23, 59, 59, 123000),
    ),
    (column("c", "datetime", fsp=1), b"0000-00-00 00:00:00.0", "0000-00-00 00:00:00.0"),
    (column("c", "timestamp", fsp=0), b"2024-01-01 00:00:00", datetime(2024, 1, 1, tzinfo=UTC)),
    (column("c", "timestamp", fsp=0), b"0000-00-00 00:00:00", "0000-00-00 00:00:00"),
    (column("c", "time", fsp=2), b"-838:59:58.50", -timedelta(hours=838, minutes=59, seconds=58.5)),
    (column("c", "char", charset="latin1"), b"\x80", "€"),
    (column("c", "enum", charset="ucs2"), b"\0x", "x"),
    (column("c", "set", charset="binary"), b"a,b", "a,b"),
    (column("c", "json"), '{"é": 1}'.encode(), '{"é": 1}'),
    (column("c", "varbinary"), b"\xfb\xff\0", b"\xfb\xff\0"),
    (column("c", "vector"), b"\0\0\x80?", b"\0\0\x80?"),
]


@pytest.mark.parametrize(("described", "raw", "value"), VALUES)
def test_each_type_has_its_python_type(described: Column, raw: bytes, value: Any) -> None:
    """R148: equal to what the stream gives, in type and value; NULL is None."""
    rows = RowParser(shape(described)).rows([packet(raw), packet(None)])
    assert repr(rows) == repr([(value,), (None,)])


@given(
    rows=st.lists(
        st.tuples(
            st.none() | st.integers(-(1 << 63), 1 << 63),
            st.none() | st.text(max_size=9) | st.sampled_from(["x" * 250, "y" * 251, "z" * 70000]),
            st.none() | st.binary(max_size=300),
        ),
        max_size=9,
    )
)
def test_fields_of_every_length_are_read(rows: list[tuple[Any, ...]]) -> None:
    """R148: lengths of one, three, four and nine bytes; both ways of reading agree."""
    described = shape(*NUMBERS.columns, column("raw", "blob"))
    packets = [
        packet(
            None if number is None else str(number).encode(),
            None if text is None else text.encode(),
            raw,
        )
        for number, text, raw in rows
    ]
    parser = RowParser(described)
    assert parser.rows(packets) == rows
    assert [parser._row(one) for one in packets] == rows


@pytest.mark.parametrize("count", [512, 513, 1000])
def test_wide_tables_are_read(count: int) -> None:
    """R148: with and without code of their own."""
    columns = [column(f"c{place}", "int") for place in range(count)]
    row = tuple(range(count))
    raws = [str(value).encode() for value in row]
    assert RowParser(shape(*columns)).rows([packet(*raws)] * 2) == [row, row]


def test_text_that_is_none_halts_by_its_column() -> None:
    """D27, R164: the column is named, the bytes are not."""
    parser = RowParser(NUMBERS)
    good = packet(b"1", b"x")
    assert halt_of(parser, good, packet(b"2", b"\xff")) == Halt(
        HaltReason.UNDECODABLE_TEXT, "shop.orders.name"
    )


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        ("int", b"seven"),
        ("decimal", b"1.2.3"),
        ("double", b"x"),
        ("date", b"2024-2-1"),
        ("datetime", b"yesterday"),
        ("datetime", b"2024-01-01"[:9]),
        ("time", b"1:00"),
        ("time", b"12:61:00"),
    ],
)
def test_values_that_no_server_sends_halt_by_their_column(kind: str, raw: bytes) -> None:
    """R164: nothing is guessed."""
    parser = RowParser(shape(column("id", "int"), column("odd", kind)))
    assert halt_of(parser, packet(b"1", raw)) == Halt(FAILED, "shop.orders.odd")


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (packet(b"1"), ": a row is cut off"),
        (packet(b"1", b"x")[:-1], ".name"),
        (packet(b"1") + b"\xfc\1", ".name"),
        (packet(b"1") + b"\xff\1", ".name"),
        (packet(b"1", b"x", b"2"), ".a row that goes on"),
    ],
)
def test_rows_that_do_not_fill_their_packet_halt(bad: bytes, what: str) -> None:
    """R164: cut off, or with more than the table has."""
    assert halt_of(RowParser(NUMBERS), bad) == Halt(FAILED, f"shop.orders{what}")


@pytest.mark.parametrize(
    ("odd", "what"),
    [
        (column("odd", "hologram"), "hologram"),
        (column("odd", "varchar", charset="klingon"), "varchar in character set klingon"),
        (column("odd", "enum", charset=None), "enum in character set None"),
    ],
)
def test_types_without_a_recipe_are_refused(odd: Column, what: str) -> None:
    """D27: before any row, by name."""
    with pytest.raises(Halted) as caught:
        RowParser(shape(column("id", "int"), odd))
    halt = caught.value.halt
    assert halt == Halt(HaltReason.UNSUPPORTED_COLUMN_TYPE, f"shop.orders.odd: {what}")


def test_floats_are_selected_as_doubles_and_names_are_quoted() -> None:
    """R148: a FLOAT prints six digits of itself."""
    parser = RowParser(shape(column("a`b", "int"), column("{f}", "float"), column("d", "double")))
    assert parser.select_list == "`a``b`, CAST(`{f}` AS DOUBLE), CAST(`d` AS DOUBLE)"
