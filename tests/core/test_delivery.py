"""The delivery desk: batches, what is passed over, what only advances."""

import attrs
import pytest
from helpers import event_builder as events
from helpers.event_builder import SOURCE
from helpers.spools import MemorySpool

from capstan.core.changes import (
    ChunkedChanges,
    Committed,
    Op,
    PositionLog,
    RowsChunk,
    SchemaChange,
    SchemaChangeGroup,
    Transaction,
)
from capstan.core.delivery import Desk, Piece
from capstan.core.gtid import Gtid, GtidSet
from capstan.core.spooling import SpooledChanges, SpoolWriter
from capstan.core.tables import Column, TableShape
from capstan.core.watermark import Position

SHAPE = TableShape("shop", "items", (Column(name="id", type="int"),), (0,))
SERVER = "server-a"


def transaction(number: int, rows: int = 1) -> Transaction:
    committed = Committed(SOURCE, "", number, number, number + 1)
    log = PositionLog(GtidSet())
    log.run.append(committed)
    chunks = [RowsChunk(Op.INSERT, SHAPE, [(i,) for i in range(rows)])] if rows else []
    return Transaction(committed, ChunkedChanges(chunks), log, 0)


def ddl(number: int, *captured: bool, rows_follow: bool = False) -> SchemaChangeGroup:
    gtid = Gtid(SOURCE, "", number)
    changes = tuple(
        SchemaChange(
            gtid=gtid,
            commit_micros=1,
            position=GtidSet(),
            schema="shop",
            table=f"t{i}",
            kind="drop_table",
            captured=c,
        )
        for i, c in enumerate(captured)
    )
    return SchemaChangeGroup(Committed(SOURCE, "", number, 1, 2), changes, rows_follow)


def desk(max_batch: int = 10, processed: str = "") -> Desk[str]:
    return Desk(Position(watermark=GtidSet.parse(processed)), max_batch)


def upto(*numbers: int) -> GtidSet:
    return GtidSet.of(Gtid(SOURCE, "", n) for n in numbers)


def test_one_batch_is_out_at_a_time() -> None:
    """D15: the next batch is formed only when the one before is settled."""
    it = desk(max_batch=2)
    it.arrive(Piece([transaction(1), transaction(2), transaction(3)], SERVER, "a"))

    first = it.next_batch()

    assert first is not None
    assert len(first.entries) == 2
    assert it.next_batch() is None
    it.accepted(2)
    assert it.settled() == []
    second = it.next_batch()
    assert second is not None
    assert [e.gtid.number for e in second.entries] == [3]
    it.accepted(1)
    assert it.settled() == ["a"]
    assert it.idle


def test_a_batch_gathers_whole_pieces() -> None:
    """What waits is settled together, and each sender gets its credit back once."""
    it = desk(max_batch=10)
    for n in (1, 2, 3):
        it.arrive(Piece([transaction(n)], SERVER, f"s{n}"))

    batch = it.next_batch()

    assert batch is not None
    assert len(batch.entries) == 3
    it.accepted(3)
    assert it.settled() == ["s1", "s2", "s3"]


def test_a_batch_names_what_has_to_be_let_go() -> None:
    """D25: the spooled changes that the sink gets; those it had before are dropped."""
    first, again, second = (attrs.evolve(transaction(n), changes=spooled()) for n in (1, 1, 2))
    counter = desk(processed=f"{SOURCE}:1")
    counter.arrive(Piece([transaction(3), first, again, second], "", "a"))

    batch = counter.next_batch()

    assert batch is not None
    assert batch.skipped == 2
    assert batch.spooled == (second.changes,)


def spooled() -> SpooledChanges:
    writer = SpoolWriter(MemorySpool(), 0)
    rows = events.rows(30, 80, [(1, "a")])
    writer.add(30, events.table_map(80)[27:-4], rows[27:-4], 1)
    return writer.finish([])


def test_max_batch_of_one_settles_one_transaction() -> None:
    """D15: with 1 the duplicate window is one transaction."""
    it = desk(max_batch=1)
    it.arrive(Piece([transaction(1), transaction(2)], SERVER, "a"))

    batch = it.next_batch()

    assert batch is not None
    assert len(batch.entries) == 1


def test_empty_transactions_advance_without_the_sink() -> None:
    """R32, R33, R35: filtered and empty transactions are in the position and not in the calls."""
    it = desk()
    it.arrive(Piece([transaction(1, rows=0), transaction(2), transaction(3, rows=0)], SERVER, "a"))

    batch = it.next_batch()

    assert batch is not None
    assert [place for place, _ in batch.calls] == [1]
    position = it.accepted(3)
    assert position is not None
    assert position.watermark == upto(1, 2, 3)


def test_what_is_processed_is_passed_over() -> None:
    """R39: a member is not delivered again and causes no write."""
    it = desk(processed=f"{SOURCE}:1-2")
    it.arrive(Piece([transaction(1), transaction(2)], SERVER, "a"))

    batch = it.next_batch()

    assert batch is not None
    assert batch.calls == ()
    assert batch.skipped == 2
    assert it.accepted(0) is None


def test_the_anchor_is_the_last_processed_transaction() -> None:
    """D13: GTID, both times and the server go with the watermark."""
    it = desk()
    it.arrive(Piece([transaction(1), transaction(2, rows=0)], SERVER, "a"))
    it.next_batch()

    position = it.accepted(2)

    assert position is not None
    assert position.anchor is not None
    assert position.anchor.gtid.number == 2
    assert (position.anchor.commit_micros, position.anchor.arrived_micros) == (2, 3)
    assert position.anchor.server_uuid == SERVER


def test_items_before_a_refused_one_count() -> None:
    """D15: when the sink refuses item k, items 1 to k-1 are persisted."""
    it = desk()
    it.arrive(Piece([transaction(1), transaction(2), transaction(3)], SERVER, "a"))
    it.next_batch()

    position = it.accepted(1)

    assert position is not None
    assert position.watermark == upto(1)


def test_only_schema_changes_that_concern_captured_tables_are_delivered() -> None:
    """D20: the rest only advance."""
    it = desk()
    it.arrive(Piece([ddl(1, False), ddl(2, True, False), ddl(3, True)], SERVER, "a"))

    batch = it.next_batch()

    assert batch is not None
    delivered = [item for _, item in batch.calls]
    assert [len(g.changes) for g in delivered if isinstance(g, SchemaChangeGroup)] == [1, 1]
    position = it.accepted(3)
    assert position is not None
    assert position.watermark == upto(1, 2, 3)


def test_a_schema_change_with_rows_behind_it_does_not_advance_by_itself() -> None:
    """D20: CREATE TABLE … SELECT moves the watermark once, with its rows."""
    it = desk(max_batch=1)
    it.arrive(Piece([ddl(1, True, rows_follow=True), transaction(1)], SERVER, "a"))
    it.next_batch()

    assert it.accepted(1) is None
    it.settled()
    it.next_batch()
    position = it.accepted(1)
    assert position is not None
    assert position.watermark == upto(1)


def test_batches_do_not_mix_servers() -> None:
    """D13: an anchor names one server; pieces of another wait for their own batch."""
    it = desk()
    it.arrive(Piece([transaction(1)], "server-a", "a"))
    it.arrive(Piece([transaction(2)], "server-b", "b"))

    batch = it.next_batch()

    assert batch is not None
    assert (batch.server_uuid, len(batch.entries)) == ("server-a", 1)


@pytest.mark.parametrize("max_batch", [1, 2, 3, 7])
def test_a_long_filtered_run_keeps_one_interval(max_batch: int) -> None:
    """R36, R37: any mix of delivered and filtered is one interval, however it is batched."""
    it = desk(max_batch=max_batch)
    it.arrive(Piece([transaction(n, rows=n % 3) for n in range(1, 30)], SERVER, "a"))
    while (batch := it.next_batch()) is not None:
        it.accepted(len(batch.entries))
        it.settled()

    assert str(it.watermark) == f"{SOURCE}:1-29"
