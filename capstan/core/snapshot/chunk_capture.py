"""One portion of a table on its way: from the asking to the sink.

House rules: a capture knows its table, its G and its rows, and which changes of the stream it holds
up; what happens next is decided by the desk. From the moment its pin is granted until its G is
known every change of the table waits, afterwards those outside of G do (D6).
"""

from enum import Enum
from itertools import islice
from operator import lt
from typing import Any, Final, cast

import attrs

from capstan.core.changes import Change, Op, Row, SnapshotMeta
from capstan.core.gtid import Gtid, GtidSet
from capstan.core.halts import Halt, HaltReason, halted
from capstan.core.snapshot.primary_key import Key, comparable, key_reader
from capstan.core.snapshot.progress import ChunkMark, TableProgress, shape_digest
from capstan.core.tables import TableName, TableShape

_SNAPSHOT: Final = Op.SNAPSHOT


class Stage(Enum):
    """How far a capture has come."""

    ASKED = "the reader was asked for it"
    WANTS_PIN = "the reader is about to pin a view"
    PINNING = "the reader may lock the table now"
    PINNED = "the view is pinned, rows are being read"
    READ = "the rows are here"


@attrs.define(kw_only=True)
class Capture:
    """One portion that the reader was asked for.

    Attributes:
        ticket: Its number, echoed by the reader.
        table: Whose rows.
        after: They begin behind this key; None: at the beginning.
        stage: How far it has come.
        server_uuid: Where its view is, once a pin was asked for.
        position: G, once pinned.
        shape: The table as it was read.
        rows: In key order, once read.
        final: Whether no row is behind them.
    """

    ticket: int
    table: TableName
    after: Key | None = attrs.field(repr=False)
    stage: Stage = Stage.ASKED
    server_uuid: str | None = None
    position: GtidSet | None = None
    shape: TableShape | None = attrs.field(default=None, repr=False)
    rows: list[Row] = attrs.field(factory=list, repr=False)
    final: bool = False

    @property
    def last_key(self) -> Key | None:
        """The key of the last row; None without rows."""
        if not self.rows or self.shape is None:
            return None
        # `require_key` has seen to it that these are integers and bytes.
        return cast("Key", self.shape.key_of(self.rows[-1]))

    def wants_pin(self, server_uuid: str) -> None:
        """The reader is about to pin a view on this server."""
        self.stage, self.server_uuid, self.position = Stage.WANTS_PIN, server_uuid, None

    def pinned(self, position: GtidSet) -> None:
        """The view is there."""
        self.stage, self.position = Stage.PINNED, position

    def missed(self) -> None:
        """Nothing is held any more; the reader asks again."""
        self.stage, self.position = Stage.ASKED, None

    def read(self, shape: TableShape, rows: list[Row], *, final: bool) -> None:
        """The rows are in.

        Raises:
            Halted: `snapshot_chunk_read_failed` when they do not lie behind the ones before, each
                behind the other as keys are compared here.
        """
        _check_order(self.table, comparable(self.after), list(map(key_reader(shape), rows)))
        if not rows and not final:
            raise halted(HaltReason.SNAPSHOT_CHUNK_READ_FAILED, f"{self.table}: no rows, yet more")
        self.stage, self.shape, self.rows, self.final = Stage.READ, shape, rows, final

    def mark(self) -> ChunkMark:
        """What the progress keeps of it."""
        assert self.shape is not None
        assert self.position is not None
        return ChunkMark(
            position=self.position,
            key_columns=self.shape.key_columns,
            shape_digest=shape_digest(self.shape),
            last_key=self.last_key,
            rows=len(self.rows),
            final=self.final,
        )

    def changes(self) -> list[Change]:
        """Its rows as the sink gets them (R106, R114)."""
        shape = self.shape
        assert shape is not None
        return [Change(_SNAPSHOT, shape, row, None) for row in self.rows]

    def meta(self, progress: TableProgress) -> SnapshotMeta:
        """Its facts as the sink gets them (R115)."""
        assert self.position is not None
        return SnapshotMeta(
            schema=self.table.schema,
            table=self.table.table,
            sequence=progress.sequence,
            position=self.position,
            final=self.final,
        )


def _check_order(table: TableName, after: Any, keys: list[Any]) -> None:
    behind_after = after is None or not keys or after < keys[0]
    if not behind_after or not all(map(lt, keys, islice(keys, 1, None))):
        raise halted(HaltReason.SNAPSHOT_CHUNK_READ_FAILED, f"{table}: rows out of key order")


def first_position(progress: TableProgress, captures: list[Capture]) -> GtidSet | None:
    """G of the first chunk that counts; None when no chunk was captured (D9).

    At sequence 0 what an earlier life captured does not count: it is emptied away.
    """
    if progress.sequence:
        return progress.first_position
    return next(
        (
            capture.position
            for capture in captures
            if capture.table == progress.name and capture.position is not None
        ),
        None,
    )


def holders(captures: list[Capture], gtid: Gtid) -> list[TableName]:
    """The tables of which a transaction with this GTID may not be taken now (D6)."""
    held: list[TableName] = []
    inside: set[TableName] = set()
    for capture in captures:
        if capture.position is not None:
            if gtid in capture.position:
                # Whatever is captured of this table later holds it too.
                inside.add(capture.table)
            else:
                held.append(capture.table)
        elif capture.stage is Stage.PINNING and capture.table not in inside:
            held.append(capture.table)
    return held


def gate_verdict(missing: GtidSet, purged: GtidSet) -> Halt:
    """Why a chunk waits for ever on a stream that is alive (D6).

    Args:
        missing: What it waits for.
        purged: The server's gtid_purged now.
    """
    gone = missing & purged
    if gone:
        return Halt(HaltReason.DATA_GAP, f"the server has purged {gone}")
    return Halt(HaltReason.SNAPSHOT_GATE_STALLED, f"the stream does not bring {missing}")
