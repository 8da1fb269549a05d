"""Shows how the demonstration goes: live in a terminal, plain lines elsewhere.

Owns: what progress looks like. Refuses to know: where the figures come from. Without a terminal, or
without rich, a line is written about once a second and every word is said once.
"""

import importlib.util
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

import attrs

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live


@attrs.frozen(kw_only=True)
class Progress:
    """One look at the demonstration.

    Attributes:
        phase: What is going on, in a word or two.
        seconds: Since the workload began.
        total_seconds: How long the workload is to run.
        committed: Transactions committed at the source, those of uncaptured tables among them.
        transactions: Transactions in the mirror.
        rows: Row changes in the mirror.
        rows_per_second: Since the look before.
        lag_seconds: The age of the newest transaction in the mirror; None before the first.
        restarts: How often the pipeline was killed and started again.
        backfilled: Rows of before in the mirror.
        to_backfill: Rows of before in all, as they were counted at first.
    """

    phase: str
    seconds: float
    total_seconds: float
    committed: int
    transactions: int
    rows: int
    rows_per_second: float
    lag_seconds: float | None
    restarts: int
    backfilled: int
    to_backfill: int

    @property
    def lag(self) -> str:
        """The lag with its unit."""
        if self.lag_seconds is None:
            return "-"
        if self.lag_seconds < 1:
            return f"{self.lag_seconds * 1000:.0f} ms"
        return f"{self.lag_seconds:.1f} s"


class Display(Protocol):
    """Where the demonstration speaks; a context manager."""

    def say(self, line: str) -> None:
        """Say something once."""

    def show(self, progress: Progress) -> None:
        """Show how it goes; called several times a second."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def display_for(stream: TextIO | None = None) -> Display:
    """Live in a terminal with rich at hand, plain elsewhere; standard output by default."""
    out = sys.stdout if stream is None else stream
    if out.isatty() and importlib.util.find_spec("rich") is not None:
        return LiveDisplay(out)
    return PlainDisplay(out)


class PlainDisplay:
    """Lines, one about every `every` seconds of the workload."""

    def __init__(self, out: TextIO, every: float = 1.0) -> None:
        self._out = out
        self._every = every
        self._next = 0.0

    def say(self, line: str) -> None:
        """Write the line."""
        self._out.write(f"{line}\n")
        self._out.flush()

    def show(self, progress: Progress) -> None:
        """Write a line if the last one is old enough."""
        if progress.seconds < self._next:
            return
        self._next = progress.seconds + self._every
        self.say(
            f"{progress.seconds:5.1f} s  {progress.phase}: {progress.committed} transactions"
            f" committed, {progress.transactions} mirrored with {progress.rows} rows,"
            f" {progress.rows_per_second:.0f} rows/s, lag {progress.lag},"
            f" {progress.restarts} restarts,"
            f" backfill {progress.backfilled} of {progress.to_backfill} rows"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._out.flush()


class LiveDisplay:
    """A small table that stays in its place, with everything that was said above it."""

    def __init__(self, out: TextIO) -> None:
        # rich comes with the command line's extra; everything else of the demonstration does not.
        from rich.console import Console  # noqa: PLC0415

        self._console = Console(file=out, highlight=False)
        self._live: Live | None = None

    def say(self, line: str) -> None:
        """Print the line above the table."""
        self._console.print(line, markup=False)

    def show(self, progress: Progress) -> None:
        """Redraw the table."""
        from rich.live import Live  # noqa: PLC0415

        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(_drawn(progress), refresh=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def _drawn(progress: Progress) -> "Group":
    from rich.console import Group  # noqa: PLC0415
    from rich.progress_bar import ProgressBar  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=progress.phase, title_justify="left", box=None, pad_edge=False)
    cells = {
        "committed": str(progress.committed),
        "mirrored": str(progress.transactions),
        "rows": str(progress.rows),
        "rows/s": f"{progress.rows_per_second:.0f}",
        "lag": progress.lag,
        "restarts": str(progress.restarts),
        "backfilled": f"{progress.backfilled} of {progress.to_backfill}",
    }
    for name in cells:
        table.add_column(name, justify="right", min_width=10)
    table.add_row(*cells.values())
    bar = ProgressBar(
        total=max(progress.total_seconds, 0.001),
        completed=min(progress.seconds, progress.total_seconds),
        width=60,
    )
    return Group(table, bar)
