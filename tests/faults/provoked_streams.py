"""Halts in the stream: events that are damaged, unknown, out of order, or not exact."""

import struct
from pathlib import Path

from faults.scene import Provocation, Scene, head, insert, row, sown
from helpers import event_builder as events
from helpers import json_bytes, sentinels, table_bytes

from capstan import HaltReason, Limits

_TABLE = (81).to_bytes(6, "little") + b"\1\0"
_TEXT = sentinels.ROW_TEXT.encode()


def _map(*columns: table_bytes.Spec) -> bytes:
    """A table map of `shop.orders` with these columns."""
    return events.event(19, _TABLE + table_bytes.table_map(columns))


def _rows(*values: bytes) -> bytes:
    """A row of that table, from the bytes of its values."""
    image = table_bytes.image(len(values), values)
    return events.event(30, _TABLE + table_bytes.row_event(len(values), [image]))


def _one_value(column: table_bytes.Spec, value: bytes) -> list[bytes]:
    """The third transaction, of one row with a key and this value."""
    key = struct.pack("<I", sentinels.KEY)
    whole = [_map(table_bytes.integer("id", unsigned=True), column), _rows(key, value)]
    return [*head(3), *whole, events.xid(3)]


def _diffs(path: bytes) -> bytes:
    """A partial update of that table: a number put at a path of an empty document."""
    empty = json_bytes.document({})
    before = table_bytes.image(1, [bytes([len(empty)]) + empty])
    diff = b"\0" + table_bytes.counted(path) + table_bytes.counted(json_bytes.document(1))
    after = b"\1\1" + table_bytes.image(1, [bytes([len(diff)]) + diff])
    return events.event(39, _TABLE + table_bytes.row_event(1, [before, after], bitmaps=2))


def _damaged(raw: bytes, place: int) -> bytes:
    return raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]


def _statement(text: str) -> bytes:
    return events.query(text.encode())


def _note(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def _vanished(folder: Path) -> Limits:
    """Limits with a spool folder that was there when they were made."""
    folder.mkdir()
    limits = Limits(transaction_memory=1000, spool_dir=str(folder))
    folder.rmdir()
    return limits


def _spool_into(scene: Scene, limits: Limits) -> None:
    rows = [events.rows(30, 80, [(3, sentinels.ROW_TEXT)], last=False)] * 9
    scene.stream(*head(3), events.table_map(80), *rows, events.xid(3), limits=limits)


CORRUPT = [
    Provocation(
        HaltReason.EVENT_CORRUPT,
        "a bit that changed on the way",
        lambda scene: scene.stream(*head(3), events.table_map(80), _damaged(row(3), 40)),
    ),
    Provocation(
        HaltReason.EVENT_CORRUPT,
        "an event of another size than its packet",
        lambda scene: scene.stream(*head(3), events.table_map(80), _damaged(row(3), 9)),
    ),
    Provocation(
        HaltReason.EVENT_CORRUPT,
        "a text that is longer than its event",
        lambda scene: scene.stream(
            *_one_value(table_bytes.varchar("name", 60), bytes([len(_TEXT) + 1]) + _TEXT)
        ),
    ),
    Provocation(
        HaltReason.EVENT_CORRUPT,
        "a document that is none",
        lambda scene: scene.stream(
            *_one_value(
                table_bytes.Spec("doc", 245, b"\1"), bytes([len(_TEXT) + 1]) + b"\xee" + _TEXT
            )
        ),
    ),
    Provocation(
        HaltReason.EVENT_CORRUPT,
        "a diff of a member that is not there",
        lambda scene: scene.stream(
            *head(3),
            _map(table_bytes.Spec("doc", 245, b"\1")),
            _diffs(b'$."%s"' % _TEXT),
            events.xid(3),
        ),
    ),
    Provocation(
        HaltReason.EVENT_CORRUPT,
        "a label that is not on the list",
        lambda scene: scene.stream(
            *_one_value(
                table_bytes.Spec("kind", 254, b"\xf7\1", labels=(_TEXT,), collation=255), b"\7"
            )
        ),
    ),
    Provocation(
        HaltReason.EVENT_CORRUPT,
        "a table map that is cut off",
        lambda scene: scene.stream(
            *head(3), events.event(19, _TABLE + table_bytes.counted(b"shop") + b"\0" + b"\x40")
        ),
    ),
]

ORDER = [
    Provocation(
        HaltReason.EVENT_UNKNOWN,
        "a type from the future",
        lambda scene: scene.stream(*head(3), events.event(99, _TEXT)),
    ),
    Provocation(
        HaltReason.EVENT_ORDER_INVALID,
        "rows outside a transaction",
        lambda scene: scene.stream(row(3)),
    ),
    Provocation(
        HaltReason.EVENT_ORDER_INVALID,
        "a hole in the file",
        lambda scene: scene.stream(
            *head(3),
            events.table_map(80),
            row(3),
            events.event(16, struct.pack("<Q", 3), log_pos=100_000),
        ),
    ),
    Provocation(
        HaltReason.EVENT_ORDER_INVALID,
        "an end that the server does not write",
        lambda scene: scene.stream(
            *head(3),
            events.table_map(80),
            row(3),
            _statement(f"COMMIT AND CHAIN /* {sentinels.DML} */"),
        ),
    ),
    Provocation(
        HaltReason.TABLE_MAP_MISSING,
        "rows of a table that nobody described",
        lambda scene: scene.stream(*head(3), row(3), events.xid(3)),
    ),
    Provocation(
        HaltReason.ANONYMOUS_GTID,
        "a transaction without a name",
        lambda scene: scene.stream(events.event(34, events.gtid(3)[19:-4]), *sown(3)[1:]),
    ),
    Provocation(
        HaltReason.SOURCE_INCIDENT,
        "a note that something was lost",
        lambda scene: scene.stream(
            events.event(26, b"\1\0" + _note(sentinels.SERVER_WORDS.encode()))
        ),
    ),
    Provocation(
        HaltReason.TRANSACTION_TOO_LARGE,
        "rows beyond the budget",
        lambda scene: scene.stream(
            *head(3),
            events.table_map(80),
            *[events.rows(30, 80, [(3, sentinels.ROW_TEXT)], last=False)] * 2,
            row(3),
            events.xid(3),
            limits=Limits(transaction_bytes=60),
        ),
    ),
    Provocation(
        HaltReason.SPOOL_FAILED,
        "a folder that has gone",
        lambda scene: _spool_into(scene, _vanished(scene.folder / "spool")),
    ),
]

VALUES = [
    Provocation(
        HaltReason.UNSUPPORTED_COLUMN_TYPE,
        "a type from the future",
        lambda scene: scene.stream(*_one_value(table_bytes.Spec("odd", 241), _note(_TEXT))),
    ),
    Provocation(
        HaltReason.UNSUPPORTED_COLUMN_TYPE,
        "a collation from the future",
        lambda scene: scene.stream(
            *_one_value(table_bytes.varchar("name", 60, collation=9999), _note(_TEXT))
        ),
    ),
    Provocation(
        HaltReason.UNDECODABLE_TEXT,
        "bytes that are no characters",
        lambda scene: scene.live(
            f"INSERT INTO odd VALUES (1, x'{_TEXT.hex()}A2AB')",
            before=["CREATE TABLE odd (id INT KEY, v VARCHAR(60) CHARACTER SET gbk)"],
        ),
    ),
    Provocation(
        HaltReason.UNDECODABLE_TEXT,
        "text that stops in the middle of a character",
        lambda scene: scene.stream(
            *_one_value(table_bytes.varchar("name", 60), _note(_TEXT + b"\xe2\x82"))
        ),
    ),
    Provocation(
        HaltReason.UNDECODABLE_TEXT,
        "a label that is no text",
        lambda scene: scene.stream(
            *_one_value(
                table_bytes.Spec("kind", 254, b"\xf7\1", labels=(_TEXT + b"\xff",), collation=255),
                b"\1",
            )
        ),
    ),
    Provocation(
        HaltReason.UNDECODABLE_TEXT,
        "a name in a statement that is no text",
        lambda scene: scene.stream(
            events.gtid(3),
            events.query(b"ALTER TABLE `\xff` ADD c INT DEFAULT '" + _TEXT + b"'"),
        ),
    ),
    Provocation(
        HaltReason.BINLOG_ROW_METADATA_NOT_FULL,
        "a table map without names",
        lambda scene: scene.stream(
            *head(3),
            events.event(
                19, _TABLE + table_bytes.table_map([table_bytes.varchar("name")], fields={})
            ),
        ),
    ),
    Provocation(
        HaltReason.ROW_IMAGE_NOT_FULL,
        "a session that logs what changed and no more",
        lambda scene: scene.live(
            "SET binlog_row_image = MINIMAL", f"UPDATE items SET name = '{sentinels.DML}'"
        ),
    ),
    Provocation(
        HaltReason.ROW_IMAGE_NOT_FULL,
        "a session that logs parts of documents and of rows",
        lambda scene: scene.live(
            "SET binlog_row_value_options = PARTIAL_JSON, binlog_row_image = MINIMAL",
            f"""UPDATE items SET doc = JSON_SET(doc, '$."{sentinels.ROW_TEXT}"', 1)""",
        ),
    ),
]

SHAPES = [
    Provocation(
        HaltReason.UNSUPPORTED_TRANSACTION_SHAPE,
        "XA",
        lambda scene: scene.live(
            f"XA START '{sentinels.DML}'",
            insert(2),
            f"XA END '{sentinels.DML}'",
            f"XA PREPARE '{sentinels.DML}'",
            f"XA ROLLBACK '{sentinels.DML}'",
        ),
    ),
    Provocation(
        HaltReason.UNSUPPORTED_TRANSACTION_SHAPE,
        "a rolled-back transaction with rows",
        lambda scene: scene.stream(*sown(3)[:-1], events.query(b"ROLLBACK")),
    ),
    Provocation(
        HaltReason.UNSUPPORTED_TRANSACTION_SHAPE,
        "rows that a savepoint takes back",
        lambda scene: scene.stream(
            *head(3),
            _statement(f"SAVEPOINT `{sentinels.DML}`"),
            events.table_map(80),
            row(3),
            _statement(f"ROLLBACK TO `{sentinels.DML}`"),
        ),
    ),
    Provocation(
        HaltReason.STATEMENT_BASED_CHANGE,
        "a session that logs statements",
        lambda scene: scene.live(
            "SET binlog_format = STATEMENT", f"UPDATE items SET name = '{sentinels.DML}'"
        ),
    ),
    Provocation(
        HaltReason.STATEMENT_BASED_CHANGE,
        "a file that is loaded as a statement",
        lambda scene: scene.stream(*head(3), events.event(17, b"\1\0\0\0" + _TEXT)),
    ),
    Provocation(
        HaltReason.STATEMENT_BASED_CHANGE,
        "a value that a statement will use",
        lambda scene: scene.stream(*head(3), events.event(14, b"\1\0\0\0v\0" + _TEXT)),
    ),
]

STREAMS = [*CORRUPT, *ORDER, *VALUES, *SHAPES]
