"""Reads the rows of one SELECT off a connection in large pieces, within a bound of bytes.

House rules: rows leave as whole packets, unread. Every packet's number is checked. A few rows
beyond the bound are read and thrown away, so that the connection stays in step; many are left
unread, and the connection is of no use any more. A server's error comes out as its code.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

import attrs
from pymysql.constants import COMMAND

from capstan.sources.handshake import Wire, at_most, read_packet, send_command

_PIECE: Final = 256 << 10
_HEADER: Final = Struct("<I").unpack_from
_SIZE: Final = 0xFFFFFF
_LONG = 0xFFFFFF
"""A payload of so many bytes goes on in the next packet."""
_HEAD: Final = 4
_EOF: Final = 0xFE
_ERROR: Final = 0xFF
_DESCRIPTION_BYTES: Final = 16 << 20
"""Far more than 4096 columns need to be described."""
_MOST_SPILLED = 4 << 20
"""Bytes that are thrown away at most: a new connection is cheaper than more of them."""
_MOST_PARTS: Final = 65
"""Packets of one row: a server sends no row over 1 GiB."""
_SHORTEST_END: Final = 9
"""An 0xFE in front of so many bytes is the length of a field and not the end."""


class BrokenAnswerError(Exception):
    """What came is no result of rows.

    Attributes:
        code: The server's code of the error that ended it; None when the protocol broke.
    """

    def __init__(self, code: int | None = None) -> None:
        super().__init__("no code" if code is None else f"code {code}")
        self.code = code


@attrs.frozen
class Page:
    """What one SELECT gave.

    Attributes:
        packets: The rows kept, each the bytes of its packet.
        size: Their bytes.
        sent: How many rows the server sent, as far as read.
        complete: False when the result was not read to its end.
    """

    packets: list[bytes] = attrs.field(repr=False)
    size: int
    sent: int
    complete: bool

    @property
    def cut(self) -> bool:
        """Whether rows were thrown away for the bound."""
        return self.sent > len(self.packets)


def read_page(wire: Wire, statement: str, room: int, *, always_one: bool) -> Page:
    """Run a SELECT and keep rows while they fit.

    Args:
        wire: The connection; its timeouts hold.
        statement: The SELECT.
        room: Bytes of rows to keep at most.
        always_one: Keep the first row whatever its length.

    Raises:
        BrokenAnswerError: For an error among the rows, or a broken protocol.
        pymysql.MySQLError: For an error before the first row, or a lost connection.
        OSError: When the connection breaks.
    """
    send_command(wire, COMMAND.COM_QUERY, statement.encode())
    with at_most(wire, _DESCRIPTION_BYTES):
        columns = read_packet(wire).read_length_encoded_integer()
        if not columns:
            raise BrokenAnswerError
        for _ in range(columns + 1):
            read_packet(wire)
    return _Rows(wire, room, always_one=always_one).page()


class _Rows:
    """One result's rows on their way in."""

    def __init__(self, wire: Wire, room: int, *, always_one: bool) -> None:
        file = wire._rfile  # type: ignore[attr-defined]
        self._more: Callable[[int], bytes] = file.read1
        self._exactly: Callable[[int], bytes] = file.read
        self._number: int = wire._next_seq_id  # type: ignore[attr-defined]
        self._room = room
        self._always_one = always_one
        self._packets: list[bytes] = []
        self._long: list[bytes] = []
        self._size = 0
        self._sent = 0
        self._spilled = 0

    def page(self) -> Page:
        """Read up to the end of the result, or until too much of it is thrown away."""
        rest: bytes | None = b""
        while rest is not None and self._spilled <= _MOST_SPILLED:
            piece = self._more(_PIECE)
            if not piece:
                raise BrokenAnswerError
            rest = self._cut(rest + piece if rest else piece)
        return Page(self._packets, self._size, self._sent, complete=rest is None)

    def _cut(self, data: bytes) -> bytes | None:
        """Take the packets out; the start of one more, or None when the result is over."""
        place, end = self._take_plain(data, 0), len(data)
        while end - place >= _HEAD:
            (head,) = _HEADER(data, place)
            size = head & _SIZE
            stop = place + _HEAD + size
            payload = data[place + _HEAD : stop]
            if stop > end:
                payload += self._exactly(stop - end)
                if len(payload) != size:
                    raise BrokenAnswerError
            if self._is_last(head >> 24, payload):
                if stop < end:
                    raise BrokenAnswerError
                return None
            place = self._take_plain(data, stop)
        return data[place:]

    def _take_plain(self, data: bytes, place: int) -> int:
        """Take whole, single, fitting rows as far as they go: nearly all are, so this is tight."""
        if self._long or self._sent > len(self._packets):
            return place
        packets, number, left = self._packets, self._number, self._room - self._size
        last = len(data) - _HEAD
        while place < last:
            (head,) = _HEADER(data, place)
            size = head & _SIZE
            begin = place + _HEAD
            stop = begin + size
            if (
                head >> 24 != number
                or stop > len(data)
                or not 0 < size < _LONG
                or size > left
                or data[begin] >= _EOF
            ):
                break
            packets.append(data[begin:stop])
            number = number + 1 & 0xFF
            left -= size
            place = stop
        self._number, self._size, self._sent = number, self._room - left, len(packets)
        return place

    def _is_last(self, number: int, payload: bytes) -> bool:
        if number != self._number:
            raise BrokenAnswerError
        self._number = number + 1 & 0xFF
        if len(payload) == _LONG:
            self._long.append(payload)
            if len(self._long) > _MOST_PARTS:
                raise BrokenAnswerError
        elif self._long:
            self._row(b"".join([*self._long, payload]))
            self._long.clear()
        elif not payload:
            raise BrokenAnswerError
        elif payload[0] == _EOF and len(payload) < _SHORTEST_END:
            return True
        elif payload[0] == _ERROR:
            raise BrokenAnswerError(int.from_bytes(payload[1:3], "little"))
        else:
            self._row(payload)
        return False

    def _row(self, payload: bytes) -> None:
        # What is kept is a beginning of the result: behind a row that did not fit nothing is.
        fits = self._size + len(payload) <= self._room or (self._always_one and not self._sent)
        if fits and self._sent == len(self._packets):
            self._packets.append(payload)
            self._size += len(payload)
        else:
            self._spilled += len(payload)
        self._sent += 1
