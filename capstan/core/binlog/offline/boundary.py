"""Where explicit transactions begin and end: BEGIN, COMMIT, ROLLBACK and XID, and nothing else.

House rules: control events only, one at a time, no state. A statement is a boundary when it is one
of three words, whatever its case, with white space around it and one semicolon behind it at most;
no statement is ever searched for words. What a session's status variables say is not read, and no
statement's text leaves this file.
"""

from enum import StrEnum
from struct import Struct
from typing import Final, NamedTuple

from capstan.core.binlog.header import SIZE, EventType
from capstan.core.binlog.offline.decode_errors import DecodeError, DecodeErrorKind
from capstan.core.binlog.offline.format_description import FormatDescription
from capstan.core.binlog.offline.raw_event import Buffer, EventHeader, whole_event

_QUERY: Final = int(EventType.QUERY)
_XID: Final = int(EventType.XID)
_QUERY_HEAD: Final = Struct("<8xBHH").unpack_from
_QUERY_HEAD_SIZE: Final = 13
_XID_SIZE: Final = 8

POST_HEADERS: Final = {_QUERY: _QUERY_HEAD_SIZE, _XID: 0}
"""Bytes of the fixed part that each control event must have."""


class TransactionAction(StrEnum):
    """What a boundary does to a transaction."""

    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    XID = "xid"


class TransactionBoundary(NamedTuple):
    """One control event.

    Attributes:
        header: The event's header.
        action: What it does.
        xid: The storage engine's number for the commit, for `XID` only: unique neither beyond its
            server nor beyond a restart, and no GTID.
        database: The session's default database as it lies in a QUERY, unconverted; else empty.
    """

    header: EventHeader
    action: TransactionAction
    xid: int | None
    database: bytes

    @classmethod
    def parse(
        cls, data: Buffer, offset: int, description: FormatDescription
    ) -> "TransactionBoundary":
        """Read the control event at an offset; what lies behind it is not looked at.

        Args:
            data: The buffer.
            offset: Where the event begins in it.
            description: The file's format description: its checksums and its layouts.

        Raises:
            DecodeError: `event_not_accepted` for another type; `not_a_boundary` for any other
                statement; `statement_failed` for one with an error code; `post_header_invalid`,
                `malformed`, `truncated`, `size_invalid`, `checksum_mismatch`.
        """
        header, raw, end = whole_event(data, offset, checksums=description.checksums)
        code = header.event_type
        if code not in POST_HEADERS:
            raise _refused(DecodeErrorKind.EVENT_NOT_ACCEPTED, code, offset, "no control event")
        if (given := description.post_header_length(code)) != POST_HEADERS[code]:
            raise _refused(DecodeErrorKind.POST_HEADER_INVALID, code, offset, f"of {given} bytes")
        if code == _XID:
            return cls(header, TransactionAction.XID, read_xid(raw, end, offset), b"")
        action, database = read_statement(raw, end, offset)
        return cls(header, action, None, database)


def read_xid(raw: bytes, end: int, offset: int) -> int:
    """The number in an XID event."""
    if end - SIZE != _XID_SIZE:
        raise _refused(DecodeErrorKind.MALFORMED, _XID, offset, f"a body of {end - SIZE} bytes")
    return int.from_bytes(raw[SIZE:end], "little")


def read_statement(raw: bytes, end: int, offset: int) -> tuple[TransactionAction, bytes]:
    """The action and the default database of a QUERY event."""
    variables = SIZE + _QUERY_HEAD_SIZE
    if end < variables:
        raise _refused(DecodeErrorKind.MALFORMED, _QUERY, offset, "shorter than its fixed part")
    database_size, error, status_size = _QUERY_HEAD(raw, SIZE)
    database = variables + status_size
    text = database + database_size + 1
    if text > end:
        raise _refused(DecodeErrorKind.MALFORMED, _QUERY, offset, "lengths beyond the event")
    if raw[text - 1]:
        raise _refused(DecodeErrorKind.MALFORMED, _QUERY, offset, "a database name without its end")
    if error:
        raise _refused(DecodeErrorKind.STATEMENT_FAILED, _QUERY, offset, f"error {error}")
    statement = raw[text:end]
    action = _WORDS.get(statement) or _WORDS.get(_bare(statement))
    if action is None:
        raise _refused(DecodeErrorKind.NOT_A_BOUNDARY, _QUERY, offset, "")
    return action, raw[database : text - 1]


_WORDS: Final = {
    b"BEGIN": TransactionAction.BEGIN,
    b"COMMIT": TransactionAction.COMMIT,
    b"ROLLBACK": TransactionAction.ROLLBACK,
}


def _bare(statement: bytes) -> bytes:
    """A statement in upper case without what may stand around it; ASCII only, as bytes have it."""
    return statement.strip().removesuffix(b";").rstrip().upper()


def _refused(kind: DecodeErrorKind, code: int, offset: int, detail: str) -> DecodeError:
    return DecodeError(kind, offset=offset, event_type=code, detail=detail)
