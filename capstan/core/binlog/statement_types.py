"""What a logged statement comes down to: its kind and the names in it. Values only (R7).

House rules: names, kinds and flags are all that is here. No field can hold a statement, a literal
or a part of either, and a refusal says which rule failed and nothing of the text.
"""

from enum import Enum
from typing import Final

import attrs

from capstan.core.changes import SchemaChangeKind


class StatementError(ValueError):
    """The statement cannot be read with certainty; the message holds no part of it."""


class StatementKind(Enum):
    """What a QUERY event is to the fold."""

    BEGIN = "BEGIN"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"
    FOREIGN_BOUNDARY = "transaction control in a form that the server never logs"
    XA_START = "XA START"
    XA_END = "XA END"
    XA_COMMIT = "XA COMMIT"
    XA_ROLLBACK = "XA ROLLBACK"
    XA_OTHER = "XA, any other"
    SAVEPOINT = "SAVEPOINT"
    RELEASE_SAVEPOINT = "RELEASE SAVEPOINT"
    ROLLBACK_TO = "ROLLBACK TO SAVEPOINT"
    DML = "a change of rows as a statement"
    SERVER_EMPTIES_MEMORY_TABLE = "a MEMORY table found empty after a restart"
    CREATE_SELECT = "CREATE TABLE whose rows follow in the same transaction"
    DDL = "self-committing, with names"
    OTHER = "self-committing, without names"


@attrs.frozen(kw_only=True)
class NamedObject:
    """One table, database or view that a statement names.

    Attributes:
        kind: One word of `SchemaChange.kind`'s closed list.
        schema: The database, None for `other`.
        table: The table or view, None for databases and for `other`.
        new_schema: RENAME: the new database; EXCHANGE PARTITION: the other table's.
        new_table: RENAME: the new name; EXCHANGE PARTITION: the other table.
        rows_may_change: False only when the statement is known to leave stored rows alone (D28).
            Of kind `other`, True means that any table may be concerned (D9).
    """

    kind: SchemaChangeKind
    schema: str | None = None
    table: str | None = None
    new_schema: str | None = None
    new_table: str | None = None
    rows_may_change: bool = True


@attrs.frozen
class Statement:
    """A classified statement.

    Attributes:
        kind: What it is to the fold.
        objects: What it names, in its order: one or more for DDL, CREATE_SELECT, OTHER and
            SERVER_EMPTIES_MEMORY_TABLE, none for all else.
        savepoint: The savepoint's name in lower case (the server compares without case), or "".
    """

    kind: StatementKind
    objects: tuple[NamedObject, ...] = ()
    savepoint: str = ""


UNKNOWN: Final = Statement(StatementKind.OTHER, (NamedObject(kind="other"),))
"""Nothing is known of it: it counts as naming every table."""

HARMLESS: Final = Statement(
    StatementKind.OTHER, (NamedObject(kind="other", rows_may_change=False),)
)
"""Of a closed list that cannot touch rows: accounts, routines, statistics, tablespaces, …"""

DML: Final = Statement(StatementKind.DML)
