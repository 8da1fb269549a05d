"""The server's end of one connection: packets, results, greeting and login.

House rules: blocking sockets, one thread a connection. Everything that the client says is kept in
`heard`, so that a test can see that a secret was not among it. Whatever ends the connection comes
out as `Hangup`. What is sent is never judged here: misbehaviour is made of the same calls.
"""

import hashlib
import select
import socket
import struct
from collections.abc import Iterable, Sequence
from typing import Final

from capstan.testing.made_events import Event, counted, packed

FULL: Final = 0xFFFFFF
"""Bytes of payload that a packet has at most; one of exactly that size goes on in the next."""
_LONGEST_HEARD: Final = 1 << 20
_SALT: Final = b"a-salt-of-20-bytes-!"
_PLUGIN: Final = b"caching_sha2_password"
_CAPABILITIES: Final = 0x000F_A20D
"""Protocol 4.1, transactions, several results, authentication by plugin; no TLS."""
_CONNECT_WITH_DB: Final = 8
_TEXT, _NUMBER = 253, 8
_OK: Final = b"\x00\x00\x00\x02\x00\x00\x00"
_EOF: Final = b"\xfe\x00\x00\x02\x00"
_FAST_LOGIN: Final = b"\x01\x03"

Value = str | int | None


class Hangup(Exception):  # noqa: N818 - the end of a conversation, not a fault of the kit
    """The connection is over."""


class Wire:
    """One accepted connection.

    Attributes:
        sequence: The number of the next packet.
        position: Where in the binary log the next event begins.
        packets: How many packets were sent.
        heard: What the client has said, up to a mebibyte.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sequence = 0
        self.position = 0
        self.packets = 0
        self.heard = bytearray()
        self._sock = sock
        self._woken, self._waker = socket.socketpair()

    # -- the connection ------------------------------------------------------------------------

    def cut(self) -> None:
        """End it now: what was sent still arrives, then the stream ends."""
        self.hang_up()
        raise Hangup

    def hang_up(self) -> None:
        """From any thread: end it; whoever waits on it is told."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        """Give the sockets back; for the thread that serves it, at its end."""
        for sock in (self._sock, self._woken, self._waker):
            sock.close()

    def wake(self) -> None:
        """From any thread: end a `wait`."""
        try:
            self._waker.send(b"\0", socket.MSG_DONTWAIT)
        except OSError:
            return

    def wait(self, seconds: float | None = None) -> None:
        """Wait for `wake()`, for the time to pass, or for the client to say something.

        Raises:
            Hangup: When the client has left.
        """
        ready, _, _ = select.select([self._sock, self._woken], [], [], seconds)
        if self._woken in ready:
            self._woken.recv(4096)
        if self._sock in ready:
            self._note(self._receive(65536))

    # -- packets -------------------------------------------------------------------------------

    def read_packet(self) -> bytes:
        """The client's next packet.

        Raises:
            Hangup: When there is none.
        """
        header = self._exactly(4)
        self.sequence = (header[3] + 1) & 0xFF
        return self._exactly(int.from_bytes(header[:3], "little"))

    def send_packet(self, payload: bytes) -> None:
        """Send a payload in as many packets as it needs."""
        rest: bytes | None = payload
        while rest is not None:
            part, rest = rest[:FULL], rest[FULL:] if len(rest) >= FULL else None
            self.send_raw(self.packet_header(len(part)) + part)

    def packet_header(self, size: int) -> bytes:
        """The four bytes before a payload of this size; counts as sent."""
        header = struct.pack("<I", size | self.sequence << 24)
        self.sequence = (self.sequence + 1) & 0xFF
        self.packets += 1
        return header

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        try:
            self._sock.sendall(data)
        except OSError:
            raise Hangup from None

    # -- events --------------------------------------------------------------------------------

    def place(self, event: Event) -> bytes:
        """The event's bytes at the place where it comes next in the file."""
        self.position += event.size
        return event.raw(self.position)

    def send_events(self, events: Iterable[Event]) -> None:
        """Send events that stand in the file one behind the other."""
        for event in events:
            self.send_packet(b"\0" + self.place(event))

    def send_outside(self, event: Event, *, at: int = 0) -> None:
        """Send an event that stands in no file; `at` is the end position that it shows."""
        self.send_packet(b"\0" + event.raw(at))

    # -- answers -------------------------------------------------------------------------------

    def send_ok(self) -> None:
        """Accept."""
        self.send_packet(_OK)

    def send_error(self, code: int, text: str) -> None:
        """Refuse with an error packet."""
        self.send_packet(b"\xff" + struct.pack("<H", code) + b"#HY000" + text.encode())

    def send_rows(self, columns: Sequence[str], rows: Sequence[Sequence[Value]]) -> None:
        """Answer with a result set; a column is numeric when its first value is a number."""
        first = rows[0] if rows else [""] * len(columns)
        self.send_header(columns, numeric=[isinstance(value, int) for value in first])
        for row in rows:
            self.send_row(row)
        self.send_packet(_EOF)

    def send_header(self, columns: Sequence[str], *, numeric: Sequence[bool]) -> None:
        """Begin a result set."""
        self.send_packet(packed(len(columns)))
        for name, is_number in zip(columns, numeric, strict=True):
            self.send_packet(_definition(name, _NUMBER if is_number else _TEXT))
        self.send_packet(_EOF)

    def send_row(self, row: Sequence[Value]) -> None:
        """Send one row of a result set."""
        cells = (b"\xfb" if v is None else counted(str(v).encode()) for v in row)
        self.send_packet(b"".join(cells))

    # -- login ---------------------------------------------------------------------------------

    def greet(self, version: str) -> None:
        """The first packet of all."""
        low, high = _CAPABILITIES & 0xFFFF, _CAPABILITIES >> 16
        self.send_packet(
            b"\x0a"
            + version.encode()
            + b"\0"
            + struct.pack("<I8sx", 1, _SALT[:8])
            + struct.pack("<HBHHB", low, 255, 2, high, len(_SALT) + 1)
            + bytes(10)
            + _SALT[8:]
            + b"\0"
            + _PLUGIN
            + b"\0"
        )

    def is_login(self, user: str, password: str) -> bool:
        """Read the client's login; whether account and password are these.

        The proof is that of caching_sha2_password with a warm cache: no password on the wire.
        """
        found, proof = _login(self.read_packet())
        return found == user.encode() and proof == _proof(password.encode())

    def admit(self, password: str) -> None:
        """Let the client in; where there is a password, its proof is said to have been enough."""
        if password:
            self.send_packet(_FAST_LOGIN)
        self.send_ok()

    def ask_for(self, plugin: str) -> None:
        """Ask for another way to log in."""
        self.send_packet(b"\xfe" + plugin.encode() + b"\0" + _SALT + b"\0")

    # -- in here -------------------------------------------------------------------------------

    def _exactly(self, size: int) -> bytes:
        parts = b""
        while len(parts) < size:
            parts += self._receive(size - len(parts))
        self._note(parts)
        return parts

    def _receive(self, size: int) -> bytes:
        try:
            data = self._sock.recv(size)
        except OSError:
            raise Hangup from None
        if not data:
            raise Hangup
        return data

    def _note(self, data: bytes) -> None:
        self.heard += data[: max(0, _LONGEST_HEARD - len(self.heard))]


def _definition(name: str, kind: int) -> bytes:
    names = counted(b"def") + counted(b"") * 3 + counted(name.encode()) * 2
    return names + b"\x0c" + struct.pack("<HIBHB2x", 255, 1024, kind, 0, 0)


def _login(packet: bytes) -> tuple[bytes, bytes]:
    """Account and proof in a login packet."""
    user, _, rest = packet[32:].partition(b"\0")
    return user, rest[1 : 1 + rest[0]] if rest else b""


def _proof(password: bytes) -> bytes:
    if not password:
        return b""
    once = hashlib.sha256(password).digest()
    mask = hashlib.sha256(hashlib.sha256(once).digest() + _SALT).digest()
    return bytes(a ^ b for a, b in zip(once, mask, strict=True))
