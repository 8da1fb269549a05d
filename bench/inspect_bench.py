"""`capstan inspect --transactions` beside `mysqlbinlog -vv`, on the files of the three workloads.

Owns: the files, which a real server writes here and now, the order of the runs, medians and ratios.
Both are whole processes, their start included, and take turns on the same file; what capstan counts
is compared with what was written. Python's bytecode is cached, as that of an installed package is:
a first run that is not measured sees to it. mysqlbinlog decodes and prints every row (to nowhere)
and checks no checksum; capstan checks every checksum, walks every row and prints counts.

    python bench/inspect_bench.py [--quick] [--repeat N]
"""

import argparse
import contextlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import attrs
from workloads import SCHEMA, Workload, workloads

from capstan.demo.mysql_install import MysqlPrograms, NoMysqlServer, find_programs
from capstan.demo.mysql_server import MysqlServer

_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
_BYTECODE = str(Path(tempfile.gettempdir(), "capstan-inspect-bytecode"))


@attrs.frozen
class Run:
    """One run of one program.

    Attributes:
        seconds: From its start to its end.
        cpu_seconds: Of all its processors.
        output: What it printed, when that was kept.
    """

    seconds: float
    cpu_seconds: float
    output: bytes


def main() -> int:
    """Measure all three; 0 when capstan is at least as fast on each, in a full run."""
    parser = argparse.ArgumentParser(prog="inspect_bench")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the data")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="runs of each (5)")
    options = parser.parse_args()
    slower = []
    try:
        programs = find_programs(announce=print)
    except NoMysqlServer as error:
        print(error, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="capstan-inspect-") as folder:
        chosen = workloads(0.05 if options.quick else 1.0)
        files = _files(programs, Path(folder), chosen)
        print(f"{'':<10}{'MiB':>8}{'mysqlbinlog':>16}{'capstan':>16}{'ratio':>8}{'CPU ratio':>11}")
        for workload, file in zip(chosen, files, strict=True):
            if _compare(programs, workload, file, options.repeat) < 1:
                slower.append(workload.name)
    for name in slower:
        print(f"capstan is slower on {name}")
    return 1 if slower and not options.quick else 0


def _files(programs: MysqlPrograms, folder: Path, chosen: Sequence[Workload]) -> list[Path]:
    """One binlog file a workload, holding its measured part alone."""
    files = []
    server = MysqlServer(programs, folder / "server", server_id=1)
    try:
        server.start()
        with contextlib.closing(server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {SCHEMA}")
            for workload in chosen:
                workload.prepare(connection)
                cursor.execute("FLUSH BINARY LOGS")
                workload.write(connection)
                cursor.execute("FLUSH BINARY LOGS")
                names = (server.data / "binlog.index").read_text(encoding="utf-8").split()
                files.append(folder / workload.name)
                shutil.copy(server.data / Path(names[-2]).name, files[-1])
    finally:
        server.kill()
    return files


def _compare(programs: MysqlPrograms, workload: Workload, file: Path, repeat: int) -> float:
    official = [
        *programs.mysqlbinlog,
        *("--no-defaults", "-vv", "--base64-output=DECODE-ROWS"),
        str(file),
    ]
    command = str(Path(sysconfig.get_path("scripts"), "capstan"))
    ours = [command, "inspect", "--transactions", "--format", "json", str(file)]
    _run(ours, keep=True)
    theirs, own = [], []
    for _ in range(repeat):
        theirs.append(_run(official, keep=False))
        own.append(_run(ours, keep=True))
    found = json.loads(own[-1].output)
    (counts,) = found["tables"].values()
    if (found["transactions"], sum(counts.values())) != (workload.transactions, workload.rows):
        raise AssertionError(f"{workload.name}: capstan counts {found}")
    seconds = [statistics.median(run.seconds for run in runs) for runs in (theirs, own)]
    cpu = [statistics.median(run.cpu_seconds for run in runs) for runs in (theirs, own)]
    ratio = seconds[0] / seconds[1]
    cells = [f"{seconds[place]:.3f} ({cpu[place]:.2f})" for place in (0, 1)]
    print(
        f"{workload.name:<10}{file.stat().st_size / (1 << 20):>8.1f}{cells[0]:>16}{cells[1]:>16}"
        f"{ratio:>8.2f}{cpu[0] / cpu[1]:>11.2f}",
        flush=True,
    )
    return ratio


def _run(arguments: list[str], *, keep: bool) -> Run:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        arguments,
        stdout=subprocess.PIPE if keep else subprocess.DEVNULL,
        env={
            **{name: each for name, each in os.environ.items() if name != _NO_BYTECODE},
            "PYTHONPYCACHEPREFIX": _BYTECODE,
            "TZ": "UTC",
        },
        check=True,
    )
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Run(seconds, cpu, done.stdout or b"")


if __name__ == "__main__":
    sys.exit(main())
