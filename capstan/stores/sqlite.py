"""The durable store: one SQLite file, held by a lock beside it while a pipeline writes.

House rules: every save is one SQLite transaction with synchronous=FULL, so what returned survives a
power cut. Reading takes no lock and never makes a file: others may look while a pipeline runs.
Writing takes the lock, by itself when `hold()` was not called, and keeps it until `close()`. What
stands in the file must be readable to the last character, or it is `store_failed`. A file of format
1, which has no room for a backfill, becomes one of format 2 when the first backfill is saved.
"""

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from capstan.core.gtid import Gtid, GtidSet
from capstan.core.halts import HaltReason
from capstan.core.snapshot.primary_key import Key, decode_key, encode_key
from capstan.core.snapshot.progress import SnapshotState, TableProgress
from capstan.core.tables import TableName
from capstan.core.watermark import Anchor
from capstan.files import FileKind, SqliteFile
from capstan.stores.base import Store, put_back

_SNAPSHOT_VERSION: Final = 2
_SNAPSHOT_SCHEMA: Final = (
    """CREATE TABLE snapshot (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        patterns TEXT NOT NULL
    )""",
    """CREATE TABLE snapshot_table (
        place INTEGER PRIMARY KEY,
        schema_name TEXT NOT NULL,
        table_name TEXT NOT NULL,
        key_columns TEXT NOT NULL,
        shape_digest TEXT NOT NULL,
        cursor TEXT,
        delivered TEXT,
        sequence INTEGER NOT NULL,
        first_position TEXT,
        rows INTEGER NOT NULL,
        complete INTEGER NOT NULL CHECK (complete IN (0, 1)),
        UNIQUE (schema_name, table_name)
    )""",
)
_KIND: Final = FileKind(
    name="store",
    application_id=0x43505354,
    version=_SNAPSHOT_VERSION,
    schema=(
        """CREATE TABLE position (
            id INTEGER PRIMARY KEY CHECK (id = 1),
            watermark TEXT NOT NULL,
            anchor_gtid TEXT,
            anchor_commit_micros INTEGER,
            anchor_arrived_micros INTEGER,
            anchor_server_uuid TEXT,
            sink_position TEXT
        )""",
        """CREATE TABLE capture_list (
            id INTEGER PRIMARY KEY CHECK (id = 1),
            entries TEXT NOT NULL
        )""",
        *_SNAPSHOT_SCHEMA,
    ),
    failed=HaltReason.STORE_FAILED,
)


class SqliteStore(Store):
    """Keeps one pipeline's position in a file.

    Args:
        path: The file; it is made, private to its owner, by the first save.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = SqliteFile(path, _KIND)

    def __repr__(self) -> str:
        return f"SqliteStore({str(self._file.path)!r})"

    def hold(self) -> None:
        """Claim the store for one writer until `close()`.

        Raises:
            Halted: `store_locked` when another pipeline holds it, `store_failed` when the file is
                not a store of capstan, is damaged or of a newer format.
        """
        self._file.hold()
        try:
            self._file.reading()
        except BaseException:
            self._file.close()
            raise

    def load_watermark(self) -> GtidSet | None:
        """The processed set; None for an empty store."""
        with self._file.guard():
            row = self._row("SELECT watermark FROM position")
            return None if row is None else GtidSet.parse(str(row[0]))

    def save_watermark(
        self,
        gtid_set: GtidSet,
        anchor: Anchor | None = None,
        sink_position: GtidSet | None = None,
    ) -> None:
        """Persist the three together, in one write; without an anchor it clears the old one."""
        mark: tuple[Any, ...] = (None, None, None, None)
        if anchor is not None:
            mark = (
                str(anchor.gtid),
                anchor.commit_micros,
                anchor.arrived_micros,
                anchor.server_uuid,
            )
        sink = None if sink_position is None else str(sink_position)
        self._write(
            "INSERT OR REPLACE INTO position VALUES (1, ?, ?, ?, ?, ?, ?)",
            (str(gtid_set), *mark, sink),
        )

    def load_anchor(self) -> Anchor | None:
        """The last processed transaction; None after a seed."""
        with self._file.guard():
            row = self._row(
                "SELECT anchor_gtid, anchor_commit_micros, anchor_arrived_micros,"
                " anchor_server_uuid FROM position"
            )
            if row is None or row[0] is None:
                return None
            gtid, committed, arrived, server_uuid = row
            return Anchor(
                gtid=Gtid.parse(str(gtid)),
                commit_micros=int(committed),
                arrived_micros=int(arrived),
                server_uuid=str(server_uuid),
            )

    def load_sink_position(self) -> GtidSet | None:
        """What the sink was last seen to report; None for a sink without position."""
        with self._file.guard():
            row = self._row("SELECT sink_position FROM position")
            return None if row is None or row[0] is None else GtidSet.parse(str(row[0]))

    def load_tables(self) -> tuple[str, ...] | None:
        """The capture list of the last accepted run; None for an empty store."""
        with self._file.guard():
            row = self._row("SELECT entries FROM capture_list")
            return None if row is None else tuple(map(str, json.loads(row[0])))

    def save_tables(self, tables: Sequence[str]) -> None:
        """Persist the capture list in its canonical form."""
        self._write(
            "INSERT OR REPLACE INTO capture_list VALUES (1, ?)", (json.dumps(list(tables)),)
        )

    def load_snapshot(self) -> SnapshotState | None:
        """How far the backfill has come; None when none has begun."""
        with self._file.guard():
            connection = self._file.reading()
            if connection is None or _version(connection) < _SNAPSHOT_VERSION:
                return None
            # One statement, so that no writer comes between the two tables.
            found = connection.execute(
                "SELECT patterns, place, schema_name, table_name, key_columns, shape_digest,"
                " cursor, delivered, sequence, first_position, rows, complete"
                " FROM snapshot LEFT JOIN snapshot_table ORDER BY place"
            ).fetchall()
            if not found:
                return None
            return SnapshotState(
                patterns=_texts(found[0][0]),
                tables=tuple(_progress(row[2:]) for row in found if row[1] is not None),
            )

    def save_snapshot(self, state: SnapshotState) -> None:
        """Persist the whole backfill in one write; the position is not touched (R57)."""
        tables = [(place, *_columns(each)) for place, each in enumerate(state.tables)]
        connection = self._file.writing()
        with self._file.guard(), _whole(connection):
            if _version(connection) < _SNAPSHOT_VERSION:
                for statement in _SNAPSHOT_SCHEMA:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {_SNAPSHOT_VERSION}")
            connection.execute(
                "INSERT OR REPLACE INTO snapshot VALUES (1, ?)", (json.dumps(state.patterns),)
            )
            connection.execute("DELETE FROM snapshot_table")
            connection.executemany(
                "INSERT INTO snapshot_table VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", tables
            )

    def clear_snapshot(self, table: TableName | None = None) -> None:
        """Forget the backfill (R163), or put one of its tables back to the start."""
        if table is not None:
            self.save_snapshot(put_back(self.load_snapshot(), table))
            return
        with self._file.guard():
            found = self._file.reading()
            if found is None or _version(found) < _SNAPSHOT_VERSION:
                return
        connection = self._file.writing()
        with self._file.guard(), _whole(connection):
            connection.execute("DELETE FROM snapshot")
            connection.execute("DELETE FROM snapshot_table")

    def close(self) -> None:
        """Release file and lock; a later call of another method opens it again."""
        self._file.close()

    def _row(self, sql: str) -> tuple[Any, ...] | None:
        connection = self._file.reading()
        row: tuple[Any, ...] | None = (
            None if connection is None else connection.execute(sql).fetchone()
        )
        return row

    def _write(self, sql: str, values: tuple[Any, ...]) -> None:
        connection = self._file.writing()
        with self._file.guard():
            connection.execute(sql, values)


@contextmanager
def _whole(connection: sqlite3.Connection) -> Iterator[None]:
    """Several statements as one write, all of them or none."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _texts(text: object) -> tuple[str, ...]:
    return tuple(map(str, json.loads(str(text))))


def _columns(progress: TableProgress) -> tuple[Any, ...]:
    first = progress.first_position
    return (
        progress.schema,
        progress.table,
        json.dumps(progress.key_columns),
        progress.shape_digest,
        _key_text(progress.cursor),
        _key_text(progress.delivered),
        progress.sequence,
        None if first is None else str(first),
        progress.rows,
        int(progress.complete),
    )


def _progress(row: tuple[Any, ...]) -> TableProgress:
    schema, table, key_columns, digest, cursor, delivered, sequence, first, rows, complete = row
    return TableProgress(
        schema=str(schema),
        table=str(table),
        key_columns=_texts(key_columns),
        shape_digest=str(digest),
        cursor=None if cursor is None else decode_key(str(cursor)),
        delivered=None if delivered is None else decode_key(str(delivered)),
        sequence=int(sequence),
        first_position=None if first is None else GtidSet.parse(str(first)),
        rows=int(rows),
        complete=bool(complete),
    )


def _key_text(key: Key | None) -> str | None:
    return None if key is None else encode_key(key)
