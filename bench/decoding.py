"""The decoding half of the benchmark: recorded binlog files, read by each contender in turn.

Owns: how a workload becomes one file, the order of the runs, medians, ratios and the bars. What a
contender does with a file stands in `decoders`, in a process of its own.
"""

import contextlib
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from decoders import DECODERS, Decoded, FileTask
from own_process import measured
from pymysql.connections import Connection
from workloads import Workload

from capstan.demo.mysql_server import MysqlServer

BARS: Final = {
    "bulk": {"mysql-replication": 14.0, "mysqlbinlog -vv": 1.0},
    "wide": {"mysql-replication": 10.0, "mysqlbinlog -vv": 1.0},
    "single": {"mysql-replication": 18.0, "mysqlbinlog -vv": 1.0},
}
"""How many times as fast capstan is to be, by workload and contender."""
_HEADS: Final = ("CPU s", "rows/s", "peak MiB", "capstan is faster by")


def measure_decoding(server: MysqlServer, workload: Workload, repeat: int) -> list[str]:
    """Record a workload, time every contender on it, print the table.

    Returns:
        A sentence for each bar that was missed.
    """
    print(f"\ndecode only, {workload.title}: writing", flush=True)
    with tempfile.TemporaryDirectory(prefix="capstan-bench-") as folder:
        path = Path(folder) / "recorded.binlog"
        _record(server, workload, path)
        task = FileTask(path=str(path), mysqlbinlog=server.programs.mysqlbinlog)
        runs: dict[str, list[Decoded]] = {name: [] for name in DECODERS}
        for number in range(repeat):
            print(f"  run {number + 1} of {repeat}", flush=True)
            for name in DECODERS:
                runs[name].append(_run(name, task, workload.rows))
    seconds = {name: statistics.median(run.seconds for run in each) for name, each in runs.items()}
    _print_table(workload, runs, seconds)
    return [
        f"{workload.name}: decoding is to be {bar:g} times as fast as {name}, and is {ratio:.2f}"
        for name, bar in BARS[workload.name].items()
        if (ratio := seconds[name] / seconds["capstan"]) < bar
    ]


def _record(server: MysqlServer, workload: Workload, path: Path) -> None:
    """Write the measured part of a workload into a binlog file of its own, and copy that."""
    with contextlib.closing(server.connect()) as connection:
        workload.prepare(connection)
        _execute(connection, "FLUSH BINARY LOGS")
        ((name, *_),) = _execute(connection, "SHOW BINARY LOG STATUS")
        workload.write(connection)
        _execute(connection, "FLUSH BINARY LOGS")
        ((folder,),) = _execute(connection, "SELECT @@GLOBAL.datadir")
        workload.drop(connection)
    shutil.copyfile(Path(folder) / name, path)


def _execute(connection: "Connection[Any]", statement: str) -> Sequence[tuple[Any, ...]]:
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def _run(name: str, task: FileTask, rows: int) -> Decoded:
    result = Decoded(**measured(Path(__file__).with_name("decoders.py"), name, task=task))
    if result.rows not in (None, rows):
        raise AssertionError(f"{name} saw {result.rows} rows instead of {rows}")
    return result


def _print_table(
    workload: Workload, runs: dict[str, list[Decoded]], seconds: dict[str, float]
) -> None:
    print(f"  {'':<24}" + "".join(f"{head:>{len(head) + 4}}" for head in _HEADS))
    for name, median in seconds.items():
        cells = (
            f"{median:.3f}",
            f"{workload.rows / median:,.0f}",
            f"{statistics.median(run.peak_mib for run in runs[name]):.0f}",
            f"{median / seconds['capstan']:.2f}",
        )
        line = "".join(f"{c:>{len(h) + 4}}" for c, h in zip(cells, _HEADS, strict=True))
        print(f"  {name:<24}{line}", flush=True)
