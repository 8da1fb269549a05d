"""What the fold keeps of a transaction until its terminator: its rows, and how to read them.

House rules: rows are decoded as they arrive, so that whatever cannot be decoded is known before the
first of them leaves (D22). Those beyond the memory budget are dropped again and their events
spooled (`spooling`); rows outside the capture list are neither looked at nor counted. `assembly`
says when what is kept leaves or is thrown away.

The actions here are those of the table of shapes that concern rows; `buffer` is on the hot path.
"""

from typing import Final

import attrs

from capstan.core.binlog import row_compiler, table_map
from capstan.core.binlog.header import EventType
from capstan.core.binlog.log_events import corrupt
from capstan.core.binlog.row_compiler import RowDecoder
from capstan.core.binlog.statements import Statement
from capstan.core.changes import Changes, Op, RowsChunk
from capstan.core.dispatch import Action
from capstan.core.halts import HaltReason, halted
from capstan.core.limits import Budget, over_total, weight_of
from capstan.core.spooling import OPS, OpenSpool, SpoolWriter
from capstan.core.tables import CaptureList, TableShape

_STATEMENT_END: Final = 1
_DUMMY_TABLE: Final = b"\xff\xff\xff\0\0\0"
_MAX_SHAPES: Final = 4096


@attrs.frozen(eq=False, repr=False)
class Table:
    """One distinct table map of a captured table.

    Attributes:
        decoder: Decodes its rows.
        shape: Its public description.
        body: The table map's own bytes, for another decoder.
        weight: What one image takes in memory beside its bytes.
    """

    decoder: RowDecoder
    shape: TableShape
    body: bytes
    weight: int


class RowKeeper:
    """Keeps the rows of one transaction after another for one capture list.

    Args:
        capture: The capture list.
        budget: What one transaction may take.
        open_spool: Opens a place for rows beyond the memory budget.
    """

    _chunks: list[RowsChunk]
    _held: int
    _rows_held: int
    _bytes: int
    _spool: SpoolWriter | None
    _in_group: bool
    _ddl: Statement | None

    def __init__(self, capture: CaptureList, budget: Budget, open_spool: OpenSpool) -> None:
        self._capture = capture
        self._budget = budget
        self._open_spool = open_spool
        self._known: dict[bytes, Table | None] = {}
        self._tables: dict[bytes, Table | None] = {}
        self._savepoints: dict[str, int] = {}
        self._spool = None

    def _spooled_changes(self, spool: SpoolWriter) -> Changes:
        """All changes of the finished transaction; the spool is theirs from now on."""
        changes = spool.finish(self._chunks)
        self._spool = None
        return changes

    def _discard(self) -> None:
        """Keep nothing in memory; runs once a transaction."""
        self._chunks = []
        self._held = self._rows_held = self._bytes = 0
        if self._tables:
            self._tables.clear()
        if self._savepoints:
            self._savepoints.clear()
        self._in_group = False
        self._ddl = None

    def _drop_spool(self) -> None:
        """Let go of a spool that nobody has taken."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    # -- actions -------------------------------------------------------------------------------

    def _map_table(self, data: bytes, start: int, end: int) -> None:
        """Learn what rows under this table id look like, until the statement ends."""
        if end - start < 8:
            raise corrupt("TABLE_MAP truncated")
        body = data[start + 8 : end]
        try:
            table = self._known[body]
        except KeyError:
            table = self._learn(body)
        if self._tables.setdefault(data[start : start + 6], table) is not table:
            raise halted(
                HaltReason.EVENT_ORDER_INVALID, "one table id with two shapes in one statement"
            )

    def _learn(self, body: bytes) -> Table | None:
        """What one distinct table map says; None outside the capture list."""
        schema, name = table_map.peek_name(body)
        table = None
        if self._capture.covers(schema, name):
            decoder = row_compiler.compile_rows(table_map.parse(body))
            shape = decoder.shape
            table = Table(decoder, shape, body, weight_of(len(shape.columns)))
        if len(self._known) >= _MAX_SHAPES:
            self._known.clear()
        self._known[body] = table
        return table

    def _buffer_rows(self, code: int) -> Action:
        """Decode and keep the rows of a captured table; nothing leaves yet (R10)."""
        op, version1 = OPS[code], code < EventType.WRITE_ROWS
        pairs, partial = op is Op.UPDATE, code == EventType.PARTIAL_UPDATE_ROWS
        tables, memory = self._tables, self._budget.memory

        def buffer(data: bytes, start: int, end: int) -> None:
            if end - start < 8:
                raise corrupt("ROWS truncated")
            try:
                table = tables[data[start : start + 6]]
            except KeyError:
                table = self._table_of(data, start)
            if table is not None:
                if partial:
                    images = table.decoder.partial_images(data, start + 8, end)
                else:
                    images = table.decoder.images(data, start + 8, end, pairs, version1)
                if images:
                    count = len(images)
                    self._held = held = self._held + end - start + count * table.weight
                    if held > memory:
                        self._spool_rows(code, table, data[start + 8 : end], count)
                    else:
                        self._chunks.append(RowsChunk(op, table.shape, images))
                    self._rows_held += count >> pairs
            if data[start + 6] & _STATEMENT_END:
                tables.clear()

        total = self._budget.total
        return buffer if total is None else self._bounded(buffer, total)

    def _bounded(self, buffer: Action, total: int) -> Action:
        """The same, for as many bytes of row events as one transaction may have."""

        def bounded(data: bytes, start: int, end: int) -> None:
            if end - start >= 8 and self._table_of(data, start) is not None:
                self._bytes += end - start
                if self._bytes > total:
                    raise over_total(self._bytes, total)
            buffer(data, start, end)

        return bounded

    def _table_of(self, data: bytes, start: int) -> Table | None:
        """The table of the rows whose event begins here; None outside the capture list."""
        try:
            return self._tables[data[start : start + 6]]
        except KeyError:
            # Only the empty event that ends a statement may come without a table map.
            if data[start : start + 6] == _DUMMY_TABLE:
                return None
            raise halted(HaltReason.TABLE_MAP_MISSING, "rows without their table map") from None

    def _spool_rows(self, code: int, table: Table, body: bytes, images: int) -> None:
        """Keep an event outside memory."""
        if self._spool is None:
            self._spool = SpoolWriter(self._open_spool(), self._rows_held)
        self._spool.add(code, table.body, body, images)
