"""One value of every column type through the compiled decoder, and values that cannot be."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from struct import pack

import pytest
from helpers.json_bytes import document
from helpers.row_decoding import both, decoder, halt_of, long, short
from helpers.table_bytes import (
    BINARY,
    LATIN1,
    UTF8MB4,
    Spec,
    image,
    integer,
    row_event,
    varchar,
)

from capstan.core.halts import Halted, HaltReason

VALUES = [
    (Spec("a", 1, unsigned=False), b"\x80", -128),
    (Spec("a", 1, unsigned=True), b"\xff", 255),
    (Spec("a", 2, unsigned=False), b"\x00\x80", -32768),
    (Spec("a", 2, unsigned=True), b"\xff\xff", 65535),
    (Spec("a", 9, unsigned=False), b"\x00\x00\x80", -8388608),
    (Spec("a", 9, unsigned=False), b"\xff\xff\xff", -1),
    (Spec("a", 9, unsigned=False), b"\xff\xff\x7f", 8388607),
    (Spec("a", 9, unsigned=True), b"\xff\xff\xff", 16777215),
    (Spec("a", 3, unsigned=False), b"\x00\x00\x00\x80", -(1 << 31)),
    (Spec("a", 3, unsigned=True), b"\xff\xff\xff\xff", (1 << 32) - 1),
    (Spec("a", 8, unsigned=False), b"\0" * 7 + b"\x80", -(1 << 63)),
    (Spec("a", 8, unsigned=True), b"\xff" * 8, (1 << 64) - 1),
    (
        Spec("a", 246, bytes([10, 2]), unsigned=False),
        bytes.fromhex("8000007b2d"),
        Decimal("123.45"),
    ),
    (Spec("a", 4, b"\4", unsigned=False), pack("<f", 1.1), 1.1),
    (Spec("a", 5, b"\x08", unsigned=False), pack("<d", 1.1), 1.1),
    (Spec("a", 13, unsigned=True), b"\0", 0),
    (Spec("a", 13, unsigned=True), b"\1", 1901),
    (Spec("a", 13, unsigned=True), b"\xff", 2155),
    (Spec("a", 10), (2024 << 9 | 2 << 5 | 29).to_bytes(3, "little"), date(2024, 2, 29)),
    (Spec("a", 17, b"\0"), (86400).to_bytes(4, "big"), datetime(1970, 1, 2, tzinfo=UTC)),
    (Spec("a", 18, b"\0"), bytes.fromhex("99b27a0000"), datetime(2024, 1, 29)),
    (Spec("a", 19, b"\0"), bytes.fromhex("800041"), timedelta(minutes=1, seconds=1)),
    (Spec("a", 7), (86400).to_bytes(4, "little"), datetime(1970, 1, 2, tzinfo=UTC)),
    (Spec("a", 12), pack("<q", 20240129_235958), datetime(2024, 1, 29, 23, 59, 58)),
    (Spec("a", 11), (-1_0203 & 0xFFFFFF).to_bytes(3, "little"), -timedelta(0, 3723)),
    (Spec("a", 16, bytes([4, 1])), b"\x0f\xff", 4095),
    (Spec("a", 16, bytes([0, 8])), b"\xff" * 8, (1 << 64) - 1),
    (varchar("a", 255), short("é日".encode()), "é日"),
    (varchar("a", 256), long("é日".encode(), 2), "é日"),
    (varchar("a", collation=LATIN1), long(b"\x80\x81", 2), "€\x81"),
    (varchar("a", 20, collation=BINARY), short(b"\xff\0"), b"\xff\0"),
    (Spec("a", 254, bytes([254, 40]), collation=UTF8MB4), short(b"x"), "x"),
    (Spec("a", 254, bytes([0xEE, 0xFC]), collation=UTF8MB4), long(b"x", 2), "x"),
    (Spec("a", 254, bytes([254, 4]), collation=BINARY), short(b"\1"), b"\1\0\0\0"),
    (Spec("a", 254, bytes([254, 4]), collation=BINARY), short(b""), b"\0\0\0\0"),
    (Spec("a", 252, b"\1", collation=UTF8MB4), long(b"tiny", 1), "tiny"),
    (Spec("a", 252, b"\2", collation=UTF8MB4), long(b"text", 2), "text"),
    (Spec("a", 252, b"\3", collation=BINARY), long(b"x" * 65536, 3), b"x" * 65536),
    (Spec("a", 252, b"\4", collation=BINARY), long(b"\0", 4), b"\0"),
    (Spec("a", 245, b"\4"), long(document({"a": [1]}), 4), '{"a": [1]}'),
    (Spec("a", 255, b"\4", geometry=0), long(b"\0" * 25, 4), b"\0" * 25),
    (Spec("a", 242, b"\4", collation=BINARY), long(pack("<f", 1.5), 4), pack("<f", 1.5)),
]


@pytest.mark.parametrize(("column", "raw", "value"), VALUES)
def test_each_type_gives_its_value(column, raw, value):
    """R147, D27: one Python type per MySQL type, also between two other columns."""
    columns = [integer("before"), column, varchar("after", 10)]
    rows = both(columns, [image(3, [b"\1\0\0\0", raw, short(b"z")])] * 2)
    assert rows == [(1, value, "z")] * 2
    assert type(rows[0][1]) is type(value)


ENUM = Spec("e", 254, bytes([0xF7, 1]), collation=UTF8MB4, labels=(b"x", "é".encode(), b""))


def test_enum_gives_the_label_and_nothing_for_the_invalid_value():
    """R266: 0 is the invalid value that SELECT prints as an empty text; the others count from 1."""
    rows = both([ENUM], [image(1, [bytes([number])]) for number in range(4)])
    assert rows == [("",), ("x",), ("é",), ("",)]


def test_labels_of_the_binary_character_set_are_ascii_or_halt():
    """D27: bytes above 127 would have to be guessed."""
    column = Spec("e", 254, bytes([0xF7, 1]), collation=BINARY, labels=(b"x",))
    assert both([column], [image(1, [b"\1"])]) == [("x",)]
    column = Spec("e", 254, bytes([0xF7, 1]), collation=BINARY, labels=(b"\xc3\xa9",))
    with pytest.raises(Halted) as caught:
        decoder([column])
    assert caught.value.halt.reason is HaltReason.UNDECODABLE_TEXT


def test_enum_of_over_255_labels_takes_two_bytes():
    """R266: the number is little-endian."""
    labels = tuple(f"v{number}".encode() for number in range(1, 301))
    column = Spec("e", 254, bytes([0xF7, 2]), collation=UTF8MB4, labels=labels)
    assert both([column], [image(1, [b"\x2c\x01"]), image(1, [b"\1\0"])]) == [("v300",), ("v1",)]


def test_a_label_that_is_not_there_halts():
    """R266: a number above the labels is corruption."""
    halt = halt_of([ENUM], row_event(1, [image(1, [b"\4"])]))
    assert (halt.reason, halt.detail) == (HaltReason.EVENT_CORRUPT, "a value of shop.orders.e")


@pytest.mark.parametrize(
    ("width", "count", "bits", "text"),
    [
        (1, 3, b"\0", ""),
        (1, 3, b"\5", "m0,m2"),
        (2, 9, b"\0\1", "m8"),
        (3, 17, b"\1\0\1", "m0,m16"),
        (4, 25, b"\0\0\0\1", "m24"),
        (8, 64, b"\1" + b"\0" * 6 + b"\x80", "m0,m63"),
    ],
)
def test_set_gives_its_members_joined(width, count, bits, text):
    """R266: members stand in the order of the declaration."""
    labels = tuple(f"m{number}".encode() for number in range(count))
    column = Spec("s", 254, bytes([0xF8, width]), collation=UTF8MB4, labels=labels)
    assert both([column], [image(1, [bits])]) == [(text,)]


def test_a_member_that_is_not_there_halts():
    """R266: a bit above the members is corruption."""
    column = Spec("s", 254, bytes([0xF8, 1]), collation=UTF8MB4, labels=(b"a", b"b"))
    assert halt_of([column], row_event(1, [image(1, [b"\4"])])).reason is HaltReason.EVENT_CORRUPT


def test_a_bit_above_the_width_halts():
    """R266: BIT(3) has no 8."""
    column = Spec("b", 16, bytes([3, 0]))
    assert halt_of([column], row_event(1, [image(1, [b"\x08"])])).reason is HaltReason.EVENT_CORRUPT
