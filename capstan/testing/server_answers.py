"""What the scripted server answers to the questions before a stream.

House rules: statements are understood as far as capstan asks them: settings that are SELECTed, a
few SHOWs, two tables of the information schema. What is not understood is refused with MySQL's own
code for it, never answered at random.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from capstan.testing.server_wire import Value

_SYNTAX: Final = 1064
_UNKNOWN_VARIABLE: Final = 1193
_HEARTBEAT: Final = re.compile(r"@source_heartbeat_period\s*=\s*(\d+)", re.IGNORECASE)
_SELECT: Final = re.compile(r"select\s+(?P<list>[^;]*)", re.IGNORECASE)
_SCOPE: Final = re.compile(r"@@(?:global\.|session\.)?")
_STATUS: Final = ("File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB", "Executed_Gtid_Set")

SETTINGS: Final[Mapping[str, Value]] = {
    "version_comment": "a scripted server of capstan.testing",
    "log_bin": 1,
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "binlog_checksum": "CRC32",
    "gtid_mode": "ON",
    "log_replica_updates": 1,
    "log_slave_updates": 1,
    "lower_case_table_names": 0,
    "innodb_native_foreign_keys": 0,
    "time_zone": "+00:00",
}
"""What every variable is unless a test says otherwise."""


@attrs.frozen
class Rows:
    """A result set."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]


@attrs.frozen
class Refusal:
    """An error."""

    code: int
    text: str


Answer = Rows | Refusal | None
"""None stands for "done"."""


def heartbeat_in(statement: str) -> float | None:
    """The seconds that a SET gives to @source_heartbeat_period; None when it does not."""
    found = _HEARTBEAT.search(statement)
    return None if found is None else int(found[1]) / 1e9


def answer(
    statement: str, variables: Mapping[str, Value], tables: Iterable[tuple[str, str]]
) -> Answer:
    """The answer to one statement.

    Args:
        statement: Its text.
        variables: Functions (`version()`) and system variables by name, in lower case.
        tables: Schema and name of every table there is.
    """
    words = " ".join(statement.split()).lower().rstrip(";")
    first = words.partition(" ")[0]
    if first in {"set", "use", "commit", "rollback"}:
        return None
    if first == "show":
        return _shown(words, variables)
    if _names_table(words, "tables"):
        return Rows(("TABLE_SCHEMA", "TABLE_NAME"), list(tables))
    if _names_table(words, "referential_constraints"):
        return Rows(("CONSTRAINT_SCHEMA", "TABLE_NAME"), [])
    found = _SELECT.fullmatch(words)
    if found is None or " from " in words:
        return Refusal(_SYNTAX, "The scripted server does not know this statement")
    return _selected(found["list"].split(","), variables)


def _names_table(words: str, name: str) -> bool:
    return f" from information_schema.{name} " in f"{words} "


def _shown(words: str, variables: Mapping[str, Value]) -> Answer:
    if words in {"show binary log status", "show master status"}:
        row = ("binlog.000001", 4, "", "", variables["gtid_executed"])
        return Rows(_STATUS, [row])
    if words in {"show replica status", "show replicas"}:
        return Rows(("Server_Id",), [])
    return Refusal(_SYNTAX, "The scripted server does not know this statement")


def _selected(expressions: Sequence[str], variables: Mapping[str, Value]) -> Answer:
    names = [_SCOPE.sub("", expression.strip()) for expression in expressions]
    missing = [name for name in names if name not in variables]
    if missing:
        return Refusal(_UNKNOWN_VARIABLE, "Unknown system variable")
    return Rows(names, [[variables[name] for name in names]])
