"""A source in memory for the crash matrix: a history, a stream of it, and views of its one table.

House rules: transaction n is GTID n. What is committed grows with what the pipeline does, never
with time: the first dump brings some transactions, every view that is pinned brings two more behind
it. So each step of stream and backfill is taken more than once in a run, in the same order each
time. The first dial and the first pin break, so that what is said then is said as well. One table,
`shop.items`, with a number as its key.
"""

import threading
from collections.abc import Iterator
from typing import Any, Final

import attrs
from helpers import event_builder as events
from helpers.histories import gtid, up_to
from helpers.scripted_source import SERVER_UUID, facts_with

from capstan import GtidSet, Halt
from capstan.core.binlog.row_compiler import RowDecoder
from capstan.core.binlog.table_map import parse
from capstan.core.preflight import ServerFacts
from capstan.core.tables import TableName, TableShape
from capstan.sources.base import (
    Chunk,
    Link,
    LinkLost,
    Pinned,
    Source,
    TableFacts,
    View,
    ViewSource,
)

ITEMS: Final = TableName("shop", "items")
SHAPE: Final[TableShape] = RowDecoder(parse(events.table_map(80)[27:-4])).shape
CHUNK_SIZE: Final = 3
SEED: Final = 3
"""What was committed before the pipeline came."""
_FIRST_DUMP: Final = 6
_EACH_PIN: Final = 2
_CUT_AFTER: Final = 3
"""Pieces of the first dump, its opening among them."""
_LOST: Final = 2013

Write = tuple[str, int]
HISTORY: Final[tuple[Write | None, ...]] = (
    *(("insert", 1), ("insert", 2), ("insert", 3)),
    *(("insert", 4), ("update", 1), ("insert", 7)),
    *(None, ("update", 3)),
    *(("insert", 5), ("delete", 2)),
    *(("insert", 8), ("update", 4)),
    *(("update", 8), ("delete", 7)),
)
"""What each transaction does to one row; None is a statement that makes another table."""
LAST: Final = len(HISTORY)


def name(number: int, transaction: int) -> str:
    """What a row is called since a transaction."""
    return f"n{number} of {transaction}"


def rows_at(transaction: int) -> dict[int, str]:
    """The table as it is behind a transaction."""
    rows: dict[int, str] = {}
    for place, write in enumerate(HISTORY[:transaction], 1):
        match write:
            case ("delete", number):
                del rows[number]
            case (_, number):
                rows[number] = name(number, place)
    return rows


def group(transaction: int) -> list[bytes]:
    """The events of a transaction."""
    write = HISTORY[transaction - 1]
    if write is None:
        return [events.gtid(transaction), events.query(b"CREATE TABLE `other` (id int)")]
    kind, number = write
    before = (number, rows_at(transaction - 1).get(number))
    after = (number, name(number, transaction))
    code, images = {
        "insert": (30, [after]),
        "update": (31, [before, after]),
        "delete": (32, [before]),
    }[kind]
    return [
        events.gtid(transaction),
        events.query(b"BEGIN"),
        events.table_map(80),
        events.rows(code, 80, images),
        events.xid(transaction),
    ]


class World(Source, ViewSource):
    """The server.

    Args:
        committed: How many transactions there are already.
    """

    def __init__(self, committed: int = SEED) -> None:
        self.committed = committed
        self.more = threading.Condition()
        self.dumps = self.pins = 0

    def commit_up_to(self, transaction: int) -> None:
        """Writers go on up to a transaction, unless they are further."""
        with self.more:
            self.committed = max(self.committed, min(transaction, LAST))
            self.more.notify_all()

    def link(self) -> "WorldLink":
        """A link for one dial."""
        return WorldLink(self)

    def view(self) -> "WorldView":
        """A view, not yet open."""
        return WorldView(self)


class WorldLink(Link):
    """One dial: each transaction is a piece of its own."""

    tls = False

    def __init__(self, world: World) -> None:
        self._world = world
        self._pieces: int | None = None
        self._interrupted = False
        self._sequence = 1
        self._next = 0
        self._asked = GtidSet()

    def open(self) -> ServerFacts:
        """A good server."""
        return facts_with(gtid_executed=self.executed())

    def executed(self) -> GtidSet:
        """All that is committed."""
        return up_to(self._world.committed)

    def dump(self, gtid_set: GtidSet) -> None:
        """Writers go on as soon as somebody reads; the first dump breaks."""
        self._asked = gtid_set
        self._world.dumps += 1
        self._pieces = _CUT_AFTER if self._world.dumps == 1 else None
        self._world.commit_up_to(_FIRST_DUMP)

    def read(self, timeout: float) -> bytes | None:
        """The opening, then one transaction after another."""
        if self._pieces is not None:
            self._pieces -= 1
            if self._pieces < 0:
                raise LinkLost("read", _LOST)
        if not self._next:
            self._next = 1
            return self._packed(events.opening())
        with self._world.more:
            if not self._world.more.wait_for(lambda: self._found() or self._interrupted, timeout):
                return None
        if self._interrupted:
            return None
        self._next += 1
        return self._packed(group(self._next - 1))

    def _found(self) -> bool:
        while self._next <= LAST and gtid(self._next) in self._asked:
            self._next += 1
        return self._next <= self._world.committed

    def _packed(self, raws: list[bytes]) -> bytes:
        first, self._sequence = self._sequence, self._sequence + len(raws)
        return events.packets(raws, first & 0xFF)

    def close(self) -> None:
        """Nothing to close."""

    def interrupt(self) -> None:
        """Wake a read that waits."""
        with self._world.more:
            self._interrupted = True
            self._world.more.notify_all()


@attrs.define
class WorldView(View):
    """Views of the table, exact by construction."""

    _world: World
    _pinned: int = 0

    def open(self) -> str:
        """The one server."""
        return SERVER_UUID

    def tables(self) -> tuple[TableName, ...]:
        """The one table."""
        return (ITEMS,)

    def findings(self) -> tuple[Halt, ...]:
        """None."""
        return ()

    def describe(self, table: TableName) -> TableFacts:
        """The one shape."""
        return TableFacts(SHAPE)

    def estimate(self, table: TableName) -> int:
        """A guess."""
        return len(rows_at(self._world.committed))

    def purged(self) -> GtidSet:
        """Nothing."""
        return GtidSet()

    def pin(self, table: TableName) -> Pinned:
        """What is committed now; writers go on behind it. The first one breaks."""
        self._world.pins += 1
        if self._world.pins == 1:
            raise LinkLost("query", _LOST)
        self._pinned = self._world.committed
        self._world.commit_up_to(self._pinned + _EACH_PIN)
        return Pinned(facts=TableFacts(SHAPE), position=up_to(self._pinned), lock_seconds=0.0)

    def rows(self, after: tuple[Any, ...] | None, limit: int, max_bytes: int) -> Chunk:
        """A portion of the rows."""
        found = list(self._behind(after))
        return Chunk(rows=found[:limit], more=len(found) > limit, size=1)

    def _behind(self, after: tuple[Any, ...] | None) -> Iterator[tuple[Any, ...]]:
        for row in sorted(rows_at(self._pinned).items()):
            if after is None or row[:1] > after:
                yield row

    def release(self) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Nothing to close."""

    def interrupt(self) -> None:
        """Nothing blocks."""
