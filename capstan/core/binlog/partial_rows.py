"""Rows of partial updates: after images whose documents may be diffs against the image before.

House rules: both images leave whole; that diffs were sent is not to be seen behind this file. Only
the careful code reads such rows: sessions that write them are rare.

Wire: images alternate as in any update. In front of an after image stand its value options, a
packed integer; with the lowest bit set a bit follows for each JSON column of the table, the first
one lowest, in whole bytes. The value of a column so marked is diffs, behind the same length as a
document has.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from capstan.core.binlog.bounded_reader import BoundedReader, corrupt
from capstan.core.binlog.columns import FieldType
from capstan.core.binlog.field_codecs import FieldCodec
from capstan.core.binlog.json_diff import apply_diffs
from capstan.core.binlog.json_value import json_text
from capstan.core.binlog.row_source import RowSource
from capstan.core.binlog.table_map import TableMap

Row = tuple[Any, ...]
Careful = Callable[[bytes, int, int], tuple[Row, int]]
"""Reads one image: data, place, end to the row and the place behind it."""

_PARTIAL_DOCUMENTS: Final = 1


class PartialRows:
    """Reads the rows of one table's partial updates.

    Args:
        table: The parsed table map.
        codecs: How its columns are read elsewhere.
        careful: Reads an image.
        compiled: Makes a function like that one from a source.
    """

    def __init__(
        self,
        table: TableMap,
        codecs: Sequence[FieldCodec],
        careful: Careful,
        compiled: Callable[[RowSource], Careful],
    ) -> None:
        self._where = f"{table.shape.schema}.{table.shape.table}"
        self._columns = {
            place: _Column(f"the diffs of {self._where}.{column.name}")
            for place, column in enumerate(table.wire)
            if column.type is FieldType.JSON
        }
        self._before = careful
        patching = [
            attrs.evolve(codec, constant=self._columns[place].text)
            if place in self._columns
            else codec
            for place, codec in enumerate(codecs)
        ]
        nullable = [column.nullable for column in table.wire]
        self._after = compiled(RowSource(table.shape.names, nullable, patching))

    def images(self, data: bytes, position: int, end: int) -> list[Row]:
        """Decode the rows at `data[position:end]`; images before and after alternate.

        Raises:
            Halted: `event_corrupt`, `undecodable_text`.
        """
        rows: list[Row] = []
        while position < end:
            before, position = self._before(data, position, end)
            position = self._prepare(before, data, position, end)
            after, position = self._after(data, position, end)
            rows += before, after
        return rows

    def _prepare(self, before: Row, data: bytes, position: int, end: int) -> int:
        """Read which documents are diffs; where the image after begins."""
        reader = BoundedReader(data, f"a row event of {self._where}", position, end)
        options, marks = reader.packed(), 0
        if options > _PARTIAL_DOCUMENTS:
            raise corrupt(f"a row event of {self._where} with unknown value options")
        if options:
            marks = reader.uint((len(self._columns) + 7) // 8)
        for order, (place, column) in enumerate(self._columns.items()):
            column.marked = bool(marks >> order & 1)
            column.before = before[place]
        return reader.position


class _Column:
    """One JSON column of the image that is being read.

    Attributes:
        marked: Whether its value is diffs.
        before: Its text in the image before.
    """

    __slots__ = ("_what", "before", "marked")

    def __init__(self, what: str) -> None:
        self._what = what
        self.marked = False
        self.before: str | None = None

    def text(self, raw: bytes) -> str:
        """The text of the document after the update."""
        if not self.marked:
            return json_text(raw)
        if self.before is None:
            raise ValueError("diffs of a NULL")
        return apply_diffs(self.before, BoundedReader(raw, self._what))
