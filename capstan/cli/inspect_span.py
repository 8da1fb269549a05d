"""`--since` and `--until`: a part of some files, by time or by offset.

House rules: an offset belongs to one file, so `--since` counts in the first file and `--until` in
the last, as MySQL's own tool has it. A time is UTC unless it says otherwise. The beginning is
within, the end is not.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import attrs
import click

Bound = int | datetime
"""An offset, or a moment."""


def read_bound(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> Bound | None:
    """Read a bound, or end the command: a whole number is an offset, everything else a moment."""
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter("neither an offset nor a time such as 2026-11-30T12:00") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


@attrs.frozen(kw_only=True)
class Span:
    """A part of some files.

    Attributes:
        first: The first file.
        last: The last file.
        since: Where it begins; None for the beginning.
        until: Where it ends; None for the end.
    """

    first: Path
    last: Path
    since: Bound | None
    until: Bound | None

    @classmethod
    def of(cls, paths: Sequence[Path], since: Bound | None, until: Bound | None) -> "Span":
        """The part of these files."""
        return cls(first=paths[0], last=paths[-1], since=since, until=until)

    @property
    def whole(self) -> bool:
        """Whether everything is in it."""
        return self.since is None and self.until is None

    def covers(self, path: Path, offset: int, timestamp: int) -> bool:
        """Whether what begins at an offset, and was written at a time, is in it."""
        return not (
            _before(self.since, path == self.first, offset, timestamp)
            or self.over(path, offset)
            or (
                isinstance(self.until, datetime)
                and not _before(self.until, True, offset, timestamp)
            )
        )

    def over(self, path: Path, offset: int) -> bool:
        """Whether nothing behind this offset can be in it; times need not be in order."""
        return isinstance(self.until, int) and path == self.last and offset >= self.until


def _before(bound: Bound | None, counts_here: bool, offset: int, timestamp: int) -> bool:
    if isinstance(bound, datetime):
        return timestamp < bound.timestamp()
    return bound is not None and counts_here and offset < bound
