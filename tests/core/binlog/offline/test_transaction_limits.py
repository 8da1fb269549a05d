"""How much the strict decoder accepts: at a limit, and one above."""

import attrs
import pytest
from helpers.binlog_stream import (
    UPDATE,
    WRITE,
    begin,
    committed,
    event,
    format_event,
    mapped,
    query,
    row,
    rows,
    stream,
    xid,
)
from helpers.table_bytes import Spec, image

from capstan.core.binlog.offline import decode_limits
from capstan.core.binlog.offline.decode_errors import DecodeError, DecodeErrorKind
from capstan.core.binlog.offline.decode_limits import MIB, U64_MAX, TransactionLimits
from capstan.core.binlog.offline.format_description import FormatDescription
from capstan.core.binlog.offline.outcomes import CommittedTransaction
from capstan.core.binlog.offline.transactions import TransactionDecoder

CRC32 = FormatDescription.parse(format_event(), 0)
BOUNDS = [field.name for field in attrs.fields(TransactionLimits)]


def outcome_of(events: list[bytes], limits: TransactionLimits) -> object:
    """What the last of these events gives."""
    made = stream(events)
    used = TransactionDecoder(CRC32, limits)
    for offset in made.offsets:
        outcome = used.feed(made.data, offset).outcome
    return outcome


def refusal(events: list[bytes], limits: TransactionLimits, place: int) -> DecodeError:
    """The error of the event at a place; nothing is left behind it."""
    made = stream(events)
    used = TransactionDecoder(CRC32, limits)
    for offset in made.offsets[:place]:
        assert used.feed(made.data, offset).outcome is None
    with pytest.raises(DecodeError) as caught:
        used.feed(made.data, made.offsets[place])
    assert caught.value.offset == made.offsets[place]
    assert caught.value.event_type == events[place][4]
    assert not used.active
    assert used.finish() is None
    return caught.value


def test_the_defaults() -> None:
    """R238, R244, R245, R246, R247, D29: the bounds that hold when nobody says otherwise."""
    assert attrs.asdict(TransactionLimits()) == {
        "events": 4096,
        "row_changes": 10_000,
        "encoded_bytes": 64 * MIB,
        "event_bytes": 16 * MIB,
        "event_row_changes": 1024,
        "image_bytes": 16 * MIB,
        "table_maps": 4096,
    }


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("value", [0, -1, U64_MAX + 1])
def test_bounds_are_positive_numbers_of_64_bits(name: str, value: int) -> None:
    """R239, R242, D29: zero, negative numbers and more than 2^64 - 1 are refused by name."""
    with pytest.raises(ValueError, match=name):
        TransactionLimits(**{name: value})
    for fine in (1, U64_MAX):
        assert getattr(TransactionLimits(**{name: fine}), name) == fine


def test_no_bounds_but_those_of_the_numbers() -> None:
    """R238, D29: all bounds can be as wide as they go, that of a statement's tables apart."""
    wide = attrs.asdict(TransactionLimits.unbounded())
    assert wide.pop("table_maps") == 4096
    assert set(wide.values()) == {U64_MAX}


SIZES = [len(raw) for raw in committed(row(1), row(2))]


@pytest.mark.parametrize("closing", [xid(), query(b"COMMIT"), query(b"ROLLBACK")])
def test_every_event_counts(closing: bytes) -> None:
    """R240, R241: BEGIN, TABLE_MAP and the closing event count; at the limit is accepted."""
    events = committed(closing=closing)
    assert outcome_of(events, TransactionLimits(events=4)) is not None
    error = refusal(events, TransactionLimits(events=3), 3)
    assert error.kind is DecodeErrorKind.LIMIT_EXCEEDED
    assert "3 events" in error.detail


@pytest.mark.parametrize("place", [1, 2, 3])
def test_events_are_counted_one_by_one(place: int) -> None:
    """R240, R243: the first event above the limit is refused, whichever it is."""
    error = refusal(committed(), TransactionLimits(events=place), place)
    assert error.kind is DecodeErrorKind.LIMIT_EXCEEDED


def test_row_changes_count_once_for_each_pair() -> None:
    """R241, R229: row changes at the limit are accepted, one above is refused."""
    events = [
        begin(),
        mapped(),
        rows(WRITE, [row(1), row(2)], last=False),
        rows(UPDATE, [row(1), row(3), row(2), row(4)]),
        xid(),
    ]
    assert outcome_of(events, TransactionLimits(row_changes=4)) is not None
    error = refusal(events, TransactionLimits(row_changes=3), 3)
    assert error.kind is DecodeErrorKind.LIMIT_EXCEEDED
    assert "3 row changes" in error.detail


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_every_byte_counts(place: int) -> None:
    """R240, R241: bytes of all events count; at the limit is accepted, one byte above refused."""
    events = committed(row(1), row(2))
    upto = sum(SIZES[: place + 1])
    if place == 3:
        outcome = outcome_of(events, TransactionLimits(encoded_bytes=upto))
        assert isinstance(outcome, CommittedTransaction)
        assert outcome.wire_bytes == upto
    error = refusal(events, TransactionLimits(encoded_bytes=upto - 1), place)
    assert error.kind is DecodeErrorKind.LIMIT_EXCEEDED
    assert f"{upto - 1} bytes" in error.detail


def test_limits_are_for_each_transaction() -> None:
    """R225, R238: what one transaction took is not counted for the next."""
    limits = TransactionLimits(events=4, row_changes=1, encoded_bytes=len(b"".join(committed())))
    made = stream(committed() * 3)
    used = TransactionDecoder(CRC32, limits)
    outcomes = [used.feed(made.data, offset).outcome for offset in made.offsets]
    assert sum(outcome is not None for outcome in outcomes) == 3


def test_totals_end_where_64_bits_do() -> None:
    """R242, D29: an event that ends beyond 2^64 - 1 is an error, never a wrap."""
    made = stream(committed(), base=b"")
    size = len(made.data)
    limits = TransactionLimits.unbounded()
    fits = U64_MAX - size
    used = TransactionDecoder(CRC32, limits)
    for offset in made.offsets:
        outcome = used.feed(made.data, fits + offset, base=fits).outcome
    assert isinstance(outcome, CommittedTransaction)
    assert outcome.end_offset == U64_MAX
    used = TransactionDecoder(CRC32, limits)
    for offset in made.offsets[:-1]:
        used.feed(made.data, fits + 1 + offset, base=fits + 1)
    with pytest.raises(DecodeError) as caught:
        used.feed(made.data, fits + 1 + made.offsets[-1], base=fits + 1)
    assert caught.value.kind is DecodeErrorKind.TOTAL_OVERFLOW
    assert not used.active
    with pytest.raises(DecodeError) as caught:
        used.feed(begin(), U64_MAX, base=U64_MAX)
    assert caught.value.kind is DecodeErrorKind.TOTAL_OVERFLOW


def test_a_breach_commits_nothing() -> None:
    """R243: after a breach the closing event is an error, and a new BEGIN works."""
    events = [*committed()[:3], rows(WRITE, [row(2)]), xid(), *committed(row(7))]
    made = stream(events)
    used = TransactionDecoder(CRC32, TransactionLimits(events=4, row_changes=1))
    outcomes: list[object] = []
    for offset in made.offsets:
        try:
            outcomes.append(used.feed(made.data, offset).outcome)
        except DecodeError as error:
            outcomes.append(error)
    kinds = [getattr(outcome, "kind", None) for outcome in outcomes]
    assert kinds[3:5] == [DecodeErrorKind.TABLE_MAP_MISSING, DecodeErrorKind.ORDER_INVALID]
    last = outcomes[-1]
    assert isinstance(last, CommittedTransaction)
    assert [e.rows.images for e in last.row_events] == [[(7, "n")]]


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_an_event_has_a_bound(place: int) -> None:
    """R244: an event of the limit is accepted, one byte above is refused, whichever it is."""
    events = committed(row(1), row(2))
    limits = TransactionLimits(event_bytes=max(SIZES))
    assert outcome_of(events, limits) is not None
    below = TransactionLimits(event_bytes=SIZES[place] - 1)
    first = next(at for at, size in enumerate(SIZES) if size >= SIZES[place])
    error = refusal(events, below, first)
    assert error.kind is DecodeErrorKind.LIMIT_EXCEEDED


def test_an_event_over_16_mib_is_refused_by_default() -> None:
    """R244: its header is enough; whether the rest is there does not matter."""
    used = TransactionDecoder(CRC32)
    with pytest.raises(DecodeError) as caught:
        used.feed(event(2, b"", size=16 * MIB + 1), 0)
    assert caught.value.kind is DecodeErrorKind.LIMIT_EXCEEDED
    with pytest.raises(DecodeError) as caught:
        used.feed(event(2, b"", size=16 * MIB), 0)
    assert caught.value.kind is DecodeErrorKind.TRUNCATED


def test_a_row_event_has_1024_changes_at_most() -> None:
    """R245: 1024 changes in one event are accepted, 1025 are refused; pairs count once."""
    limits = TransactionLimits()
    for kind, images in ((WRITE, 1), (UPDATE, 2)):
        whole = [begin(), mapped(), rows(kind, [row(1)] * (1024 * images)), xid()]
        assert outcome_of(whole, limits) is not None
        more = [begin(), mapped(), rows(kind, [row(1)] * (1025 * images)), xid()]
        error = refusal(more, limits, 2)
        assert error.kind is DecodeErrorKind.LIMIT_EXCEEDED
        assert "1024 row changes in one event" in error.detail


@pytest.mark.parametrize(("kind", "images"), [(WRITE, [9, 3]), (WRITE, [3, 9]), (UPDATE, [3, 9])])
def test_a_row_image_has_a_bound(kind: int, images: list[int]) -> None:
    """R246: an image of the limit is accepted, one byte above is refused, wherever it stands."""
    made = [row(1, "x" * size) for size in images]
    widest = max(map(len, made))
    events = [begin(), mapped(), rows(kind, made), xid()]
    assert outcome_of(events, TransactionLimits(image_bytes=widest)) is not None
    error = refusal(events, TransactionLimits(image_bytes=widest - 1), 2)
    assert error.kind is DecodeErrorKind.LIMIT_EXCEEDED
    assert f"{widest - 1} bytes in one row image" in error.detail


def test_an_image_over_16_mib_is_refused_in_an_event_that_may_be_larger() -> None:
    """R246: the default holds where the event's own limit was raised."""
    blob = Spec("b", 252, b"\x04", collation=63)
    limits = TransactionLimits(event_bytes=U64_MAX)
    for size, fits in ((16 * MIB - 5, True), (16 * MIB - 4, False)):
        value = image(1, [size.to_bytes(4, "little") + bytes(size)])
        raw = rows(WRITE, [value], columns=1)
        events = [begin(), mapped(columns=[blob]), raw, xid()]
        if fits:
            assert outcome_of(events, limits) is not None
        else:
            assert "row image" in refusal(events, limits, 2).detail


def test_a_statement_has_a_bound_of_tables() -> None:
    """R247: tables of one statement up to the bound are mapped, one more is an error."""
    maps = [mapped(80 + at, table=b"t%d" % at) for at in range(4)]
    limits = TransactionLimits(table_maps=3)
    events = [
        begin(),
        *maps[:3],
        rows(WRITE, [row(1)]),
        maps[3],
        rows(WRITE, [row(1)], table_id=83),
    ]
    assert outcome_of([*events, xid()], limits) is not None
    error = refusal([begin(), *maps], limits, 4)
    assert error.kind is DecodeErrorKind.LIMIT_EXCEEDED
    assert "3 tables" in error.detail


def test_4096_tables_are_the_most_by_default() -> None:
    """R247, D29: the 4,097th table of a statement is an error."""
    maps = [mapped(80 + at) for at in range(4097)]
    error = refusal([begin(), *maps], TransactionLimits(events=U64_MAX), 4097)
    assert "4096 tables" in error.detail


def test_the_limit_of_bytes_is_said_to_be_none_of_the_heap() -> None:
    """R248: the limits say themselves what they do not bound."""
    assert "not a limit of the heap" in " ".join((decode_limits.__doc__ or "").split())
