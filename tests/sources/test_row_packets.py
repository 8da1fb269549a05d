"""The rows of a SELECT as packets: whole, in order, within their bound, however they arrive."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capstan.sources import row_packets
from capstan.sources.row_packets import BrokenAnswerError, Page

END = b"\xfe\0\0\2\0"
FULL = 20
"""Stands for the length of a packet that goes on in the next."""


def packet(number: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes([number & 0xFF]) + payload


def parts(payload: bytes) -> list[bytes]:
    """A payload as the packets it takes."""
    cut = [payload[at : at + FULL] for at in range(0, len(payload), FULL)]
    return [*cut, b""] if len(payload) % FULL == 0 else cut


def answer(rows: list[bytes], end: bytes = END, first: int = 250) -> bytes:
    """The wire's bytes of these rows; packet numbers run over 255."""
    payloads = [part for row in rows for part in parts(row)]
    return b"".join(packet(first + at, part) for at, part in enumerate([*payloads, end]))


class Arriving:
    """A buffered file whose bytes arrive in pieces of the given sizes."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self.data = data
        self.sizes = list(sizes)

    def read1(self, most: int) -> bytes:
        return self.read(min(most, self.sizes.pop(0) if self.sizes else most))

    def read(self, size: int) -> bytes:
        piece, self.data = self.data[:size], self.data[size:]
        return piece


def page(data: bytes, sizes: list[int], room: int = 1 << 30, *, always_one: bool = True) -> Page:
    wire: Any = SimpleNamespace(_rfile=Arriving(data, sizes), _next_seq_id=250)
    return row_packets._Rows(wire, room, always_one=always_one).page()


@pytest.fixture(autouse=True, scope="module")
def short_packets() -> Any:
    """Packets that go on after 20 bytes instead of 16 MiB."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_packets, "_LONG", FULL)
        yield


ROW = st.binary(min_size=1, max_size=70).filter(lambda row: row[0] not in (0xFE, 0xFF))
SIZES = st.lists(st.integers(1, 30), max_size=40)


@given(rows=st.lists(ROW, max_size=12), sizes=SIZES)
def test_rows_are_whole_wherever_the_wire_cuts(rows: list[bytes], sizes: list[int]) -> None:
    """R80: pieces of any length, rows of several packets, lengths at their border."""
    found = page(answer(rows), sizes)
    assert found.packets == rows
    assert (found.sent, found.size, found.cut) == (len(rows), sum(map(len, rows)), False)


@given(
    rows=st.lists(ROW, max_size=12), sizes=SIZES, room=st.integers(0, 200), always_one=st.booleans()
)
def test_what_is_kept_is_a_beginning_that_fits(
    rows: list[bytes], sizes: list[int], room: int, always_one: bool
) -> None:
    """R76, R80: a short row behind one that did not fit is not kept either."""
    found = page(answer(rows), sizes, room, always_one=always_one)
    kept = len(found.packets)
    assert found.packets == rows[:kept]
    assert found.sent == len(rows)
    assert found.cut == (kept < len(rows))
    assert found.size <= room or (always_one and kept == 1)
    if kept < len(rows):
        assert found.size + len(rows[kept]) > room
        assert kept or not always_one


@given(rows=st.lists(ROW, max_size=12), sizes=SIZES, room=st.integers(0, 200))
def test_no_more_than_a_little_is_thrown_away(
    rows: list[bytes], sizes: list[int], room: int
) -> None:
    """R76: where rows grow long all at once, the rest of the answer stays unread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_packets, "_MOST_SPILLED", 50)
        found = page(answer(rows), sizes, room, always_one=False)
    spilled = rows[len(found.packets) : found.sent]
    assert found.packets == rows[: len(found.packets)]
    assert found.complete or (found.cut and sum(map(len, spilled)) > 50)


def test_a_field_of_huge_length_is_no_end() -> None:
    """R80: 0xFE in front of a long packet is the length of a field."""
    row = b"\xfe" + bytes(8)
    assert page(answer([row]), []).packets == [row]


def test_an_error_among_the_rows_is_its_code() -> None:
    """R164: the server's words stay out."""
    with pytest.raises(BrokenAnswerError) as caught:
        page(answer([b"1"], end=b"\xff" + (1317).to_bytes(2, "little") + b"#70100secret"), [])
    assert caught.value.code == 1317
    assert str(caught.value) == "code 1317"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        answer([b"1", b"2"])[:-1],
        answer([b"1" * 30])[:30],
        answer([b"1"]) + b"x",
        answer([b"1"], first=251),
        packet(250, b"1") + packet(252, END),
        packet(250, b""),
        b"".join(packet(250 + at, b"1" * FULL) for at in range(70)),
    ],
    ids=["nothing", "cut", "cut row", "more", "number", "skipped", "empty", "endless"],
)
def test_what_is_no_answer_is_broken(data: bytes) -> None:
    """R87: out of step, cut off, or without an end: nothing of it counts."""
    with pytest.raises(BrokenAnswerError) as caught:
        page(data, [])
    assert caught.value.code is None
    assert str(caught.value) == "no code"


def test_a_page_does_not_show_its_rows() -> None:
    """R119: counts only."""
    assert "secret" not in repr(page(answer([b"secret"]), []))
