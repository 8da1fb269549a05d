"""How far a backfill is, for people: rows done, a guess of the total, pace, time left, lock holds.

House rules: figures in, figures out. A total is the server's own estimate and is called one; where
it is plainly wrong (more rows are done than it says) the rows done count.
"""

from collections.abc import Sequence

import attrs

from capstan.core.tables import TableName
from capstan.telemetry.board import Figures, TableFigures


@attrs.frozen(kw_only=True)
class TableProgress:
    """One table.

    Attributes:
        schema: The database name.
        table: The table name.
        rows: Rows that the sink has accepted as chunks.
        estimated_total: The server's estimate of all rows; None when it was not asked yet.
        chunks: Chunks that the sink has accepted.
        complete: Whether the table is done.
    """

    schema: str
    table: str
    rows: int
    estimated_total: int | None
    chunks: int
    complete: bool


@attrs.frozen(kw_only=True)
class SnapshotProgress:
    """The whole backfill.

    Attributes:
        tables: One by one; empty until they are resolved.
        complete: Whether all of them are done.
        rows_per_second: Since the pipeline was started; None before the first chunk.
        seconds_left: By that pace and the estimated totals; None when there is no telling.
        suppressed: Streamed changes that were left to the backfill.
        retries: Captures that were missed and tried again.
        lock_p50: Median of the latest lock holds, seconds; None before the first.
        lock_p99: 99th percentile of them, likewise.
    """

    tables: tuple[TableProgress, ...]
    complete: bool
    rows_per_second: float | None
    seconds_left: float | None
    suppressed: int
    retries: int
    lock_p50: float | None
    lock_p99: float | None


def snapshot_progress(figures: Figures) -> SnapshotProgress:
    """What the board says about the backfill."""
    tables = tuple(_table(figures, one) for one in figures.snapshot_tables)
    pace = None
    if figures.snapshot_rows and figures.snapshot_seconds > 0:
        pace = figures.snapshot_rows / figures.snapshot_seconds
    return SnapshotProgress(
        tables=tables,
        complete=figures.snapshot_complete,
        rows_per_second=pace,
        seconds_left=_seconds_left(tables, pace),
        suppressed=figures.suppressed,
        retries=figures.snapshot_retries,
        lock_p50=_percentile(figures.snapshot_locks, 0.50),
        lock_p99=_percentile(figures.snapshot_locks, 0.99),
    )


def _table(figures: Figures, one: TableFigures) -> TableProgress:
    estimate = figures.snapshot_estimates.get(TableName(one.schema, one.table))
    return TableProgress(
        schema=one.schema,
        table=one.table,
        rows=one.rows,
        estimated_total=None if estimate is None else max(estimate, one.rows),
        chunks=one.chunks,
        complete=one.complete,
    )


def _seconds_left(tables: Sequence[TableProgress], pace: float | None) -> float | None:
    left = 0
    for one in tables:
        if not one.complete:
            if one.estimated_total is None:
                return None
            left += one.estimated_total - one.rows
    return None if pace is None or not tables else left / pace


def _percentile(values: Sequence[float], share: float) -> float | None:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None
