"""Whole binlog files for tests: what stands around transactions, and the files' own names.

House rules: events come from `binlog_stream`; here are those of files only, and of payloads.
"""

import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import zstandard

from helpers.binlog_stream import (
    PAYLOAD,
    PREVIOUS_GTIDS,
    ROTATE,
    Stream,
    begin,
    committed,
    event,
    format_event,
    gtid,
    mapped,
    query,
    row,
    rows,
    stream,
    xid,
)
from helpers.event_builder import SOURCE

STOP, HEARTBEAT, IGNORABLE_FLAG = 3, 27, 0x80
WRITE = 30


def previous(runs: Mapping[str, tuple[int, int]] | None = None) -> bytes:
    """A PREVIOUS_GTIDS: source → first number, and the number behind the last."""
    body = struct.pack("<Q", len(runs or {}))
    for source, (first, behind) in (runs or {}).items():
        body += uuid.UUID(source).bytes + struct.pack("<QQQ", 1, first, behind)
    return event(PREVIOUS_GTIDS, body)


def rotate(name: str) -> bytes:
    """A ROTATE to the beginning of a file."""
    return event(ROTATE, struct.pack("<Q", 4) + name.encode())


def stop() -> bytes:
    """A STOP."""
    return event(STOP, b"")


def heartbeat() -> bytes:
    """A HEARTBEAT."""
    return event(HEARTBEAT, b"binlog.000001")


def ddl(text: bytes = b"CREATE TABLE items (id INT)") -> bytes:
    """A statement that commits itself."""
    return query(text)


def bare(events: Iterable[bytes]) -> bytes:
    """Events as they lie inside a payload."""
    return b"".join(events)


def inside_of_one(*ids: int) -> list[bytes]:
    """The events of one transaction without checksums."""
    return [
        begin(checksum=False),
        mapped(checksum=False),
        rows(WRITE, [row(number) for number in ids], checksum=False),
        xid(checksum=False),
    ]


def payload(events: Sequence[bytes], *, compression: int = 0) -> bytes:
    """A TRANSACTION_PAYLOAD that holds events (without checksums)."""
    inside = bare(events)
    squeezed = zstandard.ZstdCompressor().compress(inside) if compression == 0 else inside
    fields = b"".join(
        bytes([kind, 9, 0xFE]) + struct.pack("<Q", value)
        for kind, value in ((2, compression), (3, len(inside)), (1, len(squeezed)))
    )
    return event(PAYLOAD, fields + b"\0" + squeezed)


def group(
    number: int, *ids: int, source: str = SOURCE, closing: bytes | None = None
) -> list[bytes]:
    """One transaction with its GTID, which inserts rows with these ids."""
    images = [row(each) for each in ids] or [row(number)]
    return [gtid(number, source=source), *committed(*images, closing=closing)]


def a_file(*events: bytes, before: Mapping[str, tuple[int, int]] | None = None) -> Stream:
    """A file of these events behind a format description and previous GTIDs."""
    return stream([format_event(), previous(before), *events])


def written(
    path: Path, *events: bytes, before: Mapping[str, tuple[int, int]] | None = None
) -> Path:
    """The same, on disk."""
    path.write_bytes(a_file(*events, before=before).data)
    return path
