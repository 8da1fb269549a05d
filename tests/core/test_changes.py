"""Changes as a sink sees them: sequences, records, keys, and reprs that hold no value."""

import pickle
from collections.abc import Sequence
from datetime import UTC, datetime

import attrs
import pytest
from helpers.changes_builder import (
    COMMIT_MICROS,
    UUID,
    Row,
    chunk,
    chunk_facts,
    committed,
    deleted,
    group,
    gtid,
    inserted,
    schema_change,
    shape,
    transaction,
    up_to,
    updated,
)

from capstan.core.changes import (
    Change,
    Changes,
    ChunkedChanges,
    Op,
    PositionLog,
    Transaction,
    utc_from_microseconds,
)

ORDERS = shape("shop.orders", "note varchar(20)", "id int", "line int", key=("id", "line"))
BARE = shape("shop.bare", "a int", "b int")
SENTINEL = "s3ntinel-value"


@pytest.fixture
def changes() -> Changes:
    return ChunkedChanges(
        [
            inserted(ORDERS, ("a", 1, 1), ("b", 2, 1)),
            updated(ORDERS, (("a", 1, 1), ("a", 1, 2)), (("b", 2, 1), ("c", 2, 1))),
            deleted(ORDERS, ("c", 2, 1)),
        ]
    )


def test_the_changes_of_one_event_are_changes_like_any_others() -> None:
    """R1: sized, indexable, sliced, iterated over again, and one chunk: themselves."""
    one = updated(ORDERS, (("a", 1, 1), ("a", 1, 2)), (("b", 2, 1), ("c", 2, 1)))
    many = ChunkedChanges([one])
    assert isinstance(one, Changes)
    assert list(one.chunks) == [one]
    assert len(one) == len(many) == 2
    for _ in range(2):
        assert [facts(change) for change in one] == [facts(change) for change in many]
    assert facts(one[-1]) == facts(many[1])
    assert [facts(change) for change in one[:1]] == [facts(many[0])]
    assert not one.spooled
    with pytest.raises(IndexError):
        one[2]


def facts(change: Change) -> tuple[Op, Row | None, Row | None]:
    return change.op, change.old_values, change.values


EXPECTED: list[tuple[Op, Row | None, Row | None]] = [
    (Op.INSERT, None, ("a", 1, 1)),
    (Op.INSERT, None, ("b", 2, 1)),
    (Op.UPDATE, ("a", 1, 1), ("a", 1, 2)),
    (Op.UPDATE, ("b", 2, 1), ("c", 2, 1)),
    (Op.DELETE, ("c", 2, 1), None),
]


def test_changes_come_in_order_as_often_as_asked(changes: Changes) -> None:
    """R1: sized and re-iterable, each change once and in wire order."""
    assert len(changes) == 5
    assert [facts(change) for change in changes] == EXPECTED
    assert [facts(change) for change in changes] == EXPECTED


def test_changes_are_indexed_from_both_ends(changes: Changes) -> None:
    """R1: every index gives the change that iteration gives."""
    assert [facts(changes[index]) for index in range(5)] == EXPECTED
    assert [facts(changes[index - 5]) for index in range(5)] == EXPECTED
    for outside in (5, -6):
        with pytest.raises(IndexError):
            changes[outside]


def test_a_slice_is_a_sequence_of_changes(changes: Changes) -> None:
    """Slices work as on a list."""
    every_second: Sequence[Change] = changes[::2]
    assert [facts(change) for change in every_second] == EXPECTED[::2]
    assert [facts(change) for change in changes[3:99]] == EXPECTED[3:]


def test_no_changes_are_an_empty_sequence() -> None:
    """R34: a fully filtered transaction has changes, none of them."""
    assert len(ChunkedChanges()) == 0
    assert list(ChunkedChanges()) == []
    assert not ChunkedChanges()


def test_equal_changes_are_equal(changes: Changes) -> None:
    """A change equals another one of the same shape and images."""
    assert changes[0] == Change(Op.INSERT, ORDERS, ("a", 1, 1), None)
    assert changes[0] != changes[1]
    assert changes[0] in changes
    assert changes.index(changes[4]) == 4


def test_a_change_names_its_table(changes: Changes) -> None:
    """Names and columns are those of the shape, one object for all rows."""
    first, second = changes[0], changes[1]
    assert (first.schema, first.table) == ("shop", "orders")
    assert first.columns is second.columns
    assert [column.name for column in first.columns] == ["note", "id", "line"]


def test_records_are_mappings_over_the_row(changes: Changes) -> None:
    """A record reads like a dict and has every column in order."""
    update = changes[2]
    assert update.record == {"note": "a", "id": 1, "line": 2}
    assert update.old_record == {"note": "a", "id": 1, "line": 1}
    assert update.record is not None
    assert list(update.record) == ["note", "id", "line"]
    assert update.record["line"] == 2
    assert "nothing" not in update.record
    with pytest.raises(KeyError):
        update.record["nothing"]
    assert changes[0].old_record is None
    assert changes[4].record is None


def test_keys_are_in_key_order(changes: Changes) -> None:
    """D5: the key's columns in the key's order, which need not be the row's."""
    backwards = shape("shop.orders", "id int", "line int", key=("line", "id"))
    (change,) = chunk(backwards, (1, 2))
    assert change.key == (2, 1)
    assert change.key_columns == ("line", "id")
    assert changes[0].key_columns == ("id", "line")


def test_a_key_is_the_one_after_the_change(changes: Changes) -> None:
    """D5, D10: insert and update give the new key, delete the old one; `old_key` the one before."""
    insert, _, update, _, delete = changes
    assert (insert.key, insert.old_key) == ((1, 1), None)
    assert (update.key, update.old_key) == ((1, 2), (1, 1))
    assert (delete.key, delete.old_key) == ((2, 1), (2, 1))


def test_a_table_without_a_key_has_none() -> None:
    """D5: no key is None, not an empty tuple."""
    (change,) = ChunkedChanges([inserted(BARE, (1, 2))])
    assert change.key is None
    assert change.key_columns == ()


def test_a_snapshot_row_has_no_before_image() -> None:
    """R106: a chunk's changes say `snapshot`."""
    (change,) = chunk(ORDERS, ("a", 1, 1))
    assert change.op == "snapshot"
    assert change.old_record is None


def test_the_position_of_a_transaction_holds_those_before_and_itself() -> None:
    """R31: transactions of one piece of the stream share a log and differ in their index."""
    log = PositionLog(up_to(2))
    log.run += [committed(3), committed(4), committed(5)]
    three = [Transaction(log.run[index], ChunkedChanges(), log, index) for index in range(3)]
    assert [each.position for each in three] == [up_to(3), up_to(4), up_to(5)]
    assert log.before(1) == up_to(3)


def test_commit_times_are_exact_utc() -> None:
    """The original commit, aware, with all its microseconds."""
    moment = datetime(2023, 11, 14, 22, 13, 20, 123_456, tzinfo=UTC)
    assert transaction(1).commit_time == moment
    assert schema_change(1, "other").commit_time == moment
    assert utc_from_microseconds(COMMIT_MICROS) == moment
    latest = datetime(2038, 1, 19, 3, 14, 7, 999_999, tzinfo=UTC)
    assert utc_from_microseconds(2_147_483_647_999_999) == latest


def test_no_repr_holds_a_value() -> None:
    """R119, R265: whatever is printed of a change, a row or a transaction names tables only."""
    table = shape("shop.orders", "note varchar(20)", key=("note",))
    whole = transaction(
        7,
        inserted(table, (SENTINEL,)),
        updated(table, ((SENTINEL,), (SENTINEL,))),
        deleted(table, (SENTINEL,)),
    )
    first = whole.changes[0]
    parts = [whole, whole.changes, *whole.changes.chunks, *whole.changes, first.record, first.shape]
    for part in parts:
        assert SENTINEL not in repr(part)
        assert SENTINEL not in str(part)
    assert repr(whole) == f"<Transaction {UUID}:7 with 3 changes>"
    assert repr(whole.changes.chunks[1]) == "<1 update of shop.orders>"
    assert repr(first) == "<Change insert shop.orders>"
    assert repr(first.record) == "<record of shop.orders, 1 columns>"


def test_what_is_done_to_a_change_is_seen_nowhere_else(changes: Changes) -> None:
    """Each look gives a change of its own; records and transactions cannot be altered at all."""
    changes[0].values = None
    assert changes[0].values == ("a", 1, 1)
    record = changes[0].record
    with pytest.raises(TypeError):
        record["id"] = 2  # type: ignore[index]
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        transaction(1).changes = ChunkedChanges()  # type: ignore[misc]


def test_schema_changes_survive_a_pickle() -> None:
    """R7: what travels is names, kinds and positions; there is no statement to lose or leak."""
    whole = group(schema_change(3, "rename_table", "a.b", "a.c"), schema_change(3, "other"))
    copy = pickle.loads(pickle.dumps(whole))
    assert copy == whole
    assert copy.gtid == gtid(3)
    assert [field.name for field in attrs.fields(type(copy.changes[0]))] == [
        "gtid",
        "commit_micros",
        "position",
        "schema",
        "table",
        "kind",
        "new_schema",
        "new_table",
        "rows_may_change",
        "may_be_noop",
        "captured",
        "new_captured",
    ]


def test_chunk_facts_hold_no_row() -> None:
    """R115: names, sequence, position and whether it is the last chunk."""
    fields = {field.name for field in attrs.fields(type(chunk_facts("a.b")))}
    assert fields == {"schema", "table", "sequence", "position", "final"}
