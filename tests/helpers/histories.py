"""A source with a fixed history, and sinks that remember: for tests of what is delivered, and when.

House rules: transaction n of a history is GTID n of one source uuid. A dump gives what was not
asked for, one transaction a piece, as a server would, so that a test of crashes and cuts only has
to say where they happen.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from capstan import Config, Delivery, MemoryStore, SchemaChange, Source, Store, Transaction
from capstan.core.changes import Item
from capstan.core.gtid import Gtid, GtidSet
from capstan.core.preflight import ServerFacts
from capstan.sinks.base import Sink
from helpers import event_builder as events
from helpers.scripted_source import GOOD_FACTS, ScriptedSource, cut, one_by_one

Group = list[bytes]


def up_to(number: int) -> GtidSet:
    """Everything from 1 to `number`; empty for 0."""
    return GtidSet({(events.SOURCE, ""): ((1, number + 1),)}) if number else GtidSet()


def gtid(number: int) -> Gtid:
    """Transaction `number`."""
    return Gtid(events.SOURCE, "", number)


def insert(number: int) -> Group:
    """One captured row."""
    return events.insert(number, number)


def filtered(number: int) -> Group:
    """One row of a table outside `shop`."""
    return [
        events.gtid(number),
        events.query(b"BEGIN"),
        events.table_map(81, schema=b"other"),
        events.rows(30, 81, [(number, None)]),
        events.xid(number),
    ]


def empty(number: int) -> Group:
    """BEGIN, COMMIT."""
    return [events.gtid(number), events.query(b"BEGIN"), events.query(b"COMMIT")]


def ddl(number: int) -> Group:
    """A self-committing statement on a captured table."""
    return [events.gtid(number), events.query(b"ALTER TABLE `items` ADD INDEX (name)")]


def create_select(number: int) -> Group:
    """CREATE TABLE … SELECT: a schema change and rows under one GTID."""
    head, begin, *rows = insert(number)
    return [head, begin, events.query(b"CREATE TABLE `items` (id int) START TRANSACTION"), *rows]


class HistorySource(ScriptedSource):
    """Plays a history: each dial gives what its dump did not exclude.

    Args:
        history: Transaction n is its n-th group, from 1.
        cuts: Pieces after which each successive dial breaks, the opening being the first; dials
            beyond them stay.
        facts: What the server says of itself.
    """

    def __init__(
        self, history: Sequence[Group], cuts: Iterable[int] = (), facts: ServerFacts = GOOD_FACTS
    ) -> None:
        super().__init__(self._play, facts)
        self.history = list(history)
        self._cuts = iter(cuts)

    def _play(self, _: int) -> Iterator[bytes | Exception]:
        pieces_left = next(self._cuts, None)
        asked = self.asked[-1]
        groups = (g for n, g in enumerate(self.history, 1) if gtid(n) not in asked)
        for place, piece in enumerate(one_by_one(groups)):
            if place == pieces_left:
                yield cut()
            yield piece


class Keeping(Sink):
    """Remembers what it is given; comes a second time after a crash.

    Attributes:
        numbers: Transactions, in order of delivery.
        schema_changes: Numbers of the schema changes, likewise.
        calls: Numbers of each call that handed something over.
        gate: Closed by a test, it holds every call.
        entered: Set by the first call.
    """

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.schema_changes: list[int] = []
        self.calls: list[list[int]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def handle_transaction(self, transaction: Transaction) -> None:
        self._pass()
        self.numbers.append(transaction.gtid.number)
        self.calls.append([transaction.gtid.number])

    def handle_schema_change(self, change: SchemaChange) -> None:
        self._pass()
        self.schema_changes.append(change.gtid.number)
        self.calls.append([change.gtid.number])

    def _pass(self) -> None:
        self.entered.set()
        assert self.gate.wait(60)


class Positioned(Keeping):
    """Keeps its position with what it keeps, batch by batch, as a database would."""

    def __init__(self) -> None:
        super().__init__()
        self.processed = GtidSet()

    def handle_batch(self, items: Sequence[Item]) -> None:
        self._pass()
        numbers = [item.gtid.number for item in items]
        assert not any(item.gtid in self.processed for item in items), "came twice"
        self.calls.append(numbers)
        for item in items:
            if isinstance(item, Transaction):
                self.numbers.append(item.gtid.number)
                self.processed |= item.position
            else:
                self.schema_changes.append(item.gtid.number)
                self.processed |= item.changes[-1].position

    def position(self) -> GtidSet:
        return self.processed


def configured(
    sink: Sink,
    *,
    store: Store | None = None,
    attempts: int = 3,
    max_batch: int = 1000,
    sink_timeout: float = 300.0,
    observers: Sequence[Callable[[Any], None]] = (),
    **source: Any,
) -> Config:
    """A configuration for a scripted source: captures `shop.*`."""
    return Config(
        source=Source(user="u", server_id=9, reconnect_attempts=attempts, **source),
        tables=["shop.*"],
        sink=sink,
        store=store or MemoryStore(),
        delivery=Delivery(max_batch=max_batch, sink_timeout=sink_timeout),
        observers=observers,
    )
