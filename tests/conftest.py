"""Fixtures that need a real MySQL server; started only when a test asks, stopped at the end."""

import contextlib
from collections.abc import Iterator

import pytest
from helpers.mysql import (
    Database,
    PrivateServers,
    fresh_database,
    programs_or_fail,
    session_server,
)

from capstan.demo.mysql_access import SqlServer
from capstan.demo.mysql_install import MysqlPrograms


@pytest.fixture(scope="session")
def mysql_programs() -> MysqlPrograms:
    """MySQL's own programs, found or fetched once."""
    return programs_or_fail()


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[SqlServer]:
    """The server that tests share; they must not stop it or change its global settings."""
    with session_server() as server:
        yield server


@pytest.fixture
def database(mysql_server: SqlServer) -> Iterator[Database]:
    """A fresh database on the shared server."""
    with fresh_database(mysql_server) as fresh:
        yield fresh


@pytest.fixture
def new_server(mysql_programs: MysqlPrograms) -> Iterator[PrivateServers]:
    """A factory of servers of the test's own, to be killed, restarted and configured at will."""
    with contextlib.closing(PrivateServers(mysql_programs)) as servers:
        yield servers
