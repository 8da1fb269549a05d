"""The demonstration itself, short: its proof, its halts, and what it leaves behind: nothing."""

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from helpers.mysql import PrivateServers, execute
from helpers.waiting import wait_until
from pymysql.connections import Connection

from capstan.core.tables import CaptureList
from capstan.demo import run
from capstan.demo.compare import Comparison, compare
from capstan.demo.demo_source import DemoSource
from capstan.demo.display import Progress
from capstan.demo.mysql_access import DSN_VARIABLE, SqlServer
from capstan.demo.mysql_install import MysqlPrograms
from capstan.demo.process_control import PipelineEndedError, PipelineProcess
from capstan.demo.run import Plan

ARTICLES = 20_000
"""Rows to backfill: several chunks of them, and soon there."""
_CHILD = (
    "import sys; from capstan.demo.run import main; "
    f"sys.exit(main(articles={ARTICLES}, seconds=60.0, seed=1))"
)


class Notes:
    """A display that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.progress: list[Progress] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def show(self, progress: Progress) -> None:
        self.progress.append(progress)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where temporary folders are made."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def processes_of(folder: Path) -> list[int]:
    """Processes that have this folder in their arguments."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if os.fsencode(folder) in entry.read_bytes():
                found.append(int(entry.parent.name))
    return found


def test_the_mirror_is_identical_after_kills(
    mysql_programs: MysqlPrograms, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R31, D12: SIGKILL at random moments loses nothing and repeats nothing; nothing is left."""
    monkeypatch.delenv(DSN_VARIABLE, raising=False)
    notes = Notes()
    assert run.main(articles=ARTICLES, seconds=6.0, seed=11, display=notes) == run.EXIT_PROVEN, (
        notes.lines
    )
    assert "mirror identical: yes" in notes.lines
    assert "delivered twice: 0" in notes.lines
    assert notes.progress[-1].backfilled >= ARTICLES * 0.9
    assert notes.progress[-1].restarts >= 3
    assert notes.progress[-1].transactions > 100
    assert list(folder.iterdir()) == []
    assert processes_of(folder) == []


def test_a_row_that_is_missing_fails_the_demonstration(
    mysql_programs: MysqlPrograms, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof can fail: a mirror that lost one row gives exit status 1, with the table's name."""

    def lose_a_row(connection: "Connection[Any]", capture: CaptureList, mirror: Path) -> Comparison:
        with contextlib.closing(sqlite3.connect(mirror)) as target, target:
            target.execute('DELETE FROM "shop.board" WHERE place = 1')
            target.execute('INSERT INTO "shop.board" VALUES (-1, 0, NULL)')
        return compare(connection, capture, mirror)

    monkeypatch.delenv(DSN_VARIABLE, raising=False)
    monkeypatch.setattr(run, "compare", lose_a_row)
    notes = Notes()
    assert run.main(articles=ARTICLES, seconds=1.0, seed=2, display=notes) == run.EXIT_FAILED
    assert notes.lines[-3].startswith("  shop.board: ")
    assert "1 extra" in notes.lines[-3]
    assert notes.lines[-2] == "mirror identical: no"


def test_a_halted_pipeline_ends_the_demonstration(
    mysql_programs: MysqlPrograms, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R55: exit status 3 and the reason, and everything is gone all the same."""

    def admit_without_rights(source: DemoSource) -> None:
        with contextlib.closing(source.server.connect()) as connection:
            execute(
                connection, "CREATE USER %s@'%%' IDENTIFIED BY %s", source.user, source.password
            )

    monkeypatch.delenv(DSN_VARIABLE, raising=False)
    monkeypatch.setattr(DemoSource, "admit", admit_without_rights)
    notes = Notes()
    assert run.main(articles=ARTICLES, seconds=20.0, seed=2, display=notes) == 3
    assert any(line.startswith("pipeline halted: privilege_missing") for line in notes.lines)
    assert list(folder.iterdir()) == []
    assert processes_of(folder) == []


def test_a_server_named_by_the_environment_is_left_as_it_was(
    new_server: PrivateServers, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A borrowed server's past is not read, and account and databases are gone afterwards."""
    server = new_server()
    with contextlib.closing(server.connect()) as connection:
        execute(connection, "CREATE USER boss@'%' IDENTIFIED BY 'secret'")
        execute(connection, "GRANT ALL ON *.* TO boss@'%' WITH GRANT OPTION")
        execute(connection, "CREATE DATABASE earlier")
        execute(connection, "FLUSH BINARY LOGS")
        last, *_ = execute(connection, "SHOW BINARY LOGS")[-1]
        execute(connection, f"PURGE BINARY LOGS TO '{last}'")
        before = state(server)
        monkeypatch.setenv(DSN_VARIABLE, f"mysql://boss:secret@{server.host}:{server.port}")
        notes = Notes()
        assert run.main(articles=ARTICLES, seconds=2.0, seed=5, display=notes) == run.EXIT_PROVEN, (
            notes.lines
        )
        assert state(server) == before


def state(server: SqlServer) -> list[tuple[str, ...]]:
    """Accounts and databases."""
    with contextlib.closing(server.connect()) as connection:
        return [
            *execute(connection, "SELECT User FROM mysql.user ORDER BY User"),
            *execute(connection, "SHOW DATABASES"),
        ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demonstration_cleans_up(
    mysql_programs: MysqlPrograms, tmp_path: Path, number: signal.Signals
) -> None:
    """Ctrl-C in the middle ends server, pipeline and folder with the demonstration."""
    environment = {k: v for k, v in os.environ.items() if k != DSN_VARIABLE}
    out = tmp_path / "out"
    room = tmp_path / "room"
    room.mkdir()
    with out.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", _CHILD],
            env=environment | {"TMPDIR": str(room)},
            stdout=stream,
            stderr=stream,
        )
    try:
        wait_until(
            lambda: re.search(r"[1-9]\d* mirrored", out.read_text("utf-8")),
            timeout=60.0,
            what="transactions in the mirror",
        )
        wait_until(
            lambda: len(processes_of(room)) >= 2,  # one alone: the pipeline lies between two lives
            timeout=60.0,
            what="server and pipeline at once",
        )
        process.send_signal(number)
        assert process.wait(30.0) == run.EXIT_INTERRUPTED
    finally:
        process.kill()
        process.wait()
    assert "cleaned up" in out.read_text("utf-8")
    assert list(room.iterdir()) == []
    assert processes_of(room) == []


def test_no_server_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a server there is nothing to show."""
    monkeypatch.setenv(DSN_VARIABLE, "nonsense")
    notes = Notes()
    assert run.main(articles=ARTICLES, seconds=1.0, display=notes) == run.EXIT_NO_SERVER
    assert len(notes.lines) == 1
    assert list(folder.iterdir()) == []


def test_the_kills_are_spread_over_the_workload() -> None:
    """One random moment in each part, the same for the same seed."""
    moments = Plan(seconds=20.0, seed=1).kill_moments()
    assert [int(moment // 5) for moment in moments] == [0, 1, 2, 3]
    assert moments == Plan(seconds=20.0, seed=1).kill_moments()
    assert moments != Plan(seconds=20.0, seed=2).kill_moments()


# -- the pipeline's process ------------------------------------------------------------------------


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[PipelineProcess]:
    """A process whose configuration the test writes."""
    process = PipelineProcess(
        config=tmp_path / "demo.toml", log=tmp_path / "log", errors=tmp_path / "errors"
    )
    with process:
        yield process


def write_configuration(folder: Path, server: SqlServer, user: str) -> None:
    (folder / "demo.toml").write_text(
        f'tables = ["nothing.*"]\n[source]\nhost = "{server.host}"\nport = {server.port}\n'
        f'user = "{user}"\npassword = "secret"\nserver_id = 4711\n'
        '[store]\nkind = "sqlite"\npath = "state.db"\n'
        '[sink]\nkind = "sqlite"\npath = "mirror.db"\n',
        encoding="utf-8",
    )


def opened(log: Path, times: int) -> bool:
    """Whether the mirror was opened so many times."""
    return log.read_text("ascii").count("open") == times


def ended(pipeline: PipelineProcess) -> PipelineEndedError:
    """How the process ended."""

    def look() -> PipelineEndedError | None:
        try:
            pipeline.check()
        except PipelineEndedError as end:
            return end
        return None

    end = wait_until(look, timeout=30.0, what="the end of the pipeline's process")
    assert end is not None
    return end


def test_a_halt_of_the_pipeline_is_told_with_its_reason(
    new_server: PrivateServers, pipeline: PipelineProcess, tmp_path: Path
) -> None:
    """R55: reason, detail and remedy come through, and exit code 3."""
    server = new_server()
    with contextlib.closing(server.connect()) as connection:
        execute(connection, "CREATE USER weak@'%' IDENTIFIED BY 'secret'")
    write_configuration(tmp_path, server, "weak")
    pipeline.start()
    end = ended(pipeline)
    assert end.code == 3
    assert end.lines[0].startswith("pipeline halted: privilege_missing: ")
    assert end.lines[-1].startswith("remedy: ")
    assert "secret" not in str(end)


def test_a_refused_configuration_is_told(pipeline: PipelineProcess, tmp_path: Path) -> None:
    """Exit code 2, with the option's name."""
    (tmp_path / "demo.toml").write_text("tables = []\nnonsense = 1\n", encoding="utf-8")
    pipeline.start()
    end = ended(pipeline)
    assert end.code == 2
    assert "nonsense" in str(end)


def test_a_crash_shows_its_last_lines(
    mysql_server: SqlServer, pipeline: PipelineProcess, tmp_path: Path
) -> None:
    """Anything but a halt or a refusal is exit code 1 with what was on standard error."""
    write_configuration(tmp_path, mysql_server, "nobody")
    (tmp_path / "errors").write_text("last words\n", encoding="utf-8")
    pipeline.start()
    assert pipeline._process is not None
    os.kill(pipeline._process.pid, signal.SIGKILL)
    end = ended(pipeline)
    assert end.code == 1
    assert end.lines == ("pipeline ended with code -9:", "last words")


def test_sigterm_is_a_stop_in_good_order(
    new_server: PrivateServers, pipeline: PipelineProcess, tmp_path: Path
) -> None:
    """A pipeline that streams ends with exit code 0, and one that was killed can start again."""
    server = new_server()
    with contextlib.closing(server.connect()) as connection:
        execute(connection, "CREATE USER repl@'%' IDENTIFIED BY 'secret'")
        execute(connection, "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO repl@'%'")
        write_configuration(tmp_path, server, "repl")
    log = tmp_path / "log"
    log.touch()
    for lives in (1, 2, 3):
        pipeline.start()
        wait_until(partial(opened, log, lives), timeout=30.0, what="an opened mirror")
        if lives < 3:
            pipeline.kill()
    pipeline.stop(30.0)
    pipeline.check()
