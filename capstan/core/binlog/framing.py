"""Cuts the packets of a dump out of the pieces read from the socket. Sans-IO.

House rules: a piece is never copied packet by packet; packets are named by offsets into it. Only
whole packets leave, parts longer than one packet (16 MiB and more) are joined. Sequence numbers are
checked: a packet that is missing or twice is a halt. What a packet means beyond its first byte
(event, end, error) is not known here.

Wire: 3 bytes length, 1 byte sequence number, then the payload; its first byte is 0x00 for an event,
0xFE for the end of the stream, 0xFF for an error. A payload of 0xFFFFFF bytes goes on in the next
packet.
"""

from itertools import chain, cycle
from struct import Struct

import attrs

from capstan.core.halts import HaltReason, halted

MAX_EVENT_BYTES = 1 << 30
"""The server's own upper bound of max_allowed_packet; nothing longer can be an event."""

_FULL = 0xFFFFFF
GAP = 5
"""Bytes before an event in its packet: the packet's header, and the byte that says "event"."""

_HEADER = Struct("<I").unpack_from
_HEAD = Struct("<IB").unpack_from
_MORE = [(sequence << 24) - 4 for sequence in range(256)]
_ERROR_HEAD = Struct("<xH").unpack_from


@attrs.frozen(repr=False, eq=False)
class Packets:
    """Whole events inside one buffer.

    The events lie one behind the other with as many bytes between each two, so one number tells
    where each is: a pair an event would be a load on the garbage collector.

    Attributes:
        data: The buffer.
        bounds: Where each event begins, in order, and last where one more would.
        gap: Bytes between two events: the next packet's header and its first byte.
    """

    data: bytes
    bounds: list[int]
    gap: int = 5

    def __repr__(self) -> str:
        return f"<{len(self.bounds) - 1} events in {len(self.data)} bytes>"


@attrs.frozen(repr=False)
class ServerError:
    """An error packet: the server ended the stream. The text stays out of every repr.

    Attributes:
        code: MySQL's error code.
        message: The server's words, for the classifier only.
    """

    code: int
    message: str

    def __repr__(self) -> str:
        return f"<ServerError {self.code}>"


@attrs.frozen
class Cut:
    """What one piece yielded.

    Attributes:
        packets: Events, in order; empty while a packet is incomplete.
        error: The error packet that ended the stream.
        ended: True when the server ended the stream in good order.
    """

    packets: tuple[Packets, ...] = ()
    error: ServerError | None = None
    ended: bool = False


class PacketCutter:
    """Feed it pieces, it gives whole events back.

    Args:
        sequence: The sequence number of the first packet to come.
    """

    def __init__(self, sequence: int = 1) -> None:
        self._sequence = sequence
        self._parts: list[bytes] = []
        self._have = 0
        self._need = 5
        self._long: list[bytes] = []
        self._long_size = 0

    def feed(self, piece: bytes) -> Cut:
        """Take the next piece.

        Raises:
            Halted: `unexpected_stream_packet` for a packet out of sequence or of unknown kind;
                `event_corrupt` for one longer than any event.
        """
        self._parts.append(piece)
        self._have += len(piece)
        if self._have < self._need:
            return Cut()
        data = piece if len(self._parts) == 1 else b"".join(self._parts)
        return self._cut(data)

    def _cut(self, data: bytes) -> Cut:
        """Walk the packets; what is no whole small event is looked at one by one."""
        out: list[Packets] = []
        position, size = 0, len(data)
        while True:
            position, bounds = self._walk(data, position, size)
            if len(bounds) > 1:
                out.append(Packets(data, bounds))
            if size - position < GAP:
                self._need = GAP
                break
            (header,) = _HEADER(data, position)
            stop = position + 4 + (header & _FULL)
            if stop > size:
                self._need = stop - position
                break
            if header >> 24 != self._sequence:
                raise _unexpected("out of sequence")
            self._sequence = (self._sequence + 1) & 0xFF
            if not header & _FULL and not self._long:
                raise _unexpected("empty")
            if not self._long and header & _FULL != _FULL:
                return self._last(data[position + 4 : stop], tuple(out))
            self._gather(data[position + 4 : stop], out)
            position = stop
        self._parts = [data[position:]] if position < size else []
        self._have = size - position
        return Cut(tuple(out))

    def _walk(self, data: bytes, position: int, size: int) -> tuple[int, list[int]]:
        """Pass over whole packets of one event each; this loop is hot.

        Returns:
            Where it stopped, at the first packet that is something else or not whole, and the
            bounds of the events.
        """
        bounds = [position + GAP]
        if self._long:
            return position, bounds
        add, head = bounds.append, _HEAD
        last = size - GAP
        # What a header is more than its packet's length with its own four bytes, by sequence.
        for more in chain(_MORE[self._sequence :], cycle(_MORE)):
            if position > last:
                break
            header, marker = head(data, position)
            length = header - more
            if marker or not GAP <= length < _FULL + 4:
                break
            stop = position + length
            if stop > size:
                break
            position = stop
            add(position + GAP)
        self._sequence = (self._sequence + len(bounds) - 1) & 0xFF
        return position, bounds

    def _gather(self, payload: bytes, out: list[Packets]) -> None:
        if not self._long and payload[0]:
            raise _unexpected("oversized and no event")
        self._long.append(payload)
        self._long_size += len(payload)
        if self._long_size > MAX_EVENT_BYTES:
            raise halted(HaltReason.EVENT_CORRUPT, f"an event of over {MAX_EVENT_BYTES} bytes")
        if len(payload) < _FULL:
            event = b"".join(self._long)
            self._long, self._long_size = [], 0
            out.append(Packets(event, [1, len(event) + GAP]))

    def _last(self, payload: bytes, packets: tuple[Packets, ...]) -> Cut:
        self._parts, self._have, self._need = [], 0, 5
        if payload[0] == 0xFE and len(payload) < 9:
            return Cut(packets, ended=True)
        if payload[0] == 0xFF:
            return Cut(packets, error=parse_error(payload))
        raise _unexpected(f"first byte {payload[0]:#04x}")


def parse_error(payload: bytes) -> ServerError:
    """Read an error packet's payload (from its 0xFF on)."""
    if len(payload) < 3:
        raise _unexpected("truncated error")
    (code,) = _ERROR_HEAD(payload, 0)
    text = payload[9:] if payload[3:4] == b"#" else payload[3:]
    return ServerError(code, text.decode("utf-8", "replace"))


def _unexpected(what: str) -> Exception:
    return halted(HaltReason.UNEXPECTED_STREAM_PACKET, f"packet {what}")
