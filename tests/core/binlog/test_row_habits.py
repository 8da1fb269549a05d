"""What rows are used to be like: learned, looked at in every row, forgotten when it changes."""

import pytest
from helpers.row_decoding import NEVER, decoder, short
from helpers.table_bytes import image, integer, row_event, varchar
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.binlog.row_compiler import RowDecoder

COLUMNS = [integer("id"), varchar("code", 100), varchar("note", 100)]


def held(text: bytes | None) -> bytes | None:
    return None if text is None else short(text)


def event(*rows: tuple[int, bytes | None, bytes | None]) -> bytes:
    """One event with these rows."""
    return row_event(
        3,
        [
            image(
                3, [number.to_bytes(4, "little"), *(None if v is None else short(v) for v in texts)]
            )
            for number, *texts in rows
        ],
    )


def decoded(made: RowDecoder, *rows: tuple[int, bytes | None, bytes | None]) -> None:
    """Decode an event with these rows; they must come out as they went in."""
    raw = event(*rows)
    expected = [(n, *(v if v is None else v.decode() for v in texts)) for n, *texts in rows]
    assert made.images(raw, 0, len(raw), False) == expected


def lengths(made: RowDecoder) -> list[dict[int, int]]:
    return [dict(found) for found in made._habits.variants.values()]


def test_a_length_that_was_always_the_same_is_expected():
    """R266: `code` has three bytes in every row, `note` has not."""
    made = decoder(COLUMNS, sightings=10)
    for number in range(10):
        decoded(made, (number, b"abc", b"x" * (1 + number)))
    assert lengths(made) == [{1: 3}]
    assert "r1 != 3" in made.source


def test_lengths_are_learned_for_each_null_bitmap():
    """R266: rows without a note may have codes of another length."""
    made = decoder(COLUMNS, sightings=3)
    for number in range(3):
        decoded(made, (number, b"abc", b"note"), (number, b"ab", None))
    assert lengths(made) == [{1: 3, 2: 4}, {1: 2}]


def test_a_row_of_another_length_is_read_all_the_same():
    """R266: a habit is looked at in each row, and never trusted."""
    made = decoder(COLUMNS, sightings=2)
    decoded(made, (1, b"abc", b"no"), (2, b"abc", b"no"))
    source = made.source
    for code in (b"", b"ab", b"abcd", b"x" * 100):
        decoded(made, (3, b"abc", b"no"), (4, code, b"no"), (5, b"abc", b"no"), (6, code, b"yes"))
    assert made.source == source


def test_the_last_row_of_a_buffer_may_be_shorter_than_expected():
    """R266: reading too far ends in the careful code, and changes nothing for later rows."""
    made = decoder(COLUMNS, sightings=2)
    decoded(made, (1, b"x" * 90, b"y" * 90), (2, b"x" * 90, b"y" * 90))
    source = made.source
    decoded(made, (3, b"a", b"b"))
    decoded(made, (4, b"x" * 90, b"y" * 90))
    assert made.source == source


def test_a_column_that_changed_is_no_longer_expected_to_stay():
    """R266: after 256 rows of another length; the other columns keep their habit."""
    made = decoder(COLUMNS, sightings=4)
    for number in range(4):
        decoded(made, (number, b"abc", b"no"))
    for number in range(255):
        decoded(made, (number, b"abcd", b"no"))
    assert lengths(made) == [{1: 3, 2: 2}]
    decoded(made, (1, b"abcd", b"no"))
    assert lengths(made) == [{2: 2}]
    for number in range(300):
        decoded(made, (number, b"abc", b"yes"))
    assert lengths(made) == [{}]


@pytest.mark.parametrize("known", [100, 400])
def test_one_event_may_have_any_number_of_rows_that_are_different(known):
    """R266: the code goes on to the event's end while it is written anew, once."""
    made = decoder(COLUMNS, sightings=64)
    compiled = []
    compile_ = made._compile
    made._compile = lambda: (compiled.append(1), compile_())[1]  # type: ignore[method-assign]
    decoded(made, *[(number, b"abc", b"no") for number in range(known)])
    decoded(made, *[(number, b"abcd", b"no") for number in range(3000)])
    decoded(made, *[(number, b"abcd", b"yes") for number in range(3000)])
    assert lengths(made) == [{}]
    assert len(compiled) == 3


def test_lengths_are_looked_at_for_a_bounded_number_of_columns():
    """R266: 32 texts a row, whatever the table has."""
    columns = [varchar(f"c{place}", 10) for place in range(60)]
    raw = row_event(60, [image(60, [b"\1a"] * 60)] * 3)
    made = decoder(columns, sightings=2)
    for _ in range(2):
        assert made.images(raw, 0, len(raw), False) == [("a",) * 60] * 3
    assert lengths(made) == [dict.fromkeys(range(32), 1)]


def test_what_is_counted_is_bounded():
    """R266: a table of ever new null bitmaps is not remembered."""
    columns = [varchar(f"c{place}", 10) for place in range(16)]
    made = decoder(columns, sightings=NEVER)
    for nulls in range(0, 65536, 16):
        values = [None if nulls >> place & 1 else b"\1a" for place in range(16)]
        raw = row_event(16, [image(16, values)])
        made.images(raw, 0, len(raw), False)
    assert len(made._habits._lengths) <= 1025


@pytest.mark.parametrize("size", [1, 255, 256])
def test_lengths_of_one_and_two_bytes_are_learned(size):
    """R266: the length's own bytes belong to the column, not to its values."""
    columns = [varchar("a", size), integer("b")]
    width = 1 + (size > 255)
    values = [(1).to_bytes(width, "little") + b"z", b"\1\0\0\0"]
    raw = row_event(2, [image(2, values)] * 3)
    made = decoder(columns, sightings=2)
    for _ in range(2):
        assert made.images(raw, 0, len(raw), False) == [("z", 1)] * 3
    assert lengths(made) == [{0: 1}]


TEXTS = st.one_of(st.none(), st.text(st.sampled_from("aé\x00"), max_size=5).map(str.encode))


@given(st.lists(st.lists(st.tuples(st.integers(0, 9), TEXTS, TEXTS), max_size=6), max_size=6))
def test_rows_are_the_same_whatever_was_learned_before(events):
    """R266: code and careful code agree on every row of every history."""
    made = decoder(COLUMNS, sightings=2)
    for rows in events:
        decoded(made, *rows)
