"""Decodes made row events with both kinds of generated code, which must agree."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from capstan.core.binlog.row_compiler import RowDecoder
from capstan.core.binlog.table_map import parse
from capstan.core.halts import Halt, Halted
from helpers.table_bytes import Spec, image, row_event, table_map

NEVER = 1 << 30
"""So often no null bitmap is seen in a test: every row is read by the careful code."""


def short(value: bytes) -> bytes:
    """Bytes behind a length of one byte."""
    return bytes([len(value)]) + value


def long(value: bytes, width: int) -> bytes:
    """Bytes behind a length of `width` bytes."""
    return len(value).to_bytes(width, "little") + value


def decoder(columns: Sequence[Spec], sightings: int = 1) -> RowDecoder:
    """A decoder for these columns."""
    return RowDecoder(parse(table_map(columns)), sightings)


def with_code(made: RowDecoder, lengths: Mapping[bytes, Mapping[int, int]]) -> RowDecoder:
    """The decoder with code for these null bitmaps, which expects these lengths under them."""
    made._habits.variants.update(lengths)
    made._compile()
    return made


def both(
    columns: Sequence[Spec], images: Sequence[bytes], *, pairs: bool = False, event: bytes = b""
) -> list[tuple[Any, ...]]:
    """Decode an event by the careful code and by code of its own; all must agree.

    The code of its own first expects the lengths that it learned from the first rows, then none.
    """
    event = event or row_event(len(columns), images, bitmaps=1 + pairs)
    rows = decoder(columns, NEVER).images(event, 0, len(event), pairs)
    learned = decoder(columns)
    for _ in range(2):
        assert repr(learned.images(event, 0, len(event), pairs)) == repr(rows)
    bare = with_code(decoder(columns, NEVER), {m: {} for m in learned._habits.variants})
    assert repr(bare.images(event, 0, len(event), pairs)) == repr(rows)
    return rows


def halt_of(
    columns: Sequence[Spec], event: bytes, *, pairs: bool = False, end: int | None = None
) -> Halt:
    """The halt of an event, equal for the careful code and for code that expects lengths or not."""
    masks = []
    for nulls in range(1 << min(len(columns), 3)):
        marks = [nulls >> place & 1 for place in range(len(columns))]
        if all(c.nullable or not mark for c, mark in zip(columns, marks, strict=True)):
            masks.append(image(len(columns), [None if mark else b"" for mark in marks]))
    bare: dict[bytes, dict[int, int]] = {mask: {} for mask in masks}
    first = decoder(columns, NEVER)
    head = first._heads[pairs].size
    measured = {m: first._habits._measure(m, event, head + len(m)) for m in masks}
    short = {
        m: {place: size for place, size in n.items() if size < 100} for m, n in measured.items()
    }
    halts = []
    for lengths in ({}, bare, short):
        made = with_code(decoder(columns, NEVER), lengths)
        with pytest.raises(Halted) as caught:
            made.images(event, 0, len(event) if end is None else end, pairs)
        assert caught.value.__context__ is None
        halts.append(caught.value.halt)
    assert halts[0] == halts[1] == halts[2]
    return halts[0]
