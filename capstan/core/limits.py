"""Budgets of the stream: how much one unfinished transaction may hold.

House rules: a bound has an argument beside it and a named outcome behind it: over the memory budget
a transaction is spooled, over its total it halts (D25). Memory is estimated, not measured: what
rows stand for on the wire, and what Python's objects for them take beside that.
"""

import attrs

from capstan.core.halts import Halted, HaltReason, halted

_IMAGE_BYTES = 64
_VALUE_BYTES = 48


@attrs.frozen(kw_only=True)
class Budget:
    """What one transaction may take.

    Attributes:
        memory: Bytes of rows kept in memory, as `weight_of` estimates them. The default of 64 MiB
            holds about a hundred thousand rows of ten columns, beyond ordinary statements.
        total: Bytes of row events of captured tables at all, as they stand on the wire; None for
            no limit.
    """

    memory: int = 64 << 20
    total: int | None = None


def weight_of(columns: int) -> int:
    """Bytes that an image of so many columns takes beside its bytes on the wire, on 64 bits.

    A tuple has 56 bytes and 8 for each value; a value's object has from none (NULL, small numbers)
    over 28 to 49 (numbers, dates, texts) to 104 (decimals).
    """
    return _IMAGE_BYTES + _VALUE_BYTES * columns


def over_total(held: int, total: int) -> Halted:
    """The halt for a transaction that has grown past what it may have at all."""
    return halted(
        HaltReason.TRANSACTION_TOO_LARGE,
        f"row events of {held} bytes and more against a limit of {total}",
    )
