"""The questions asked of a server before the stream, and nothing but the questions.

House rules: settings are SELECTed, because SHOW VARIABLES cuts long values. A right that is missing
is an answer, not a mishap; anything else that fails leaves through `faults.translated`. Which
tables are captured is decided by the capture list here, exactly, and not by the server's
collations. No judgement: that is `core.preflight`'s.
"""

import math
import re
from collections.abc import Sequence
from typing import Any, Final

import attrs
import pymysql

from capstan.core.gtid import GtidSet
from capstan.core.halts import Halt, Halted, HaltReason
from capstan.core.preflight import (
    CASCADES_LOGGED_SINCE,
    BinlogFilters,
    Flavour,
    Privilege,
    ServerFacts,
)
from capstan.core.server_errors import Stage, is_denied
from capstan.core.tables import CaptureList, TableName
from capstan.sources.faults import error_code, translated
from capstan.sources.handshake import Wire, at_most

Rows = Sequence[tuple[Any, ...]]

_REPLICA_WORDS_SINCE: Final = (8, 0, 26)
_BINARY_LOG_STATUS_SINCE: Final = (8, 2, 0)
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_ANSWER_BYTES: Final = 64 << 20
"""The longest answers are GTID sets and lists of tables; no server has that much of them."""
_LONGEST_TIMEOUT: Final = 31_536_000
_USUAL_WRITE_TIMEOUT: Final = 60


def set_up(wire: Wire, *, heartbeat: float, write_timeout: float) -> None:
    """Make the session ready for a dump.

    CRC32 is announced whatever the server's setting, so that the one event before the first
    format description always carries a checksum (D23).

    Args:
        wire: The connection.
        heartbeat: Seconds of silence after which the server sends a heartbeat.
        write_timeout: Seconds that the server bears a reader who does not read, at least.
    """
    nanoseconds = round(heartbeat * 1_000_000_000)
    patience = min(max(math.ceil(write_timeout), _USUAL_WRITE_TIMEOUT), _LONGEST_TIMEOUT)
    with translated(Stage.QUERY):
        _rows(
            wire,
            "SET @source_binlog_checksum = 'CRC32', @master_binlog_checksum = 'CRC32', "
            f"@source_heartbeat_period = {nanoseconds:d}, "
            f"@master_heartbeat_period = {nanoseconds:d}, "
            f"SESSION net_write_timeout = {patience:d}",
        )


def read_facts(wire: Wire, capture: CaptureList) -> ServerFacts:
    """Everything preflight wants to know.

    Raises:
        LinkLost: When the connection breaks.
        Halted: `precondition_query_failed` for an answer of an unexpected shape.
    """
    with translated(Stage.QUERY):
        facts = _who(wire)
        if not facts.supported:
            return facts
        facts = _settings(wire, facts)
        facts = _behind_privileges(wire, facts)
        missing = _missing_tables(wire, capture)
        children = () if facts.cascades_logged else _cascade_children(wire, capture)
        return attrs.evolve(facts, missing_tables=missing, cascade_children=children)


def read_executed(wire: Wire) -> GtidSet:
    """gtid_executed as it is now.

    Raises:
        LinkLost: When the connection breaks.
        Halted: `precondition_query_failed` for an answer that is no GTID set.
    """
    with translated(Stage.QUERY):
        ((text,),) = _rows(wire, "SELECT @@global.gtid_executed")
        return _gtid_set(text)


def version_numbers(text: str) -> tuple[int, int, int]:
    """The three numbers of a server's version; zeros when there are none."""
    found = _VERSION.match(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)


def account(current_user: str) -> str:
    """`user@host` with both parts quoted for GRANT."""
    user, _, host = current_user.rpartition("@")
    return "@".join("'" + part.replace("'", "''") + "'" for part in (user, host))


def _rows(wire: Wire, statement: str, values: tuple[object, ...] = ()) -> Rows:
    with at_most(wire, _ANSWER_BYTES), wire.cursor() as cursor:
        cursor.execute(statement, (values,) if values else None)
        return cursor.fetchall() or ()


def _rows_if_allowed(wire: Wire, statement: str) -> Rows | None:
    try:
        return _rows(wire, statement)
    except pymysql.MySQLError as error:
        code = error_code(error)
        if code is not None and is_denied(code):
            return None
        raise


def _who(wire: Wire) -> ServerFacts:
    ((text, comment),) = _rows(wire, "SELECT VERSION(), @@version_comment")
    version = version_numbers(text)
    maria = "mariadb" in f"{text} {comment}".lower()
    flavour = Flavour.MARIADB if maria else Flavour.MYSQL
    return ServerFacts(version_text=text, version=version, flavour=flavour)


def _settings(wire: Wire, facts: ServerFacts) -> ServerFacts:
    updates = (
        "log_replica_updates" if facts.version >= _REPLICA_WORDS_SINCE else "log_slave_updates"
    )
    (row,) = _rows(
        wire,
        "SELECT CURRENT_USER(), @@global.server_uuid, @@global.server_id, @@global.log_bin, "
        "@@global.binlog_format, @@global.binlog_row_image, @@global.binlog_row_metadata, "
        "@@global.binlog_checksum, @@global.gtid_mode, "
        f"@@global.{updates}, @@global.gtid_executed, @@global.gtid_purged, "
        "@@global.lower_case_table_names",
    )
    native = False
    if facts.version >= CASCADES_LOGGED_SINCE:
        ((switch,),) = _rows(wire, "SELECT @@global.innodb_native_foreign_keys")
        native = bool(switch)
    return attrs.evolve(
        facts,
        account=account(row[0]),
        server_uuid=str(row[1]).lower(),
        server_id=int(row[2]),
        log_bin=bool(row[3]),
        binlog_format=str(row[4]),
        binlog_row_image=str(row[5]),
        binlog_row_metadata=str(row[6]),
        binlog_checksum=str(row[7]),
        gtid_mode=str(row[8]),
        log_replica_updates=bool(row[9]),
        gtid_executed=_gtid_set(row[10]),
        gtid_purged=_gtid_set(row[11]),
        folds_names=bool(row[12]),
        native_foreign_keys=native,
    )


def _behind_privileges(wire: Wire, facts: ServerFacts) -> ServerFacts:
    """What only a replication account is told; being refused tells what the account lacks."""
    status = _rows_if_allowed(
        wire,
        "SHOW BINARY LOG STATUS"
        if facts.version >= _BINARY_LOG_STATUS_SINCE
        else "SHOW MASTER STATUS",
    )
    channels = _rows_if_allowed(wire, "SHOW REPLICA STATUS")
    replicas = _rows_if_allowed(wire, "SHOW REPLICAS")
    lacks = {
        Privilege.REPLICATION_SLAVE: replicas is None,
        Privilege.REPLICATION_CLIENT: status is None or channels is None,
    }
    return attrs.evolve(
        facts,
        filters=None if status is None else _filters(status),
        is_replica=None if channels is None else bool(channels),
        denied=tuple(privilege for privilege, lacking in lacks.items() if lacking),
    )


def _filters(status: Rows) -> BinlogFilters | None:
    if not status:
        # No binary log: nothing to filter, and a finding of its own.
        return BinlogFilters()
    ((_, _, do, ignore, *_),) = status
    return BinlogFilters(do=_names(do), ignore=_names(ignore))


def _names(joined: str) -> tuple[str, ...]:
    return tuple(joined.split(",")) if joined else ()


def _missing_tables(wire: Wire, capture: CaptureList) -> tuple[str, ...]:
    """The capture entries without wildcard that name no base table visible to the account."""
    wanted = [pattern.text for pattern in capture.patterns if pattern.literal]
    if not wanted:
        return ()
    rows = _rows(
        wire,
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES "
        "WHERE TABLE_TYPE = 'BASE TABLE' AND (TABLE_SCHEMA, TABLE_NAME) IN %s",
        tuple(text.partition(".")[::2] for text in wanted),
    )
    seen = {f"{schema}.{table}" for schema, table in rows}
    return tuple(text for text in wanted if text not in seen)


def _cascade_children(wire: Wire, capture: CaptureList) -> tuple[TableName, ...]:
    rows = _rows(
        wire,
        "SELECT DISTINCT CONSTRAINT_SCHEMA, TABLE_NAME "
        "FROM information_schema.REFERENTIAL_CONSTRAINTS "
        "WHERE DELETE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT') "
        "OR UPDATE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT')",
    )
    return tuple(
        TableName(schema, table) for schema, table in rows if capture.covers(schema, table)
    )


def _gtid_set(text: str) -> GtidSet:
    try:
        return GtidSet.parse(text)
    except ValueError:
        halt = Halt(HaltReason.PRECONDITION_QUERY_FAILED, "gtid_executed or gtid_purged")
    raise Halted(halt)
