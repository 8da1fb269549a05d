"""How a run goes, for whoever sits before a terminal: position, lag, and how far a backfill is.

House rules: nothing of this is on standard output, and nothing is shown where standard error is no
terminal. Figures come from `Pipeline.status()`; totals are called the estimates that they are.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from capstan.pipeline import Pipeline, Status
from capstan.telemetry.backfill_progress import SnapshotProgress, TableProgress

if TYPE_CHECKING:
    from rich.table import Table

_LOOKS_PER_SECOND: Final = 2
_MOST_TABLES: Final = 12
"""Tables shown at most, those under way first: a terminal is not endless."""


@contextmanager
def progress(pipeline: Pipeline) -> Iterator[None]:
    """Show how the pipeline goes while the block runs, on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    # Only a terminal pays for this import.
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    with Live(
        get_renderable=lambda: drawn(pipeline.status()),
        console=Console(stderr=True),
        refresh_per_second=_LOOKS_PER_SECOND,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ):
        yield


def drawn(status: Status) -> "Table":
    """One look as a table of lines."""
    from rich.table import Table  # noqa: PLC0415

    table = Table.grid(padding=(0, 2))
    for line in lines(status):
        table.add_row(*line)
    return table


def lines(status: Status) -> Iterator[tuple[str, ...]]:
    """What is shown, cell by cell."""
    counters = status.counters
    lag = "-" if status.lag_seconds is None else f"{status.lag_seconds:.1f} s"
    yield (
        "stream",
        status.connection,
        f"{counters['transactions']:,} transactions",
        f"{counters['changes']:,} changes",
        f"lag {lag}",
    )
    if status.snapshot is not None:
        yield from _backfill_lines(status.snapshot)


def _backfill_lines(snapshot: SnapshotProgress) -> Iterator[tuple[str, ...]]:
    pace = "-" if snapshot.rows_per_second is None else f"{snapshot.rows_per_second:,.0f} rows/s"
    left = "-" if snapshot.seconds_left is None else f"about {snapshot.seconds_left:,.0f} s left"
    yield (
        "backfill",
        "complete" if snapshot.complete else left,
        pace,
        f"locks p50 {_millis(snapshot.lock_p50)}, p99 {_millis(snapshot.lock_p99)}",
        f"{snapshot.retries} retries",
    )
    under_way = sorted(snapshot.tables, key=lambda table: (table.complete, not table.rows))
    for table in under_way[:_MOST_TABLES]:
        yield ("", f"{table.schema}.{table.table}", _rows(table))


def _rows(table: TableProgress) -> str:
    if table.complete:
        return f"{table.rows:,} rows, complete"
    if table.estimated_total is None:
        return f"{table.rows:,} rows"
    return f"{table.rows:,} of an estimated {table.estimated_total:,} rows"


def _millis(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.1f} ms"
