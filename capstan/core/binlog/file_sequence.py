"""Whether binlog files follow one another without a gap.

House rules: two witnesses are heard, the name that a rotate leaves and the previous GTIDs that the
next file begins with; where both are silent nothing is claimed. What files do not say is not made
up: a server that crashed leaves no name, one without GTIDs no set.
"""

import re
from typing import Final

from capstan.core.gtid import GtidSet

_NUMBERED: Final = re.compile(r"(.*)\.(\d+)", re.DOTALL)


class SequenceError(ValueError):
    """A file does not follow the one before it; the message holds names and counts."""


class FileSequence:
    """Follows a row of files, in the order in which they are read."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._next: str | None = None
        self._named = False
        self._executed: GtidSet | None = None

    def enter(self, name: str) -> None:
        """Begin a file.

        Args:
            name: Its name without folders.

        Raises:
            SequenceError: When the file before names another one, or has another number.
        """
        last, self._name = self._name, name
        self._named = self._next is not None
        if self._next is not None and self._next != name:
            raise SequenceError(f"{last} goes on in {self._next}")
        expected = None if last is None else successor(last)
        if not self._named and expected and _NUMBERED.fullmatch(name) and expected != name:
            raise SequenceError(f"{expected} would come behind {last}")
        self._next = None

    def previous_gtids(self, gtids: GtidSet) -> None:
        """Hear what the file says of those before it.

        Raises:
            SequenceError: When the file before has more; when this one has more and no rotate
                named it, so that files may be missing.
        """
        known = self._executed
        if known is not None and not known <= gtids:
            lost = (known - gtids).count()
            raise SequenceError(f"its previous GTIDs lack {lost} that are in the files before")
        if known is not None and not self._named and known != gtids:
            more = (gtids - known).count()
            raise SequenceError(f"its previous GTIDs have {more} that are in no file before")
        self._executed = gtids

    def leave(self, next_file: str | None, found: GtidSet) -> None:
        """End the file.

        Args:
            next_file: The name that its rotate leaves; None without one.
            found: The GTIDs of all files up to here.
        """
        self._next = None if next_file is None else next_file.rpartition("/")[2]
        if self._executed is not None:
            self._executed |= found


def successor(name: str) -> str | None:
    """The name of the file with the next number; None for a name without one."""
    match = _NUMBERED.fullmatch(name)
    if match is None:
        return None
    return f"{match[1]}.{int(match[2]) + 1:0{len(match[2])}}"
