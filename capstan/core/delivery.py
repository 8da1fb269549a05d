"""The judgement behind the coordinator: what is delivered, what advances, when a batch is full.

House rules: items are taken in stream order. One batch is out at a time: the next is formed only
when the watermark of the one before is on disk (D15), so that the duplicate window after a crash is
one batch. An item already processed is passed over in silence (R39); a transaction without changes
advances without the sink (R32-R35). Nothing here calls a sink, a store or a clock.
"""

from collections import deque
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import attrs

from capstan.core.changes import Item, SchemaChangeGroup, Transaction
from capstan.core.gtid import GtidAccumulator, GtidSet
from capstan.core.spooling import SpooledChanges
from capstan.core.watermark import Anchor, Position

Sender = TypeVar("Sender")


class Gate(Protocol):
    """What a backfill has to say about the stream; see `core.snapshot.snapshot_desk`."""

    @property
    def active(self) -> bool:
        """Whether anything is to be asked at all."""

    def holds(self, item: Item) -> bool:
        """Whether the item, and all behind it, has to wait for a chunk (D6)."""

    def judged(self, item: Item) -> Item:
        """The item as the sink may see it.

        Raises:
            Halted: `snapshot_schema_drifted` (D9), only ever for a schema change.
        """


@attrs.frozen(repr=False, eq=False)
class Piece(Generic[Sender]):
    """Finished items of one piece of the stream.

    Attributes:
        items: In stream order, at least one.
        server_uuid: The server they were read from.
        sender: Who gets the credit back.
    """

    items: Sequence[Item]
    server_uuid: str
    sender: Sender


@attrs.frozen(repr=False, eq=False)
class Batch:
    """What is settled together.

    Attributes:
        entries: All items, delivered or not, in stream order.
        calls: Those that the sink gets, with their places in `entries`.
        server_uuid: The server they were read from.
        skipped: How many items were already processed.
        spooled: The changes among `calls` that have to be let go after the sink's call.
    """

    entries: tuple[Item, ...]
    calls: tuple[tuple[int, Item], ...]
    server_uuid: str
    skipped: int
    spooled: tuple[SpooledChanges, ...] = ()


class Desk(Generic[Sender]):
    """Queue, processed set and the one batch that is out.

    Args:
        start: The position that the store holds.
        max_batch: Items settled together at most.
        gate: A backfill that runs while the stream goes on.
    """

    def __init__(self, start: Position, max_batch: int, gate: Gate | None = None) -> None:
        self._settled = start.watermark
        self._taken = GtidAccumulator(start.watermark)
        self._max_batch = max_batch
        self._gate = gate
        self._queue: deque[Piece[Sender]] = deque()
        self._place = 0
        self._finished: list[Sender] = []
        self._out: Batch | None = None

    @property
    def idle(self) -> bool:
        """True when nothing is queued and nothing is out."""
        return not self._queue and self.resting

    @property
    def resting(self) -> bool:
        """True when nothing is out; what is queued then is held by the gate."""
        return self._out is None and not self._finished

    @property
    def front(self) -> Item | None:
        """The item that comes next; None when nothing is queued."""
        return self._queue[0].items[self._place] if self._queue else None

    def arrive(self, piece: Piece[Sender]) -> None:
        """Queue finished items."""
        self._queue.append(piece)

    def next_batch(self) -> Batch | None:
        """Form the next batch; None while one is out, nothing is queued or the gate holds.

        Raises:
            Halted: What the gate refuses; everything in front of it is settled by then.
        """
        if self._out is not None or not self._queue:
            return None
        server_uuid = self._queue[0].server_uuid
        gate = None if self._gate is None or not self._gate.active else self._gate
        taken = self._take(server_uuid) if gate is None else self._take_gated(server_uuid, gate)
        if not taken:
            return None
        entries: list[Item] = []
        calls: list[tuple[int, Item]] = []
        spooled: list[SpooledChanges] = []
        skipped = 0
        for item in taken:
            if isinstance(item, Transaction):
                uuid, tag, number, _commit, _arrived = item.committed
                if not self._taken.add(uuid, tag, number):
                    skipped += 1
                    continue
                changes = item.changes
                if changes:
                    seen = item if gate is None else _seen(item, gate)
                    if seen.changes:
                        calls.append((len(entries), seen))
                    if changes.spooled:
                        assert isinstance(changes, SpooledChanges)
                        spooled.append(changes)
            else:
                if not self._is_new(item):
                    skipped += 1
                    continue
                if gate is not None:
                    gate.judged(item)
                concerned = _concerned(item)
                if concerned is not None:
                    calls.append((len(entries), concerned))
            entries.append(item)
        self._out = Batch(tuple(entries), tuple(calls), server_uuid, skipped, tuple(spooled))
        return self._out

    def _is_new(self, group: SchemaChangeGroup) -> bool:
        if group.rows_follow:
            return group.gtid not in self._taken.freeze()
        return self._taken.add(group.gtid.uuid, group.gtid.tag, group.gtid.number)

    def _take(self, server_uuid: str) -> list[Item]:
        """Up to `max_batch` items from the front of the queue, all from one server."""
        taken: list[Item] = []
        while self._queue and self._queue[0].server_uuid == server_uuid:
            items = self._queue[0].items
            room = self._max_batch - len(taken)
            part = items[self._place : self._place + room]
            taken.extend(part)
            self._place += len(part)
            if self._place < len(items):
                break
            self._finished.append(self._queue.popleft().sender)
            self._place = 0
        return taken

    def _take_gated(self, server_uuid: str, gate: Gate) -> list[Item]:
        """Take no further than the gate lets; a schema change only comes first (it may halt)."""
        taken: list[Item] = []
        while self._queue and self._queue[0].server_uuid == server_uuid:
            items = self._queue[0].items
            item = items[self._place]
            held = item.gtid not in self._settled and gate.holds(item)
            if held or (taken and isinstance(item, SchemaChangeGroup)):
                break
            taken.append(item)
            self._place += 1
            if self._place == len(items):
                self._finished.append(self._queue.popleft().sender)
                self._place = 0
            if len(taken) == self._max_batch:
                break
        return taken

    def accepted(self, count: int) -> Position | None:
        """The position after the first `count` entries of the batch that is out.

        Returns:
            None when they move nothing: the batch is settled without a write.
        """
        assert self._out is not None
        accepted = self._out.entries[:count]
        last = next((item for item in reversed(accepted) if _moves(item)), None)
        if last is None:
            return None
        if count == len(self._out.entries):
            self._settled = self._taken.freeze()
        else:
            self._settled = self._settled.add_all(item.gtid for item in accepted if _moves(item))
        anchor = Anchor(
            gtid=last.gtid,
            commit_micros=last.committed.commit_micros,
            arrived_micros=last.committed.arrived_micros,
            server_uuid=self._out.server_uuid,
        )
        return Position(watermark=self._settled, anchor=anchor)

    def settled(self) -> list[Sender]:
        """The batch is over: whom to give credit back, once for each finished piece."""
        self._out = None
        finished, self._finished = self._finished, []
        return finished

    @property
    def watermark(self) -> GtidSet:
        """Everything accepted so far."""
        return self._settled


def _seen(transaction: Transaction, gate: Gate) -> Transaction:
    """What the sink gets to see of it."""
    judged = gate.judged(transaction)
    assert isinstance(judged, Transaction)
    return judged


def _moves(item: Item) -> bool:
    """Whether the item moves the watermark (D20: of a statement with rows, only the rows do)."""
    return isinstance(item, Transaction) or not item.rows_follow


def _concerned(group: SchemaChangeGroup) -> SchemaChangeGroup | None:
    """The part of a group that the sink gets (D20); None when it only advances."""
    concerned = tuple(c for c in group.changes if c.captured or c.new_captured)
    if not concerned:
        return None
    return group if len(concerned) == len(group.changes) else attrs.evolve(group, changes=concerned)
