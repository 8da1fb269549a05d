"""How far a long reading is, for whoever sits before a terminal; and waiting for files to grow.

House rules: nothing of this is on standard output. The bar is for files of over 100 MiB, the
waiting for `--follow`; neither changes what is printed.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from capstan.sources.binlog_walk import unwatched

_LONG: Final = 100 << 20
_POLL_SECONDS: Final = 0.2

Watch = Callable[[Path, int], None]


@contextmanager
def progress(paths: Sequence[Path]) -> Iterator[Watch]:
    """Show a bar while the block runs, where that makes sense; what it yields moves it."""
    sizes = {path: path.stat().st_size for path in paths}
    total = sum(sizes.values())
    if total <= _LONG or not sys.stderr.isatty():
        yield unwatched
        return
    # Only a long reading on a terminal pays for this import.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn  # noqa: PLC0415

    columns = ("{task.description}", BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("reading", total=total)
        before = {}
        passed = 0
        for path in paths:
            before[path] = passed
            passed += sizes[path]

        def watch(path: Path, offset: int) -> None:
            shown.update(task, completed=before.get(path, total) + offset, description=path.name)

        yield watch


class Following:
    """Looks again and again whether files have grown, until told to stop."""

    def __init__(self) -> None:
        self._stop = threading.Event()

    def stop(self) -> None:
        """Read no further than what is there."""
        self._stop.set()

    def wait(self) -> bool:
        """Let some time pass; what was printed can be read meanwhile."""
        sys.stdout.flush()
        return not self._stop.wait(_POLL_SECONDS)
