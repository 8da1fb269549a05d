"""The display: live in a terminal, plain lines elsewhere."""

import io

import attrs
import pytest

from capstan.demo.display import Display, LiveDisplay, PlainDisplay, Progress, display_for

PROGRESS = Progress(
    phase="streaming",
    seconds=0.0,
    total_seconds=20.0,
    committed=120,
    transactions=100,
    rows=450,
    rows_per_second=90.4,
    lag_seconds=0.012,
    restarts=2,
    backfilled=5000,
    to_backfill=9000,
)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_the_live_display_and_a_pipe_plain_lines() -> None:
    """What standard output is decides."""
    assert isinstance(display_for(Terminal()), LiveDisplay)
    assert isinstance(display_for(io.StringIO()), PlainDisplay)


def test_plain_lines_come_about_once_a_second() -> None:
    """Looks between two lines are passed over; what is said is said at once."""
    out = io.StringIO()
    with display_for(out) as display:
        for tenths in range(25):
            display.show(attrs.evolve(PROGRESS, seconds=tenths / 10))
        display.say("done [for now]")
    lines = out.getvalue().splitlines()
    assert [line.split(" s ")[0].strip() for line in lines[:-1]] == ["0.0", "1.0", "2.0"]
    assert lines[0].endswith(
        "streaming: 120 transactions committed, 100 mirrored with 450 rows, 90 rows/s,"
        " lag 12 ms, 2 restarts, backfill 5000 of 9000 rows"
    )
    assert lines[-1] == "done [for now]"


def test_the_live_display_shows_every_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """All figures are drawn, and what is said stands above them as it is."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    out = Terminal()
    with display_for(out) as display:
        display.show(PROGRESS)
        display.say("killed [pipeline]")
        display.show(attrs.evolve(PROGRESS, seconds=10.0, restarts=3))
    text = out.getvalue()
    for figure in (
        "streaming",
        "120",
        "100",
        "450",
        "90",
        "12 ms",
        "5000 of 9000",
        "killed [pipeline]",
    ):
        assert figure in text


@pytest.mark.parametrize(
    "make", [lambda: PlainDisplay(io.StringIO()), lambda: LiveDisplay(Terminal())]
)
def test_a_display_that_was_never_used_closes(make: type[Display]) -> None:
    """An error before the first look leaves nothing behind."""
    with make():
        pass


@pytest.mark.parametrize(
    ("seconds", "shown"), [(None, "-"), (0.0, "0 ms"), (0.9, "900 ms"), (1.26, "1.3 s")]
)
def test_the_lag_has_its_unit(seconds: float | None, shown: str) -> None:
    """Milliseconds below a second."""
    assert attrs.evolve(PROGRESS, lag_seconds=seconds).lag == shown
