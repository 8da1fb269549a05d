"""The mirror's catalogue: which source tables it holds, under which name, how much of each.

House rules: the catalogue and SQLite's own schema change together, inside the caller's SQLite
transaction; after a rollback the object is thrown away and read again. It knows names and shapes,
never rows. A table comes into SQLite with its first row, because only a row brings its columns;
that it is followed may be known before.

How much: PARTIAL, what came by since the start; COMPLETE, every row of the source (followed from
its CREATE, or backfilled to the end); AWAITING, nothing yet: a backfill is going to begin, and no
schema change can make stale what is not held.
"""

import json
import sqlite3
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import attrs

from capstan.core.halts import Halted, HaltReason, halted
from capstan.core.tables import TableShape
from capstan.sinks import mirror_sql as sql
from capstan.sinks.mirror_names import OWN_PREFIX, folded, table_name

SCHEMA: Final = (
    """CREATE TABLE _capstan_tables (
        number INTEGER PRIMARY KEY,
        schema_name TEXT NOT NULL,
        table_name TEXT NOT NULL,
        state TEXT NOT NULL,
        columns TEXT NOT NULL,
        key TEXT NOT NULL,
        UNIQUE (schema_name, table_name)
    )""",
)

_INTERIM: Final = f"{OWN_PREFIX}_interim"


class State(StrEnum):
    """How much of the source table the mirror is sure to hold."""

    PARTIAL = "partial"
    COMPLETE = "complete"
    AWAITING = "awaiting backfill"


@attrs.define(eq=False)
class MirrorTable:
    """One source table in the mirror.

    Attributes:
        number: The catalogue's number for it.
        schema: The source's database.
        table: The source's table.
        state: How much of it is here.
        columns: Its columns in SQLite; empty while it has no table there.
        key: The columns of its key.
    """

    number: int
    schema: str
    table: str
    state: State
    columns: tuple[str, ...] = ()
    key: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name in SQLite."""
        return table_name(self.schema, self.table)

    @property
    def strict(self) -> bool:
        """Whether a row that is updated or deleted must be there."""
        return self.state is State.COMPLETE

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


class MirrorTables:
    """The catalogue of one open mirror."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._tables: dict[str, MirrorTable] = {}
        for number, schema, table, state, columns, key in connection.execute(
            "SELECT number, schema_name, table_name, state, columns, key FROM _capstan_tables"
        ):
            found = MirrorTable(
                number,
                schema,
                table,
                State(state),
                tuple(json.loads(columns)),
                tuple(json.loads(key)),
            )
            self._tables[folded(found.name)] = found

    def __iter__(self) -> Iterator[MirrorTable]:
        return iter(tuple(self._tables.values()))

    def find(self, schema: str, table: str) -> MirrorTable | None:
        """The entry of a source table.

        Raises:
            Halted: `mirror_name_conflict` when SQLite would take another one's name for its.
        """
        found = self._tables.get(folded(table_name(schema, table)))
        if found is not None and (found.schema, found.table) != (schema, table):
            raise halted(
                HaltReason.MIRROR_NAME_CONFLICT,
                f"{schema}.{table} and {found} are one name to SQLite",
            )
        return found

    def add(self, schema: str, table: str, state: State) -> MirrorTable:
        """Enter a source table that is not in the catalogue."""
        number = 1 + max((known.number for known in self), default=0)
        added = MirrorTable(number, schema, table, state)
        self._save(added)
        return added

    def find_or_add(self, schema: str, table: str) -> MirrorTable:
        """The entry of a source table; a new one is PARTIAL."""
        return self.find(schema, table) or self.add(schema, table, State.PARTIAL)

    def set_state(self, table: MirrorTable, state: State) -> None:
        """Note how much of the source table is here."""
        table.state = state
        self._save(table)

    def holds_rows(self, table: MirrorTable) -> bool:
        """Whether at least one row is here."""
        if not table.columns:
            return False
        return bool(self._connection.execute(sql.any_row(table.name)).fetchone()[0])

    def clear(self, table: MirrorTable) -> None:
        """Take all rows out."""
        if table.columns:
            self._connection.execute(sql.delete_all(table.name))

    def remove(self, table: MirrorTable) -> None:
        """Take the table out of mirror and catalogue."""
        self._drop(table)
        self._connection.execute("DELETE FROM _capstan_tables WHERE number = ?", (table.number,))
        self._tables.pop(folded(table.name), None)

    def rename(self, table: MirrorTable, schema: str, new_table: str) -> None:
        """Follow a rename.

        What stands under the new name cannot be in the source any more; if a backfill of that name
        is awaited, it will bring the rows of this table as well.
        """
        old_name = table.name
        del self._tables[folded(old_name)]
        in_the_way = self.find(schema, new_table)
        if in_the_way is not None:
            if in_the_way.state is State.AWAITING:
                self.remove(table)
                return
            self.remove(in_the_way)
        table.schema, table.table = schema, new_table
        if table.columns:
            # SQLite refuses to rename a table to its own name in other letter case.
            self._connection.execute(sql.rename_table(old_name, _INTERIM))
            self._connection.execute(sql.rename_table(_INTERIM, table.name))
        self._save(table)

    def fit(self, table: MirrorTable, shape: TableShape) -> None:
        """Give the table the shape of the rows that are about to come.

        Raises:
            Halted: `mirror_rows_stale` when rows of other columns are held, `mirror_drifted` when
                they do not have the key that the source says they have, `sink_failed` and
                `mirror_name_conflict` when SQLite cannot have such a table.
        """
        if table.columns == shape.names and table.key == shape.key_columns:
            return
        if not self.holds_rows(table) or table.state is State.AWAITING:
            self._drop(table)
            self._create(table, shape)
        elif table.columns == shape.names:
            self._change_key(table, shape)
        else:
            raise stale(table, "rows of other columns arrive")

    def _create(self, table: MirrorTable, shape: TableShape) -> None:
        limit = self._connection.getlimit(sqlite3.SQLITE_LIMIT_COLUMN)
        if len(shape.names) > limit:
            raise halted(
                HaltReason.SINK_FAILED,
                f"{table} has {len(shape.names)} columns; SQLite takes {limit} at most",
            )
        if len({folded(name) for name in shape.names}) < len(shape.names):
            raise halted(
                HaltReason.MIRROR_NAME_CONFLICT, f"{table}: two columns are one name to SQLite"
            )
        self._connection.execute(sql.create_table(table.name, shape.names, shape.key_columns))
        table.columns, table.key = shape.names, shape.key_columns
        self._save(table)

    def _change_key(self, table: MirrorTable, shape: TableShape) -> None:
        """Build the table anew around another key: an index can come or go and leave rows alone."""
        self._connection.execute(sql.create_table(_INTERIM, shape.names, shape.key_columns))
        fits = True
        try:
            self._connection.execute(sql.copy_rows(table.name, _INTERIM))
        except sqlite3.IntegrityError:
            fits = False
        if not fits:
            raise halted(HaltReason.MIRROR_DRIFTED, f"{table}: its rows do not fit its new key")
        self._drop(table)
        self._connection.execute(sql.rename_table(_INTERIM, table.name))
        table.columns, table.key = shape.names, shape.key_columns
        self._save(table)

    def _drop(self, table: MirrorTable) -> None:
        if table.columns:
            self._connection.execute(sql.drop_table(table.name))
            table.columns = table.key = ()

    def _save(self, table: MirrorTable) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO _capstan_tables VALUES (?, ?, ?, ?, ?, ?)",
            (
                table.number,
                table.schema,
                table.table,
                table.state,
                json.dumps(table.columns),
                json.dumps(table.key),
            ),
        )
        self._tables[folded(table.name)] = table


def stale(table: object, why: str) -> Halted:
    """The halt for rows that a schema change may have altered unseen; a backfill mends it."""
    return halted(HaltReason.MIRROR_ROWS_STALE, f"{table}: {why}")
