"""Large transactions in the fold: spooled, whole, and gone with their file whatever happens."""

from collections.abc import Sequence
from random import Random

import pytest
import zstandard
from helpers import event_builder as e
from helpers.payloads import payload_event
from helpers.spools import MemorySpool, MemorySpools

from capstan.core.assembly import Fold
from capstan.core.changes import Change, Item, SchemaChangeGroup, Transaction
from capstan.core.epoch import Epoch
from capstan.core.gtid import GtidSet
from capstan.core.halts import Halted, HaltReason
from capstan.core.limits import Budget, weight_of
from capstan.core.tables import CaptureList

TWO_COLUMNS = weight_of(2)


class Stage:
    """A fold with a spool in memory."""

    def __init__(self, refuses: str = "", memory: int = 1000, total: int | None = None) -> None:
        self.spools = MemorySpools(refuses)
        budget = Budget(memory=memory, total=total)
        self.fold = Fold(CaptureList.parse(["shop.*"]), budget, self.spools)
        self.open()

    def open(self) -> None:
        """Begin a new epoch."""
        self.fold.open(Epoch(start=GtidSet(), server_uuid=""))
        self.feed(*e.opening())

    def feed(self, *raws: bytes) -> list[Item]:
        """These events in one piece."""
        return self.fold.feed(e.packets_of(raws))

    @property
    def reason(self) -> HaltReason | None:
        """Of the halt."""
        return None if self.fold.halt is None else self.fold.halt.reason

    @property
    def spool(self) -> MemorySpool:
        """The only one that was opened."""
        (spool,) = self.spools.opened
        return spool


def begin(number: int = 1) -> list[bytes]:
    return [e.gtid(number), e.query(b"BEGIN"), e.table_map(80)]


def rows(*ids: int, last: bool = False) -> bytes:
    return e.rows(30, 80, [(number, "x" * 50) for number in ids], last=last)


MANY = [rows(number) for number in range(60)]
LARGE = [*begin(), *MANY, rows(60, last=True), e.xid()]


def only(items: Sequence[Item]) -> Transaction:
    (item,) = items
    assert isinstance(item, Transaction)
    return item


def ids(changes: Sequence[Change]) -> list[int]:
    return [change.values[0] for change in changes if change.values is not None]


# --- spooling -------------------------------------------------------------------------------------


def test_within_the_budget_nothing_is_spooled() -> None:
    """D25: exactly what may be held is held."""
    size = len(rows(0)) - 19 - 4 + TWO_COLUMNS
    stage = Stage(memory=61 * size)

    changes = only(stage.feed(*LARGE)).changes

    assert not changes.spooled
    assert stage.spools.opened == []


@pytest.mark.parametrize("memory", [1, 1000, 61 * (len(rows(0)) - 23 + TWO_COLUMNS) - 1])
def test_over_the_budget_it_is_delivered_whole(memory: int) -> None:
    """D25: whether nothing fits into memory, a part, or all but the last event."""
    stage = Stage(memory=memory)

    changes = only(stage.feed(*LARGE)).changes

    assert changes.spooled
    assert len(changes) == 61
    assert ids(changes) == list(range(61))
    assert stage.spool.closed == 0


def test_each_piece_of_the_stream_adds_to_it() -> None:
    """R10: nothing leaves before the terminator, however many pieces there are."""
    stage = Stage()

    assert [item for raw in LARGE[:-1] for item in stage.feed(raw)] == []
    assert ids(only(stage.feed(LARGE[-1])).changes) == list(range(61))


def test_transactions_around_it_are_as_ever() -> None:
    """R1: a spool serves one transaction; the next begins in memory again."""
    stage = Stage()

    items = stage.feed(*e.insert(1, 1), *begin(2), *LARGE[3:], *e.insert(3, 3))

    spooled = [item.changes.spooled for item in items if isinstance(item, Transaction)]
    assert spooled == [False, True, False]


def test_tables_outside_the_capture_list_are_neither_counted_nor_spooled() -> None:
    """D25: a transaction of theirs may have any size."""
    stage = Stage(total=10)
    foreign = e.table_map(81, schema=b"elsewhere")
    raws = [e.gtid(1), e.query(b"BEGIN"), foreign]
    raws += [e.rows(30, 81, [(number, "x" * 50)], last=False) for number in range(60)]

    assert not only(stage.feed(*raws, e.xid())).changes
    assert stage.spools.opened == []


def test_several_tables_and_operations_come_back_in_order() -> None:
    """R1: the order of the events, each with its own table."""
    stage = Stage(memory=1)
    other = e.table_map(81, table=b"others")
    raws = [*begin(), other, rows(1), e.rows(31, 81, [(2, "a"), (2, "b")], last=False)]
    raws += [e.rows(32, 80, [(3, None)]), e.table_map(82), e.rows(30, 82, [(4, "d")])]

    changes = only(stage.feed(*raws, e.xid())).changes

    assert [(c.op.value, c.table) for c in changes] == [
        ("insert", "items"),
        ("update", "others"),
        ("delete", "items"),
        ("insert", "items"),
    ]
    assert [c.values for c in changes] == [(1, "x" * 50), (2, "b"), None, (4, "d")]
    assert [c.old_values for c in changes] == [None, (2, "a"), (3, None), None]


def test_create_select_comes_with_its_spooled_rows() -> None:
    """D20: the schema change first, without the GTID, then the rows."""
    stage = Stage(memory=1)
    create = e.query(b"CREATE TABLE `copy` (`id` int) START TRANSACTION")

    group, transaction = stage.feed(*begin()[:2], create, e.table_map(80), rows(1), e.xid())

    assert isinstance(group, SchemaChangeGroup)
    assert group.rows_follow
    assert isinstance(transaction, Transaction)
    assert ids(transaction.changes) == [1]


def test_a_rollback_of_spooled_rows_is_refused_like_any_other() -> None:
    """D18: that they lie on disk does not make the block empty."""
    stage = Stage(memory=1)

    assert stage.feed(*begin(), rows(1), e.query(b"ROLLBACK")) == []
    assert stage.reason is HaltReason.UNSUPPORTED_TRANSACTION_SHAPE
    assert stage.spool.closed


@pytest.mark.parametrize(("between", "halts"), [([], False), ([rows(2)], True)])
def test_a_savepoint_knows_spooled_rows(between: list[bytes], halts: bool) -> None:
    """D19: rolling back to it is nothing without rows since, and a halt with them."""
    stage = Stage(memory=1)
    raws = [*begin(), rows(1), e.query(b"SAVEPOINT `s`"), *between, e.query(b"ROLLBACK TO `s`")]

    stage.feed(*raws)

    assert (stage.reason is HaltReason.UNSUPPORTED_TRANSACTION_SHAPE) is halts


# --- faults ---------------------------------------------------------------------------------------


def test_what_cannot_be_decoded_halts_before_anything_leaves() -> None:
    """D22, R11: rows are decoded as they arrive, also those that go to disk undecoded."""
    stage = Stage(memory=1)
    broken = e.event(30, rows(2)[19:-5])

    assert stage.feed(*begin(), rows(1), broken, e.xid()) == []
    assert stage.reason is HaltReason.EVENT_CORRUPT
    assert stage.spool.closed


def test_rows_without_their_table_map_halt() -> None:
    """R11: spooled or not."""
    stage = Stage(memory=1)

    assert stage.feed(*begin(), rows(1), e.rows(30, 99, [(2, "b")]), e.xid()) == []
    assert stage.reason is HaltReason.TABLE_MAP_MISSING
    assert stage.spool.closed


@pytest.mark.parametrize("refuses", ["open", "write"])
def test_a_spool_that_fails_is_a_halt_and_nothing_leaves(refuses: str) -> None:
    """D25, R14: earlier transactions leave, this one does not."""
    stage = Stage(refuses)

    items = stage.feed(*e.insert(1, 1), *begin(2), *LARGE[3:])

    assert [item.gtid.number for item in items] == [1]
    assert stage.reason is HaltReason.SPOOL_FAILED
    assert all(spool.closed for spool in stage.spools.opened)
    with pytest.raises(Halted):
        stage.feed(e.heartbeat())


def test_a_spool_that_fails_at_the_end_takes_the_schema_change_along() -> None:
    """D20, R11: of CREATE TABLE … SELECT nothing leaves either."""
    stage = Stage("write", memory=1)
    create = e.query(b"CREATE TABLE `copy` (`id` int) START TRANSACTION")

    assert stage.feed(*begin()[:2], create, e.table_map(80), rows(1), e.xid()) == []
    assert stage.reason is HaltReason.SPOOL_FAILED
    assert stage.spool.closed


def test_a_new_epoch_lets_a_half_built_spool_go() -> None:
    """R12: nothing of it can leave any more."""
    stage = Stage()
    stage.feed(*LARGE[:-1])
    assert stage.spool.closed == 0

    stage.open()

    assert stage.spool.closed == 1
    assert ids(only(stage.feed(*e.insert(1, 7))).changes) == [7]


def test_a_new_epoch_leaves_finished_ones_alone() -> None:
    """They are their transaction's, which may still wait for the sink."""
    stage = Stage()
    changes = only(stage.feed(*LARGE)).changes

    stage.open()
    stage.fold.close()

    assert ids(changes) == list(range(61))


def test_closing_lets_a_half_built_spool_go() -> None:
    """The end of whoever feeds it."""
    stage = Stage()
    stage.feed(*LARGE[:-1])

    stage.fold.close()

    assert stage.spool.closed == 1


# --- the total ------------------------------------------------------------------------------------

EVENT_BYTES = len(rows(0)) - 19 - 4


@pytest.mark.parametrize("memory", [1, 1 << 20])
def test_exactly_at_the_limit_is_accepted_and_a_byte_beyond_is_not(memory: int) -> None:
    """D25: whether in memory or on disk, it is the bytes on the wire that count."""
    fits = Stage(memory=memory, total=61 * EVENT_BYTES)
    assert ids(only(fits.feed(*LARGE)).changes) == list(range(61))
    # Each transaction is counted anew.
    assert ids(only(fits.feed(*begin(2), *LARGE[3:])).changes) == list(range(61))

    over = Stage(memory=memory, total=61 * EVENT_BYTES - 1)
    assert over.feed(*LARGE) == []
    assert over.reason is HaltReason.TRANSACTION_TOO_LARGE
    assert all(spool.closed for spool in over.spools.opened)


# --- compressed -----------------------------------------------------------------------------------

PADDING = e.event(28, Random(0).randbytes(400_000))
"""May be ignored and cannot be compressed: what stands before is folded before all is inflated."""


@pytest.mark.parametrize("compression", [0, 255])
def test_a_compressed_transaction_over_the_budget_is_spooled_too(compression: int) -> None:
    """D22, D25: what counts is what is inside."""
    stage = Stage()

    changes = only(stage.feed(e.gtid(1), payload_event(LARGE[1:], compression))).changes

    assert changes.spooled
    assert ids(changes) == list(range(61))


def test_what_is_inside_counts_against_the_limit() -> None:
    """D25: a small event that inflates beyond it."""
    stage = Stage(total=61 * EVENT_BYTES - 1)

    assert stage.feed(e.gtid(1), payload_event(LARGE[1:])) == []
    assert stage.reason is HaltReason.TRANSACTION_TOO_LARGE


def test_a_payload_that_ends_badly_takes_back_what_ended_inside() -> None:
    """D22, R11: the terminator inside is good only if all of the payload is."""
    stage = Stage()
    trailing = payload_event([*LARGE[1:], PADDING, e.gtid(2)])
    items = stage.feed(*e.insert(1, 1), e.gtid(2), trailing)

    assert [item.gtid.number for item in items] == [1]
    assert stage.reason is HaltReason.EVENT_CORRUPT
    assert stage.spool.closed


def test_a_payload_of_another_size_than_declared_takes_back_what_ended_inside() -> None:
    """D22, R11: found out behind the terminator."""
    plain = payload_event([*LARGE[1:], PADDING], declared_more=1)
    stage = Stage()

    assert stage.feed(e.gtid(1), plain) == []
    assert stage.reason is HaltReason.EVENT_CORRUPT
    assert stage.spool.closed


def test_half_a_transaction_in_a_payload_halts() -> None:
    """D22: a payload holds the whole rest of its group."""
    stage = Stage()

    assert stage.feed(e.gtid(1), payload_event(LARGE[1:-1]), e.xid()) == []
    assert stage.reason is HaltReason.EVENT_ORDER_INVALID
    assert stage.spool.closed


def test_a_payload_can_be_given_up() -> None:
    """A stop does not wait for gigabytes: nothing leaves, nothing is a halt."""
    stage = Stage()
    asked: list[None] = []

    def given_up() -> bool:
        asked.append(None)
        return len(asked) > 2

    stage.fold.given_up = given_up
    large = [*begin()[1:], *(rows(number) for number in range(9000)), e.xid()]

    assert stage.feed(e.gtid(1), payload_event(large)) == []
    assert len(asked) == 3
    assert stage.fold.halt is None
    assert not stage.fold.building
    assert stage.spool.closed


def test_uncompressed_events_follow_a_payload_with_their_checksums() -> None:
    """D23: inside there are none, outside they are as before."""
    stage = Stage()
    damaged = e.xid()[:-1] + b"\0"

    items = stage.feed(e.gtid(1), payload_event(LARGE[1:]), *e.insert(2, 2))
    assert [item.gtid.number for item in items] == [1, 2]
    stage.feed(e.gtid(3), *e.insert(3, 3)[1:-1], damaged)
    assert stage.reason is HaltReason.EVENT_CORRUPT


def test_the_compressor_was_at_work() -> None:
    """The payloads of these tests are what they are said to be."""
    assert len(payload_event(LARGE[1:])) < sum(map(len, LARGE[1:])) / 2
    assert zstandard.ZSTD_VERSION
