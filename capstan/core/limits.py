"""Budgets of the stream: how much one unfinished transaction may hold.

House rules: a bound has an argument beside it and a named halt behind it. The bytes counted are
those of row events of captured tables, as they stand on the wire: a measure, not a heap limit.
"""

import attrs

from capstan.core.halts import Halted, HaltReason, halted


@attrs.frozen(kw_only=True)
class Budget:
    """What one transaction may take.

    Attributes:
        memory: Bytes of row events kept in memory. The default of 64 MiB holds about a million
            small rows, which is beyond ordinary statements.
        total: Bytes of row events at all; None for no limit of its own.
    """

    memory: int = 64 << 20
    total: int | None = None

    def exceeded(self, held: int) -> Halted:
        """The halt for a transaction that has grown past what may be held."""
        return halted(
            HaltReason.TRANSACTION_TOO_LARGE,
            f"row events of {held} bytes and more against a limit of {self.limit}",
        )

    @property
    def limit(self) -> int:
        """The bound in force."""
        return self.memory if self.total is None else min(self.memory, self.total)
