"""A live server as a source: one TCP or Unix socket connection, from dial to close.

House rules: the driver does greeting, TLS, authentication and the questions before the stream;
from the dump request on the socket is read here, in large pieces, without looking inside. One
thread owns a link; `interrupt()` alone may come from another, and it is final. Whatever fails
leaves as `LinkLost` or `Halted`.
"""

import select
import socket
import ssl
import time
from struct import Struct
from typing import Final

from pymysql.constants import COMMAND

from capstan import config
from capstan.core.gtid import GtidSet
from capstan.core.preflight import ServerFacts
from capstan.core.server_errors import Stage
from capstan.core.tables import CaptureList
from capstan.sources import query
from capstan.sources.base import Link, Source
from capstan.sources.faults import translated
from capstan.sources.handshake import Wire, dial, drop, raw_socket, read_packet, send_command
from capstan.sources.sockets import Interrupt, wait_for

PIECE: Final = 128 << 10
"""Bytes gathered at most before they are handed on: more gains nothing and costs memory."""

_REGISTER: Final = Struct("<I3sHII")
_DUMP: Final = Struct("<HIIQI")
_THROUGH_GTID: Final = 4
_FIRST_EVENT: Final = 4


class LiveSource(Source):
    """Makes links to the configured server."""

    def __init__(
        self, source: config.Source, capture: CaptureList, *, write_timeout: float
    ) -> None:
        """Remember what to connect to; no socket yet.

        Args:
            source: The server and how to log in.
            capture: Whose tables the facts are about.
            write_timeout: Seconds for which the server shall bear a reader that does not read:
                at least as long as one sink call may take.
        """
        self._source = source
        self._capture = capture
        self._write_timeout = write_timeout

    def link(self) -> "LiveLink":
        """A new link, not yet open."""
        return LiveLink(self._source, self._capture, self._write_timeout)


class LiveLink(Link):
    """One connection to the server."""

    def __init__(self, source: config.Source, capture: CaptureList, write_timeout: float) -> None:
        self.tls = False
        self._source = source
        self._capture = capture
        self._write_timeout = write_timeout
        self._interrupt = Interrupt()
        self._wire: Wire | None = None
        self._stream: socket.socket | None = None
        self._awaited = select.POLLIN

    def open(self) -> ServerFacts:
        """Connect, authenticate, set the session up and read the facts."""
        wire = self._wire = dial(self._source, self._interrupt)
        self.tls = isinstance(raw_socket(wire), ssl.SSLSocket)
        query.set_up(wire, heartbeat=self._source.heartbeat, write_timeout=self._write_timeout)
        return query.read_facts(wire, self._capture)

    def executed(self) -> GtidSet:
        """gtid_executed, read afresh (before `dump()` only)."""
        return query.read_executed(self._opened())

    def dump(self, gtid_set: GtidSet) -> None:
        """Register as a replica and ask for everything outside `gtid_set`."""
        wire = self._opened()
        server_id = self._source.server_id
        # No host, user, password and port: what shows in SHOW REPLICAS is the id alone.
        register = _REGISTER.pack(server_id, b"", 0, 0, 0)
        excluded = gtid_set.encode()
        request = _DUMP.pack(_THROUGH_GTID, server_id, 0, _FIRST_EVENT, len(excluded)) + excluded
        with translated(Stage.DUMP):
            send_command(wire, COMMAND.COM_REGISTER_SLAVE, register)
            read_packet(wire)
            send_command(wire, COMMAND.COM_BINLOG_DUMP_GTID, request)
            stream = raw_socket(wire)
            stream.setblocking(False)
        self._stream = stream
        self._interrupt.release()

    def read(self, timeout: float) -> bytes | None:
        """The next piece of the stream, as it comes off the wire."""
        stream = self._stream
        if stream is None:
            raise RuntimeError("read() before dump()")
        deadline = time.monotonic() + timeout
        with translated(Stage.READ):
            while not self._interrupt.is_set():
                # First ask the socket itself: the TLS layer may hold what a poll cannot see.
                piece = self._gather(stream)
                if piece is not None:
                    return piece
                left = deadline - time.monotonic()
                if not wait_for(stream, self._awaited, self._interrupt, left):
                    break
        return None

    def close(self) -> None:
        """Close the socket; safe to call twice."""
        wire, self._wire = self._wire, None
        if wire is not None and wire.open:
            if self._stream is None and not self._interrupt.is_set():
                # Takes leave, so that the server does not count an aborted client.
                wire.close()
            else:
                drop(wire)
        self._stream = None
        self._interrupt.close()

    def interrupt(self) -> None:
        """From any thread: make a blocked call of this link return at once."""
        self._interrupt.set()

    def _opened(self) -> Wire:
        if self._wire is None or self._stream is not None:
            raise RuntimeError("the link is not open, or its stream has begun")
        return self._wire

    def _gather(self, stream: socket.socket) -> bytes | None:
        """What is there now, up to one piece; b"" at the end, None when there is nothing yet."""
        parts: list[bytes] = []
        room = PIECE
        while room:
            try:
                part = stream.recv(room)
            except (BlockingIOError, ssl.SSLWantReadError):
                self._awaited = select.POLLIN
                break
            except ssl.SSLWantWriteError:
                self._awaited = select.POLLOUT
                break
            except OSError:
                # What came before the break is good; the next call meets it again.
                if parts:
                    break
                raise
            if not part:
                return b"".join(parts)
            parts.append(part)
            room -= len(part)
            if not self.tls and room:
                # A plain socket gives all it has; the TLS layer gives one record at a time.
                break
        return b"".join(parts) if parts else None
