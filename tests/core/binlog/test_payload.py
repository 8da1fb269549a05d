"""Compressed transactions are opened exactly, within bounds, or refused."""

from collections.abc import Iterable

import pytest
import zstandard
from helpers import event_builder as events
from helpers.payloads import field, inside
from hypothesis import given, settings
from hypothesis import strategies as st

import capstan.core.binlog.payload
from capstan.core.binlog.framing import Packets
from capstan.core.binlog.payload import open_payload
from capstan.core.halts import Halted, HaltReason

INSIDE = [
    inside(raw)
    for raw in (events.query(b"BEGIN"), events.table_map(80), events.rows(30, 80, [(1, "a")]))
]
PLAIN = b"".join(INSIDE)


def payload(
    plain: bytes = PLAIN,
    *,
    compression: int = 0,
    declared: int | None = None,
    squeezed: bytes | None = None,
    size: int | None = None,
) -> bytes:
    """A TRANSACTION_PAYLOAD body."""
    if squeezed is None:
        squeezed = zstandard.ZstdCompressor().compress(plain) if compression == 0 else plain
    head = field(1, len(squeezed) if size is None else size) + field(2, compression)
    head += field(3, len(plain) if declared is None else declared) + b"\0"
    return head + squeezed


def cut(pieces: Iterable[Packets]) -> list[bytes]:
    return [
        piece.data[a:b]
        for piece in pieces
        for a, b in zip(piece.bounds, piece.bounds[1:], strict=False)
    ]


def opened(body: bytes) -> list[bytes]:
    return cut(open_payload(body, 0, len(body)))


@pytest.mark.parametrize("compression", [0, 255])
def test_the_events_inside_come_out_whole(compression: int) -> None:
    """D22: ZSTD or not compressed at all, the events are those that went in."""
    assert opened(payload(compression=compression)) == INSIDE


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(19, 900), max_size=40),
    piece=st.integers(1, 700),
    compression=st.sampled_from([0, 255]),
)
def test_events_of_any_size_come_out_of_pieces_of_any_size(
    sizes: list[int], piece: int, compression: int
) -> None:
    """D22: wherever a piece ends, each event is whole, once, in order."""
    raws = [inside(events.event(28, bytes(size - 19))) for size in sizes]
    body = payload(b"".join(raws), compression=compression)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capstan.core.binlog.payload, "_PIECE", piece)
        assert opened(body) == raws


def test_pieces_are_small_however_much_is_inside() -> None:
    """D22, D25: memory is no matter of the size; an event larger than a piece comes alone."""
    small, large = inside(events.event(28, bytes(1000))), inside(events.event(28, bytes(10 << 20)))
    body = payload(small * 20_000 + large + small * 20_000)
    sizes = [len(piece.data) for piece in open_payload(body, 0, len(body))]

    assert max(sizes) < len(large) + (9 << 20)
    assert sorted(sizes)[-2] < 9 << 20
    assert len(sizes) > 4


def refused(body: bytes) -> HaltReason:
    with pytest.raises(Halted) as caught:
        opened(body)
    return caught.value.halt.reason


def test_an_unknown_compression_is_refused() -> None:
    """D22: never taken for the one that is known."""
    body = payload(compression=7, squeezed=PLAIN)
    assert refused(body) is HaltReason.UNSUPPORTED_TRANSACTION_SHAPE


def test_an_unknown_compression_is_refused_before_a_look_inside() -> None:
    """D22: as soon as the header is read."""
    body = payload(compression=7, squeezed=PLAIN)
    with pytest.raises(Halted):
        open_payload(body, 0, len(body))


def test_a_declared_size_is_no_reason_to_allocate() -> None:
    """D22: what is declared but not there is corruption, whatever its size."""
    assert refused(payload(declared=1 << 62)) is HaltReason.EVENT_CORRUPT


def test_an_event_larger_than_any_is_refused_at_once() -> None:
    """D22, R266: a small payload cannot make room for more than an event can have."""
    monster = events.event(28, bytes(300_000))[:-4]
    lying = monster[:9] + b"\xff\xff\xff\xff" + monster[13:]
    body = payload(lying, declared=1 << 40)
    with pytest.raises(Halted, match="over 1073741824 bytes"):
        list(open_payload(body, 0, len(body)))


def test_an_event_that_goes_beyond_what_is_declared_is_refused_at_once() -> None:
    """D22: its size is no reason to gather the rest of the payload."""
    monster = events.event(28, bytes(300_000))[:-4]
    lying = monster[:9] + b"\xff\xff\xff\x3f" + monster[13:]
    body = payload(lying + inside(events.event(28, bytes(300_000))))
    with pytest.raises(Halted, match="beyond its end"):
        opened(body)


def test_more_inside_than_declared_is_refused_while_it_is_inflated() -> None:
    """D22: a small frame of gigabytes stops at the declared size, before it is cut."""
    event = inside(events.event(28, bytes(1 << 20)))
    body = payload(event * 100, declared=2 * len(event))
    came: list[Packets] = []

    with pytest.raises(Halted, match="more is inside than declared"):
        came.extend(open_payload(body, 0, len(body)))

    assert len(cut(came)) <= 2


@pytest.mark.parametrize(
    "body",
    [
        payload(declared=len(PLAIN) + 1),
        payload(size=3),
        payload(squeezed=zstandard.ZstdCompressor().compress(PLAIN)[:-1]),
        payload(squeezed=zstandard.ZstdCompressor().compress(PLAIN) + b"x"),
        payload(squeezed=b"no frame at all"),
        payload(PLAIN[:-1]),
        payload(PLAIN + b"short"),
        payload(inside(events.event(40, b""))),
        payload(PLAIN[:-1], compression=255),
        payload(compression=255, declared=len(PLAIN) - 1),
        payload(compression=255, declared=len(PLAIN) + 1),
        payload(PLAIN[:9] + b"\x12" + PLAIN[10:]),
        b"",
        b"\x01",
        b"\x01\x09\x01",
        b"\xfb",
        field(1, 0) + field(1, 0) + b"\0",
    ],
)
def test_what_does_not_add_up_is_refused(body: bytes) -> None:
    """D22: sizes, truncation, trailing bytes, nesting: each is corruption."""
    assert refused(body) is HaltReason.EVENT_CORRUPT


def test_every_truncation_is_a_named_halt() -> None:
    """R11: no other exception leaves, wherever the event is cut."""
    body = payload()
    for end in range(len(body)):
        with pytest.raises(Halted):
            cut(open_payload(body, 0, end))
