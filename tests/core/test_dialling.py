"""The connection's life: a table, and the account of its credit."""

from capstan.core.dialling import TRANSITIONS, Event, Life, Phase, Step


def test_every_phase_hears_credit() -> None:
    """Credit can come at any time and never breaks a phase."""
    assert all(Event.CREDIT_GRANTED in row for row in TRANSITIONS.values())


def test_it_asks_for_the_position_before_each_dial() -> None:
    """No dial without credit, none without a position asked for afresh."""
    life = Life()

    assert life.granted(2) is Step.ASK_POSITION
    assert life.on(Event.POSITION_KNOWN) is Step.DIAL
    assert life.on(Event.FAILED) is Step.BACK_OFF
    assert life.on(Event.WAITED) is Step.ASK_POSITION


def test_it_reads_only_with_credit() -> None:
    """Spent credit pauses the reading; new credit resumes it."""
    life = streaming(credit=2)

    assert life.spent() is Step.READ
    assert life.spent() is Step.NOTHING
    assert life.phase is Phase.PAUSED
    assert life.paused
    assert life.granted(1) is Step.READ
    assert life.phase is Phase.STREAMING


def test_it_dials_only_with_credit() -> None:
    """A link lost with no credit left rests until credit comes."""
    life = streaming(credit=1)
    life.spent()
    life.on(Event.FAILED)

    assert life.on(Event.WAITED) is Step.NOTHING
    assert life.phase is Phase.RESTING
    assert life.granted(1) is Step.ASK_POSITION


def test_a_pause_is_forgotten_with_the_next_stream() -> None:
    """Whether a cut counts against the budget is asked of its own stream only."""
    life = streaming(credit=1)
    life.spent()
    life.granted(1)
    life.on(Event.FAILED)
    life.on(Event.WAITED)
    life.on(Event.POSITION_KNOWN)
    life.on(Event.ESTABLISHED)

    assert not life.paused


def streaming(credit: int) -> Life:
    life = Life()
    life.granted(credit)
    life.on(Event.POSITION_KNOWN)
    life.on(Event.ESTABLISHED)
    return life
