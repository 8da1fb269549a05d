"""Builds whole binlog streams byte by byte for the strict decoders, without their code.

House rules: layouts are written down from the format's description once more; each part can be made
wrong on purpose. A stream puts events one behind the other and writes each one's end position and
CRC32 anew.
"""

import struct
import uuid
import zlib
from collections.abc import Iterable, Sequence

import attrs

from helpers.event_builder import SOURCE
from helpers.table_bytes import Spec, image, integer, row_event, table_map, varchar

HEADER = 19
MAGIC = b"\xfebin"
QUERY, ROTATE, FORMAT, XID, TABLE_MAP, WRITE, UPDATE, DELETE = 2, 4, 15, 16, 19, 30, 31, 32
GTID, ANONYMOUS, PREVIOUS_GTIDS, PAYLOAD, TAGGED = 33, 34, 35, 40, 42
STATEMENT_END = 1

POST_HEADERS = {
    1: 56, 2: 13, 4: 8, 6: 18, 8: 4, 9: 4, 11: 4, 15: 98, 17: 4, 18: 26, 19: 8, 23: 8, 24: 8,
    25: 8, 26: 2, 30: 10, 31: 10, 32: 10, 33: 42, 34: 42, 36: 18, 37: 52, 39: 10, 40: 40, 41: 41,
}  # fmt: skip
"""Bytes of each type's fixed part as a 9.7 server announces them; the others have none."""

COLUMNS = (integer("id", unsigned=True, nullable=False), varchar("name", 200))
"""The columns of every table here unless told otherwise."""


def event(
    kind: int,
    body: bytes,
    *,
    checksum: bool = True,
    size: int | None = None,
    flags: int = 0,
    next_position: int = 0,
) -> bytes:
    """One event; `size` is written into its header instead of the real one."""
    whole = HEADER + len(body) + 4 * checksum
    head = struct.pack(
        "<IBIIIH", 1_700_000_000, kind, 7, whole if size is None else size, next_position, flags
    )
    return sealed(head + body) if checksum else head + body


def sealed(raw: bytes) -> bytes:
    """Bytes with their CRC32 behind them."""
    return raw + struct.pack("<I", zlib.crc32(raw))


def post_headers(**changed: int) -> bytes:
    """The 42 lengths; `t2=11` changes the one of type 2."""
    lengths = POST_HEADERS | {int(name[1:]): length for name, length in changed.items()}
    return bytes(lengths.get(kind, 0) for kind in range(1, 43))


def format_event(
    *,
    checksums: bool = True,
    version: bytes = b"9.7.4",
    lengths: bytes | None = None,
    algorithm: int | None = None,
    binlog_version: int = 4,
    header_size: int = HEADER,
    flags: int = 0,
) -> bytes:
    """A FORMAT_DESCRIPTION; it has a CRC32 always, made without the mark of a file in use."""
    body = struct.pack("<H50sIB", binlog_version, version, 1_700_000_000, header_size)
    body += post_headers() if lengths is None else lengths
    body += bytes([checksums if algorithm is None else algorithm])
    raw = event(FORMAT, body, flags=flags & ~1)
    return raw[:17] + struct.pack("<H", flags) + raw[19:]


def query(
    text: bytes,
    *,
    database: bytes = b"shop",
    status: bytes = b"\x00\x00\x00\x00\x00",
    error: int = 0,
    checksum: bool = True,
) -> bytes:
    """A QUERY event."""
    head = struct.pack("<IIBHH", 11, 0, len(database), error, len(status))
    return event(QUERY, head + status + database + b"\0" + text, checksum=checksum)


def begin(*, checksum: bool = True) -> bytes:
    """The QUERY that opens a transaction."""
    return query(b"BEGIN", checksum=checksum)


def xid(number: int = 77, *, checksum: bool = True) -> bytes:
    """An XID event."""
    return event(XID, struct.pack("<Q", number), checksum=checksum)


def mapped(
    table_id: int = 80,
    *,
    columns: Sequence[Spec] = COLUMNS,
    table: bytes = b"items",
    fields: dict[int, bytes] | None = None,
    checksum: bool = True,
) -> bytes:
    """A TABLE_MAP event; `fields` as in `table_bytes.table_map`."""
    head = table_id.to_bytes(6, "little") + b"\x01\x00"
    body = table_map(columns, table=table, fields=fields)
    return event(TABLE_MAP, head + body, checksum=checksum)


def row(number: int, name: str | None = "n") -> bytes:
    """One image of `COLUMNS`."""
    text = None if name is None else bytes([len(name.encode())]) + name.encode()
    return image(2, [struct.pack("<I", number), text])


def rows(
    kind: int,
    images: Sequence[bytes],
    *,
    table_id: int = 80,
    columns: int = 2,
    last: bool = True,
    checksum: bool = True,
) -> bytes:
    """A version 2 row event."""
    head = table_id.to_bytes(6, "little") + struct.pack("<H", STATEMENT_END if last else 0)
    body = row_event(columns, images, bitmaps=2 if kind == UPDATE else 1)
    return event(kind, head + body, checksum=checksum)


def gtid(
    number: int, *, kind: int = GTID, source: str = SOURCE, short: bool = False, micros: int = 5
) -> bytes:
    """A GTID event, or an anonymous one; `short` leaves the times out, as servers before 8.0."""
    raw = uuid.UUID(source).bytes if kind == GTID else bytes(16)
    body = struct.pack("<B16sQBQQ", 1, raw, number, 2, 0, 1)
    if short:
        body = body[:25]
    else:
        body += micros.to_bytes(7, "little") + b"\x60" + struct.pack("<I", 90704)
    return event(kind, body)


@attrs.frozen
class Stream:
    """Events one behind the other.

    Attributes:
        data: Their bytes, behind the magic.
        offsets: Where each begins.
    """

    data: bytes
    offsets: tuple[int, ...]


def stream(
    events: Iterable[bytes], *, checksum: bool = True, base: bytes = MAGIC, lie: int = 0
) -> Stream:
    """Join events; each one's end position (moved by `lie`) and CRC32 are written anew."""
    data, offsets = bytearray(base), []
    for raw in events:
        offsets.append(len(data))
        following = struct.pack("<I", len(data) + len(raw) + lie)
        placed = raw[:13] + following + raw[17:]
        data += sealed(placed[:-4]) if checksum else placed
    return Stream(bytes(data), tuple(offsets))


def committed(*images: bytes, closing: bytes | None = None) -> list[bytes]:
    """The events of one transaction that inserts rows into one table."""
    return [begin(), mapped(), rows(WRITE, images or [row(1)]), closing or xid()]
