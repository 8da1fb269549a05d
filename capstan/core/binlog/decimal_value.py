"""DECIMAL values: nine digits to four bytes, exactly, with their scale.

House rules: never through a float, never under the default context, which rounds at 28 digits.

Wire: the digits before and after the point in groups of nine, each group 4 bytes big-endian; the
first group before the point and the last one behind it may be shorter and take fewer bytes. The top
bit is set for positive numbers; all bits of a negative one are inverted.
"""

from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from functools import lru_cache
from struct import Struct
from typing import Final

import attrs

_BYTES_OF_DIGITS: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_LAYOUTS: Final = {1: "B", 2: "H", 3: "BH", 4: "I"}
"""The `struct` characters of a group, by its bytes."""
_GROUP: Final = 9
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


@attrs.frozen(eq=False)
class DecimalRecipe:
    """How a DECIMAL(precision, scale) is read.

    Attributes:
        layout: `struct` characters, big-endian: one for each group, two for one of three bytes.
        expression: Python for the value; `{0}`, `{1}`, … stand for what the layout unpacks to,
            `{c}name` for a helper. It raises ValueError for bytes that no server writes.
        helpers: What the expression calls.
    """

    layout: str
    expression: str
    helpers: Mapping[str, object]


@lru_cache(maxsize=256)
def decimal_recipe(precision: int, scale: int) -> DecimalRecipe:
    """The recipe for a precision and a scale.

    The expression looks at once whether it is a positive number with no group too large, then
    whether it is a negative one: a straight line takes half as long as a loop over groups.
    """
    groups = _groups(precision, scale)
    layout = "".join(_LAYOUTS[_BYTES_OF_DIGITS[count]] for count in groups)
    parts = iter(range(len(layout)))
    numbers = [
        f"({{{next(parts)}}} << 16 | {{{next(parts)}}})"
        if _BYTES_OF_DIGITS[count] == 3
        else f"{{{next(parts)}}}"
        for count in groups
    ]
    sign = 1 << 8 * _BYTES_OF_DIGITS[groups[0]] - 1
    zeros = [sign] + [0] * (len(groups) - 1)
    # The bits of a negative number are inverted: its groups count down from all ones.
    tops = [sign - 1] + [(1 << 8 * _BYTES_OF_DIGITS[count]) - 1 for count in groups[1:]]
    positive, negative = [], []
    for number, count, zero, top in zip(numbers, groups, zeros, tops, strict=True):
        positive.append(
            f"{zero} <= {number} < {zero + 10**count}" if zero else f"{number} < {10**count}"
        )
        negative.append(f"{top - 10**count} < {number}" + (f" <= {top}" if zero else ""))
    expression = (
        f"({{c}}exact({_sum(numbers, groups, zeros)}, {{c}}unit) if {' and '.join(positive)} else "
        f"{{c}}exact(d, {{c}}unit) if {' and '.join(negative)} "
        f"and (d := {_sum(numbers, groups, tops)}) else {{c}}refuse())"
    )
    unit = Decimal((0, (1,), -scale))
    return DecimalRecipe(layout, expression, {"exact": _exact, "unit": unit, "refuse": _refuse})


def _sum(numbers: list[str], groups: list[int], nothing: list[int]) -> str:
    """The expression for a number without its point, from its groups as they count from nothing."""
    digits = [f"({n} - {zero})" if zero else n for n, zero in zip(numbers, nothing, strict=True)]
    value = digits[0]
    for digit, count in zip(digits[1:], groups[1:], strict=True):
        value = f"({value} * {10**count} + {digit})"
    return value


def _refuse() -> Decimal:
    raise ValueError("no such decimal")


@lru_cache(maxsize=256)
def decimal_decoder(precision: int, scale: int) -> Callable[[bytes], Decimal]:
    """A function from the bytes of a DECIMAL(precision, scale) to its value.

    It raises ValueError for bytes that no server writes: a group with too many digits, a zero with
    a minus sign.
    """
    recipe = decimal_recipe(precision, scale)
    names = [f"g{part}" for part in range(len(recipe.layout))]
    source = f"lambda {', '.join(names)}: {recipe.expression.format(*names, c='')}"
    # The text is made of numbers and of the lines of this file only.
    value: Callable[..., Decimal] = eval(source, dict(recipe.helpers))  # noqa: S307
    read = Struct(f">{recipe.layout}").unpack
    return lambda raw: value(*read(raw))
