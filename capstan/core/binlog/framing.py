"""Cuts the packets of a dump out of the pieces read from the socket. Sans-IO.

House rules: a piece is never copied packet by packet; packets are named by offsets into it. Only
whole packets leave, parts longer than one packet (16 MiB and more) are joined. Sequence numbers are
checked: a packet that is missing or twice is a halt. What a packet means beyond its first byte
(event, end, error) is not known here.

Wire: 3 bytes length, 1 byte sequence number, then the payload; its first byte is 0x00 for an event,
0xFE for the end of the stream, 0xFF for an error. A payload of 0xFFFFFF bytes goes on in the next
packet.
"""

from collections.abc import Sequence
from itertools import accumulate
from struct import Struct

import attrs

from capstan.core.halts import HaltReason, halted

MAX_EVENT_BYTES = 1 << 30
"""The server's own upper bound of max_allowed_packet; nothing longer can be an event."""

_FULL = 0xFFFFFF
_HEADER = Struct("<I").unpack_from
_ERROR_HEAD = Struct("<xH").unpack_from


@attrs.frozen(repr=False, eq=False)
class Packets:
    """Whole events inside one buffer.

    Two lists of numbers and not one of pairs: a pair an event is a load on the garbage collector.

    Attributes:
        data: The buffer.
        starts: Where each event begins in it, in order.
        ends: Where each event ends.
    """

    data: bytes
    starts: list[int]
    ends: list[int]

    @classmethod
    def of(cls, events: Sequence[bytes]) -> "Packets":
        """Events joined into one buffer."""
        ends = list(accumulate(map(len, events)))
        return cls(b"".join(events), [0, *ends[:-1]], ends)

    def __repr__(self) -> str:
        return f"<{len(self.starts)} events in {len(self.data)} bytes>"


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
        out: list[Packets] = []
        starts: list[int] = []
        ends: list[int] = []
        position, size, sequence = 0, len(data), self._sequence
        need = 5
        while size - position >= 5:
            (header,) = _HEADER(data, position)
            stop = position + 4 + (header & _FULL)
            if stop > size:
                need = stop - position
                break
            if header >> 24 != sequence:
                raise _unexpected("out of sequence")
            sequence = (sequence + 1) & 0xFF
            if self._long or header & _FULL == _FULL:
                if starts:
                    out.append(Packets(data, starts, ends))
                    starts, ends = [], []
                self._gather(data[position + 4 : stop], out)
            elif data[position + 4]:
                self._sequence = sequence
                if starts:
                    out.append(Packets(data, starts, ends))
                return self._last(data[position + 4 : stop], tuple(out))
            else:
                if stop == position + 4:
                    raise _unexpected("empty")
                starts.append(position + 5)
                ends.append(stop)
            position = stop
        if starts:
            out.append(Packets(data, starts, ends))
        self._sequence, self._need = sequence, need
        self._parts = [data[position:]] if position < size else []
        self._have = size - position
        return Cut(tuple(out))

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
            out.append(Packets(event, [1], [len(event)]))

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
