"""Doubles inside documents: the server's spelling of Python's digits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.binlog.json_number import double_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-1.5, "-1.5"),
        (0.1, "0.1"),
        (0.0001, "0.0001"),
        (0.00001234, "0.00001234"),
        (1e-5, "0.00001"),
        (1e-15, "0.000000000000001"),
        (-1.5e-15, "-0.0000000000000015"),
        (1e-16, "1e-16"),
        (1.25e-16, "1.25e-16"),
        (5e-324, "5e-324"),
        (999999999999999.0, "999999999999999.0"),
        (1e14, "100000000000000.0"),
        (1e15, "1e15"),
        (1234567890123456.0, "1.234567890123456e15"),
        (123456789012345.67, "123456789012345.67"),
        (1234567890123456.8, "1234567890123456.8"),
        (9007199254740993.0, "9.007199254740992e15"),
        (1e16, "1e16"),
        (1.7976931348623157e308, "1.7976931348623157e308"),
        (-2.5e100, "-2.5e100"),
    ],
)
def test_doubles_print_as_the_server_prints_them(value, text):
    """R266: fixed in the middle, an exponent without plus sign or padding outside."""
    assert double_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_reads_back(value):
    """R266: the digits are never fewer than it takes."""
    assert repr(float(double_text(value))) == repr(value)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_numbers_that_json_lacks_are_refused(value):
    """R266: no document can hold them."""
    with pytest.raises(ValueError, match="JSON"):
        double_text(value)
