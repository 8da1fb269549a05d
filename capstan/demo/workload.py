"""The workload of the demonstration: several writers at once, for a time or a number of actions.

Owns: the writers' threads and connections, their start and end, the first error of any of them.
Refuses to know: what is written, and who reads it.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from random import Random
from typing import Any

from pymysql.connections import Connection

from capstan.demo.mysql_access import SqlServer
from capstan.demo.workload_session import Session, Tally
from capstan.demo.workload_tables import PLACES, SKUS, Schemas
from capstan.demo.workload_writer import Writer

# Under READ COMMITTED writers lock rows and no gaps, so they hardly ever stand in each other's way.
_SESSION = (
    "SET SESSION transaction_isolation = 'READ-COMMITTED', time_zone = '+00:00', sql_mode = ''"
)


class Workload:
    """Several writers on one server.

    The sequence of what each writer does is a function of the seed and its number; how the
    sequences interleave is up to the threads.

    Args:
        server: Where to write; the account must be allowed to create the databases.
        seed: Of all random numbers.
        writers: How many at once.
        schemas: The databases, which must not exist yet.
        rate: Actions a second of each writer; as fast as it goes by default.
        articles: Rows of the catalogue that are there before anything is streamed.
    """

    def __init__(
        self,
        server: SqlServer,
        *,
        seed: int,
        writers: int = 4,
        schemas: Schemas | None = None,
        rate: float | None = None,
        articles: int = 0,
    ) -> None:
        self.schemas = schemas or Schemas()
        self._server = server
        self._seed = seed
        self._writers = writers
        self._articles = articles
        self._pause = 0.0 if rate is None else 1 / rate
        self._prepared = Tally()
        self._sessions: list[Session] = []
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()
        self._error: BaseException | None = None

    def prepare(self) -> None:
        """Define the tables and furnish them.

        Raises:
            pymysql.err.MySQLError: The server refused a statement.
        """
        defined = self.define()
        self.furnish()
        self._prepared += defined

    def define(self) -> Tally:
        """Create the databases and their tables, and fill the catalogue: what comes before.

        Returns:
            What was done; no part of `tally`.

        Raises:
            pymysql.err.MySQLError: The server refused a statement.
        """
        creation = self.schemas.creation(self._writers)
        filling = self.schemas.catalogue(self._articles)
        with (
            contextlib.closing(self._server.connect()) as connection,
            connection.cursor() as cursor,
        ):
            for statement in (*creation, *filling):
                cursor.execute(statement)
        return Tally(definitions=len(creation), unjournalled=len(filling) - 1)

    def furnish(self) -> None:
        """Put the first rows into the tables that all writers share.

        Raises:
            pymysql.err.MySQLError: The server refused a statement.
        """
        with (
            contextlib.closing(self._server.connect()) as connection,
            connection.cursor() as cursor,
        ):
            connection.select_db(self.schemas.shop)
            # Placeholders only: then PyMySQL makes one statement of all rows.
            cursor.executemany(
                "INSERT INTO stock VALUES (%s, %s, %s)", [(sku, 100, 2030) for sku in SKUS]
            )
            cursor.executemany(
                "INSERT INTO board VALUES (%s, %s, %s)", [(place, 0, None) for place in PLACES]
            )
        self._prepared = Tally(unjournalled=2)

    def start(self, actions: int | None = None) -> None:
        """Start all writers; each goes on until `stop()`, or for this many actions."""
        for number in range(self._writers):
            thread = threading.Thread(
                target=self._write, args=(number, actions), name=f"writer-{number}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Let each writer finish its action, wait for all, and tell the first error.

        Raises:
            BaseException: What ended a writer before its time.
        """
        self._over.set()
        self.join()

    def join(self) -> None:
        """Wait until all writers have ended by themselves, and tell the first error.

        Raises:
            BaseException: What ended a writer before its time.
        """
        for thread in self._threads:
            thread.join()
        self.check()

    def check(self) -> None:
        """Tell the first error of any writer, if there is one.

        Raises:
            BaseException: What ended a writer before its time.
        """
        if self._error is not None:
            raise self._error

    @property
    def tally(self) -> Tally:
        """What all writers have done so far, the preparation included."""
        return sum((session.tally for session in self._sessions), self._prepared)

    def _write(self, number: int, actions: int | None) -> None:
        try:
            with self._session(number) as session:
                writer = Writer(session, number, self._seed, self._articles)
                self._act(writer, actions)
        except BaseException as error:  # noqa: BLE001 - told by check(), on the caller's thread
            self._error = self._error or error
            self._over.set()

    def _act(self, writer: Writer, actions: int | None) -> None:
        done = 0
        began = time.monotonic()
        while not self._over.is_set() and done != actions:
            writer.act()
            done += 1
            ahead = began + done * self._pause - time.monotonic()
            if self._pause and ahead > 0:
                self._over.wait(ahead)

    @contextlib.contextmanager
    def _session(self, number: int) -> Iterator[Session]:
        connection: Connection[Any] = self._server.connect(
            database=self.schemas.shop, init_command=_SESSION
        )
        with contextlib.closing(connection):
            session = Session(connection, number, self.schemas)
            self._sessions.append(session)
            yield session


def new_seed() -> int:
    """A seed, short enough to be typed again."""
    return Random().randrange(1_000_000)  # noqa: S311 - repeatable, not secret
