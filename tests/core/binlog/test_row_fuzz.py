"""Mutated and truncated row events: a value or a halt, the same from both kinds of code.

The careful code checks every step; the compiled code is right when no bytes make it differ.
"""

from struct import pack

from helpers.json_bytes import Opaque, document
from helpers.table_bytes import BINARY, LATIN1, UTF8MB4, Spec, image, row_event, table_map
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.binlog.row_compiler import RowDecoder
from capstan.core.binlog.table_map import parse
from capstan.core.halts import Halt, Halted

DOCUMENT = document(
    {"id": 7, "on": True, "price": 1.5, "tags": ["a", "b"], "inner": {"x": "é", "y": -70000}}
)
ODD = document(
    [Opaque(246, bytes([4, 2]) + b"\x8c\x22"), Opaque(10, bytes(8)), Opaque(15, b"\xff")]
)
COLUMNS = (
    Spec("i", 3, unsigned=False),
    Spec("m", 9, unsigned=True),
    Spec("big", 8, unsigned=True),
    Spec("price", 246, bytes([20, 4]), unsigned=False),
    Spec("f", 4, b"\4", unsigned=False),
    Spec("y", 13, unsigned=True),
    Spec("d", 10),
    Spec("t", 19, b"\3"),
    Spec("dt", 18, b"\6"),
    Spec("ts", 17, b"\2"),
    Spec("name", 15, (90).to_bytes(2, "little"), collation=UTF8MB4),
    Spec("latin", 252, b"\2", collation=LATIN1),
    Spec("fixed", 254, bytes([254, 6]), collation=BINARY),
    Spec("e", 254, bytes([0xF7, 1]), collation=UTF8MB4, labels=(b"x", b"y")),
    Spec("s", 254, bytes([0xF8, 1]), collation=UTF8MB4, labels=(b"x", b"y")),
    Spec("bits", 16, bytes([3, 1])),
    Spec("doc", 245, b"\4"),
    Spec("odd", 245, b"\2"),
)
VALUES = (
    b"\1\0\0\0",
    b"\1\2\3",
    b"\1" * 8,
    b"\x80\0\0\0\0\0\0\x01\x04\x01",
    pack("<f", 1.1),
    b"\x7b",
    (2024 << 9 | 2 << 5 | 29).to_bytes(3, "little"),
    b"\x80\x10\x41\x00\x0a",
    b"\x99\xb2\x7a\0\0\0\0\1",
    b"\x60\0\0\0\x0a",
    b"\5h\xc3\xa9lo",
    b"\3\0\x80\x81z",
    b"\2ab",
    b"\2",
    b"\3",
    b"\7\xff",
    len(DOCUMENT).to_bytes(4, "little") + DOCUMENT,
    len(ODD).to_bytes(2, "little") + ODD,
)
COUNT = len(COLUMNS)
NO_NULLS = image(COUNT, VALUES)
SOME_NULLS = image(COUNT, [None if place % 3 == 1 else value for place, value in enumerate(VALUES)])
ONE_NULL = image(COUNT, [*VALUES[:-2], None, VALUES[-1]])
EVENT = row_event(COUNT, [NO_NULLS, SOME_NULLS, NO_NULLS, ONE_NULL])


def _decoder(sightings: int) -> RowDecoder:
    return RowDecoder(parse(table_map(COLUMNS)), sightings)


def _learned() -> RowDecoder:
    made = _decoder(1)
    for _ in range(200):
        made.images(EVENT, 0, len(EVENT), False)
    assert made.source.count("mask == ") == 3
    return made


CAREFUL = _decoder(1 << 40)
COMPILED = _learned()


def outcome(decoder: RowDecoder, event: bytes, end: int) -> str | Halt:
    """The rows as text, so that nan equals nan and types count, or the halt."""
    try:
        return repr(decoder.images(event, 0, end, False))
    except Halted as halted:
        return halted.halt


def same_outcome(event: bytes, end: int) -> str | Halt:
    """What both kinds of code make of an event."""
    found = outcome(CAREFUL, event, end)
    assert outcome(COMPILED, event, end) == found
    return found


def test_the_untouched_event_decodes():
    """R266: the fuzzing below starts from an event with a value of every kind."""
    found = same_outcome(EVENT, len(EVENT))
    assert isinstance(found, str)
    assert '"price": 1.5' in found
    assert "base64:type15:/w==" in found


@given(st.data())
def test_mutated_events_give_the_same_rows_or_the_same_halt(data):
    """R266: whatever the bytes, only Halted leaves, and both kinds of code agree."""
    event = bytearray(EVENT)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(event) - 1))
        event[place] = data.draw(st.one_of(st.integers(0, 255), st.sampled_from([0, 1, 127, 255])))
    same_outcome(bytes(event), len(event))


@given(st.integers(0, len(EVENT)), st.integers(0, len(EVENT)))
def test_truncated_events_halt(size, end):
    """R266: bytes that are missing or lie behind the event are never made up or borrowed."""
    end = min(size, end)
    whole = {len(row_event(COUNT, [])) + n for n in _row_ends()}
    found = same_outcome(EVENT[:size], end)
    assert isinstance(found, str) == (end in whole)


def _row_ends() -> list[int]:
    ends = [0]
    for row in (NO_NULLS, SOME_NULLS, NO_NULLS, ONE_NULL):
        ends.append(ends[-1] + len(row))
    return ends


@given(st.binary(max_size=200))
def test_random_rows_give_the_same_outcome(rows):
    """R266: also bytes that never were rows."""
    event = row_event(COUNT, [rows])
    same_outcome(event, len(event))


@given(st.binary(max_size=64), st.integers(0, 63))
def test_random_heads_give_the_same_outcome(event, end):
    """R266: also bytes that never were a row event."""
    same_outcome(event, min(end, len(event)))
