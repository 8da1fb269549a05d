"""Turns the row packets of a SELECT into tuples of values: a parser of our own, for speed.

House rules: code is generated once per shape, from recipes and column places alone; no name from
the server becomes code. A row is handed out only when its fields fill its packet exactly. When the
fast code stumbles, the careful way reads the row again, field by field, and gives the verdict,
which names the column and never the value.

Wire: a row is its fields one behind the other, each a length and so many bytes. The length is one
byte below 251, or 252, 253, 254 and then 2, 3 or 8 bytes; 251 is NULL.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from capstan.core.halts import Halted, HaltReason, halted
from capstan.core.tables import TableShape
from capstan.sources.select_values import Recipe, recipe_for

Row = tuple[Any, ...]

_NULL: Final = 251
_LENGTH_BYTES: Final = {252: 2, 253: 3, 254: 8}
_MOST_COLUMNS: Final = 512
"""Wider tables are read the careful way: compiling would take longer than it gains."""


class _ShortRowError(Exception):
    """Fields that do not fill their packet."""


_UNREADABLE: Final = (_ShortRowError, ValueError, IndexError, ArithmeticError)
"""What reading wrong bytes can raise in the recipes; Decimal's own error is an ArithmeticError."""


class RowParser:
    """Parses the rows of one shape.

    Args:
        shape: The table.

    Attributes:
        select_list: What stands between SELECT and FROM.

    Raises:
        Halted: `unsupported_column_type`, naming the column.
    """

    def __init__(self, shape: TableShape) -> None:
        self._shape = shape
        self._where = f"{shape.schema}.{shape.table}"
        self._recipes = [recipe_for(column, self._where) for column in shape.columns]
        pairs = zip(self._recipes, shape.columns, strict=True)
        self.select_list = ", ".join(recipe.select(column) for recipe, column in pairs)
        self._careful = [_single_field(recipe) for recipe in self._recipes]
        self._fast = _compiled(self._recipes) if len(shape.columns) <= _MOST_COLUMNS else None

    def rows(self, packets: Sequence[bytes]) -> list[Row]:
        """Every packet as a row.

        Raises:
            Halted: `undecodable_text`, or `snapshot_chunk_read_failed` for bytes that are no such
                row.
        """
        if self._fast is None:
            return [self._row(packet) for packet in packets]
        try:
            return self._fast(packets)
        except _UNREADABLE:
            return [self._row(packet) for packet in packets]

    def _row(self, packet: bytes) -> Row:
        values: list[Any] = []
        try:
            for raw in _fields(packet):
                values.append(None if raw is None else self._careful[len(values)](raw))
        except UnicodeDecodeError:
            raise self._halted(HaltReason.UNDECODABLE_TEXT, len(values)) from None
        except _UNREADABLE:
            raise self._halted(HaltReason.SNAPSHOT_CHUNK_READ_FAILED, len(values)) from None
        if len(values) != len(self._careful):
            raise halted(HaltReason.SNAPSHOT_CHUNK_READ_FAILED, f"{self._where}: a row is cut off")
        return tuple(values)

    def _halted(self, reason: HaltReason, place: int) -> Halted:
        names = self._shape.names
        column = names[place] if place < len(names) else "a row that goes on"
        return halted(reason, f"{self._where}.{column}")


def field(packet: bytes, start: int) -> tuple[int, int] | None:
    """Where the field at `start` has its bytes, or None for NULL.

    Raises:
        ValueError: When there is no field.
        IndexError: When the packet ends before it.
    """
    size = packet[start]
    if size < _NULL:
        return start + 1, start + 1 + size
    if size == _NULL:
        return None
    if size not in _LENGTH_BYTES:
        raise ValueError("no length")
    begin = start + 1 + _LENGTH_BYTES[size]
    return begin, begin + int.from_bytes(packet[start + 1 : begin], "little")


def _fields(packet: bytes) -> Iterator[bytes | None]:
    place = 0
    while place < len(packet):
        where = field(packet, place)
        if where is None:
            place += 1
            yield None
            continue
        begin, place = where
        if place > len(packet):
            raise ValueError("a field that goes on behind its packet")
        yield packet[begin:place]


def _single_field(recipe: Recipe) -> Callable[[bytes], Any]:
    source = f"lambda raw, c=c: {recipe.expression.format('raw', c='c')}"
    made: Callable[[bytes], Any] = eval(source, {"c": recipe.constant})  # noqa: S307 - our own text
    return made


def _compiled(recipes: Sequence[Recipe]) -> Callable[[Sequence[bytes]], list[Row]]:
    lines = [
        "def rows(packets):",
        "    found = []",
        "    take = found.append",
        "    for data in packets:",
        "        p = 0",
    ]
    for place, recipe in enumerate(recipes):
        value = recipe.expression.format("data[q:p]", c=f"c{place}")
        lines += [
            "        n = data[p]",
            f"        if n < {_NULL}:",
            "            q = p + 1",
            "            p = q + n",
            f"            v{place} = {value}",
            f"        elif n == {_NULL}:",
            "            p += 1",
            f"            v{place} = None",
            "        else:",
            "            q, p = field(data, p)",
            f"            v{place} = {value}",
        ]
    row = "".join(f"v{place}," for place in range(len(recipes)))
    lines += [
        "        if p != len(data):",
        "            raise short",
        f"        take(({row}))",
        "    return found",
    ]
    scope: dict[str, Any] = {"field": field, "short": _ShortRowError}
    scope |= {f"c{place}": recipe.constant for place, recipe in enumerate(recipes)}
    exec("\n".join(lines), scope)  # noqa: S102 - our own text, made of recipes and numbers
    made: Callable[[Sequence[bytes]], list[Row]] = scope["rows"]
    return made
