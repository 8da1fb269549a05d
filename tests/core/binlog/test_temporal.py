"""Dates and times of row images: values, the texts of what Python has no value for, refusals."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.binlog.temporal import (
    dates,
    datetime_decoder,
    fraction_bytes,
    json_date,
    json_datetime,
    json_time,
    time_decoder,
    timestamp_decoder,
)

FSP = st.integers(0, 6)


def day(year, month, number):
    return (year << 9 | month << 5 | number).to_bytes(3, "little")


def fraction(micros, fsp):
    """A fraction cut to its digits, in the bytes it takes."""
    size = fraction_bytes(fsp)
    kept = micros - micros % 10 ** (6 - fsp)
    return kept // 10 ** (6 - 2 * size), kept


def at(year, month, number, hour=0, minute=0, second=0, micros=0, fsp=0):
    """The bytes of a DATETIME."""
    packed = (year * 13 + month) << 22 | number << 17 | hour << 12 | minute << 6 | second
    units, _ = fraction(micros, fsp)
    return (packed + (1 << 39)).to_bytes(5, "big") + units.to_bytes(fraction_bytes(fsp), "big")


def clock(negative, hours, minutes, seconds, micros, fsp):
    """The bytes of a TIME."""
    size = 8 * fraction_bytes(fsp)
    units, _ = fraction(micros, fsp)
    magnitude = (hours << 12 | minutes << 6 | seconds) << size | units
    number = (0x800000 << size) + (-magnitude if negative else magnitude)
    return number.to_bytes(3 + fraction_bytes(fsp), "big")


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (day(2024, 2, 29), date(2024, 2, 29)),
        (day(1, 1, 1), date(1, 1, 1)),
        (day(9999, 12, 31), date(9999, 12, 31)),
        (day(0, 0, 0), "0000-00-00"),
        (day(0, 1, 1), "0000-01-01"),
        (day(2020, 0, 0), "2020-00-00"),
        (day(2020, 5, 0), "2020-05-00"),
        (day(2021, 2, 29), "2021-02-29"),
        (day(2021, 4, 31), "2021-04-31"),
    ],
)
def test_a_date_is_a_date_or_its_text(raw, value):
    """R266: what Python's calendar lacks is the text that SELECT prints, never NULL."""
    assert dates[raw] == value
    assert type(dates[raw]) is type(value)


@pytest.mark.parametrize("raw", [day(2020, 13, 1), day(10000, 1, 1), day(2020, 15, 31)])
def test_an_impossible_date_is_refused(raw):
    """R266: no server writes a 13th month or a fifth digit of the year."""
    with pytest.raises(ValueError, match="no such day"):
        dates[raw]


@given(st.datetimes(), FSP)
def test_every_datetime_reads_back(value, fsp):
    """R266: years 1 to 9999, all fractions."""
    raw = at(*value.timetuple()[:6], value.microsecond, fsp)
    kept = fraction(value.microsecond, fsp)[1]
    assert datetime_decoder(fsp)(int.from_bytes(raw, "big")) == value.replace(microsecond=kept)


@pytest.mark.parametrize(
    ("raw", "fsp", "text"),
    [
        (at(0, 0, 0), 0, "0000-00-00 00:00:00"),
        (at(0, 0, 0, fsp=3), 3, "0000-00-00 00:00:00.000"),
        (at(2020, 0, 0, 12, 34, 56, 120_000, 2), 2, "2020-00-00 12:34:56.12"),
        (at(2020, 5, 0, 23, 59, 59, 999_999, 6), 6, "2020-05-00 23:59:59.999999"),
        (at(2021, 2, 31, 1, 2, 3, 400_000, 1), 1, "2021-02-31 01:02:03.4"),
        (at(0, 12, 31, 1), 0, "0000-12-31 01:00:00"),
    ],
)
def test_a_datetime_that_python_lacks_is_its_text_with_the_digits_of_its_fsp(raw, fsp, text):
    """R266: zero and impossible days keep their time of day."""
    assert datetime_decoder(fsp)(int.from_bytes(raw, "big")) == text


@pytest.mark.parametrize(
    ("raw", "fsp"),
    [
        (at(2020, 1, 1, 24), 0),
        (at(2020, 1, 0, 24), 0),
        (at(2020, 1, 1, 0, 60), 0),
        (at(2020, 0, 1, 0, 0, 60), 0),
        (at(2020, 1, 1)[:5] + b"\x64", 2),
        (at(2020, 0, 1)[:5] + b"\x64", 2),
        (at(2020, 1, 1)[:5] + b"\xff\xff\xff", 6),
        (at(10000, 1, 1), 0),
        (b"\x19\xb2\x7a\0\0", 0),
        (b"\0" * 8, 6),
    ],
)
def test_an_impossible_datetime_is_refused(raw, fsp):
    """R266: hours, minutes, fractions and years that no server writes."""
    with pytest.raises(ValueError):
        datetime_decoder(fsp)(int.from_bytes(raw, "big"))


@given(
    st.integers(1, (1 << 31) - 1),
    st.integers(0, 999_999),
    FSP,
)
def test_every_timestamp_reads_back_as_utc(seconds, micros, fsp):
    """R266: an instant, whatever the session's time zone was."""
    units, kept = fraction(micros, fsp)
    raw = seconds.to_bytes(4, "big") + units.to_bytes(fraction_bytes(fsp), "big")
    value = timestamp_decoder(fsp)(int.from_bytes(raw, "big"))
    assert value == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(0, seconds, kept)
    assert value.tzinfo is UTC


@pytest.mark.parametrize(
    ("fsp", "text"),
    [(0, "0000-00-00 00:00:00"), (1, "0000-00-00 00:00:00.0"), (6, "0000-00-00 00:00:00.000000")],
)
def test_the_zero_timestamp_is_its_text(fsp, text):
    """R266: it is not 1970."""
    assert timestamp_decoder(fsp)(int.from_bytes(bytes(4 + fraction_bytes(fsp)), "big")) == text


@pytest.mark.parametrize(
    ("fsp", "raw"),
    [(2, b"\0\0\0\1\x64"), (6, b"\0\0\0\1\xff\xff\xff"), (6, b"\0\0\0\0\0\0\1")],
)
def test_an_impossible_timestamp_is_refused(fsp, raw):
    """R266: 100 hundredths are no fraction, and the zero timestamp has none."""
    with pytest.raises(ValueError, match="no such timestamp"):
        timestamp_decoder(fsp)(int.from_bytes(raw, "big"))


@given(
    st.booleans(),
    st.integers(0, 838),
    st.integers(0, 59),
    st.integers(0, 59),
    st.integers(0, 999_999),
    FSP,
)
def test_every_time_reads_back(negative, hours, minutes, seconds, micros, fsp):
    """R266: negative fractions count from the whole second they belong to."""
    stored = int.from_bytes(clock(negative, hours, minutes, seconds, micros, fsp), "big")
    value = time_decoder(fsp)(stored)
    kept = fraction(micros, fsp)[1]
    size = timedelta(hours=hours, minutes=minutes, seconds=seconds, microseconds=kept)
    assert value == (-size if negative else size)


@pytest.mark.parametrize(
    ("raw", "fsp"),
    [
        (clock(False, 839, 0, 0, 0, 0), 0),
        (clock(True, 1000, 0, 0, 0, 0), 0),
        (clock(False, 1, 60, 0, 0, 0), 0),
        (clock(False, 1, 0, 60, 0, 0), 0),
        (b"\x80\0\1\x64", 1),
        (b"\0\0\0", 0),
    ],
)
def test_an_impossible_time_is_refused(raw, fsp):
    """R266: hours beyond 838, minutes, seconds and fractions that no server writes."""
    with pytest.raises(ValueError, match="no such time"):
        time_decoder(fsp)(int.from_bytes(raw, "big"))


def test_temporals_inside_documents_print_as_the_server_prints_them():
    """R266: always six digits, and a date without a time."""
    assert json_date((2024 * 13 + 2) << 46 | 29 << 41) == "2024-02-29"
    assert json_datetime((2024 * 13 + 2) << 46 | 29 << 41 | 1 << 36) == "2024-02-29 01:00:00.000000"
    assert json_time(-(25 << 36 | 500_000)) == "-25:00:00.500000"
