"""The GTID wrapper: prefixes and the transactions directly behind them."""

from collections.abc import Sequence

import pytest
from helpers.binlog_stream import (
    ANONYMOUS,
    WRITE,
    Stream,
    begin,
    committed,
    event,
    format_event,
    gtid,
    mapped,
    query,
    row,
    rows,
    stream,
    xid,
)
from helpers.event_builder import OTHER, SOURCE, tagged_gtid

from capstan.core.binlog.offline.decode_errors import DecodeError, DecodeErrorKind
from capstan.core.binlog.offline.decode_limits import TransactionLimits
from capstan.core.binlog.offline.format_description import FormatDescription
from capstan.core.binlog.offline.gtid_transactions import (
    GtidOutcome,
    GtidPrefix,
    GtidTransactionDecoder,
)
from capstan.core.binlog.offline.outcomes import (
    CommittedTransaction,
    IncompleteTransaction,
    RolledBack,
)
from capstan.core.binlog.offline.transactions import TransactionDecoder
from capstan.core.gtid import Gtid

CRC32 = FormatDescription.parse(format_event(), 0)
PREFIXES = [gtid(1), gtid(1, short=True), gtid(0, kind=ANONYMOUS), tagged_gtid(1, "tag")]
NAMES = ["gtid", "short", "anonymous", "tagged"]


def fed(made: Stream, used: GtidTransactionDecoder | None = None) -> list[GtidOutcome]:
    """Everything that a stream finishes."""
    used = used or GtidTransactionDecoder(CRC32)
    steps = [used.feed(made.data, offset) for offset in made.offsets]
    return [step.outcome for step in steps if step.outcome is not None]


def feed_all(used: TransactionDecoder | GtidTransactionDecoder, made: Stream) -> None:
    """Take every event of a stream."""
    for offset in made.offsets:
        used.feed(made.data, offset)


def decode_all(used: GtidTransactionDecoder, made: Stream) -> None:
    """Take every transaction of a stream."""
    offset = made.offsets[0]
    while offset < len(made.data):
        _, offset = used.decode(made.data, offset)


def refusal(events: Sequence[bytes], place: int = -1) -> DecodeError:
    """The error of the event at a place, by `feed` and by `decode`; nothing is left behind it."""
    made = stream(events)
    used = GtidTransactionDecoder(CRC32)
    at = made.offsets[place]
    for offset in made.offsets[: made.offsets.index(at)]:
        used.feed(made.data, offset)
    with pytest.raises(DecodeError) as caught:
        used.feed(made.data, at)
    assert not used.active
    assert used.finish() is None
    with pytest.raises(DecodeError) as again:
        decode_all(used, made)
    assert (again.value.kind, again.value.offset) == (caught.value.kind, at)
    return caught.value


@pytest.mark.parametrize("prefix", PREFIXES, ids=NAMES)
@pytest.mark.parametrize("closing", [xid(), query(b"COMMIT"), query(b"ROLLBACK")])
def test_a_prefix_is_tied_to_the_transaction_behind_it(prefix: bytes, closing: bytes) -> None:
    """R255: GTID, anonymous and tagged events belong to the transaction that directly follows."""
    made = stream([prefix, *committed(closing=closing)])
    (tied,) = fed(made)
    assert tied.prefix == GtidPrefix.parse(made.data, 4, CRC32)
    assert tied.prefix is not None
    assert tied.prefix.end_offset == made.offsets[1]
    assert tied.outcome.start_offset == made.offsets[1]
    assert tied.outcome.end_offset == len(made.data)


def test_prefixes_say_which_transaction_it_is() -> None:
    """R255, D22: uuid, tag and number; none for an anonymous one; times where there are any."""
    cases = {
        gtid(7, source=OTHER, micros=1 << 50): (Gtid(OTHER, "", 7), 1 << 50),
        gtid(7, short=True): (Gtid(SOURCE, "", 7), 0),
        gtid(0, kind=ANONYMOUS, micros=9): (None, 9),
        gtid(0, kind=ANONYMOUS, short=True): (None, 0),
        tagged_gtid(8, "blue", commit=11): (Gtid(SOURCE, "blue", 8), 11),
    }
    for raw, (identity, micros) in cases.items():
        prefix = GtidPrefix.parse(b"xx" + raw, 2, CRC32)
        assert (prefix.gtid, prefix.commit_micros) == (identity, micros)
        assert (prefix.offset, prefix.end_offset) == (2, 2 + len(raw))


def test_each_transaction_has_its_own_prefix() -> None:
    """R255: prefixes do not carry over to the next transaction."""
    made = stream([gtid(1), *committed(), gtid(2), *committed(), tagged_gtid(3, "t"), *committed()])
    gtids = [tied.prefix and tied.prefix.gtid for tied in fed(made)]
    assert gtids == [Gtid(SOURCE, "", 1), Gtid(SOURCE, "", 2), Gtid(SOURCE, "t", 3)]


def test_files_without_gtids_have_no_prefixes() -> None:
    """R255: where no transaction has one, none is missing."""
    (first, second) = fed(stream([*committed(), *committed()]))
    assert first.prefix is None
    assert second.prefix is None


@pytest.mark.parametrize("prefix", PREFIXES, ids=NAMES)
@pytest.mark.parametrize(
    ("other", "kind"),
    [
        (gtid(2), DecodeErrorKind.ORDER_INVALID),
        (gtid(0, kind=ANONYMOUS), DecodeErrorKind.ORDER_INVALID),
        (query(b"COMMIT"), DecodeErrorKind.ORDER_INVALID),
        (query(b"ROLLBACK"), DecodeErrorKind.ORDER_INVALID),
        (query(b"CREATE TABLE t (a INT)"), DecodeErrorKind.NOT_A_BOUNDARY),
        (xid(), DecodeErrorKind.ORDER_INVALID),
        (mapped(), DecodeErrorKind.ORDER_INVALID),
        (rows(WRITE, [row(1)]), DecodeErrorKind.ORDER_INVALID),
        (event(40, bytes(50)), DecodeErrorKind.EVENT_NOT_ACCEPTED),
        (event(4, bytes(12)), DecodeErrorKind.EVENT_NOT_ACCEPTED),
    ],
    ids=range(10),
)
def test_a_prefix_before_anything_else_is_an_error(
    prefix: bytes, other: bytes, kind: DecodeErrorKind
) -> None:
    """R257: only BEGIN may follow a prefix."""
    assert refusal([prefix, other]).kind is kind


def test_a_prefix_is_followed_directly() -> None:
    """R255, R257: a BEGIN that does not begin where the prefix ends is an error."""
    first, second = stream([gtid(1)]), committed()
    far = first.data + b"\0" * 10 + stream(second).data[4:]
    used = GtidTransactionDecoder(CRC32)
    used.feed(far, 4)
    with pytest.raises(DecodeError) as caught:
        used.feed(far, len(first.data) + 10)
    assert caught.value.kind is DecodeErrorKind.NOT_CONTIGUOUS
    assert not used.active


@pytest.mark.parametrize("place", [1, 2, 3])
@pytest.mark.parametrize("prefix", PREFIXES, ids=NAMES)
def test_a_prefix_inside_a_transaction_is_an_error(prefix: bytes, place: int) -> None:
    """R255, R257: it drops the transaction, as any error does."""
    events = [gtid(1), *committed()]
    events.insert(place + 1, prefix)
    assert refusal(events, place + 1).kind is DecodeErrorKind.ORDER_INVALID


def test_a_lost_prefix_does_not_make_a_transaction_without_one() -> None:
    """R257: after a prefix that was refused, its transaction does not pass for one without."""
    broken = bytearray(gtid(1))
    broken[30] ^= 1
    begun = committed()
    data = bytes(broken) + b"".join(begun)
    used = GtidTransactionDecoder(CRC32)
    with pytest.raises(DecodeError) as caught:
        used.feed(data, 0)
    assert caught.value.kind is DecodeErrorKind.CHECKSUM_MISMATCH
    with pytest.raises(DecodeError) as caught:
        used.feed(data, len(broken))
    assert caught.value.kind is DecodeErrorKind.ORDER_INVALID
    made = stream([gtid(2), *begun])
    (tied,) = fed(made, used)
    assert tied.prefix is not None


@pytest.mark.parametrize("decode", [True, False])
def test_a_prefix_met_inside_a_transaction_is_lost_too(decode: bool) -> None:
    """R257: the first prefix of a file counts as seen wherever it is met."""
    made = stream([begin(), gtid(1), *committed()])
    used = GtidTransactionDecoder(CRC32)
    with pytest.raises(DecodeError):
        (decode_all if decode else feed_all)(used, made)
    with pytest.raises(DecodeError) as caught:
        used.feed(made.data, made.offsets[2])
    assert caught.value.kind is DecodeErrorKind.ORDER_INVALID


def test_an_error_drops_prefix_and_transaction() -> None:
    """R219, R257: the closing event that follows an error is an error itself."""
    made = stream([gtid(1), *committed()[:3], event(29, b""), xid()])
    used = GtidTransactionDecoder(CRC32)
    for offset in made.offsets[:4]:
        used.feed(made.data, offset)
    for offset in made.offsets[4:]:
        with pytest.raises(DecodeError):
            used.feed(made.data, offset)
    assert not used.active


def test_something_unforeseen_drops_prefix_and_transaction() -> None:
    """R219: a caller's mistake ends a transaction with its prefix as an error in the bytes does."""
    made = stream([gtid(1), *committed()])
    used = GtidTransactionDecoder(CRC32)
    for offset in made.offsets[:3]:
        used.feed(made.data, offset)
    with pytest.raises(TypeError):
        used.feed(made.data, made.offsets[3], 5)  # type: ignore[arg-type]
    assert not used.active
    assert used.finish() is None


def test_the_end_of_input_names_the_prefix_of_what_it_drops() -> None:
    """R231, R257: an open transaction is incomplete, and so is a prefix alone."""
    made = stream([gtid(1), *committed()])
    for events in (1, 2, 3, 4):
        used = GtidTransactionDecoder(CRC32)
        for offset in made.offsets[:events]:
            used.feed(made.data, offset)
        left = used.finish()
        assert left is not None
        assert left.prefix == GtidPrefix.parse(made.data, 4, CRC32)
        assert left.outcome == IncompleteTransaction(
            start_offset=made.offsets[1],
            end_offset=made.offsets[events],
            event_count=events - 1,
            row_changes=int(events == 4),
            wire_bytes=made.offsets[events] - made.offsets[1],
        )
        assert used.finish() is None


def test_the_wrapper_changes_nothing_inside() -> None:
    """R256: transactions, their limits and errors are those of the plain decoder."""
    events = [*committed(row(1)), begin(), query(b"ROLLBACK"), *committed(row(2), row(3))]
    made = stream(events)
    plain = TransactionDecoder(CRC32)
    outcomes = [plain.feed(made.data, offset).outcome for offset in made.offsets]
    wrapped = fed(made)
    assert [repr(tied.outcome) for tied in wrapped] == [repr(o) for o in outcomes if o is not None]
    assert {type(tied.outcome) for tied in wrapped} == {CommittedTransaction, RolledBack}
    for place in range(4):
        broken = committed()
        broken[place] = event(29, b"")
        data = stream(broken)
        errors = []
        for used in (TransactionDecoder(CRC32), GtidTransactionDecoder(CRC32)):
            with pytest.raises(DecodeError) as caught:
                feed_all(used, data)
            errors.append(str(caught.value))
        assert errors[0] == errors[1]


def test_a_prefix_is_no_event_of_its_transaction() -> None:
    """R256, R240: counts and bytes are those that the plain decoder gives."""
    made = stream([gtid(1), *committed()])
    (tied,) = fed(made, GtidTransactionDecoder(CRC32, TransactionLimits(events=4)))
    assert isinstance(tied.outcome, CommittedTransaction)
    assert tied.outcome.event_count == 4
    assert tied.outcome.wire_bytes == len(made.data) - made.offsets[1]


def test_a_prefix_has_the_bound_of_an_event() -> None:
    """R244: the limit of one event holds for a prefix too."""
    used = GtidTransactionDecoder(CRC32, TransactionLimits(event_bytes=len(gtid(1)) - 1))
    with pytest.raises(DecodeError) as caught:
        used.feed(gtid(1), 0)
    assert caught.value.kind is DecodeErrorKind.LIMIT_EXCEEDED


def test_decode_gives_what_feed_gives() -> None:
    """R255: a transaction a call, its prefix read on the way."""
    made = stream([gtid(1), *committed(row(1)), gtid(2), begin(), query(b"ROLLBACK")])
    used, offset, outcomes = GtidTransactionDecoder(CRC32), 4, []
    while offset < len(made.data):
        outcome, offset = used.decode(made.data, offset)
        outcomes.append(outcome)
    assert list(map(repr, outcomes)) == list(map(repr, fed(made)))


@pytest.mark.parametrize("pieces", [1, 2, 3, 4])
def test_a_prefix_and_its_transaction_may_come_in_pieces(pieces: int) -> None:
    """R255: a buffer that ends behind the prefix, or later, is gone on with."""
    made = stream([gtid(1), *committed()])
    used, cut = GtidTransactionDecoder(CRC32), made.offsets[pieces]
    assert used.decode(made.data[:cut], 4) == (None, cut)
    assert used.active
    outcome, end = used.decode(made.data[cut:], cut, base=cut)
    assert outcome is not None
    assert outcome.prefix is not None
    assert end == len(made.data)


@pytest.mark.parametrize("raw", PREFIXES, ids=NAMES)
def test_every_cut_of_every_prefix_is_truncated(raw: bytes) -> None:
    """R198: input that ends anywhere inside a prefix is `truncated`."""
    for end in range(len(raw)):
        with pytest.raises(DecodeError) as caught:
            GtidPrefix.parse(raw[:end], 0, CRC32)
        assert caught.value.kind is DecodeErrorKind.TRUNCATED


@pytest.mark.parametrize("raw", PREFIXES, ids=NAMES)
def test_every_shortened_prefix_is_refused_or_the_same(raw: bytes) -> None:
    """R198: a prefix written shorter is malformed, or says the same without its last fields."""
    whole = GtidPrefix.parse(raw, 0, CRC32)
    body = raw[19:-4]
    for end in range(len(body)):
        kind: DecodeErrorKind | None = None
        try:
            shorter = GtidPrefix.parse(event(raw[4], body[:end]), 0, CRC32)
        except DecodeError as error:
            kind = error.kind
        else:
            assert shorter.gtid == whole.gtid
        assert kind in {None, DecodeErrorKind.MALFORMED}
        assert kind is not None or end >= 25


def test_an_anonymous_event_has_no_number() -> None:
    """R255: an anonymous event with a number, or other events than the three, are refused."""
    body = gtid(5, kind=ANONYMOUS)[19:-4]
    with pytest.raises(DecodeError) as caught:
        GtidPrefix.parse(event(ANONYMOUS, body), 0, CRC32)
    assert caught.value.kind is DecodeErrorKind.MALFORMED
    with pytest.raises(DecodeError) as caught:
        GtidPrefix.parse(begin(), 0, CRC32)
    assert caught.value.kind is DecodeErrorKind.EVENT_NOT_ACCEPTED
