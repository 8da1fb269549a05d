"""A real server, driven the way the demonstration and the tests drive it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from helpers.mysql import Database, PrivateServers, execute, gtid_executed
from helpers.waiting import wait_until

from capstan.demo import mysql_server as own_server
from capstan.demo.mysql_access import DSN_VARIABLE, SqlServer, external_server
from capstan.demo.mysql_install import MysqlPrograms, NoMysqlServer
from capstan.demo.mysql_server import MysqlServer
from capstan.demo.mysql_template import MysqlServerError


@pytest.fixture(scope="module")
def one_server(mysql_programs: MysqlPrograms) -> Iterator[MysqlServer]:
    """A private server that several tests of this file may kill and restart in turn."""
    with closing(PrivateServers(mysql_programs)) as servers:
        yield servers()


def test_a_test_database_is_empty_and_selected(database: Database) -> None:
    """Each test's database starts without tables, under its own name."""
    assert database.execute("SELECT DATABASE()") == [(database.name,)]
    assert database.execute("SHOW TABLES") == []
    with closing(database.connect()) as second:
        assert execute(second, "SELECT DATABASE()") == [(database.name,)]


def test_a_fresh_server_writes_a_full_binlog_from_an_empty_history(
    new_server: PrivateServers,
) -> None:
    """What the pipeline's preflight asks for is set, and no transaction has been executed yet."""
    server = new_server(server_id=4711)
    with closing(server.connect()) as connection:
        assert gtid_executed(connection) == ""
        assert execute(
            connection,
            "SELECT @@server_id, @@server_uuid, @@version, @@gtid_mode, @@binlog_format,"
            " @@binlog_row_image, @@binlog_row_metadata",
        ) == [(4711, server.server_uuid, server.version, "ON", "ROW", "FULL", "FULL")]


def test_a_killed_server_comes_back_as_itself(one_server: MysqlServer) -> None:
    """After SIGKILL and a start: same port, same server_uuid, every committed row, history kept."""
    server = one_server
    before = (server.port, server.server_uuid)
    with closing(server.connect()) as connection:
        execute(connection, "CREATE DATABASE d")
        execute(connection, "CREATE TABLE d.t (id INT PRIMARY KEY)")
        execute(connection, "INSERT INTO d.t VALUES (1), (2)")
        history = gtid_executed(connection)
    server.kill()
    assert not server.running
    server.start()
    assert (server.port, server.server_uuid) == before
    with closing(server.connect()) as connection:
        assert execute(connection, "SELECT id FROM d.t ORDER BY id") == [(1,), (2,)]
        assert gtid_executed(connection) == history


def test_a_restart_applies_changed_options(one_server: MysqlServer) -> None:
    """Options set between a stop and a start hold from that start on; None takes one away."""
    port = one_server.port
    one_server.options["binlog_row_metadata"] = None
    one_server.restart()
    assert one_server.port == port
    with closing(one_server.connect()) as connection:
        assert execute(connection, "SELECT @@binlog_row_metadata") == [("MINIMAL",)]


def test_two_servers_are_strangers_and_deep_folders_are_no_obstacle(
    one_server: MysqlServer, mysql_programs: MysqlPrograms, tmp_path: Path
) -> None:
    """Copies of one template differ in port and server_uuid; a long path moves only the socket."""
    first = one_server
    with MysqlServer(mysql_programs, tmp_path / ("deep" * 30), server_id=2) as second:
        assert second.socket.is_socket()
        assert len(os.fsencode(second.socket)) < 107
        assert second.port != first.port
        assert second.server_uuid != first.server_uuid
        with closing(second.connect(host="localhost", unix_socket=str(second.socket))) as local:
            assert execute(local, "SELECT @@server_uuid") == [(second.server_uuid,)]
    assert not second.running
    assert not second.socket.exists()


def test_a_taken_port_is_left_to_its_owner(
    one_server: MysqlServer, new_server: PrivateServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port that another program took after it was chosen costs one attempt, no failure."""
    first = one_server
    free = own_server.free_port()
    choices = iter([first.port, free])
    monkeypatch.setattr(own_server, "free_port", lambda: next(choices))
    second = new_server()
    assert second.port == free
    with closing(first.connect()) as connection:
        assert execute(connection, "SELECT @@server_uuid") == [(first.server_uuid,)]


def test_a_failed_start_shows_the_end_of_its_log(new_server: PrivateServers) -> None:
    """A server that refuses its configuration raises with the line in which it says why."""
    server = new_server(options={"no_such_option": "1"}, start=False)
    with pytest.raises(MysqlServerError, match="unknown variable 'no_such_option=1'"):
        server.start()
    assert not server.running
    with pytest.raises(MysqlServerError, match="not running"):
        _ = server.pid


def test_a_second_start_is_refused(one_server: MysqlServer) -> None:
    """A running server is not started again beside itself."""
    pid = one_server.pid
    with pytest.raises(MysqlServerError, match="already running"):
        one_server.start()
    assert one_server.pid == pid


_STARTS_AND_DIES = """
import os, signal, sys, threading
from pathlib import Path
from urllib.parse import quote
from capstan.demo.mysql_install import find_programs
from capstan.demo.mysql_server import MysqlServer
server = MysqlServer(find_programs(), Path(sys.argv[1]))
starter = threading.Thread(target=server.start)
starter.start()
starter.join()
assert server.running
print(server.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_server_does_not_outlive_its_killed_parent(
    mysql_programs: MysqlPrograms, tmp_path: Path
) -> None:
    """SIGKILL of the parent ends the server; the end of the thread that started it does not."""
    child = subprocess.run(
        [sys.executable, "-c", _STARTS_AND_DIES, str(tmp_path / "server")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    command_line = Path("/proc") / child.stdout.strip() / "cmdline"

    def gone() -> bool:
        # A zombie that nobody reaps has an empty command line.
        return not command_line.exists() or command_line.read_bytes() == b""

    wait_until(gone, what="the server ends with its parent")


def test_a_named_server_is_used_as_it_is(
    mysql_server: SqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CAPSTAN_MYSQL_DSN names a server; characters reserved in addresses are percent-encoded."""
    user, password = f"u_{os.getpid()}", "p@s:s/w%rd"
    with closing(mysql_server.connect()) as connection:
        execute(connection, f"CREATE USER {user} IDENTIFIED BY %s", password)
        address = f"{user}:{quote(password, safe='')}@{mysql_server.host}:{mysql_server.port}"
        try:
            monkeypatch.setenv(DSN_VARIABLE, f"mysql://{address}")
            named = external_server()
            assert named is not None
            assert named.server_uuid == mysql_server.server_uuid
            assert named.version == mysql_server.version
            with closing(named.connect()) as second:
                ((me,),) = execute(second, "SELECT CURRENT_USER()")
            assert me == f"{user}@%"
        finally:
            execute(connection, f"DROP USER {user}")


@pytest.mark.parametrize(
    "dsn",
    [
        "mysql://root:s3cret@127.0.0.1:port",
        "postgres://root:s3cret@127.0.0.1:1",
        "mysql://127.0.0.1:3306",
        "mysql://[root:s3cret@127.0.0.1",
        "mysql://root:s3cret@127.0.0.1:1",
    ],
)
def test_a_named_server_that_cannot_serve_is_one_clear_sentence(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong or dead address names the variable and never the password."""
    monkeypatch.setenv(DSN_VARIABLE, dsn)
    with pytest.raises(NoMysqlServer, match=DSN_VARIABLE) as refused:
        external_server()
    assert "s3cret" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_without_a_name_there_is_no_external_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unset or empty variable means: a private server."""
    monkeypatch.delenv(DSN_VARIABLE, raising=False)
    assert external_server() is None
    monkeypatch.setenv(DSN_VARIABLE, "")
    assert external_server() is None
