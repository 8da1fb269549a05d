"""The triple (position, view, table) is exact: nothing of the table is ahead of it or behind."""

import contextlib
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import counting_writer
from helpers.exact_views import ROOMY, opened, view_for
from helpers.mysql import PrivateServers, execute
from helpers.waiting import wait_until

from capstan.core.gtid import GtidSet
from capstan.core.tables import TableName
from capstan.demo.mysql_server import MysqlServer
from capstan.sources.base import CaptureMissed
from capstan.sources.exact_view import ExactView
from capstan.sources.sql_text import lock
from capstan.sources.view_sessions import Role

WRITERS = 4
TABLE = TableName("shop", "t")


@contextlib.contextmanager
def writing(server: MysqlServer) -> Iterator[None]:
    """Processes that commit one-row updates as fast as they can."""
    address = [server.host, str(server.port), server.user, server.password, str(TABLE)]
    program = str(Path(counting_writer.__file__))
    processes = [
        subprocess.Popen(
            [sys.executable, program, *address, str(row)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for row in range(WRITERS)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline(), "a writer ended before it wrote"
        yield
    finally:
        for process in processes:
            process.communicate()
            assert process.returncode == 0


def counters(server: MysqlServer) -> GtidSet:
    """Make the table of counters; what the server has executed then."""
    with contextlib.closing(server.connect()) as connection:
        execute(connection, "CREATE DATABASE shop")
        execute(connection, f"CREATE TABLE {TABLE} (id INT PRIMARY KEY, n BIGINT NOT NULL)")
        rows = ",".join(f"({row},0)" for row in range(WRITERS))
        execute(connection, f"INSERT INTO {TABLE} VALUES {rows}")
        ((text,),) = execute(connection, "SELECT @@GLOBAL.gtid_executed")
    return GtidSet.parse(text)


def deviation(view: ExactView, base: GtidSet) -> int:
    """How many transactions the view of one capture is ahead of its position."""
    position = view.pin(TABLE).position
    seen = sum(n for _, n in view.rows(None, 9, ROOMY).rows)
    return seen - (position - base).count()


class OneConnection(ExactView):
    """The order of R70 on one connection: its own transaction gives the lock up too early."""

    def _capture(self, table: TableName) -> tuple[str, float]:
        self._sessions.ask(Role.READER, lock(table))
        ((text,),) = self._sessions.ask(Role.READER, "SELECT @@GLOBAL.gtid_executed")
        self._sessions.ask(Role.READER, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        self._sessions.ask(Role.READER, "UNLOCK TABLES")
        # As a text, because the reader's results come as they are.
        return bytes(text).decode() if isinstance(text, bytes) else text, 0.0


class Bare(ExactView):
    """The position read before the view, without any lock."""

    def _capture(self, table: TableName) -> tuple[str, float]:
        ((text,),) = self._sessions.ask(Role.LOCKER, "SELECT @@GLOBAL.gtid_executed")
        self._sessions.ask(Role.READER, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        return text, 0.0


def assert_exact(server: MysqlServer, captures: int) -> None:
    """So many captures in a row are exact while others write."""
    base = counters(server)
    with writing(server), opened(view_for(server, [str(TABLE)])) as view:
        found = Counter(deviation(view, base) for _ in range(captures))
        last = view.pin(TABLE).position
    assert found == {0: captures}
    assert (last - base).count() > captures


def test_captures_under_writers_are_exact(new_server: PrivateServers) -> None:
    """D1, R84: 0 ahead, 0 behind; short form."""
    assert_exact(new_server(), 150)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_two_thousand_captures_under_writers_are_exact(new_server: PrivateServers) -> None:
    """D1, R84: 0 ahead, 0 behind in 2,000 captures."""
    assert_exact(new_server(options={"sync_binlog": 1}), 2000)


@pytest.mark.parametrize("kind", [OneConnection, Bare])
def test_other_orders_run_ahead(new_server: PrivateServers, kind: type[ExactView]) -> None:
    """D1, R85-R86: the same measure shows what the two connections and the lock are good for."""
    server = new_server()
    base = counters(server)
    with writing(server), opened(view_for(server, [str(TABLE)], kind=kind)) as view:
        wait_until(lambda: deviation(view, base) > 0, timeout=60, what="a view ahead of G")


# --- commits that are in the log long before they are visible -------------------------------------


def one_more(connection: Any, row: int) -> None:
    """Add one to a row without waiting for the answer."""
    connection._execute_command(3, f"UPDATE {TABLE} SET n = n + 1 WHERE id = {row}")


def test_a_commit_that_waits_for_a_replica_is_waited_for(new_server: PrivateServers) -> None:
    """D1, R84: in the binary log, not in gtid_executed, not visible: the lock waits for it."""
    server = new_server()
    base = counters(server)
    with contextlib.ExitStack() as stack:
        control, *writers = (
            stack.enter_context(contextlib.closing(server.connect())) for _ in range(1 + WRITERS)
        )
        execute(control, "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
        execute(control, "SET GLOBAL rpl_semi_sync_source_wait_no_replica = ON")
        execute(control, "SET GLOBAL rpl_semi_sync_source_timeout = 600000")
        view = stack.enter_context(opened(view_for(server, [str(TABLE)])))
        exact = missed = 0
        for turn in range(3):
            execute(control, "SET GLOBAL rpl_semi_sync_source_enabled = ON")
            ((size,),) = {row[1:2] for row in execute(control, "SHOW BINARY LOG STATUS")}
            for row, writer in enumerate(writers):
                one_more(writer, row)
            wait_until(
                lambda size=size: execute(control, "SHOW BINARY LOG STATUS")[0][1] > size,
                what="the commits are in the log",
            )
            with pytest.raises(CaptureMissed) as caught:
                view.pin(TABLE)
            assert caught.value.code == 1205
            missed += 1
            execute(control, "SET GLOBAL rpl_semi_sync_source_enabled = OFF")
            for writer in writers:
                writer._read_query_result()
            assert deviation(view, base) == 0
            exact += 1
            assert sum(n for _, n in rows_of(view)) == WRITERS * (turn + 1)
    assert (exact, missed) == (3, 3)


def rows_of(view: ExactView) -> list[tuple[Any, ...]]:
    """The counters now."""
    view.pin(TABLE)
    return view.rows(None, 9, ROOMY).rows


def test_captures_between_commits_that_wait_are_exact(new_server: PrivateServers) -> None:
    """D1, R84: under AFTER_SYNC with a short patience, writers running, every capture is exact."""
    server = new_server()
    base = counters(server)
    with contextlib.closing(server.connect()) as control:
        execute(control, "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
        execute(control, "SET GLOBAL rpl_semi_sync_source_wait_no_replica = ON")
        execute(control, "SET GLOBAL rpl_semi_sync_source_timeout = 50")
        execute(control, "SET GLOBAL rpl_semi_sync_source_enabled = ON")
        with writing(server), opened(view_for(server, [str(TABLE)])) as view:
            found: Counter[int] = Counter()
            deadline = time.monotonic() + 100
            while found.total() < 20:
                assert time.monotonic() < deadline, "no captures between the commits"
                with contextlib.suppress(CaptureMissed):
                    found[deviation(view, base)] += 1
                # The server gives semi-sync up after the first timeout; again, then.
                execute(control, "SET GLOBAL rpl_semi_sync_source_enabled = OFF")
                execute(control, "SET GLOBAL rpl_semi_sync_source_enabled = ON")
    assert found == {0: 20}
