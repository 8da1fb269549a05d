"""The benchmark runs: a small one from end to end, as `make bench` starts it."""

import subprocess
import sys
from pathlib import Path

from capstan.demo.mysql_install import MysqlPrograms

_ROOT = Path(__file__).parents[2]


def quick(*options: str) -> list[str]:
    """The lines that a small benchmark prints."""
    done = subprocess.run(
        [sys.executable, "bench", "--quick", "--repeat", "1", "--workload", "single", *options],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert any("the ratios mean little" in line for line in lines)
    return lines


DECODERS = ("capstan ", "mysql-replication ", "mysqlbinlog -vv ", "the same, rows only ")
STREAMS = ("capstan ", "capstan, TLS", "mysql-replication ", "mysql-replication, TLS")


def test_a_quick_benchmark_measures_every_contender(mysql_programs: MysqlPrograms) -> None:
    """Each contender sees every row, and both tables have a line for each."""
    lines = quick()
    for contender in (*DECODERS, *STREAMS):
        wanted = (contender in DECODERS) + (contender in STREAMS)
        assert sum(line.startswith(contender) for line in lines) == wanted, contender


def test_decoding_is_measured_alone_when_nothing_else_is_asked(
    mysql_programs: MysqlPrograms,
) -> None:
    """`--decode-only` starts no pipeline."""
    lines = quick("--decode-only")
    assert all(any(line.startswith(contender) for line in lines) for contender in DECODERS)
    assert not any("TLS" in line for line in lines)
