"""Packets are cut whole out of pieces of any size."""

from itertools import pairwise

import pytest
from helpers import event_builder as events

from capstan.core.binlog.framing import GAP, Cut, PacketCutter
from capstan.core.halts import Halted, HaltReason

STREAM = [*events.opening(), *events.insert(1, 1, 2), events.heartbeat()]


def whole(cut: Cut) -> list[bytes]:
    return [p.data[a : z - GAP] for p in cut.packets for a, z in pairwise(p.bounds)]


def test_a_piece_of_whole_packets_gives_every_event() -> None:
    """Events come out as they were written, in order."""
    assert whole(PacketCutter().feed(events.packets(STREAM))) == STREAM


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 24, 100])
def test_pieces_of_any_size_give_the_same_events(size: int) -> None:
    """Cut byte by byte or in odd pieces, the events are the same."""
    cutter, data, out = PacketCutter(), events.packets(STREAM), []
    for position in range(0, len(data), size):
        out += whole(cutter.feed(data[position : position + size]))

    assert out == STREAM


def test_an_incomplete_packet_yields_nothing_until_its_last_byte() -> None:
    """Only whole events leave."""
    cutter, data = PacketCutter(), events.packets(STREAM[:1])

    assert cutter.feed(data[:-1]) == Cut()
    assert whole(cutter.feed(data[-1:])) == STREAM[:1]


@pytest.mark.parametrize("extra", [-1, 0, 1, 0xFFFFFF, 0xFFFFFF + 5])
def test_an_event_of_16_mib_and_more_is_joined(extra: int) -> None:
    """A payload over one packet goes on in the next; a full one ends in an empty one."""
    large = events.event(29, bytes(0xFFFFFF - 24 + extra))
    data = events.packets([STREAM[0], large, STREAM[1]])
    cutter, out = PacketCutter(), []
    for position in range(0, len(data), 1 << 17):
        out += whole(cutter.feed(data[position : position + (1 << 17)]))

    assert out == [STREAM[0], large, STREAM[1]]


def test_sequence_numbers_go_round() -> None:
    """The number of a packet is one byte and goes on from 255 to 0."""
    many = [events.heartbeat()] * 600

    assert whole(PacketCutter().feed(events.packets(many))) == many


@pytest.mark.parametrize("first", [0, 2, 255])
def test_a_packet_out_of_sequence_halts(first: int) -> None:
    """A missing or repeated packet is never passed over."""
    with pytest.raises(Halted) as caught:
        PacketCutter().feed(events.packets(STREAM, sequence=first))

    assert caught.value.halt.reason is HaltReason.UNEXPECTED_STREAM_PACKET


def test_an_error_packet_ends_the_stream_behind_the_events_before_it() -> None:
    """R14: what came whole before the error still counts; R55: the text is in no repr."""
    data = events.packets(STREAM[:2]) + events.error_packet(1236, "sentinel-text", sequence=3)

    cut = PacketCutter().feed(data)

    assert whole(cut) == STREAM[:2]
    assert cut.error is not None
    assert (cut.error.code, cut.error.message) == (1236, "sentinel-text")
    assert "sentinel" not in repr(cut)


def test_an_end_packet_ends_the_stream() -> None:
    """The server's good-bye is told apart from an error."""
    cut = PacketCutter().feed(b"\x05\x00\x00\x01\xfe\x00\x00\x02\x00")

    assert cut.ended
    assert cut.error is None


@pytest.mark.parametrize("packet", [b"\x01\x00\x00\x01\x07", b"\x02\x00\x00\x01\xff\x00"])
def test_any_other_packet_halts(packet: bytes) -> None:
    """An unknown first byte, or a truncated error, is never taken for something known."""
    with pytest.raises(Halted) as caught:
        PacketCutter().feed(packet)

    assert caught.value.halt.reason is HaltReason.UNEXPECTED_STREAM_PACKET


def test_an_event_beyond_the_servers_own_bound_halts() -> None:
    """A sum of packets over one GiB is refused before it is joined."""
    cutter = PacketCutter()

    def feed_parts() -> None:
        payload = bytes(0xFFFFFF)
        for sequence in range(1, 70):
            cutter.feed(b"\xff\xff\xff" + bytes([sequence]) + payload)

    with pytest.raises(Halted) as caught:
        feed_parts()

    assert caught.value.halt.reason is HaltReason.EVENT_CORRUPT
