"""Which integer columns are unsigned, where a file's table maps may not say it.

House rules: a sign is known from a schema that somebody wrote down; it is never guessed. Where the
table map says it too, both must agree.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, Self

import attrs

from capstan.core.binlog.columns import INTEGERS
from capstan.core.binlog.header import SIZE, EventType
from capstan.core.binlog.memo import Memo
from capstan.core.binlog.offline.mapped_table import MappedTable
from capstan.core.binlog.offline.raw_event import Buffer, EventHeader, whole_event

_ROWS: Final = frozenset({EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS})
_TABLE_ID: Final = slice(SIZE, SIZE + 6)
_TABLE_BODY: Final = SIZE + 8
_MAPS_KEPT: Final = 4096
_INTEGER_NAMES: Final = frozenset(INTEGERS.values())


class SchemaError(ValueError):
    """A schema is malformed or contradicts a table map; the message holds names and counts."""


class Signs(Protocol):
    """Says which integer columns of a table are unsigned."""

    def of(self, table: MappedTable) -> Sequence[bool] | None:
        """One flag for each integer column, in column order; None to rely on the table map.

        Raises:
            SchemaError: When what is known of the table contradicts its table map.
        """

    def names(self, table: MappedTable) -> tuple[str, ...] | None:
        """The names of all its columns; None to rely on the table map."""


@attrs.frozen
class TableSchema:
    """What somebody says of one table.

    Attributes:
        names: Its columns, in order.
        unsigned: Which of them are unsigned.
    """

    names: tuple[str, ...]
    unsigned: tuple[bool, ...]

    @classmethod
    def read(cls, table: str, entries: object) -> Self:
        """Read the list of columns of one table.

        Raises:
            SchemaError: Naming the table and what is wrong.
        """
        if not isinstance(entries, list) or not entries:
            raise SchemaError(f"{table}: not a list of columns")
        names: list[str] = []
        flags: list[bool] = []
        for place, entry in enumerate(entries, start=1):
            column = {"name": entry} if isinstance(entry, str) else entry
            name, unsigned = _column(column)
            if name is None or unsigned is None:
                raise SchemaError(f"{table}: column {place} needs a name and may have unsigned")
            names.append(name)
            flags.append(unsigned)
        if len(set(names)) != len(names):
            raise SchemaError(f"{table}: a column twice")
        return cls(tuple(names), tuple(flags))


def _column(column: object) -> tuple[str | None, bool | None]:
    if not isinstance(column, dict) or not set(column) <= {"name", "unsigned"}:
        return None, None
    name, unsigned = column.get("name"), column.get("unsigned", False)
    return (
        name if isinstance(name, str) and name else None,
        # JSON of MySQL has 0 and 1 where a comparison was.
        bool(unsigned) if unsigned in (True, False) else None,
    )


class Schemas:
    """The schemas of some tables, as a document has them.

    Args:
        tables: `schema.table` → its columns.
    """

    def __init__(self, tables: Mapping[str, TableSchema]) -> None:
        self._tables = dict(tables)

    @classmethod
    def read(cls, document: Any) -> Self:
        """Read a document: table → list of columns, each a name or `{"name", "unsigned"}`.

        Raises:
            SchemaError: When it has another form.
        """
        if not isinstance(document, dict):
            raise SchemaError("not an object of tables")
        return cls({table: TableSchema.read(table, columns) for table, columns in document.items()})

    def names(self, table: MappedTable) -> tuple[str, ...] | None:
        """The names of all its columns; None for a table that is not here."""
        known = self._tables.get(f"{table.schema}.{table.table}")
        return None if known is None else known.names

    def of(self, table: MappedTable) -> Sequence[bool] | None:
        """One flag for each integer column; None for a table that is not here.

        Raises:
            SchemaError: When the table map has other columns, names or signs.
        """
        where = f"{table.schema}.{table.table}"
        known = self._tables.get(where)
        if known is None:
            return None
        if len(known.names) != table.column_count:
            raise SchemaError(
                f"{where} has {table.column_count} columns, the schema {len(known.names)}"
            )
        columns = table.rows((False,) * table.integers if not table.signs_known else None).shape
        if table.names_known and columns.names != known.names:
            place = next(
                place
                for place, pair in enumerate(zip(columns.names, known.names, strict=True), 1)
                if pair[0] != pair[1]
            )
            raise SchemaError(f"{where}: column {place} has another name in the schema")
        return self._flags(where, known, table, columns.columns)

    def _flags(
        self, where: str, known: TableSchema, table: MappedTable, columns: Sequence[Any]
    ) -> tuple[bool, ...]:
        flags = tuple(
            unsigned
            for unsigned, column in zip(known.unsigned, columns, strict=True)
            if column.type in _INTEGER_NAMES
        )
        if table.unsigned is not None and flags != table.unsigned:
            raise SchemaError(f"{where}: the schema has other signs")
        return flags


class TableSigns:
    """Remembers, from table map to row event, what to tell a decoder.

    Args:
        signs: Who knows; None when nobody does.
    """

    def __init__(self, signs: Signs | None) -> None:
        self._signs = signs
        self._tables: Memo[bytes, MappedTable] = Memo(MappedTable, _MAPS_KEPT)
        self._flags: dict[bytes, Sequence[bool] | None] = {}

    def at(self, data: Buffer, offset: int, *, checksums: bool) -> Sequence[bool] | None:
        """The flags for the event at an offset; None for any but row events.

        Raises:
            SchemaError: From whoever knows.
            DecodeError, Halted: For a table map that is no good.
        """
        if self._signs is None:
            return None
        header = EventHeader.parse(data, offset)
        if header.event_type == EventType.TABLE_MAP:
            _, raw, end = whole_event(data, offset, checksums=checksums)
            self._flags[raw[_TABLE_ID]] = self._signs.of(self._tables[raw[_TABLE_BODY:end]])
        elif header.event_type in _ROWS:
            _, raw, _ = whole_event(data, offset, checksums=False)
            return self._flags.get(raw[_TABLE_ID])
        return None

    def forget(self) -> None:
        """The transaction is over."""
        self._flags.clear()
