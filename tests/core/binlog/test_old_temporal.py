"""Dates and times of servers before 5.6: the same values from other bytes."""

from datetime import UTC, datetime, timedelta

import pytest
from helpers.table_bytes import Spec, table_map
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.binlog.old_temporal import old_datetime, old_time, old_timestamp
from capstan.core.binlog.table_map import parse


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)))
def test_every_datetime_reads_back(value: datetime) -> None:
    """R266: the decimal digits of the number are those of the date and the time."""
    whole = value.replace(microsecond=0)
    assert old_datetime(int(whole.strftime("%Y%m%d%H%M%S").zfill(14))) == whole


@given(st.integers(0, 838), st.integers(0, 59), st.integers(0, 59), st.booleans())
def test_every_time_reads_back(hour: int, minute: int, second: int, negative: bool) -> None:
    """R266: the sign is that of the number."""
    number = hour * 10_000 + minute * 100 + second
    span = timedelta(hours=hour, minutes=minute, seconds=second)
    assert old_time(-number if negative else number) == (-span if negative else span)


def test_timestamps_are_seconds_in_utc() -> None:
    """R266: aware, from the first second to the last; zero is the text that SELECT prints."""
    assert old_timestamp(1) == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert old_timestamp((1 << 31) - 1) == datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC)
    assert old_timestamp(0) == "0000-00-00 00:00:00"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0000-00-00 00:00:00"),
        (2020_00_00_000000, "2020-00-00 00:00:00"),
        (2021_02_31_235959, "2021-02-31 23:59:59"),
        (101_000000, "0000-01-01 00:00:00"),
    ],
)
def test_days_that_python_has_not_are_what_select_prints(number: int, text: str) -> None:
    """R266: zero dates and impossible days stay apart from NULL and from each other."""
    assert old_datetime(number) == text


@pytest.mark.parametrize(
    "number",
    [
        *(-1, 1 << 62, 10_000_01_01_000000, 2020_13_01_000000, 2020_01_32_000000),
        *(2020_01_01_240000, 2020_01_01_006000, 2020_01_01_000060),
    ],
)
def test_an_impossible_datetime_is_refused(number: int) -> None:
    """R266: digits that no server writes."""
    with pytest.raises(ValueError, match="no such"):
        old_datetime(number)


@pytest.mark.parametrize("number", [839_00_00, -839_00_00, 1_60_00, 1_00_60, 8_388_607, -(1 << 23)])
def test_an_impossible_time_is_refused(number: int) -> None:
    """R266: hours beyond 838, minutes and seconds that no server writes."""
    with pytest.raises(ValueError, match="no such time"):
        old_time(number)


def test_columns_of_the_old_types_are_described_like_the_new_ones() -> None:
    """D5: a reader of `columns` need not know how old the table is."""
    columns = parse(table_map([Spec("a", 7), Spec("b", 11), Spec("c", 12)])).shape.columns
    assert [(column.type, column.fsp) for column in columns] == [
        *(("timestamp", 0), ("time", 0), ("datetime", 0)),
    ]
