"""What the backfill's desk orders, and in which order."""

import pytest
from helpers.backfill_table import HERE, OTHER, PATTERNS, SHAPES, THERE, DeskTable, T, U, changing
from helpers.changes_builder import (
    shape,
    up_to,
)

from capstan.core.changes import Op
from capstan.core.gtid import GtidSet
from capstan.core.halts import Halt, Halted, HaltReason
from capstan.core.snapshot.chunk_capture import gate_verdict
from capstan.core.snapshot.orders import EmitChunk, GrantPin, SaveState, WantChunk, WantTables
from capstan.core.snapshot.progress import resolved
from capstan.core.snapshot.snapshot_desk import SnapshotDesk
from capstan.core.tables import TableName

SECRET = 987654321


# -- the start -------------------------------------------------------------------------------------


def test_tables_are_resolved_and_saved_before_anything_else() -> None:
    """D11: the reader is asked once, and the stream waits until the names are on disk."""
    table = DeskTable(["shop.*"], resolves=False)
    table.pump()
    assert table.orders == [WantTables(("shop.*",))]
    assert table.desk.exclusive
    assert table.desk.holds(changing(1, OTHER))
    table.desk.tables_resolved(1, HERE, [U, T])
    table.pump()
    assert table.saved == [resolved(["shop.*"], [T, U])]
    assert table.orders[1:] == [WantChunk(ticket=1, table=T, key_columns=(), after=None)]
    assert not table.desk.exclusive
    assert not table.desk.holds(changing(1, OTHER))


def test_a_new_reader_is_asked_for_the_tables_again() -> None:
    """D11: the first one died with the question; what it answers later is dropped."""
    table = DeskTable(resolves=False)
    table.pump()
    table.desk.reader_ready(2)
    table.pump()
    assert table.orders == [WantTables(PATTERNS)] * 2
    table.desk.tables_resolved(1, HERE, [T])
    table.pump()
    assert table.saved == []


def test_another_list_than_the_stored_one_is_refused_at_once() -> None:
    """R159, R160, R161, R163: before anything is asked for; without a state all begins anew."""
    with pytest.raises(Halted, match=r"^snapshot_config_drifted: added: shop\.v; removed: none$"):
        SnapshotDesk([*PATTERNS, "shop.v"], resolved(PATTERNS, [T, U]))
    assert SnapshotDesk(["shop.v"], None).active


def test_a_complete_state_asks_for_nothing() -> None:
    """R131: no chunk is ever wanted again."""
    table = DeskTable()
    for keys in ([1], []):
        table.read(0, *keys, final=True)
        table.emit(0)
    done = SnapshotDesk(PATTERNS, table.desk.state)
    done.stream_on(THERE)
    done.reader_ready(1)
    assert not done.active
    assert done.next_order(up_to(9), settled=True) is None


def test_a_restart_goes_on_behind_the_cursor() -> None:
    """R130: what was not emitted is read again, nothing before it."""
    table = DeskTable()
    table.read(0, 1, 2)
    table.emit(0)
    table.read(0, 3, 4)
    again = SnapshotDesk(PATTERNS, table.desk.state)
    again.stream_on(HERE)
    again.reader_ready(1)
    order = again.next_order(GtidSet(), settled=True)
    assert order == WantChunk(ticket=1, table=T, key_columns=("id",), after=(2,))


# -- chunks ----------------------------------------------------------------------------------------


def test_a_chunk_goes_out_in_three_steps() -> None:
    """R104-R107, R114-R116, R123, R124: mark on disk, the sink, cursor on disk; nothing between."""
    table = DeskTable()
    table.read(5, 1, 2)
    table.processed = up_to(4)
    table.pump()
    assert table.emitted() == []
    assert table.saved == []
    table.processed = up_to(5)
    table.pump(settled=False)
    assert table.saved == []
    table.pump()
    (marked,) = table.saved
    assert (marked.tables[0].delivered, marked.tables[0].cursor) == ((2,), None)
    (chunk,) = table.emitted()
    assert type(chunk.changes) is list
    assert [(c.op, c.key, c.shape) for c in chunk.changes] == [
        (Op.SNAPSHOT, (1,), SHAPES[T]),
        (Op.SNAPSHOT, (2,), SHAPES[T]),
    ]
    meta = chunk.meta
    assert (meta.schema, meta.table, meta.sequence, meta.final) == ("shop", "t", 0, False)
    assert meta.position == up_to(5)
    assert table.desk.exclusive
    table.desk.chunk_emitted()
    table.pump()
    assert (table.saved[-1].tables[0].cursor, table.saved[-1].tables[0].sequence) == ((2,), 1)
    assert not table.desk.exclusive


def test_without_the_marks_write_nothing_goes_out() -> None:
    """R129: the chunk waits for as long as the disk does."""
    desk = SnapshotDesk(PATTERNS, resolved(PATTERNS, [T, U]))
    desk.stream_on(HERE)
    desk.reader_ready(1)
    want = desk.next_order(GtidSet(), settled=True)
    assert isinstance(want, WantChunk)
    desk.pin_asked(1, want.ticket, HERE)
    assert isinstance(desk.next_order(GtidSet(), settled=True), GrantPin)
    desk.view_pinned(1, want.ticket, GtidSet())
    desk.chunk_read(1, want.ticket, SHAPES[T], [(1, 0)], final=True)
    assert isinstance(desk.next_order(GtidSet(), settled=True), WantChunk)
    saving = desk.next_order(GtidSet(), settled=True)
    assert isinstance(saving, SaveState)
    assert desk.next_order(GtidSet(), settled=True) is None
    desk.state_saved(resolved(PATTERNS, [T, U]))
    assert desk.next_order(GtidSet(), settled=True) is None
    desk.state_saved(saving.state)
    assert isinstance(desk.next_order(GtidSet(), settled=True), EmitChunk)


def test_one_chunk_is_read_ahead_and_no_more() -> None:
    """R81: behind the rows of the one in the gate, of the same table or of the next."""
    table = DeskTable()
    table.read(5, 1, 2)
    assert table.wanted().after == (2,)
    table.read(6, 3, final=True)
    count = len(table.orders)
    table.pump()
    assert len(table.orders) == count
    table.emit(5)
    assert (table.wanted().table, table.wanted().after) == (U, None)


def test_chunks_of_all_tables_end_the_backfill() -> None:
    """R78, R79: sequence by table from 0; an empty table has one empty final chunk."""
    table = DeskTable()
    seen = []
    for keys, final in (([1, 2], False), ([3], True), ([], True)):
        table.read(0, *keys, final=final)
        chunk = table.emit(0)
        seen.append((chunk.meta.table, chunk.meta.sequence, len(chunk.changes), chunk.meta.final))
    assert seen == [("t", 0, 2, False), ("t", 1, 1, True), ("u", 0, 0, True)]
    assert not table.desk.active
    assert not isinstance(table.orders[-1], WantChunk)


@pytest.mark.parametrize("rows", [[(2, 0), (1, 0)], [(1, 0), (1, 0)], [(0, 0)]])
def test_rows_in_another_order_than_keys_are_compared_in_halt(rows: list[tuple[int, int]]) -> None:
    """R146, R266: descending, twice the same, or not behind the chunk before."""
    table = DeskTable()
    table.read(0, 0)
    want = table.pin(0)
    with pytest.raises(
        Halted, match=r"^snapshot_chunk_read_failed: shop\.t: rows out of key order$"
    ):
        table.desk.chunk_read(2, want.ticket, SHAPES[T], rows, final=False)


def test_a_chunk_without_rows_must_be_the_last() -> None:
    """R266: else the same one would be asked for again for ever."""
    table = DeskTable()
    want = table.pin(0)
    with pytest.raises(Halted, match=r"^snapshot_chunk_read_failed: shop\.t: no rows, yet more$"):
        table.desk.chunk_read(2, want.ticket, SHAPES[T], [], final=False)


def test_a_table_of_another_shape_than_its_last_chunk_halts() -> None:
    """D9, case 151: told by the chunk itself, emitted or still in the gate."""
    for emits in (False, True):
        table = DeskTable()
        table.read(0, 1)
        if emits:
            table.emit(0)
        want = table.pin(5)
        wider = shape("shop.t", "id int", "v int", "w int", key=("id",))
        with pytest.raises(
            Halted, match=r"^snapshot_schema_drifted: shop\.t: other columns or key$"
        ):
            table.desk.chunk_read(2, want.ticket, wider, [(2, 0, 0)], final=True)


def test_a_chunk_by_a_key_that_does_not_qualify_halts() -> None:
    """R143, D5: the key may have become another since the table was described."""
    table = DeskTable()
    want = table.pin(0)
    text = shape("shop.t", "id varchar(9)", "v int", key=("id",))
    with pytest.raises(Halted, match=r"^snapshot_pk_unsupported_type: "):
        table.desk.chunk_read(2, want.ticket, text, [("a", 0)], final=True)


# -- servers ---------------------------------------------------------------------------------------


def test_a_reader_on_another_server_halts() -> None:
    """R153, R154, R155, D3: at its first pin and at every later one."""
    for earlier in (False, True):
        table = DeskTable()
        if earlier:
            table.read(5, 1)
        with pytest.raises(Halted, match=rf"^snapshot_source_mismatch: .*{HERE}.*{THERE}$"):
            table.desk.pin_asked(2, table.wanted().ticket, THERE)


def test_a_stream_that_opens_on_another_server_throws_captures_away() -> None:
    """D3: what was captured elsewhere is gone before the halt, also what a dead reader had read."""
    for dies in (False, True):
        table = DeskTable()
        table.read(5, 1)
        if dies:
            table.desk.reader_ready(3)
        with pytest.raises(Halted, match=r"^snapshot_source_mismatch: "):
            table.desk.stream_on(THERE)
        table.processed = up_to(9)
        table.pump()
        assert table.emitted() == []


def test_a_reconnect_to_the_same_server_changes_nothing() -> None:
    """D3: nor does another server once the backfill is complete."""
    table = DeskTable()
    table.read(5, 1, final=True)
    table.desk.stream_on(HERE)
    table.emit(5)
    table.read(5, final=True)
    table.emit(5)
    table.desk.stream_on(THERE)


def test_no_pin_is_granted_before_the_stream_is_on() -> None:
    """R153, D3: there is nothing to compare with yet."""
    table = DeskTable()
    desk = SnapshotDesk(PATTERNS, table.desk.state)
    desk.reader_ready(1)
    assert isinstance(desk.next_order(GtidSet(), settled=True), WantChunk)
    desk.pin_asked(1, 1, HERE)
    assert desk.next_order(GtidSet(), settled=True) is None
    desk.stream_on(HERE)
    assert desk.next_order(GtidSet(), settled=True) == GrantPin(1, T)


def test_tables_resolved_elsewhere_halt() -> None:
    """R153: the names are the stream's server's."""
    table = DeskTable(resolves=False)
    table.pump()
    with pytest.raises(Halted, match=r"^snapshot_source_mismatch: "):
        table.desk.tables_resolved(1, THERE, [T, U])


# -- once more, and the clock ----------------------------------------------------------------------


def test_a_table_is_done_again_while_the_stream_runs() -> None:
    """R163, D8: from the start, at sequence 0; what was captured of it is dropped, others go on."""
    table = DeskTable()
    table.read(0, 1, final=True)
    table.emit(0)
    table.pin(5)
    table.desk.redo(T)
    table.pump()
    assert table.saved[-1].find(T) == resolved(PATTERNS, [T, U]).find(T)
    assert table.desk.holds(changing(6, SHAPES[U]))
    want = table.wanted()
    table.desk.chunk_read(2, want.ticket, SHAPES[U], [(1, 0)], final=True)
    table.pump()
    assert (table.wanted().table, table.wanted().after) == (T, None)
    table.emit(5)
    table.read(6, 1, final=True)
    assert (table.emit(6).meta.sequence, table.desk.active) == (0, False)


def test_doing_again_replaces_what_the_reader_is_at() -> None:
    """D8: its old ticket is worth nothing any more, and nothing is held for it."""
    table = DeskTable()
    old = table.pin(5)
    table.desk.redo()
    table.pump()
    assert table.wanted().ticket > old.ticket
    assert not table.desk.holds(changing(6, SHAPES[T]))
    table.desk.chunk_read(2, old.ticket, SHAPES[T], [(1, 0)], final=True)
    table.read(7, 2, final=True)
    assert table.emit(7).meta.position == up_to(7)


def test_a_chunk_on_its_way_to_the_sink_is_finished_first() -> None:
    """R124: between its two writes nothing else is written."""
    table = DeskTable()
    table.read(5, 1)
    table.processed = up_to(5)
    table.pump()
    table.desk.redo(T)
    table.pump()
    assert len(table.saved) == 1
    table.desk.chunk_emitted()
    table.pump()
    assert [state.tables[0].sequence for state in table.saved] == [0, 1, 0]


def test_an_unknown_table_cannot_be_done_again() -> None:
    """R160: the set is what was resolved."""
    with pytest.raises(ValueError, match="no table of this backfill"):
        DeskTable().desk.redo(TableName("shop", "x"))


def test_what_the_gate_waits_for_is_told() -> None:
    """D6: for the clock; nothing when no chunk waits."""
    table = DeskTable()
    assert table.desk.missing(up_to(2)) is None
    table.read(5, 1)
    assert table.desk.missing(up_to(2)) == up_to(5) - up_to(2)
    assert table.desk.missing(up_to(5)) is None
    table.processed = up_to(5)
    table.pump()
    assert table.desk.missing(up_to(2)) is None


def test_a_gate_that_waits_for_ever_has_a_reason() -> None:
    """R83, D6: purged, then it never comes; else nobody knows."""
    missing = up_to(9) - up_to(6)
    assert gate_verdict(missing, up_to(7)) == Halt(
        HaltReason.DATA_GAP, f"the server has purged {up_to(7) - up_to(6)}"
    )
    assert gate_verdict(missing, up_to(6)) == Halt(
        HaltReason.SNAPSHOT_GATE_STALLED, f"the stream does not bring {missing}"
    )


def test_no_repr_of_an_order_or_a_capture_shows_a_row() -> None:
    """R119, R265: keys and rows are hidden wherever they travel."""
    table = DeskTable()
    table.read(0, SECRET)
    assert str(SECRET) not in repr(table.desk._captures)
    table.emit(0)
    assert table.wanted().after == (SECRET,)
    assert str(SECRET) not in repr(table.orders)
    assert str(SECRET) not in repr(table.saved)


def test_before_the_tables_are_known_there_is_nothing_to_do_again() -> None:
    """R163: all of them are at their start."""
    table = DeskTable(resolves=False)
    table.desk.redo()
    table.pump()
    assert table.orders == [WantTables(PATTERNS)]
