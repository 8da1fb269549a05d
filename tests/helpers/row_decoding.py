"""Decodes made row events with both kinds of generated code, which must agree."""

from collections.abc import Sequence
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


def both(
    columns: Sequence[Spec], images: Sequence[bytes], *, pairs: bool = False, event: bytes = b""
) -> list[tuple[Any, ...]]:
    """Decode an event by the careful code and then by code of its own; both must agree."""
    event = event or row_event(len(columns), images, bitmaps=1 + pairs)
    rows = decoder(columns, NEVER).images(event, 0, len(event), pairs)
    compiled = decoder(columns)
    for _ in range(2):
        assert repr(compiled.images(event, 0, len(event), pairs)) == repr(rows)
    return rows


def halt_of(
    columns: Sequence[Spec], event: bytes, *, pairs: bool = False, end: int | None = None
) -> Halt:
    """The halt of an event, equal for the careful and the compiled code."""
    halts = []
    for sightings in (NEVER, 1):
        made = decoder(columns, sightings)
        if sightings == 1:
            for nulls in range(1 << min(len(columns), 3)):
                marks = [nulls >> place & 1 for place in range(len(columns))]
                if all(c.nullable or not mark for c, mark in zip(columns, marks, strict=True)):
                    made._note(image(len(columns), [None if mark else b"" for mark in marks]))
            made._compile()
        with pytest.raises(Halted) as caught:
            made.images(event, 0, len(event) if end is None else end, pairs)
        assert caught.value.__context__ is None
        halts.append(caught.value.halt)
    assert halts[0] == halts[1]
    return halts[0]
