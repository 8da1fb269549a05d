"""The durable store: one SQLite file, held by a lock beside it while a pipeline writes.

House rules: every save is one SQLite transaction with synchronous=FULL, so what returned survives a
power cut. Reading takes no lock and never makes a file: others may look while a pipeline runs.
Writing takes the lock, by itself when `hold()` was not called, and keeps it until `close()`. What
stands in the file must be readable to the last character, or it is `store_failed`.
"""

import json
import os
from collections.abc import Sequence
from typing import Any, Final

from capstan.core.gtid import Gtid, GtidSet
from capstan.core.halts import HaltReason
from capstan.core.watermark import Anchor
from capstan.files import FileKind, SqliteFile
from capstan.stores.base import Store

_KIND: Final = FileKind(
    name="store",
    application_id=0x43505354,
    version=1,
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
