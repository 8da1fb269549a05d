"""The proxy that other tests trust: each of its misdeeds, and a real server through it."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from helpers.mysql import Database, execute
from helpers.waiting import wait_until

from capstan.testing import TcpProxy


class Echo(socketserver.BaseRequestHandler):
    """Sends back what it gets, each piece behind its server's name."""

    def handle(self) -> None:
        while piece := self.request.recv(65536):
            self.request.sendall(self.server.name + piece)  # type: ignore[attr-defined]


@pytest.fixture
def echoes() -> Iterator[list[tuple[str, int]]]:
    """The addresses of two echo servers, named a and b."""
    servers = []
    for name in (b"a:", b"b:"):
        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo)
        server.name = name  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        servers.append((server, thread))
    yield [("127.0.0.1", server.server_address[1]) for server, _ in servers]
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def proxy(echoes: list[tuple[str, int]]) -> Iterator[TcpProxy]:
    """A proxy in front of echo server a."""
    with TcpProxy(*echoes[0]) as running:
        yield running
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("proxy")]


def dial(proxy: TcpProxy) -> socket.socket:
    return socket.create_connection((proxy.host, proxy.port), timeout=20)


def ask(client: socket.socket, text: bytes) -> bytes:
    client.sendall(text)
    return client.recv(100)


def test_connections_are_carried_and_counted(proxy: TcpProxy) -> None:
    """Bytes go both ways; a client that leaves is no longer open but stays counted."""
    with dial(proxy) as first, dial(proxy) as second:
        assert (ask(first, b"1"), ask(second, b"2")) == (b"a:1", b"a:2")
        assert (proxy.connections, proxy.open_connections) == (2, 2)
    wait_until(lambda: proxy.open_connections == 0, what="both connections have ended")
    assert proxy.connections == 2


def test_a_cut_ends_what_is_there_and_nothing_else(proxy: TcpProxy) -> None:
    """Open connections end at both sides; the next dial is served."""
    with dial(proxy) as client:
        assert ask(client, b"1") == b"a:1"
        proxy.cut()
        assert client.recv(1) == b""
        assert proxy.open_connections == 0
    with dial(proxy) as client:
        assert ask(client, b"2") == b"a:2"


def test_refusing_turns_dials_away_and_spares_the_rest(proxy: TcpProxy) -> None:
    """While refusing, the port is closed; open connections go on; later the port is the same."""
    with dial(proxy) as client:
        assert ask(client, b"1") == b"a:1"
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            dial(proxy)
        assert ask(client, b"2") == b"a:2"
    proxy.refuse(False)
    with dial(proxy) as client:
        assert ask(client, b"3") == b"a:3"
    assert proxy.connections == 2


def test_a_frozen_link_is_half_open_until_the_thaw(proxy: TcpProxy) -> None:
    """Nothing is forwarded, nothing is closed, nothing is lost: the thaw delivers what waited."""
    with dial(proxy) as client:
        assert ask(client, b"1") == b"a:1"
        proxy.freeze()
        client.sendall(b"2")
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(1)
        client.settimeout(20)
        with dial(proxy) as late:
            late.sendall(b"3")
            wait_until(lambda: proxy.connections == 2, what="the late dial is accepted")
            proxy.thaw()
            assert client.recv(100) == b"a:2"
            assert late.recv(100) == b"a:3"


def test_a_frozen_link_can_be_cut(proxy: TcpProxy) -> None:
    """A cut ends frozen connections too, those not yet dialled onwards included."""
    with dial(proxy) as client:
        assert ask(client, b"1") == b"a:1"
        proxy.freeze()
        with dial(proxy) as late:
            wait_until(lambda: proxy.connections == 2, what="the late dial is accepted")
            client.sendall(b"2")
            proxy.cut()
            assert (client.recv(1), late.recv(1)) == (b"", b"")


def test_a_delay_holds_every_piece_and_a_cut_ends_the_wait(proxy: TcpProxy) -> None:
    """With a long delay nothing arrives; a cut does not wait for the delay to pass."""
    with dial(proxy) as client:
        proxy.delay(3600)
        client.sendall(b"1")
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(1)
        proxy.cut()
        assert client.recv(1) == b""
    proxy.delay(0.01)
    with dial(proxy) as client:
        assert ask(client, b"2") == b"a:2"


def test_retargeting_moves_new_connections_only(
    proxy: TcpProxy, echoes: list[tuple[str, int]]
) -> None:
    """A connection stays with the server it was made to; the next one meets the other."""
    with dial(proxy) as old:
        assert ask(old, b"1") == b"a:1"
        proxy.retarget(*echoes[1])
        with dial(proxy) as new:
            assert (ask(old, b"2"), ask(new, b"3")) == (b"a:2", b"b:3")


def test_a_dead_target_closes_the_dial(proxy: TcpProxy) -> None:
    """A dial that cannot be carried on ends without a byte."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        dead = unused.getsockname()
    proxy.retarget(*dead)
    with dial(proxy) as client:
        assert client.recv(1) == b""


def test_a_large_stream_arrives_whole(proxy: TcpProxy) -> None:
    """Megabytes pass unchanged although neither side reads in step."""
    sent = bytes(range(256)) * 8192
    with dial(proxy) as client:

        def send() -> None:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        received = b"".join(iter(lambda: client.recv(65536), b""))
        sender.join()
    assert received.replace(b"a:", b"") == sent


def test_a_real_server_is_reached_through_it(database: Database) -> None:
    """MySQL's handshake and queries pass; a cut ends the session's connection."""
    with TcpProxy(database.server.host, database.server.port) as proxy:
        with closing(database.connect(host=proxy.host, port=proxy.port)) as connection:
            assert execute(connection, "SELECT DATABASE()") == [(database.name,)]
        assert proxy.connections == 1


def test_a_throttled_link_keeps_to_its_rate_and_can_be_cut(proxy: TcpProxy) -> None:
    """So many bytes a second in each direction; without a rate it goes as fast as it can."""
    with dial(proxy) as client:
        proxy.throttle(1000)
        client.sendall(bytes(5000))
        wait_until(lambda: 0 < proxy.carried < 5000, what="a part has come")
        proxy.cut()
        assert len(b"".join(iter(lambda: client.recv(65536), b""))) <= proxy.carried < 5000
    proxy.throttle(None)
    before = proxy.carried
    with dial(proxy) as client:
        assert ask(client, b"2") == b"a:2"
    # What is carried is counted once it has gone out.
    wait_until(lambda: proxy.carried == before + 3, what="it is counted")


def test_a_rate_that_is_taken_away_lets_the_rest_go_at_once(proxy: TcpProxy) -> None:
    """Nothing of what was held back is lost."""
    with dial(proxy) as client:
        proxy.throttle(10)
        client.sendall(b"x" * 10_000)
        client.shutdown(socket.SHUT_WR)
        proxy.throttle(None)
        received = b"".join(iter(lambda: client.recv(65536), b""))
    assert received.replace(b"a:", b"") == b"x" * 10_000
