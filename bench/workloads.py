"""The three workloads of the benchmark, as tables and statements of a real server.

Owns: the tables, the data (made by the server itself, the same at every run) and how many rows and
transactions each workload is. Refuses to know: who reads them.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import attrs
from pymysql.connections import Connection

SCHEMA = "bench"
BATCH = 1000

_NARROW = """CREATE TABLE {table} (
    id INT NOT NULL PRIMARY KEY,
    k INT NOT NULL,
    c CHAR(120) NOT NULL,
    pad CHAR(60) NOT NULL
) CHARACTER SET utf8mb4"""

_WIDE = """CREATE TABLE {table} (
    id BIGINT NOT NULL PRIMARY KEY,
    customer BIGINT UNSIGNED NOT NULL,
    state ENUM('new', 'paid', 'sent', 'void') NOT NULL,
    total DECIMAL(12, 2) NOT NULL,
    currency CHAR(3) NOT NULL,
    note VARCHAR(100) NULL,
    quantity INT NOT NULL,
    placed DATETIME(6) NOT NULL,
    changed TIMESTAMP NOT NULL,
    flags TINYINT UNSIGNED NOT NULL,
    details JSON NULL
) CHARACTER SET utf8mb4"""

_NUMBERS = """WITH RECURSIVE counted (n) AS (
    SELECT %s UNION ALL SELECT n + 1 FROM counted WHERE n < %s
)"""

_NARROW_ROWS = """INSERT INTO {table} {numbers}
SELECT n, CRC32(n) MOD 100000, LEFT(SHA2(n, 512), 119), LEFT(SHA2(-n, 256), 59) FROM counted"""

_WIDE_ROWS = """INSERT INTO {table} {numbers}
SELECT
    n,
    CRC32(n) * 4294967295,
    ELT(1 + n MOD 4, 'new', 'paid', 'sent', 'void'),
    (CRC32(-n) MOD 10000000) / 100 - 20000,
    ELT(1 + n MOD 3, 'EUR', 'USD', 'JPY'),
    IF(n MOD 3 = 0, NULL, LEFT(SHA2(n, 256), 10 + n MOD 40)),
    CRC32(n) MOD 1000,
    '2024-01-01' + INTERVAL (CRC32(n) * 7013 MOD 31536000000000) MICROSECOND,
    FROM_UNIXTIME(1700000000 + CRC32(-n) MOD 30000000),
    n MOD 256,
    IF(n MOD 2 = 0, NULL, JSON_OBJECT(
        'n', n, 'score', CAST(CRC32(n) AS DOUBLE) / 1000, 'tags', JSON_ARRAY('a', 'b')
    ))
FROM counted"""

_UPDATES = """CREATE PROCEDURE {table}_updates(IN many INT, IN held INT)
BEGIN
    DECLARE done INT DEFAULT 0;
    WHILE done < many DO
        UPDATE {table} SET k = k + 1, c = LEFT(SHA2(done, 512), 119) WHERE id = 1 + done MOD held;
        SET done = done + 1;
    END WHILE;
END"""


@attrs.frozen(kw_only=True)
class Workload:
    """One workload.

    Attributes:
        name: A word.
        title: What it is, for the table of results.
        rows: Row changes.
        transactions: Transactions that hold them.
        prepare: Makes what is there before the measured part.
        write: Writes the measured part.
        drop: Removes what both have made, so that the workload can be written again.
    """

    name: str
    title: str
    rows: int
    transactions: int
    prepare: Callable[["Connection[Any]"], None] = attrs.field(repr=False)
    write: Callable[["Connection[Any]"], None] = attrs.field(repr=False)
    drop: Callable[["Connection[Any]"], None] = attrs.field(repr=False)


def workloads(scale: float = 1.0) -> tuple[Workload, ...]:
    """All three; `scale` makes them smaller."""
    bulk, singles = int(200_000 * scale), int(50_000 * scale)
    return (
        _inserts("bulk", f"{bulk} rows of 4 columns", bulk, _NARROW, _NARROW_ROWS),
        _inserts("wide", f"{bulk} rows of 11 columns with JSON", bulk, _WIDE, _WIDE_ROWS),
        _updates("single", f"{singles} one-row updates", singles),
    )


def _inserts(name: str, title: str, rows: int, definition: str, statement: str) -> Workload:
    table = f"{SCHEMA}.{name}"

    def write(connection: "Connection[Any]") -> None:
        text = statement.format(table=table, numbers=_NUMBERS)
        for first in range(1, rows + 1, BATCH):
            _run(connection, text, first, first + BATCH - 1)

    return Workload(
        name=name,
        title=f"{title}, {BATCH} a transaction",
        rows=rows,
        transactions=rows // BATCH,
        prepare=lambda connection: _run(connection, definition.format(table=table)),
        write=write,
        drop=lambda connection: _run(connection, f"DROP TABLE {table}"),
    )


def _updates(name: str, title: str, transactions: int) -> Workload:
    table, held = f"{SCHEMA}.{name}", 10 * BATCH

    def prepare(connection: "Connection[Any]") -> None:
        _run(connection, _NARROW.format(table=table))
        text = _NARROW_ROWS.format(table=table, numbers=_NUMBERS)
        for first in range(1, held + 1, BATCH):
            _run(connection, text, first, first + BATCH - 1)
        _run(connection, _UPDATES.format(table=table))

    def write(connection: "Connection[Any]") -> None:
        _run(connection, f"CALL {table}_updates(%s, %s)", transactions, held)

    def drop(connection: "Connection[Any]") -> None:
        _run(connection, f"DROP TABLE {table}")
        _run(connection, f"DROP PROCEDURE {table}_updates")

    return Workload(
        name=name,
        title=f"{title}, each a transaction",
        rows=transactions,
        transactions=transactions,
        prepare=prepare,
        write=write,
        drop=drop,
    )


def _run(connection: "Connection[Any]", statement: str, *arguments: int) -> None:
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(statement, arguments or None)
