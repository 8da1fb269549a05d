"""The fold: what every shape of event stream comes to."""

import pickle
from collections.abc import Sequence

import pytest
from helpers import event_builder as e

from capstan.core.assembly import Fold
from capstan.core.binlog.framing import Packets
from capstan.core.changes import Item, Op, SchemaChangeGroup, Transaction
from capstan.core.epoch import Epoch
from capstan.core.gtid import Gtid, GtidSet
from capstan.core.halts import Halted, HaltReason
from capstan.core.limits import Budget
from capstan.core.shapes import TABLE, Shape, State
from capstan.core.tables import CaptureList
from capstan.core.watermark import Anchor

SERVER = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"


def packed(raws: Sequence[bytes]) -> Packets:
    return e.packets_of(raws)


def new_fold(
    *patterns: str,
    start: str = "",
    anchor: Anchor | None = None,
    server: str = SERVER,
    budget: Budget | None = None,
) -> Fold:
    fold = Fold(CaptureList.parse(patterns or ("shop.*",)), budget or Budget())
    fold.open(Epoch(start=GtidSet.parse(start), server_uuid=server, anchor=anchor))
    assert fold.feed(packed(e.opening())) == []
    return fold


def fold_all(*raws: bytes, **options: str) -> tuple[list[Item], Fold]:
    fold = new_fold(**options)
    return fold.feed(packed(raws)), fold


def reason(fold: Fold) -> HaltReason | None:
    return None if fold.halt is None else fold.halt.reason


def transactions(items: Sequence[Item]) -> list[Transaction]:
    return [item for item in items if isinstance(item, Transaction)]


BLOCK = [e.gtid(1), e.query(b"BEGIN"), e.table_map(80), e.rows(30, 80, [(1, "a"), (2, None)])]


class TestTerminators:
    def test_xid_releases_every_change_in_order(self) -> None:
        """R1: exactly one transaction with all buffered changes."""
        raws = [*BLOCK, e.table_map(80), e.rows(31, 80, [(1, "a"), (1, "b")])]
        raws += [e.table_map(80), e.rows(32, 80, [(2, None)]), e.xid()]

        items, _ = fold_all(*raws)

        (transaction,) = transactions(items)
        assert [c.op for c in transaction.changes] == [Op.INSERT, Op.INSERT, Op.UPDATE, Op.DELETE]
        assert [c.values for c in transaction.changes] == [(1, "a"), (2, None), (1, "b"), None]
        assert [c.old_values for c in transaction.changes] == [None, None, (1, "a"), (2, None)]
        assert transaction.gtid == Gtid(e.SOURCE, "", 1)

    @pytest.mark.parametrize("text", [b"COMMIT", b"commit", b"  Commit \n"])
    def test_query_commit_releases_like_xid(self, text: bytes) -> None:
        """R2, R3, R16, R17: COMMIT ends a MyISAM group, adds nothing and is no schema change."""
        items, fold = fold_all(*BLOCK, e.query(text))

        assert [len(t.changes) for t in transactions(items)] == [2]
        assert len(items) == 1
        assert not fold.building

    @pytest.mark.parametrize("text", [b"COMMIT;", b"COMMIT WORK", b"START TRANSACTION"])
    def test_a_boundary_is_never_matched_by_part(self, text: bytes) -> None:
        """R17, D21: only what the server itself writes bounds a transaction."""
        items, fold = fold_all(*BLOCK, e.query(text))

        assert items == []
        assert fold.halt is not None

    def test_begin_yields_nothing(self) -> None:
        """R4, R10: rows stay inside until a terminator comes."""
        items, fold = fold_all(*BLOCK)

        assert items == []
        assert fold.building

    def test_a_lone_ddl_ends_its_gtid(self) -> None:
        """R5, R6, R18: one schema change, and the position holds its GTID."""
        items, _ = fold_all(e.gtid(1), e.query(b"DROP TABLE `shop`.`items`"))

        (group,) = items
        assert isinstance(group, SchemaChangeGroup)
        (change,) = group.changes
        assert (change.schema, change.table, change.kind) == ("shop", "items", "drop_table")
        assert str(change.position) == f"{e.SOURCE}:1"

    def test_ddls_in_a_row_make_one_interval(self) -> None:
        """R18, R36: N statements move the watermark by N."""
        raws = []
        for number in range(1, 8):
            raws += [e.gtid(number), e.query(b"CREATE TABLE x%d (a int)" % number)]

        items, _ = fold_all(*raws)

        last = items[-1]
        assert isinstance(last, SchemaChangeGroup)
        assert str(last.changes[0].position) == f"{e.SOURCE}:1-7"

    def test_a_statement_text_is_unreachable(self) -> None:
        """R7, R8: neither repr nor pickle nor attributes hold a literal of the statement."""
        text = b"CREATE TABLE t (a varchar(40) DEFAULT 'sentinel-literal')"

        (group,), _ = fold_all(e.gtid(1), e.query(text))

        assert isinstance(group, SchemaChangeGroup)
        assert "sentinel" not in repr(group)
        assert b"sentinel" not in pickle.dumps(group.changes)

    def test_several_objects_of_one_statement_come_together(self) -> None:
        """R5, D20: a multi-table DROP is one group of several changes at one position."""
        (group,), _ = fold_all(e.gtid(1), e.query(b"DROP TABLE a, other.b, c"))

        assert isinstance(group, SchemaChangeGroup)
        assert [(c.schema, c.table) for c in group.changes] == [
            ("shop", "a"),
            ("other", "b"),
            ("shop", "c"),
        ]
        assert [c.captured for c in group.changes] == [True, False, True]

    def test_create_table_select_yields_both_under_one_gtid(self) -> None:
        """R9, D20: the schema change first, without its own GTID in the position, then the rows."""
        raws = [
            e.gtid(1),
            e.query(b"BEGIN"),
            e.query(b"CREATE TABLE `items` (a int) START TRANSACTION"),
        ]
        raws += [*BLOCK[2:], e.xid()]

        items, _ = fold_all(*raws)

        group, transaction = items
        assert isinstance(group, SchemaChangeGroup)
        assert isinstance(transaction, Transaction)
        assert group.rows_follow
        assert str(group.changes[0].position) == ""
        assert len(transaction.changes) == 2
        assert str(transaction.position) == f"{e.SOURCE}:1"

    def test_create_table_select_of_nothing_moves_by_itself(self) -> None:
        """D20: without rows the schema change carries its GTID."""
        raws = [
            e.gtid(1),
            e.query(b"BEGIN"),
            e.query(b"CREATE TABLE `items` (a int) START TRANSACTION"),
        ]

        (group,), _ = fold_all(*raws, e.xid())

        assert isinstance(group, SchemaChangeGroup)
        assert not group.rows_follow
        assert str(group.changes[0].position) == f"{e.SOURCE}:1"


class TestHalts:
    def test_a_halt_keeps_what_was_finished_and_drops_what_was_not(self) -> None:
        """R11, R14, R15: earlier transactions leave, the failing one never does."""
        items, fold = fold_all(*e.insert(1, 1), e.gtid(2), *BLOCK[1:], e.event(26, b"\x01\x00\x00"))

        assert [t.gtid.number for t in transactions(items)] == [1]
        assert reason(fold) is HaltReason.SOURCE_INCIDENT

    def test_a_halted_fold_refuses_what_follows(self) -> None:
        """R12, R13: no later event, terminators included, gets the rows out."""
        _, fold = fold_all(*BLOCK, e.event(26, b""))

        with pytest.raises(Halted) as caught:
            fold.feed(packed([e.xid()]))
        assert caught.value.halt == fold.halt

    def test_a_new_epoch_begins_clean(self) -> None:
        """R12: what an older epoch left half-built is gone."""
        _, fold = fold_all(*BLOCK)
        fold.open(Epoch(start=GtidSet(), server_uuid=SERVER))

        items = fold.feed(packed([*e.opening(), *e.insert(1, 9)]))

        assert [[c.values for c in t.changes] for t in transactions(items)] == [[(9, "n9")]]

    @pytest.mark.parametrize(
        ("raws", "expected"),
        [
            ([e.xid()], HaltReason.EVENT_ORDER_INVALID),
            ([e.query(b"BEGIN")], HaltReason.EVENT_ORDER_INVALID),
            ([e.gtid(1), e.xid()], HaltReason.EVENT_ORDER_INVALID),
            ([e.gtid(1), e.gtid(2)], HaltReason.EVENT_ORDER_INVALID),
            ([e.gtid(1), e.table_map(80)], HaltReason.EVENT_ORDER_INVALID),
            ([*BLOCK, e.gtid(2)], HaltReason.EVENT_ORDER_INVALID),
            ([*BLOCK, e.query(b"BEGIN")], HaltReason.EVENT_ORDER_INVALID),
            ([*BLOCK, e.rotate()], HaltReason.EVENT_ORDER_INVALID),
            ([*BLOCK, e.format_description()], HaltReason.EVENT_ORDER_INVALID),
            ([e.event(34, bytes(42))], HaltReason.ANONYMOUS_GTID),
            ([e.event(26, b"")], HaltReason.SOURCE_INCIDENT),
            ([*BLOCK[:2], e.rows(30, 80, [(1, "a")])], HaltReason.TABLE_MAP_MISSING),
            ([*BLOCK, e.rows(30, 80, [(1, "a")])], HaltReason.TABLE_MAP_MISSING),
            ([*BLOCK[:2], e.query(b"insert into t values (1)")], HaltReason.STATEMENT_BASED_CHANGE),
            ([*BLOCK[:2], e.query(b"drop table t")], HaltReason.STATEMENT_BASED_CHANGE),
            ([e.gtid(1), e.query(b"/* x */ update t set a=1")], HaltReason.STATEMENT_BASED_CHANGE),
            ([*BLOCK[:2], e.event(5, bytes(9))], HaltReason.STATEMENT_BASED_CHANGE),
            ([*BLOCK[:2], e.event(99, b"")], HaltReason.EVENT_UNKNOWN),
            ([e.event(250, b"")], HaltReason.EVENT_UNKNOWN),
            (
                [e.gtid(1), e.query(b"XA COMMIT X'61',X'',1")],
                HaltReason.UNSUPPORTED_TRANSACTION_SHAPE,
            ),
            (
                [e.gtid(1), e.query(b"XA ROLLBACK X'61',X'',1")],
                HaltReason.UNSUPPORTED_TRANSACTION_SHAPE,
            ),
            ([*BLOCK, e.query(b"ROLLBACK")], HaltReason.UNSUPPORTED_TRANSACTION_SHAPE),
        ],
    )
    def test_what_the_grammar_does_not_hold_is_a_named_halt(
        self, raws: list[bytes], expected: HaltReason
    ) -> None:
        """R11, D17, D18, D21, D22: each shape out of place ends in exactly one reason."""
        items, fold = fold_all(*raws)

        assert items == []
        assert reason(fold) is expected

    def test_an_unknown_type_with_the_ignorable_flag_is_passed_over(self) -> None:
        """An unknown event is ignored only when its writer says that it may be."""
        items, fold = fold_all(*BLOCK, e.event(99, b"", flags=0x80), e.xid())

        assert reason(fold) is None
        assert len(items) == 1

    def test_a_wrong_checksum_halts_before_anything_is_read(self) -> None:
        """R11, D23: a flipped bit anywhere is seen."""
        for position in range(19, len(BLOCK[3]) - 4):
            broken = bytearray(BLOCK[3])
            broken[position] ^= 1

            _, fold = fold_all(*BLOCK[:3], bytes(broken))

            assert reason(fold) is HaltReason.EVENT_CORRUPT

    def test_a_gap_inside_a_group_halts(self) -> None:
        """Inside a transaction each event begins where the last one ended."""
        begin, following = e.query(b"BEGIN"), e.table_map(80)
        start = e.event(33, e.gtid(1)[19:-4], log_pos=1000)
        fits = e.event(2, begin[19:-4], log_pos=1000 + len(begin))
        late = e.event(19, following[19:-4], log_pos=1001 + len(begin) + len(following))

        items, fold = fold_all(start, fits, late)

        assert items == []
        assert reason(fold) is HaltReason.EVENT_ORDER_INVALID

    def test_one_id_with_two_shapes_in_one_statement_halts(self) -> None:
        """A table map that changes under its rows is never guessed at."""
        _, fold = fold_all(*BLOCK[:3], e.table_map(80, table=b"others"))

        assert reason(fold) is HaltReason.EVENT_ORDER_INVALID

    def test_a_transaction_over_its_budget_halts(self) -> None:
        """D25: the limit is a named halt and nothing of the transaction leaves."""
        fold = new_fold(budget=Budget(total=100))
        raws = [e.gtid(1), e.query(b"BEGIN"), e.table_map(80)]

        items = fold.feed(
            packed([*raws, e.rows(30, 80, [(i, "x" * 50) for i in range(9)]), e.xid()])
        )

        assert items == []
        assert reason(fold) is HaltReason.TRANSACTION_TOO_LARGE


class TestXa:
    PREPARED = (
        e.gtid(1),
        e.query(b"XA START X'61',X'',1"),
        e.table_map(80),
        e.rows(30, 80, [(1, "a")]),
        e.query(b"XA END X'61',X'',1"),
    )

    def test_xa_start_opens_a_block_and_is_no_ddl(self) -> None:
        """R19, R20, R21, R22, R28: with `XA ` taken for DDL this would yield a schema change."""
        items, fold = fold_all(*self.PREPARED)

        assert items == []
        assert fold.building

    @pytest.mark.parametrize("body", [b"", b"\x00", b"\x01\x01\x00", bytes(200)])
    def test_xa_prepare_halts_whatever_its_body(self, body: bytes) -> None:
        """R23, R24, R25, R26, R27: by type alone; zero rows, zero schema changes, nothing moves."""
        items, fold = fold_all(*self.PREPARED, e.event(38, body))

        assert items == []
        assert reason(fold) is HaltReason.UNSUPPORTED_TRANSACTION_SHAPE

    def test_what_came_before_the_xa_is_kept(self) -> None:
        """R30: the halt takes nothing back."""
        items, fold = fold_all(*e.insert(9, 1), *self.PREPARED, e.event(38, b""))

        assert [t.gtid.number for t in transactions(items)] == [9]
        assert reason(fold) is HaltReason.UNSUPPORTED_TRANSACTION_SHAPE

    @pytest.mark.parametrize("text", [b"xa start X'61'", b"  XA   START X'61'"])
    def test_xa_is_known_by_its_prefix(self, text: bytes) -> None:
        """R21: letter case and surrounding blanks do not matter."""
        items, fold = fold_all(e.gtid(1), e.query(text), *self.PREPARED[2:])

        assert items == []
        assert fold.building


def compressed(*raws: bytes) -> bytes:
    """These events, as one TRANSACTION_PAYLOAD that is not compressed."""
    inside = b"".join(raw[:9] + (len(raw) - 4).to_bytes(4, "little") + raw[13:-4] for raw in raws)
    size = len(inside).to_bytes(2, "little")
    head = b"\x01\x03\xfc" + size + b"\x02\x03\xfc\xff\x00" + b"\x03\x03\xfc" + size + b"\0"
    return e.event(40, head + inside)


class TestCompressed:
    def test_a_payload_is_the_rest_of_its_group(self) -> None:
        """D22: the transaction inside leaves like any other, and the next one follows."""
        raws = [e.gtid(1), compressed(*BLOCK[1:], e.xid()), *e.insert(2, 7)]

        items, fold = fold_all(*raws)

        assert reason(fold) is None
        assert [len(t.changes) for t in transactions(items)] == [2, 1]
        assert str(transactions(items)[1].position) == f"{e.SOURCE}:1-2"

    @pytest.mark.parametrize(
        ("inside", "expected"),
        [
            (BLOCK[1:], HaltReason.EVENT_ORDER_INVALID),
            ([], HaltReason.EVENT_ORDER_INVALID),
            ([*BLOCK[1:], e.xid(), *e.insert(2, 1)], HaltReason.EVENT_CORRUPT),
            ([*BLOCK[1:], e.xid(), e.xid()], HaltReason.EVENT_ORDER_INVALID),
            ([*BLOCK[1:], e.event(38, b"")], HaltReason.UNSUPPORTED_TRANSACTION_SHAPE),
            ([*BLOCK[1:], e.event(99, b"")], HaltReason.EVENT_UNKNOWN),
        ],
    )
    def test_what_is_inside_follows_the_same_grammar(
        self, inside: list[bytes], expected: HaltReason
    ) -> None:
        """R23, D22: half a transaction, two, XA and unknown events are refused inside too."""
        items, fold = fold_all(e.gtid(1), compressed(*inside), e.xid())

        assert [t.gtid.number for t in transactions(items)] in ([], [1])
        assert reason(fold) is expected

    def test_a_payload_outside_a_group_halts(self) -> None:
        """D22: without a GTID before it, it belongs to nothing."""
        _, fold = fold_all(compressed(*BLOCK[1:], e.xid()))

        assert reason(fold) is HaltReason.EVENT_ORDER_INVALID


class TestControlInsideABlock:
    def test_savepoints_are_control(self) -> None:
        """D19: SAVEPOINT, RELEASE and ROLLBACK TO without rows since change nothing."""
        raws = [*BLOCK[:2], e.query(b"SAVEPOINT `COMMIT`"), *BLOCK[2:]]
        raws += [
            e.query(b"SAVEPOINT s2"),
            e.query(b"ROLLBACK TO `s2`"),
            e.query(b"RELEASE SAVEPOINT s2"),
        ]

        items, _ = fold_all(*raws, e.xid())

        assert [len(t.changes) for t in transactions(items)] == [2]

    def test_rolling_back_to_before_rows_halts(self) -> None:
        """D19: rows since the savepoint may have survived in part: never guessed."""
        items, fold = fold_all(
            *BLOCK[:2], e.query(b"SAVEPOINT a"), *BLOCK[2:], e.query(b"ROLLBACK TO a")
        )

        assert items == []
        assert reason(fold) is HaltReason.UNSUPPORTED_TRANSACTION_SHAPE

    def test_a_rolled_back_block_without_rows_advances(self) -> None:
        """D18: an empty rolled-back group is an empty transaction."""
        items, _ = fold_all(*BLOCK[:2], e.query(b"ROLLBACK"))

        assert [len(t.changes) for t in transactions(items)] == [0]

    def test_rows_query_text_is_passed_over(self) -> None:
        """R7: the statement beside the rows is never looked at, whatever it says."""
        items, _ = fold_all(*BLOCK[:2], e.event(29, b"\x06COMMIT"), *BLOCK[2:], e.xid())

        assert [len(t.changes) for t in transactions(items)] == [2]


class TestFilter:
    def test_a_filtered_transaction_is_released_empty(self) -> None:
        """R32, R34: it still leaves, with its GTID and without changes."""
        fold = new_fold("shop.items")
        items = fold.feed(packed([*e.insert(1, 1, table=b"secret"), *e.insert(2, 5)]))

        assert [len(t.changes) for t in transactions(items)] == [0, 1]

    def test_rows_of_a_filtered_table_are_never_decoded(self) -> None:
        """What is outside the capture list is not even read: garbage in it does not matter."""
        fold = new_fold("shop.items")
        garbage = e.event(30, (90).to_bytes(6, "little") + b"\x01\x00" + b"\xff" * 40)
        raws = [e.gtid(1), e.query(b"BEGIN"), e.table_map(90, table=b"secret"), garbage, e.xid()]

        items = fold.feed(packed(raws))

        assert [len(t.changes) for t in transactions(items)] == [0]

    def test_an_empty_transaction_is_released_empty(self) -> None:
        """R33: BEGIN, COMMIT."""
        items, _ = fold_all(*BLOCK[:2], e.query(b"COMMIT"))

        assert [len(t.changes) for t in transactions(items)] == [0]


class TestPositions:
    def test_each_transaction_knows_the_set_up_to_itself(self) -> None:
        """R31: the position is the processed set with this one, also with holes and two sources."""
        raws = [*e.insert(5, 1), *e.insert(7, 2), *e.insert(6, 3)]

        items, _ = fold_all(*raws, start=f"{e.OTHER}:1-3")

        assert [str(t.position) for t in transactions(items)] == [
            f"{e.SOURCE}:5,{e.OTHER}:1-3",
            f"{e.SOURCE}:5:7,{e.OTHER}:1-3",
            f"{e.SOURCE}:5-7,{e.OTHER}:1-3",
        ]

    def test_a_tagged_gtid_is_its_own_source(self) -> None:
        """D22: tags are part of the identity."""
        raws = [e.tagged_gtid(3, "blue"), *e.insert(1, 1)[1:]]

        items, _ = fold_all(*raws)

        assert str(transactions(items)[0].position) == f"{e.SOURCE}:blue:3"

    def test_commit_time_is_the_original_one(self) -> None:
        """The original commit counts, in microseconds, aware and UTC."""
        raws = [e.gtid(1, commit=1_800_000_000_000_000, original=1_700_000_000_123_456)]

        items, _ = fold_all(*raws, *e.insert(1, 1)[1:])

        assert transactions(items)[0].commit_time.isoformat() == "2023-11-14T22:13:20.123456+00:00"

    @pytest.mark.parametrize("start", [f"{e.SOURCE}:1-9", f"{e.SOURCE}:4"])
    def test_a_gtid_that_was_not_asked_for_halts(self, start: str) -> None:
        """D13: within one epoch nothing may come that is processed already."""
        items, fold = fold_all(*e.insert(4, 1), start=start)

        assert items == []
        assert reason(fold) is HaltReason.SOURCE_HISTORY_CHANGED

    def test_a_gtid_that_comes_twice_halts(self) -> None:
        """D13: the second one is another transaction."""
        items, fold = fold_all(*e.insert(4, 1), *e.insert(4, 1))

        assert len(items) == 1
        assert reason(fold) is HaltReason.SOURCE_HISTORY_CHANGED


def anchored(number: int = 4, commit: int = 1_700_000_000_000_001, server: str = SERVER) -> Anchor:
    gtid = Gtid(e.SOURCE, "", number)
    return Anchor(gtid=gtid, commit_micros=commit, arrived_micros=commit, server_uuid=server)


class TestAnchor:
    START = f"{e.SOURCE}:1-4"

    def test_the_anchored_group_is_passed_over(self) -> None:
        """D13: it comes by, unread and uncounted; what follows is new."""
        fold = new_fold(start=self.START, anchor=anchored(), budget=Budget(total=60))
        huge = [
            e.gtid(4),
            e.query(b"BEGIN"),
            e.table_map(80),
            e.rows(30, 80, [(1, "x" * 60)]),
            e.xid(),
        ]

        items = fold.feed(packed([*huge, *e.insert(5, 2)]))

        assert [t.gtid.number for t in transactions(items)] == [5]
        assert reason(fold) is None

    def test_an_anchored_ddl_is_passed_over(self) -> None:
        """D13: whatever the group is made of."""
        fold = new_fold(start=self.START, anchor=anchored())

        items = fold.feed(packed([e.gtid(4), e.query(b"DROP TABLE x"), *e.insert(5, 2)]))

        assert [t.gtid.number for t in transactions(items)] == [5]

    @pytest.mark.parametrize("commit", [1_700_000_000_000_000, 1_700_000_000_000_002])
    def test_another_transaction_under_its_gtid_halts(self, commit: int) -> None:
        """D13: the timestamp tells that the history was written anew."""
        fold = new_fold(start=self.START, anchor=anchored(commit=commit))

        assert fold.feed(packed(e.insert(4, 1))) == []
        assert reason(fold) is HaltReason.SOURCE_HISTORY_CHANGED

    def test_on_the_same_server_it_must_come_first(self) -> None:
        """D13: a stream that does not begin with it is another history."""
        fold = new_fold(start=self.START, anchor=anchored())

        assert fold.feed(packed(e.insert(5, 1))) == []
        assert reason(fold) is HaltReason.SOURCE_HISTORY_CHANGED

    def test_on_another_server_it_may_come_later(self) -> None:
        """D13: another server may have written its transactions in another order."""
        fold = new_fold(start=self.START, anchor=anchored(server="another"))

        items = fold.feed(packed([*e.insert(5, 1), *e.insert(4, 1), *e.insert(6, 1)]))

        assert [t.gtid.number for t in transactions(items)] == [5, 6]

    def test_on_another_server_only_the_original_time_counts(self) -> None:
        """D13: the immediate timestamp is that of the server which wrote it."""
        anchor = anchored(commit=1_600_000_000_000_000, server="another")
        fold = new_fold(start=self.START, anchor=anchor)
        raws = [e.gtid(4, original=1_600_000_000_000_000), *e.insert(4, 1)[1:]]

        assert fold.feed(packed(raws)) == []
        assert reason(fold) is None

    def test_on_the_same_server_both_times_count(self) -> None:
        """D13: same original, other immediate timestamp, same server: another history."""
        fold = new_fold(start=self.START, anchor=anchored(commit=1_600_000_000_000_000))
        raws = [e.gtid(4, original=1_600_000_000_000_000), *e.insert(4, 1)[1:]]

        assert fold.feed(packed(raws)) == []
        assert reason(fold) is HaltReason.SOURCE_HISTORY_CHANGED


class TestChecksums:
    def test_the_algorithm_is_the_files_own(self) -> None:
        """D23: checksums switched off and on at file boundaries change nothing."""
        off = [e.event(t[4], t[19:-4], checksum=False) for t in e.insert(2, 2)]
        raws = [*e.insert(1, 1), e.rotate(), e.format_description(checksums=False), *off]
        raws += [e.rotate(checksum=False), e.format_description(), *e.insert(3, 3)]

        items, fold = fold_all(*raws)

        assert reason(fold) is None
        assert [t.gtid.number for t in transactions(items)] == [1, 2, 3]

    def test_a_format_description_is_always_checked(self) -> None:
        """D23: it has a CRC32 also where its events have none."""
        off = bytearray(e.format_description(checksums=False))
        raws = [e.format_description(checksums=False), bytes(off[:30]) + b"\xff" + bytes(off[31:])]

        _, fold = fold_all(*raws)

        assert reason(fold) is HaltReason.EVENT_CORRUPT


def test_names_are_folded_where_the_server_folds_them() -> None:
    """D20: with lower_case_table_names a statement's letter case names the same table."""
    fold = Fold(CaptureList.parse(["shop.items"]), Budget())
    fold.open(Epoch(start=GtidSet(), server_uuid=SERVER, folds_names=True))

    (group,) = fold.feed(packed([*e.opening(), e.gtid(1), e.query(b"DROP TABLE Shop.ITEMS")]))

    assert isinstance(group, SchemaChangeGroup)
    assert [(c.schema, c.table, c.captured) for c in group.changes] == [("shop", "items", True)]


@pytest.mark.parametrize(
    ("text", "captured"), [(b"REPAIR TABLE elsewhere.x", True), (b"ANALYZE TABLE items", False)]
)
def test_what_may_have_changed_any_row_concerns_every_table(text: bytes, captured: bool) -> None:
    """D20: of statements without names only the harmless ones merely advance."""
    (group,), _ = fold_all(e.gtid(1), e.query(text))

    assert isinstance(group, SchemaChangeGroup)
    assert [(c.kind, c.captured) for c in group.changes] == [("other", captured)]


def test_events_cut_anywhere_between_feeds_fold_alike() -> None:
    """R10: how the stream is cut into pieces changes nothing."""
    raws = [*e.insert(1, 1, 2), e.heartbeat(), *e.insert(2, 3), e.gtid(3), e.query(b"DROP TABLE x")]
    whole, _ = fold_all(*raws)
    fold, single = new_fold(), []
    for raw in raws:
        single += fold.feed(packed([raw]))

    assert [i.gtid for i in single] == [i.gtid for i in whole]
    assert [str(t.position) for t in transactions(single)] == [
        str(t.position) for t in transactions(whole)
    ]


@pytest.mark.parametrize("state", [s for s in State if s is not State.HALTED])
def test_incident_and_xa_prepare_halt_in_every_open_state(state: State) -> None:
    """R23, D22: no state of the table lets them pass, but the one that drops the anchor's group."""
    cells = TABLE[state]

    for shape in (Shape.INCIDENT, Shape.XA_PREPARE):
        cell = cells.get(shape)
        assert cell is None or cell.state in (State.HALTED, State.SKIPPING)
