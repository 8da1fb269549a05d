"""How far a backfill has come: the durable state and its transitions, as values.

House rules: two marks a table. `cursor` is what the sink is known to have, `delivered` what it may
have (written before the sink is called, never going back, D7). `sequence` 0 means that the sink
empties the table with the next chunk (D8). The names are resolved once (D11). Nothing here holds a
GTID that counts as processed: the stream alone says what is (R57-R59). Keys are in no repr.
"""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from json import dumps
from typing import Final

import attrs

from capstan.core.gtid import GtidSet
from capstan.core.halts import HaltReason, halted
from capstan.core.snapshot.primary_key import Key
from capstan.core.tables import CapturePattern, TableName, TableShape

_KNOWN_SHAPES: Final = 256


@attrs.frozen(kw_only=True)
class ChunkMark:
    """What the progress keeps of one chunk.

    Attributes:
        position: G, the set whose effects the chunk shows exactly.
        key_columns: The key's columns, in key order.
        shape_digest: Of the table's shape, see `shape_digest`.
        last_key: Of the last row; None for a chunk without rows.
        rows: How many it has.
        final: Whether no row is behind it.
    """

    position: GtidSet
    key_columns: tuple[str, ...]
    shape_digest: str
    last_key: Key | None = attrs.field(repr=False)
    rows: int
    final: bool


@attrs.frozen(kw_only=True)
class TableProgress:
    """How far the backfill of one table has come.

    Attributes:
        schema: The database name.
        table: The table name.
        key_columns: The key's columns in key order, as of the first chunk; empty before it.
        shape_digest: Of the shape of all its chunks; "" before the first one.
        cursor: Up to this key the sink has all rows; None before the first chunk.
        delivered: Up to this key the sink may have rows; never below `cursor`.
        sequence: The number of the next chunk; 0 until the first one is in.
        first_position: G of the first chunk since sequence 0, the lowest of all (D9).
        rows: How many rows the sink got since sequence 0.
        complete: Whether the last chunk is in.
    """

    schema: str
    table: str
    key_columns: tuple[str, ...] = ()
    shape_digest: str = ""
    cursor: Key | None = attrs.field(default=None, repr=False)
    delivered: Key | None = attrs.field(default=None, repr=False)
    sequence: int = 0
    first_position: GtidSet | None = None
    rows: int = 0
    complete: bool = False

    @property
    def name(self) -> TableName:
        """Schema and table."""
        return TableName(self.schema, self.table)

    def marked(self, mark: ChunkMark) -> "TableProgress":
        """To be on disk before the sink gets the chunk (R123)."""
        marked = attrs.evolve(self, delivered=_higher(self.delivered, mark.last_key))
        if self.sequence:
            return marked
        # What an earlier attempt at the first chunk saw is emptied away with its rows.
        return attrs.evolve(
            marked,
            key_columns=mark.key_columns,
            shape_digest=mark.shape_digest,
            first_position=mark.position,
        )

    def moved(self, mark: ChunkMark) -> "TableProgress":
        """To be on disk after the sink accepted the chunk (R107, R124)."""
        return attrs.evolve(
            self,
            cursor=self.cursor if mark.last_key is None else mark.last_key,
            sequence=self.sequence + 1,
            rows=self.rows + mark.rows,
            complete=mark.final,
        )

    def redone(self) -> "TableProgress":
        """Back to the start: the next chunk is the first and empties the table (D8)."""
        return TableProgress(schema=self.schema, table=self.table)


def _higher(one: Key | None, other: Key | None) -> Key | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


@attrs.frozen(kw_only=True)
class SnapshotState:
    """The whole backfill, as one durable write keeps it.

    Attributes:
        patterns: The configured list from which the tables were resolved, sorted (D11).
        tables: In the order in which they are read.
    """

    patterns: tuple[str, ...]
    tables: tuple[TableProgress, ...]

    @property
    def complete(self) -> bool:
        """Whether nothing is left to do."""
        return all(progress.complete for progress in self.tables)

    def find(self, name: TableName) -> TableProgress | None:
        """One table's progress; None for a table outside the backfill."""
        return next((each for each in self.tables if each.name == name), None)

    def replaced(self, progress: TableProgress) -> "SnapshotState":
        """With another progress of the same table."""
        return attrs.evolve(
            self,
            tables=tuple(progress if each.name == progress.name else each for each in self.tables),
        )

    def redone(self, name: TableName | None = None) -> "SnapshotState":
        """One table, or all of them, back to the start.

        Raises:
            ValueError: When the backfill does not hold this table.
        """
        if name is not None and self.find(name) is None:
            raise ValueError("no table of this backfill")
        return attrs.evolve(
            self,
            tables=tuple(
                each.redone() if name in (None, each.name) else each for each in self.tables
            ),
        )


def resolved(patterns: Iterable[str], tables: Iterable[TableName]) -> SnapshotState:
    """The state with which a backfill begins (D11).

    Args:
        patterns: The configured list.
        tables: The base tables it names at P0.

    Raises:
        Halted: `config_invalid` when a pattern without wildcard, or the whole list, names none.
    """
    texts, names = canonical(patterns), sorted(set(tables), key=str)
    known = {str(name) for name in names}
    for text in texts:
        if CapturePattern.parse(text).literal and text not in known:
            raise halted(HaltReason.CONFIG_INVALID, f"snapshot: there is no table {text}")
    if not names:
        raise halted(HaltReason.CONFIG_INVALID, "snapshot: the list names no table")
    return SnapshotState(
        patterns=texts,
        tables=tuple(TableProgress(schema=name.schema, table=name.table) for name in names),
    )


def canonical(patterns: Iterable[str]) -> tuple[str, ...]:
    """A configured list, sorted and without repetition (R162)."""
    return tuple(sorted(set(patterns)))


def check_drift(state: SnapshotState, patterns: Iterable[str]) -> None:
    """See that the configured list still is the one that was resolved (R159-R162, D11).

    A list of names alone may also be exactly the set that a pattern once stood for.

    Raises:
        Halted: `snapshot_config_drifted`.
    """
    configured = canonical(patterns)
    if configured == state.patterns:
        return
    literal = all(CapturePattern.parse(text).literal for text in configured)
    names = {str(progress.name) for progress in state.tables}
    if literal and names == set(configured):
        return
    stands = names if literal else set(state.patterns)
    added = sorted(set(configured) - stands)
    removed = sorted(stands - set(configured))
    raise halted(
        HaltReason.SNAPSHOT_CONFIG_DRIFTED,
        f"added: {', '.join(added) or 'none'}; removed: {', '.join(removed) or 'none'}",
    )


@lru_cache(_KNOWN_SHAPES)
def shape_digest(shape: TableShape) -> str:
    """A fingerprint of columns and key: equal for two shapes exactly when both are equal."""
    columns = [
        [
            column.name,
            column.type,
            column.length,
            column.precision,
            column.scale,
            column.fsp,
            column.unsigned,
            column.charset,
            column.nullable,
            column.visible,
        ]
        for column in shape.columns
    ]
    return sha256(dumps([columns, shape.key]).encode()).hexdigest()
