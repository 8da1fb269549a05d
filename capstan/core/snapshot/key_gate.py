"""The gate: what of a transaction the sink may see while its tables are being backfilled.

House rules: inserts and updates pass up to the cursor, deletes up to the delivered mark (R125,
R126); what lies beyond comes with its chunk. An update that changes the key is a delete and an
insert, each judged by its own key (D10). Rows are judged by the run, their order is kept, and the
marks are those of the moment of judgement, however late the rows are looked at.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, overload

import attrs

from capstan.core.changes import Change, Changes, ChunkedChanges, Op, Row, RowsChunk
from capstan.core.halts import HaltReason, halted
from capstan.core.snapshot.primary_key import (
    Key,
    KeyTypes,
    comparable,
    key_reader,
    key_types,
)
from capstan.core.spooling import SpooledChanges, SpooledChunks
from capstan.core.tables import TableShape

_UPDATE: Final = Op.UPDATE
_DELETE: Final = Op.DELETE
_INSERT: Final = Op.INSERT
_KNOWN_SHAPES: Final = 256


@attrs.frozen
class Marks:
    """The two marks of a table that is not complete.

    Attributes:
        key_columns: The key's columns as of the first chunk; empty before it.
        cursor: Up to this key the sink has all rows; None: it has none.
        delivered: Up to this key the sink may have rows; never below the cursor.
    """

    key_columns: tuple[str, ...]
    cursor: Key | None = attrs.field(repr=False)
    delivered: Key | None = attrs.field(repr=False)
    types: KeyTypes = attrs.field(init=False)

    @types.default
    def _types(self) -> KeyTypes:
        return tuple(int if type(value) is int else bytes for value in self.delivered or ())


MarksByTable = Mapping[tuple[str, str], Marks]

_Passed = tuple[Sequence[RowsChunk], int]
"""What passes of one chunk, and how many of its changes do not, or not whole."""


def gated(changes: Changes, marks: MarksByTable) -> tuple[Changes, int]:
    """What passes of a transaction's changes, and how many changes do not, or not whole.

    Chunks in memory are judged now. Those of a spooled transaction are read once to be counted and
    judged again whenever they are read; what is returned owns the spool then, also when nothing
    passes.

    Args:
        changes: All of them.
        marks: Of every table whose backfill is not complete, by schema and table; not to be
            changed afterwards.

    Raises:
        Halted: `snapshot_schema_drifted` when rows have another key than the marks.
    """
    chunks = changes.chunks
    if isinstance(chunks, SpooledChunks):
        view = GatedChunks(chunks, marks)
        return (GatedSpool(chunks, view) if view.differs else changes), view.suppressed
    passed: list[RowsChunk] = []
    suppressed = 0
    for chunk in chunks:
        parts, held_back = judge(chunk, marks)
        passed.extend(parts)
        suppressed += held_back
    if suppressed or len(passed) != len(chunks):
        return ChunkedChanges(passed), suppressed
    return changes, 0


class GatedChunks(Sequence[RowsChunk]):
    """What passes of chunks that are not kept in memory; they are read once to count it.

    Attributes:
        changes: How many changes pass.
        suppressed: How many changes do not pass, or not whole.
        differs: Whether anything but all of them, as they are, passes.
    """

    def __init__(self, chunks: Sequence[RowsChunk], marks: MarksByTable) -> None:
        self._chunks = chunks
        self._marks = marks
        self._length = self.changes = self.suppressed = 0
        for chunk in chunks:
            parts, held_back = judge(chunk, marks)
            self._length += len(parts)
            self.changes += sum(map(len, parts))
            self.suppressed += held_back
        self.differs = bool(self.suppressed) or self._length != len(chunks)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[RowsChunk]:
        for chunk in self._chunks:
            yield from judge(chunk, self._marks)[0]

    @overload
    def __getitem__(self, index: int) -> RowsChunk: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RowsChunk]: ...
    def __getitem__(self, index: int | slice) -> RowsChunk | Sequence[RowsChunk]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(self._length)))
        if index < 0:
            index += self._length
        for place, chunk in enumerate(self):
            if place == index:
                return chunk
        raise IndexError("chunk index out of range")


class GatedSpool(SpooledChanges):
    """What passes of a spooled transaction; good until `release()`."""

    __slots__ = ("_found", "_walk")

    def __init__(self, spooled: SpooledChunks, view: GatedChunks) -> None:
        super().__init__(spooled, view.changes)
        self._chunks = view
        self._walk: Iterator[RowsChunk] = iter(())
        self._found: tuple[int, RowsChunk | None] = (0, None)

    def release(self) -> None:
        """Let go of the spool; whoever looks from now on gets a RuntimeError."""
        super().release()
        self._found = (0, None)

    def change(self, index: int) -> Change:
        """Found by walking on from the last one that was asked for: forwards, each costs a step."""
        first, chunk = self._found
        if chunk is None or index < first:
            self._walk = iter(self._chunks)
            first, chunk = 0, next(self._walk)
        while index >= first + len(chunk):
            first, chunk = first + len(chunk), next(self._walk)
        self._found = (first, chunk)
        return chunk.change(index - first)


def judge(chunk: RowsChunk, marks: MarksByTable) -> _Passed:
    """What passes of one chunk, in order, in as few chunks as that allows.

    Raises:
        Halted: `snapshot_schema_drifted`.
    """
    shape = chunk.shape
    mark = marks.get((shape.schema, shape.table))
    if mark is None:
        return (chunk,), 0
    if mark.delivered is None or not _same_key(shape, mark):
        return (), len(chunk)
    key_of = _reader(shape)[0]
    cursor, delivered = comparable(mark.cursor), comparable(mark.delivered)
    if chunk.op is _UPDATE:
        return _judge_updates(chunk, key_of, cursor, delivered)
    limit = delivered if chunk.op is _DELETE else cursor
    images = [] if limit is None else [row for row in chunk.images if key_of(row) <= limit]
    if len(images) == len(chunk.images):
        return (chunk,), 0
    parts = (RowsChunk(chunk.op, shape, images),) if images else ()
    return parts, len(chunk.images) - len(images)


def _judge_updates(
    chunk: RowsChunk, key_of: Callable[[Row], Any], cursor: Any, delivered: Any
) -> _Passed:
    runs = _Runs(chunk.shape)
    suppressed = 0
    pairs = iter(chunk.images)
    for before in pairs:
        after = next(pairs)
        old, new = key_of(before), key_of(after)
        upserts = cursor is not None and new <= cursor
        if old == new:
            if upserts:
                runs.add(_UPDATE, before, after)
            else:
                suppressed += 1
            continue
        deletes = old <= delivered
        if deletes:
            runs.add(_DELETE, before)
        if upserts:
            runs.add(_INSERT, after)
        suppressed += not (deletes and upserts)
    return runs.chunks, suppressed


class _Runs:
    """Images in order, gathered into chunks of one kind."""

    def __init__(self, shape: TableShape) -> None:
        self._shape = shape
        self.chunks: list[RowsChunk] = []

    def add(self, op: Op, *images: Row) -> None:
        if not self.chunks or self.chunks[-1].op is not op:
            self.chunks.append(RowsChunk(op, self._shape, []))
        self.chunks[-1].images.extend(images)


@lru_cache(_KNOWN_SHAPES)
def _reader(shape: TableShape) -> tuple[Callable[[Row], Any], KeyTypes | None]:
    """How a row's key is had, and of what types it is."""
    return key_reader(shape), key_types(shape)


def _same_key(shape: TableShape, mark: Marks) -> bool:
    """Whether rows can be compared with the marks; False: all of the table is emptied anyway."""
    if shape.key_columns == mark.key_columns and _reader(shape)[1] == mark.types:
        return True
    if mark.cursor is None:
        return False
    raise halted(HaltReason.SNAPSHOT_SCHEMA_DRIFTED, f"{shape.schema}.{shape.table}: another key")
