"""Builds binlog events byte by byte, independent of capstan's decoders.

House rules: nothing here uses a decoder; layouts are written down again from the format's own
description, so that a mistake on one side shows.
"""

import struct
import uuid
import zlib
from collections.abc import Iterable, Sequence

from capstan.core.binlog.framing import GAP, Packets

SOURCE = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OTHER = "9f0e1d2c-3b4a-4958-8776-655443322110"

LONG, VARCHAR, MYISAM_COMMIT = 3, 15, b"COMMIT"


def event(
    kind: int,
    body: bytes,
    *,
    log_pos: int = 0,
    flags: int = 0,
    checksum: bool = True,
    timestamp: int = 1_700_000_000,
) -> bytes:
    """One event with its header, and a CRC32 unless told otherwise."""
    size = 19 + len(body) + (4 if checksum else 0)
    raw = struct.pack("<IBIIIH", timestamp, kind, 1, size, log_pos, flags) + body
    return raw + struct.pack("<I", zlib.crc32(raw)) if checksum else raw


def format_description(*, checksums: bool = True, version: bytes = b"9.7.4") -> bytes:
    """A FORMAT_DESCRIPTION; it always has a CRC32 itself."""
    body = struct.pack("<H50sIB", 4, version, 0, 19) + bytes(42) + bytes([1 if checksums else 0])
    return event(15, body)


def rotate(name: bytes = b"binlog.000001", *, checksum: bool = True) -> bytes:
    """An artificial ROTATE."""
    return event(4, struct.pack("<Q", 4) + name, flags=0x20, checksum=checksum, timestamp=0)


def previous_gtids() -> bytes:
    """A PREVIOUS_GTIDS of the empty set."""
    return event(35, struct.pack("<Q", 0))


def heartbeat() -> bytes:
    """A HEARTBEAT."""
    return event(27, b"binlog.000001", flags=0x20, timestamp=0)


def gtid(
    number: int,
    *,
    source: str = SOURCE,
    commit: int = 1_700_000_000_000_001,
    original: int | None = None,
) -> bytes:
    """A GTID_LOG event; `original` None means committed here first."""
    body = struct.pack("<B16sQBQQ", 1, uuid.UUID(source).bytes, number, 2, number - 1, number)
    if original is None:
        body += commit.to_bytes(7, "little")
    else:
        body += (commit | 1 << 55).to_bytes(7, "little") + original.to_bytes(7, "little")
    body += b"\xfc\x00\x02" + struct.pack("<I", 90704)
    return event(33, body)


def _varlen(value: int) -> bytes:
    for size in range(1, 9):
        if value < 1 << (7 * size):
            return ((value << size) | ((1 << (size - 1)) - 1)).to_bytes(size, "little")
    return b"\xff" + value.to_bytes(8, "little")


def tagged_gtid(number: int, tag: str, *, commit: int = 1_700_000_000_000_001) -> bytes:
    """A GTID_TAGGED_LOG event."""
    fields = _varlen(0) + _varlen(1)
    fields += _varlen(1) + b"".join(map(_varlen, uuid.UUID(SOURCE).bytes))
    fields += _varlen(2) + _varlen(number << 1)
    fields += _varlen(3) + _varlen(len(tag)) + tag.encode()
    fields += _varlen(4) + _varlen(0) + _varlen(5) + _varlen(2) + _varlen(6) + _varlen(commit)
    size = len(fields) + 2
    while len(_varlen(1) + _varlen(size) + _varlen(0)) + len(fields) != size:
        size += 1
    return event(42, _varlen(1) + _varlen(size) + _varlen(0) + fields)


def query(text: bytes, schema: bytes = b"shop") -> bytes:
    """A QUERY with sql_mode and character set among its status variables."""
    status = b"\x00" + bytes(4) + b"\x01" + bytes(8) + b"\x06\x03std" + b"\x04" + b"\xff\x00" * 3
    head = struct.pack("<IIBHH", 7, 0, len(schema), 0, len(status))
    return event(2, head + status + schema + b"\0" + text)


def _packed(number: int) -> bytes:
    return bytes([number]) if number < 251 else b"\xfc" + struct.pack("<H", number)


def table_map(table_id: int, schema: bytes = b"shop", table: bytes = b"items") -> bytes:
    """A TABLE_MAP of two columns: `id` INT unsigned key, `name` VARCHAR(50) utf8mb4 null."""
    names = b"".join(bytes([len(n)]) + n for n in (b"id", b"name"))
    optional = b"\x01\x01\x80" + b"\x02\x01\xff"[:0]
    optional += b"\x02\x03\xfc\xff\x00"
    optional += b"\x04" + _packed(len(names)) + names
    optional += b"\x08\x01\x00"
    body = table_id.to_bytes(6, "little") + b"\x01\x00"
    body += bytes([len(schema)]) + schema + b"\0" + bytes([len(table)]) + table + b"\0"
    body += b"\x02" + bytes([LONG, VARCHAR]) + b"\x02" + struct.pack("<H", 200) + b"\x02" + optional
    return event(19, body)


def _image(row: tuple[int, str | None]) -> bytes:
    number, name = row
    if name is None:
        return b"\x02" + struct.pack("<I", number)
    text = name.encode()
    return b"\x00" + struct.pack("<I", number) + bytes([len(text)]) + text


def rows(
    kind: int, table_id: int, images: Iterable[tuple[int, str | None]], *, last: bool = True
) -> bytes:
    """A WRITE (30), UPDATE (31, images alternate) or DELETE (32) ROWS event of `table_map`."""
    body = table_id.to_bytes(6, "little") + struct.pack("<HH", 1 if last else 0, 2)
    body += b"\x02" + (b"\xff\xff" if kind == 31 else b"\xff")
    return event(kind, body + b"".join(map(_image, images)))


def xid(number: int = 1) -> bytes:
    """An XID."""
    return event(16, struct.pack("<Q", number))


def insert(number: int, *ids: int, table: bytes = b"items") -> list[bytes]:
    """A whole transaction that inserts rows with these ids."""
    return [
        gtid(number),
        query(b"BEGIN"),
        table_map(80, table=table),
        rows(30, 80, [(i, f"n{i}") for i in ids]),
        xid(number),
    ]


def opening() -> list[bytes]:
    """What every dump begins with."""
    return [rotate(), format_description(), previous_gtids()]


def packets_of(raws: Sequence[bytes]) -> Packets:
    """Events as the cutter hands them on, without its packet headers being real."""
    data = b"".join(bytes(GAP) + raw for raw in raws)
    bounds = [GAP]
    for raw in raws:
        bounds.append(bounds[-1] + len(raw) + GAP)
    return Packets(data, bounds)


def packets(events: Sequence[bytes], sequence: int = 1) -> bytes:
    """Events as packets of a dump, numbered from `sequence`."""
    out = []
    for raw in events:
        payload = b"\0" + raw
        while True:
            part, payload = payload[:0xFFFFFF], payload[0xFFFFFF:]
            out.append(struct.pack("<I", len(part) | (sequence & 0xFF) << 24) + part)
            sequence += 1
            if len(part) < 0xFFFFFF:
                break
    return b"".join(out)


def error_packet(code: int, text: str, sequence: int = 1) -> bytes:
    """An error packet."""
    payload = b"\xff" + struct.pack("<H", code) + b"#HY000" + text.encode()
    return struct.pack("<I", len(payload) | sequence << 24) + payload
