"""Shapes, transactions and schema changes built by hand, for tests of sinks and stores.

One source numbers its transactions from 1; the position of transaction n is everything up to n.
"""

import re
from collections.abc import Sequence
from typing import Any

from capstan.core.changes import (
    Changes,
    ChunkedChanges,
    Committed,
    Op,
    PositionLog,
    RowsChunk,
    SchemaChange,
    SchemaChangeGroup,
    SchemaChangeKind,
    SnapshotMeta,
    Transaction,
)
from capstan.core.gtid import Gtid, GtidSet
from capstan.core.tables import Column, TableShape

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
COMMIT_MICROS = 1_700_000_000_123_456
"""2023-11-14T22:13:20.123456Z."""

_COLUMN = re.compile(
    r"(?P<name>.+?) (?P<type>[a-z]+)(?:\((?P<size>\d+)(?:,(?P<scale>\d+))?\))?"
    r"(?P<unsigned> unsigned)?",
    re.DOTALL,
)
_TEMPORAL = {"time", "datetime", "timestamp"}

Row = tuple[Any, ...]


def gtid(number: int) -> Gtid:
    return Gtid(UUID, "", number)


def committed(number: int) -> Committed:
    return Committed(UUID, "", number, COMMIT_MICROS, COMMIT_MICROS)


def up_to(number: int) -> GtidSet:
    """The set of the transactions 1 to `number`; empty for 0."""
    return GtidSet({(UUID, ""): ((1, number + 1),)}) if number else GtidSet()


def column(text: str, key_position: int | None = None) -> Column:
    """A column from `name type(size) unsigned`; the size of a temporal type is its fsp."""
    parts = _COLUMN.fullmatch(text)
    assert parts is not None, text
    size = int(parts["size"]) if parts["size"] else None
    temporal, decimal = parts["type"] in _TEMPORAL, parts["type"] == "decimal"
    return Column(
        name=parts["name"],
        type=parts["type"],
        length=None if temporal or decimal else size,
        precision=size if decimal else None,
        scale=int(parts["scale"] or 0) if decimal else None,
        fsp=(size or 0) if temporal else None,
        unsigned=parts["unsigned"] is not None,
        nullable=key_position is None,
        key_position=key_position,
    )


def shape(name: str, *columns: str, key: Sequence[str] = ()) -> TableShape:
    """A shape of `schema.table` (or `schema`, NUL, `table`) with these columns."""
    schema, _, table = name.partition("\0" if "\0" in name else ".")
    built = []
    for text in columns:
        plain = column(text)
        place = key.index(plain.name) if plain.name in key else None
        built.append(column(text, place))
    names = [each.name for each in built]
    return TableShape(schema, table, tuple(built), tuple(names.index(each) for each in key))


def inserted(table: TableShape, *rows: Row) -> RowsChunk:
    return RowsChunk(Op.INSERT, table, list(rows))


def updated(table: TableShape, *pairs: tuple[Row, Row]) -> RowsChunk:
    return RowsChunk(Op.UPDATE, table, [image for pair in pairs for image in pair])


def deleted(table: TableShape, *rows: Row) -> RowsChunk:
    return RowsChunk(Op.DELETE, table, list(rows))


def transaction(number: int, *chunks: RowsChunk) -> Transaction:
    log = PositionLog(up_to(number - 1))
    log.run.append(committed(number))
    return Transaction(committed(number), ChunkedChanges(chunks), log, 0)


def schema_change(
    number: int,
    kind: SchemaChangeKind,
    name: str | None = None,
    new_name: str | None = None,
    *,
    rows_may_change: bool = True,
    captured: bool = True,
    new_captured: bool | None = None,
) -> SchemaChange:
    """A schema change of `schema.table`, or of a database when there is no dot."""
    schema, _, table = (name or "").partition(".")
    new_schema, _, new_table = (new_name or "").partition(".")
    return SchemaChange(
        gtid=gtid(number),
        commit_micros=COMMIT_MICROS,
        position=up_to(number),
        schema=schema or None,
        table=table or None,
        kind=kind,
        new_schema=new_schema or None,
        new_table=new_table or None,
        rows_may_change=rows_may_change,
        captured=captured,
        new_captured=bool(new_name) if new_captured is None else new_captured,
    )


def group(*changes: SchemaChange, rows_follow: bool = False) -> SchemaChangeGroup:
    return SchemaChangeGroup(committed(changes[0].gtid.number), tuple(changes), rows_follow)


def created(number: int, name: str) -> SchemaChangeGroup:
    return group(schema_change(number, "create_table", name, rows_may_change=False))


def chunk_facts(
    name: str, sequence: int = 0, *, position: int = 0, final: bool = False
) -> SnapshotMeta:
    schema, _, table = name.partition(".")
    return SnapshotMeta(
        schema=schema, table=table, sequence=sequence, position=up_to(position), final=final
    )


def chunk(table: TableShape, *rows: Row) -> Changes:
    return ChunkedChanges([RowsChunk(Op.SNAPSHOT, table, list(rows))])
