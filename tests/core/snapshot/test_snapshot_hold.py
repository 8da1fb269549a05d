"""What the backfill's desk holds up, lets through and refuses."""

import pytest
from helpers.backfill_table import HERE, OTHER, PATTERNS, SHAPES, THERE, DeskTable, T, U, changing
from helpers.changes_builder import (
    group,
    gtid,
    inserted,
    schema_change,
    transaction,
    up_to,
    updated,
)

from capstan.core.halts import Halted
from capstan.core.snapshot.orders import GrantPin
from capstan.core.snapshot.snapshot_desk import SnapshotDesk

SECRET = 987654321


# -- what is held ----------------------------------------------------------------------------------


def test_nothing_is_held_until_a_pin_is_granted() -> None:
    """R61, D6: asking alone stops nobody."""
    table = DeskTable()
    assert not table.desk.holds(changing(1, SHAPES[T]))
    table.desk.pin_asked(2, table.wanted().ticket, HERE)
    assert not table.desk.holds(changing(1, SHAPES[T]))
    table.pump()
    assert table.orders[-1] == GrantPin(table.wanted().ticket, T)
    assert table.desk.holds(changing(1, SHAPES[T]))


def test_while_a_view_is_pinned_all_changes_of_its_table_wait() -> None:
    """D6: and a DDL of it; other tables go on."""
    table = DeskTable()
    table.ask_pin()
    assert table.desk.holds(changing(1, SHAPES[T]))
    assert table.desk.holds(group(schema_change(1, "truncate_table", "shop.t")))
    assert table.desk.holds(group(schema_change(1, "other")))
    assert not table.desk.holds(changing(1, SHAPES[U]))
    assert not table.desk.holds(transaction(1))
    assert not table.desk.holds(group(schema_change(1, "alter_table", "shop.o")))


def test_a_pinned_view_holds_what_is_outside_of_its_position() -> None:
    """R111, D6: until its chunk is emitted; what is inside goes on, before and behind others."""
    table = DeskTable()
    table.read(5, 1, final=True)
    inside, outside = changing(5, SHAPES[T]), changing(6, SHAPES[T])
    assert not table.desk.holds(inside)
    assert table.desk.holds(outside)
    assert not table.desk.holds(changing(6, SHAPES[U]))
    table.emit(5)
    assert not table.desk.holds(outside)


def test_while_the_next_view_is_pinned_the_earlier_position_goes_on() -> None:
    """D6: inside the G of a chunk in the gate is inside every later one."""
    table = DeskTable()
    table.read(5, 1)
    table.ask_pin()
    assert not table.desk.holds(changing(5, SHAPES[T]))
    assert table.desk.holds(changing(6, SHAPES[T]))
    table.desk.view_pinned(2, table.wanted().ticket, up_to(7))
    assert table.desk.holds(changing(6, SHAPES[T]))
    table.emit(5)
    assert not table.desk.holds(changing(7, SHAPES[T]))
    assert table.desk.holds(changing(8, SHAPES[T]))


@pytest.mark.parametrize("pinned", [False, True])
def test_a_missed_pin_holds_nothing(pinned: bool) -> None:
    """R87, D2: neither when the lock was not had nor when the view was lost later."""
    table = DeskTable()
    want = table.pin(5) if pinned else table.ask_pin()
    table.desk.pin_missed(2, want.ticket)
    assert not table.desk.holds(changing(9, SHAPES[T]))
    table.read(7, 1)
    assert table.emit(7).meta.position == up_to(7)


def test_a_new_reader_ends_the_hold_of_the_old_one() -> None:
    """D6: what had not been read is lost with it; what had been read still counts."""
    table = DeskTable()
    table.read(5, 1)
    table.pin(9)
    table.desk.reader_ready(3)
    assert table.desk.holds(changing(6, SHAPES[T]))
    table.pump()
    assert table.wanted().after == (1,)
    assert table.emit(5).meta.position == up_to(5)
    assert not table.desk.holds(changing(10, SHAPES[T]))


def test_what_an_older_reader_says_is_dropped() -> None:
    """R266: another incarnation, or another ticket, moves nothing."""
    table = DeskTable()
    want = table.pin(5)
    ticket = want.ticket
    table.desk.reader_ready(1)
    for incarnation, number in ((1, ticket), (3, ticket), (2, ticket - 1), (2, ticket + 1)):
        table.desk.pin_asked(incarnation, number, THERE)
        table.desk.view_pinned(incarnation, number, up_to(99))
        table.desk.pin_missed(incarnation, number)
        table.desk.chunk_read(incarnation, number, SHAPES[T], [(8, 0)], final=True)
    table.pump()
    assert table.desk.holds(changing(6, SHAPES[T]))
    table.desk.chunk_read(2, ticket, SHAPES[T], [(1, 0)], final=True)
    assert table.emit(5).meta.position == up_to(5)


def test_rows_without_a_view_are_dropped() -> None:
    """R59, D3: a capture that was missed in between has no position."""
    table = DeskTable()
    want = table.pin(5)
    table.desk.pin_missed(2, want.ticket)
    table.desk.chunk_read(2, want.ticket, SHAPES[T], [(1, 0)], final=True)
    table.processed = up_to(9)
    table.pump()
    assert table.emitted() == []


# -- what is let through ---------------------------------------------------------------------------


def test_the_gate_follows_what_is_on_disk() -> None:
    """R90-R94, R96, R97: before, between and after; GTID and position stay, suppressed counted."""
    table = DeskTable()
    seen = table.desk.judged(changing(3, SHAPES[T], 1))
    assert (seen.gtid, len(seen.changes), table.desk.suppressed) == (gtid(3), 0, 1)
    table.read(3, 1, 2)
    table.emit(3)
    both = transaction(4, inserted(SHAPES[T], (2, 0), (3, 0)), inserted(OTHER, (3,)))
    seen = table.desk.judged(both)
    assert [change.key for change in seen.changes] == [(2,), (3,)]
    assert (seen.gtid, seen.position, table.desk.suppressed) == (gtid(4), up_to(4), 2)
    table.read(4, 3, final=True)
    table.emit(4)
    whole = transaction(5, updated(SHAPES[T], ((3, 0), (9, 0))))
    assert table.desk.judged(whole) is whole
    assert len(table.desk.judged(changing(6, SHAPES[U])).changes) == 0


def test_marks_are_those_of_the_moment_of_judgement() -> None:
    """R97: what was judged stays so while the cursor moves on."""
    table = DeskTable()
    seen = table.desk.judged(changing(1, SHAPES[T], 1))
    table.read(1, 1)
    table.emit(1)
    assert len(seen.changes) == 0


# -- schema changes --------------------------------------------------------------------------------


def drifts(table: DeskTable, number: int, kind: str = "alter_table", name: str = "shop.t") -> bool:
    """Whether the desk refuses it, with nothing but names in the halt."""
    seen = ""
    try:
        table.desk.judged(group(schema_change(number, kind, name)))  # type: ignore[arg-type]
    except Halted as verdict:
        seen = str(verdict)
    assert seen in ("", f"snapshot_schema_drifted: shop.t: {kind} under {gtid(number)}")
    return bool(seen)


def test_a_ddl_before_any_capture_passes() -> None:
    """D9: the backfill shows the table as it is afterwards."""
    assert not drifts(DeskTable(), 3)


def test_a_ddl_inside_the_first_position_passes_and_one_outside_halts() -> None:
    """D9: whether the first chunk is still in the gate or long emitted."""
    table = DeskTable()
    table.read(5, 1)
    assert not drifts(table, 5)
    assert drifts(table, 6)
    table.emit(5)
    table.read(8, 2)
    assert not drifts(table, 5)
    assert drifts(table, 7, "truncate_table")
    assert not drifts(table, 7, name="shop.o")
    assert not drifts(table, 7, name="shop.u")


def test_a_ddl_of_a_complete_table_passes() -> None:
    """D9: it is the sink's business then, also when it was held until the last chunk was in."""
    table = DeskTable()
    table.read(5, 1, final=True)
    ddl = group(schema_change(6, "alter_table", "shop.t"))
    assert table.desk.holds(ddl)
    table.emit(5)
    assert not table.desk.holds(ddl)
    assert table.desk.judged(ddl) is ddl


def test_a_ddl_passes_once_its_table_is_done_again() -> None:
    """D9: the remedy of `snapshot_schema_drifted` does not meet the same halt again."""
    table = DeskTable()
    table.read(5, 1)
    table.emit(5)
    assert drifts(table, 6)
    table.desk.redo(T)
    table.pump()
    assert not drifts(table, 6)
    table.read(6, 1)
    assert not drifts(table, 6)
    assert drifts(table, 7)


def test_a_first_chunk_that_was_lost_does_not_count() -> None:
    """D8, D9: it comes again as the first one and empties what the lost one brought."""
    table = DeskTable()
    table.read(5, 1)
    table.processed = up_to(5)
    table.pump()
    again = SnapshotDesk(PATTERNS, table.saved[-1])
    ddl = group(schema_change(6, "alter_table", "shop.t"))
    assert again.judged(ddl) is ddl
