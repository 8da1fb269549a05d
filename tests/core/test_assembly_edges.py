"""The fold at its edges: bytes that cannot be events, caches with a bound, what it lets go."""

import gc
import weakref

import pytest
from helpers import event_builder as events
from helpers.histories import gtid, insert, up_to

import capstan.core.row_keeping
from capstan.core.assembly import Fold
from capstan.core.changes import Item, PositionLog, Transaction
from capstan.core.epoch import Epoch
from capstan.core.gtid import GtidSet
from capstan.core.halts import HaltReason
from capstan.core.limits import Budget
from capstan.core.tables import CaptureList
from capstan.core.watermark import Anchor

SERVER = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
COMMIT = 1_700_000_000_000_001


def new_fold(start: GtidSet | None = None, anchor: Anchor | None = None) -> Fold:
    fold = Fold(CaptureList.parse(["shop.*"]), Budget())
    fold.open(Epoch(start=start or GtidSet(), server_uuid=SERVER, anchor=anchor))
    feed(fold, events.opening())
    return fold


def feed(fold: Fold, raws: list[bytes]) -> list[Item]:
    return fold.feed(events.packets_of(raws))


@pytest.mark.parametrize("size", [0, 1, 4, 18])
def test_an_event_shorter_than_its_header_is_corrupt(size: int) -> None:
    """R11, R14: a named halt, not a crash; what was finished before it is kept."""
    fold = new_fold()
    items = feed(fold, [*insert(1), *insert(2)[:4], bytes(size)])

    assert [item.gtid.number for item in items] == [1]
    assert fold.halt is not None
    assert fold.halt.reason is HaltReason.EVENT_CORRUPT


@pytest.mark.parametrize("kind", [2, 4, 15, 16, 19, 30, 33, 42])
def test_an_event_without_its_body_is_corrupt(kind: int) -> None:
    """R11: the header and the checksum are right, and nothing stands between them."""
    before = {2: insert(1)[:1], 16: [], 19: insert(1)[:2], 30: insert(1)[:3]}.get(kind, [])
    fold = new_fold()
    items = feed(fold, [*before, events.event(kind, b"")])

    assert items == []
    assert fold.halt is not None
    assert fold.halt.reason in {HaltReason.EVENT_CORRUPT, HaltReason.EVENT_ORDER_INVALID}


def anchored() -> Anchor:
    return Anchor(gtid=gtid(1), commit_micros=COMMIT, arrived_micros=COMMIT, server_uuid=SERVER)


def test_an_incident_behind_the_anchors_group_halts() -> None:
    """D13, D22, R266: it halted behind that transaction once and must halt there again."""
    fold = new_fold(up_to(1), anchored())
    items = feed(fold, [*insert(1), events.event(26, b"\x01\x00\x00"), *insert(2)])

    assert items == []
    assert fold.halt is not None
    assert fold.halt.reason is HaltReason.SOURCE_INCIDENT


def test_heartbeats_say_where_the_source_is_and_that_is_no_gap() -> None:
    """Between groups positions may jump; a heartbeat carries one as well."""
    fold = new_fold()
    beat = events.event(27, b"binlog.000001", log_pos=77_777, flags=0x20)
    items = feed(fold, [*insert(1), beat, *insert(2), beat])

    assert [item.gtid.number for item in items] == [1, 2]
    assert fold.halt is None


def test_shapes_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """R247: a source with ever new tables does not grow the cache for ever."""
    monkeypatch.setattr(capstan.core.row_keeping, "_MAX_SHAPES", 8)
    fold = new_fold()
    for number in range(1, 101):
        items = feed(fold, events.insert(number, number, table=b"t%d" % number))
        (transaction,) = items
        assert isinstance(transaction, Transaction)
        assert [change.table for change in transaction.changes] == [f"t{number}"]

    assert len(fold._known) <= 8


def test_a_shape_is_compiled_once_for_all_its_table_ids() -> None:
    """Its bytes are what counts: a server hands out new ids all the time."""
    fold = new_fold()
    shapes = set()
    for number in range(1, 4):
        begin, block, table, rows, end = insert(number)
        table = events.table_map(80 + number)
        rows = events.rows(30, 80 + number, [(number, None)])
        (transaction,) = feed(fold, [begin, block, table, rows, end])
        assert isinstance(transaction, Transaction)
        shapes.add(id(transaction.changes[0].shape))

    assert len(shapes) == 1


def test_what_it_has_handed_out_is_not_held() -> None:
    """An idle stream keeps no row of its last piece."""
    fold = new_fold()
    (transaction,) = feed(fold, insert(1))
    assert isinstance(transaction, Transaction)
    rows = weakref.ref(transaction.changes.chunks[0])
    del transaction
    gc.collect()

    assert rows() is None


def test_a_transaction_holds_the_identities_of_its_own_piece_only() -> None:
    """A sink that keeps one keeps no rows of others, and no other piece."""
    fold = new_fold()
    first = feed(fold, [*insert(1), *insert(2), *insert(3)])
    second = feed(fold, [*insert(4), *insert(5)])
    kept = second[0]
    others = [weakref.ref(item) for item in (*first, second[1])]
    del first, second
    gc.collect()
    logs = [found for found in gc.get_referents(kept) if isinstance(found, PositionLog)]

    assert [ref() for ref in others] == [None] * 4
    assert [len(log.run) for log in logs] == [2]
    assert isinstance(kept, Transaction)
    assert kept.position == up_to(4)


def test_positions_are_told_of_their_own_moment() -> None:
    """R31: asked for late, when the stream has long gone on, they are what they were."""
    fold = new_fold()
    items = feed(fold, [*insert(1), *insert(2)]) + feed(fold, insert(3))

    assert [item.position for item in items if isinstance(item, Transaction)] == [
        up_to(1),
        up_to(2),
        up_to(3),
    ]


def test_a_new_epoch_forgets_the_halt_and_the_half_built() -> None:
    """R12: also the rows that stood before the halt."""
    fold = new_fold()
    feed(fold, [*insert(1)[:4], events.event(26, b"")])
    fold.open(Epoch(start=GtidSet(), server_uuid=SERVER))
    (transaction,) = feed(fold, [*events.opening(), *events.insert(1, 9)])

    assert fold.halt is None
    assert isinstance(transaction, Transaction)
    assert [change.values for change in transaction.changes] == [(9, "n9")]
