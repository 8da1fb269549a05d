"""The strict decoder against streams built byte by byte."""

import ast
import contextlib
import mmap
import struct
from collections.abc import Iterable
from pathlib import Path

import attrs
import pytest
from helpers.binlog_stream import (
    ANONYMOUS,
    DELETE,
    GTID,
    PAYLOAD,
    TAGGED,
    UPDATE,
    WRITE,
    Stream,
    begin,
    committed,
    event,
    format_event,
    gtid,
    mapped,
    post_headers,
    query,
    row,
    rows,
    stream,
    xid,
)
from helpers.event_builder import tagged_gtid
from helpers.table_bytes import integer, varchar

from capstan.core.binlog.offline import transactions
from capstan.core.binlog.offline.decode_errors import DecodeError, DecodeErrorKind
from capstan.core.binlog.offline.format_description import FormatDescription
from capstan.core.binlog.offline.outcomes import (
    CommittedTransaction,
    IncompleteTransaction,
    RolledBack,
)
from capstan.core.binlog.offline.transactions import TransactionDecoder
from capstan.core.changes import Op

CRC32 = FormatDescription.parse(format_event(), 0)
OFF = FormatDescription.parse(format_event(checksums=False), 0)


def decoder(description: FormatDescription = CRC32) -> TransactionDecoder:
    """A decoder with the default limits."""
    return TransactionDecoder(description)


def fed(
    made: Stream, used: TransactionDecoder | None = None
) -> list[CommittedTransaction | RolledBack]:
    """Everything that a stream finishes."""
    used = used or decoder()
    steps = [used.feed(made.data, offset) for offset in made.offsets]
    return [step.outcome for step in steps if step.outcome is not None]


def one(events: Iterable[bytes]) -> CommittedTransaction:
    """The one committed transaction of these events."""
    (outcome,) = fed(stream(events))
    assert isinstance(outcome, CommittedTransaction)
    return outcome


def refused(used: TransactionDecoder, data: bytes, offset: int = 0) -> DecodeError:
    """The error for an event."""
    with pytest.raises(DecodeError) as caught:
        used.feed(data, offset)
    return caught.value


def refusal(events: Iterable[bytes], description: FormatDescription = CRC32) -> DecodeError:
    """The error for the last of these events; the ones before are accepted."""
    made = stream(events, checksum=description.checksums)
    used = decoder(description)
    for offset in made.offsets[:-1]:
        used.feed(made.data, offset)
    error = refused(used, made.data, made.offsets[-1])
    assert error.offset == made.offsets[-1]
    assert not used.active
    assert used.finish() is None
    return error


# -- one event a call ------------------------------------------------------------------------------


def test_a_decoder_follows_its_format_description() -> None:
    """R199, R263: the description decides about checksums and layouts."""
    plain = stream(
        [
            begin(checksum=False),
            mapped(checksum=False),
            rows(WRITE, [row(1)], checksum=False),
            xid(checksum=False),
        ],
        checksum=False,
    )
    (outcome,) = fed(plain, decoder(OFF))
    assert isinstance(outcome, CommittedTransaction)
    assert outcome.row_changes == 1
    assert refused(decoder(CRC32), plain.data, 4).kind is DecodeErrorKind.CHECKSUM_MISMATCH


@pytest.mark.parametrize(
    ("name", "at", "length"), [("t2", 0, 11), ("t16", 3, 1), ("t19", 1, 6), ("t30", 2, 8)]
)
def test_every_event_has_the_fixed_part_it_must_have(name: str, at: int, length: int) -> None:
    """R174, R192, R199: another length in the description refuses the events of that type."""
    other = attrs.evolve(CRC32, post_header_lengths=post_headers(**{name: length}))
    error = refusal(committed()[: at + 1], other)
    assert error.kind is DecodeErrorKind.POST_HEADER_INVALID


def test_each_call_takes_one_event_and_says_how_long_it_is() -> None:
    """R200: the header's size leads from each event to the next."""
    made = stream(committed() + committed())
    used, offset, steps = decoder(), 4, 0
    while offset < len(made.data):
        assert offset in made.offsets
        offset += used.feed(made.data, offset).header.event_size
        steps += 1
    assert steps == 8
    assert used.finish() is None


@pytest.mark.parametrize("behind", [b"", b"\xff", b"\0" * 100, begin()])
def test_bytes_behind_the_event_are_not_looked_at(behind: bytes) -> None:
    """R201: only the current event is checked; what follows may be anything."""
    made = stream(committed())
    used = decoder()
    for offset, following in zip(made.offsets, [*made.offsets[1:], len(made.data)], strict=True):
        step = used.feed(made.data[:following] + behind, offset)
    assert step.outcome is not None


def test_a_memory_map_will_do() -> None:
    """R200: bytes and a memory map give the same."""
    made = stream(committed(row(1, "ä"), row(2, None)))
    with mmap.mmap(-1, len(made.data)) as mapped_memory:
        mapped_memory.write(made.data)
        for data in (made.data, mapped_memory):
            used = decoder()
            for offset in made.offsets:
                outcome = used.feed(data, offset).outcome
            assert isinstance(outcome, CommittedTransaction)
            assert outcome.row_events[0].rows.images == [(1, "ä"), (2, None)]


@pytest.mark.parametrize("flags", [(), (True,), (True, False, True), "nonsense"])
def test_signs_are_looked_at_for_row_events_only(flags: tuple[bool, ...]) -> None:
    """R202: given with any other event, right or wrong, they do nothing."""
    made = stream(committed())
    used = decoder()
    for place, offset in enumerate(made.offsets):
        step = used.feed(made.data, offset, (True,) if place == 2 else flags)
    assert step.outcome is not None


def test_signs_are_given_for_a_table_without_any() -> None:
    """R202: the caller's flags decide how integers of a table without signs are read."""
    columns = (integer("a"), varchar("b"), integer("c"))
    high = struct.pack("<I", 0xFFFFFFFF)
    image = b"\xf8" + high + b"\x00\x00" + high
    made = stream(
        [
            begin(),
            mapped(columns=columns, fields={}),
            rows(WRITE, [image], columns=3),
            xid(),
        ]
    )
    seen = []
    for flags in ((True, False), (False, True)):
        used = decoder()
        for offset in made.offsets:
            outcome = used.feed(made.data, offset, flags).outcome
        assert isinstance(outcome, CommittedTransaction)
        seen += outcome.row_events[0].rows.images
    assert seen == [(0xFFFFFFFF, b"", -1), (-1, b"", 0xFFFFFFFF)]


@pytest.mark.parametrize(
    ("fields", "flags", "kind"),
    [
        ({}, None, DecodeErrorKind.SIGNEDNESS_MISSING),
        ({}, (), DecodeErrorKind.SIGNEDNESS_CONFLICT),
        ({}, (True, True), DecodeErrorKind.SIGNEDNESS_CONFLICT),
        (None, (False,), DecodeErrorKind.SIGNEDNESS_CONFLICT),
        (None, (True, False), DecodeErrorKind.SIGNEDNESS_CONFLICT),
    ],
)
def test_signs_are_never_assumed(
    fields: dict[int, bytes] | None, flags: tuple[bool, ...] | None, kind: DecodeErrorKind
) -> None:
    """R202, R219: missing signs, another number of them and a contradiction are errors."""
    made = stream([begin(), mapped(fields=fields), rows(WRITE, [row(1)]), xid()])
    used = decoder()
    used.feed(made.data, made.offsets[0])
    used.feed(made.data, made.offsets[1])
    with pytest.raises(DecodeError) as caught:
        used.feed(made.data, made.offsets[2], flags)
    assert caught.value.kind is kind
    assert not used.active


# -- order -----------------------------------------------------------------------------------------

LIKELY_BODY = bytes(64)


@pytest.mark.parametrize("inside", [True, False])
def test_six_types_are_accepted(inside: bool) -> None:
    """R203, R204, R249, R250, R251, R253: every other event type is an error, in any state."""
    for kind in sorted(set(range(256)) - {2, 16, 19, 30, 31, 32}):
        before = [begin()] if inside else []
        error = refusal([*before, event(kind, LIKELY_BODY)])
        assert error.kind is DecodeErrorKind.EVENT_NOT_ACCEPTED
        assert error.event_type == kind


@pytest.mark.parametrize(
    "raw",
    [gtid(1), gtid(0, kind=ANONYMOUS), tagged_gtid(1, "tag"), event(PAYLOAD, LIKELY_BODY)],
)
def test_events_of_files_with_gtids_are_for_others(raw: bytes) -> None:
    """R249, R251: well-formed GTID, anonymous, tagged and payload events are errors here."""
    assert raw[4] in {GTID, ANONYMOUS, TAGGED, PAYLOAD}
    assert refusal([raw]).kind is DecodeErrorKind.EVENT_NOT_ACCEPTED
    assert refusal([begin(), raw]).kind is DecodeErrorKind.EVENT_NOT_ACCEPTED


@pytest.mark.parametrize(
    "raw",
    [
        mapped(),
        rows(WRITE, [row(1)]),
        rows(UPDATE, [row(1), row(2)]),
        rows(DELETE, [row(1)]),
        xid(),
        query(b"COMMIT"),
        query(b"ROLLBACK"),
    ],
)
def test_a_transaction_begins_with_begin(raw: bytes) -> None:
    """R205: outside a transaction everything but BEGIN is out of order."""
    assert refusal([raw]).kind is DecodeErrorKind.ORDER_INVALID
    assert refusal([*committed(), raw]).kind is DecodeErrorKind.ORDER_INVALID


@pytest.mark.parametrize("before", [1, 2, 3])
def test_begin_inside_a_transaction_is_an_error(before: int) -> None:
    """R206: transactions do not nest."""
    events = [*committed()[:before], begin()]
    assert refusal(events).kind is DecodeErrorKind.ORDER_INVALID


@pytest.mark.parametrize(
    "text",
    [
        b"XA START 'a'",
        b"XA END 'a'",
        b"XA PREPARE 'a'",
        b"XA COMMIT 'a'",
        b"CREATE TABLE t (a INT)",
        b"DROP TABLE t",
        b"ALTER TABLE t ADD b INT",
        b"TRUNCATE TABLE t",
        b"INSERT INTO t VALUES (1)",
        b"SAVEPOINT a",
        b"ROLLBACK TO a",
    ],
)
def test_other_statements_are_errors(text: bytes) -> None:
    """R250, R252, R253: XA, DDL and changes without row images are refused in any state."""
    assert refusal([query(text)]).kind is DecodeErrorKind.NOT_A_BOUNDARY
    assert refusal([begin(), query(text)]).kind is DecodeErrorKind.NOT_A_BOUNDARY


@pytest.mark.parametrize("kind", [5, 13, 14, 17, 18, 23, 24, 25, 29, 38, 39])
def test_events_of_other_grammars_are_errors(kind: int) -> None:
    """R250, R253: INTVAR, RAND, USER_VAR, LOAD, old and partial rows, ROWS_QUERY, XA_PREPARE."""
    error = refusal([begin(), mapped(), event(kind, LIKELY_BODY)])
    assert error.kind is DecodeErrorKind.EVENT_NOT_ACCEPTED


def test_rows_alone_are_not_committed_by_themselves() -> None:
    """R253: autocommit is never inferred: rows outside BEGIN are refused, not committed."""
    assert refusal([*committed(), mapped()]).kind is DecodeErrorKind.ORDER_INVALID
    made = stream(committed()[:3])
    assert fed(made) == []


def test_a_format_description_asks_for_another_decoder() -> None:
    """R237: a description is an error wherever it comes, and the decoder then waits for BEGIN."""
    raw = format_event()
    assert refusal([raw]).kind is DecodeErrorKind.EVENT_NOT_ACCEPTED
    assert refusal([begin(), raw]).kind is DecodeErrorKind.EVENT_NOT_ACCEPTED


# -- where events lie ------------------------------------------------------------------------------


def at_another_place(moved: int) -> DecodeError:
    """The error when the second event of a transaction begins elsewhere."""
    made = stream([begin()])
    end = len(made.data)
    used = decoder()
    used.feed(made.data, 4)
    raw = mapped()
    data = made.data[: end + min(moved, 0)] + b"\0" * max(moved, 0) + raw
    error = refused(used, data, end + moved)
    assert not used.active
    return error


def test_an_event_begins_where_the_last_one_ended() -> None:
    """R207: inside a transaction offsets must meet; between transactions they need not."""
    first, second = stream(committed()), stream(committed())
    far = first.data + b"\xff" * 1000 + second.data[4:]
    used = decoder()
    for offset in first.offsets:
        used.feed(far, offset)
    moved = len(first.data) + 1000 - 4
    for offset in second.offsets:
        outcome = used.feed(far, offset + moved).outcome
    assert outcome is not None


@pytest.mark.parametrize("moved", [1, 4, 1000])
def test_a_gap_is_an_error(moved: int) -> None:
    """R208: an event behind a gap is refused."""
    error = at_another_place(moved)
    assert error.kind is DecodeErrorKind.NOT_CONTIGUOUS
    assert error.detail.startswith("a gap")


@pytest.mark.parametrize("moved", [-1, -4])
def test_an_overlap_is_an_error(moved: int) -> None:
    """R209: an event that begins before the last one ended is refused."""
    error = at_another_place(moved)
    assert error.kind is DecodeErrorKind.NOT_CONTIGUOUS
    assert error.detail.startswith("an overlap")


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_repeated_offset_is_an_error(place: int) -> None:
    """R210: the same event twice is refused."""
    made = stream(committed())
    used = decoder()
    for offset in made.offsets[: place + 1]:
        used.feed(made.data, offset)
    error = refused(used, made.data, made.offsets[place])
    assert error.kind is DecodeErrorKind.NOT_CONTIGUOUS


@pytest.mark.parametrize("place", [1, 2])
def test_left_out_events_leave_a_gap(place: int) -> None:
    """R236: an event that the caller leaves out is missed by its bytes."""
    events = committed()
    events.insert(place, event(29, b"\x01x"))
    made = stream(events)
    used = decoder()
    kept = [offset for at, offset in enumerate(made.offsets) if at != place]
    for offset in kept[:place]:
        used.feed(made.data, offset)
    assert refused(used, made.data, kept[place]).kind is DecodeErrorKind.NOT_CONTIGUOUS


@pytest.mark.parametrize("lie", [-1, 1, 0x7FFFFFFF, -4])
def test_what_headers_say_about_positions_does_not_matter(lie: int) -> None:
    """R211: a wrong next position harms nothing, and a right one excuses no gap."""
    (outcome,) = fed(stream(committed(), lie=max(lie, -4)))
    assert isinstance(outcome, CommittedTransaction)
    made = stream(committed())
    used = decoder()
    used.feed(made.data, made.offsets[0])
    moved = made.data[: made.offsets[1]] + b"\0" + made.data[made.offsets[1] :]
    error = refused(used, moved, made.offsets[1] + 1)
    assert error.kind is DecodeErrorKind.NOT_CONTIGUOUS


@pytest.mark.parametrize("offset", [-1, -19, 10**6, 1 << 70])
def test_offsets_outside_the_input_are_errors(offset: int) -> None:
    """R198: an offset that is no place in the input is `truncated`, never another exception."""
    assert refused(decoder(), begin(), offset).kind is DecodeErrorKind.TRUNCATED


# -- steps -----------------------------------------------------------------------------------------


def test_begin_opens_a_transaction() -> None:
    """R212: BEGIN gives no outcome, and a transaction is under way."""
    used = decoder()
    step = used.feed(begin(), 0)
    assert step.outcome is None
    assert used.active


def test_a_table_map_gives_nothing() -> None:
    """R213: TABLE_MAP gives no outcome, and the rows of its statement can be read."""
    made = stream(committed())
    used = decoder()
    outcomes = [used.feed(made.data, offset).outcome for offset in made.offsets[:3]]
    assert outcomes == [None, None, None]
    assert used.active


def test_rows_stay_inside_until_they_are_committed() -> None:
    """R214, R218: row events give no outcome; what is committed holds all of them, whole."""
    events = [
        begin(),
        mapped(),
        rows(WRITE, [row(1), row(2, None)], last=False),
        rows(DELETE, [row(3)]),
        xid(),
    ]
    made = stream(events)
    used = decoder()
    steps = [used.feed(made.data, offset) for offset in made.offsets]
    assert [step.outcome for step in steps[:-1]] == [None] * 4
    for step in steps[:-1]:
        assert step._fields == ("header", "outcome")
    outcome = steps[-1].outcome
    assert isinstance(outcome, CommittedTransaction)
    assert [(e.op, e.rows.images) for e in outcome.row_events] == [
        (Op.INSERT, [(1, "n"), (2, None)]),
        (Op.DELETE, [(3, "n")]),
    ]
    assert [e.offset for e in outcome.row_events] == [made.offsets[2], made.offsets[3]]
    assert [e.table_id for e in outcome.row_events] == [80, 80]


@pytest.mark.parametrize("closing", [xid(), query(b"COMMIT")])
def test_xid_and_commit_close_a_transaction(closing: bytes) -> None:
    """R215: both give the transaction and leave nothing behind."""
    made = stream(committed(closing=closing))
    used = decoder()
    (outcome,) = fed(made, used)
    assert isinstance(outcome, CommittedTransaction)
    assert not used.active
    assert used.finish() is None


def test_rollback_drops_the_rows() -> None:
    """R216, R217: a rollback tells where it was and how much it undid, and holds no row."""
    events = [begin(), mapped(), rows(UPDATE, [row(1), row(2), row(3), row(4)])]
    made = stream([*events, query(b"ROLLBACK")])
    (outcome,) = fed(made)
    assert outcome == RolledBack(start_offset=4, end_offset=len(made.data), discarded=2)
    assert {field.name for field in attrs.fields(RolledBack)} == {
        "start_offset",
        "end_offset",
        "discarded",
    }


def test_a_rollback_of_nothing_is_one_too() -> None:
    """R216: a block without rows can be rolled back."""
    made = stream([begin(), query(b"ROLLBACK")])
    assert fed(made) == [RolledBack(start_offset=4, end_offset=len(made.data), discarded=0)]


BROKEN_ROWS = event(WRITE, rows(WRITE, [row(1)])[19:-5])


@pytest.mark.parametrize(
    "last",
    [
        begin(),
        event(29, b""),
        event(XID_WRONG := 16, b""),
        BROKEN_ROWS,
        event(19, b"short"),
        event(30, b"short"),
        mapped(81, table=b"other") + b"",
        query(b"UPDATE t SET a = 1"),
    ],
    ids=range(8),
)
def test_an_error_drops_the_transaction_and_its_maps(last: bytes) -> None:
    """R219, R234: after an error neither rows nor table maps nor the transaction are there."""
    events = [*committed()[:3], last]
    if last[4] == 19 and len(last) > 40:
        events = [begin(), mapped(81), last]
    error = refusal(events)
    assert error.event_type == last[4]
    used = decoder()
    made = stream([*events, xid()])
    for offset in made.offsets[:-2]:
        used.feed(made.data, offset)
    refused(used, made.data, made.offsets[-2])
    assert refused(used, made.data, made.offsets[-1]).kind is DecodeErrorKind.ORDER_INVALID
    begun = stream([begin(), rows(WRITE, [row(1)])])
    used.feed(begun.data, begun.offsets[0])
    error = refused(used, begun.data, begun.offsets[1])
    assert error.kind is DecodeErrorKind.TABLE_MAP_MISSING


@pytest.mark.parametrize("last", [xid(), query(b"ROLLBACK"), event(29, b""), None])
def test_no_table_map_outlives_its_transaction(last: bytes | None) -> None:
    """R219, R231: a map whose statement was not ended goes with its transaction in any case."""
    used = decoder()
    made = stream([begin(), mapped(), *([last] if last else [])])
    for offset in made.offsets:
        with contextlib.suppress(DecodeError):
            used.feed(made.data, offset)
    used.finish()
    begun = stream([begin(), rows(WRITE, [row(1)])])
    used.feed(begun.data, begun.offsets[0])
    error = refused(used, begun.data, begun.offsets[1])
    assert error.kind is DecodeErrorKind.TABLE_MAP_MISSING


def test_something_unforeseen_drops_the_transaction_too() -> None:
    """R219: a caller's mistake ends the transaction as an error in the bytes does."""
    made = stream(committed())
    used = decoder()
    used.feed(made.data, made.offsets[0])
    used.feed(made.data, made.offsets[1])
    with pytest.raises(TypeError):
        used.feed(made.data, made.offsets[2], 5)  # type: ignore[arg-type]
    assert not used.active


def test_the_end_of_a_statement_clears_its_maps() -> None:
    """R220, R221: rows behind it need a new TABLE_MAP, and nothing was committed by it."""
    made = stream([begin(), mapped(), rows(WRITE, [row(1)]), rows(WRITE, [row(2)])])
    used = decoder()
    for offset in made.offsets[:3]:
        assert used.feed(made.data, offset).outcome is None
    assert used.active
    error = refused(used, made.data, made.offsets[3])
    assert error.kind is DecodeErrorKind.TABLE_MAP_MISSING


@pytest.mark.parametrize("table_id", [81, 0, 0xFFFFFF, 0xFFFFFFFFFFFF])
def test_rows_of_an_unmapped_table_are_an_error(table_id: int) -> None:
    """R222: a table id without its map is refused, the server's dummy id not excepted."""
    error = refusal([begin(), mapped(), rows(WRITE, [row(1)], table_id=table_id)])
    assert error.kind is DecodeErrorKind.TABLE_MAP_MISSING


def test_a_transaction_has_as_many_statements_as_it_likes() -> None:
    """R223, R263: each statement brings its own maps; one may bring several."""
    outcome = one(
        [
            begin(),
            mapped(80),
            rows(WRITE, [row(1)]),
            mapped(80),
            mapped(81, table=b"other"),
            rows(DELETE, [row(1)], last=False),
            rows(UPDATE, [row(2), row(3)], table_id=81),
            xid(),
        ]
    )
    assert [(e.op, e.shape.table, e.rows.images) for e in outcome.row_events] == [
        (Op.INSERT, "items", [(1, "n")]),
        (Op.DELETE, "items", [(1, "n")]),
        (Op.UPDATE, "other", [(2, "n"), (3, "n")]),
    ]


def test_every_row_event_keeps_the_table_as_it_was() -> None:
    """R224: another map under the same id changes nothing that was decoded before it."""
    renamed = (integer("key", unsigned=True, nullable=False), varchar("label", 200))
    events = [begin(), mapped(80), rows(WRITE, [row(1)])]
    events += [mapped(80, columns=renamed, table=b"new"), rows(WRITE, [row(2)]), xid()]
    outcome = one(events)
    shapes = [e.shape for e in outcome.row_events]
    assert [(shape.table, shape.names) for shape in shapes] == [
        ("items", ("id", "name")),
        ("new", ("key", "label")),
    ]


def test_one_number_for_two_tables_in_a_statement_is_an_error() -> None:
    """R213, R224: inside a statement a table id means one table; its map may come again."""
    assert one([begin(), mapped(), mapped(), rows(WRITE, [row(1)]), xid()]).row_changes == 1
    error = refusal([begin(), mapped(80), mapped(80, table=b"other")])
    assert error.kind is DecodeErrorKind.TABLE_MAP_CONFLICT


def test_transactions_are_independent_of_each_other() -> None:
    """R225, R263: results of one decoder do not change when it goes on."""
    events = [*committed(row(1)), begin(), query(b"ROLLBACK"), *committed(row(2), row(3))]
    made = stream(events)
    used = decoder()
    outcomes: list[CommittedTransaction | RolledBack] = []
    seen = []
    for offset in made.offsets:
        outcome = used.feed(made.data, offset).outcome
        if outcome is not None:
            outcomes.append(outcome)
            seen.append(repr(outcome))
    assert [repr(outcome) for outcome in outcomes] == seen
    first, second, third = outcomes
    assert isinstance(first, CommittedTransaction)
    assert isinstance(second, RolledBack)
    assert isinstance(third, CommittedTransaction)
    assert first.row_events[0].rows.images == [(1, "n")]
    assert third.row_events[0].rows.images == [(2, "n"), (3, "n")]
    assert first.end_offset == second.start_offset
    assert second.end_offset == third.start_offset


# -- what a commit gives ---------------------------------------------------------------------------


def test_a_committed_transaction_says_where_it_is_and_what_it_holds() -> None:
    """R226, R230: offsets, number of events, of changes and of bytes, and the XID."""
    made = stream(committed(row(1), row(2), closing=xid(1 << 63)))
    (outcome,) = fed(made)
    assert isinstance(outcome, CommittedTransaction)
    assert outcome.start_offset == 4
    assert outcome.end_offset == len(made.data)
    assert outcome.xid == 1 << 63
    assert outcome.event_count == 4
    assert outcome.row_changes == 2
    assert outcome.wire_bytes == outcome.end_offset - outcome.start_offset
    assert len(outcome.row_events) == 1


def test_a_query_commit_has_no_xid() -> None:
    """R227: a transaction that COMMIT closed has None, one that XID 0 closed has 0."""
    assert one(committed(closing=query(b"commit;"))).xid is None
    assert one(committed(closing=xid(0))).xid == 0


@pytest.mark.parametrize("closing", [xid(), query(b"COMMIT")])
def test_an_empty_transaction_is_one(closing: bytes) -> None:
    """R228: BEGIN and its end alone give a transaction without row events."""
    outcome = one([begin(), closing])
    assert outcome.row_events == ()
    assert (outcome.event_count, outcome.row_changes, outcome.tables) == (2, 0, ())


def test_a_pair_of_images_is_one_change() -> None:
    """R229: before and after of an update count once."""
    outcome = one([begin(), mapped(), rows(UPDATE, [row(1), row(2), row(3), row(4)]), xid()])
    assert outcome.row_changes == 2
    (event_,) = outcome.row_events
    assert event_.row_changes == 2
    assert [(c.old_values, c.values) for c in event_.rows] == [
        ((1, "n"), (2, "n")),
        ((3, "n"), (4, "n")),
    ]


def test_half_a_pair_is_an_error() -> None:
    """R219, R229: an update with an odd number of images is refused."""
    error = refusal([begin(), mapped(), rows(UPDATE, [row(1)])])
    assert error.kind is DecodeErrorKind.MALFORMED


def test_the_end_of_input_drops_what_is_under_way() -> None:
    """R231, R232, R263: an open transaction is reported as incomplete, and is not committed."""
    made = stream(committed())
    for events in (1, 2, 3):
        used = decoder()
        for offset in made.offsets[:events]:
            used.feed(made.data, offset)
        end = made.offsets[events]
        assert used.finish() == IncompleteTransaction(
            start_offset=4,
            end_offset=end,
            event_count=events,
            row_changes=int(events == 3),
            wire_bytes=end - 4,
        )
        assert not used.active
        assert used.finish() is None
        assert refused(used, made.data, made.offsets[3]).kind is DecodeErrorKind.ORDER_INVALID


def test_the_end_of_input_between_transactions_is_fine() -> None:
    """R233: nothing under way, nothing to report."""
    used = decoder()
    assert used.finish() is None
    fed(stream(committed()), used)
    assert used.finish() is None


def test_dropped_rows_never_come_back() -> None:
    """R234: the closing event of a transaction that had an error is an error itself."""
    for closing in (xid(), query(b"COMMIT"), query(b"ROLLBACK")):
        made = stream([*committed()[:3], event(29, b""), closing])
        used = decoder()
        for offset in made.offsets[:3]:
            used.feed(made.data, offset)
        refused(used, made.data, made.offsets[3])
        error = refused(used, made.data, made.offsets[4])
        assert error.kind is DecodeErrorKind.ORDER_INVALID


def test_a_new_begin_works_after_an_error() -> None:
    """R235, R263: recovery is a new explicit BEGIN, with new table maps and nothing of before."""
    made = stream([*committed(row(1))[:3], event(29, b""), *committed(row(2))])
    used = decoder()
    for offset in made.offsets[:3]:
        used.feed(made.data, offset)
    refused(used, made.data, made.offsets[3])
    outcomes = [used.feed(made.data, offset).outcome for offset in made.offsets[4:]]
    assert isinstance(outcomes[-1], CommittedTransaction)
    assert outcomes[-1].start_offset == made.offsets[4]
    assert outcomes[-1].event_count == 4
    assert [e.rows.images for e in outcomes[-1].row_events] == [[(2, "n")]]


# -- a transaction at a time -----------------------------------------------------------------------


def test_decode_gives_what_feed_gives() -> None:
    """R200, R225: a whole transaction a call is the same as an event a call."""
    made = stream([*committed(row(1)), begin(), query(b"ROLLBACK"), *committed(row(2), row(3))])
    used, offset, outcomes = decoder(), 4, []
    while offset < len(made.data):
        outcome, offset = used.decode(made.data, offset)
        outcomes.append(outcome)
    assert list(map(repr, outcomes)) == list(map(repr, fed(made)))


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_a_transaction_may_come_in_pieces(pieces: int) -> None:
    """R207, R231: where the buffer ends between two events, decoding goes on with the next one."""
    made = stream(committed(row(1)))
    used = decoder()
    cut = made.offsets[pieces]
    assert used.decode(made.data[:cut], 4) == (None, cut)
    assert used.active
    outcome, end = used.decode(made.data[cut:], cut, base=cut)
    assert isinstance(outcome, CommittedTransaction)
    assert (outcome.start_offset, outcome.end_offset, end) == (4, len(made.data), len(made.data))


def test_a_buffer_may_be_a_part_of_the_file() -> None:
    """R207: offsets are those of the file wherever the buffer begins; before it is nothing."""
    made = stream(committed(), base=b"")
    far = 1 << 40
    used = decoder()
    for offset in made.offsets:
        outcome = used.feed(made.data, far + offset, base=far).outcome
    assert isinstance(outcome, CommittedTransaction)
    assert (outcome.start_offset, outcome.end_offset) == (far, far + len(made.data))
    with pytest.raises(DecodeError) as caught:
        decoder().feed(made.data, far - 1, base=far)
    assert (caught.value.kind, caught.value.offset) == (DecodeErrorKind.TRUNCATED, far - 1)


def test_decode_names_the_event_that_is_wrong() -> None:
    """R219: errors of the second and of later events have their own offsets."""
    for place in range(4):
        events = committed()
        events[place] = event(29, b"")
        made = stream(events)
        used = decoder()
        with pytest.raises(DecodeError) as caught:
            used.decode(made.data, 4)
        assert caught.value.offset == made.offsets[place]
        assert not used.active


def test_decode_refuses_an_event_that_is_cut_off() -> None:
    """R198, R219: a buffer that ends inside an event drops the transaction."""
    made = stream(committed())
    for end in range(5, len(made.data)):
        used = decoder()
        if end in made.offsets:
            assert used.decode(made.data[:end], 4) == (None, end)
            continue
        with pytest.raises(DecodeError) as caught:
            used.decode(made.data[:end], 4)
        assert caught.value.kind is DecodeErrorKind.TRUNCATED
        assert caught.value.offset == max(at for at in made.offsets if at <= end)


def test_decode_asks_for_signs_table_by_table() -> None:
    """R202: the caller's function is given each row event's table and answers for it."""
    made = stream(
        [
            begin(),
            mapped(fields={}),
            mapped(81, table=b"full"),
            rows(WRITE, [row(0xFFFFFFFF)], last=False),
            rows(WRITE, [row(0xFFFFFFFF)], table_id=81),
            xid(),
        ]
    )
    signs = {"items": (False,), "full": None}
    outcome, _ = decoder().decode(made.data, 4, lambda table: signs[table.table])
    assert isinstance(outcome, CommittedTransaction)
    assert [e.rows.images for e in outcome.row_events] == [[(-1, b"n")], [(0xFFFFFFFF, "n")]]


# -- rows that cannot be decoded -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (rows(WRITE, [row(1)[:-1]]), DecodeErrorKind.MALFORMED),
        (rows(WRITE, [row(1) + b"\0"]), DecodeErrorKind.MALFORMED),
        (rows(WRITE, [row(1)], columns=3), DecodeErrorKind.MALFORMED),
        (rows(WRITE, [b"\xfd" + row(1)[1:]]), DecodeErrorKind.MALFORMED),
        (rows(WRITE, [row(1)[:-1] + b"\xff"]), DecodeErrorKind.UNDECODABLE_TEXT),
    ],
)
def test_rows_that_do_not_add_up_are_errors(raw: bytes, kind: DecodeErrorKind) -> None:
    """R219: a row event is exact or refused, and the error names columns, never values."""
    error = refusal([begin(), mapped(), raw])
    assert error.kind is kind
    assert "shop.items" in error.detail


def test_an_image_without_all_columns_is_an_error() -> None:
    """R219: a partial row image (binlog_row_image below FULL) is refused, not filled up."""
    body = rows(WRITE, [row(1)])[19:-4]
    partial = body[:11] + b"\xfd" + body[12:]
    error = refusal([begin(), mapped(), event(WRITE, partial)])
    assert error.kind is DecodeErrorKind.ROW_IMAGE_NOT_FULL


@pytest.mark.parametrize("size", [0, 5, 7])
def test_events_shorter_than_their_fixed_part_are_errors(size: int) -> None:
    """R219: a table map or row event that cannot hold its table id and flags is malformed."""
    for kind in (19, WRITE, UPDATE, DELETE):
        error = refusal([begin(), mapped(), event(kind, bytes(size))])
        assert error.kind is DecodeErrorKind.MALFORMED


def test_a_type_that_is_not_known_is_an_error() -> None:
    """R219: a table map with a column type that cannot be read is refused with its name."""
    body = bytearray(mapped(table=b"t")[19:-4])
    place = body.index(b"\x03\x0f")
    body[place] = 14
    error = refusal([begin(), event(19, bytes(body))])
    assert error.kind is DecodeErrorKind.UNSUPPORTED_COLUMN_TYPE
    assert error.detail == "shop.t.id: NEWDATE"


# -- counting without keeping ----------------------------------------------------------------------


def test_counting_gives_the_same_totals_without_rows() -> None:
    """R226, R258: without rows kept, every count is what it is with them."""
    events = [
        begin(),
        mapped(80),
        mapped(81, table=b"other"),
        rows(WRITE, [row(1), row(2)], last=False),
        rows(UPDATE, [row(1), row(2)], table_id=81, last=False),
        rows(DELETE, [row(3)]),
        xid(5),
    ]
    made = stream(events + committed())
    kept = fed(made)
    counted = fed(made, TransactionDecoder(CRC32, keep_rows=False))
    for one_kept, one_counted in zip(kept, counted, strict=True):
        assert isinstance(one_kept, CommittedTransaction)
        assert isinstance(one_counted, CommittedTransaction)
        assert one_counted.row_events == ()
        assert one_counted.tables == one_kept.tables
        assert one_counted._replace(counted=None) == one_kept._replace(row_events=())
    first = kept[0]
    assert isinstance(first, CommittedTransaction)
    assert [(t.table, t.inserts, t.updates, t.deletes, t.row_events) for t in first.tables] == [
        ("items", 2, 0, 1, 2),
        ("other", 0, 1, 0, 1),
    ]
    assert [t.row_changes for t in first.tables] == [3, 1]
    assert sum(t.wire_bytes for t in first.tables) == sum(map(len, events[3:6]))


def test_counting_judges_every_row() -> None:
    """R219: rows that nobody keeps are decoded all the same."""
    made = stream([begin(), mapped(), rows(WRITE, [row(1)[:-1] + b"\xff"])])
    used = TransactionDecoder(CRC32, keep_rows=False)
    used.feed(made.data, made.offsets[0])
    used.feed(made.data, made.offsets[1])
    error = refused(used, made.data, made.offsets[2])
    assert error.kind is DecodeErrorKind.UNDECODABLE_TEXT


def test_counting_needs_no_signs() -> None:
    """R202, R258: no count depends on a sign; one that is given is checked all the same."""
    made = stream([begin(), mapped(fields={}), rows(WRITE, [row(1)]), xid()])
    (outcome,) = fed(made, TransactionDecoder(CRC32, keep_rows=False))
    assert isinstance(outcome, CommittedTransaction)
    assert outcome.row_changes == 1
    used = TransactionDecoder(CRC32, keep_rows=False)
    used.feed(made.data, made.offsets[0])
    used.feed(made.data, made.offsets[1])
    with pytest.raises(DecodeError) as caught:
        used.feed(made.data, made.offsets[2], (True, True))
    assert caught.value.kind is DecodeErrorKind.SIGNEDNESS_CONFLICT


# -- what stays unsaid and undone ------------------------------------------------------------------


def test_no_value_is_printed() -> None:
    """R217, R218: neither results nor errors print a row's values."""
    outcome = one(committed(row(12345678, "hunter2")))
    assert outcome.row_events[0].rows.images == [(12345678, "hunter2")]
    for text in (repr(outcome), repr(outcome.row_events[0]), repr(outcome.row_events)):
        assert "hunter2" not in text
        assert "12345678" not in text


def test_engines_are_not_judged() -> None:
    """R254: whether a table's engine can roll back is said to be unknown here."""
    assert "whether a table's engine can roll back" in (transactions.__doc__ or "")


def test_the_decoders_write_nowhere() -> None:
    """R261: nothing here can reach a database or a file, and nothing promises a delivery."""
    folder = Path(transactions.__file__).parent
    allowed = (
        "capstan.core",
        "attrs",
        "collections.abc",
        "enum",
        "operator",
        "re",
        "struct",
        "typing",
        "zlib",
    )
    for file in folder.glob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").startswith(allowed), file.name
            elif isinstance(node, ast.Import):
                assert all(name.name in allowed for name in node.names), file.name
        assert "exactly-once" not in file.read_text(encoding="utf-8")
