"""Dates and times as servers before 5.6 wrote them, and tables made there until they are rebuilt.

House rules: those of `temporal`; only the bytes differ, so the values leave through the same types.
None of these has a fraction.

Wire: little-endian numbers. TIMESTAMP is 4 bytes of seconds. DATETIME is 8 bytes, TIME 3,
both signed; in decimal they read YYYYMMDDhhmmss and hhmmss. DATE has not changed.
"""

from datetime import UTC, datetime, timedelta

from capstan.core.binlog.temporal import clock_text, day_text, time_of

_ZERO = "0000-00-00 00:00:00"


def old_timestamp(seconds: int) -> datetime | str:
    """The value of a TIMESTAMP from its seconds."""
    return datetime.fromtimestamp(seconds, UTC) if seconds else _ZERO


def old_datetime(number: int) -> datetime | str:
    """The value of a DATETIME from its decimal digits.

    Raises:
        ValueError: For digits that no server writes.
    """
    day, clock = divmod(number, 1_000_000)
    year, month, date = day // 10_000, day // 100 % 100, day % 100
    hour, minute, second = clock // 10_000, clock // 100 % 100, clock % 100
    try:
        return datetime(year, month, date, hour, minute, second)
    except ValueError:
        return f"{day_text(year, month, date)} {clock_text(hour, minute, second, 0, 0)}"


def old_time(number: int) -> timedelta:
    """The value of a TIME from its decimal digits.

    Raises:
        ValueError: For digits that no server writes.
    """
    hour, minute, second = abs(number) // 10_000, abs(number) // 100 % 100, abs(number) % 100
    if minute > 59:
        raise ValueError("no such time")
    span = time_of(hour << 12 | minute << 6 | second, 0)
    return -span if number < 0 else span
