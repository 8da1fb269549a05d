"""Row events through the compiled decoder: null bitmaps, heads, refusals, code that grows."""

from datetime import datetime

import pytest
from helpers.row_decoding import NEVER, both, decoder, halt_of, short
from helpers.table_bytes import (
    BINARY,
    UTF8MB4,
    Spec,
    image,
    integer,
    packed,
    row_event,
    table_map,
    varchar,
)

from capstan.core.binlog import collations
from capstan.core.binlog.row_compiler import compile_rows
from capstan.core.binlog.table_map import parse
from capstan.core.halts import Halted, HaltReason


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
        (varchar("a", collation=9999), "varchar in character set utf7"),
        (Spec("a", 252, b"\2", collation=9999), "text in character set utf7"),
        (
            Spec("a", 254, bytes([0xF7, 1]), collation=9999, labels=(b"x",)),
            "enum in character set utf7",
        ),
    ],
)
def test_a_character_set_without_a_proven_codec_halts_naming_it(monkeypatch, column, what):
    """D27: one that Python has a codec for, and a server to come may have, is not guessed."""
    monkeypatch.setitem(collations.CHARSET_OF_COLLATION, 9999, "utf7")
    monkeypatch.setitem(collations.LONGEST_CHARACTER, "utf7", 4)
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
    made = decoder(columns, sightings=NEVER)
    for nulls in range(0, 65536, 16):
        values = [None if nulls >> place & 1 else b"\1" for place in range(16)]
        event = row_event(16, [image(16, values)])
        made.images(event, 0, len(event), False)
    assert len(made._habits._seen) <= 1025
    assert made._habits._lengths.keys() == made._habits._seen.keys()


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


def test_values_that_python_has_not_are_read_beside_those_it_has():
    """R266: code for ordinary datetimes stumbles once over others, and then expects them."""
    columns = (Spec("d", 18, b"\6"), Spec("e", 18, b"\0"))
    made = decoder(columns, 1)
    day = (1 << 39 | (2024 * 13 + 2) << 22 | 29 << 17).to_bytes(5, "big")
    zero = (1 << 39).to_bytes(5, "big")
    usual = image(2, [day + bytes(3), day])
    for _ in range(3):
        rows = made.images(event := row_event(2, [usual]), 0, len(event), False)
    assert rows == [(datetime(2024, 2, 29), datetime(2024, 2, 29))]
    assert "make(" in made.source
    event = row_event(2, [usual, image(2, [zero + bytes(3), zero])])
    odd = ("0000-00-00 00:00:00.000000", "0000-00-00 00:00:00")
    assert made.images(event, 0, len(event), False) == [*rows, odd]
    assert "make(" not in made.source
    assert made.images(event, 0, len(event), False) == [*rows, odd]
