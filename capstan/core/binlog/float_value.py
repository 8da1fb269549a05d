"""FLOAT values: the shortest decimal that reads back to the stored single-precision number.

House rules: 1.1 stored in a FLOAT comes out as 1.1 and not as the double nearest to the single,
1.10000002384185791015625. The server's own print has six digits and merges different values, so it
is no measure. Infinities and not-a-number, which SQL cannot store, come out as they are.
"""

from decimal import ROUND_UP, Context, Decimal
from math import frexp, isfinite
from struct import Struct

_SINGLE = Struct("<f")
_SMALLEST_NORMAL = 2.0**-126
_SAFE_DIGITS = 6
"""A decimal of so many digits survives a normal single, so it is found by rounding to them."""
_ENOUGH_DIGITS = 9
"""So many digits tell any two singles apart."""


def _reads_back(decimal: float, value: float) -> bool:
    try:
        return bool(_SINGLE.unpack(_SINGLE.pack(decimal))[0] == value)
    except OverflowError:
        return False


def shortest_single(value: float) -> float:
    """The shortest decimal that rounds to this single-precision number, as a double.

    Args:
        value: A number that a single holds exactly.

    Returns:
        Of the decimals with the fewest digits the one nearest to the number.
    """
    if not value or not isfinite(value):
        return value
    power_of_two = frexp(value)[0] in (0.5, -0.5)
    normal = abs(value) >= _SMALLEST_NORMAL
    for digits in range(_SAFE_DIGITS if normal and not power_of_two else 1, _ENOUGH_DIGITS):
        nearest = float(f"{value:.{digits}g}")
        if _reads_back(nearest, value):
            return nearest
        if power_of_two:
            # Singles lie twice as close below a power of two, so that the next decimal above may
            # read back where the nearer one below does not.
            above = float(Context(prec=digits, rounding=ROUND_UP).create_decimal(Decimal(value)))
            if _reads_back(above, value):
                return above
    return float(f"{value:.{_ENOUGH_DIGITS}g}")
