"""The delivery desk with a gate before it: what waits, what is judged, in which order."""

from collections.abc import Callable

import attrs
import pytest
from helpers import event_builder as events
from helpers.backfill_table import DeskTable, T
from helpers.changes_builder import created, inserted, shape, transaction, up_to
from helpers.spools import MemorySpool
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.changes import ChunkedChanges, Item, SchemaChangeGroup, Transaction
from capstan.core.delivery import Batch, Desk, Piece
from capstan.core.gtid import GtidSet
from capstan.core.halts import Halted, HaltReason, halted
from capstan.core.snapshot.ddl_reach import touches
from capstan.core.spooling import SpoolWriter
from capstan.core.watermark import Position

SERVER = "server-a"
ITEMS = shape("shop.items", "id int", key=["id"])


class Gate:
    """Holds what it is told to hold, suppresses what it is told to.

    Attributes:
        asked: What `holds` was asked about.
        held: Numbers that wait.
        suppressed: Numbers of which nothing passes.
        halves: Numbers of which only the first chunk passes.
        refused: Numbers that halt.
    """

    def __init__(self) -> None:
        self.active = True
        self.asked: list[int] = []
        self.held: set[int] = set()
        self.suppressed: set[int] = set()
        self.halves: set[int] = set()
        self.refused: set[int] = set()

    def holds(self, item: Item) -> bool:
        self.asked.append(item.gtid.number)
        return item.gtid.number in self.held

    def judged(self, item: Item) -> Item:
        number = item.gtid.number
        if number in self.refused:
            raise halted(HaltReason.SNAPSHOT_SCHEMA_DRIFTED, "shop.items")
        if isinstance(item, SchemaChangeGroup):
            return item
        if number in self.suppressed:
            return attrs.evolve(item, changes=ChunkedChanges([]))
        if number in self.halves:
            return attrs.evolve(item, changes=ChunkedChanges(item.changes.chunks[:1]))
        return item


def rows(number: int) -> Transaction:
    return transaction(number, inserted(ITEMS, (number,)), inserted(ITEMS, (-number,)))


def desk_with(gate: Gate, *items: Item, processed: int = 0, max_batch: int = 10) -> Desk[str]:
    """A desk at which these items arrived, each as a piece of its own."""
    desk: Desk[str] = Desk(Position(watermark=up_to(processed)), max_batch, gate)
    for item in items:
        desk.arrive(Piece([item], SERVER, f"sender {item.gtid.number}"))
    return desk


def settle(desk: Desk[str], batch: Batch) -> list[str]:
    """The batch is accepted and on disk."""
    desk.accepted(len(batch.entries))
    return desk.settled()


def numbers(batch: Batch | None) -> list[int]:
    return [] if batch is None else [item.gtid.number for item in batch.entries]


def calls(batch: Batch) -> list[int]:
    return [item.gtid.number for _, item in batch.calls]


def test_a_gate_with_nothing_to_do_is_not_asked() -> None:
    """R138: without a backfill under way the desk does what it does without any gate."""
    gate = Gate()
    gate.active = False
    gate.held = gate.refused = {1, 2}
    assert numbers(desk_with(gate, rows(1), created(2, "shop.items")).next_batch()) == [1, 2]
    assert gate.asked == []


def test_an_item_that_is_held_keeps_all_behind_it() -> None:
    """R111, D6: what stands before it is delivered; the order of the stream stays."""
    gate = Gate()
    gate.held = {2}
    desk = desk_with(gate, rows(1), rows(2), rows(3))
    batch = desk.next_batch()
    assert batch is not None
    assert numbers(batch) == [1]
    assert settle(desk, batch) == ["sender 1"]
    assert (desk.next_batch(), desk.resting, desk.idle) == (None, True, False)
    assert desk.front is not None
    assert desk.front.gtid.number == 2
    gate.held = set()
    assert numbers(desk.next_batch()) == [2, 3]


def test_what_is_processed_already_is_never_held() -> None:
    """R39, R136, D6: a duplicate moves nothing, so there is nothing to wait for."""
    gate = Gate()
    gate.held = {1, 2}
    desk = desk_with(gate, rows(1), rows(2), rows(3), processed=2)
    batch = desk.next_batch()
    assert batch is not None
    assert (numbers(batch), batch.skipped, gate.asked) == ([3], 2, [3])


def test_a_suppressed_transaction_only_advances() -> None:
    """R96: the sink is not called, the watermark moves."""
    gate = Gate()
    gate.suppressed = {1}
    desk = desk_with(gate, rows(1))
    batch = desk.next_batch()
    assert batch is not None
    assert (numbers(batch), calls(batch)) == ([1], [])
    position = desk.accepted(1)
    assert position is not None
    assert position.watermark == up_to(1)


def test_what_is_left_of_a_transaction_keeps_its_name() -> None:
    """R97: the survivors, once, under the transaction's own GTID and position."""
    gate = Gate()
    gate.halves = {1}
    whole = rows(1)
    batch = desk_with(gate, whole).next_batch()
    assert batch is not None
    ((place, seen),) = batch.calls
    assert isinstance(seen, Transaction)
    assert (place, seen.gtid, seen.position) == (0, whole.gtid, whole.position)
    assert [change.values for change in seen.changes] == [(1,)]


def test_a_schema_change_begins_a_batch() -> None:
    """D9: it may halt, and what stands before it is on disk by then."""
    gate = Gate()
    gate.refused = {2}
    desk = desk_with(gate, rows(1), created(2, "shop.items"), rows(3))
    batch = desk.next_batch()
    assert batch is not None
    assert numbers(batch) == [1]
    settle(desk, batch)
    with pytest.raises(Halted) as caught:
        desk.next_batch()
    assert caught.value.halt.reason is HaltReason.SNAPSHOT_SCHEMA_DRIFTED
    assert desk.watermark == up_to(1)


def test_a_schema_change_that_passes_takes_others_along() -> None:
    """R135: nothing else is special about it."""
    desk = desk_with(Gate(), created(1, "shop.items"), rows(2), created(3, "shop.items"))
    batch = desk.next_batch()
    assert batch is not None
    assert calls(batch) == [1, 2]
    settle(desk, batch)
    assert numbers(desk.next_batch()) == [3]


KINDS: list[Callable[[int], Item]] = [rows, transaction, lambda n: created(n, "shop.items")]


@given(
    kinds=st.lists(st.sampled_from(KINDS), max_size=12),
    held=st.lists(st.sets(st.integers(1, 12)), max_size=5),
    suppressed=st.sets(st.integers(1, 12)),
    max_batch=st.integers(1, 4),
)
def test_whatever_is_held_comes_once_and_in_order(
    kinds: list[Callable[[int], Item]],
    held: list[set[int]],
    suppressed: set[int],
    max_batch: int,
) -> None:
    """R36, R96, R111, D6: holding changes the time, never the order; all credit comes back."""
    gate = Gate()
    gate.suppressed = suppressed
    items = [kind(number) for number, kind in enumerate(kinds, 1)]
    desk = desk_with(gate, *items, max_batch=max_batch)
    delivered: list[int] = []
    credit: list[str] = []
    for waiting in [*held, set()]:
        gate.held = waiting
        while (batch := desk.next_batch()) is not None:
            assert len(batch.entries) <= max_batch
            assert not waiting & set(numbers(batch))
            delivered += calls(batch)
            credit += settle(desk, batch)
    expected = [
        item.gtid.number
        for item in items
        if isinstance(item, SchemaChangeGroup)
        or (item.changes and item.gtid.number not in suppressed)
    ]
    assert delivered == expected
    assert credit == [f"sender {number}" for number in range(1, len(items) + 1)]
    assert (desk.idle, desk.watermark) == (True, up_to(len(items)))


def test_nothing_is_ordered_by_a_cursor_that_is_about_to_go() -> None:
    """D8: a table that is put back is read from its beginning, however long the write takes."""
    table = DeskTable()
    table.read(5, 1, 2)
    table.emit(5)
    table.orders.clear()
    desk = table.desk
    desk.redo(T)
    order = desk.next_order(GtidSet(), settled=True)
    while order is not None:
        table.orders.append(order)
        order = desk.next_order(GtidSet(), settled=True)
    assert desk.state is not None
    desk.state_saved(desk.state.redone(T))
    table.orders.clear()
    table.pump()
    want = table.wanted()
    assert (want.table, want.after) == (T, None)


def test_what_waits_on_disk_is_asked_for_its_tables_alone() -> None:
    """D6, D25: a held transaction of any size is looked at again and again, and never read."""
    spool = MemorySpool()
    writer = SpoolWriter(spool, 1)
    writer.add(30, events.table_map(80)[27:-4], events.rows(30, 80, [(1, "a")])[27:-4], 1)
    changes = writer.finish([inserted(SHAPE_OF_U, (1, 0))])
    item = attrs.evolve(transaction(1), changes=changes)

    found = {name: touches(item, "shop", name) for name in ("items", "u", "t")}
    assert found == {"items": True, "u": True, "t": False}
    assert spool.reads == []


SHAPE_OF_U = shape("shop.u", "id int", "v int", key=("id",))
