"""DDL, backups, frozen and cut-off clients at the worst moments: exact, and never in the way."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from helpers import frozen_capture
from helpers.exact_views import ROOMY, before, name_in, opened, paged, view_for, view_of, without
from helpers.mysql import Database, PrivateServers, execute, fresh_database
from helpers.waiting import wait_until

from capstan.core.tables import TableName
from capstan.sources.base import CaptureMissed
from capstan.testing import TcpProxy

LOCK_WAIT = 1
PATIENCE = 5
"""Seconds after which the server itself frees the table of a silent session (D2)."""
SLACK = 3.0
"""For a busy machine."""


class Background:
    """One statement in a thread of its own, on a connection of its own."""

    def __init__(self, database: Database, *statements: str) -> None:
        self._connection = database.connect()
        self._statements = statements
        self._thread = threading.Thread(target=self._run)
        self.number = self._connection.thread_id()
        self.seconds = 0.0
        self.error: Exception | None = None

    def start(self) -> "Background":
        """Begin."""
        self._thread.start()
        return self

    def _run(self) -> None:
        begun = time.monotonic()
        try:
            for statement in self._statements:
                execute(self._connection, statement)
                self.seconds = self.seconds or time.monotonic() - begun
        except pymysql.MySQLError as error:
            self.error = error

    def join(self) -> None:
        """Wait for the end; a failure is the test's."""
        self._thread.join(60)
        self._connection.close()
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def await_queued(self, database: Database) -> None:
        """Wait until the statement waits for somebody else's lock."""
        state = f"SELECT state FROM information_schema.processlist WHERE id = {self.number}"
        wait_until(
            lambda: [1 for (text,) in database.execute(state) if text.startswith("Waiting for")],
            what="the statement queues",
        )


@pytest.fixture
def table(database: Database) -> TableName:
    """Tables `t` and `other`, alike, with different rows."""
    for name, first in (("t", 1), ("other", 100)):
        database.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)")
        database.execute(f"INSERT INTO {name} VALUES ({first}, {first}), ({first + 1}, {first})")
    return name_in(database)


ROWS = [(1, 1), (2, 1)]


# --- between LOCK and touch -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE t ADD w INT",),
        ("FLUSH TABLES",),
        ("FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES"),
    ],
)
def test_what_queues_between_lock_and_touch_is_let_through(
    new_server: PrivateServers, statements: tuple[str, ...]
) -> None:
    """D2: the dead-lock through the client ends by the touch's bound; nobody waits for longer."""
    with fresh_database(new_server()) as database:
        database.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        database.execute("INSERT INTO t VALUES (1, 1), (2, 1)")
        blocker = Background(database, *statements)
        writer = Background(database, "INSERT INTO t (id, v) VALUES (3, 1)")

        def fire() -> None:
            blocker.start().await_queued(database)
            writer.start().await_queued(database)

        with view_of(database, lock_wait=LOCK_WAIT) as view:
            before(view, "SELECT 1 FROM", fire)
            with pytest.raises(CaptureMissed) as caught:
                view.pin(name_in(database))
            assert caught.value.code == 1205
            blocker.join()
            writer.join()
            assert writer.seconds < LOCK_WAIT + SLACK
            (rows,) = paged(view, name_in(database), 9)
            assert [row[:2] for row in rows] == [(1, 1), (2, 1), (3, 1)]


@contextlib.contextmanager
def timed_write(database: Database) -> Iterator[Callable[[], float]]:
    """A write that begins now; the function waits for its end and tells the seconds."""
    writer = Background(database, "INSERT INTO t (id, v) VALUES (3, 1)").start()

    def seconds() -> float:
        writer.join()
        return writer.seconds

    yield seconds


def test_a_frozen_capture_does_not_hold_the_table(database: Database, table: TableName) -> None:
    """D2: SIGSTOP between LOCK and touch: the server itself ends the silent session."""
    server = database.server
    address = [server.host, str(server.port), server.user, server.password]
    process = subprocess.Popen(
        [sys.executable, str(Path(frozen_capture.__file__)), *address, str(table)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    with process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        with timed_write(database) as seconds:
            waited = seconds()
        process.send_signal(signal.SIGCONT)
        said, _ = process.communicate(timeout=60)
    assert waited > 1, "the table was locked when the process froze"
    assert waited < PATIENCE + SLACK
    assert said.split() == ["missed", "captured"]


@pytest.mark.parametrize("step", ["SELECT 1 FROM", "SELECT @@GLOBAL.gtid_executed", "UNLOCK"])
def test_a_half_open_link_does_not_hold_the_table(
    database: Database, table: TableName, step: str
) -> None:
    """D2: nothing arrives any more in either direction; the server frees the table."""
    with TcpProxy(database.server.host, database.server.port) as proxy:
        view = view_for(
            database.server, [f"{database.name}.*"], source={"port": proxy.port}, lock_wait=1
        )
        with opened(view), contextlib.ExitStack() as stack:
            writes: list[Any] = []

            def freeze() -> None:
                proxy.freeze()
                writes.append(stack.enter_context(timed_write(database)))

            before(view, step, freeze)
            with pytest.raises(CaptureMissed):
                view.pin(table)
            waited = writes[0]()
            assert waited < PATIENCE + SLACK
            proxy.thaw()
            assert paged(view, table, 9) == [[*ROWS, (3, 1)]]


def test_a_frozen_reader_does_not_hold_a_ddl(database: Database, table: TableName) -> None:
    """D2: whoever freezes while a view is pinned loses it, and a DDL goes on."""
    with view_of(database) as view:
        view.pin(table)
        ddl = Background(database, "ALTER TABLE t ADD w INT").start()
        ddl.join()
        assert ddl.seconds < PATIENCE + SLACK


# --- between capture and rows ---------------------------------------------------------------------

CHANGES = {
    "swap": "RENAME TABLE t TO s, other TO t",
    "alter": "ALTER TABLE t DROP v, ADD u INT",
    "instant": "ALTER TABLE t ADD u INT FIRST, ALGORITHM = INSTANT",
    "rebuild": "ALTER TABLE t ENGINE = InnoDB",
    "truncate": "TRUNCATE TABLE t",
    "partition": "ALTER TABLE t TRUNCATE PARTITION ALL",
    "exchange": "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE other",
    "drop": "DROP TABLE t",
}


def prepare(database: Database, case: str) -> None:
    """Partitions where the case needs them."""
    if case in ("partition", "exchange"):
        database.execute(
            "ALTER TABLE t PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (999))"
        )


@pytest.mark.parametrize("case", CHANGES)
def test_a_ddl_behind_the_capture_waits_for_the_rows(
    database: Database, table: TableName, case: str
) -> None:
    """D1: cases 150-152: no foreign and no missing row, whatever is fired before the SELECT."""
    prepare(database, case)
    with view_of(database) as view:
        pinned = view.pin(table)
        ddl = Background(database, CHANGES[case]).start()
        ddl.await_queued(database)
        chunk = view.rows(None, 9, ROOMY)
        ddl.join()
        assert (chunk.rows, chunk.more) == (ROWS, False)
        assert pinned.facts.shape.names == ("id", "v")


@pytest.mark.parametrize(
    "statements",
    [("FLUSH TABLES",), ("FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES"), ("ANALYZE TABLE t",)],
)
def test_what_does_not_wait_for_the_rows_does_not_touch_them(
    new_server: PrivateServers, statements: tuple[str, ...]
) -> None:
    """D1: a backup's locks and flushes behind the capture change nothing and are not held up."""
    with fresh_database(new_server()) as database:
        database.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        database.execute("INSERT INTO t VALUES (1, 1), (2, 1)")
        with view_of(database) as view:
            view.pin(name_in(database))
            Background(database, *statements).start().join()
            Background(database, "DELETE FROM t").start().join()
            assert view.rows(None, 9, ROOMY).rows == ROWS


def test_without_the_touch_a_swap_shows_the_other_table(
    database: Database, table: TableName
) -> None:
    """D1: case 152: what the touch is good for."""
    with view_of(database) as view:
        without(view, "SELECT 1 FROM")
        view.pin(table)
        Background(database, CHANGES["swap"]).start().join()
        assert view.rows(None, 9, ROOMY).rows == [(100, 100), (101, 100)]
