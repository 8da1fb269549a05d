"""Rows of partial updates: whole images leave, whatever was sent."""

import pytest
from helpers.json_bytes import document
from helpers.row_decoding import long
from helpers.table_bytes import Spec, counted, image, integer, packed, row_event, table_map
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.binlog.row_compiler import RowDecoder, compile_rows
from capstan.core.binlog.table_map import parse
from capstan.core.halts import Halt, Halted, HaltReason

COLUMNS = (
    integer("id", nullable=False),
    *(Spec(f"doc{place}", 245, b"\4") for place in range(9)),
    integer("n"),
)
COUNT = len(COLUMNS)
WHOLE = document({"a": 1, "k": "text"})
CHANGE = b"\0" + counted(b"$.a") + counted(document(2))
GROWTH = b"\1" + counted(b"$.b") + counted(document([]))
BEFORE = '{"a": 1, "k": "text"}'
AFTER = '{"a": 2, "k": "text"}'


def row(documents: dict[int, bytes], others: bytes | None = WHOLE, number: int = 7) -> bytes:
    """An image whose documents are those given and, elsewhere, all the same one."""
    chosen = [documents.get(place, others) for place in range(9)]
    parts = [None if raw is None else long(raw, 4) for raw in chosen]
    return image(COUNT, [b"\1\0\0\0", *parts, number.to_bytes(4, "little")])


def marked(*places: int) -> bytes:
    """Value options that say which documents are diffs."""
    return b"\1" + sum(1 << place for place in places).to_bytes(2, "little")


def event(*rows: bytes) -> bytes:
    """The body of an event."""
    return row_event(COUNT, rows, bitmaps=2)


def decoder() -> RowDecoder:
    """A decoder of the table."""
    return compile_rows(parse(table_map(COLUMNS)))


def images(body: bytes) -> list[tuple[object, ...]]:
    """Its images."""
    return decoder().partial_images(body, 0, len(body))


def halt_of(body: bytes) -> Halt:
    """Why it is refused."""
    with pytest.raises(Halted) as caught:
        images(body)
    assert caught.value.__context__ is None
    return caught.value.halt


def test_marked_documents_are_rebuilt_from_the_image_before() -> None:
    """D22: the first and the ninth by diffs, one with none, the others as they came."""
    after = row({0: CHANGE, 3: b"", 8: CHANGE + GROWTH, 1: document([])}, number=8)
    found = images(event(row({}), marked(0, 3, 8) + after))
    grown = '{"a": 2, "b": [], "k": "text"}'
    assert found == [
        (1, *[BEFORE] * 9, 7),
        (1, AFTER, "[]", BEFORE, BEFORE, *[BEFORE] * 4, grown, 8),
    ]


def test_each_row_has_marks_of_its_own() -> None:
    """D22: rows without diffs stand between rows with them; no mark outlives its row."""
    found = images(
        event(
            *(row({}), marked(2) + row({2: CHANGE})),
            *(row({}), b"\0" + row({2: document("whole")})),
            *(row({2: document({"a": 9})}), marked(2) + row({2: CHANGE})),
            *(row({}), marked() + row({})),
        )
    )
    assert [after[3] for after in found[1::2]] == [AFTER, '"whole"', '{"a": 2}', BEFORE]


def test_a_document_that_becomes_null_is_null() -> None:
    """D22: a mark says nothing about a NULL."""
    assert images(event(row({}), marked(0) + row({}, others=None)))[1][1:10] == (None,) * 9


def test_diffs_of_a_null_are_corrupt() -> None:
    """D22, R266: there is nothing that they could be applied to."""
    halt = halt_of(event(row({}, others=None), marked(4) + row({4: CHANGE}, others=None)))
    assert halt == Halt(HaltReason.EVENT_CORRUPT, "a value of shop.orders.doc4")


def test_diffs_that_do_not_apply_are_corrupt_naming_their_column() -> None:
    """D22, R266: the halt says where, and nothing of what the document holds."""
    halt = halt_of(event(row({1: document([])}), marked(1) + row({1: CHANGE})))
    assert halt == Halt(HaltReason.EVENT_CORRUPT, "a value of shop.orders.doc1")
    halt = halt_of(event(row({}), marked(1) + row({1: CHANGE[:-1]})))
    assert halt == Halt(HaltReason.EVENT_CORRUPT, "the diffs of shop.orders.doc1 ends early")


def test_unknown_value_options_are_corrupt() -> None:
    """D22, R266: another kind of partial value would be read wrongly."""
    for options in (2, 3, 300):
        assert "value options" in halt_of(event(row({}), packed(options) + row({}))).detail


def test_a_row_without_its_second_image_is_corrupt() -> None:
    """R266: at the end of any image, and in the middle of the options."""
    for rows in ([row({})], [row({}), marked(0)[:2]], [row({}), marked()], [row({}), b""]):
        assert halt_of(event(*rows)).reason is HaltReason.EVENT_CORRUPT


def test_images_that_lack_columns_halt_naming_their_table() -> None:
    """D22: the server's option for diffs goes with its option for fewer columns."""
    body = row_event(COUNT, [row({}), marked(0) + row({0: CHANGE})], bitmaps=2, present=0xF5FE)
    assert halt_of(body) == Halt(HaltReason.ROW_IMAGE_NOT_FULL, "shop.orders")


def test_a_table_without_documents_has_no_marks() -> None:
    """D22: its rows come this way too when the session writes diffs."""
    made = compile_rows(parse(table_map([integer("a")])))
    one, two = image(1, [b"\1\0\0\0"]), image(1, [b"\2\0\0\0"])
    body = row_event(1, [one, b"\0" + two, two, b"\1" + one], bitmaps=2)
    assert made.partial_images(body, 0, len(body)) == [(1,), (2,), (2,), (1,)]


EVENT = event(
    *(row({}), marked(0, 3, 8) + row({0: CHANGE, 3: b"", 8: CHANGE + GROWTH})),
    *(row({}), b"\0" + row({})),
)


@given(st.data())
def test_mutated_and_truncated_events_give_images_or_a_halt(data: st.DataObject) -> None:
    """R266: whatever the bytes, only Halted leaves."""
    body = bytearray(EVENT)
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place] = data.draw(st.integers(0, 255) | st.sampled_from([0, 1, 2, 251, 254]))
    end = data.draw(st.integers(0, len(body)) | st.just(len(body)))
    try:
        found = MADE.partial_images(bytes(body), 0, end)
    except Halted:
        return
    assert len(found) % 2 == 0
    assert all(len(image_) == COUNT for image_ in found)


MADE = decoder()
