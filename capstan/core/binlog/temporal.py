"""Dates and times of row images.

House rules: a value is a `date`, naive `datetime`, UTC `datetime` or `timedelta` when Python has
one, and else the text that SELECT prints, with the digits of its fsp: zero dates, zero months and
days, the year 0, days like 31 February. Fields that no server writes (a 13th month, a 61st minute)
raise ValueError.

Wire: DATE is 3 bytes little-endian, day 5 bits, month 4, year 15. DATETIME is 5 bytes big-endian
with the top bit set: year*13+month 17 bits, day 5, hour 5, minute 6, second 6. TIME is 3 bytes,
offset by 0x800000: hour 10 bits, minute 6, second 6; a negative one is the whole number below the
offset, fraction included. TIMESTAMP is 4 bytes of seconds. Behind each but DATE lies the fraction
in (fsp + 1) // 2 bytes: hundredths, ten-thousandths or microseconds.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

from capstan.core.binlog.memo import Memo

_MICROS = (0, 10_000, 100, 1)
"""Microseconds per unit of the fraction, by its bytes."""
_MEMORY = 4096


def fraction_bytes(fsp: int) -> int:
    """How many bytes the fraction takes."""
    return (fsp + 1) // 2


def day_text(year: int, month: int, day: int) -> str:
    """The text of a day that MySQL has and Python has not."""
    if not 0 <= year <= 9999 or month > 12 or day > 31:
        raise ValueError("no such day")
    return f"{year:04d}-{month:02d}-{day:02d}"


def _date(raw: bytes) -> date | str:
    packed = int.from_bytes(raw, "little")
    year, month, day = packed >> 9, packed >> 5 & 15, packed & 31
    try:
        return date(year, month, day)
    except ValueError:
        return day_text(year, month, day)


dates: Memo[bytes, date | str] = Memo(_date, _MEMORY)
"""The value of the 3 bytes of a DATE."""


def _fraction_text(micros: int, fsp: int) -> str:
    return f".{micros:06d}"[: fsp + 1] if fsp else ""


def datetime_decoder(fsp: int) -> Callable[[int], datetime | str]:
    """A function from the number that is stored for a DATETIME(fsp) to its value."""
    shift = 8 * fraction_bytes(fsp)
    unit = _MICROS[fraction_bytes(fsp)]
    mask = (1 << shift) - 1

    def odd(value: int) -> str:
        """The text of what Python has no datetime for."""
        packed = value >> shift
        clock = packed >> 12 & 31, packed >> 6 & 63, packed & 63
        day = day_text(*divmod((packed >> 22) - 0x20000, 13), packed >> 17 & 31)
        return f"{day} {clock_text(*clock, (value & mask) * unit, fsp)}"

    def decode(value: int) -> datetime | str:
        packed = value >> shift
        months = (packed >> 22) - 0x20000
        day, hour, minute = packed >> 17 & 31, packed >> 12 & 31, packed >> 6 & 63
        micros = (value & mask) * unit
        try:
            return datetime(months // 13, months % 13, day, hour, minute, packed & 63, micros)
        except ValueError:
            return odd(value)

    return decode


def datetime_expression(fsp: int, number: str) -> str:
    """Python that calls `{c}make` for the datetime of the number that is stored.

    It raises ValueError for each value that Python has no datetime for; `datetime_decoder` gives
    those too, at the cost of a call.
    """
    shift = 8 * fraction_bytes(fsp)
    stored, again = (number, number) if number == "{0}" else (f"(w := {number})", "w")
    fields = [f"(m := ({stored} >> {shift + 22}) - {0x20000}) // 13", "m % 13"]
    fields += [f"{again} >> {shift + low} & {mask}" for low, mask in _DATETIME_FIELDS]
    if fsp:
        unit = _MICROS[fraction_bytes(fsp)]
        fraction = f"{again} & {(1 << shift) - 1}"
        fields.append(fraction if unit == 1 else f"({fraction}) * {unit}")
    return f"{{c}}make({', '.join(fields)})"


_DATETIME_FIELDS = ((17, 31), (12, 31), (6, 63), (0, 63))
"""Day, hour, minute and second: by how many bits each lies higher, and its mask."""


def clock_text(hour: int, minute: int, second: int, micros: int, fsp: int) -> str:
    """The text of a time of day, with the digits of its fsp."""
    if hour > 23 or max(minute, second) > 59 or micros > 999_999:
        raise ValueError("no such time of day")
    return f"{hour:02d}:{minute:02d}:{second:02d}{_fraction_text(micros, fsp)}"


days: Memo[int, datetime] = Memo(lambda day: datetime.fromtimestamp(day << 16, UTC), _MEMORY)
"""When each span of 65536 seconds, nearly a day, begins."""
minutes = tuple(timedelta(0, span << 8) for span in range(256))
"""What spans of 256 seconds, about four minutes, add to it."""
seconds = tuple(timedelta(0, second) for second in range(256))
"""What seconds add to that. Adding known values is quicker than making one, and a few of them fit
into a processor's cache where one for each second of a day would not."""


def timestamp_decoder(fsp: int) -> Callable[[int], datetime | str]:
    """A function from the number that is stored for a TIMESTAMP(fsp) to its value."""
    zero = f"0000-00-00 00:00:00{_fraction_text(0, fsp)}"
    shift = 8 * fraction_bytes(fsp)
    unit = _MICROS[fraction_bytes(fsp)]
    mask = (1 << shift) - 1
    epoch = datetime(1970, 1, 1, tzinfo=UTC)

    def whole(value: int) -> datetime | str:
        return datetime.fromtimestamp(value, UTC) if value else zero

    def fractional(value: int) -> datetime | str:
        if not value:
            return zero
        micros = (value & mask) * unit
        if micros > 999_999 or value <= mask:
            raise ValueError("no such timestamp")
        return epoch + timedelta(0, value >> shift, micros)

    return fractional if fsp else whole


def time_of(magnitude: int, micros: int) -> timedelta:
    """A TIME without its sign, from its 24 bits."""
    hours, minutes, seconds = magnitude >> 12, magnitude >> 6 & 63, magnitude & 63
    if hours > 838 or max(minutes, seconds) > 59 or micros > 999_999:
        raise ValueError("no such time")
    return timedelta(0, seconds, micros, 0, minutes, hours)


def time_decoder(fsp: int) -> Callable[[int], timedelta]:
    """A function from the number that is stored for a TIME(fsp) to its value."""
    shift = 8 * fraction_bytes(fsp)
    unit = _MICROS[fraction_bytes(fsp)]
    mask = (1 << shift) - 1
    offset = 0x800000 << shift

    def decode(stored: int) -> timedelta:
        value = stored - offset
        if value < 0:
            return -time_of(-value >> shift, (-value & mask) * unit)
        return time_of(value >> shift, (value & mask) * unit)

    return decode


def json_date(packed: int) -> str:
    """The text of a DATE inside a JSON document, from its packed number."""
    return _json_day(packed >> 41)


def json_datetime(packed: int) -> str:
    """The text of a DATETIME or TIMESTAMP inside a JSON document; always six digits."""
    if packed < 0:
        raise ValueError("a datetime before the year 0")
    return f"{_json_day(packed >> 41)} {_json_clock(packed & (1 << 41) - 1, 23)}"


def json_time(packed: int) -> str:
    """The text of a TIME inside a JSON document; always six digits."""
    return f"{'-' if packed < 0 else ''}{_json_clock(abs(packed), 838)}"


def _json_day(packed: int) -> str:
    year, month = divmod(packed >> 5, 13)
    if not 0 <= year <= 9999:
        raise ValueError("no such date")
    return f"{year:04d}-{month:02d}-{packed & 31:02d}"


def _json_clock(packed: int, most_hours: int) -> str:
    micros, seconds, minutes, hours = (
        packed & 0xFFFFFF,
        packed >> 24 & 63,
        packed >> 30 & 63,
        packed >> 36,
    )
    if hours > most_hours or max(minutes, seconds) > 59 or micros > 999_999:
        raise ValueError("no such time")
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}.{micros:06d}"
