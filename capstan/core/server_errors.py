"""What a MySQL error code means: pass and dial again, or stop, and for which reason (R45-R56, D24).

House rules: a pure function of code and text. Only 1236 has texts that tell reasons apart, in the
words of 8.0 (master/slave) and of later servers (source/replica); they are read up to the first
place where names and sets of the server's own begin, so that a file called `purged-log` or a tag
called `checksum` decides nothing. What is unknown is unrecognised, never the nearest known. The
text itself goes no further than this module (R55).
"""

import re
from enum import StrEnum
from typing import Final

from capstan.core.halts import HaltReason

DUMP_FATAL: Final = 1236
"""The one code under which a dump reports all its own failures."""


class Stage(StrEnum):
    """Where in the life of a link an error came up."""

    CONNECT = "connect"
    QUERY = "query"
    DUMP = "dump"
    READ = "read"


_DUMP_TEXTS: Final = (
    (
        re.compile(r"can ?not handle replication events with the checksum\b", re.IGNORECASE),
        HaltReason.CHECKSUM_NEGOTIATION_FAILED,
    ),
    (
        re.compile(r"\b(?:slave|replica) has more gtids than the \b", re.IGNORECASE),
        HaltReason.SOURCE_IDENTITY_MISMATCH,
    ),
    (
        re.compile(
            r"\bpurged (?:\w+ ){0,2}binary logs\b|\blog(?:s| files) ha(?:ve|s) been purged\b",
            re.IGNORECASE,
        ),
        HaltReason.DATA_GAP,
    ),
    (
        re.compile(r"\bsame server_(?:uuid|id)\b"),
        HaltReason.SERVER_ID_CONFLICT,
    ),
)
_SERVERS_OWN_NAMES: Final = re.compile(r"; the first event |'[^']*(?:'|$)")
_POSSESSIVE: Final = re.compile(r"'s\b")

_ACCESS_DENIED: Final = 1045
"""While connecting a wrong password; afterwards what registering without the right gets."""

_PRIVILEGE: Final = frozenset(
    {
        1044,  # no right to the database
        1142,  # a statement denied on a table
        1143,  # denied on a column
        1227,  # a named privilege is needed
        1370,  # denied on a routine
    }
)

_AUTHENTICATION: Final = frozenset(
    {
        _ACCESS_DENIED,
        1130,  # this host may not connect
        1251,  # the client's authentication protocol is too old for the account
        1275,  # the account's password has an old format
        1524,  # the account's authentication plugin is not loaded
        1698,  # access denied, without a password
        1820,  # the password must be changed first
        1862,  # the password has expired
        2049,  # the client refuses the old protocol
        2059,  # the client has no such authentication plugin
        2061,  # the client's authentication plugin failed
        3118,  # the account is locked
        3955,  # the account is blocked after failed logins
    }
)

_ENCRYPTION: Final = frozenset(
    {
        2026,  # the client wants TLS and the server has none
        3159,  # the server takes encrypted connections only
    }
)

_PASSING: Final = frozenset(
    {
        1021,  # waiting for disk space
        1040,  # too many connections
        1041,  # out of memory
        1042,  # the host name cannot be resolved now
        1053,  # the server shuts down
        1077,  # the server has ended normally
        1079,  # the server's shutdown is complete
        1080,  # the server closes this thread
        1129,  # the host is blocked until a flush
        1135,  # no thread can be made
        1152,  # the connection was aborted
        1158,  # packet read error
        1159,  # packet read timeout
        1160,  # packet write error
        1161,  # packet write timeout
        1184,  # a new connection was aborted
        1203,  # the account has too many connections
        1205,  # lock wait timeout
        1213,  # deadlock
        1226,  # the account's hourly limit is reached
        1317,  # the statement was killed
        1927,  # the connection was killed
        2002,  # no connection over the socket file
        2003,  # no connection over TCP
        2005,  # unknown host
        2006,  # the server has gone away
        2012,  # the server's greeting failed
        2013,  # the connection was lost
        2014,  # the client's view of the protocol broke
        2055,  # the connection was lost, by the system's word
        3024,  # the statement's time limit
        3032,  # the server is in offline mode
        3168,  # the server is not ready yet
        3169,  # the session was killed
        4031,  # the server closed an idle session
    }
)


def classify_dump_error(code: int, message: str | bytes) -> HaltReason:
    """The reason for which an error packet in the stream stops the pipeline.

    Ask `is_transient` first: what passes by itself is no halt.

    Args:
        code: The server's error code.
        message: Its text, as bytes or decoded; only that of 1236 is looked at.

    Returns:
        For 1236 one of the reasons its text names, else `unrecognized_dump_error`; for other
        codes `privilege_missing`, or `dump_failed`.
    """
    if code != DUMP_FATAL:
        return HaltReason.PRIVILEGE_MISSING if is_denied(code) else HaltReason.DUMP_FAILED
    text = message.decode("latin-1") if isinstance(message, bytes) else message
    # A text outside ASCII is in no wording known here (R50).
    if not text.isascii():
        return HaltReason.UNRECOGNIZED_DUMP_ERROR
    head = _SERVERS_OWN_NAMES.split(_POSSESSIVE.sub("", text), maxsplit=1)[0]
    for pattern, reason in _DUMP_TEXTS:
        if pattern.search(head):
            return reason
    return HaltReason.UNRECOGNIZED_DUMP_ERROR


def is_transient(code: int) -> bool:
    """Whether an error with this code may pass by itself, so that a later dial may do."""
    return code in _PASSING


def is_denied(code: int) -> bool:
    """Whether this code says, after the login, that the account lacks a right."""
    return code in _PRIVILEGE or code == _ACCESS_DENIED


def classify_error(stage: Stage, code: int) -> HaltReason | None:
    """What an error before the stream means.

    Returns:
        The reason to halt for, or None when a later dial may cure it. While connecting every
        code that is not known to be final counts as curable: the budget of dials bounds it.
    """
    if code in _PASSING:
        return None
    if code in _PRIVILEGE or (stage is not Stage.CONNECT and is_denied(code)):
        return HaltReason.PRIVILEGE_MISSING
    if code in _AUTHENTICATION:
        return HaltReason.AUTH_FAILED
    if code in _ENCRYPTION:
        return HaltReason.TLS_FAILED
    match stage:
        case Stage.QUERY:
            return HaltReason.PRECONDITION_QUERY_FAILED
        case Stage.DUMP:
            return HaltReason.DUMP_FAILED
        case _:
            return None
