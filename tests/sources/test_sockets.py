"""Sockets that connect within a deadline and give way to an interrupt."""

import contextlib
import select
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from helpers.waiting import wait_until

from capstan import config
from capstan.sources import sockets
from capstan.sources.sockets import Interrupt, connect, wait_for

LONG = 600.0


@pytest.fixture
def interrupt() -> Iterator[Interrupt]:
    with contextlib.closing(Interrupt()) as made:
        yield made


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port whose queue of connections is full: a dial gets no answer at all."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        while True:
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(address)
            if not select.select([], [filler], [], 0.2)[1]:
                break
        yield address[1]


def source(port: int, **options: Any) -> config.Source:
    return config.Source(
        port=port, user="u", server_id=1, **{"connect_timeout": LONG, "tls": "disabled", **options}
    )


def ends_when_interrupted(call: Callable[[], object], interrupt: Interrupt) -> BaseException:
    """Run a call that would take minutes, interrupt it, and return how it ended."""
    ended: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except OSError as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    interrupt.set()
    wait_until(lambda: not thread.is_alive(), what="the call ends")
    return ended[0]


def test_an_unanswered_connect_ends_by_its_own_deadline(
    deaf_port: int, interrupt: Interrupt
) -> None:
    """A dial takes connect_timeout at most."""
    with pytest.raises(TimeoutError):
        connect(source(deaf_port, connect_timeout=0.2), interrupt)


def test_an_unanswered_connect_gives_way_to_an_interrupt(
    deaf_port: int, interrupt: Interrupt
) -> None:
    """P8: no call of a link outlives its interrupt."""
    ended = ends_when_interrupted(lambda: connect(source(deaf_port), interrupt), interrupt)
    assert isinstance(ended, TimeoutError)


def test_a_name_that_is_never_resolved_gives_way_to_an_interrupt(
    interrupt: Interrupt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: the system's own call cannot be broken off, waiting for it can."""
    release = threading.Event()

    def never(*_: object, **__: object) -> list[Any]:
        release.wait(LONG)
        return []

    monkeypatch.setattr(sockets.socket, "getaddrinfo", never)
    try:
        ended = ends_when_interrupted(
            lambda: connect(source(1, host="slow.invalid"), interrupt), interrupt
        )
    finally:
        release.set()
    assert isinstance(ended, TimeoutError)


@pytest.mark.parametrize("host", ["\u2603" * 80, "a..b", "x" * 300])
def test_a_host_that_is_no_name_is_an_os_error(host: str, interrupt: Interrupt) -> None:
    """A name that cannot be encoded is as good as unknown."""
    with pytest.raises(OSError):
        connect(source(1, host=host), interrupt)


def test_every_address_of_a_name_is_tried(
    interrupt: Interrupt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host with a dead address first is reached by the next one."""
    with socket.create_server(("127.0.0.1", 0)) as dead:
        refused = dead.getsockname()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", address)
            for address in (refused, listener.getsockname())
        ]
        monkeypatch.setattr(sockets.socket, "getaddrinfo", lambda *_, **__: found)
        with connect(source(1, host="two.invalid"), interrupt) as sock:
            assert sock.getpeername() == listener.getsockname()
            assert sock.gettimeout() == LONG


def test_an_interrupt_breaks_a_guarded_socket_and_none_after_release(
    interrupt: Interrupt,
) -> None:
    """P8: a blocked receive sees the end; a released socket is its owner's business."""
    left, right = socket.socketpair()
    with left, right:
        interrupt.guard(left)
        interrupt.release()
        interrupt.set()
        right.send(b"x")
        assert left.recv(1) == b"x"
        # Set before the guard: it breaks at once.
        interrupt.guard(left)
        assert left.recv(1) == b""


def test_the_guard_survives_the_socket_being_closed_by_its_owner(interrupt: Interrupt) -> None:
    """P8: a descriptor that was given back and used again is never touched."""
    left, right = socket.socketpair()
    interrupt.guard(left)
    descriptor = left.fileno()
    left.close()
    other, peer = socket.socketpair()
    with right, other, peer:
        assert descriptor in {other.fileno(), peer.fileno()}
        interrupt.set()
        peer.send(b"x")
        assert other.recv(1) == b"x"


def test_an_interrupt_is_final_and_safe_at_any_time(interrupt: Interrupt) -> None:
    """P8: twice, after close, and more often than the wake-up's buffer holds."""
    for _ in range(2000):
        interrupt.set()
    left, right = socket.socketpair()
    with left, right:
        right.send(b"x")
        assert not wait_for(left, select.POLLIN, interrupt, LONG)
    interrupt.close()
    interrupt.close()
    interrupt.set()
    assert interrupt.is_set()


def test_waiting_ends_with_readiness_or_time(interrupt: Interrupt) -> None:
    """A poll of less than a millisecond is rounded up, and a negative one looks once."""
    left, right = socket.socketpair()
    with left, right:
        assert not wait_for(left, select.POLLIN, interrupt, 0.0001)
        assert not wait_for(left, select.POLLIN, interrupt, -5)
        right.send(b"x")
        assert wait_for(left, select.POLLIN, interrupt, -5)
        assert wait_for(left, select.POLLIN, interrupt, LONG)
