# ruff: noqa: S608 - names stand in statements as hexadecimal literals or in backticks
"""What a table is, read from the server's dictionary: kind, columns, key, and its definition.

House rules: the dictionary is asked with names as literals and its answers are compared exactly
here, not by its collations. A shape from here equals the stream's shape of the same table. The key
is the server's own (D5): the primary key, else the first unique key, in the server's order, of
whole NOT NULL columns. Whether the key may be paged by is decided in `core`.
"""

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple

import attrs

from capstan.core.halts import Halted, HaltReason, halted
from capstan.core.snapshot.primary_key import require_key
from capstan.core.tables import CaptureList, Column, TableName, TableShape
from capstan.sources.sql_text import literal, qualified

Ask = Callable[[str], Sequence[tuple[Any, ...]]]
"""Runs a statement and gives its rows."""


class _Described(NamedTuple):
    """One row of information_schema.COLUMNS."""

    name: str
    kind: str
    declared: str
    length: int | None
    precision: int | None
    scale: int | None
    fsp: int | None
    charset: str | None
    nullable: str
    extra: str


_BASE_TABLE: Final = "BASE TABLE"
_VIEW: Final = "VIEW"
_COMPUTED: Final = "VIRTUAL GENERATED"
_NUMBERS: Final = frozenset(
    {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double"}
)
_BYTES: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_COUNTED: Final = frozenset({"char", "varchar", "binary", "varbinary"})
_CLOCKS: Final = frozenset({"time", "datetime", "timestamp"})
_LABELLED: Final = frozenset({"enum", "set"})
_AUTO_INCREMENT: Final = re.compile(r" AUTO_INCREMENT=\d+\b")


@attrs.frozen
class _KeyPart:
    """One row of SHOW KEYS.

    Attributes:
        index: The index's name.
        unique: Whether it admits a value once.
        column: The column; None for an expression.
        prefix: Length of the part of the column, 0 for all of it.
        nullable: Whether the column may be NULL.
    """

    index: str
    unique: bool
    column: str | None
    prefix: int
    nullable: bool


@attrs.frozen
class ReadTable:
    """A table as the dictionary has it.

    Attributes:
        shape: Equal to the stream's.
        index: The name of the key's index.
    """

    shape: TableShape
    index: str


def read_names(ask: Ask, patterns: CaptureList, capture: CaptureList) -> tuple[TableName, ...]:
    """The tables that patterns name: base tables, and views named without wildcards; sorted."""
    found = ask("SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES")
    literals = {pattern.text for pattern in patterns.patterns if pattern.literal}
    names = {
        TableName(schema, table)
        for schema, table, kind in found
        if (kind == _BASE_TABLE or f"{schema}.{table}" in literals)
        and patterns.covers(schema, table)
        and capture.covers(schema, table)
    }
    return tuple(sorted(names, key=lambda name: (name.schema, name.table)))


def read_table(ask: Ask, table: TableName) -> ReadTable:
    """Read a table that is to be backfilled.

    Raises:
        Halted: `snapshot_engine_unsupported`, `snapshot_table_no_primary_key`,
            `snapshot_pk_unsupported_type`; `snapshot_schema_drifted` when it is gone.
    """
    _require_innodb(ask, table)
    described = _read_columns(ask, table)
    columns = list(map(_column, described))
    computed = {column.name for column in described if _COMPUTED in column.extra}
    parts = _key_of(_read_keys(ask, table), computed)
    names = [column.name for column in columns]
    key = tuple(names.index(part.column) for part in parts if part.column is not None)
    places = {place: position for position, place in enumerate(key)}
    shape = TableShape(
        table.schema,
        table.table,
        tuple(
            attrs.evolve(column, key_position=places.get(place))
            for place, column in enumerate(columns)
        ),
        key,
    )
    require_key(shape, [part.prefix for part in parts])
    return ReadTable(shape, parts[0].index)


def definition(ask: Ask, table: TableName) -> str:
    """A text that is another one after every change of the table's definition."""
    ((_, text, *_),) = ask(f"SHOW CREATE TABLE {qualified(table)}")
    columns, end, options = str(text).rpartition("\n) ")
    # The counter moves with every row.
    return columns + end + _AUTO_INCREMENT.sub("", options)


def estimated_rows(ask: Ask, table: TableName) -> int:
    """The engine's guess of the number of rows; 0 for no such table."""
    rows = ask(f"SELECT TABLE_NAME, TABLE_ROWS FROM information_schema.TABLES WHERE {_is(table)}")
    return next((int(count or 0) for name, count in rows if name == table.table), 0)


def gone(table: TableName) -> Halted:
    """The verdict on a table that is not there any more."""
    return halted(HaltReason.SNAPSHOT_SCHEMA_DRIFTED, f"{table}: there is no such table")


def _is(table: TableName) -> str:
    return f"TABLE_SCHEMA = {literal(table.schema)} AND TABLE_NAME = {literal(table.table)}"


def _require_innodb(ask: Ask, table: TableName) -> None:
    rows = ask(
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE "
        f"FROM information_schema.TABLES WHERE {_is(table)}"
    )
    for schema, name, kind, engine in rows:
        if (schema, name) == (table.schema, table.table):
            if kind != _BASE_TABLE:
                what = "a view" if kind == _VIEW else "no base table"
                raise halted(HaltReason.SNAPSHOT_ENGINE_UNSUPPORTED, f"{table}: {what}")
            if engine != "InnoDB":
                raise halted(HaltReason.SNAPSHOT_ENGINE_UNSUPPORTED, f"{table}: {engine}")
            return
    raise gone(table)


def _read_columns(ask: Ask, table: TableName) -> list[_Described]:
    rows = ask(
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, "
        "CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION, "
        "CHARACTER_SET_NAME, IS_NULLABLE, EXTRA "
        f"FROM information_schema.COLUMNS WHERE {_is(table)} ORDER BY ORDINAL_POSITION"
    )
    return [
        _Described(*facts)
        for schema, name, *facts in rows
        if (schema, name) == (table.schema, table.table)
    ]


def _column(found: _Described) -> Column:
    kind, decimal = found.kind, found.kind == "decimal"
    only_bytes = kind in _BYTES or (kind in _LABELLED and not found.charset)
    return Column(
        name=found.name,
        type=kind,
        length=_length(kind, found.length, found.precision),
        precision=found.precision if decimal else None,
        scale=found.scale if decimal else None,
        fsp=found.fsp if kind in _CLOCKS else None,
        unsigned=kind in _NUMBERS and "unsigned" in found.declared,
        charset="binary" if only_bytes else found.charset,
        nullable=found.nullable == "YES",
        visible="INVISIBLE" not in found.extra.split(),
    )


def _length(kind: str, length: int | None, precision: int | None) -> int | None:
    if kind in _COUNTED:
        return length
    return precision if kind == "bit" else None


def _read_keys(ask: Ask, table: TableName) -> list[_KeyPart]:
    """The parts of every key, in the server's order of keys."""
    return [
        _KeyPart(
            index=row[2],
            unique=not row[1],
            column=row[4],
            prefix=int(row[7] or 0),
            nullable=row[9] == "YES",
        )
        for row in ask(f"SHOW KEYS FROM {qualified(table)}")
    ]


def _key_of(parts: list[_KeyPart], computed: Collection[str]) -> list[_KeyPart]:
    """The parts of the key that the table map names; none when it names none.

    Args:
        parts: Of every key, in the server's order.
        computed: Columns that are not stored: the server takes no unique key over one.
    """
    for index in dict.fromkeys(part.index for part in parts):
        own = [part for part in parts if part.index == index]
        if index == "PRIMARY" or all(
            part.unique
            and part.column is not None
            and part.column not in computed
            and not part.prefix
            and not part.nullable
            for part in own
        ):
            return own
    return []
