"""Builds binlog events byte by byte, from the format's description and not from capstan's decoders.

House rules: an `Event` is what a server would log, not yet put into a place: its end position and
its checksum are added when it is sent. Nothing here judges: what no server would write can be made
as well.
"""

import struct
import uuid
import zlib
from typing import Final

import attrs

HEADER_SIZE: Final = 19
CHECKSUM_SIZE: Final = 4

QUERY: Final = 2
ROTATE: Final = 4
FORMAT_DESCRIPTION: Final = 15
XID: Final = 16
TABLE_MAP: Final = 19
INCIDENT: Final = 26
HEARTBEAT: Final = 27
ROWS_QUERY: Final = 29
WRITE_ROWS: Final = 30
UPDATE_ROWS: Final = 31
DELETE_ROWS: Final = 32
GTID: Final = 33
PREVIOUS_GTIDS: Final = 35
TRANSACTION_PAYLOAD: Final = 40

ROWS: Final = frozenset({WRITE_ROWS, UPDATE_ROWS, DELETE_ROWS})
_ARTIFICIAL: Final = 0x20
_HEADER: Final = struct.Struct("<IBIIIH")
_WRAP: Final = 0xFFFFFFFF
_TIMES_DIFFER: Final = 1 << 55


@attrs.frozen(repr=False)
class Event:
    """One event that has no place in a file yet.

    Attributes:
        kind: Its type code.
        body: What stands between header and checksum.
        seconds: The header's timestamp.
        flags: The header's flags.
    """

    kind: int
    body: bytes
    seconds: int = 0
    flags: int = 0

    @property
    def size(self) -> int:
        """Bytes that it takes in a file, with its checksum."""
        return HEADER_SIZE + len(self.body) + CHECKSUM_SIZE

    def raw(self, end: int = 0, *, checksum: bool = True) -> bytes:
        """Its bytes; `end` is the position behind it, 0 for one that stands in no file."""
        size = self.size if checksum else self.size - CHECKSUM_SIZE
        data = _HEADER.pack(self.seconds, self.kind, 1, size, end & _WRAP, self.flags) + self.body
        return data + struct.pack("<I", zlib.crc32(data)) if checksum else data


def packed(number: int) -> bytes:
    """A length-encoded integer."""
    if number < 251:
        return bytes([number])
    for first, size in ((252, 2), (253, 3), (254, 8)):
        if number < 1 << 8 * size:
            return bytes([first]) + number.to_bytes(size, "little")
    raise ValueError("a length-encoded integer has eight bytes at most")


def counted(value: bytes) -> bytes:
    """Bytes behind their length-encoded length."""
    return packed(len(value)) + value


def format_description(version: str, *, checksums: bool = True) -> Event:
    """What every file begins with."""
    body = struct.pack("<H50sIB", 4, version.encode(), 0, HEADER_SIZE)
    return Event(FORMAT_DESCRIPTION, body + bytes(42) + bytes([checksums]))


def rotate(file: str) -> Event:
    """The name of the file that is sent from here on, as a dump begins with it."""
    return Event(ROTATE, struct.pack("<Q", 4) + file.encode(), flags=_ARTIFICIAL)


def previous_gtids() -> Event:
    """The set of the files before: empty."""
    return Event(PREVIOUS_GTIDS, struct.pack("<Q", 0))


def heartbeat(file: str) -> Event:
    """What a server sends when it has nothing to send."""
    return Event(HEARTBEAT, file.encode(), flags=_ARTIFICIAL)


def gtid(source: str, number: int, micros: int, *, arrived: int | None = None) -> Event:
    """The beginning of a transaction.

    Args:
        source: The uuid in its GTID.
        number: The number in its GTID.
        micros: When it was committed first, in microseconds since 1970.
        arrived: When this server committed it, if that is another time.
    """
    body = struct.pack("<B16sQBQQ", 1, uuid.UUID(source).bytes, number, 2, number - 1, number)
    if arrived is None:
        body += micros.to_bytes(7, "little")
    else:
        body += (arrived | _TIMES_DIFFER).to_bytes(7, "little") + micros.to_bytes(7, "little")
    # The transaction's length, which nobody here counts, and the server's version.
    return Event(GTID, body + packed(512) + struct.pack("<I", 90704), micros // 1_000_000)


def query(text: str, schema: str, seconds: int) -> Event:
    """A statement: `BEGIN`, `COMMIT` or one that changes a table's structure."""
    # sql_mode and the character sets of the session, as every server notes them.
    status = b"\x01" + bytes(8) + b"\x04" + b"\xff\x00" * 3
    head = struct.pack("<IIBHH", 7, 0, len(schema.encode()), 0, len(status))
    return Event(QUERY, head + status + schema.encode() + b"\0" + text.encode(), seconds)


def rows_query(text: bytes) -> Event:
    """The text of a statement, which a server notes in front of its rows when told to."""
    return Event(ROWS_QUERY, bytes([len(text) & 0xFF]) + text)


def xid(number: int, seconds: int) -> Event:
    """The end of a transaction."""
    return Event(XID, struct.pack("<Q", number), seconds)


def incident(text: str) -> Event:
    """The server's word that changes were not logged."""
    return Event(INCIDENT, b"\x01\x00" + bytes([len(text)]) + text.encode())
