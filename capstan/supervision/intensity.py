"""Restart intensity: how many restarts are bad luck, and how many are a verdict.

House rules: pure arithmetic over monotonic stamps; the clock is the caller's. "n restarts within t
seconds" and nothing cleverer, so that an operator can predict it.
"""

import attrs


@attrs.frozen
class Intensity:
    """At most `restarts` restarts within any `seconds`; one more ends the tree.

    Attributes:
        restarts: How many are allowed; 0 forbids every restart.
        seconds: Length of the window; a stamp exactly that old still counts.
    """

    restarts: int
    seconds: float

    def add_restart(self, stamps: tuple[float, ...], now: float) -> tuple[float, ...] | None:
        """Count one more restart.

        Args:
            stamps: What this method returned last, oldest first; empty at first.
            now: The monotonic second of this restart.

        Returns:
            The stamps still in the window with this one, or None: the intensity is exhausted.
        """
        kept = (*(stamp for stamp in stamps if now - stamp <= self.seconds), now)
        return kept if len(kept) <= self.restarts else None
