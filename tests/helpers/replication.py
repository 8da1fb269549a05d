"""Two servers of a test's own, one of which follows the other."""

from contextlib import closing

from capstan.demo.mysql_server import MysqlServer
from helpers.mysql import execute


def run(server: MysqlServer, *statements: str) -> None:
    """Execute statements on a connection of their own."""
    with closing(server.connect(ssl_disabled=True)) as connection:
        for statement in statements:
            execute(connection, statement)


def follow(replica: MysqlServer, source: MysqlServer) -> None:
    """Let one server replicate from another, by GTID."""
    run(
        replica,
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{source.host}',"
        f" SOURCE_PORT = {source.port}, SOURCE_USER = '{source.user}',"
        f" SOURCE_PASSWORD = '{source.password}', SOURCE_AUTO_POSITION = 1,"
        " GET_SOURCE_PUBLIC_KEY = 1",
        "START REPLICA",
    )


def updated(*numbers: int) -> list[str]:
    """A transaction for each of these rows of `shop.t`."""
    return [f"UPDATE shop.t SET v = v + 1 WHERE id = {number}" for number in numbers]
