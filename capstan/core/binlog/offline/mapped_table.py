"""Tables as binlog files describe them, with much said or little; and the decoders of their rows.

House rules: a value is exact or it is refused. Where a file says too little for the value that the
online path would give, the plainest exact one stands in: the bytes of a text of unknown character
set, the number of an ENUM's label, the bit mask of a SET. A sign has no such stand-in: it is given
by the map or by the caller, must agree where both give it, and is never assumed.
"""

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from capstan.core.binlog import table_map
from capstan.core.binlog.columns import FieldType, WireColumn, public_column
from capstan.core.binlog.offline.decode_errors import DecodeErrorKind
from capstan.core.binlog.offline.map_completion import MapOutline
from capstan.core.binlog.row_compiler import RowDecoder
from capstan.core.binlog.table_map import TableMap

_NUMBERS: Final = {
    1: FieldType.TINY,
    2: FieldType.SHORT,
    3: FieldType.INT24,
    4: FieldType.LONG,
    8: FieldType.LONGLONG,
}
"""The integer that is read like an ENUM or SET of so many bytes."""


class SignednessError(Exception):
    """Integer signs that are missing, or that contradict the table map.

    Attributes:
        kind: `signedness_missing` or `signedness_conflict`.
        detail: The table's name and what about it.
    """

    def __init__(self, kind: DecodeErrorKind, detail: str) -> None:
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail


class OfflineRows(RowDecoder):
    """The shared row decoder, which can also measure."""

    def widest(self, data: bytes, start: int, end: int, *, pairs: bool) -> int:
        """The bytes of the largest row image of a version 2 row event that was decoded before."""
        position = self._heads[pairs].check(data, start, end, False)
        read: Callable[[bytes, int, int], tuple[object, int]] = self._namespace["careful"]
        widest = 0
        while position < end:
            _, following = read(data, position, end)
            widest = max(widest, following - position)
            position = following
        return widest


class MappedTable:
    """What one distinct TABLE_MAP body says.

    Args:
        body: The event's bytes behind the 8 bytes of table id and flags, without checksum.

    Attributes:
        body: The same.
        schema: The database name.
        table: The table name.
        column_count: How many columns it has.
        names_known: False when the map has no names: its columns are called "@1", "@2", ….
        integers: How many of its columns are integers (tinyint to bigint).
        unsigned: Which of those are unsigned, in order; None when the map does not say.
        signs_known: Whether values can be read without the caller's word on signs.
        ready: The decoder of its rows, once it was made without the caller's word.

    Raises:
        Halted: `event_corrupt`, `unsupported_column_type`.
    """

    __slots__ = (
        "_outline",
        "_told",
        "body",
        "column_count",
        "integers",
        "names_known",
        "ready",
        "schema",
        "signs_known",
        "table",
        "unsigned",
    )

    def __init__(self, body: bytes) -> None:
        self.schema, self.table = table_map.peek_name(body)
        self.body = body
        self._outline = outline = MapOutline.of(body)
        self.column_count = outline.count
        self.names_known = outline.given.names is not None
        self.integers = outline.integers
        self.unsigned = outline.integer_signs
        self.signs_known = self.unsigned is not None or not self.integers
        self.ready: OfflineRows | None = None
        self._told: dict[tuple[bool, ...], OfflineRows] = {}
        # All of the map is judged here, once; its rows' decoder is only made when rows come.
        self._complete((False,) * self.integers)

    def __repr__(self) -> str:
        return f"<MappedTable {self.schema}.{self.table}, {self.column_count} columns>"

    def rows(
        self, integer_unsigned: Sequence[bool] | None = None, *, values: bool = True
    ) -> OfflineRows:
        """The decoder of this table's rows, made once.

        Args:
            integer_unsigned: One flag for each integer column, in column order.
            values: False when nobody looks at values: no count depends on a sign, so none is
                needed then.

        Raises:
            SignednessError: When the map has no signs and none are given, or when the given ones
                are not as many as integer columns or contradict the map.
            Halted: `unsupported_column_type`, `undecodable_text` (a label).
        """
        if integer_unsigned is None:
            if self.signs_known:
                return self._known_rows()
            if values:
                raise self._signedness(DecodeErrorKind.SIGNEDNESS_MISSING, "has no signs")
            return self._told_rows((False,) * self.integers)
        flags = tuple(map(bool, integer_unsigned))
        if len(flags) != self.integers:
            detail = f"has {self.integers} integer columns, {len(flags)} flags are given"
            raise self._signedness(DecodeErrorKind.SIGNEDNESS_CONFLICT, detail)
        if self.unsigned is not None and flags != self.unsigned:
            raise self._signedness(DecodeErrorKind.SIGNEDNESS_CONFLICT, "has other signs")
        return self._known_rows() if self.signs_known else self._told_rows(flags)

    def _known_rows(self) -> OfflineRows:
        if self.ready is None:
            self.ready = OfflineRows(self._complete((False,) * self.integers))
        return self.ready

    def _told_rows(self, flags: tuple[bool, ...]) -> OfflineRows:
        if flags not in self._told:
            # One schema gives one answer a table: more than a few are a caller's mistake.
            if len(self._told) >= _ANSWERS_KEPT:
                self._told.clear()
            self._told[flags] = OfflineRows(self._complete(flags))
        return self._told[flags]

    def _signedness(self, kind: DecodeErrorKind, detail: str) -> SignednessError:
        return SignednessError(kind, f"{self.schema}.{self.table} {detail}")

    def _complete(self, integer_unsigned: tuple[bool, ...]) -> TableMap:
        """The parsed map, in which nothing that it does not say is believed."""
        outline = self._outline
        completion = outline.completion(integer_unsigned)
        parsed = table_map.parse(self.body + completion)
        if not completion:
            return parsed
        places = {place: position for position, place in enumerate(parsed.shape.key)}
        columns = tuple(
            public_column(self._shown(column), places.get(place))
            for place, column in enumerate(parsed.wire)
        )
        return attrs.evolve(
            parsed,
            shape=attrs.evolve(parsed.shape, columns=columns),
            wire=tuple(map(self._plain, parsed.wire)),
        )

    def _shown(self, column: WireColumn) -> WireColumn:
        """The column without a character set that only stands in for one."""
        return attrs.evolve(column, charset=None) if self._charset_unknown(column) else column

    def _plain(self, column: WireColumn) -> WireColumn:
        """The column of which the plainest exact value is read where too little is known."""
        if self._labels_unknown(column):
            number = _NUMBERS[column.size]
            return attrs.evolve(column, type=number, size=0, unsigned=True, charset=None)
        if column.type is FieldType.STRING and self._charset_unknown(column):
            # A CHAR lost its spaces and a BINARY its zeros: without knowing which, neither is put
            # back. Both lie there as a VARCHAR does.
            return attrs.evolve(column, type=FieldType.VARCHAR)
        return column

    def _labels_unknown(self, column: WireColumn) -> bool:
        given = self._outline.given
        return (column.type is FieldType.ENUM and given.enum_labels is None) or (
            column.type is FieldType.SET and given.set_labels is None
        )

    def _charset_unknown(self, column: WireColumn) -> bool:
        given = self._outline.given
        if column.type in (FieldType.ENUM, FieldType.SET):
            return given.label_collations is None
        return column.charset is not None and given.collations is None


_ANSWERS_KEPT: Final = 16
