"""The benchmark: capstan beside mysql-replication, on one server, in one run.

Owns: the server, the order of the runs, medians and ratios. Every figure that is printed was
measured here and now; a ratio compares runs that alternated on the same data. Each run is a fresh
process, so that no contender warms or clutters another one's memory.

    python bench [--quick] [--repeat N] [--workload NAME …]
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from contenders import CONTENDERS, Result, Task
from workloads import SCHEMA, Workload, workloads

from capstan.core.gtid import GtidSet
from capstan.demo.mysql_install import NoMysqlServer, find_programs
from capstan.demo.mysql_server import MysqlServer

PEER = "mysql-replication"
TARGETS = {"bulk": 8.0, "single": 8.0}
RUN_SECONDS = 900


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


def main() -> int:
    """Run everything; 0 when every target that was measured in full is met."""
    options = _options()
    chosen = [
        workload
        for workload in workloads(0.05 if options.quick else 1.0)
        if not options.workload or workload.name in options.workload
    ]
    missed = []
    try:
        with _server() as server:
            for workload in chosen:
                medians = _measure(server, workload, options.repeat)
                _print_table(workload, medians)
                ratio = medians[PEER].seconds / medians["capstan"].seconds
                if ratio < TARGETS.get(workload.name, 0.0):
                    missed.append(workload.name)
    except NoMysqlServer as error:
        print(error, file=sys.stderr)
        return 2
    if options.quick:
        print("\nquick run: connecting weighs more than streaming, the ratios mean little")
        return 0
    for name in missed:
        print(f"\ntarget missed: {name} is to be at least {TARGETS[name]:g} times as fast")
    return 1 if missed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench", description="capstan beside mysql-replication on one server, in one run"
    )
    names = [workload.name for workload in workloads()]
    parser.add_argument("--quick", action="store_true", help="a twentieth of the data")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="runs of each (3)")
    parser.add_argument("--workload", action="append", choices=names, help="only this one")
    return parser.parse_args()


@contextlib.contextmanager
def _server() -> Iterator[MysqlServer]:
    programs = find_programs(announce=print)
    with tempfile.TemporaryDirectory(prefix="capstan-bench-") as folder:
        server = MysqlServer(programs, Path(folder), server_id=1)
        try:
            server.start()
            with contextlib.closing(server.connect()) as connection, connection.cursor() as cursor:
                cursor.execute(f"CREATE DATABASE {SCHEMA}")
            yield server
        finally:
            # Readers that broke off keep an orderly shutdown waiting.
            server.kill()


def _measure(server: MysqlServer, workload: Workload, repeat: int) -> dict[str, Median]:
    print(f"\n{workload.title}: writing", flush=True)
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
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("contenders.py")), name],
        input=json.dumps(attrs.asdict(task)),
        stdout=subprocess.PIPE,
        text=True,
        timeout=RUN_SECONDS,
        check=True,
    )
    result = Result(**json.loads(done.stdout))
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


if __name__ == "__main__":
    sys.exit(main())
