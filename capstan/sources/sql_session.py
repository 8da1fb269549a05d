"""One connection that asks SQL, with a deadline for every answer and faults as codes.

House rules: whatever the driver raises leaves as `StatementFailed` with a code and nothing else. A
late or broken answer leaves no connection behind: nobody could tell what the server goes on to do
with it.
"""

from collections.abc import Sequence
from typing import Any, Final

import pymysql
from pymysql.constants import CR

from capstan import config
from capstan.sources import row_packets
from capstan.sources.faults import error_code
from capstan.sources.handshake import Wire, at_most, dial, drop
from capstan.sources.row_packets import BrokenAnswerError, Page
from capstan.sources.sockets import Interrupt

Rows = Sequence[tuple[Any, ...]]

LOST: Final[int] = CR.CR_SERVER_LOST
_ANSWER_BYTES: Final = 64 << 20
"""The longest answers are GTID sets and lists of tables; no server has that much of them."""


class StatementFailed(Exception):  # noqa: N818 - a fact for whoever judges it
    """The server refused, or the connection broke.

    Attributes:
        code: The server's or client library's error code.
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


class SqlSession:
    """An authenticated connection.

    Args:
        source: The server.
        interrupt: Guards the socket; closed with the session.

    Raises:
        LinkLost: What a later dial may cure.
        Halted: `auth_failed`, `tls_failed`.
    """

    def __init__(self, source: config.Source, interrupt: Interrupt) -> None:
        self._wire: Wire = dial(source, interrupt)
        self._usual: float = source.connect_timeout

    @property
    def alive(self) -> bool:
        """False once an answer was late or the connection broke."""
        return self._wire.open

    def ask(self, statement: str, deadline: float | None = None) -> Rows:
        """Run a statement.

        Args:
            statement: Complete SQL.
            deadline: Seconds of silence after which the connection is given up; by default those
                of a connect.

        Raises:
            StatementFailed: With the code.
        """
        self._wait_at_most(deadline)
        try:
            with at_most(self._wire, _ANSWER_BYTES), self._wire.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() or ()
        except Exception as error:  # noqa: BLE001 - the driver has many ways to leave the protocol
            code = self._code(error)
        raise StatementFailed(code)

    def page(self, statement: str, room: int, *, always_one: bool, deadline: float) -> Page:
        """Run a SELECT and keep its first rows, up to `room` bytes.

        When the server sends many more, the connection is given up.

        Raises:
            StatementFailed: With the code.
        """
        self._wait_at_most(deadline)
        try:
            page = row_packets.read_page(self._wire, statement, room, always_one=always_one)
        except Exception as error:  # noqa: BLE001 - as above
            code = self._code(error)
        else:
            if not page.complete:
                self.drop()
            return page
        raise StatementFailed(code)

    def close(self) -> None:
        """Take leave; safe to call twice."""
        if self._wire.open:
            self._wire.close()

    def drop(self) -> None:
        """Close without a word: the server ends what it was doing when it notices."""
        if self._wire.open:
            drop(self._wire)

    def _wait_at_most(self, seconds: float | None) -> None:
        self._wire._read_timeout = self._usual if seconds is None else seconds  # type: ignore[attr-defined]

    def _code(self, error: Exception) -> int:
        """The code of a fault; a connection that is out of step is dropped."""
        code = error.code if isinstance(error, BrokenAnswerError) else error_code(error)
        refused = isinstance(error, pymysql.MySQLError | BrokenAnswerError) and code is not None
        if not refused:
            self.drop()
        return code if code is not None else LOST
