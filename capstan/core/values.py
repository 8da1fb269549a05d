"""Text forms: a Python value as a SELECT of its column prints it. Pure.

House rules: only values whose Python form is not already what a sink keeps have a text form here:
decimals, dates and times. A text is exact or it is an error that names no value; nothing is
rounded. TIMESTAMP is printed in UTC. What Python cannot hold (zero dates) arrives as its text and
stays it.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from capstan.core.tables import Column

TEXT_TYPES: Final = frozenset({"decimal", "date", "datetime", "timestamp", "time"})
"""Column types whose values have a text form."""

_SECOND: Final = 1_000_000


def text_of(value: Any, column: Column) -> str:
    """The text that a SELECT of this column prints.

    Args:
        value: A Decimal, date, datetime, timedelta, or the str of a date Python cannot hold.
        column: Its column; `fsp` decides how many digits follow a second.

    Raises:
        ValueError: When the value has more fractional digits than the column.
        TypeError: For any other type.
    """
    printer = _PRINTERS.get(type(value))
    if printer is None:
        raise TypeError(f"no text form for {type(value).__name__}")
    return printer(value, column)


def _decimal(value: Decimal, _column: Column) -> str:
    return format(value, "f")


def _date(value: date, _column: Column) -> str:
    return value.isoformat()


def _datetime(value: datetime, column: Column) -> str:
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    fsp = column.fsp
    if not fsp:
        if value.microsecond:
            raise _too_fine()
        return value.isoformat(" ", "seconds")
    text = value.isoformat(" ", "microseconds")
    return text if fsp == 6 else _cut(text, fsp)


def _time(value: timedelta, column: Column) -> str:
    whole = value.days * 86_400 * _SECOND + value.seconds * _SECOND + value.microseconds
    sign = "-" if whole < 0 else ""
    seconds, micros = divmod(abs(whole), _SECOND)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{sign}{hours:02}:{minutes:02}:{seconds:02}.{micros:06}"
    return _cut(text, column.fsp or 0)


def _cut(text: str, fsp: int) -> str:
    """Take away the digits that a column of this fsp does not have: all of them must be zero."""
    if text[len(text) - 6 + fsp :].strip("0"):
        raise _too_fine()
    return text[: len(text) - 6 + fsp] if fsp else text[:-7]


def _too_fine() -> ValueError:
    return ValueError("more fractional digits than the column has")


def _as_it_is(value: str, _column: Column) -> str:
    return value


_PRINTERS: Final[dict[type, Callable[[Any, Column], str]]] = {
    Decimal: _decimal,
    date: _date,
    datetime: _datetime,
    timedelta: _time,
    str: _as_it_is,
}
