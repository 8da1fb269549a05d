"""How the value of each column type is read from a row image.

House rules: one recipe per type, in a form that the row compiler can paste into code. A recipe
never holds a name or a label from the server: constants are handed over as objects. Every
character set and every type without a recipe halts here, named by table and column.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from struct import calcsize, unpack
from typing import Final

import attrs

from capstan.core.binlog.charsets import TextDecoder, decoder_for
from capstan.core.binlog.columns import HAS_LABELS, INTEGERS, FieldType, WireColumn, sql_type
from capstan.core.binlog.decimal_value import decimal_recipe
from capstan.core.binlog.float_value import shortest_single
from capstan.core.binlog.json_shapes import JsonTexts
from capstan.core.binlog.memo import Memo
from capstan.core.binlog.old_temporal import old_datetime, old_time, old_timestamp
from capstan.core.binlog.temporal import (
    dates,
    datetime_decoder,
    datetime_expression,
    days,
    fraction_bytes,
    minutes,
    seconds,
    time_decoder,
    timestamp_decoder,
)
from capstan.core.halts import Halted, HaltReason, halted


@attrs.frozen(kw_only=True)
class FieldCodec:
    """How one column's value is read.

    Attributes:
        layout: `struct` characters of the fixed part; for a prefixed value those of its length.
        order: Its byte order, as in `struct`.
        prefixed: The fixed part is the length of the bytes that follow.
        expression: Python for the value. `{0}`, `{1}`, … stand for what the fixed part unpacks to,
            or `{0}` for the bytes behind a length; `{c}` stands for the constant, `{c}name` for one
            of the helpers.
        usual: Quicker Python that gives the same value or raises ValueError for rare ones; may be
            nothing.
        constant: A callable or a lookup table.
        helpers: More of them, by name.
        width: Bytes of the fixed part.
        parts: How many numbers the fixed part unpacks to; three bytes take two.
    """

    layout: str
    order: str = "<"
    expression: str = "{0}"
    usual: str = ""
    prefixed: bool = False
    constant: object = None
    helpers: Mapping[str, object] = attrs.field(factory=dict)
    width: int = attrs.field(init=False)
    parts: int = attrs.field(init=False)

    @width.default
    def _width(self) -> int:
        return calcsize(f"{self.order}{self.layout}")

    @parts.default
    def _parts(self) -> int:
        return len(unpack(f"{self.order}{self.layout}", bytes(self.width)))


NUMBER: Final = {1: "{0}", 2: "({0} | {1} << 16)"}
"""The expression for a number, by the parts it unpacks to."""
_BIG_ENDIAN: Final = {
    3: ("BH", "{0} << 16 | {1}"),
    4: ("I", "{0}"),
    5: ("BI", "{0} << 32 | {1}"),
    6: ("HI", "{0} << 32 | {1}"),
    7: ("BHI", "{0} << 48 | {1} << 32 | {2}"),
    8: ("Q", "{0}"),
}
"""Layout and expression of a number whose high bytes come first, by its size."""


_INTEGER_LAYOUTS: Final = {
    FieldType.TINY: "b",
    FieldType.SHORT: "h",
    FieldType.INT24: "Hb",
    FieldType.LONG: "i",
    FieldType.LONGLONG: "q",
}
_SET_LAYOUTS: Final = {1: "B", 2: "H", 3: "HB", 4: "I", 8: "Q"}
_LENGTH_LAYOUTS: Final = {1: "B", 2: "H", 3: "HB", 4: "I"}
_TEXT: Final = "{0}.decode()"
_CALL: Final = "{c}({0})"
_SETS_KEPT: Final = 4096


def codec_for(column: WireColumn, where: str) -> FieldCodec:
    """The recipe for a column.

    Args:
        column: The column.
        where: `schema.table` for halts.

    Raises:
        Halted: `unsupported_column_type` naming the column and its type or character set;
            `undecodable_text` when a label is no text.
    """
    if column.type in INTEGERS:
        return _integer(column)
    if column.type in HAS_LABELS:
        return _labelled(column, where)
    if column.type in (FieldType.STRING, FieldType.VARCHAR, FieldType.BLOB):
        return _string(column, where)
    if column.type in _BUILDERS:
        return _BUILDERS[column.type](column)
    raise _unsupported(column, where, sql_type(column))


def _unsupported(column: WireColumn, where: str, what: str) -> Halted:
    return halted(HaltReason.UNSUPPORTED_COLUMN_TYPE, f"{where}.{column.name}: {what}")


def _integer(column: WireColumn) -> FieldCodec:
    layout = _INTEGER_LAYOUTS[column.type]
    if column.unsigned:
        layout = layout.upper()
    return FieldCodec(layout=layout, expression=NUMBER[len(layout)])


def _decoder(column: WireColumn, where: str) -> TextDecoder:
    decoder = decoder_for(column.charset or "")
    if decoder is None:
        raise _unsupported(column, where, f"{sql_type(column)} in character set {column.charset}")
    return decoder


def _string(column: WireColumn, where: str) -> FieldCodec:
    width = column.size if column.type is FieldType.BLOB else 1 + (column.size > 255)
    layout = _LENGTH_LAYOUTS[width]
    if column.charset == "binary":
        # The image of a BINARY ends before its trailing zeros; SELECT prints them.
        padded = column.type is FieldType.STRING
        expression = f'{{0}}.ljust({column.size}, b"\\0")' if padded else "{0}"
        return FieldCodec(layout=layout, prefixed=True, expression=expression)
    if column.charset == "utf8mb4":
        return FieldCodec(layout=layout, prefixed=True, expression=_TEXT)
    decoder = _decoder(column, where)
    return FieldCodec(layout=layout, prefixed=True, expression=_CALL, constant=decoder)


def _labelled(column: WireColumn, where: str) -> FieldCodec:
    # Labels of the binary character set have no characters of their own but ASCII's.
    decoder = _ascii if column.charset == "binary" else _decoder(column, where)
    try:
        labels = tuple(decoder(label) for label in column.labels)
    except UnicodeDecodeError:
        raise halted(HaltReason.UNDECODABLE_TEXT, f"{where}.{column.name}: a label") from None
    layout = _SET_LAYOUTS[column.size]
    if column.type is FieldType.ENUM:
        # Number 0 is the invalid value, which SELECT prints as nothing.
        return FieldCodec(layout=layout, expression="{c}[{0}]", constant=("", *labels))
    texts = Memo(_set_text(labels), _SETS_KEPT)
    return FieldCodec(layout=layout, expression=f"{{c}}[{NUMBER[len(layout)]}]", constant=texts)


def _ascii(raw: bytes) -> str:
    return raw.decode("ascii")


def _set_text(labels: tuple[str, ...]) -> Callable[[int], str]:
    def text(members: int) -> str:
        if members >> len(labels):
            raise ValueError("a member that the set does not have")
        found = [label for place, label in enumerate(labels) if members >> place & 1]
        # The server puts a comma behind something only: an empty first member leaves no trace.
        return ",".join(found[1:] if found[1:] and not found[0] else found)

    return text


def _bit(column: WireColumn) -> FieldCodec:
    bits = column.size

    def number(raw: bytes) -> int:
        value = int.from_bytes(raw, "big")
        if value >> bits:
            raise ValueError("more bits than the column has")
        return value

    return FieldCodec(layout=f"{(bits + 7) // 8}s", expression=_CALL, constant=number)


def _decimal(column: WireColumn) -> FieldCodec:
    recipe = decimal_recipe(column.precision or 0, column.scale or 0)
    return FieldCodec(
        layout=recipe.layout, order=">", expression=recipe.expression, helpers=recipe.helpers
    )


def _temporal(
    whole: int, decoder: Callable[[int], Callable[[int], object]]
) -> Callable[[WireColumn], FieldCodec]:
    """A builder for a type of `whole` bytes with a fraction behind them."""

    def build(column: WireColumn) -> FieldCodec:
        fsp = column.fsp or 0
        layout, number = _BIG_ENDIAN[whole + fraction_bytes(fsp)]
        return FieldCodec(
            layout=layout, order=">", expression=f"{{c}}({number})", constant=decoder(fsp)
        )

    return build


def _datetime(column: WireColumn) -> FieldCodec:
    codec = _temporal(5, datetime_decoder)(column)
    fsp = column.fsp or 0
    usual = datetime_expression(fsp, _BIG_ENDIAN[codec.width][1])
    return attrs.evolve(codec, usual=usual, helpers={"make": datetime})


def _timestamp(column: WireColumn) -> FieldCodec:
    codec = _temporal(4, timestamp_decoder)(column)
    if column.fsp:
        return codec
    known = "{c}days[{0} >> 16] + {c}minutes[{0} >> 8 & 255] + {c}seconds[{0} & 255]"
    # Zero is no time: the call knows what it is.
    expression = f"({known} if {{0}} else {{c}}({{0}}))"
    helpers = {"days": days, "minutes": minutes, "seconds": seconds}
    return attrs.evolve(codec, expression=expression, helpers=helpers)


def _bytes(column: WireColumn) -> FieldCodec:
    return FieldCodec(layout=_LENGTH_LAYOUTS[column.size], prefixed=True)


def _json(column: WireColumn) -> FieldCodec:
    layout = _LENGTH_LAYOUTS[column.size]
    return FieldCodec(layout=layout, prefixed=True, expression=_CALL, constant=JsonTexts().text)


def _simple(
    layout: str, expression: str, constant: object = None
) -> Callable[[WireColumn], FieldCodec]:
    codec = FieldCodec(layout=layout, expression=expression, constant=constant)
    return lambda _: codec


_BUILDERS: Final[dict[FieldType, Callable[[WireColumn], FieldCodec]]] = {
    FieldType.FLOAT: _simple("f", _CALL, shortest_single),
    FieldType.DOUBLE: _simple("d", "{0}"),
    FieldType.NEWDECIMAL: _decimal,
    FieldType.BIT: _bit,
    FieldType.YEAR: _simple("B", "({0} and {0} + 1900)"),
    FieldType.DATE: _simple("3s", "{c}[{0}]", dates),
    FieldType.TIME: _simple("Hb", f"{{c}}({NUMBER[2]})", old_time),
    FieldType.DATETIME: _simple("q", _CALL, old_datetime),
    FieldType.TIMESTAMP: _simple("I", _CALL, old_timestamp),
    FieldType.TIME2: _temporal(3, time_decoder),
    FieldType.DATETIME2: _datetime,
    FieldType.TIMESTAMP2: _timestamp,
    FieldType.JSON: _json,
    FieldType.GEOMETRY: _bytes,
    FieldType.VECTOR: _bytes,
}
