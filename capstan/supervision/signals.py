"""What a supervisor hears, beside the stop request and the interrupt every actor knows.

House rules: facts and a beat, no orders. Each fact names the incarnation it is about; what is about
an older one is dropped. A restart needs no message of its own: the end that calls for it came
through the mailbox, and so does the end of a failed attempt, so that a stop can overtake.
"""

import attrs

from capstan.runtime import Exit


@attrs.frozen
class ChildStarted:
    """Child -> its supervisor: `started()` has returned; of a supervisor: all its children run."""

    id: str
    incarnation: int


@attrs.frozen
class ChildExited:
    """Child -> its supervisor: it ended; its thread does nothing more."""

    id: str
    incarnation: int
    exit: Exit


@attrs.frozen
class Tick:
    """Ticker -> root supervisor -> supervisors below: time to look at deadlines and watches."""
