"""A real MySQL server for tests: one for the whole session, and private ones on request.

A server named by ``CAPSTAN_MYSQL_DSN`` serves the session when set. Tests that stop, kill,
restart or configure their server ask for a private one, which needs programs of our own even
then. Where no server can be had a test fails with one sentence; it is never skipped.
"""

import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from pymysql.connections import Connection

from capstan.demo.mysql_access import ExternalServer, SqlServer, external_server
from capstan.demo.mysql_install import MysqlPrograms, NoMysqlServer, find_programs
from capstan.demo.mysql_server import MysqlServer, Option

_NUMBERS = itertools.count(1)
# Far from the small ids that tests give to pipelines and fake replicas.
_SERVER_IDS = itertools.count(900_001)


@attrs.frozen(kw_only=True)
class Database:
    """A database of one test's own, and a connection that has it selected."""

    name: str
    server: SqlServer
    connection: "Connection[Any]" = attrs.field(repr=False)

    def execute(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Run one statement; its rows, empty for a statement that has none."""
        return execute(self.connection, sql, *arguments)

    def connect(self, **overrides: Any) -> "Connection[Any]":
        """Another connection with this database selected; the caller closes it."""
        return self.server.connect(database=self.name, **overrides)


class PrivateServers:
    """Servers of one test (or of the session), below one folder that goes with them."""

    def __init__(self, programs: MysqlPrograms) -> None:
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="capstan-test-"))
        self._servers: list[MysqlServer] = []

    def __call__(
        self,
        *,
        server_id: int | None = None,
        options: Mapping[str, Option] | None = None,
        start: bool = True,
    ) -> MysqlServer:
        """A new server, started unless told otherwise; it ends with the test."""
        server = MysqlServer(
            self._programs,
            self._folder / f"server-{len(self._servers) + 1}",
            server_id=next(_SERVER_IDS) if server_id is None else server_id,
            options=options,
        )
        self._servers.append(server)
        if start:
            server.start()
        return server

    def close(self) -> None:
        """Kill every server (their data is not wanted any more) and remove their folder."""
        for server in self._servers:
            server.kill()
        shutil.rmtree(self._folder)


def programs_or_fail() -> MysqlPrograms:
    """MySQL's programs; the test fails with one sentence when there are none."""
    try:
        return find_programs()
    except NoMysqlServer as error:
        sentence = f"this test needs a private server: {error}"
    pytest.fail(sentence, pytrace=False)


@contextlib.contextmanager
def session_server() -> Iterator[SqlServer]:
    """The server most tests share: the one the environment names, else a private one."""
    external = _external_or_fail()
    if external is not None:
        yield external
        return
    with contextlib.closing(PrivateServers(programs_or_fail())) as servers:
        yield servers()


def _external_or_fail() -> ExternalServer | None:
    try:
        return external_server()
    except NoMysqlServer as error:
        sentence = str(error)
    pytest.fail(sentence, pytrace=False)


@contextlib.contextmanager
def fresh_database(server: SqlServer) -> Iterator[Database]:
    """A database with a name nobody else uses, dropped at the end."""
    name = f"capstan_{os.getpid()}_{next(_NUMBERS)}"
    with contextlib.closing(server.connect()) as connection:
        execute(connection, f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        connection.select_db(name)
        try:
            yield Database(name=name, server=server, connection=connection)
        finally:
            # The test may have killed its own connection or server.
            with contextlib.closing(server.connect()) as cleaner:
                execute(cleaner, f"DROP DATABASE IF EXISTS {name}")


def execute(connection: "Connection[Any]", sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
    """Run one statement on a connection; its rows, empty for a statement that has none."""
    with connection.cursor() as cursor:
        cursor.execute(sql, arguments or None)
        return list(cursor.fetchall())


def gtid_executed(connection: "Connection[Any]") -> str:
    """The server's executed GTID set in MySQL's text form, on one line."""
    ((text,),) = execute(connection, "SELECT @@GLOBAL.gtid_executed")
    return str(text).replace("\n", "")
