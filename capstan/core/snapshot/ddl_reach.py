"""What an item of the stream has to do with a table that is being backfilled.

House rules: every table that a statement names counts, on either side of a RENAME or an EXCHANGE
PARTITION, and all tables of a dropped database (D9). A statement of which nothing is known counts
as naming every table.
"""

from typing import Final

from capstan.core.changes import SchemaChange, SchemaChangeGroup, Transaction
from capstan.core.spooling import SpooledChunks

_OF_DATABASES: Final = frozenset({"create_database", "alter_database"})


def touches(item: Transaction | SchemaChangeGroup, schema: str, table: str) -> bool:
    """Whether the item holds a change or a DDL of this table."""
    if isinstance(item, Transaction):
        chunks = item.changes.chunks
        if isinstance(chunks, SpooledChunks):
            return (schema, table) in chunks.tables
        return any(chunk.shape.table == table and chunk.shape.schema == schema for chunk in chunks)
    return any(names_table(change, schema, table) for change in item.changes)


def names_table(change: SchemaChange, schema: str, table: str) -> bool:
    """Whether one schema change concerns this table as it stands there with rows.

    A CREATE that may have found the table in place did so: to create it anew, another statement
    would have had to take the old one away.
    """
    if change.kind == "other":
        return change.rows_may_change
    if change.kind in _OF_DATABASES or change.may_be_noop:
        return False
    if change.kind == "drop_database":
        return change.schema == schema
    return (change.schema, change.table) == (schema, table) or (
        change.new_schema,
        change.new_table,
    ) == (schema, table)
