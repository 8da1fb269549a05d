"""Rows that real servers wrote, against what MySQL's own mysqlbinlog says of them.

None of the files was written with binlog_row_metadata=FULL, so that their table maps halt as they
are; for the comparison the test adds the missing fields, as a server set to FULL would have.
"""

import gzip
import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from struct import unpack_from
from typing import Any

import pytest
from helpers.table_bytes import UTF8MB4, counted, field, packed

from capstan.core.binlog.bounded_reader import BoundedReader
from capstan.core.binlog.row_compiler import RowDecoder
from capstan.core.binlog.table_map import parse, peek_name
from capstan.core.halts import Halted, HaltReason

FOLDER = Path(__file__).parents[2] / "data" / "binlogs"
FILES = sorted(path.stem for path in FOLDER.glob("*.binlog"))
TABLE_MAP, ROWS = 19, {30: False, 31: True, 32: False}
SIGNED = {1, 2, 3, 4, 5, 8, 9, 13, 246}
TEXT = {15, 252, 254}
YEAR, BIT, FLOAT = 13, 16, 4


def events(name: str) -> Iterator[tuple[int, bytes]]:
    """Type and body of each event behind the 8 bytes of table id and flags; all have checksums."""
    data = (FOLDER / f"{name}.binlog").read_bytes()
    position = 4
    while position < len(data):
        (size,) = unpack_from("<I", data, position + 9)
        yield data[position + 4], data[position + 27 : position + size - 4]
        position += size


def types_and_optional(body: bytes) -> tuple[bytes, int, bytes]:
    """The type numbers, where the optional metadata begins, and which fields it has."""
    reader = BoundedReader(body, "a recorded table map")
    for _ in range(2):
        reader.counted()
        reader.uint(1)
    types = reader.take(reader.packed())
    reader.counted()
    reader.take((len(types) + 7) // 8)
    start, present = reader.position, bytearray()
    while reader.left:
        present.append(reader.uint(1))
        reader.counted()
    return types, start, bytes(present)


def made_full(body: bytes) -> bytes:
    """The same table map with the fields that FULL would have added."""
    types, _, present = types_and_optional(body)
    fields = {4: b"".join(counted(f"c{place}".encode()) for place in range(len(types)))}
    if 1 not in present:
        signs = sum(kind in SIGNED for kind in types)
        fields[1] = bytes((signs + 7) // 8)
    if not {2, 3} & set(present):
        fields[3] = packed(UTF8MB4) * sum(kind in TEXT for kind in types)
    return body + b"".join(field(number, value) for number, value in fields.items())


def printed(value: Any, kind: int, bits: int | None) -> str:
    """A value as mysqlbinlog prints it."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, date):
        return f"'{value:%Y:%m:%d}'"
    if kind == FLOAT:
        return f"{value:g}"
    return f"b'{value:0{bits}b}'" if kind == BIT else str(value)


def ours(name: str) -> list[str]:
    """Every value of every image of a file."""
    decoders: dict[bytes, tuple[RowDecoder, bytes]] = {}
    current = b""
    found: list[str] = []
    for kind, body in events(name):
        if kind == TABLE_MAP:
            current = body
            if body not in decoders:
                decoders[body] = RowDecoder(parse(made_full(body)), 1), types_and_optional(body)[0]
        elif kind in ROWS:
            decoder, types = decoders[current]
            for image in decoder.images(body, 0, len(body), ROWS[kind]):
                for place, value in enumerate(image):
                    length = decoder.shape.columns[place].length
                    found.append(f"@{place + 1}={printed(value, types[place], length)}")
    return found


def mysqlbinlogs(name: str) -> list[str]:
    """What mysqlbinlog says: `@place=value`, without its remarks."""
    text = gzip.decompress((FOLDER / f"{name}.decoded.txt.gz").read_bytes()).decode()
    lines = re.findall(r"^###   (@\d+=.*?)\s*/\* [A-Z]", text, re.MULTILINE)
    # A negative number comes with its unsigned reading in brackets.
    return [re.sub(r" \(\d+\)$", "", line) for line in lines]


@pytest.mark.parametrize("name", FILES)
def test_recorded_rows_are_what_mysqlbinlog_says(name):
    """R266, R262: integers, decimals, texts, bits, dates, partitioned rows of four server lines."""
    found = ours(name)
    assert found
    assert found == mysqlbinlogs(name)


@pytest.mark.parametrize("name", FILES)
def test_recorded_table_maps_without_full_metadata_halt_naming_their_table(name):
    """R266: no names are made up for a server that is not set to FULL."""
    bodies = [body for kind, body in events(name) if kind == TABLE_MAP]
    assert bodies
    for body in bodies:
        schema, table = peek_name(body)
        with pytest.raises(Halted) as caught:
            parse(body)
        assert caught.value.halt.reason is HaltReason.BINLOG_ROW_METADATA_NOT_FULL
        assert caught.value.halt.detail == f"{schema}.{table}: no column names"
