"""Situations other tools got wrong, played through the desk by hand."""

import attrs
from helpers.changes_builder import deleted, inserted, shape, transaction, up_to, updated

from capstan.core.changes import Changes, RowsChunk
from capstan.core.gtid import GtidSet
from capstan.core.snapshot.orders import EmitChunk, Order, SaveState, WantChunk
from capstan.core.snapshot.progress import SnapshotState, resolved, shape_digest
from capstan.core.snapshot.snapshot_desk import SnapshotDesk
from capstan.core.tables import TableName

SERVER = "aaaaaaaa-0000-0000-0000-000000000001"
T = TableName("shop", "t")
SHAPE = shape("shop.t", "id int", "v int", key=("id",))


def started(cursor: int, delivered: int | None = None) -> SnapshotDesk:
    """A desk that goes on behind a cursor."""
    state = resolved(["shop.t"], [T])
    progress = attrs.evolve(
        state.tables[0],
        key_columns=("id",),
        shape_digest=shape_digest(SHAPE),
        cursor=(cursor,),
        delivered=(delivered or cursor,),
        sequence=4,
        first_position=up_to(1),
    )
    desk = SnapshotDesk(["shop.t"], state.replaced(progress))
    desk.stream_on(SERVER)
    desk.reader_ready(1)
    return desk


def buffer(desk: SnapshotDesk, position: int, *keys: int) -> None:
    """The next chunk, captured at this G and waiting in the gate."""
    want = next_order(desk)
    assert isinstance(want, WantChunk)
    desk.pin_asked(1, want.ticket, SERVER)
    next_order(desk)
    desk.view_pinned(1, want.ticket, up_to(position))
    desk.chunk_read(1, want.ticket, SHAPE, [(key, 0) for key in keys], final=False)


def next_order(desk: SnapshotDesk, processed: GtidSet | None = None) -> Order | None:
    return desk.next_order(processed or GtidSet(), settled=True)


def emit(desk: SnapshotDesk, processed: int, *, crashes: bool = False) -> list[SnapshotState]:
    """What is written while the chunk in the gate goes out; in a crash the last write is lost."""
    saved: list[SnapshotState] = []
    while True:
        order = next_order(desk, up_to(processed))
        if isinstance(order, SaveState):
            saved.append(order.state)
            desk.state_saved(order.state)
        elif isinstance(order, EmitChunk):
            if crashes:
                return saved
            desk.chunk_emitted()
        elif order is None:
            return saved


def passes(desk: SnapshotDesk, number: int, chunk: RowsChunk) -> list[object] | str:
    """The keys that reach the sink, or that the transaction has to wait."""
    item = transaction(number, chunk)
    if desk.holds(item):
        return "held"
    seen = desk.judged(item)
    assert isinstance(seen.changes, Changes)
    return [change.key for change in seen.changes]


def test_case_147_a_delete_in_three_places() -> None:
    """R125, R127, R128, D6: delivered, not yet delivered, in the chunk in flight, after a crash."""
    desk = started(40)
    buffer(desk, 10, *range(41, 51))
    assert passes(desk, 9, deleted(SHAPE, (20, 0))) == [(20,)]
    assert passes(desk, 10, deleted(SHAPE, (80, 0))) == []
    assert passes(desk, 10, deleted(SHAPE, (45, 0))) == []
    assert passes(desk, 11, deleted(SHAPE, (45, 0))) == "held"
    assert passes(desk, 12, inserted(SHAPE, (46, 1))) == "held"
    (marked,) = emit(desk, 10, crashes=True)
    again = SnapshotDesk(["shop.t"], marked)
    assert passes(again, 13, deleted(SHAPE, (47, 0))) == [(47,)]
    assert passes(again, 13, deleted(SHAPE, (51, 0))) == []
    assert passes(again, 14, updated(SHAPE, ((48, 0), (48, 1)))) == []
    desk.chunk_emitted()
    emit(desk, 10)
    assert passes(desk, 11, deleted(SHAPE, (45, 0))) == [(45,)]
    assert passes(desk, 12, inserted(SHAPE, (46, 1))) == [(46,)]


def test_case_162_writes_behind_and_ahead_of_the_cursor() -> None:
    """R90-R92, D6: behind at once, in the chunk with it, ahead with its own, the rest later."""
    desk = started(500)
    buffer(desk, 10, 510, 550, 600)
    for key, expected in ((5, [(5,)]), (495, [(495,)]), (505, []), (999, [])):
        assert passes(desk, 10, inserted(SHAPE, (key, 0))) == expected
    ten_times = [updated(SHAPE, ((550, n), (550, n + 1))) for n in range(10)]
    assert [passes(desk, 11 + n, chunk) for n, chunk in enumerate(ten_times)] == ["held"] * 10
    emit(desk, 10)
    assert [passes(desk, 11 + n, chunk) for n, chunk in enumerate(ten_times)] == [[(550,)]] * 10
    assert passes(desk, 21, inserted(SHAPE, (505, 0))) == [(505,)]
    assert passes(desk, 22, inserted(SHAPE, (601, 0))) == []
