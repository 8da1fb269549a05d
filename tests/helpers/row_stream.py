"""Reads the row events of one database straight off a server's dump, for tests of the decoder.

No pipeline, no fold: packets, headers and the decoder under test, so that a wrong value cannot hide
behind anything else.
"""

import contextlib
from collections.abc import Iterator
from struct import pack, unpack_from
from typing import Any, Final

import attrs

from capstan.core.binlog.row_compiler import RowDecoder
from capstan.core.binlog.table_map import parse, peek_name
from capstan.core.tables import TableShape
from helpers.mysql import Database, execute

_DUMP: Final = 0x12
_NON_BLOCKING: Final = 1
_TABLE_MAP: Final = 19
_PARTIAL: Final = 39
_ROWS: Final = {30: "insert", 31: "update", 32: "delete", _PARTIAL: "update"}


@attrs.frozen
class RowEvent:
    """One decoded row event: what happened, to which table, and its images."""

    op: str
    shape: TableShape
    images: list[tuple[Any, ...]]


def position(database: Database) -> tuple[str, int]:
    """Where the server's binlog ends now."""
    ((name, offset, *_),) = database.execute("SHOW BINARY LOG STATUS")
    return name, offset


def rows_since(database: Database, start: tuple[str, int], server_id: int) -> list[RowEvent]:
    """The row events of this database from a position to the end of the binlog, in order.

    Each event is decoded until its null bitmaps have code of their own; both must agree.
    """
    decoders: dict[bytes, RowDecoder] = {}
    tables: dict[bytes, bytes] = {}
    found: list[RowEvent] = []
    for event in _events(database, start, server_id):
        kind = event[4]
        if kind == _TABLE_MAP:
            tables[event[19:25]] = event[27:]
        elif kind in _ROWS and peek_name(body := tables[event[19:25]])[0] == database.name:
            if body not in decoders:
                decoders[body] = RowDecoder(parse(body), sightings=1)
            decoder = decoders[body]
            rounds = [_images(decoder, event) for _ in range(6)]
            assert len({repr(images) for images in rounds}) == 1
            found.append(RowEvent(_ROWS[kind], decoder.shape, rounds[0]))
    return found


def _images(decoder: RowDecoder, event: bytes) -> list[tuple[Any, ...]]:
    if event[4] == _PARTIAL:
        return decoder.partial_images(event, 27, len(event))
    return decoder.images(event, 27, len(event), event[4] == 31)


def _events(database: Database, start: tuple[str, int], server_id: int) -> Iterator[bytes]:
    """Whole events, without their checksums."""
    ((algorithm,),) = database.execute("SELECT @@GLOBAL.binlog_checksum")
    checksum = 0 if algorithm == "NONE" else 4
    for event in dumped(database, start, server_id):
        (size,) = unpack_from("<I", event, 9)
        yield event[: size - checksum]


def dumped(database: Database, start: tuple[str, int], server_id: int) -> Iterator[bytes]:
    """Whole events as the server sends them, from a position to the end of the binlog."""
    with contextlib.closing(database.server.connect()) as connection:
        ((algorithm,),) = execute(connection, "SELECT @@GLOBAL.binlog_checksum")
        execute(connection, "SET @source_binlog_checksum = %s", algorithm)
        execute(connection, "SET @master_binlog_checksum = %s", algorithm)
        name, offset = start
        request = pack("<IHI", offset, _NON_BLOCKING, server_id) + name.encode()
        connection._execute_command(_DUMP, request)
        while True:
            data: bytes = connection._read_packet().get_all_data()
            if data[0]:
                return
            yield data[1:]
