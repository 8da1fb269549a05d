"""Claims about restart intensity, as arithmetic over stamps."""

from hypothesis import given
from hypothesis import strategies as st

from capstan.supervision.intensity import Intensity


def test_as_many_restarts_as_allowed_are_bad_luck_and_one_more_is_not() -> None:
    """Three within ten seconds pass, the fourth exhausts."""
    intensity = Intensity(3, 10.0)
    stamps: tuple[float, ...] | None = ()
    for now in (0.0, 1.0, 2.0):
        assert stamps is not None
        stamps = intensity.add_restart(stamps, now)

    assert stamps == (0.0, 1.0, 2.0)
    assert intensity.add_restart(stamps, 3.0) is None


def test_what_is_older_than_the_window_is_forgotten() -> None:
    """A stamp exactly as old as the window still counts, an older one does not."""
    intensity = Intensity(1, 10.0)

    assert intensity.add_restart((0.0,), 10.0) is None
    assert intensity.add_restart((0.0,), 10.001) == (10.001,)


def test_none_allowed_means_the_first_exhausts() -> None:
    """Zero restarts forbid every restart."""
    assert Intensity(0, 10.0).add_restart((), 5.0) is None


@given(
    restarts=st.integers(0, 5),
    seconds=st.integers(1, 20),
    gaps=st.lists(st.integers(0, 10), max_size=30),
)
def test_it_is_exhausted_exactly_when_a_window_holds_too_many(
    restarts: int, seconds: int, gaps: list[int]
) -> None:
    """The running answer equals a count over the whole history."""
    intensity = Intensity(restarts, seconds)
    stamps: tuple[float, ...] = ()
    history: list[int] = []
    now = 0
    for gap in gaps:
        now += gap
        history.append(now)
        in_window = [stamp for stamp in history if now - stamp <= seconds]
        answer = intensity.add_restart(stamps, now)
        if len(in_window) > restarts:
            assert answer is None
            return
        assert answer == tuple(in_window)
        stamps = answer
