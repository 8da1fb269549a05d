"""DECIMAL values: nine digits to four bytes, exactly, with their scale.

House rules: never through a float, never under the default context, which rounds at 28 digits.

Wire: the digits before and after the point in groups of nine, each group 4 bytes big-endian; the
first group before the point and the last one behind it may be shorter and take fewer bytes. The top
bit is set for positive numbers; all bits of a negative one are inverted.
"""

from collections.abc import Callable
from decimal import Context, Decimal

_BYTES_OF_DIGITS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_GROUP = 9
_exact = Context(prec=100).multiply
"""65 digits at most exist, so nothing is ever rounded."""


def _groups(precision: int, scale: int) -> list[int]:
    """The digits of each group, in wire order."""
    whole, rest = divmod(precision - scale, _GROUP)
    parts, last = divmod(scale, _GROUP)
    digits = [rest, *[_GROUP] * (whole + parts), last]
    return [count for count in digits if count]


def decimal_bytes(precision: int, scale: int) -> int:
    """How many bytes a DECIMAL(precision, scale) takes."""
    return sum(_BYTES_OF_DIGITS[count] for count in _groups(precision, scale))


def decimal_decoder(precision: int, scale: int) -> Callable[[bytes], Decimal]:
    """A function from the bytes of a DECIMAL(precision, scale) to its value.

    It raises ValueError for bytes that no server writes: a group with too many digits, a zero with
    a minus sign.
    """
    groups = _groups(precision, scale)
    unit = Decimal((0, (1,), -scale))
    return _two_groups(groups, unit) if len(groups) == 2 else _any_groups(groups, unit)


def _any_groups(groups: list[int], unit: Decimal) -> Callable[[bytes], Decimal]:
    size = 8 * sum(_BYTES_OF_DIGITS[count] for count in groups)
    sign, full = 1 << size - 1, (1 << size) - 1
    steps: list[tuple[int, int, int]] = []
    for count in groups:
        size -= 8 * _BYTES_OF_DIGITS[count]
        steps.append((size, (1 << 8 * _BYTES_OF_DIGITS[count]) - 1, 10**count))

    def decode(raw: bytes) -> Decimal:
        bits = int.from_bytes(raw, "big") ^ sign
        negative = bits & sign
        if negative:
            bits ^= full
        number = 0
        for shift, mask, limit in steps:
            group = bits >> shift & mask
            if group >= limit:
                raise ValueError("no such decimal")
            number = number * limit + group
        return _negated(number, unit) if negative else _exact(number, unit)

    return decode


def _two_groups(groups: list[int], unit: Decimal) -> Callable[[bytes], Decimal]:
    """The commonest layout, without a loop."""
    first, last = groups
    size = 8 * (_BYTES_OF_DIGITS[first] + _BYTES_OF_DIGITS[last])
    sign, full = 1 << size - 1, (1 << size) - 1
    shift = 8 * _BYTES_OF_DIGITS[last]
    mask = (1 << shift) - 1
    high_limit: int = 10**first
    low_limit: int = 10**last

    def decode(raw: bytes) -> Decimal:
        bits = int.from_bytes(raw, "big") ^ sign
        negative = bits & sign
        if negative:
            bits ^= full
        high, low = bits >> shift, bits & mask
        if high >= high_limit or low >= low_limit:
            raise ValueError("no such decimal")
        number = high * low_limit + low
        return _negated(number, unit) if negative else _exact(number, unit)

    return decode


def _negated(number: int, unit: Decimal) -> Decimal:
    if not number:
        raise ValueError("a zero with a minus sign")
    return _exact(-number, unit)
