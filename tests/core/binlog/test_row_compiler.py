"""Row events through the compiled decoder: layouts, null bitmaps, heads, refusals, code."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from struct import pack

import pytest
from helpers.json_bytes import document
from helpers.table_bytes import (
    BINARY,
    LATIN1,
    UTF8MB4,
    Spec,
    image,
    integer,
    packed,
    row_event,
    table_map,
    varchar,
)

from capstan.core.binlog.row_compiler import RowDecoder, compile_rows
from capstan.core.binlog.table_map import parse
from capstan.core.halts import Halted, HaltReason

GIB = 1 << 30


def short(value: bytes) -> bytes:
    """Bytes behind a length of one byte."""
    return bytes([len(value)]) + value


def long(value: bytes, width: int) -> bytes:
    """Bytes behind a length of `width` bytes."""
    return len(value).to_bytes(width, "little") + value


def decoder(columns, sightings=1):
    return RowDecoder(parse(table_map(columns)), sightings)


def both(columns, images, *, pairs=False, event=None):
    """Decode an event by the careful code and then by code of its own; both must agree."""
    event = event or row_event(len(columns), images, bitmaps=1 + pairs)
    rows = decoder(columns, GIB).images(event, 0, len(event), pairs)
    compiled = decoder(columns)
    for _ in range(2):
        assert repr(compiled.images(event, 0, len(event), pairs)) == repr(rows)
    return rows


def halt_of(columns, event, *, pairs=False, start=0, end=None):
    """The halt of an event, equal for the careful and the compiled code."""
    halts = []
    for sightings in (GIB, 1):
        made = decoder(columns, sightings)
        if sightings == 1:
            for nulls in range(1 << min(len(columns), 3)):
                marks = [nulls >> place & 1 for place in range(len(columns))]
                if all(c.nullable or not mark for c, mark in zip(columns, marks, strict=True)):
                    made._note(image(len(columns), [None if mark else b"" for mark in marks]))
            made._compile()
        with pytest.raises(Halted) as caught:
            made.images(event, start, len(event) if end is None else end, pairs)
        assert caught.value.__context__ is None
        halts.append(caught.value.halt)
    assert halts[0] == halts[1]
    return halts[0]


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


@pytest.mark.parametrize("count", [1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 250, 251, 300])
def test_null_bitmaps_of_every_alignment(count):
    """R266: nulls at each end and at each byte's edge, values between them in their places."""
    columns = [Spec(f"c{place}", 1, unsigned=False) for place in range(count)]
    marks = {0, 1, 6, 7, 8, 9, 62, 63, 64, count - 2, count - 1}
    masks = [set(), marks, {count - 1}, {0}, set(range(count)) - {count - 1}, set(range(count))]
    rows = [[None if place in nulls else place % 100 for place in range(count)] for nulls in masks]
    images = [image(count, [None if v is None else bytes([v]) for v in row]) for row in rows]
    assert both(columns, images) == [tuple(row) for row in rows]


def test_padding_bits_of_bitmaps_mean_nothing():
    """R266: servers fill them with ones or with zeros."""
    columns = [integer("a"), integer("b")]
    body = b"\1\0\0\0\2\0\0\0"
    for present in (0x03, 0xFF):
        event = row_event(2, [b"\0" + body, b"\xfc" + body], present=present)
        assert both(columns, [], event=event) == [(1, 2)] * 2


def test_an_update_alternates_before_and_after():
    """R266: two images a row, in wire order, nulls of each by its own bitmap."""
    columns = [integer("a"), varchar("b", 10)]
    images = [image(2, [b"\1\0\0\0", short(b"x")]), image(2, [b"\1\0\0\0", None])]
    assert both(columns, images, pairs=True) == [(1, "x"), (1, None)]


def test_an_update_with_half_a_pair_halts():
    """R266: a before image without its after image is no change."""
    event = row_event(1, [image(1, [b"\1\0\0\0"])] * 3, bitmaps=2)
    assert halt_of([integer("a")], event, pairs=True).reason is HaltReason.EVENT_CORRUPT


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("missing", [0, 1, 8])
def test_an_image_without_all_columns_halts_naming_the_table(pairs, missing):
    """D22: binlog_row_image=MINIMAL and NOBLOB are never completed with NULL."""
    columns = [integer(f"c{place}") for place in range(9)]
    present = (1 << 9) - 1 & ~(1 << missing)
    event = row_event(9, [], bitmaps=1 + pairs, present=present)
    halt = halt_of(columns, event, pairs=pairs)
    assert (halt.reason, halt.detail) == (HaltReason.ROW_IMAGE_NOT_FULL, "shop.orders")


def test_the_after_images_bitmap_counts_too():
    """D22: NOBLOB leaves columns out of the after image only."""
    event = b"\2\0\1\xff\xfe"
    assert halt_of([integer("a")], event, pairs=True).reason is HaltReason.ROW_IMAGE_NOT_FULL


def test_extra_data_is_passed_over_by_its_length():
    """R266: partition ids and NDB info stand before the rows and are not needed."""
    images = [image(1, [b"\1\0\0\0"])]
    event = row_event(1, images, extra=b"\1\3\0\2\0")
    assert both([integer("a")], images, event=event) == [(1,)]


@pytest.mark.parametrize(
    "event",
    [
        b"",
        b"\2",
        b"\2\0",
        b"\1\0\1\xff",
        b"\0\0\1\xff",
        b"\x09\0\1\xff",
        b"\2\0\2\xff",
        b"\2\0\xfb\xff",
        b"\2\0\1",
    ],
)
def test_a_malformed_head_halts(event):
    """R266: lengths and counts that cannot be are corruption."""
    halt = halt_of([integer("a")], event)
    assert halt.reason is HaltReason.EVENT_CORRUPT
    assert "shop.orders" in halt.detail


def test_version_1_events_have_no_extra_data():
    """R266: types 23 to 25 begin with the column count, also after a version 2 event was seen."""
    made = decoder([integer("a")])
    event = row_event(1, [image(1, [b"\1\0\0\0"])])
    assert made.images(event, 0, len(event), False) == [(1,)]
    assert made.images(event, 2, len(event), False, version1=True) == [(1,)]
    lookalike = b"\2\0" + image(1, [b"\1\0\0\0"])
    with pytest.raises(Halted):
        made.images(lookalike, 0, len(lookalike), False, version1=True)


def test_an_event_is_read_where_it_lies():
    """R266: bytes before the start and behind the end belong to others."""
    columns = [integer("a"), varchar("b", 10)]
    event = row_event(2, [image(2, [b"\1\0\0\0", short(b"x")])] * 2)
    data = b"\xff" * 7 + event + b"\xff" * 9
    made = decoder(columns)
    for _ in range(3):
        assert made.images(data, 7, 7 + len(event), False) == [(1, "x")] * 2


@pytest.mark.parametrize("cut", range(1, 20))
def test_an_event_that_ends_inside_a_row_halts(cut):
    """R266: also when the bytes that would complete the row lie behind the event's end."""
    columns = [integer("a"), varchar("b", 10), Spec("c", 246, bytes([5, 2]), unsigned=False)]
    event = row_event(3, [image(3, [b"\1\0\0\0", short(b"abc"), b"\x80\x01\x02"])] * 2)
    rows = len(event) - len(row_event(3, []))
    if cut == rows // 2:
        return
    halt = halt_of(columns, event, end=len(event) - cut)
    assert halt.reason is HaltReason.EVENT_CORRUPT


def test_null_in_a_not_null_column_halts_naming_it():
    """R266: an image that contradicts its table map is not believed."""
    columns = [integer("a"), integer("b", nullable=False)]
    halt = halt_of(columns, row_event(2, [image(2, [b"\1\0\0\0", None])]))
    assert (halt.reason, halt.detail) == (HaltReason.EVENT_CORRUPT, "a value of shop.orders.b")


@pytest.mark.parametrize(
    ("collation", "raw"),
    [(UTF8MB4, b"a\xffSECRET"), (33, "😀".encode()), (11, b"\xe9"), (28, b"\x81\x20")],
    ids=["utf8mb4", "utf8mb3", "ascii", "gbk"],
)
def test_bytes_that_are_no_text_halt_naming_the_column(collation, raw):
    """D27, R265: no replacement character, and the bytes are nowhere in the exception."""
    columns = [integer("a"), varchar("b", 100, collation=collation)]
    event = row_event(2, [image(2, [b"\1\0\0\0", short(raw)])])
    halt = halt_of(columns, event)
    assert (halt.reason, halt.detail) == (HaltReason.UNDECODABLE_TEXT, "shop.orders.b")


def test_nothing_is_handed_out_when_the_last_value_is_wrong():
    """D22: decoding errors surface before the first row of an event is seen."""
    columns = [varchar("a", 100)]
    good, bad = image(1, [short(b"x")]), image(1, [short(b"\xff")])
    assert (
        halt_of(columns, row_event(1, [good] * 500 + [bad])).reason is HaltReason.UNDECODABLE_TEXT
    )


@pytest.mark.parametrize(
    ("column", "what"),
    [
        (varchar("a", collation=1), "varchar in character set big5"),
        (Spec("a", 252, b"\2", collation=12), "text in character set ujis"),
        (
            Spec("a", 254, bytes([0xF7, 1]), collation=13, labels=(b"x",)),
            "enum in character set sjis",
        ),
    ],
)
def test_a_character_set_without_a_proven_codec_halts_naming_it(column, what):
    """D27: Python's own codec would give other characters in silence."""
    with pytest.raises(Halted) as caught:
        compile_rows(parse(table_map([column])))
    halt = caught.value.halt
    assert halt.reason is HaltReason.UNSUPPORTED_COLUMN_TYPE
    assert halt.detail == f"shop.orders.a: {what}"


def test_a_label_that_is_no_text_halts_naming_the_column():
    """D27: labels are decoded once, when the decoder is made."""
    column = Spec("a", 254, bytes([0xF7, 1]), collation=UTF8MB4, labels=(b"\xff",))
    with pytest.raises(Halted) as caught:
        compile_rows(parse(table_map([column])))
    assert caught.value.halt.reason is HaltReason.UNDECODABLE_TEXT


def test_generated_code_shows_names_as_comments_only():
    """R266: a column's name is data, never code."""
    names = ["evil\n    raise SystemExit", "日\u2028é", "# {0} %s", '"""']
    made = decoder([integer(name) for name in names])
    event = row_event(4, [image(4, [b"\1\0\0\0"] * 4)])
    for _ in range(2):
        assert made.images(event, 0, len(event), False) == [(1, 1, 1, 1)]
    assert made.source.isascii()
    for line in made.source.splitlines():
        assert "SystemExit" not in line.partition("#")[0]
    assert "# 0: 'evil\\n    raise SystemExit'" in made.source


def test_code_grows_with_the_null_bitmaps_up_to_a_bound():
    """R266: eight bitmaps get code of their own; the others are read all the same."""
    columns = [Spec(f"c{place}", 1, unsigned=False) for place in range(4)]
    made = decoder(columns, sightings=2)
    for nulls in range(16):
        values = [None if nulls >> place & 1 else 5 for place in range(4)]
        event = row_event(4, [image(4, [None if v is None else b"\5" for v in values])] * 3)
        for _ in range(3):
            assert made.images(event, 0, len(event), False) == [tuple(values)] * 3
    assert made.source.count("mask == ") == 8
    assert "seen(" not in made.source


def test_rare_null_bitmaps_get_no_code():
    """R266: code is written for a bitmap only when it was seen often enough."""
    made = compile_rows(parse(table_map([integer("a")])))
    event = row_event(1, [image(1, [b"\1\0\0\0"])] * 63)
    made.images(event, 0, len(event), False)
    assert "mask ==" not in made.source
    made.images(event, 0, len(event), False)
    assert "mask == 254:" in made.source


def test_a_table_of_4096_columns_is_decoded():
    """R266: the server's own limit, in bounded time."""
    columns = [Spec(f"c{place}", 1, unsigned=False) for place in range(4096)]
    values = [None if place % 5 == 0 else bytes([place % 100]) for place in range(4096)]
    rows = both(columns, [image(4096, values)] * 2)
    assert rows[1][4094] == 94
    assert rows[0][:6] == (None, 1, 2, 3, 4, None)


def test_many_different_bitmaps_need_bounded_memory():
    """R266: sightings are counted for a bounded number of bitmaps."""
    columns = [Spec(f"c{place}", 1, unsigned=False) for place in range(16)]
    made = decoder(columns, sightings=GIB)
    for nulls in range(0, 65536, 16):
        values = [None if nulls >> place & 1 else b"\1" for place in range(16)]
        event = row_event(16, [image(16, values)])
        made.images(event, 0, len(event), False)
    assert len(made._seen) <= 1025


def test_a_length_beyond_the_event_allocates_nothing():
    """R266: a four-byte length of 4 GiB is refused before anything is copied."""
    columns = [Spec("a", 252, b"\4", collation=BINARY)]
    event = row_event(1, [image(1, [b"\xff\xff\xff\xff" + b"x"])])
    assert halt_of(columns, event).reason is HaltReason.EVENT_CORRUPT


def test_packed_counts_of_wide_tables_are_read():
    """R266: from 251 columns on the count takes three bytes."""
    assert packed(300) == b"\xfc\x2c\x01"
    columns = [Spec(f"c{place}", 1, unsigned=False) for place in range(300)]
    halt = halt_of(columns, b"\2\0\xfc\x2d\x01" + b"\xff" * 38)
    assert halt.reason is HaltReason.EVENT_CORRUPT
