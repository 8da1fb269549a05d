"""How a MySQL server is reached, whoever runs it, and a server that somebody else keeps.

Owns: the interface that demonstration and tests rely on, and ``CAPSTAN_MYSQL_DSN``. Refuses to
know: how a server is started. No message repeats the address or the password.
"""

import contextlib
import os
from typing import Any, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

import pymysql
from pymysql.connections import Connection

from capstan.demo.mysql_install import NoMysqlServer

DSN_VARIABLE = "CAPSTAN_MYSQL_DSN"


class SqlServer(Protocol):
    """What a demonstration or a test needs of a server, whoever runs it."""

    host: str
    port: int
    user: str
    password: str
    server_uuid: str
    version: str

    def connect(self, **overrides: Any) -> "Connection[Any]":
        """A connection in autocommit mode; ``overrides`` are PyMySQL's own arguments."""
        ...


class ExternalServer:
    """A running server that somebody else keeps, named by ``mysql://user:password@host:port``.

    It can be used, never stopped or restarted.

    Raises:
        NoMysqlServer: the address cannot be read, or the server does not answer.
    """

    def __init__(self, dsn: str) -> None:
        parts, self.port = _split(dsn)
        self.host = parts.hostname or ""
        self.user = unquote(parts.username or "")
        self.password = unquote(parts.password or "")
        try:
            with contextlib.closing(self.connect()) as connection:
                self.server_uuid, self.version = identity_of(connection)
        except pymysql.err.MySQLError as error:
            raise NoMysqlServer(
                f"the server that {DSN_VARIABLE} names does not serve (error {error.args[0]}):"
                " start it, or correct or unset the variable"
            ) from None

    def connect(self, **overrides: Any) -> "Connection[Any]":
        """A connection in autocommit mode; ``overrides`` are PyMySQL's own arguments."""
        return connect_to(self, overrides)


def external_server() -> ExternalServer | None:
    """The server that ``CAPSTAN_MYSQL_DSN`` names; None when it names none.

    Raises:
        NoMysqlServer: it names one that does not serve.
    """
    dsn = os.environ.get(DSN_VARIABLE)
    return ExternalServer(dsn) if dsn else None


def connect_to(server: SqlServer, overrides: dict[str, Any]) -> "Connection[Any]":
    """A connection with the server's own account, in autocommit mode unless overridden."""
    arguments: dict[str, Any] = {
        "host": server.host,
        "port": server.port,
        "user": server.user,
        "password": server.password,
        "charset": "utf8mb4",
        "autocommit": True,
        "connect_timeout": 10,
    }
    return pymysql.connect(**(arguments | overrides))


def identity_of(connection: "Connection[Any]") -> tuple[str, str]:
    """The server's uuid and version."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@server_uuid, @@version")
        uuid, version = cursor.fetchone()
    return uuid, version


def _split(dsn: str) -> tuple[SplitResult, int]:
    with contextlib.suppress(ValueError):
        parts = urlsplit(dsn)
        port = parts.port or 3306
        if parts.scheme == "mysql" and parts.hostname and parts.username:
            return parts, port
    raise NoMysqlServer(
        f"{DSN_VARIABLE} does not read mysql://user:password@host:port: correct or unset it"
    )
