"""The demonstration's source: a throw-away server, or room of our own on somebody's server.

Owns: the choice between the two, the account with the rights that a pipeline needs and no more, and
that both go away in the end. Refuses to know: what is written, what reads it.
"""

import contextlib
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

from capstan.core.gtid import GtidSet
from capstan.demo.mysql_access import SqlServer, external_server
from capstan.demo.mysql_install import find_programs
from capstan.demo.mysql_server import MysqlServer
from capstan.demo.workload_tables import Schemas

Say = Callable[[str], None]

_SERVER_ID = 1
_READER_ID = 4242


@attrs.frozen(kw_only=True)
class DemoSource:
    """A server to write to, and how a pipeline reads from it.

    Attributes:
        server: With an account that may do anything.
        schemas: Databases that do not exist yet.
        user: The pipeline's account.
        password: Its password.
        server_id: The id the pipeline registers with.
    """

    server: SqlServer
    schemas: Schemas
    user: str
    password: str = attrs.field(repr=False)
    server_id: int = _READER_ID

    def executed(self) -> GtidSet:
        """Everything the server has executed."""
        with contextlib.closing(self.server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @@GLOBAL.gtid_executed")
            ((text,),) = cursor.fetchall()
        return GtidSet.parse(text)

    def _run(self, *statements: tuple[str, tuple[str, ...]]) -> None:
        with contextlib.closing(self.server.connect()) as connection, connection.cursor() as cursor:
            for statement, arguments in statements:
                cursor.execute(statement, arguments)

    def admit(self) -> None:
        """Create the account: the binary log, its status, reading and briefly locking the shop.

        Raises:
            pymysql.err.MySQLError: The server refused.
        """
        self._run(
            ("CREATE USER %s@'%%' IDENTIFIED BY %s", (self.user, self.password)),
            ("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO %s@'%%'", (self.user,)),
            (f"GRANT SELECT, LOCK TABLES ON {self.schemas.shop}.* TO %s@'%%'", (self.user,)),
        )

    def leave(self) -> None:
        """Take account and databases away again."""
        removal = [(statement, ()) for statement in self.schemas.removal()]
        self._run(("DROP USER IF EXISTS %s@'%%'", (self.user,)), *removal)


@contextlib.contextmanager
def demo_source(folder: Path, say: Say) -> Iterator[DemoSource]:
    """A source for one demonstration, with the pipeline's account in it.

    Args:
        folder: Where a server of our own keeps its data.
        say: Told in plain words which server it is.

    Raises:
        NoMysqlServer: None can be had.
        MysqlServerFailed: Ours did not start.
        pymysql.err.MySQLError: The server refused a statement.
    """
    password = secrets.token_urlsafe(24)
    external = external_server()
    if external is not None:
        with _borrowed(external, password) as source:
            say(f"source: MySQL {external.version}, the server named by the environment")
            yield source
        return
    programs = find_programs(announce=say)
    server = MysqlServer(programs, folder, server_id=_SERVER_ID)
    try:
        server.start()
        say(f"source: MySQL {server.version}, started for this demonstration")
        source = DemoSource(server=server, schemas=Schemas(), user="capstan", password=password)
        source.admit()
        yield source
    finally:
        # A shutdown in good order waits ten seconds for the readers that were killed.
        server.kill()


@contextlib.contextmanager
def _borrowed(server: SqlServer, password: str) -> Iterator[DemoSource]:
    mark = secrets.token_hex(3)
    source = DemoSource(
        server=server,
        schemas=Schemas(shop=f"capstan_shop_{mark}", outside=f"capstan_outside_{mark}"),
        user=f"capstan_{mark}",
        password=password,
        server_id=_READER_ID + secrets.randbelow(1_000_000),
    )
    try:
        source.admit()
        yield source
    finally:
        source.leave()
