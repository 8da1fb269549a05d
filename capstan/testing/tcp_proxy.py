"""A TCP proxy between a pipeline and its server that can misbehave on request.

House rules: it owns sockets and threads of its own, all gone when its `with` block ends, and does
not know the protocol that it carries. A connection whose far end cannot be reached is closed
without a word.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from capstan.demo.mysql_server import LOOPBACK, free_port

_PIECE: Final = 65536
_TICK: Final = 0.02
"""Seconds between two parts of what is throttled."""


class TcpProxy:
    """Forwards loopback connections to a server.

    Args:
        host: The server's host.
        port: The server's port.

    Attributes:
        port: Where clients dial, from the start on and for good.
        connections: How many connections were accepted so far.
        carried: How many bytes were forwarded from the server to its clients so far.
    """

    host = LOOPBACK

    def __init__(self, host: str, port: int) -> None:
        self.connections = 0
        self.carried = 0
        self.port = free_port()
        self._target = (host, port)
        self._state = threading.Condition()
        self._frozen = False
        self._delay = 0.0
        self._rate: float | None = None
        self._links: list[_Link] = []
        self._listener: _Listener | None = None

    @property
    def open_connections(self) -> int:
        """How many connections are being carried now."""
        with self._state:
            return sum(not link.ended for link in self._links)

    def cut(self) -> None:
        """Close every connection there is, on both sides; new ones are welcome."""
        with self._state:
            links, self._links = self._links, []
            for link in links:
                link.ended = True
            self._state.notify_all()
        for link in links:
            link.end()

    def refuse(self, refused: bool = True) -> None:
        """Refuse (or take again) new connections; those there are go on."""
        if refused and self._listener is not None:
            self._listener.close()
            self._listener = None
        elif not refused and self._listener is None:
            self._listener = _Listener(self)

    def freeze(self) -> None:
        """Forward nothing any more, in either direction; connections stay open, as half-open."""
        with self._state:
            self._frozen = True

    def thaw(self) -> None:
        """Go on forwarding, beginning with what was held back."""
        with self._state:
            self._frozen = False
            self._state.notify_all()

    def delay(self, seconds: float) -> None:
        """Hold every piece for this long before it goes on; pieces of one direction queue up."""
        with self._state:
            self._delay = seconds

    def throttle(self, rate: float | None) -> None:
        """Forward at most so many bytes a second in each direction; None for as fast as it goes."""
        with self._state:
            self._rate = rate
            self._state.notify_all()

    def retarget(self, host: str, port: int) -> None:
        """Send new connections elsewhere; those there are stay with their server."""
        with self._state:
            self._target = (host, port)

    def __enter__(self) -> Self:
        self.refuse(False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.refuse(True)
        self.cut()

    def _accepted(self, client: socket.socket) -> None:
        with self._state:
            self.connections += 1
            self._links.append(_Link(self, client))

    def _may_forward(self, link: "_Link", *, delayed: bool) -> bool:
        """Wait while frozen or delayed; False when the link has ended meanwhile."""
        with self._state:
            self._state.wait_for(lambda: link.ended or not self._frozen)
            if delayed and self._delay:
                self._state.wait_for(lambda: link.ended, timeout=self._delay)
                self._state.wait_for(lambda: link.ended or not self._frozen)
            return not link.ended

    def _portions(self, link: "_Link", piece: bytes) -> Iterator[bytes]:
        """The piece in parts, each at the time when it may go."""
        while piece:
            with self._state:
                rate = self._rate
                if rate is not None:
                    self._state.wait_for(lambda: link.ended or self._rate is None, timeout=_TICK)
                if link.ended:
                    return
            size = len(piece) if rate is None else max(1, int(rate * _TICK))
            part, piece = piece[:size], piece[size:]
            yield part

    def _dial(self) -> socket.socket | None:
        with self._state:
            target = self._target
        with contextlib.suppress(OSError):
            return socket.create_connection(target, timeout=10)
        return None

    def _count(self, size: int) -> None:
        with self._state:
            self.carried += size

    def _forget(self, link: "_Link") -> None:
        with self._state:
            link.ended = True


class _Listener:
    """The listening socket and the thread that accepts on it."""

    def __init__(self, proxy: TcpProxy) -> None:
        self._proxy = proxy
        self._socket = socket.create_server((proxy.host, proxy.port))
        self._thread = threading.Thread(target=self._accept, name="proxy-accept", daemon=True)
        self._thread.start()

    def close(self) -> None:
        # Shutting a listening socket down is what wakes a blocked accept.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            self._proxy._accepted(client)


class _Link:
    """One carried connection: this thread dials and carries upwards, a second one downwards."""

    def __init__(self, proxy: TcpProxy, client: socket.socket) -> None:
        self.ended = False
        self._proxy = proxy
        self._client = client
        self._server: socket.socket | None = None
        self._thread = threading.Thread(target=self._carry, name="proxy-link", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Close both sides and wait until the threads have seen it."""
        for side in (self._client, self._server):
            if side is not None:
                _shut(side, socket.SHUT_RDWR)
        self._thread.join()

    def _carry(self) -> None:
        with self._client:
            server = self._proxy._dial() if self._proxy._may_forward(self, delayed=False) else None
            if server is not None:
                with server:
                    server.settimeout(None)
                    self._server = server
                    # An end() that came before the line above saw no server to shut.
                    if not self.ended:
                        self._carry_both_ways(server)
        self._proxy._forget(self)

    def _carry_both_ways(self, server: socket.socket) -> None:
        down = threading.Thread(target=self._pump, args=(server, self._client), daemon=True)
        down.start()
        self._pump(self._client, server)
        down.join()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while piece := source.recv(_PIECE):
                if not self._proxy._may_forward(self, delayed=True):
                    return
                for part in self._proxy._portions(self, piece):
                    sink.sendall(part)
                    if sink is self._client:
                        self._proxy._count(len(part))
        except OSError:
            # A reset on one side is passed on as the end of both.
            _shut(source, socket.SHUT_RDWR)
            _shut(sink, socket.SHUT_RDWR)
        else:
            # The end of a stream is news like any other: it waits while frozen.
            self._proxy._may_forward(self, delayed=True)
            _shut(sink, socket.SHUT_WR)


def _shut(side: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):
        side.shutdown(how)
