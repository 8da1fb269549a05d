"""One connection of the workload: transactions, lost locks, and the count of what was done.

Owns: the connection of one writer, and the journal: every transaction made through `transaction`
leaves one line in a table without key, so that a transaction applied twice shows as two lines.
Refuses to know: what the transactions are about.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import attrs
from pymysql.connections import Connection
from pymysql.err import OperationalError

from capstan.demo.workload_tables import Row, Schemas

# A lock that could not be had: the server has rolled back the transaction, or its statement.
_LOCK_LOST = frozenset({1205, 1213})


@attrs.define
class Tally:
    """What one writer, or all of them, have done.

    Attributes:
        journalled: Transactions that left a line in the journal.
        unjournalled: Transactions that left none: MyISAM, filtered tables, filled copies.
        definitions: Statements that define tables, a transaction each.
        rolled_back: Transactions given up, on purpose or for a lock.
    """

    journalled: int = 0
    unjournalled: int = 0
    definitions: int = 0
    rolled_back: int = 0

    @property
    def committed(self) -> int:
        """Everything that took a GTID."""
        return self.journalled + self.unjournalled + self.definitions

    def __add__(self, other: "Tally") -> "Tally":
        mine, theirs = attrs.astuple(self), attrs.astuple(other)
        return Tally(*(a + b for a, b in zip(mine, theirs, strict=True)))


class LockLostError(Exception):
    """A lock could not be had; the transaction is rolled back and counted."""


class Session:
    """A connection and its tally.

    Args:
        connection: In autocommit mode, with the shop selected; the caller closes it.
        writer: Whose it is, from 0.
        schemas: The databases; `{shop}` and `{outside}` in a statement stand for them.
    """

    def __init__(self, connection: "Connection[Any]", writer: int, schemas: Schemas) -> None:
        self.tally = Tally()
        self._connection = connection
        self._writer = writer
        self._schemas = schemas

    def run(self, sql: str, *arguments: Any) -> None:
        """Run one statement."""
        text = sql.replace("{shop}", self._schemas.shop).replace("{outside}", self._schemas.outside)
        with self._connection.cursor() as cursor:
            cursor.execute(text, arguments or None)

    def insert(self, table: str, *rows: Row, verb: str = "INSERT") -> None:
        """Insert all rows with one statement."""
        places = ", ".join(["%s"] * len(rows[0]))
        with self._connection.cursor() as cursor:
            cursor.executemany(f"{verb} INTO {table} VALUES ({places})", rows)

    @contextlib.contextmanager
    def transaction(self, action: str) -> Iterator[None]:
        """A transaction with its line in the journal; committed at the end of the block.

        Raises:
            LockLostError: It had to be given up.
        """
        number = self.tally.journalled + 1
        with self.locks():
            self.run("BEGIN")
            yield
            self.run("INSERT INTO journal VALUES (%s, %s, %s)", self._writer, number, action)
            self.run("COMMIT")
        self.tally.journalled = number

    @contextlib.contextmanager
    def doomed(self) -> Iterator[None]:
        """A transaction that is rolled back at the end of the block.

        Raises:
            LockLostError: It was rolled back before.
        """
        with self.locks():
            self.run("BEGIN")
            yield
            self.run("ROLLBACK")
        self.tally.rolled_back += 1

    @contextlib.contextmanager
    def locks(self) -> Iterator[None]:
        """Turn a lost lock into `LockLostError`, with everything rolled back.

        Raises:
            LockLostError: A lock was lost.
        """
        try:
            yield
        except OperationalError as error:
            if error.args[0] not in _LOCK_LOST:
                raise
            self.run("ROLLBACK")
            self.tally.rolled_back += 1
            raise LockLostError from None
