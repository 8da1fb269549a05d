"""DECIMAL: every precision and scale, exactly."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.binlog.decimal_value import decimal_bytes, decimal_decoder

SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def encoded(text, precision, scale):
    """MySQL's bytes of a decimal given as text with all digits of its scale."""
    negative = text.startswith("-")
    whole, _, part = text.lstrip("-").partition(".")
    whole = whole.rjust(precision - scale, "0") if precision > scale else ""
    first = len(whole) % 9
    groups = [whole[:first], *(whole[i : i + 9] for i in range(first, len(whole), 9))]
    groups += [part[i : i + 9] for i in range(0, len(part), 9)]
    raw = b"".join(int(g).to_bytes(SIZES[len(g)], "big") for g in groups if g)
    raw = bytes([raw[0] ^ 0x80]) + raw[1:]
    return bytes(byte ^ 0xFF for byte in raw) if negative else raw


@st.composite
def decimals(draw):
    precision = draw(st.integers(1, 65))
    scale = draw(st.integers(0, min(30, precision)))
    digits = draw(st.text("0123456789", min_size=precision, max_size=precision))
    whole, part = digits[: precision - scale], digits[precision - scale :]
    text = f"{whole or '0'}.{part}" if part else whole
    negative = draw(st.booleans()) and set(digits) != {"0"}
    return f"{'-' if negative else ''}{text}", precision, scale


@given(decimals())
def test_every_decimal_reads_back_with_its_scale(case):
    """R266: up to 65 digits, beyond what the default context would keep."""
    text, precision, scale = case
    raw = encoded(text, precision, scale)
    assert len(raw) == decimal_bytes(precision, scale)
    value = decimal_decoder(precision, scale)(raw)
    assert value.as_tuple() == (
        text.startswith("-"),
        Decimal(int(text.replace(".", "").lstrip("-"))).as_tuple().digits,
        -scale,
    )


@pytest.mark.parametrize(
    ("raw", "shape", "text"),
    [
        ("8000000000", (10, 2), "0.00"),
        ("800004d220", (10, 2), "1234.32"),
        ("7ffffb2ddf", (10, 2), "-1234.32"),
        ("810dfb38d204d2", (14, 4), "1234567890.1234"),
        ("7ef204c72dfb2d", (14, 4), "-1234567890.1234"),
        ("80", (1, 0), "0"),
        ("76", (1, 0), "-9"),
    ],
)
def test_known_bytes_give_known_numbers(raw, shape, text):
    """R266: the examples of MySQL's own manual and sources."""
    value = decimal_decoder(*shape)(bytes.fromhex(raw))
    assert format(value, "f") == text


@pytest.mark.parametrize(
    ("raw", "shape"),
    [
        ("7fffffffff", (10, 2)),
        ("7f", (1, 0)),
        ("8000000064", (10, 2)),
        ("85f5e10000", (10, 2)),
        ("8a", (1, 0)),
        ("803b9aca00", (10, 0)),
        ("ffffffffff", (10, 2)),
    ],
)
def test_bytes_that_no_server_writes_are_refused(raw, shape):
    """R266: a group with too many digits, a zero with a sign."""
    with pytest.raises(ValueError):
        decimal_decoder(*shape)(bytes.fromhex(raw))
