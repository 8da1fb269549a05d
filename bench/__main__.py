"""The benchmark: capstan beside its peers, on one server, in one run.

Owns: the server and what is run. Every figure that is printed was measured here and now; a ratio
compares runs that alternated on the same data. Each run is a fresh process, so that no contender
warms or clutters another one's memory.

    python bench [--decode-only | --snapshot] [--quick] [--repeat N] [--workload NAME …]
"""

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from decoding import measure_decoding
from snapshot_bench import CHUNK_SIZE, SNAPSHOT_ROWS, measure_snapshot
from streaming import measure_streaming
from workloads import SCHEMA, workloads

from capstan.demo.mysql_install import NoMysqlServer, find_programs
from capstan.demo.mysql_server import MysqlServer


def main() -> int:
    """Run everything; 0 when every bar that was measured in full is met."""
    options = _options()
    chosen = [
        workload
        for workload in workloads(0.05 if options.quick else 1.0)
        if not options.workload or workload.name in options.workload
    ]
    parts = [measure_decoding] if options.decode_only else [measure_decoding, measure_streaming]
    missed: list[str] = []
    # Ratios to programs in other languages depend on how the interpreter was built.
    print(f"Python {' '.join(sys.version.split())}")
    try:
        with _server() as server:
            for measure in [] if options.snapshot else parts:
                for workload in chosen:
                    missed += measure(server, workload, options.repeat)
            if not options.decode_only:
                rows = SNAPSHOT_ROWS // 20 if options.quick else SNAPSHOT_ROWS
                missed += measure_snapshot(server, rows, options.repeat, CHUNK_SIZE)
    except NoMysqlServer as error:
        print(error, file=sys.stderr)
        return 2
    if options.quick:
        print("\nquick run: connecting and warming up weigh more than work, the ratios mean little")
        return 0
    for sentence in missed:
        print(f"\nbar missed: {sentence}")
    return 1 if missed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench", description="capstan beside its peers on one server, in one run"
    )
    names = [workload.name for workload in workloads()]
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--decode-only", action="store_true", help="files only, no streams")
    only.add_argument("--snapshot", action="store_true", help="the backfill only")
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


if __name__ == "__main__":
    sys.exit(main())
