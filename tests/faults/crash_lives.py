"""Lives of a pipeline in the crash matrix, with a mirror or with a journal, struck at a point.

House rules: a life is a function of its folder: position, mirror and journal lie there, so that the
next life, in this process or another one, goes on from what the last one left. A line of the
journal is one `write`, made before the sink's call returns.
"""

import contextlib
import json
import os
import signal
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
from faults.crash_world import CHUNK_SIZE, LAST, SEED, World
from helpers.histories import up_to

from capstan import (
    Change,
    Config,
    Delivery,
    GtidSet,
    Pipeline,
    SchemaChange,
    Sink,
    Snapshot,
    SnapshotMeta,
    Source,
    SqliteMirror,
    SqliteStore,
    Transaction,
)
from capstan.testing import CrashPoints, kill_process

DEADLINE: Final = 60.0
Rows = dict[int, str]


class JournalSink(Sink):
    """At least once: writes each call down and keeps no position."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def handle_transaction(self, transaction: Transaction) -> None:
        """Write it down."""
        self._write("transaction", transaction.gtid.number, transaction.changes)

    def handle_schema_change(self, change: SchemaChange) -> None:
        """Write it down, without rows."""
        self._write("transaction", change.gtid.number, ())

    def handle_snapshot(self, changes: Sequence[Change], meta: SnapshotMeta) -> None:
        """Write it down."""
        self._write("chunk", meta.sequence, changes)

    def _write(self, kind: str, number: int, changes: Sequence[Change]) -> None:
        rows = [[c.key[0], None if c.values is None else c.values[1]] for c in changes if c.key]
        line = json.dumps([kind, number, rows]).encode() + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            assert os.write(descriptor, line) == len(line)
        finally:
            os.close(descriptor)


@attrs.frozen
class Journal:
    """What a journal says.

    Attributes:
        transactions: Numbers of the transactions that came, in order.
        chunks: Numbers of the chunks that came, in order.
        rows: The table, when all of it is carried out in order.
    """

    transactions: list[int]
    chunks: list[int]
    rows: Rows

    @classmethod
    def read(cls, path: Path) -> "Journal":
        """Read it; an absent one is empty."""
        found = cls([], [], {})
        text = path.read_text(encoding="ascii") if path.exists() else ""
        for kind, number, rows in map(json.loads, text.splitlines()):
            (found.chunks if kind == "chunk" else found.transactions).append(number)
            if kind == "chunk" and number == 0:
                found.rows.clear()
            for key, value in rows:
                if value is None:
                    found.rows.pop(key, None)
                else:
                    found.rows[key] = value
        return found


@attrs.frozen
class Life:
    """Everything that outlives a process.

    Attributes:
        folder: Where it lies.
        sink: `journal` or `mirror`.
    """

    folder: Path
    sink: str

    def config(self) -> Config:
        """One transaction a batch; three rows a chunk."""
        mirror = SqliteMirror(self.folder / "mirror.db")
        return Config(
            source=Source(user="u", server_id=9),
            tables=["shop.*"],
            sink=mirror if self.sink == "mirror" else JournalSink(self.folder / "journal"),
            store=SqliteStore(self.folder / "state.db"),
            delivery=Delivery(max_batch=1),
            snapshot=Snapshot(chunk_size=CHUNK_SIZE),
        )

    def live(self, points: CrashPoints, world: World) -> Pipeline:
        """One life that reads everything, however often its actors crash.

        Raises:
            PipelineHalted: The crash was one of the sink's call, which is a refusal.
        """
        pipeline = Pipeline(points.wrap(self.config()), source=world, views=world)
        try:
            pipeline.start()
            # Behind the last view that a backfill pins, writers have this much to do.
            assert pipeline.wait_snapshot(DEADLINE)
            world.commit_up_to(LAST)
            assert pipeline.wait_for(up_to(LAST), DEADLINE)
        finally:
            pipeline.stop()
        return pipeline

    def die(self, point: str, hit: int) -> bool:
        """A life in a process of its own that is killed at a point; whether it got there."""
        child = os.fork()
        if not child:
            try:
                with CrashPoints() as points:
                    points.at(point, kill_process, hit=hit)
                    self.live(points, World())
            finally:
                # Whatever happened: the parent's code goes on in the parent alone.
                os._exit(1)
        _, status = os.waitpid(child, 0)
        return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL

    def world(self) -> World:
        """The server at the next start: writers went on meanwhile, if anything was read at all."""
        return World(SEED if self.stored() is None else LAST)

    def stored(self) -> GtidSet | None:
        """The position on disk."""
        with contextlib.closing(SqliteStore(self.folder / "state.db")) as store:
            return store.load_watermark()

    def chunks_done(self) -> int:
        """How many chunks the position on disk counts as delivered."""
        with contextlib.closing(SqliteStore(self.folder / "state.db")) as store:
            state = store.load_snapshot()
        return 0 if state is None or not state.tables else state.tables[0].sequence

    def journal(self) -> Journal:
        """What came so far."""
        return Journal.read(self.folder / "journal")

    def rows(self) -> Rows:
        """The table as the sink has it."""
        if self.sink == "journal":
            return self.journal().rows
        with contextlib.closing(sqlite3.connect(self.folder / "mirror.db")) as mirror:
            return dict(mirror.execute('SELECT id, name FROM "shop.items"').fetchall())
