"""The 19 bytes before every event, the event types, and which of them may be passed over.

House rules: type codes are mysql-replication's constants where it has them; the codes that it lacks
stand here. The closed list of what may be ignored is here and nowhere else: everything that is
neither decoded nor on it is a halt.
"""

from enum import IntEnum
from struct import Struct
from typing import Final

SIZE: Final = 19
unpack_header: Final = Struct("<4xB4xIIH").unpack_from
"""Type, size, end position, flags; the timestamp before and the server_id between are left out."""

IGNORABLE: Final = 0x80
"""Flag of an event that a reader who does not know it may pass over."""


class EventType(IntEnum):
    """Every event type of MySQL's format version 4."""

    START_V3 = 1
    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    SLAVE = 7
    APPEND_BLOCK = 9
    DELETE_FILE = 11
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE_LOG = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42


def type_name(code: int) -> str:
    """A name for messages: the type's, or its number when it is unknown."""
    try:
        return EventType(code).name
    except ValueError:
        return f"type {code}"
