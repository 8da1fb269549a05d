"""A process that writes to the tables of a backfill until its standard input closes.

Run as a program: host port user password schema seed. It prints how many statements it has done,
whenever that grew by a hundred. Keys are drawn from the rows that were there and from new ones, on
both sides of wherever the backfill stands, and often moved from one to the other.
"""

import contextlib
import random
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

import pymysql

Key = tuple[Any, ...]

MIDDLE: Final = 1 << 63
RETRY: Final = (1205, 1213, 1062, 1412)
"""Lock wait, deadlock, a key that is taken, a definition that changed: try something else."""

TABLES: Final = {
    "ints": ("id INT", "id", 1),
    "bigs": ("id BIGINT UNSIGNED", "id", 1),
    "bins": ("id BINARY(16)", "id", 1),
    "pairs": ("a INT, b VARBINARY(8)", "a, b", 2),
}
"""Table → key columns as SQL, their names, how many they are."""


def create(schema: str) -> list[str]:
    """The statements that make the tables."""
    return [
        f"CREATE TABLE {schema}.{name} ({columns}, v INT, pad VARCHAR(100), PRIMARY KEY ({key}))"
        for name, (columns, key, _) in TABLES.items()
    ]


def key_of(table: str, number: int) -> Key:
    """The key that stands for a number; in the order of the numbers for `ints` and `bigs`."""
    match table:
        case "ints":
            return (number - 1000,)
        case "bigs":
            return (MIDDLE + 2 * number - 3000,)
        case "bins":
            return ((number * 2654435761 % 2**32).to_bytes(4, "big") + bytes(4) + b"x" * 8,)
    return (number % 7, number.to_bytes(4, "big").lstrip(b"\0"))


def fill(connection: Any, schema: str, rows: int) -> None:
    """Put rows 0 to `rows` - 1 into every table."""
    with contextlib.closing(connection.cursor()) as cursor:
        for table, (_, _, width) in TABLES.items():
            marks = ", ".join(["%s"] * (width + 2))
            cursor.executemany(
                f"INSERT INTO {schema}.{table} VALUES ({marks})",
                [(*key_of(table, n), n, "p" * (n % 50)) for n in range(rows)],
            )
    connection.commit()


class Writer:
    """Random statements on random tables."""

    def __init__(self, connection: Any, schema: str, seed: int, rows: int) -> None:
        self._cursor = connection.cursor()
        self._connection = connection
        self._schema = schema
        self._random = random.Random(seed)
        self._rows = rows
        self.done = 0

    def transaction(self) -> None:
        """One to four statements, committed or, now and then, rolled back."""
        steps: list[Callable[[str], None]] = [self._insert, self._update, self._move, self._delete]
        try:
            for _ in range(self._random.choice((1, 1, 2, 4))):
                self._random.choice(steps)(self._random.choice(list(TABLES)))
        except pymysql.MySQLError as error:
            if error.args[0] not in RETRY:
                raise
            self._connection.rollback()
            return
        if self._random.random() < 0.05:
            self._connection.rollback()
        else:
            self._connection.commit()

    def _number(self) -> int:
        return self._random.randrange(self._rows * 5 // 4)

    def _where(self, table: str) -> str:
        names = TABLES[table][1].split(", ")
        return " AND ".join(f"{name} = %s" for name in names)

    def _run(self, sql: str, values: Key) -> None:
        self._cursor.execute(sql, values)
        self.done += 1

    def _insert(self, table: str) -> None:
        marks = ", ".join(["%s"] * (TABLES[table][2] + 2))
        values = (*key_of(table, self._number()), self._random.randrange(1000), "new")
        self._run(f"INSERT INTO {self._schema}.{table} VALUES ({marks})", values)

    def _update(self, table: str) -> None:
        key = key_of(table, self._number())
        changes = "v = v + 1, pad = 'changed'"
        self._run(f"UPDATE {self._schema}.{table} SET {changes} WHERE {self._where(table)}", key)

    def _move(self, table: str) -> None:
        old, new = key_of(table, self._number()), key_of(table, self._number())
        changes = ", ".join(f"{name} = %s" for name in TABLES[table][1].split(", "))
        self._run(
            f"UPDATE {self._schema}.{table} SET {changes}, v = v + 1 WHERE {self._where(table)}",
            (*new, *old),
        )

    def _delete(self, table: str) -> None:
        key = key_of(table, self._number())
        self._run(f"DELETE FROM {self._schema}.{table} WHERE {self._where(table)}", key)


def main() -> None:
    """Write until standard input closes."""
    host, port, user, password, schema, seed, rows = sys.argv[1:]
    closed = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), closed.set()), daemon=True).start()
    connection = pymysql.connect(host=host, port=int(port), user=user, password=password)
    writer = Writer(connection, schema, int(seed), int(rows))
    told = 0
    with contextlib.closing(connection):
        while not closed.is_set():
            writer.transaction()
            if writer.done >= told + 100:
                told = writer.done
                sys.stdout.write(f"{told}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
