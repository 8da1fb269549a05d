"""What a sink receives: transactions, changes, schema changes, chunk facts. Values only.

House rules: everything here is immutable. Row and key values are reachable through the attributes
a sink reads and never through a repr. A row is a tuple in column order; the columns and the names
are one object per table shape, shared by all its rows. Statement text does not exist here.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import chain, repeat
from typing import Any, ClassVar, Final, Literal, NamedTuple, overload

import attrs

from capstan.core.gtid import Gtid, GtidSet
from capstan.core.tables import Column, TableShape

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row = tuple[Any, ...]


class Op(StrEnum):
    """What happened to a row; SNAPSHOT is a row that was there before the stream."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    SNAPSHOT = "snapshot"


# Looking a member up in its class costs more than the comparison it is for (Python 3.11).
_UPDATE: Final = Op.UPDATE
_DELETE: Final = Op.DELETE


class RowView(Mapping[str, Any]):
    """A read-only mapping from column name to value over one row tuple, made on demand."""

    __slots__ = ("_shape", "_values")

    def __init__(self, shape: TableShape, values: Row) -> None:
        self._shape = shape
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[self._shape.index[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._shape.names)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<record of {self._shape.schema}.{self._shape.table}, {len(self)} columns>"


@attrs.define(repr=False)
class Change:
    """One row's change, made when it is looked at.

    Not frozen, since that would take three times as long and this is made once a row; each look
    gives a new one, so that nothing else sees what a sink does to it.

    Attributes:
        op: Insert, update, delete or snapshot.
        shape: The table as it was when the row was written; shared by all its rows.
        values: The row after the change, in column order; None for a delete.
        old_values: The row before the change; None for an insert or a snapshot row.
    """

    op: Op
    shape: TableShape
    values: Row | None
    old_values: Row | None

    @property
    def schema(self) -> str:
        """The database name."""
        return self.shape.schema

    @property
    def table(self) -> str:
        """The table name."""
        return self.shape.table

    @property
    def columns(self) -> tuple[Column, ...]:
        """The table's columns, in the order of `values`."""
        return self.shape.columns

    @property
    def record(self) -> Mapping[str, Any] | None:
        """The row after the change as a mapping; None for a delete."""
        return None if self.values is None else RowView(self.shape, self.values)

    @property
    def old_record(self) -> Mapping[str, Any] | None:
        """The row before the change as a mapping; None for an insert or a snapshot row."""
        return None if self.old_values is None else RowView(self.shape, self.old_values)

    @property
    def key(self) -> Row | None:
        """The key values after the change (before it, for a delete); None without a key."""
        row = self.values if self.values is not None else self.old_values
        return None if row is None else self.shape.key_of(row)

    @property
    def old_key(self) -> Row | None:
        """The key values before an update or delete; None otherwise or without a key."""
        return None if self.old_values is None else self.shape.key_of(self.old_values)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The names of the key's columns, in key order; empty without a key."""
        return self.shape.key_columns

    def __repr__(self) -> str:
        return f"<Change {self.op.value} {self.schema}.{self.table}>"


class Changes(Sequence[Change]):
    """A sized, indexable, re-iterable sequence of changes over row chunks; made on demand.

    Attributes:
        spooled: Whether they lie on disk, and are good until the sink returns only.
    """

    __slots__ = ()
    spooled: ClassVar[bool] = False

    @property
    @abstractmethod
    def chunks(self) -> "Sequence[RowsChunk]":
        """The rows by event: for sinks that write whole runs of one table at once."""

    @abstractmethod
    def change(self, index: int) -> Change:
        """The change at `index` (0 ≤ index < len)."""

    def __iter__(self) -> Iterator[Change]:
        return chain.from_iterable(self.chunks)

    @overload
    def __getitem__(self, index: int) -> Change: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Change]: ...
    def __getitem__(self, index: int | slice) -> Change | Sequence[Change]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError("change index out of range")
        return self.change(index)

    def __repr__(self) -> str:
        return f"<{len(self)} changes>"


@attrs.define(repr=False, eq=False)
class RowsChunk(Changes):
    """The changes of one row event: images in wire order. Not frozen for the same reason.

    Attributes:
        op: What the event says happened.
        shape: The table's shape.
        images: One tuple per row; for an update before and after images alternate.
    """

    op: Op
    shape: TableShape
    images: list[Row]

    @property
    def chunks(self) -> "Sequence[RowsChunk]":
        """Itself alone."""
        return (self,)

    def __len__(self) -> int:
        return len(self.images) >> 1 if self.op is _UPDATE else len(self.images)

    def __iter__(self) -> Iterator[Change]:
        # `map` makes them without a frame of its own for each: every row of a stream passes here.
        op, shape, images = self.op, self.shape, self.images
        if op is _UPDATE:
            return map(Change, repeat(op), repeat(shape), images[1::2], images[::2])
        if op is _DELETE:
            return map(Change, repeat(op), repeat(shape), repeat(None), images)
        return map(Change, repeat(op), repeat(shape), images, repeat(None))

    def change(self, index: int) -> Change:
        """The change at `index` (0 ≤ index < len)."""
        op, shape, images = self.op, self.shape, self.images
        if op is _UPDATE:
            return Change(op, shape, images[2 * index + 1], images[2 * index])
        if op is _DELETE:
            return Change(op, shape, None, images[index])
        return Change(op, shape, images[index], None)

    def __repr__(self) -> str:
        return f"<{len(self)} {self.op.value} of {self.shape.schema}.{self.shape.table}>"


class ChunkedChanges(Changes):
    """The changes of any number of row events."""

    __slots__ = ("_chunks", "_length")

    def __init__(self, chunks: Sequence[RowsChunk] = (), length: int | None = None) -> None:
        """Take chunks of one change and more each.

        Args:
            chunks: In order.
            length: How many changes they hold together, when that is known.
        """
        self._chunks = chunks
        self._length = sum(map(len, chunks)) if length is None else length

    @property
    def chunks(self) -> Sequence[RowsChunk]:
        """The rows by event."""
        return self._chunks

    def __len__(self) -> int:
        return self._length

    def change(self, index: int) -> Change:
        """The change at `index` (0 ≤ index < len)."""
        for chunk in self._chunks:
            if index < len(chunk):
                return chunk.change(index)
            index -= len(chunk)
        raise IndexError("change index out of range")


NO_CHANGES: Final[Changes] = ChunkedChanges()
"""Those of a transaction that touched no captured table."""


def utc_from_microseconds(microseconds: int) -> datetime:
    """An aware UTC datetime from microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=microseconds)


class Committed(NamedTuple):
    """Who a transaction is and when it was committed.

    Attributes:
        uuid: Source uuid text.
        tag: Tag, "" without one.
        number: Transaction number.
        commit_micros: Original commit, microseconds since 1970.
        arrived_micros: Commit on the server it was read from, likewise.
    """

    uuid: str
    tag: str
    number: int
    commit_micros: int
    arrived_micros: int

    @property
    def gtid(self) -> Gtid:
        """Its identity."""
        return Gtid(self.uuid, self.tag, self.number)


class PositionLog:
    """The processed set before a run of transactions, and the transactions in order.

    Shared by the transactions of one piece of the stream, so that each can tell its own position
    without a copy of the set for each of them. Positions are asked for in order, as a rule: the
    last answer is kept, so that each costs one step.
    """

    __slots__ = ("_known", "base", "run")

    def __init__(self, base: GtidSet) -> None:
        self.base = base
        self.run: list[Committed] = []
        self._known = (0, base)

    def at(self, index: int) -> GtidSet:
        """The processed set including the transaction at `index`."""
        return self.before(index + 1)

    def before(self, index: int) -> GtidSet:
        """The processed set without the transaction at `index`."""
        # One assignment, so that any thread may ask.
        count, known = self._known if self._known[0] <= index else (0, self.base)
        answer = known.add_all(committed.gtid for committed in self.run[count:index])
        self._known = (index, answer)
        return answer


@attrs.frozen(repr=False, eq=False)
class Transaction:
    """One committed transaction, whole.

    Attributes:
        committed: Identity and times.
        changes: Its captured changes in order; empty when all were filtered out.
    """

    committed: Committed
    changes: Changes
    _log: PositionLog
    _index: int

    @property
    def gtid(self) -> Gtid:
        """Its identity."""
        return self.committed.gtid

    @property
    def commit_micros(self) -> int:
        """The original commit, microseconds since 1970."""
        return self.committed.commit_micros

    @property
    def commit_time(self) -> datetime:
        """When the original server committed it (aware, UTC, microseconds)."""
        return utc_from_microseconds(self.commit_micros)

    @property
    def position(self) -> GtidSet:
        """The processed set including this transaction; computed when asked for."""
        return self._log.at(self._index)

    def __repr__(self) -> str:
        return f"<Transaction {self.gtid} with {len(self.changes)} changes>"


SchemaChangeKind = Literal[
    "create_table",
    "alter_table",
    "drop_table",
    "rename_table",
    "truncate_table",
    "alter_partition",
    "exchange_partition",
    "create_database",
    "alter_database",
    "drop_database",
    "create_view",
    "alter_view",
    "drop_view",
    "other",
]


@attrs.frozen(kw_only=True)
class SchemaChange:
    """One table, database or view that a DDL statement named; never the statement's text.

    Attributes:
        gtid: The statement's identity.
        commit_micros: The original commit, microseconds since 1970.
        position: The processed set after it; without its own GTID when rows of the same GTID
            follow (CREATE TABLE … SELECT).
        schema: The database named (or the session's default one), None for `other`.
        table: The table or view named, None for databases and `other`.
        kind: One word of a closed list.
        new_schema: RENAME: the new database; EXCHANGE PARTITION: the other table's.
        new_table: RENAME: the new name; EXCHANGE PARTITION: the other table.
        rows_may_change: False only where the statement cannot have changed stored rows.
        may_be_noop: True when the statement may have found nothing to do: a CREATE (perhaps IF
            NOT EXISTS) that does not bear the mark of an atomic DDL that was carried out.
        captured: Whether `schema.table` is in the capture list.
        new_captured: Whether `new_schema.new_table` is in the capture list.
    """

    gtid: Gtid
    commit_micros: int
    position: GtidSet
    schema: str | None
    table: str | None
    kind: SchemaChangeKind
    new_schema: str | None = None
    new_table: str | None = None
    rows_may_change: bool = True
    may_be_noop: bool = False
    captured: bool = True
    new_captured: bool = False

    @property
    def commit_time(self) -> datetime:
        """When the original server committed it (aware, UTC, microseconds)."""
        return utc_from_microseconds(self.commit_micros)


@attrs.frozen
class SchemaChangeGroup:
    """All schema changes of one GTID, delivered together.

    Attributes:
        committed: Identity and times.
        changes: One or more, all that the statement names.
        rows_follow: True when a transaction of the same GTID comes next (CREATE TABLE … SELECT):
            that transaction moves the watermark, this group does not (D20).
    """

    committed: Committed
    changes: tuple[SchemaChange, ...]
    rows_follow: bool = False

    @property
    def gtid(self) -> Gtid:
        """The statement's identity."""
        return self.committed.gtid


Item = Transaction | SchemaChangeGroup
"""What the stream consists of."""


@attrs.frozen(kw_only=True)
class SnapshotMeta:
    """Facts about one chunk of a backfill; no row and no key value.

    Attributes:
        schema: The database name.
        table: The table name.
        sequence: 0 for the first chunk: the sink empties the table first (D8).
        position: G, the set whose effects the chunk shows exactly.
        final: True for the table's last chunk.
    """

    schema: str
    table: str
    sequence: int
    position: GtidSet
    final: bool
