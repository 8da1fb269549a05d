"""The live half of the benchmark: whole pipelines beside mysql-replication, on one server.

Owns: the order of the runs, medians, ratios and the bars. A ratio compares runs that alternated on
the same data. What a contender does stands in `contenders`, in a process of its own.
"""

import contextlib
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
from contenders import CONTENDERS, Result, Task
from own_process import measured
from workloads import Workload

from capstan.core.gtid import GtidSet
from capstan.demo.mysql_server import MysqlServer

PEER: Final = "mysql-replication"
BARS: Final = {"bulk": 8.0, "single": 8.0}
"""How many times as fast capstan is to be, by workload."""


@attrs.frozen(kw_only=True)
class Median:
    """The medians of one contender's runs on one workload."""

    seconds: float
    cpu_seconds: float
    peak_mib: float

    @classmethod
    def of(cls, results: Sequence[Result]) -> "Median":
        """Each figure's own median."""
        return cls(
            seconds=statistics.median(result.seconds for result in results),
            cpu_seconds=statistics.median(result.cpu_seconds for result in results),
            peak_mib=statistics.median(result.peak_mib for result in results),
        )


def measure_streaming(server: MysqlServer, workload: Workload, repeat: int) -> list[str]:
    """Write a workload, time every contender on it, print the table.

    Returns:
        A sentence for the bar if it was missed.
    """
    medians = _measure(server, workload, repeat)
    _print_table(workload, medians)
    ratio = medians[PEER].seconds / medians["capstan"].seconds
    bar = BARS.get(workload.name, 0.0)
    if ratio >= bar:
        return []
    return [
        f"{workload.name}: streaming is to be {bar:g} times as fast as {PEER}, and is {ratio:.2f}"
    ]


def _measure(server: MysqlServer, workload: Workload, repeat: int) -> dict[str, Median]:
    print(f"\nlive, {workload.title}: writing", flush=True)
    with contextlib.closing(server.connect()) as connection:
        workload.prepare(connection)
    start = _executed(server)
    with contextlib.closing(server.connect()) as connection:
        workload.write(connection)
    goal = _executed(server)
    written = (GtidSet.parse(goal) - GtidSet.parse(start)).count()
    if written != workload.transactions:
        raise AssertionError(f"{written} transactions instead of {workload.transactions}")
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
                    start=start,
                    goal=goal,
                    rows=workload.rows,
                    folder=folder,
                )
                results[name].append(_run(name, task))
    return {name: Median.of(each) for name, each in results.items()}


def _run(name: str, task: Task) -> Result:
    result = Result(**measured(Path(__file__).with_name("contenders.py"), name, task=task))
    if result.rows != task.rows:
        raise AssertionError(f"{name} saw {result.rows} rows instead of {task.rows}")
    return result


def _executed(server: MysqlServer) -> str:
    with contextlib.closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.gtid_executed")
        ((text,),) = cursor.fetchall()
    return str(text).replace("\n", "")


def _print_table(workload: Workload, medians: dict[str, Median]) -> None:
    head = ("", "seconds", "rows/s", "trx/s", "CPU s", "peak MiB", "ratio", "ratio, both TLS")
    print(f"  {head[0]:<24}" + "".join(f"{title:>{_width(title)}}" for title in head[1:]))
    for name, median in medians.items():
        ratios = ["" for _ in range(2)]
        tls = name.endswith(", TLS")
        ratios[tls] = f"{medians[PEER + ', TLS' * tls].seconds / median.seconds:.1f}"
        cells = (
            f"{median.seconds:.3f}",
            f"{workload.rows / median.seconds:,.0f}",
            f"{workload.transactions / median.seconds:,.0f}",
            f"{median.cpu_seconds:.2f}",
            f"{median.peak_mib:.0f}",
            *ratios,
        )
        widths = map(_width, head[1:])
        line = "".join(f"{c:>{w}}" for c, w in zip(cells, widths, strict=True))
        print(f"  {name:<24}{line}", flush=True)


def _width(title: str) -> int:
    return max(len(title), 9) + 2
