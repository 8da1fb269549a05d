"""FLOAT: the shortest decimal that reads back to the stored single."""

from math import isfinite
from struct import pack, unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.binlog.float_value import shortest_single


def single(bits):
    return unpack("<f", pack("<I", bits))[0]


def digits(value):
    """Significant digits of a float's shortest print."""
    mantissa = repr(abs(value)).partition("e")[0].replace(".", "")
    return len(mantissa.strip("0"))


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        (1.1, 1.1),
        (0.1, 0.1),
        (-3.14, -3.14),
        (16777215.0, 16777215.0),
        (16777216.0, 16777216.0),
        (1e-45, 1e-45),
        (1.17549435e-38, 1.1754944e-38),
        (3.4028234663852886e38, 3.4028235e38),
        (123456.789, 123456.79),
        (0.0, 0.0),
        (2.0**-44, 5.684342e-14),
        (2.0**87, 1.5474251e26),
    ],
)
def test_known_singles_give_their_shortest_decimal(stored, value):
    """R266: neither the server's six digits nor the double nearest to the single."""
    assert shortest_single(unpack("<f", pack("<f", stored))[0]) == value


def test_zero_keeps_its_sign_and_odd_values_come_out_as_they_are():
    """R266: nothing is rounded away."""
    assert repr(shortest_single(-0.0)) == "-0.0"
    assert repr(shortest_single(float("inf"))) == "inf"
    assert repr(shortest_single(float("nan"))) == "nan"


@given(st.integers(0, (1 << 32) - 1).map(single).filter(isfinite))
def test_every_single_reads_back_from_as_few_digits_as_any_decimal(value):
    """R266: exact, and no decimal with one digit less would do."""
    short = shortest_single(value)
    assert unpack("<f", pack("<f", short))[0] == value
    if value:
        for fewer in range(1, digits(short)):
            rounded = float(f"{value:.{fewer}g}")
            assert abs(rounded) > 3.4e38 or unpack("<f", pack("<f", rounded))[0] != value


@pytest.mark.parametrize("exponent", range(-149, 128))
def test_powers_of_two_are_found_on_their_wider_side_too(exponent):
    """R266: below a power of two singles lie closer, so the nearest decimal may not read back."""
    value = 2.0**exponent
    short = shortest_single(value)
    assert unpack("<f", pack("<f", short))[0] == value
    count = digits(short)
    if count > 1:
        scale = 10.0 ** (count - 2)
        mantissa, power = f"{value:.16e}".split("e")
        for step in (-1, 0, 1, 2):
            candidate = float(f"{int(float(mantissa) * scale) + step}e{int(power) - count + 2}")
            if abs(candidate) < 3.4e38:
                assert unpack("<f", pack("<f", candidate))[0] != value
