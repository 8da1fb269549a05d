"""Reads the bodies of control events: format description, rotate, GTIDs, queries.

House rules: functions from bytes and offsets to small values; `data[start:end]` is the event's body
without header and checksum. Every length is checked against the event before it is used; what does
not fit is `event_corrupt` with the type, no content. Rows and table maps have files of their own.
"""

from struct import Struct
from typing import Final, NamedTuple

import attrs

from capstan.core.changes import Committed
from capstan.core.gtid import MAX_NUMBER, GtidSet, uuid_text
from capstan.core.halts import Halted, HaltReason, halted

_FORMAT_HEAD: Final = Struct("<H50sIB").unpack_from
GTID_LAYOUT: Final = "x16sQB16xQ"
"""Uuid, number, kind of clock, and from seven bytes on when it was committed."""
GTID_SIZE: Final = 50
_GTID: Final = Struct(f"<{GTID_LAYOUT}").unpack_from
_GTID_HEAD: Final = Struct("<B16sQ").unpack_from
LOGICAL_CLOCK: Final = 2
# A timestamp has seven bytes and uses 55 bits; bit 55 says that the original one follows.
TWO_TIMES: Final = 1 << 55
TIME: Final = TWO_TIMES - 1
_QUERY_HEAD: Final = Struct("<IIBHH").unpack_from
_QUERY_SIZES: Final = Struct("<8xB2xH").unpack_from
_QUERY_HEAD_SIZE: Final = 13
_U64: Final = Struct("<Q").unpack_from

NO_CHECKSUM: Final = 0
CRC32: Final = 1


def corrupt(what: str) -> Halted:
    """The halt for an event whose bytes do not add up."""
    return halted(HaltReason.EVENT_CORRUPT, what)


@attrs.frozen
class FormatDescription:
    """The first event of every binlog file.

    Attributes:
        server_version: As the server writes it.
        checksums: True when the file's events end in a CRC32.
    """

    server_version: str
    checksums: bool


def read_format_description(data: bytes, start: int, end: int) -> FormatDescription:
    """Read a FORMAT_DESCRIPTION; its last byte before the checksum is the file's algorithm."""
    if end - start < 57 + 1:
        raise corrupt("FORMAT_DESCRIPTION truncated")
    version, server, _created, header_size = _FORMAT_HEAD(data, start)
    if version != 4 or header_size != 19:
        raise corrupt("FORMAT_DESCRIPTION of another binlog version")
    algorithm = data[end - 1]
    if algorithm not in (NO_CHECKSUM, CRC32):
        raise corrupt(f"checksum algorithm {algorithm} unknown")
    text = server.partition(b"\0")[0].decode("ascii", "replace")
    return FormatDescription(text, algorithm == CRC32)


def read_rotate(data: bytes, start: int, end: int) -> tuple[str, int]:
    """Read a ROTATE: the next file's name and the offset in it."""
    if end - start < 9:
        raise corrupt("ROTATE truncated")
    (position,) = _U64(data, start)
    return data[start + 8 : end].decode("utf-8", "replace"), position


def read_previous_gtids(data: bytes, start: int, end: int) -> GtidSet:
    """Read a PREVIOUS_GTIDS: everything in the files before this one."""
    try:
        return GtidSet.decode(data[start:end])
    except ValueError:
        raise corrupt("PREVIOUS_GTIDS malformed") from None


_uuids: dict[bytes, str] = {}
_MAX_UUIDS: Final = 4096


def uuid_of(raw: bytes) -> str:
    """The text of a source uuid; the same object for the same bytes, as a rule."""
    text = _uuids.get(raw)
    if text is None:
        if len(_uuids) >= _MAX_UUIDS:
            _uuids.clear()
        text = _uuids[raw] = uuid_text(raw)
    return text


_new_committed: Final = tuple.__new__


def read_gtid(data: bytes, start: int, end: int) -> Committed:
    """Read a GTID_LOG event (33); times are 0 in those of servers before 8.0."""
    if end - start < GTID_SIZE:
        return _read_short_gtid(data, start, end)
    raw, number, clock, arrived = _GTID(data, start)
    # Kind 2 of logical clock: last_committed and sequence_number, then the commit timestamps.
    if not 0 < number <= MAX_NUMBER or clock != LOGICAL_CLOCK:
        return _read_short_gtid(data, start, end)
    if arrived & TWO_TIMES:
        if end - start < GTID_SIZE + 7:
            raise corrupt("GTID truncated")
        original = int.from_bytes(data[start + 49 : start + 56], "little")
    else:
        original = arrived & TIME
    uuid = _uuids.get(raw) or uuid_of(raw)
    return _new_committed(Committed, (uuid, "", number, original, arrived & TIME))


def _read_short_gtid(data: bytes, start: int, end: int) -> Committed:
    """A GTID event of an older server, without commit timestamps."""
    if end - start < 25:
        raise corrupt("GTID truncated")
    _flags, raw, number = _GTID_HEAD(data, start)
    if not 0 < number <= MAX_NUMBER:
        raise corrupt("GTID number out of range")
    if end - start > 42 and data[start + 25] == LOGICAL_CLOCK:
        raise corrupt("GTID truncated")
    return Committed(uuid_of(raw), "", number, 0, 0)


def _varlen(data: bytes, position: int, end: int) -> tuple[int, int]:
    """One variable-length integer: as many bytes as the first has trailing ones, and one more."""
    if position >= end:
        raise corrupt("GTID_TAGGED truncated")
    first = data[position]
    extra = (~first & (first + 1)).bit_length() - 1
    stop = position + 1 + extra
    if stop > end:
        raise corrupt("GTID_TAGGED truncated")
    if extra == 8:
        return int.from_bytes(data[position + 1 : stop], "little"), stop
    return int.from_bytes(data[position:stop], "little") >> (extra + 1), stop


def _signed(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def read_tagged_gtid(data: bytes, start: int, end: int) -> Committed:
    """Read a GTID_TAGGED_LOG event (42): numbered fields in ascending order."""
    version, position = _varlen(data, start, end)
    size, position = _varlen(data, position, end)
    _required, position = _varlen(data, position, end)
    if version != 1 or size != end - start:
        raise corrupt("GTID_TAGGED of another layout")
    fields: dict[int, int] = {}
    raw, tag = b"", b""
    while position < end:
        field, position = _varlen(data, position, end)
        if field > 7 or field in fields:
            break
        if field == 1:
            octets = []
            for _ in range(16):
                octet, position = _varlen(data, position, end)
                octets.append(octet & 0xFF)
            raw = bytes(octets)
        elif field == 3:
            length, position = _varlen(data, position, end)
            tag, position = data[position : min(position + length, end)], position + length
        else:
            fields[field], position = _varlen(data, position, end)
    return _tagged_event(raw, tag, fields)


def _tagged_event(raw: bytes, tag: bytes, fields: dict[int, int]) -> Committed:
    number = _signed(fields.get(2, 0))
    if len(raw) != 16 or not 0 < number <= MAX_NUMBER or not len(tag) <= 32 or not tag.isascii():
        raise corrupt("GTID_TAGGED malformed")
    arrived = fields.get(6, 0)
    return Committed(uuid_of(raw), tag.decode("ascii"), number, fields.get(7, arrived), arrived)


class QueryEvent(NamedTuple):
    """The parts of a QUERY event that the fold needs; `text` never travels further.

    Attributes:
        schema: The session's default database.
        text: The statement's bytes.
        sql_mode: The session's sql_mode bits, 0 when not logged.
        client_collation: Id of the character set in which `text` is written, 0 when not logged.
        ddl_xid: Whether the statement bears the mark of an atomic DDL that was carried out.
    """

    schema: bytes
    text: bytes
    sql_mode: int
    client_collation: int
    ddl_xid: bool = False

    def __repr__(self) -> str:
        return "<QueryEvent>"


def query_text(data: bytes, start: int, end: int) -> bytes:
    """Only the statement of a QUERY event: the fast way for BEGIN and COMMIT."""
    if end - start < _QUERY_HEAD_SIZE:
        raise corrupt("QUERY truncated")
    schema_size, status_size = _QUERY_SIZES(data, start)
    # A zero byte ends the schema's name.
    text = start + _QUERY_HEAD_SIZE + schema_size + status_size
    if text >= end or data[text]:
        raise corrupt("QUERY truncated")
    return data[text + 1 : end]


def read_query(data: bytes, start: int, end: int) -> QueryEvent:
    """Read a QUERY event; unknown status variables are passed over, never guessed."""
    text = query_text(data, start, end)
    _thread, _seconds, schema_size, _error, status_size = _QUERY_HEAD(data, start)
    status = start + _QUERY_HEAD_SIZE
    schema = data[status + status_size : status + status_size + schema_size]
    found = _status_variables(data[status : status + status_size])
    return QueryEvent(
        schema,
        text,
        sql_mode=int.from_bytes(found.get(_SQL_MODE, b"")[:8], "little"),
        client_collation=int.from_bytes(found.get(_CHARSET, b"")[:2], "little"),
        ddl_xid=_DDL_XID in found,
    )


# Status variables by code: how long each is, as far as this reader knows.
_SQL_MODE, _CHARSET, _INVOKER, _UPDATED_DATABASES, _DDL_XID = 1, 4, 11, 12, 17
_FIXED: Final = {
    0: 4,
    _SQL_MODE: 8,
    3: 4,
    _CHARSET: 6,
    7: 2,
    8: 2,
    9: 8,
    10: 4,
    13: 3,
    16: 1,
    _DDL_XID: 8,
    18: 2,
    19: 1,
    20: 1,
}
_COUNTED: Final = {5: 1, 6: 1, _INVOKER: 2}
"""Strings behind a length byte, and how many of them."""
_TOO_MANY: Final = 254


def _status_variables(status: bytes) -> dict[int, bytes]:
    """The variables up to the first unknown one; past that nothing is guessed."""
    found: dict[int, bytes] = {}
    position = 0
    while position < len(status):
        code, start = status[position], position + 1
        stop = _status_end(status, code, start)
        if stop is None or stop > len(status):
            break
        found[code] = status[start:stop]
        position = stop
    return found


def _status_end(status: bytes, code: int, start: int) -> int | None:
    if code in _FIXED:
        return start + _FIXED[code]
    stop = start
    if code in _COUNTED:
        for _ in range(_COUNTED[code]):
            stop += 1 + (status[stop] if stop < len(status) else 0)
        return stop
    if code == _UPDATED_DATABASES and start < len(status):
        names = 0 if status[start] == _TOO_MANY else status[start]
        stop += 1
        for _ in range(names):
            stop = status.find(b"\0", stop) + 1
            if not stop:
                return None
        return stop
    return None
