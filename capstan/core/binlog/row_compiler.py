"""Compiles one decoder per table map and runs it over row events.

House rules: the decoder is exact or halts; nothing else leaves it, whatever the bytes. The code
for a table is generated (`row_source`) and grows: a null bitmap that was seen often enough gets a
straight line of code, a bounded number of them, the others go through the careful function. An
event is handed out only when every value of it was decoded and its rows end exactly where it ends.
When the fast code stumbles, the careful function reads the event again and gives the verdict.
"""

import struct
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

from capstan.core.binlog.bounded_reader import BoundedReader, corrupt
from capstan.core.binlog.field_codecs import codec_for
from capstan.core.binlog.partial_rows import Careful, PartialRows
from capstan.core.binlog.row_habits import RowHabits
from capstan.core.binlog.row_source import RowSource
from capstan.core.binlog.table_map import TableMap
from capstan.core.halts import Halted, HaltReason, halted
from capstan.core.tables import TableShape

Row = tuple[Any, ...]

_SIGHTINGS: Final = 64
"""A null bitmap gets code of its own after so many rows: compiling costs as much as hundreds."""
_HEADS_KEPT: Final = 16


class _ShortRowError(Exception):
    """A row that goes on behind its event, or a NULL where none can be."""


FAILURES: Final = (_ShortRowError, ValueError, IndexError, struct.error, OverflowError)
"""What reading wrong bytes can raise in generated code and in the recipes."""


class RowDecoder:
    """Decodes the row events of one table map.

    Args:
        table: The parsed table map.
        sightings: How often a null bitmap must occur before code is generated for it.

    Attributes:
        shape: The table's public description.
        rows: The generated code as it stands now: takes bytes and from where to where its rows
            lie in them, gives the rows and where the last ends. Anywhere but there, or an exception
            of `FAILURES`, means that `images` has to judge.

    Raises:
        Halted: `unsupported_column_type`, naming the column; `undecodable_text` for a label.
    """

    rows: Callable[[bytes, int, int], tuple[list[Row], int]]

    def __init__(self, table: TableMap, sightings: int = _SIGHTINGS) -> None:
        self.shape: TableShape = table.shape
        self._where = f"{table.shape.schema}.{table.shape.table}"
        codecs = [codec_for(column, self._where) for column in table.wire]
        nullable = [column.nullable for column in table.wire]
        self._table, self._codecs = table, codecs
        self._writer = RowSource(table.shape.names, nullable, codecs)
        self._habits = RowHabits(codecs, sightings)
        self._usual = True
        self._heads = tuple(_Head(len(codecs), bitmaps, self._where) for bitmaps in (1, 2))
        self._namespace: dict[str, Any] = {
            "Short": _ShortRowError,
            "FAILURES": FAILURES,
            "verdict": self._verdict,
            "seen": self._seen,
            "missed": self._missed,
        }
        self._careful_source = self._writer.careful()
        self._run(self._careful_source)
        self._compile()

    @property
    def source(self) -> str:
        """The generated code as it stands now."""
        return f"{self._careful_source}\n\n{self._rows_source}"

    def images(
        self, data: bytes, start: int, end: int, pairs: bool, version1: bool = False
    ) -> list[Row]:
        """Decode one row event.

        Args:
            data: The bytes that hold the event.
            start: Where its extra data's length stands, right behind table id and flags; in a
                version 1 event (types 23 to 25) where its column count stands.
            end: Where its rows end, before any checksum.
            pairs: True for an update: before and after images alternate.
            version1: True for event types 23 to 25.

        Returns:
            One tuple per image, in wire order.

        Raises:
            Halted: `row_image_not_full`, `undecodable_text`, `event_corrupt`.
        """
        head = self._heads[pairs]
        position = start + head.size
        if version1 or data[start:position] not in head.known:
            position = head.check(data, start, end, version1)
        unusual = False
        try:
            rows, last = self.rows(data, position, end)
        except FAILURES as error:
            # Judged outside the handler: the error holds bytes of a row.
            rows, last, unusual = [], -1, isinstance(error, ValueError)
        if last != end:
            rows, last = self._judge(data, position, end, unusual)
        if last != end or (pairs and len(rows) & 1):
            raise corrupt(f"a row event of {self._where} does not end with a row")
        return rows

    def known_head(self, data: bytes, start: int, pairs: bool) -> int:
        """Bytes of what stands before the rows, when it was found good before, else 0."""
        head = self._heads[pairs]
        return head.size if data[start : start + head.size] in head.known else 0

    def partial_images(self, data: bytes, start: int, end: int) -> list[Row]:
        """Decode one PARTIAL_UPDATE_ROWS event to whole images; as `images` otherwise."""
        position = self._heads[True].check(data, start, end, version1=False)
        return self._partial.images(data, position, end)

    @cached_property
    def _partial(self) -> PartialRows:
        careful: Careful = self._namespace["careful"]
        return PartialRows(self._table, self._codecs, careful, self._compiled)

    def _compiled(self, writer: RowSource) -> Careful:
        """A careful function of its own, beside this decoder's."""
        namespace = self._namespace | writer.namespace
        _define(writer.careful(), namespace)
        careful: Careful = namespace["careful"]
        return careful

    def _judge(self, data: bytes, position: int, end: int, unusual: bool) -> tuple[list[Row], int]:
        """Read the rows again, step by step, to say what is wrong with them."""
        careful: Careful = self._namespace["careful"]
        rows: list[Row] = []
        while position < end:
            row, position = careful(data, position, end)
            rows.append(row)
        if unusual and self._usual:
            # Nothing is wrong with the values: the next ones may be so too.
            self._usual = False
            self._compile()
        return rows, position

    def _verdict(self, place: int | None, error: Exception) -> Halted:
        if place is None:
            return corrupt(f"a row of {self._where} is cut off")
        name = f"{self._where}.{self.shape.names[place]}"
        if isinstance(error, UnicodeDecodeError):
            return halted(HaltReason.UNDECODABLE_TEXT, name)
        return corrupt(f"a value of {name}")

    def _seen(self, data: bytes, start: int) -> None:
        if self._habits.note(data, start):
            self._compile()

    def _missed(self, data: bytes, start: int, end: int) -> tuple[Row, int]:
        careful: Careful = self._namespace["careful"]
        row, stop = careful(data, start, end)
        if self._habits.missed(data, start):
            self._compile()
        return row, stop

    def _compile(self) -> None:
        habits = self._habits
        self._rows_source = self._writer.rows(
            habits.variants, learning=habits.learning, usual=self._usual
        )
        self._run(self._rows_source)
        self.rows = self._namespace["rows"]

    def _run(self, source: str) -> None:
        self._namespace |= self._writer.namespace
        _define(source, self._namespace)


def _define(source: str, namespace: dict[str, Any]) -> None:
    # The text is made of column numbers and of recipes from this package only.
    exec(compile(source, "<row decoder>", "exec"), namespace)  # noqa: S102


def compile_rows(table: TableMap) -> RowDecoder:
    """A decoder for the row events of a table; worth keeping for the table map's next event."""
    return RowDecoder(table)


class _Head:
    """What stands before the rows: extra data, column count, bitmaps of the columns present.

    Attributes:
        size: Its bytes when there is no extra data.
        known: Heads of that size that were checked and found good.
    """

    __slots__ = ("_bitmaps", "_columns", "_where", "known", "size")

    def __init__(self, columns: int, bitmaps: int, where: str) -> None:
        self._columns = columns
        self._bitmaps = bitmaps
        self._where = where
        self.size = 2 + (1 if columns < 251 else 3) + bitmaps * ((columns + 7) // 8)
        self.known: set[bytes] = set()

    def check(self, data: bytes, start: int, end: int, version1: bool) -> int:
        """Where the rows begin; every column must be in every image."""
        reader = BoundedReader(data, f"a row event of {self._where}", start, end)
        if not version1:
            extra = reader.uint(2)
            if extra < 2:
                raise corrupt(f"a row event of {self._where} with extra data of {extra} bytes")
            reader.take(extra - 2)
        if reader.packed() != self._columns:
            raise corrupt(f"a row event of {self._where} with another number of columns")
        for _ in range(self._bitmaps):
            present = reader.uint((self._columns + 7) // 8)
            if ~present & (1 << self._columns) - 1:
                raise halted(HaltReason.ROW_IMAGE_NOT_FULL, self._where)
        stop = reader.position
        if stop - start == self.size and not version1 and len(self.known) < _HEADS_KEPT:
            self.known.add(data[start:stop])
        return stop
