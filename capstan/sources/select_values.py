"""How the value of each column comes out of a SELECT, equal to what the stream gives (D27).

House rules: one recipe per type: what to select, and what to make of the bytes that the server
sends in its text form. Text arrives in the column's own character set (character_set_results is
NULL) and is decoded by the stream's tables. A recipe is exact or raises ValueError; a type or
character set without one halts here, named by table and column.
"""

import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final

import attrs

from capstan.core.binlog.charsets import decoder_for
from capstan.core.binlog.float_value import shortest_single
from capstan.core.binlog.memo import Memo
from capstan.core.binlog.temporal import time_of
from capstan.core.halts import HaltReason, halted
from capstan.core.tables import Column
from capstan.sources.sql_text import quoted

_KEPT: Final = 4096
_TIME: Final = re.compile(rb"(-?)(\d{2,3}):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?")


@attrs.frozen
class Recipe:
    """How one column is read.

    Attributes:
        selected: What stands in the SELECT, with `{}` for the column's name.
        expression: Python for the value; `{0}` stands for its bytes, `{c}` for the constant.
        constant: A callable or a lookup table.
    """

    expression: str
    constant: Any = None
    selected: str = "{}"

    def select(self, column: Column) -> str:
        """The column's place in the select list."""
        return self.selected.format(quoted(column.name))


def recipe_for(column: Column, where: str) -> Recipe:
    """The recipe of a column.

    Args:
        column: The column.
        where: `schema.table` for halts.

    Raises:
        Halted: `unsupported_column_type` naming the column and its type or character set.
    """
    if column.type in _TEXTS:
        return _text(column, where)
    recipe = _RECIPES.get(column.type)
    if recipe is None:
        detail = f"{where}.{column.name}: {column.type}"
        raise halted(HaltReason.UNSUPPORTED_COLUMN_TYPE, detail)
    return recipe


def _text(column: Column, where: str) -> Recipe:
    labelled = column.type in ("enum", "set")
    if labelled and column.charset == "binary":
        # Labels of the binary character set have no characters of their own but ASCII's.
        return Recipe("{c}[{0}]", Memo(_ascii, _KEPT))
    decoder = decoder_for(column.charset or "")
    if decoder is None:
        raise halted(
            HaltReason.UNSUPPORTED_COLUMN_TYPE,
            f"{where}.{column.name}: {column.type} in character set {column.charset}",
        )
    if labelled:
        return Recipe("{c}[{0}]", Memo(decoder, _KEPT))
    return _UTF8 if column.charset == "utf8mb4" else Recipe("{c}({0})", decoder)


def _ascii(raw: bytes) -> str:
    return raw.decode("ascii")


def _date(raw: bytes) -> date | str:
    text = raw.decode("ascii")
    if not _DAY.fullmatch(text):
        raise ValueError("no such day")
    try:
        return date.fromisoformat(text)
    except ValueError:
        return text


def _instant(zone: str, raw: bytes) -> datetime | str:
    text = raw.decode("ascii")
    try:
        return datetime.fromisoformat(text + zone)
    except ValueError:
        if not _INSTANT.fullmatch(text):
            raise
        return text


def _time(raw: bytes) -> timedelta:
    found = _TIME.fullmatch(raw)
    if found is None:
        raise ValueError("no such time")
    sign, hours, minutes, seconds, fraction = found.groups(b"")
    value = time_of(
        int(hours) << 12 | int(minutes) << 6 | int(seconds), int(fraction.ljust(6, b"0"))
    )
    return -value if sign else value


def _decimal(raw: bytes) -> Decimal:
    return Decimal(raw.decode("ascii"))


def _single(raw: bytes) -> float:
    return shortest_single(float(raw))


_AS_DOUBLE: Final = "CAST({} AS DOUBLE)"
"""A FLOAT prints six digits of itself, a DOUBLE(M,D) only D behind the point."""

_WHOLE: Final = Recipe("int({0})")
_BYTES: Final = Recipe("{0}")
_UTF8: Final = Recipe("{0}.decode()")

_TEXTS: Final = frozenset(
    {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"}
)
_GEOMETRIES: Final = (
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geomcollection",
)
_RECIPES: Final[dict[str, Recipe]] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year"), _WHOLE),
    **dict.fromkeys(("binary", "varbinary", "vector"), _BYTES),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), _BYTES),
    **dict.fromkeys(_GEOMETRIES, _BYTES),
    "json": _UTF8,
    "bit": Recipe('{c}({0}, "big")', int.from_bytes),
    "decimal": Recipe("{c}({0})", _decimal),
    "float": Recipe("{c}({0})", _single, _AS_DOUBLE),
    "double": Recipe("float({0})", None, _AS_DOUBLE),
    "date": Recipe("{c}[{0}]", Memo(_date, _KEPT)),
    "time": Recipe("{c}[{0}]", Memo(_time, _KEPT)),
    "datetime": Recipe("{c}({0})", partial(_instant, "")),
    "timestamp": Recipe("{c}({0})", partial(_instant, "+00:00")),
}
