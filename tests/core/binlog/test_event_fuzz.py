"""Mutated and truncated events of every type, through the fold: finished items or a halt.

No other exception, no hang, no memory beyond the event's own size: the streams that are mutated
hold an event of every type that there is, each where the grammar allows it or not.
"""

import contextlib
import struct
import tracemalloc

import pytest
from helpers import event_builder as build
from hypothesis import given, settings
from hypothesis import strategies as st

from capstan.core.assembly import Fold
from capstan.core.binlog.framing import PacketCutter
from capstan.core.binlog.header import EventType
from capstan.core.epoch import Epoch
from capstan.core.gtid import GtidSet
from capstan.core.halts import Halted
from capstan.core.limits import Budget
from capstan.core.tables import CaptureList

TRANSACTION = build.insert(1, 1, 2)
BODIES: dict[int, bytes] = {
    raw[4]: raw[19:-4]
    for raw in (
        *build.opening(),
        *TRANSACTION,
        build.heartbeat(),
        build.tagged_gtid(2, "blue"),
        build.query(b"CREATE TABLE items (id INT)"),
    )
}
"""A sound body of every type that the builders know; the others get bytes of no meaning."""
KINDS = sorted({int(kind) for kind in EventType})
PLACES = ("first", "outside", "started", "block", "mapped")


def before(place: str) -> list[bytes]:
    """The events that lead to a place in the grammar."""
    if place == "first":
        return []
    group = TRANSACTION[: {"outside": 0, "started": 1, "block": 2, "mapped": 3}[place]]
    return [*build.opening(), *group]


def fold_of(events: list[bytes]) -> tuple[Fold, int]:
    """Feed events one by one until a halt; the fold and how many items it gave."""
    fold = Fold(CaptureList.parse(None), Budget(memory=1 << 20, total=1 << 20))
    fold.open(Epoch(start=GtidSet(), server_uuid=build.SOURCE))
    items = 0
    for raw in events:
        if fold.halt is None:
            items += len(fold.feed(build.packets_of([raw])))
    return fold, items


def test_the_untouched_transaction_comes_out():
    """R266: the mutations below start from a stream that is sound."""
    fold, items = fold_of([*build.opening(), *TRANSACTION])
    assert fold.halt is None
    assert items == 1


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(st.data())
def test_mutated_events_of_every_type_end_in_a_halt_or_in_items(kind, data):
    """R266: sound checksums over wrong bytes, at every place of the grammar."""
    body = bytearray(BODIES.get(kind) or data.draw(st.binary(min_size=1, max_size=80)))
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place] = data.draw(st.one_of(st.integers(0, 255), st.sampled_from([0, 1, 127, 255])))
    cut = data.draw(st.integers(0, len(body)))
    raw = build.event(kind, bytes(body[:cut]), flags=data.draw(st.sampled_from([0, 0x20, 0x80])))
    events = [*before(data.draw(st.sampled_from(PLACES))), raw]
    fold, _ = fold_of([*events, *data.draw(st.sampled_from([[], TRANSACTION, TRANSACTION[2:]]))])
    assert fold.halt is None or fold.halt.reason.value


@pytest.mark.parametrize("kind", KINDS)
def test_events_cut_at_every_byte_halt_by_their_checksum(kind):
    """R266: what is missing is never made up, whatever the type."""
    raw = build.event(kind, BODIES.get(kind, b"\1" * 20))
    for size in range(19, len(raw)):
        part = raw[:9] + struct.pack("<I", size) + raw[13:size]
        fold, items = fold_of([*build.opening(), part])
        assert fold.halt is not None
        assert items == 0


@given(st.integers(0, 255), st.integers(0, 0xFFFFFFFF), st.binary(max_size=40))
def test_headers_of_any_type_and_size_halt_or_pass(kind, size, body):
    """R266: a size in a header reserves nothing and leads nowhere."""
    header = struct.pack("<IBIIIH", 0, kind, 1, size, 0, 0)
    fold, items = fold_of([*build.opening(), header + body])
    assert items == 0
    assert fold.halt is not None or size == 19 + len(body)


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_random_pieces_off_a_socket_give_packets_or_a_halt(pieces):
    """R266: a length in a packet's header reserves nothing either."""
    cutter = PacketCutter()
    tracemalloc.start()
    try:
        with contextlib.suppress(Halted):
            for piece in pieces:
                cutter.feed(piece)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 1 << 20
