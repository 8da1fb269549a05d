"""The benchmark runs: a small one from end to end, as `make bench` starts it."""

import subprocess
import sys
from pathlib import Path

from capstan.demo.mysql_install import MysqlPrograms

_ROOT = Path(__file__).parents[2]


def test_a_quick_benchmark_measures_every_contender(mysql_programs: MysqlPrograms) -> None:
    """Each contender sees every row, and the table has a line for each."""
    done = subprocess.run(
        [sys.executable, "bench", "--quick", "--repeat", "1", "--workload", "single"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]
    for contender in ("capstan ", "capstan, TLS", "mysql-replication ", "mysql-replication, TLS"):
        assert any(line.startswith(contender) for line in lines), contender
    assert any("the ratios mean little" in line for line in lines)
