"""Compares a SQLite mirror with its source, row by row: a second opinion on the mirror.

Owns: its own rules of how each MySQL type must stand in the mirror, taken from the description and
not from the sink's code; the server itself prints decimals, times and documents. Refuses to know:
how the mirror came about. Both sides must stand still meanwhile. Each row is remembered as a hash,
so that a large table fits; a difference is told as names and counts, never as a value.
"""

import contextlib
import hashlib
import sqlite3
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from pathlib import Path
from typing import Any, Final

import attrs
from pymysql.connections import Connection
from pymysql.cursors import SSCursor

from capstan.core.tables import CaptureList, TableName

Row = tuple[Any, ...]
Convert = Callable[[Any], Any]

_LARGEST_SIGNED: Final = 2**63 - 1
_OWN_TABLES: Final = "_capstan"
_MIRROR_ROWS: Final = 5_000


@attrs.frozen(kw_only=True)
class Difference:
    """How one table of the mirror differs from its source.

    Attributes:
        table: Its name, `schema.table`.
        missing: Rows of the source that the mirror lacks.
        extra: Rows of the mirror that the source lacks.
        differing: Rows whose key is on both sides, with other values.
        note: What is wrong with the table itself; empty when only rows differ.
    """

    table: str
    missing: int = 0
    extra: int = 0
    differing: int = 0
    note: str = ""

    def __str__(self) -> str:
        counts = {"missing": self.missing, "extra": self.extra, "differing": self.differing}
        told = [f"{count} {name}" for name, count in counts.items() if count]
        return f"{self.table}: {', '.join([*told, *([self.note] if self.note else [])])}"


@attrs.frozen(kw_only=True)
class Comparison:
    """The outcome.

    Attributes:
        tables: How many tables were compared.
        rows: How many rows the source has in them.
        differences: One for each table that is not identical, by name.
    """

    tables: int
    rows: int
    differences: tuple[Difference, ...]

    @property
    def identical(self) -> bool:
        """Whether there is no difference."""
        return not self.differences


class IncomparableError(Exception):
    """Something has no rule here: a column's type, a table's name. Names only."""


def compare(connection: "Connection[Any]", capture: CaptureList, mirror: Path) -> Comparison:
    """Compare every captured table with its mirror, and look for tables that should not be there.

    A table that has no rows need not exist in the mirror: nothing of it was ever streamed.

    Args:
        connection: To the source, allowed to SELECT; its session settings are changed.
        capture: Which tables are mirrored.
        mirror: The SQLite file; it is only read.

    Raises:
        IncomparableError: A type or a name has no rule.
        pymysql.err.MySQLError, sqlite3.Error: One side cannot be read.
    """
    with contextlib.closing(sqlite3.connect(f"{mirror.as_uri()}?mode=ro", uri=True)) as target:
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION time_zone = '+00:00', sql_mode = ''")
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        try:
            return _compare_all(connection, capture, target)
        finally:
            connection.rollback()


def _compare_all(
    connection: "Connection[Any]", capture: CaptureList, target: sqlite3.Connection
) -> Comparison:
    tables = [_Table.read(connection, name) for name in _captured(connection, capture)]
    mirrored = _mirrored(target)
    rows = 0
    differences: list[Difference] = []
    for table in tables:
        counted, difference = _compare_table(connection, table, target, mirrored)
        rows += counted
        differences += [difference] if difference else []
    for name in mirrored - {str(table.name) for table in tables}:
        count = _count(target, name)
        differences.append(Difference(table=name, extra=count, note="not in the source"))
    return Comparison(
        tables=len(tables),
        rows=rows,
        differences=tuple(sorted(differences, key=lambda difference: difference.table)),
    )


def _compare_table(
    connection: "Connection[Any]",
    table: "_Table",
    target: sqlite3.Connection,
    mirrored: set[str],
) -> tuple[int, Difference | None]:
    name = str(table.name)
    source = _Rows(table.key)
    for row in table.rows(connection):
        source.add(row)
    if name not in mirrored:
        absent = Difference(table=name, missing=source.count, note="not in the mirror")
        return source.count, absent if source.count else None
    columns = _mirror_columns(target, name)
    if sorted(columns) != sorted(table.names):
        extra = _count(target, name)
        if not source.count and not extra:
            return 0, None
        return source.count, Difference(
            table=name, missing=source.count, extra=extra, note="other columns"
        )
    for row in _mirror_rows(target, name, table.names):
        source.take(row)
    return source.count, source.difference(name)


class _Rows:
    """The rows of one side, from which those of the other side are taken away."""

    def __init__(self, key: tuple[int, ...]) -> None:
        self.count = 0
        self._key = key
        self._left: Counter[bytes] = Counter()
        self._keys: dict[bytes, bytes] = {}
        self._extra = 0
        self._differing = 0

    def add(self, row: Row) -> None:
        """A row of the source."""
        self.count += 1
        if self._key:
            self._keys[self._key_of(row)] = _hash(row)
        else:
            self._left[_hash(row)] += 1

    def take(self, row: Row) -> None:
        """A row of the mirror."""
        if self._key:
            expected = self._keys.pop(self._key_of(row), None)
            self._extra += expected is None
            self._differing += expected is not None and expected != _hash(row)
        else:
            self._left[_hash(row)] -= 1

    def difference(self, table: str) -> Difference | None:
        """What remains; None when nothing does."""
        missing = len(self._keys) + sum(count for count in self._left.values() if count > 0)
        extra = self._extra - sum(count for count in self._left.values() if count < 0)
        if not (missing or extra or self._differing):
            return None
        return Difference(table=table, missing=missing, extra=extra, differing=self._differing)

    def _key_of(self, row: Row) -> bytes:
        return _hash(tuple(row[place] for place in self._key))


def _hash(row: Row) -> bytes:
    """Equal only for equal values of equal types: repr tells 1, 1.0, '1' and b'1' apart."""
    return hashlib.blake2b(repr(row).encode("utf-8", "surrogatepass"), digest_size=16).digest()


# -- the source ------------------------------------------------------------------------------------


def _captured(connection: "Connection[Any]", capture: CaptureList) -> list[TableName]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
            " WHERE TABLE_TYPE = 'BASE TABLE' ORDER BY TABLE_SCHEMA, TABLE_NAME"
        )
        return [TableName(*row) for row in cursor.fetchall() if capture.covers(*row)]


@attrs.frozen(kw_only=True)
class _Table:
    """One table of the source: how to ask for its rows, and how to read the answers."""

    name: TableName
    names: tuple[str, ...]
    expressions: tuple[str, ...]
    converters: tuple[Convert | None, ...]
    key: tuple[int, ...]

    @classmethod
    def read(cls, connection: "Connection[Any]", name: TableName) -> "_Table":
        """Look the table up.

        Raises:
            IncomparableError: For a type or a name without a rule.
        """
        if any(mark in part for part in (name.schema, name.table) for mark in '."'):
            raise IncomparableError(f"the name of {name} is spelled otherwise in the mirror")
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_KEY = 'PRI'"
                " FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
                " ORDER BY ORDINAL_POSITION",
                (name.schema, name.table),
            )
            columns = list(cursor.fetchall())
        rules = [_rule(name, column, kind) for column, kind, _ in columns]
        return cls(
            name=name,
            names=tuple(column for column, _, _ in columns),
            expressions=tuple(expression for expression, _ in rules),
            converters=tuple(convert for _, convert in rules),
            key=tuple(place for place, (_, _, primary) in enumerate(columns) if primary),
        )

    def rows(self, connection: "Connection[Any]") -> Iterator[Row]:
        """Every row, as the mirror must hold it."""
        what = ", ".join(self.expressions)
        where = f"{_quoted(self.name.schema)}.{_quoted(self.name.table)}"
        with connection.cursor(SSCursor) as cursor:
            cursor.execute(f"SELECT {what} FROM {where}")  # noqa: S608 - quoted names
            for row in cursor:
                yield tuple(
                    value if value is None or convert is None else convert(value)
                    for value, convert in zip(row, self.converters, strict=True)
                )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _integer(value: int) -> int | str:
    return value if value <= _LARGEST_SIGNED else str(value)


# Of two decimals that are equally near, the first of these gives the even one, as is usual.
_ROUNDINGS: Final = (ROUND_HALF_EVEN, ROUND_FLOOR, ROUND_CEILING)


def _single(value: float) -> float:
    """The shortest decimal that reads back to the same single-precision number."""
    exact, stored = Decimal(value), _stored(value)
    for digits in range(1, 10):
        near = [_rounded(exact, digits, mode) for mode in _ROUNDINGS]
        fitting = [number for number in near if _stored(float(number)) == stored]
        if fitting:
            return float(min(fitting, key=lambda number: abs(number - exact)))
    raise AssertionError("nine digits tell any two single-precision numbers apart")


def _rounded(exact: Decimal, digits: int, mode: str) -> Decimal:
    return Context(prec=digits, rounding=mode).create_decimal(exact)


def _stored(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return b"too large"


_PLAIN: Final = "{}"
_PRINTED: Final = "CAST({} AS CHAR)"
_RULES: Final[dict[str, tuple[str, Convert | None]]] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), ("{} + 0", _integer)),
    **dict.fromkeys(("bit", "year"), ("{} + 0", _integer)),
    **dict.fromkeys(("decimal", "date", "time", "datetime", "timestamp"), (_PRINTED, None)),
    **dict.fromkeys(("json", "enum", "set"), (_PRINTED, None)),
    **dict.fromkeys(("char", "varchar", "tinytext", "text"), (_PLAIN, None)),
    **dict.fromkeys(("mediumtext", "longtext"), (_PLAIN, None)),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob"), (_PLAIN, None)),
    **dict.fromkeys(("mediumblob", "longblob"), (_PLAIN, None)),
    "double": (_PLAIN, None),
    "float": ("CAST({} AS DOUBLE)", _single),
}


def _rule(table: TableName, column: str, kind: str) -> tuple[str, Convert | None]:
    if kind not in _RULES:
        raise IncomparableError(f"column {column} of {table} is of type {kind}: no rule for it")
    expression, convert = _RULES[kind]
    return expression.format(_quoted(column)), convert


# -- the mirror ------------------------------------------------------------------------------------


def _mirrored(target: sqlite3.Connection) -> set[str]:
    names = target.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    return {name for (name,) in names if not name.startswith((_OWN_TABLES, "sqlite_"))}


def _mirror_columns(target: sqlite3.Connection, table: str) -> list[str]:
    return [row[0] for row in target.execute("SELECT name FROM pragma_table_info(?)", (table,))]


def _count(target: sqlite3.Connection, table: str) -> int:
    ((count,),) = target.execute(f"SELECT count(*) FROM {_sqlite_quoted(table)}")  # noqa: S608 - a quoted name
    return int(count)


def _mirror_rows(target: sqlite3.Connection, table: str, columns: Sequence[str]) -> Iterator[Row]:
    names = ", ".join(map(_sqlite_quoted, columns))
    cursor = target.execute(f"SELECT {names} FROM {_sqlite_quoted(table)}")  # noqa: S608 - quoted names
    while rows := cursor.fetchmany(_MIRROR_ROWS):
        yield from rows


def _sqlite_quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
