"""What a terminal shows of a run: figures by name, totals called estimates."""

import io
import sys

import attrs
import pytest

from capstan import Config, FunctionSink, MemoryStore, Pipeline, Snapshot, Source, Status
from capstan.cli.run_progress import drawn, lines, progress
from capstan.telemetry.backfill_progress import SnapshotProgress, TableProgress

TABLE = TableProgress(
    schema="shop", table="orders", rows=4096, estimated_total=9000, chunks=1, complete=False
)
SNAPSHOT = SnapshotProgress(
    tables=(
        attrs.evolve(TABLE, table="done", rows=10, complete=True),
        attrs.evolve(TABLE, table="later", rows=0, estimated_total=None),
        TABLE,
    ),
    complete=False,
    rows_per_second=2048.0,
    seconds_left=2.4,
    suppressed=3,
    retries=1,
    lock_p50=0.0005,
    lock_p99=0.004,
)


@pytest.fixture
def status() -> Status:
    """Of a pipeline that was not started."""
    config = Config(
        source=Source(user="repl", server_id=1),
        tables=["shop.*"],
        sink=FunctionSink(print, on_snapshot=print),
        store=MemoryStore(),
        snapshot=Snapshot(),
    )
    return attrs.evolve(Pipeline(config).status(), snapshot=SNAPSHOT, lag_seconds=0.25)


def test_a_backfill_is_shown_table_by_table_those_under_way_first(status: Status) -> None:
    """R61: rows, the estimate called one, pace, time left, lock holds."""
    text = "\n".join(" ".join(line) for line in lines(status))

    assert "lag 0.2 s" in text
    assert "about 2 s left 2,048 rows/s locks p50 0.5 ms, p99 4.0 ms 1 retries" in text
    orders, later, done = text.splitlines()[2:]
    assert "shop.orders 4,096 of an estimated 9,000 rows" in orders
    assert "shop.later 0 rows" in later
    assert "shop.done 10 rows, complete" in done


def test_without_a_backfill_there_is_one_line(status: Status) -> None:
    """R69: nothing is said of what is not configured."""
    assert len(list(lines(attrs.evolve(status, snapshot=None)))) == 1
    assert drawn(status).row_count == 5


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "shown"), [(Terminal(), True), (io.StringIO(), False)])
def test_only_a_terminal_is_drawn_on(
    status: Status, monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *, shown: bool
) -> None:
    """A service's log stays free of it."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    config = Config(
        source=Source(user="repl", server_id=1),
        tables=["shop.*"],
        sink=FunctionSink(print),
        store=MemoryStore(),
    )
    with progress(Pipeline(config)):
        pass

    assert bool(stream.getvalue()) is shown
