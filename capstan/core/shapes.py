"""The transaction grammar as data: state x shape of event → next state and action.

House rules: this is the only place where it is decided what may follow what; a missing cell is a
halt `event_order_invalid`. The actions are methods of `assembly.Fold`, named here as text so that
the table can be read, printed (`docs/states.md`) and compared with the document by a test.

How it works: between transactions the fold is OUTSIDE. A GTID opens a group (STARTED). The group
is one self-committing statement, or a block: opened by BEGIN or XA START, closed by XID or COMMIT.
SKIPPING drops the group of the history anchor unread (D13). HALTED is left by a new epoch only.

What did not fit: an event can be refused for its content as well (a rolled-back block that held
rows, D18; a GTID that was not asked for); that is decided inside the action and ends in HALTED too.
"""

from enum import Enum
from typing import Final, NamedTuple

from capstan.core.binlog.header import EventType
from capstan.core.binlog.statements import StatementKind


class State(Enum):
    """Where the fold stands."""

    UNOPENED = "before the first format description"
    OUTSIDE = "between transactions"
    STARTED = "after a GTID"
    BLOCK = "inside BEGIN"
    XA_BLOCK = "inside XA START"
    SKIPPING = "inside the anchor's group"
    HALTED = "halted"


class Shape(Enum):
    """What an event is to the grammar."""

    FORMAT = "FORMAT_DESCRIPTION"
    ROTATE = "ROTATE"
    PREVIOUS_GTIDS = "PREVIOUS_GTIDS"
    STOP = "STOP"
    HEARTBEAT = "HEARTBEAT"
    IGNORABLE = "ignorable event"
    GTID = "GTID"
    TAGGED_GTID = "GTID_TAGGED"
    ANONYMOUS = "ANONYMOUS_GTID"
    QUERY = "QUERY, not looked into"
    BEGIN = "QUERY BEGIN"
    COMMIT = "QUERY COMMIT"
    ROLLBACK = "QUERY ROLLBACK"
    SAVEPOINT = "QUERY SAVEPOINT"
    RELEASE = "QUERY RELEASE SAVEPOINT"
    ROLLBACK_TO = "QUERY ROLLBACK TO"
    XA_START = "QUERY XA START"
    XA_END = "QUERY XA END"
    XA_RESOLUTION = "QUERY XA, any other"
    DDL = "QUERY, self-committing"
    CREATE_SELECT = "QUERY CREATE … START TRANSACTION"
    STATEMENT = "a change as statement"
    FOREIGN = "QUERY, transaction control not as the server writes it"
    TABLE_MAP = "TABLE_MAP"
    ROWS = "WRITE/UPDATE/DELETE_ROWS"
    ROWS_QUERY = "ROWS_QUERY"
    XID = "XID"
    XA_PREPARE = "XA_PREPARE"
    PAYLOAD = "TRANSACTION_PAYLOAD"
    INCIDENT = "INCIDENT"


class Cell(NamedTuple):
    """One cell: where the fold goes and what it does."""

    state: State
    action: str


SHAPES: Final[dict[int, Shape]] = {
    EventType.QUERY: Shape.QUERY,
    EventType.STOP: Shape.STOP,
    EventType.ROTATE: Shape.ROTATE,
    EventType.INTVAR: Shape.STATEMENT,
    EventType.APPEND_BLOCK: Shape.STATEMENT,
    EventType.DELETE_FILE: Shape.STATEMENT,
    EventType.RAND: Shape.STATEMENT,
    EventType.USER_VAR: Shape.STATEMENT,
    EventType.FORMAT_DESCRIPTION: Shape.FORMAT,
    EventType.XID: Shape.XID,
    EventType.BEGIN_LOAD_QUERY: Shape.STATEMENT,
    EventType.EXECUTE_LOAD_QUERY: Shape.STATEMENT,
    EventType.TABLE_MAP: Shape.TABLE_MAP,
    EventType.WRITE_ROWS_V1: Shape.ROWS,
    EventType.UPDATE_ROWS_V1: Shape.ROWS,
    EventType.DELETE_ROWS_V1: Shape.ROWS,
    EventType.INCIDENT: Shape.INCIDENT,
    EventType.HEARTBEAT: Shape.HEARTBEAT,
    EventType.IGNORABLE_LOG: Shape.IGNORABLE,
    EventType.ROWS_QUERY: Shape.ROWS_QUERY,
    EventType.WRITE_ROWS: Shape.ROWS,
    EventType.UPDATE_ROWS: Shape.ROWS,
    EventType.DELETE_ROWS: Shape.ROWS,
    EventType.GTID: Shape.GTID,
    EventType.ANONYMOUS_GTID: Shape.ANONYMOUS,
    EventType.PREVIOUS_GTIDS: Shape.PREVIOUS_GTIDS,
    EventType.TRANSACTION_CONTEXT: Shape.IGNORABLE,
    EventType.VIEW_CHANGE: Shape.IGNORABLE,
    EventType.XA_PREPARE: Shape.XA_PREPARE,
    EventType.PARTIAL_UPDATE_ROWS: Shape.ROWS,
    EventType.TRANSACTION_PAYLOAD: Shape.PAYLOAD,
    EventType.HEARTBEAT_V2: Shape.HEARTBEAT,
    EventType.GTID_TAGGED: Shape.TAGGED_GTID,
}
"""Event type → shape. Types that are missing here are unknown: ignored only when flagged so."""

STATEMENT_SHAPES: Final[dict[StatementKind, Shape]] = {
    StatementKind.BEGIN: Shape.BEGIN,
    StatementKind.COMMIT: Shape.COMMIT,
    StatementKind.ROLLBACK: Shape.ROLLBACK,
    StatementKind.FOREIGN_BOUNDARY: Shape.FOREIGN,
    StatementKind.SAVEPOINT: Shape.SAVEPOINT,
    StatementKind.RELEASE_SAVEPOINT: Shape.RELEASE,
    StatementKind.ROLLBACK_TO: Shape.ROLLBACK_TO,
    StatementKind.XA_START: Shape.XA_START,
    StatementKind.XA_END: Shape.XA_END,
    StatementKind.XA_COMMIT: Shape.XA_RESOLUTION,
    StatementKind.XA_ROLLBACK: Shape.XA_RESOLUTION,
    StatementKind.XA_OTHER: Shape.XA_RESOLUTION,
    StatementKind.DML: Shape.STATEMENT,
    StatementKind.CREATE_SELECT: Shape.CREATE_SELECT,
    StatementKind.SERVER_EMPTIES_MEMORY_TABLE: Shape.DDL,
    StatementKind.DDL: Shape.DDL,
    StatementKind.OTHER: Shape.DDL,
}

_HALTS: Final = {
    Shape.INCIDENT: Cell(State.HALTED, "refuse_incident"),
    Shape.XA_PREPARE: Cell(State.HALTED, "refuse_xa"),
    Shape.ANONYMOUS: Cell(State.HALTED, "refuse_anonymous"),
}


def _stay(state: State, *shapes: Shape) -> dict[Shape, Cell]:
    return {shape: Cell(state, "pass_over") for shape in shapes}


_FILES: Final = {
    Shape.FORMAT: Cell(State.OUTSIDE, "note_format"),
    Shape.ROTATE: Cell(State.OUTSIDE, "note_rotate"),
    Shape.PREVIOUS_GTIDS: Cell(State.OUTSIDE, "note_previous_gtids"),
    **_stay(State.OUTSIDE, Shape.STOP),
}

_GROUP_HEADS: Final = {
    Shape.GTID: Cell(State.STARTED, "begin_group"),
    Shape.TAGGED_GTID: Cell(State.STARTED, "begin_tagged_group"),
}


def _block(state: State) -> dict[Shape, Cell]:
    """What may stand inside a block, whichever statement opened it."""
    return {
        **_stay(state, Shape.HEARTBEAT, Shape.IGNORABLE, Shape.ROWS_QUERY),
        **_stay(state, Shape.XA_START, Shape.XA_END),
        Shape.TABLE_MAP: Cell(state, "map_table"),
        Shape.ROWS: Cell(state, "buffer_rows"),
        Shape.SAVEPOINT: Cell(state, "mark_savepoint"),
        Shape.RELEASE: Cell(state, "pass_over"),
        Shape.ROLLBACK_TO: Cell(state, "roll_back_to"),
        Shape.STATEMENT: Cell(State.HALTED, "refuse_statement"),
        Shape.DDL: Cell(State.HALTED, "refuse_statement"),
        Shape.XA_RESOLUTION: Cell(State.HALTED, "refuse_xa"),
        **_HALTS,
    }


TABLE: Final[dict[State, dict[Shape, Cell]]] = {
    State.UNOPENED: {
        Shape.FORMAT: Cell(State.OUTSIDE, "note_format"),
        Shape.ROTATE: Cell(State.UNOPENED, "note_rotate"),
        **_stay(State.UNOPENED, Shape.HEARTBEAT),
    },
    State.OUTSIDE: {
        **_FILES,
        **_stay(State.OUTSIDE, Shape.HEARTBEAT, Shape.IGNORABLE),
        **_GROUP_HEADS,
        **_HALTS,
    },
    State.STARTED: {
        **_stay(State.STARTED, Shape.HEARTBEAT, Shape.IGNORABLE),
        Shape.BEGIN: Cell(State.BLOCK, "open_block"),
        Shape.XA_START: Cell(State.XA_BLOCK, "open_block"),
        Shape.DDL: Cell(State.OUTSIDE, "take_ddl"),
        Shape.STATEMENT: Cell(State.HALTED, "refuse_statement"),
        Shape.XA_END: Cell(State.HALTED, "refuse_xa"),
        Shape.XA_RESOLUTION: Cell(State.HALTED, "refuse_xa"),
        Shape.PAYLOAD: Cell(State.OUTSIDE, "open_payload"),
        **_HALTS,
    },
    State.BLOCK: {
        **_block(State.BLOCK),
        Shape.CREATE_SELECT: Cell(State.BLOCK, "take_ddl_with_rows"),
        Shape.XID: Cell(State.OUTSIDE, "release"),
        Shape.COMMIT: Cell(State.OUTSIDE, "release"),
        Shape.ROLLBACK: Cell(State.OUTSIDE, "release_rolled_back"),
    },
    State.XA_BLOCK: _block(State.XA_BLOCK),
    State.SKIPPING: {
        **_stay(State.SKIPPING, *(set(Shape) - set(_FILES) - set(_GROUP_HEADS))),
        **_FILES,
        **_GROUP_HEADS,
        # The group's end is not looked for, and these two may stand behind it without a GTID.
        Shape.ANONYMOUS: _HALTS[Shape.ANONYMOUS],
        Shape.INCIDENT: _HALTS[Shape.INCIDENT],
    },
    State.HALTED: {},
}
