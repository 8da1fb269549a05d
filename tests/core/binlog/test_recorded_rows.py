"""Rows that real servers wrote, against what MySQL's own mysqlbinlog says of them.

None of the files was written with binlog_row_metadata=FULL, so that their table maps halt as they
are; for the comparison the test adds the missing fields, as a server set to FULL would have.
"""

import gzip
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from struct import unpack_from
from typing import Any

import pytest
from helpers.table_bytes import UTF8MB4, counted, field, packed

from capstan.core.binlog.bounded_reader import BoundedReader
from capstan.core.binlog.payload import open_payload
from capstan.core.binlog.row_compiler import RowDecoder
from capstan.core.binlog.table_map import parse, peek_name
from capstan.core.halts import Halted, HaltReason
from capstan.core.tables import Column
from capstan.core.values import text_of

FOLDER = Path(__file__).parents[2] / "data" / "binlogs"
PARTIAL = {"partial-images-9.7.4": "test.t1", "partial-documents-9.7.4": "test.t"}
"""Files with images that lack columns, and of which table."""
FILES = sorted(path.stem for path in FOLDER.glob("*.binlog") if path.stem not in PARTIAL)
TABLE_MAP, PARTIAL_UPDATE, PAYLOAD = 19, 39, 40
ROWS = {30: False, 31: True, 32: False, PARTIAL_UPDATE: True, 23: False, 24: True, 25: False}
"""Row events, and whether their images come in pairs; those below 30 are of version 1."""
OLDEST = {"canal-5.1.34", "canal-update-5.1.34"}
"""Files of a server that knew no checksums; mariadb-binlog says what is in them."""
SIGNED = {1, 2, 3, 4, 5, 8, 9, 13, 246}
TEXT = {15, 252, 254}
ENUM, SET = 247, 248
TYPE_METADATA = {15: 2, 16: 2, 246: 2, 254: 2} | dict.fromkeys((4, 5, 17, 18, 19, 245, 252), 1)
"""How many bytes of the column metadata a type has."""
SET_BITS = 8
"""Every SET of these files has at most 8 members."""
ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\t": "\\t", "\n": "\\n"})
CONTROLS = {number: f"\\x{number:02x}" for number in range(32)}


def events(name: str) -> Iterator[tuple[int, bytes, bytes]]:
    """Type, table id and body of each event behind table id and flags."""
    checksum = 0 if name in OLDEST else 4
    for kind, body in bodies((FOLDER / f"{name}.binlog").read_bytes(), 4, checksum):
        inside = [(kind, body)]
        if kind == PAYLOAD:
            pieces = open_payload(body, 0, len(body))
            inside = [event for piece in pieces for event in bodies(piece.data, piece.bounds[0], 0)]
        for kind_inside, body_inside in inside:
            yield kind_inside, body_inside[:6], body_inside[8:]


def bodies(data: bytes, position: int, checksum: int) -> Iterator[tuple[int, bytes]]:
    """Type and body of each event."""
    while position < len(data):
        (size,) = unpack_from("<I", data, position + 9)
        yield data[position + 4], data[position + 19 : position + size - checksum]
        position += size


def types_and_optional(body: bytes) -> tuple[list[int], int, bytes]:
    """The true type numbers, where the optional metadata begins, and which fields it has."""
    reader = BoundedReader(body, "a recorded table map")
    for _ in range(2):
        reader.counted()
        reader.uint(1)
    types = list(reader.take(reader.packed()))
    metadata = BoundedReader(reader.counted(), "its column metadata")
    for place, number in enumerate(types):
        details = metadata.take(TYPE_METADATA.get(number, 0))
        if number == 254 and details[0] in (ENUM, SET):
            types[place] = details[0]
    reader.take((len(types) + 7) // 8)
    start, present = reader.position, bytearray()
    while reader.left:
        present.append(reader.uint(1))
        reader.counted()
    return types, start, bytes(present)


def labels(count: int, numbers: Iterable[int]) -> bytes:
    """Members of `count` columns that are the numbers mysqlbinlog prints."""
    members = [counted(str(number).encode()) for number in numbers]
    return (packed(len(members)) + b"".join(members)) * count


def made_full(body: bytes) -> bytes:
    """The same table map with the fields that FULL would have added."""
    types, _, present = types_and_optional(body)
    fields = {4: b"".join(counted(f"c{place}".encode()) for place in range(len(types)))}
    if 1 not in present:
        signs = sum(kind in SIGNED for kind in types)
        fields[1] = bytes((signs + 7) // 8)
    if not {2, 3} & set(present):
        fields[3] = packed(UTF8MB4) * sum(kind in TEXT for kind in types)
    sets, enums = types.count(SET), types.count(ENUM)
    if sets:
        fields[5] = labels(sets, (1 << bit for bit in range(SET_BITS)))
    if enums:
        fields[6] = labels(enums, range(1, 10))
    if sets or enums:
        fields[11] = packed(UTF8MB4) * (sets + enums)
    return body + b"".join(field(number, value) for number, value in fields.items())


def printed(value: Any, column: Column) -> str:
    """A value as mysqlbinlog prints it."""
    if value is None:
        return "NULL"
    kind = column.type
    if kind == "set":
        number = sum(int(label) for label in value.split(",") if label)
        return f"b'{number:0{SET_BITS}b}'"
    if kind == "timestamp":
        seconds, micros = divmod((value - datetime.fromtimestamp(0, UTC)) // MICROSECOND, 10**6)
        return f"{seconds}.{micros:06}"[: column.fsp - 6 or None] if column.fsp else str(seconds)
    form = FORMS.get(kind)
    return form(value, column) if form else str(value)


MICROSECOND = timedelta(microseconds=1)
FORMS: dict[str, Callable[[Any, Column], str]] = {
    "bit": lambda value, column: f"b'{value:0{column.length}b}'",
    "float": lambda value, _: f"{value:g}",
    "double": lambda value, _: f"{value:.20g}",
    "decimal": lambda value, _: format(value, "f"),
    "date": lambda value, _: f"'{value:%Y:%m:%d}'",
    "datetime": lambda value, column: f"'{text_of(value, column)}'",
    "time": lambda value, column: f"'{text_of(value, column)}'",
    "json": lambda value, _: f"'{value}'",
    "binary": lambda value, _: f"'{value.rstrip(bytes(1)).decode()}'",
    "enum": lambda value, _: value,
}
for text_type in ("char", "varchar", "text", "tinytext", "mediumtext", "longtext"):
    FORMS[text_type] = lambda value, _: f"'{value.translate(ESCAPES).translate(CONTROLS)}'"


def ours(name: str) -> list[str]:
    """Every value of every image of a file."""
    decoders: dict[bytes, RowDecoder] = {}
    maps: dict[bytes, bytes] = {}
    found: list[str] = []
    for kind, table, body in events(name):
        if kind == TABLE_MAP:
            maps[table] = body
            if body not in decoders:
                decoders[body] = RowDecoder(parse(made_full(body)), 1)
        elif kind in ROWS:
            for image in images(decoder := decoders[maps[table]], kind, body):
                pairs = enumerate(zip(image, decoder.shape.columns, strict=True), 1)
                found += [f"@{place}={printed(value, column)}" for place, (value, column) in pairs]
    return found


def images(decoder: RowDecoder, kind: int, body: bytes) -> list[tuple[Any, ...]]:
    """The images of a row event."""
    if kind == PARTIAL_UPDATE:
        return decoder.partial_images(body, 0, len(body))
    return decoder.images(body, 0, len(body), ROWS[kind], version1=kind < 30)


def mysqlbinlogs(name: str) -> list[str]:
    """What mysqlbinlog says of a file: `@place=value`, without its remarks."""
    text = gzip.decompress((FOLDER / f"{name}.decoded.txt.gz").read_bytes()).decode()
    if name in OLDEST:
        text = text.replace("\\", "\\\\")  # mariadb-binlog does not escape it
    lines = re.findall(r"^###   (@\d+=.*?)\s*/\* [A-Z]", text, re.MULTILINE)
    # A negative number comes with its unsigned reading in brackets.
    return [re.sub(r" \(\d+\)$", "", line) for line in lines]


@pytest.mark.parametrize("name", FILES)
def test_recorded_rows_are_what_mysqlbinlog_says(name):
    """R266, R262: numbers, texts, bits, labels, dates, times, JSON of servers from 5.1 to 9.7."""
    found = ours(name)
    assert found
    assert found == mysqlbinlogs(name)


@pytest.mark.parametrize("name", PARTIAL)
def test_recorded_images_that_lack_columns_halt_naming_their_table(name):
    """R266, D22: what a server set to MINIMAL left out is not taken for NULL, beside diffs too."""
    with pytest.raises(Halted) as caught:
        ours(name)
    assert caught.value.halt.reason is HaltReason.ROW_IMAGE_NOT_FULL
    assert caught.value.halt.detail == PARTIAL[name]


@pytest.mark.parametrize("name", [*FILES, *PARTIAL])
def test_recorded_table_maps_without_full_metadata_halt_naming_their_table(name):
    """R266: no names are made up for a server that is not set to FULL."""
    maps = [body for kind, _, body in events(name) if kind == TABLE_MAP]
    assert maps
    for body in maps:
        schema, table = peek_name(body)
        with pytest.raises(Halted) as caught:
            parse(body)
        assert caught.value.halt.reason is HaltReason.BINLOG_ROW_METADATA_NOT_FULL
        assert caught.value.halt.detail == f"{schema}.{table}: no column names"
