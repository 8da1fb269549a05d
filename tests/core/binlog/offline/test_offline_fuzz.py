"""Mutated input ends in a value or in a structured error, never in anything else."""

import contextlib

from helpers.binlog_stream import (
    ANONYMOUS,
    DELETE,
    UPDATE,
    WRITE,
    begin,
    committed,
    format_event,
    gtid,
    mapped,
    query,
    row,
    rows,
    sealed,
    stream,
    xid,
)
from helpers.event_builder import tagged_gtid
from helpers.table_bytes import Spec
from hypothesis import given, settings
from hypothesis import strategies as st

from capstan.core.binlog.offline.boundary import TransactionBoundary
from capstan.core.binlog.offline.decode_errors import DecodeError
from capstan.core.binlog.offline.decode_limits import TransactionLimits
from capstan.core.binlog.offline.format_description import FormatDescription
from capstan.core.binlog.offline.gtid_transactions import (
    GtidOutcome,
    GtidPrefix,
    GtidTransactionDecoder,
)
from capstan.core.binlog.offline.outcomes import CommittedTransaction
from capstan.core.binlog.offline.transactions import TransactionDecoder

CRC32 = FormatDescription.parse(format_event(), 0)
OFF = FormatDescription.parse(format_event(checksums=False), 0)
ENUM = Spec("e", 254, b"\xf7\x01", collation=255, labels=(b"a", b"b"))

EVENTS = [
    gtid(1),
    *committed(row(1), row(2, None)),
    gtid(0, kind=ANONYMOUS),
    begin(),
    mapped(81, fields={}),
    mapped(82, columns=(ENUM, Spec("j", 245, b"\x04"))),
    rows(UPDATE, [row(1), row(2)], table_id=81, last=False),
    rows(
        WRITE,
        [b"\xfc\x01\x0d\x00\x00\x00\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x05\x05\x00a"],
        table_id=82,
    ),
    query(b"COMMIT"),
    tagged_gtid(3, "blue"),
    begin(),
    mapped(),
    rows(DELETE, [row(1)]),
    query(b"ROLLBACK"),
    xid(),
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """One event whose body was changed here and there, with a good CRC32 and size if so drawn."""
    raw = bytearray(draw(st.sampled_from([*EVENTS, format_event()])))
    for _ in range(draw(st.integers(0, 4))):
        raw[draw(st.integers(4, len(raw) - 1))] = draw(st.integers(0, 255))
    cut = draw(st.integers(0, 8))
    body = bytes(raw[19 : len(raw) - 4 - cut]) + draw(st.binary(max_size=4))
    if draw(st.booleans()):
        raw[9:13] = (19 + len(body) + 4).to_bytes(4, "little")
    return sealed(bytes(raw[:19]) + body) if draw(st.booleans()) else bytes(raw)


@given(raw=mutated(), offset=st.integers(-3, 3), description=st.sampled_from([CRC32, OFF]))
@settings(max_examples=150, deadline=None)
def test_parsers_of_single_events_know_only_one_error(
    raw: bytes, offset: int, description: FormatDescription
) -> None:
    """R198, R219: boundaries, prefixes and descriptions are values or a DecodeError."""
    with contextlib.suppress(DecodeError):
        TransactionBoundary.parse(raw, offset, description)
    with contextlib.suppress(DecodeError):
        GtidPrefix.parse(raw, offset, description)
    with contextlib.suppress(DecodeError):
        FormatDescription.parse(raw, offset)


@given(
    prefix=st.integers(0, len(EVENTS)),
    events=st.lists(mutated(), max_size=6),
    flags=st.none() | st.lists(st.booleans(), max_size=2),
    wrapped=st.booleans(),
    keep_rows=st.booleans(),
    limits=st.sampled_from([TransactionLimits(), TransactionLimits(image_bytes=12)]),
)
@settings(max_examples=150, deadline=None)
def test_decoders_know_only_one_error_and_drop_everything_on_it(
    prefix: int,
    events: list[bytes],
    flags: list[bool] | None,
    wrapped: bool,
    keep_rows: bool,
    limits: TransactionLimits,
) -> None:
    """R218, R219, R235: whatever comes, an error leaves nothing, and a new BEGIN works."""
    made = stream([*EVENTS[prefix:], *events])
    used: TransactionDecoder | GtidTransactionDecoder
    used = (GtidTransactionDecoder if wrapped else TransactionDecoder)(
        CRC32, limits, keep_rows=keep_rows
    )
    for offset in made.offsets:
        try:
            used.feed(made.data, offset, flags)
        except DecodeError as error:
            assert not used.active
            assert error.offset == offset  # noqa: PT017 - there need not be an error
    with contextlib.suppress(DecodeError):
        used.decode(made.data, made.offsets[0] if made.offsets else 4)
    used.finish()
    good = stream([gtid(9), *committed(row(5))][not wrapped :])
    for offset in good.offsets:
        outcome = used.feed(good.data, offset).outcome
    assert outcome is not None


@given(
    data=st.binary(max_size=200),
    changes=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=5),
    wrapped=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_changed_streams_never_give_what_was_not_there(
    data: bytes, changes: list[tuple[int, int]], wrapped: bool
) -> None:
    """R173, R218: with checksums a changed stream gives a part of what it gave, or an error."""
    made = stream([gtid(1), *committed(row(1)), gtid(2), *committed(row(2))])
    expected = [[(1, "n")], [(2, "n")]]
    broken = bytearray(made.data + data)
    for place, value in changes:
        broken[place % len(broken)] = value
    used = GtidTransactionDecoder(CRC32) if wrapped else TransactionDecoder(CRC32)
    for offset in made.offsets:
        with contextlib.suppress(DecodeError):
            outcome = used.feed(bytes(broken), offset).outcome
            if outcome is not None:
                found = outcome.outcome if isinstance(outcome, GtidOutcome) else outcome
                assert isinstance(found, CommittedTransaction)
                assert all(e.rows.images in expected for e in found.row_events)
