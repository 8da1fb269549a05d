"""What goes wrong with a capture leaves nothing behind and can be tried again, or is named."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.exact_views import ROOMY, before, name_in, opened, paged, view_for, view_of
from helpers.mysql import Database, PrivateServers, execute
from helpers.waiting import wait_until

from capstan.core.halts import Halted, HaltReason
from capstan.core.tables import TableName
from capstan.sources.base import CaptureMissed, LinkLost
from capstan.sources.exact_view import ExactView
from capstan.testing import TcpProxy

STEPS = (
    "LOCK TABLES",
    "SELECT @@GLOBAL.gtid_executed",
    "START TRANSACTION",
    "SELECT 1 FROM",
    "UNLOCK TABLES",
    "SHOW CREATE TABLE",
)
OURS = (
    "SELECT processlist_id FROM performance_schema.session_connect_attrs"
    " WHERE attr_name = 'program_name' AND attr_value = 'capstan'"
)


@pytest.fixture
def table(database: Database) -> TableName:
    """Table `t` with two rows."""
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    database.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
    return name_in(database)


def assert_nothing_is_held(database: Database) -> None:
    """No lock and no transaction of the view is left, and the table can be changed."""
    held = (
        "SELECT COUNT(*) FROM performance_schema.metadata_locks"
        " JOIN performance_schema.threads ON owner_thread_id = thread_id"
        f" WHERE object_schema = '{database.name}' AND processlist_id IN ({OURS})"
    )
    wait_until(lambda: database.execute(held) == [(0,)], what="the view's locks are gone")
    ((open_ones,),) = database.execute(
        f"SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id IN ({OURS})"
    )
    assert open_ones == 0
    database.execute("SET SESSION lock_wait_timeout = 2")
    database.execute("ALTER TABLE t COMMENT = 'changed'")


def kill(database: Database, which: int) -> None:
    """Kill one of the view's connections, the locker (0) or the reader (1)."""
    ids = sorted(row[0] for row in database.execute(OURS))[-2:]
    database.execute(f"KILL {ids[which]}")
    wait_until(lambda: (ids[which],) not in database.execute(OURS), what="the connection is gone")


# --- the lock -------------------------------------------------------------------------------------


@contextlib.contextmanager
def open_writer(database: Database) -> Iterator[Any]:
    """A connection with a transaction that has changed the table."""
    with contextlib.closing(database.connect()) as writer:
        execute(writer, "BEGIN")
        execute(writer, "UPDATE t SET v = v + 1 WHERE id = 1")
        yield writer


def test_a_lock_that_is_not_to_be_had_is_missed_within_its_bound(
    database: Database, table: TableName
) -> None:
    """R71, R83, R87: case 158; after the writer has ended the same view goes on."""
    with view_of(database) as view:
        with open_writer(database) as writer:
            for _ in range(2):
                with pytest.raises(CaptureMissed) as caught:
                    view.pin(table)
                assert (caught.value.table, caught.value.code) == (table, 1205)
                assert str(caught.value) == f"{table}, code 1205"
            execute(writer, "COMMIT")
        assert paged(view, table, 9) == [[(1, 2), (2, 2)]]
        assert_nothing_is_held(database)


def test_both_sessions_have_a_bound(database: Database, table: TableName) -> None:
    """D2: both sessions have a bound, not only the one that locks; the reader's is the least."""
    with view_of(database, lock_wait=7) as view:
        view.pin(table)
        view.release()
        timeouts = "SELECT variable_value FROM performance_schema.variables_by_thread JOIN"
        found = database.execute(
            f"{timeouts} performance_schema.threads USING (thread_id)"
            f" WHERE variable_name = 'lock_wait_timeout' AND processlist_id IN ({OURS})"
        )
    assert sorted(found) == [("1",), ("7",)]


# --- broken connections ---------------------------------------------------------------------------


def pin_and_read(view: ExactView, table: TableName) -> None:
    """One whole chunk."""
    view.pin(table)
    view.rows(None, 9, ROOMY)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("step", STEPS)
def test_a_connection_that_breaks_at_any_step_leaves_nothing(
    database: Database, table: TableName, step: str, which: int
) -> None:
    """D3, R87: a capture counts only whole; the next one is made on connections that live."""
    # Once the table is touched and let go, only the view itself can be lost.
    late = which == 1 and step in ("UNLOCK TABLES", "SHOW CREATE TABLE")
    with view_of(database) as view:
        before(view, step, lambda: kill(database, which))
        with pytest.raises(LinkLost if late else CaptureMissed):
            pin_and_read(view, table)
        assert_nothing_is_held(database)
        assert paged(view, table, 9) == [[(1, 1), (2, 2)]]


def test_connections_that_died_idle_are_replaced(database: Database, table: TableName) -> None:
    """R88: case 159; no chunk is lost by it."""
    with view_of(database) as view:
        assert paged(view, table, 9) == [[(1, 1), (2, 2)]]
        for (ours,) in database.execute(OURS):
            database.execute(f"KILL {ours}")
        wait_until(lambda: not database.execute(OURS), what="both connections are gone")
        assert paged(view, table, 9) == [[(1, 1), (2, 2)]]


def test_a_connection_that_breaks_among_the_rows_is_lost(database: Database) -> None:
    """R87: the view is gone with it, so its position is worth nothing."""
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB)")
    for place in range(40):
        database.execute("INSERT INTO t VALUES (%s, REPEAT('x', 1000000))", place)
    with TcpProxy(database.server.host, database.server.port) as proxy:
        view = view_for(database.server, [f"{database.name}.*"], source={"port": proxy.port})
        with opened(view):
            view.pin(name_in(database))
            proxy.delay(0.02)
            cutter = threading.Timer(0.1, proxy.cut)
            cutter.start()
            with pytest.raises(LinkLost):
                view.rows(None, 100, ROOMY)
            cutter.join()
            proxy.delay(0)
            assert_nothing_is_held(database)


# --- another server -------------------------------------------------------------------------------


def prepared(servers: PrivateServers) -> Any:
    """A server with one table of one row."""
    server = servers()
    with contextlib.closing(server.connect()) as connection:
        execute(connection, "CREATE DATABASE shop")
        execute(connection, "CREATE TABLE shop.t (id INT PRIMARY KEY)")
        execute(connection, "INSERT INTO shop.t VALUES (1)")
    return server


def test_a_moved_address_is_seen_at_every_connect(new_server: PrivateServers) -> None:
    """R153-R155: case 154; both connections reach one server, and so does every later one."""
    first, second = prepared(new_server), prepared(new_server)
    table = TableName("shop", "t")
    with TcpProxy(first.host, first.port) as proxy:
        view = view_for(first, ["shop.*"], source={"port": proxy.port})
        with contextlib.closing(view):
            assert view.open() == first.server_uuid.lower()
            assert paged(view, table, 9) == [[(1,)]]
            proxy.retarget(second.host, second.port)
            assert paged(view, table, 9) == [[(1,)]]
            proxy.cut()
            with pytest.raises(Halted) as caught:
                view.pin(table)
        halt = caught.value.halt
        assert halt.reason is HaltReason.SNAPSHOT_SOURCE_MISMATCH
        assert first.server_uuid in halt.detail
        assert second.server_uuid in halt.detail
        again = view_for(first, ["shop.*"], source={"port": proxy.port})
        with contextlib.closing(again):
            assert again.open() == second.server_uuid.lower()


def test_the_two_connections_must_reach_one_server(new_server: PrivateServers) -> None:
    """R153: an address that shares out between servers is refused at once."""
    first, second = prepared(new_server), prepared(new_server)
    with TcpProxy(first.host, first.port) as proxy:
        view = view_for(first, ["shop.*"], source={"port": proxy.port})
        before(view, "SELECT @@GLOBAL.server_uuid", lambda: None)
        connect = view._sessions._connect

        def elsewhere(role: Any) -> None:
            connect(role)
            proxy.retarget(second.host, second.port)

        view._sessions._connect = elsewhere  # type: ignore[method-assign]
        with contextlib.closing(view), pytest.raises(Halted) as caught:
            view.open()
    assert caught.value.halt.reason is HaltReason.SNAPSHOT_SOURCE_MISMATCH


def test_a_server_that_is_not_there_may_come_back(database: Database, table: TableName) -> None:
    """R87: what a later dial may cure is no halt."""
    with TcpProxy(database.server.host, database.server.port) as proxy:
        view = view_for(database.server, [f"{database.name}.*"], source={"port": proxy.port})
        with opened(view):
            proxy.refuse()
            proxy.cut()
            with pytest.raises(LinkLost):
                view.pin(table)
            proxy.refuse(False)
            assert paged(view, table, 9) == [[(1, 1), (2, 2)]]


# --- interrupts -----------------------------------------------------------------------------------


def test_an_interrupt_breaks_a_blocked_capture(database: Database, table: TableName) -> None:
    """R83: a stop does not wait for the lock; it is final."""
    view = view_for(database.server, [f"{database.name}.*"], lock_wait=60)
    with opened(view), open_writer(database):
        waiting = (
            "SELECT 1 FROM information_schema.processlist"
            f" WHERE info LIKE 'LOCK TABLES `{database.name}%'"
        )

        def interrupt() -> None:
            wait_until(lambda: database.execute(waiting), what="the lock is waited for")
            view.interrupt()

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(LinkLost):
            view.pin(table)
        thread.join()
        for ask in (view.pin, view.describe, view.estimate):
            with pytest.raises(LinkLost):
                ask(table)
        with pytest.raises(LinkLost):
            view.tables()


def test_rows_need_a_pinned_view(database: Database, table: TableName) -> None:
    """D3: a view is read once, and a released one never."""
    with view_of(database) as view:
        view.pin(table)
        view.rows(None, 1, ROOMY)
        with pytest.raises(RuntimeError):
            view.rows(None, 1, ROOMY)
        view.pin(table)
        view.release()
        view.release()
        with pytest.raises(RuntimeError):
            view.rows(None, 1, ROOMY)
        assert_nothing_is_held(database)


def test_a_closed_view_has_given_everything_up(database: Database, table: TableName) -> None:
    """R87: also while it is pinned, and twice."""
    view = view_for(database.server, [f"{database.name}.*"])
    view.close()
    pinned: ExactView = view_for(database.server, [f"{database.name}.*"])
    pinned.open()
    pinned.pin(table)
    pinned.close()
    pinned.close()
    pinned.interrupt()
    assert_nothing_is_held(database)


@pytest.mark.parametrize("code", ["undecodable", "gone"])
def test_what_cannot_be_read_is_named(database: Database, table: TableName, code: str) -> None:
    """D27, R164: bytes that are no text halt by the column's name, other faults by their code."""
    with view_of(database) as view:
        if code == "undecodable":
            database.execute("ALTER TABLE t ADD w VARCHAR(9) CHARACTER SET gbk")
            database.execute("INSERT INTO t VALUES (3, 3, x'a2ab')")
            reason = HaltReason.UNDECODABLE_TEXT
        view.pin(table)
        if code == "gone":
            view._known[table].pages._head = "SELECT nothing FROM t"
            reason = HaltReason.SNAPSHOT_CHUNK_READ_FAILED
        with pytest.raises(Halted) as caught:
            view.rows(None, 9, ROOMY)
        assert caught.value.halt.reason is reason
        assert_nothing_is_held(database)
