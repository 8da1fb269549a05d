"""Packets at the edges of what one length can say."""

import itertools
import struct

import pytest
from helpers import event_builder as events

from capstan.core.binlog.framing import GAP, PacketCutter
from capstan.core.halts import Halted, HaltReason

FULL = 0xFFFFFF


def cut(*pieces: bytes) -> list[bytes]:
    """The events of these pieces."""
    cutter, found = PacketCutter(), []
    for piece in pieces:
        for packets in cutter.feed(piece).packets:
            bounds = packets.bounds
            found += [
                packets.data[start : stop - GAP] for start, stop in itertools.pairwise(bounds)
            ]
    return found


@pytest.mark.parametrize("over", range(-7, 4))
def test_an_event_of_any_size_around_a_full_packet_is_whole(over: int) -> None:
    """The packet behind it is in sequence, whether the event took one packet or two."""
    raws = [b"a" * (FULL - 1 + over), b"b" * 30]

    assert cut(events.packets(raws)) == raws


@pytest.mark.parametrize("over", [-5, -4, -1, 0, 1])
def test_it_is_whole_in_two_pieces_too(over: int) -> None:
    """How the stream was read changes nothing."""
    raws = [b"a" * (FULL - 1 + over), b"b" * 30]
    data = events.packets(raws)

    for at in (1, 4, 5, FULL, FULL + 3, FULL + 4, FULL + 5, len(data) - 1):
        assert cut(data[:at], data[at:]) == raws


def test_a_packet_without_anything_in_it_is_refused() -> None:
    """Only behind a full one it means something: that the event ended there."""
    empty = struct.pack("<I", 1 << 24) + bytes(8)

    with pytest.raises(Halted) as caught:
        PacketCutter().feed(empty)

    assert caught.value.halt.reason is HaltReason.UNEXPECTED_STREAM_PACKET
