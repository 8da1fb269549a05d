"""The text of numbers inside JSON documents, as the server prints them.

House rules: digits are the shortest that read back, as Python's are; only where the point goes and
how an exponent looks differ.
"""

from math import isfinite


def double_text(value: float) -> str:
    """The server's text for a double.

    Fixed from 1e-15 to below 1e15, and above while digits stand behind the point; else with an
    exponent.

    Raises:
        ValueError: For infinities and not-a-number.
    """
    size = abs(value)
    if 1e-4 <= size < 1e15 or not value:
        return repr(value)
    if not isfinite(value):
        raise ValueError("a number that JSON does not have")
    return _respelled(value)


def _respelled(value: float) -> str:
    """The same digits as `repr` has, with the server's point and exponent."""
    mantissa, _, exponent = repr(value).partition("e")
    sign = "-" if value < 0 else ""
    whole, _, part = mantissa.lstrip("-").partition(".")
    digits = (whole + part).rstrip("0")
    power = int(exponent or 0) + len(whole) - 1
    if -15 <= power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    if 0 <= power < len(digits) - 1:
        return f"{sign}{digits[: power + 1]}.{digits[power + 1 :]}"
    tail = f".{digits[1:]}" if digits[1:] else ""
    return f"{sign}{digits[0]}{tail}e{power}"
