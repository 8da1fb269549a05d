"""The connection's life as a transition table, and the account of its credit.

House rules: the actor asks what to do next and does it; it never decides from its own flags. A
missing cell is a programming error. Credit counts pieces; a link is dialled and read only with
credit (see `docs/tour.md`, "Credit").
"""

from enum import Enum, auto
from typing import Final


class Phase(Enum):
    """Where the connection stands."""

    RESTING = "waiting for credit before it dials"
    ASKING = "asking for the position"
    DIALLING = "dialling"
    STREAMING = "reading the stream"
    PAUSED = "connected, waiting for credit"
    BACKING_OFF = "waiting before the next dial"


class Event(Enum):
    """What can happen to it."""

    CREDIT_GRANTED = auto()
    CREDIT_SPENT = auto()
    POSITION_KNOWN = auto()
    ESTABLISHED = auto()
    SEEDED = auto()
    FAILED = auto()
    WAITED = auto()


class Step(Enum):
    """What the actor does next."""

    NOTHING = auto()
    ASK_POSITION = auto()
    DIAL = auto()
    READ = auto()
    BACK_OFF = auto()


TRANSITIONS: Final[dict[Phase, dict[Event, tuple[Phase, Step]]]] = {
    Phase.RESTING: {
        Event.CREDIT_GRANTED: (Phase.ASKING, Step.ASK_POSITION),
    },
    Phase.ASKING: {
        Event.CREDIT_GRANTED: (Phase.ASKING, Step.NOTHING),
        Event.POSITION_KNOWN: (Phase.DIALLING, Step.DIAL),
    },
    Phase.DIALLING: {
        Event.CREDIT_GRANTED: (Phase.DIALLING, Step.NOTHING),
        Event.ESTABLISHED: (Phase.STREAMING, Step.READ),
        Event.SEEDED: (Phase.ASKING, Step.NOTHING),
        Event.FAILED: (Phase.BACKING_OFF, Step.BACK_OFF),
    },
    Phase.STREAMING: {
        Event.CREDIT_GRANTED: (Phase.STREAMING, Step.NOTHING),
        Event.CREDIT_SPENT: (Phase.PAUSED, Step.NOTHING),
        Event.FAILED: (Phase.BACKING_OFF, Step.BACK_OFF),
    },
    Phase.PAUSED: {
        Event.CREDIT_GRANTED: (Phase.STREAMING, Step.READ),
        Event.FAILED: (Phase.BACKING_OFF, Step.BACK_OFF),
    },
    Phase.BACKING_OFF: {
        Event.CREDIT_GRANTED: (Phase.BACKING_OFF, Step.NOTHING),
        Event.WAITED: (Phase.ASKING, Step.ASK_POSITION),
    },
}


class Life:
    """One connection's phase, credit and epoch number."""

    def __init__(self) -> None:
        self.phase = Phase.RESTING
        self.credit = 0
        self.paused = False
        """Whether the stream stood still for want of credit since it was opened."""
        self._excused = False

    def granted(self, pieces: int) -> Step:
        """Credit came in."""
        self.credit += pieces
        return self.on(Event.CREDIT_GRANTED)

    def spent(self) -> Step:
        """One piece was handed over."""
        self.credit -= 1
        if self.credit > 0:
            return Step.READ
        self.paused = True
        return self.on(Event.CREDIT_SPENT)

    def progressed(self) -> None:
        """The watermark moved."""
        self._excused = False

    def excuses_cut(self) -> bool:
        """Whether a cut of the stream is nobody's fault: it had stood still for want of credit.

        One such cut is excused until there is progress, so that a link which flaps within one
        large transaction ends too, although it pauses whenever the pieces are folded slowly.
        """
        excused = self.paused and not self._excused
        self._excused = self._excused or excused
        return excused

    def on(self, event: Event) -> Step:
        """Move on; returns what to do now."""
        self.phase, step = TRANSITIONS[self.phase][event]
        if event is Event.ESTABLISHED:
            self.paused = False
        elif event is Event.WAITED and self.credit <= 0:
            self.phase, step = Phase.RESTING, Step.NOTHING
        return step
