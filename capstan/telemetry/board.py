"""The board: the latest figures of one pipeline, written by the actors, read from any thread.

House rules: figures only. Whoever waits for a watermark waits here, on one condition.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from capstan.core.gtid import GtidSet
from capstan.core.tables import TableName
from capstan.core.verification import Verification


@attrs.frozen
class TableFigures:
    """How far the backfill of one table is.

    Attributes:
        schema: The database name.
        table: The table name.
        rows: Rows that the sink has accepted as chunks.
        chunks: Chunks that it has accepted.
        complete: Whether the table is done.
    """

    schema: str
    table: str
    rows: int
    chunks: int
    complete: bool


@attrs.frozen(kw_only=True)
class Figures:
    """One look at the board.

    Attributes:
        watermark: The processed set that is on disk.
        connection: The connection's phase in words.
        server_uuid: The server last streamed from.
        connects: Streams opened so far.
        failed_dials: Links that could not be opened, or were lost.
        transactions: Delivered to the sink.
        changes: Row changes delivered.
        filtered: Transactions that only advanced.
        skipped: Transactions that were processed before.
        schema_changes: Delivered.
        batches: Settled.
        lag_seconds: Commit to delivery of the last batch; None before the first.
        suppressed: Streamed changes left to the backfill.
        snapshot_tables: How far each table is; empty without a backfill.
        snapshot_resolved: Whether the tables to backfill are known.
        snapshot_complete: Whether all of them are done.
        snapshot_rows: Rows accepted as chunks since the pipeline was started.
        snapshot_seconds: Seconds that this took.
        snapshot_retries: Captures that were missed and tried again.
        snapshot_estimates: The server's own guess of each table's rows.
        verified: Number and outcome of the last verification; None before the first.
        snapshot_locks: Seconds that the latest captures held their lock, oldest first.
    """

    watermark: GtidSet = attrs.field(factory=GtidSet)
    connection: str = "not started"
    server_uuid: str | None = None
    connects: int = 0
    failed_dials: int = 0
    transactions: int = 0
    changes: int = 0
    filtered: int = 0
    skipped: int = 0
    schema_changes: int = 0
    batches: int = 0
    lag_seconds: float | None = None
    suppressed: int = 0
    snapshot_tables: tuple[TableFigures, ...] = ()
    snapshot_resolved: bool = False
    snapshot_complete: bool = False
    snapshot_rows: int = 0
    snapshot_seconds: float = 0.0
    snapshot_retries: int = 0
    snapshot_estimates: Mapping[TableName, int] = attrs.field(factory=dict)
    verified: tuple[int, Verification] | None = None
    snapshot_locks: tuple[float, ...] = ()


class Board:
    """Figures behind one condition."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._figures = Figures()
        self._over = False

    @property
    def figures(self) -> Figures:
        """The latest figures."""
        return self._figures

    def update(self, **figures: Any) -> None:
        """Write figures, by the names of `Figures`; whoever waits looks again."""
        with self._changed:
            self._figures = attrs.evolve(self._figures, **figures)
            self._changed.notify_all()

    def over(self) -> None:
        """Nothing will move any more; wakes everyone who waits."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def wait(self, condition: Callable[[Figures], bool], timeout: float | None) -> bool:
        """Wait until the figures satisfy `condition`; False on timeout or when all is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or condition(self._figures), timeout)
            return condition(self._figures)
