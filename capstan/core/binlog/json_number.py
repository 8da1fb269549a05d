"""The text of numbers inside JSON documents, as the server prints them.

House rules: digits are the shortest that read back, as Python's are; only where the point goes and
how an exponent looks differ.
"""

from math import isfinite


def double_text(value: float) -> str:
    """The server's text for a double: fixed from 1e-15 to below 1e15, else with an exponent."""
    size = abs(value)
    if 1e-4 <= size < 1e15 or not value:
        return repr(value)
    if not isfinite(value):
        raise ValueError("a number that JSON does not have")
    return _respelled(value)


def _respelled(value: float) -> str:
    """The same digits as `repr` has, with the server's point and exponent."""
    mantissa, _, exponent = f"{value!r}e0".partition("e")
    sign = "-" if mantissa[0] == "-" else ""
    whole, _, part = mantissa.lstrip("-").partition(".")
    power = int(exponent.partition("e")[0]) + len(whole) - 1
    digits = (whole + part).strip("0")
    power -= len(whole) - len(whole.lstrip("0")) if whole != "0" else 0
    if -15 <= power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    if 0 <= power < len(digits):
        head, tail = digits[: power + 1], digits[power + 1 :]
        return f"{sign}{head}.{tail or '0'}"
    tail = f".{digits[1:]}" if digits[1:] else ""
    return f"{sign}{digits[0]}{tail}e{power}"
