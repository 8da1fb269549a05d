"""Compressed transactions are opened exactly, within bounds, or refused."""

import struct

import pytest
import zstandard
from helpers import event_builder as events

from capstan.core.binlog.payload import open_payload
from capstan.core.halts import Halted, HaltReason

INSIDE = [
    raw[:-4]
    for raw in (events.query(b"BEGIN"), events.table_map(80), events.rows(30, 80, [(1, "a")]))
]
LIMIT = 1 << 20


def sized(raw: bytes) -> bytes:
    """The event with its own size in the header, as it stands inside a payload."""
    return raw[:9] + struct.pack("<I", len(raw)) + raw[13:]


PLAIN = b"".join(map(sized, INSIDE))


def packed(number: int) -> bytes:
    return bytes([number]) if number < 251 else b"\xfc" + struct.pack("<H", number)


def field(kind: int, number: int) -> bytes:
    value = packed(number)
    return packed(kind) + packed(len(value)) + value


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


def opened(body: bytes, limit: int = LIMIT) -> list[bytes]:
    packets = open_payload(body, 0, len(body), limit)
    return [packets.data[a:b] for a, b in zip(packets.bounds, packets.bounds[1:], strict=False)]


@pytest.mark.parametrize("compression", [0, 255])
def test_the_events_inside_come_out_whole(compression: int) -> None:
    """D22: ZSTD or not compressed at all, the events are those that went in."""
    assert opened(payload(compression=compression)) == list(map(sized, INSIDE))


def refused(body: bytes, limit: int = LIMIT) -> HaltReason:
    with pytest.raises(Halted) as caught:
        opened(body, limit)
    return caught.value.halt.reason


def test_an_unknown_compression_is_refused() -> None:
    """D22: never taken for the one that is known."""
    body = payload(compression=7, squeezed=PLAIN)
    assert refused(body) is HaltReason.UNSUPPORTED_TRANSACTION_SHAPE


def test_a_declared_size_over_the_limit_is_refused_before_anything_is_inflated() -> None:
    """D22, D25: garbage behind it is not even looked at."""
    body = payload(declared=60_000, squeezed=b"garbage")
    assert refused(body, limit=59_999) is HaltReason.TRANSACTION_TOO_LARGE


def test_more_inside_than_declared_is_refused_while_it_is_inflated() -> None:
    """D22: a small frame of gigabytes stops at the declared size."""
    bomb = zstandard.ZstdCompressor().compress(bytes(200 << 20))
    assert refused(payload(declared=1000, squeezed=bomb)) is HaltReason.EVENT_CORRUPT


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
        payload(sized(events.event(40, b"")[:-4])),
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
            open_payload(body, 0, end, LIMIT)
