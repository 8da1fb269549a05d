"""Views of a real server that lie or fail in one way: for faults a server does not produce."""

from typing import Any

from capstan import GtidSet, Halt
from capstan.core.tables import TableName
from capstan.sources.base import Chunk, Pinned, TableFacts, View, ViewSource


class Altered(View):
    """A real view behind it; a subclass changes one answer.

    Attributes:
        inner: The real one.
        number: Which view of its source this is, from 1.
    """

    def __init__(self, inner: View, number: int) -> None:
        self.inner = inner
        self.number = number

    def open(self) -> str:
        """As the real one."""
        return self.inner.open()

    def tables(self) -> tuple[TableName, ...]:
        """As the real one."""
        return self.inner.tables()

    def findings(self) -> tuple[Halt, ...]:
        """As the real one."""
        return self.inner.findings()

    def describe(self, table: TableName) -> TableFacts:
        """As the real one."""
        return self.inner.describe(table)

    def estimate(self, table: TableName) -> int:
        """As the real one."""
        return self.inner.estimate(table)

    def purged(self) -> GtidSet:
        """As the real one."""
        return self.inner.purged()

    def pin(self, table: TableName) -> Pinned:
        """As the real one."""
        return self.inner.pin(table)

    def rows(self, after: tuple[Any, ...] | None, limit: int, max_bytes: int) -> Chunk:
        """As the real one."""
        return self.inner.rows(after, limit, max_bytes)

    def release(self) -> None:
        """As the real one."""
        self.inner.release()

    def close(self) -> None:
        """As the real one."""
        self.inner.close()

    def interrupt(self) -> None:
        """As the real one."""
        self.inner.interrupt()


class AlteredSource(ViewSource):
    """Makes altered views.

    Attributes:
        made: How many so far.
    """

    def __init__(self, inner: ViewSource, kind: type[Altered]) -> None:
        self._inner = inner
        self._kind = kind
        self.made = 0

    def view(self) -> View:
        """The next one."""
        self.made += 1
        return self._kind(self._inner.view(), self.made)
