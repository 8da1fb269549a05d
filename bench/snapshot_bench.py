"""The backfill's part of the benchmark: a snapshot beside plain chunked SELECTs of the same table.

Owns: both readers, their order, medians, the bars. Each run is a process of its own on the same
table, while nobody writes; the two alternate. The plain reader is what one would write by hand with
PyMySQL: keyset pages of the same size on one connection. capstan does all it always does: locks,
views, gate, marks on disk; its sink drops the rows.
"""

import argparse
import contextlib
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
from own_process import RUN_SECONDS, measured

SCHEMA: Final = "bench"
TABLE: Final = "snapshot"
CLIENT_ID: Final = 77_002
SNAPSHOT_ROWS: Final = 400_000
CHUNK_SIZE: Final = 4096
RATE_BAR: Final = 0.9
"""How fast a backfill is to be, as a share of the plain reader's rate."""
LOCK_BAR: Final = 0.010
"""Seconds that the 99th percentile of the lock holds is to stay below, on an idle server."""
_BATCH: Final = 10_000

_CREATE = f"""CREATE TABLE {SCHEMA}.{TABLE} (
    id BIGINT NOT NULL PRIMARY KEY,
    customer BIGINT UNSIGNED NOT NULL,
    state VARCHAR(20) NOT NULL,
    total DECIMAL(12, 2) NOT NULL,
    note VARCHAR(100) NULL,
    quantity INT NOT NULL,
    placed DATETIME(6) NOT NULL,
    flags TINYINT UNSIGNED NOT NULL
) CHARACTER SET utf8mb4"""

_FILL = f"""INSERT INTO {SCHEMA}.{TABLE}
WITH RECURSIVE counted (n) AS (SELECT %s UNION ALL SELECT n + 1 FROM counted WHERE n < %s)
SELECT n, CRC32(n) * 4294967295, ELT(1 + n MOD 4, 'new', 'paid', 'sent', 'void'),
    (CRC32(-n) MOD 10000000) / 100, IF(n MOD 3 = 0, NULL, LEFT(SHA2(n, 256), 10 + n MOD 40)),
    CRC32(n) MOD 1000,
    '2024-01-01' + INTERVAL (CRC32(n) * 7013 MOD 31536000000000) MICROSECOND, n MOD 256
FROM counted"""


@attrs.frozen(kw_only=True)
class Task:
    """What is to be read.

    Attributes:
        host: Of the server.
        port: Its port.
        user: An account that may read and lock everything.
        password: Its password.
        rows: Rows that must come.
        chunk_size: Rows in a chunk.
        folder: Where a reader may write.
    """

    host: str
    port: int
    user: str
    password: str = attrs.field(repr=False)
    rows: int
    chunk_size: int
    folder: str


@attrs.frozen(kw_only=True)
class Result:
    """What one run took.

    Attributes:
        seconds: From the first dial, for capstan from the open stream on, to the last row.
        cpu_seconds: Of the whole process.
        rows: Rows that came.
        lock_p50: Median of the lock holds, seconds; 0 for the plain reader.
        lock_p99: 99th percentile of them, likewise.
    """

    seconds: float
    cpu_seconds: float
    rows: int
    lock_p50: float = 0.0
    lock_p99: float = 0.0


def snapshot(task: Task) -> Result:
    """A backfill into a sink that drops the rows; marks and cursors go to a SQLite file."""
    from capstan import (  # noqa: PLC0415 - each process imports one contender
        Change,
        Config,
        Pipeline,
        Sink,
        Snapshot,
        SnapshotMeta,
        Source,
        SqliteStore,
        Transaction,
    )

    class Null(Sink):
        rows = 0
        final = False

        def handle_transaction(self, transaction: Transaction) -> None:
            raise AssertionError(f"the stream is idle, and brings {transaction.gtid}")

        def handle_snapshot(self, changes: Sequence[Change], meta: SnapshotMeta) -> None:
            self.rows += len(changes)
            self.final = meta.final

    sink = Null()
    config = Config(
        source=Source(
            host=task.host,
            port=task.port,
            user=task.user,
            password=task.password,
            server_id=CLIENT_ID,
            tls="disabled",
        ),
        tables=[f"{SCHEMA}.{TABLE}"],
        sink=sink,
        store=SqliteStore(Path(task.folder) / "state.db"),
        snapshot=Snapshot(chunk_size=task.chunk_size),
    )
    with Pipeline(config) as pipeline:
        began = time.perf_counter()
        if not pipeline.wait_snapshot(RUN_SECONDS):
            raise TimeoutError("the backfill did not get there")
        seconds = time.perf_counter() - began
        progress = pipeline.status().snapshot
    if not sink.final:
        raise AssertionError("the last chunk did not come")
    locks = (0.0, 0.0)
    if progress is not None:
        locks = (progress.lock_p50 or 0.0, progress.lock_p99 or 0.0)
    return _result(seconds, sink.rows, *locks)


def plain(task: Task) -> Result:
    """Pages by key over one connection of PyMySQL."""
    import pymysql  # noqa: PLC0415 - as above

    rows = 0
    began = time.perf_counter()
    connection: Any = pymysql.connect(
        host=task.host, port=task.port, user=task.user, password=task.password, ssl_disabled=True
    )
    with contextlib.closing(connection), connection.cursor() as cursor:
        after = -1
        while True:
            cursor.execute(
                f"SELECT * FROM {SCHEMA}.{TABLE} WHERE id > %s ORDER BY id LIMIT %s",
                (after, task.chunk_size),
            )
            page = cursor.fetchall()
            if not page:
                break
            after = page[-1][0]
            rows += len(page)
    return _result(time.perf_counter() - began, rows)


def _result(seconds: float, rows: int, lock_p50: float = 0.0, lock_p99: float = 0.0) -> Result:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return Result(
        seconds=seconds,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        rows=rows,
        lock_p50=lock_p50,
        lock_p99=lock_p99,
    )


CONTENDERS: Final[dict[str, Callable[[Task], Result]]] = {"snapshot": snapshot, "plain": plain}


def measure_snapshot(server: Any, rows: int, repeat: int, chunk_size: int) -> list[str]:
    """Fill the table, let both read it in turn, print the table.

    Args:
        server: A running server, with an empty schema for benchmarks.
        rows: Rows of the table.
        repeat: Runs of each.
        chunk_size: Rows in a chunk.

    Returns:
        A sentence for each bar that was missed.
    """
    print(f"\nsnapshot of {rows:,} rows, {chunk_size} in a chunk: writing", flush=True)
    _prepare(server, rows)
    results: dict[str, list[Result]] = {name: [] for name in CONTENDERS}
    for number in range(repeat):
        print(f"  run {number + 1} of {repeat}", flush=True)
        for name in CONTENDERS:
            with tempfile.TemporaryDirectory(prefix="capstan-bench-") as folder:
                task = Task(
                    host=server.host,
                    port=server.port,
                    user=server.user,
                    password=server.password,
                    rows=rows,
                    chunk_size=chunk_size,
                    folder=folder,
                )
                results[name].append(_run(name, task))
    return _verdict(results, rows)


def _prepare(server: Any, rows: int) -> None:
    with contextlib.closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(_CREATE)
        for first in range(1, rows + 1, _BATCH):
            last = min(rows, first + _BATCH - 1)
            cursor.execute(f"SET SESSION cte_max_recursion_depth = {_BATCH + 1}")
            cursor.execute(_FILL, (first, last))
            connection.commit()


def _run(name: str, task: Task) -> Result:
    result = Result(**measured(Path(__file__), "--contender", name, task=task))
    if result.rows != task.rows:
        raise AssertionError(f"{name} saw {result.rows} rows instead of {task.rows}")
    return result


def _verdict(results: dict[str, list[Result]], rows: int) -> list[str]:
    rates = {}
    print(f"  {'':<12}{'seconds':>9}{'rows/s':>11}{'CPU s':>9}{'lock p50, p99 ms':>19}")
    for name, each in results.items():
        seconds = statistics.median(result.seconds for result in each)
        cpu = statistics.median(result.cpu_seconds for result in each)
        half = statistics.median(result.lock_p50 for result in each)
        most = statistics.median(result.lock_p99 for result in each)
        rates[name] = rows / seconds
        figures = f"{seconds:>9.3f}{rates[name]:>11,.0f}{cpu:>9.2f}"
        locks = f"{1000 * half:>10.2f}{1000 * most:>9.2f}" if most else ""
        print(f"  {name:<12}{figures}{locks}", flush=True)
    ratio = rates["snapshot"] / rates["plain"]
    lock = statistics.median(result.lock_p99 for result in results["snapshot"])
    print(f"  rate: {ratio:.2f} of plain SELECTs", flush=True)
    missed = []
    if ratio < RATE_BAR:
        missed.append(
            f"a snapshot is to reach {RATE_BAR} of plain SELECTs, and reaches {ratio:.2f}"
        )
    if lock >= LOCK_BAR:
        missed.append(f"locks are to be held for under {LOCK_BAR * 1000:g} ms, p99 is {lock:.4f} s")
    return missed


def main() -> int:
    """Be a contender, in a process of its own."""
    parser = argparse.ArgumentParser(prog="snapshot_bench")
    parser.add_argument("--contender", choices=CONTENDERS, required=True)
    options = parser.parse_args()
    result = CONTENDERS[options.contender](Task(**json.loads(sys.stdin.read())))
    print(json.dumps(attrs.asdict(result)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
