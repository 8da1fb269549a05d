"""Every call of a link, at every stage, gives way to an interrupt and to the clock."""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
from helpers.waiting import wait_until

from capstan import config
from capstan.core.tables import CaptureList
from capstan.sources.base import LinkLost
from capstan.sources.live import LiveLink, LiveSource

LONG = 600.0


def stops_when_interrupted(
    call: Callable[[], object], link: LiveLink, blocked: Callable[[], object] = lambda: True
) -> object:
    """Run a call that would take minutes, interrupt the link once `blocked`, and return its end."""
    ended: list[object] = []

    def run() -> None:
        try:
            ended.append(call())
        except LinkLost as lost:
            ended.append(lost)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(blocked, what="the call is under way")
    link.interrupt()
    wait_until(lambda: not thread.is_alive(), what="the call ends")
    return ended[0]


@pytest.mark.parametrize("tls", ["disabled", "required"])
def test_a_blocked_read_gives_way_to_an_interrupt_and_stays_interrupted(
    tls_server: Any, table: str, tapped: Any, tls: str
) -> None:
    """P8: the next link is not disturbed by it."""
    tap = tapped(tls_server.server, tls=tls, heartbeat=LONG, liveness_timeout=2 * LONG).begun()
    assert stops_when_interrupted(lambda: tap.link.read(LONG), tap.link) is None
    tls_server.insert(table, "unread")
    assert tap.link.read(LONG) is None
    tap.link.close()
    after = tapped(tls_server.server, tls=tls)
    tls_server.insert(table, "for-the-next-link")
    after.until(lambda: b"for-the-next-link" in after.raw, "the row arrives")


class MuteServer:
    """A server that greets, or not even that, and then says nothing more."""

    def __init__(self, greeting: bytes) -> None:
        self.reached = False
        self._greeting = greeting
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._peer: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        self._peer, _ = self._listener.accept()
        if self._greeting:
            self._peer.sendall(self._greeting)
            # The answer: what comes next of the client is a wait for ours.
            self._peer.recv(1)
        self.reached = True

    def close(self) -> None:
        self._thread.join()
        self._listener.close()
        if self._peer is not None:
            self._peer.close()


def greeting_of(server: Any) -> bytes:
    """The first packet of a real server, which offers TLS."""
    with socket.create_connection((server.host, server.port)) as sock:
        head = sock.recv(4, socket.MSG_WAITALL)
        return head + sock.recv(int.from_bytes(head[:3], "little"), socket.MSG_WAITALL)


@pytest.mark.parametrize("greets", [False, True])
def test_a_connect_blocked_in_the_handshake_gives_way_to_an_interrupt(
    tls_server: Any, greets: bool
) -> None:
    """P8: before the greeting, and in the middle of the TLS handshake."""
    greeting = greeting_of(tls_server.server) if greets else b""
    with contextlib.closing(MuteServer(greeting)) as mute:
        source = config.Source(port=mute.port, user="u", server_id=1, connect_timeout=LONG)
        with contextlib.closing(LiveSource(source, CaptureList(), write_timeout=1).link()) as link:
            ended = stops_when_interrupted(link.open, link, lambda: mute.reached)
    assert isinstance(ended, LinkLost)
    assert ended.stage == "connect"


@pytest.mark.parametrize("greets", [False, True])
def test_a_silent_server_costs_no_more_than_the_time_out(tls_server: Any, greets: bool) -> None:
    """R52: connect_timeout bounds the greeting and the TLS handshake."""
    greeting = greeting_of(tls_server.server) if greets else b""
    with contextlib.closing(MuteServer(greeting)) as mute:
        source = config.Source(port=mute.port, user="u", server_id=1, connect_timeout=0.2)
        link = LiveSource(source, CaptureList(), write_timeout=1).link()
        with contextlib.closing(link), pytest.raises(LinkLost) as caught:
            link.open()
    assert caught.value.stage == "connect"


def test_a_blocked_query_gives_way_to_an_interrupt(tls_server: Any, link_to: Any) -> None:
    """P8: a server that stops in the middle of an answer."""
    link = link_to(tls_server.server, connect_timeout=LONG, tls="required")
    link.open()
    os.kill(tls_server.server.pid, signal.SIGSTOP)
    try:
        ended = stops_when_interrupted(link.executed, link)
    finally:
        os.kill(tls_server.server.pid, signal.SIGCONT)
    assert isinstance(ended, LinkLost)
    assert ended.stage == "query"


def test_a_link_interrupted_before_it_is_opened_does_not_open(
    tls_server: Any, link_to: Any
) -> None:
    """P8: an interrupt that comes early is not lost."""
    link = link_to(tls_server.server)
    link.interrupt()
    with pytest.raises(LinkLost):
        link.open()
