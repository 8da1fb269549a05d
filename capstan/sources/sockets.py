"""Sockets that give way: resolve and connect within a deadline, and stop at once when told to.

House rules: a socket here belongs to one thread; the `Interrupt` is the only thing another thread
may touch. An interrupt is one-way and final. Nothing here knows MySQL, TLS or a password.
"""

import contextlib
import errno
import math
import os
import select
import socket
import threading
import time
from typing import Final

from capstan.config import Source

_STREAM: Final = socket.SOCK_STREAM
_Address = tuple[socket.AddressFamily, int, object]


class Interrupt:
    """A flag that, once set, wakes every poll and breaks every blocked call of one link."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set = False
        self._reader, self._writer = socket.socketpair()
        self._victim: socket.socket | None = None

    def set(self) -> None:
        """From any thread, any number of times, also after `close()`."""
        with self._lock:
            self._set = True
            with contextlib.suppress(OSError):
                self._writer.send(b"\0", socket.MSG_DONTWAIT)
            self._break()

    def is_set(self) -> bool:
        """Whether `set()` was called."""
        return self._set

    def fileno(self) -> int:
        """What to poll for reading beside the socket; readable for ever once set."""
        return self._reader.fileno()

    def guard(self, sock: socket.socket) -> None:
        """Shut this connection down when set, until `release()`.

        A duplicate is kept, so that it does not matter who wraps, detaches or closes `sock`, and
        no other thread ever touches a descriptor that its owner may have given back.
        """
        with self._lock:
            self._victim = sock.dup()
            if self._set:
                self._break()

    def release(self) -> None:
        """Stop guarding: from here on the owner polls `fileno()` itself."""
        with self._lock:
            if self._victim is not None:
                self._victim.close()
                self._victim = None

    def close(self) -> None:
        """Give the descriptors back; safe to call twice."""
        self.release()
        with self._lock:
            self._reader.close()
            self._writer.close()

    def _break(self) -> None:
        if self._victim is not None:
            # Not connected any more is as good.
            with contextlib.suppress(OSError):
                self._victim.shutdown(socket.SHUT_RDWR)


def wait_for(sock: socket.socket, events: int, interrupt: Interrupt, seconds: float) -> bool:
    """Poll until `sock` is ready for `events`; False after `seconds` or an interrupt."""
    poll = select.poll()
    poll.register(sock, events)
    poll.register(interrupt, select.POLLIN)
    ready = poll.poll(max(0, math.ceil(seconds * 1000)))
    return bool(ready) and not interrupt.is_set()


def connect(source: Source, interrupt: Interrupt) -> socket.socket:
    """A connected socket for the configured server, in blocking mode with `connect_timeout`.

    Every address of the host is tried in turn; all of it within `connect_timeout`.

    Raises:
        OSError: When no address answered in time, or on an interrupt.
    """
    deadline = time.monotonic() + source.connect_timeout
    failure: OSError = TimeoutError(errno.ETIMEDOUT, "no address answered")
    for address in _addresses(source, interrupt, deadline):
        try:
            sock = _connect_one(address, interrupt, deadline)
        except OSError as error:
            failure = error
            continue
        sock.settimeout(source.connect_timeout)
        return sock
    raise failure


def _addresses(source: Source, interrupt: Interrupt, deadline: float) -> list[_Address]:
    if source.unix_socket is not None:
        return [(socket.AF_UNIX, 0, source.unix_socket)]
    return [
        (family, protocol, address)
        for family, _, protocol, _, address in _Resolver(source).run(interrupt, deadline)
    ]


class _Resolver:
    """Looks a name up in a thread of its own, because the system's call cannot be broken off."""

    def __init__(self, source: Source) -> None:
        self._host, self._port = source.host, source.port
        self._found: list[tuple[socket.AddressFamily, int, int, str, object]] = []
        self._failure: OSError | None = None
        self._done, self._signal = socket.socketpair()

    def run(
        self, interrupt: Interrupt, deadline: float
    ) -> list[tuple[socket.AddressFamily, int, int, str, object]]:
        threading.Thread(target=self._look_up, name="capstan-resolver", daemon=True).start()
        try:
            if not wait_for(self._done, select.POLLIN, interrupt, deadline - time.monotonic()):
                raise TimeoutError(errno.ETIMEDOUT, "the name was not resolved")
        finally:
            self._done.close()
        if self._failure is not None:
            raise self._failure
        return self._found

    def _look_up(self) -> None:
        try:
            self._found = list(socket.getaddrinfo(self._host, self._port, type=_STREAM))
        except OSError as error:
            self._failure = error
        except UnicodeError:
            self._failure = OSError(errno.EINVAL, "not a host name")
        finally:
            # Closing wakes the waiter, if it still waits.
            self._signal.close()


def _connect_one(address: _Address, interrupt: Interrupt, deadline: float) -> socket.socket:
    family, protocol, where = address
    sock = socket.socket(family, _STREAM, protocol)
    try:
        sock.setblocking(False)
        code = sock.connect_ex(where)  # type: ignore[arg-type]
        if code == errno.EINPROGRESS:
            if not wait_for(sock, select.POLLOUT, interrupt, deadline - time.monotonic()):
                raise TimeoutError(errno.ETIMEDOUT, "no answer")  # noqa: TRY301
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))  # noqa: TRY301
        if family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    except BaseException:
        sock.close()
        raise
    return sock
