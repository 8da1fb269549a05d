"""No exception of the driver, and nothing that it holds, gets past the sources."""

import contextlib
import errno
import pickle
import socket
import ssl
import struct
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

from capstan import config
from capstan.core.halts import Halted, HaltReason
from capstan.core.server_errors import Stage
from capstan.core.tables import CaptureList
from capstan.sources.base import LinkLost
from capstan.sources.faults import AuthRefused, translated
from capstan.sources.live import LiveSource

SENTINEL = "s3ntinel"


def everything_in(error: BaseException) -> Iterator[str]:
    """All that a log, a debugger or a pickle could show of an exception."""
    seen: list[BaseException] = []
    queue = [error]
    while queue:
        current = queue.pop()
        seen.append(current)
        yield from (repr(current), str(current), repr(current.args), repr(vars(current)))
        yield from map(repr, getattr(current, "__notes__", []))
        queue += [
            other
            for other in (current.__cause__, current.__context__)
            if other is not None and other not in seen
        ]
    yield "".join(traceback.format_exception(error))


def translate(stage: Stage, raised: Exception) -> LinkLost | Halted:
    with pytest.raises((LinkLost, Halted)) as caught, translated(stage):
        raise raised
    return caught.value


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize(
    "raised",
    [
        pymysql.OperationalError(1045, SENTINEL),
        pymysql.OperationalError(2013, SENTINEL),
        pymysql.ProgrammingError(1064, SENTINEL),
        pymysql.OperationalError(SENTINEL),
        pymysql.InterfaceError(0, SENTINEL),
        OSError(errno.ECONNRESET, SENTINEL),
        ssl.SSLError(1, SENTINEL),
        RuntimeError(SENTINEL),
        UnicodeEncodeError("latin-1", SENTINEL, 0, 1, SENTINEL),
        struct.error(SENTINEL),
    ],
)
def test_what_comes_out_has_no_trace_of_what_went_in(stage: Stage, raised: Exception) -> None:
    """R55, R265: no text, argument, cause or context of the driver's exception."""
    ours = translate(stage, raised)
    assert ours.__cause__ is None
    assert ours.__context__ is None
    assert not [text for text in everything_in(ours) if SENTINEL in text]


def test_the_context_stays_cut_when_an_exception_was_being_handled_before() -> None:
    """R55, R265: also where the block itself runs while another exception is handled."""
    try:
        raise ValueError(SENTINEL)  # noqa: TRY301
    except ValueError:
        ours = translate(Stage.READ, OSError(errno.EPIPE, SENTINEL))
    assert not [text for text in everything_in(ours) if SENTINEL in text]


@pytest.mark.parametrize(
    ("stage", "raised", "reason"),
    [
        (Stage.CONNECT, pymysql.OperationalError(1045, ""), HaltReason.AUTH_FAILED),
        (Stage.CONNECT, pymysql.OperationalError("broke off"), HaltReason.AUTH_FAILED),
        (Stage.CONNECT, AuthRefused("no"), HaltReason.AUTH_FAILED),
        (Stage.CONNECT, pymysql.OperationalError(3159, ""), HaltReason.TLS_FAILED),
        (Stage.CONNECT, ssl.SSLError(1, "alert"), HaltReason.TLS_FAILED),
        (Stage.QUERY, pymysql.OperationalError(1193, ""), HaltReason.PRECONDITION_QUERY_FAILED),
        (Stage.QUERY, ValueError("shape"), HaltReason.PRECONDITION_QUERY_FAILED),
        (Stage.DUMP, pymysql.OperationalError(1227, ""), HaltReason.PRIVILEGE_MISSING),
        (Stage.DUMP, pymysql.OperationalError(1773, ""), HaltReason.DUMP_FAILED),
    ],
)
def test_what_a_person_must_mend_is_a_halt(
    stage: Stage, raised: Exception, reason: HaltReason
) -> None:
    """R54: with its reason."""
    ours = translate(stage, raised)
    assert isinstance(ours, Halted)
    assert ours.halt.reason is reason


@pytest.mark.parametrize(
    ("stage", "raised", "code"),
    [
        (Stage.CONNECT, TimeoutError(), 2003),
        (Stage.CONNECT, socket.gaierror(-2, "no name"), 2005),
        (Stage.CONNECT, pymysql.OperationalError(1040, ""), 1040),
        (Stage.CONNECT, ssl.SSLEOFError(8, "eof"), 2026),
        (Stage.CONNECT, struct.error("not MySQL"), None),
        (Stage.QUERY, pymysql.OperationalError(2013, ""), 2013),
        (Stage.QUERY, pymysql.InterfaceError(0, ""), None),
        (Stage.DUMP, BrokenPipeError(errno.EPIPE, ""), 2013),
        (Stage.READ, ConnectionResetError(errno.ECONNRESET, ""), 2013),
        (Stage.READ, ssl.SSLError(1, "bad record"), 2026),
    ],
)
def test_what_may_pass_is_a_lost_link(stage: Stage, raised: Exception, code: int | None) -> None:
    """R52: with the stage and a MySQL code, never the system's number."""
    ours = translate(stage, raised)
    assert isinstance(ours, LinkLost)
    assert (ours.stage, ours.code) == (stage.value, code)


def test_our_own_verdicts_and_interrupts_pass_unchanged() -> None:
    """R54: a halt made inside stays that halt; KeyboardInterrupt is nobody's fault to name."""
    inside = LinkLost("query", 7)
    with pytest.raises(LinkLost) as caught, translated(Stage.CONNECT):
        raise inside
    assert caught.value is inside
    with pytest.raises(KeyboardInterrupt), translated(Stage.CONNECT):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "password",
    [
        f"{SENTINEL}-wrong",
        f"{SENTINEL}-日😀",
        f"{SENTINEL}-\udc80-lone-surrogate",
        f"{SENTINEL}-{'x' * 300}",
    ],
)
@pytest.mark.parametrize("tls", ["disabled", "required"])
def test_a_refused_password_is_nowhere_in_what_is_raised(
    tls_server: Any, password: str, tls: Any
) -> None:
    """R265: wrong, outside latin-1, not encodable at all, too long for the key."""
    user = tls_server.new_user("right")
    server = tls_server.server
    source = config.Source(
        host=server.host, port=server.port, user=user, password=password, server_id=4001, tls=tls
    )
    with contextlib.closing(LiveSource(source, CaptureList(), write_timeout=1).link()) as link:
        with pytest.raises(Halted) as caught:
            link.open()
        assert caught.value.halt.reason is HaltReason.AUTH_FAILED
        for text in (*everything_in(caught.value), repr(vars(link)), repr(source)):
            assert SENTINEL not in text
        assert SENTINEL.encode() not in pickle.dumps(caught.value)


def _greeting(plugin: bytes, capabilities: int = 0x000F_A20D) -> bytes:
    low, high = capabilities & 0xFFFF, capabilities >> 16
    body = (
        b"\x0a9.7.4\0" + struct.pack("<I", 1) + b"12345678\0" + struct.pack("<H", low) + b"\xff"
        b"\x02\0" + struct.pack("<HB", high, 21) + bytes(10) + b"123456789012\0" + plugin + b"\0"
    )
    return _packet(0, body)


def _packet(sequence: int, body: bytes) -> bytes:
    return struct.pack("<I", len(body))[:3] + bytes([sequence]) + body


@pytest.mark.parametrize("plugin", ["mysql_clear_password", "dialog", "mysql_old_password"])
def test_a_server_that_asks_for_the_password_in_clear_does_not_get_it(
    tls_server: Any, plugin: str
) -> None:
    """R265: a method that shows the password is refused on a connection that shows it too."""
    ask = b"\xfe" + plugin.encode() + b"\0" + b"\x04Password: "
    heard, error = _talk_to_fake([_greeting(b"caching_sha2_password"), _packet(2, ask)])
    assert isinstance(error, Halted)
    assert error.halt.reason is HaltReason.AUTH_FAILED
    assert SENTINEL.encode() not in heard


def test_a_server_that_asks_for_a_local_file_does_not_get_it(tmp_path: Any) -> None:
    """LOCAL INFILE is answered with the end of the connection."""
    secret = tmp_path / "secret"
    secret.write_text(SENTINEL)
    accepted = _packet(2, b"\x00\x00\x00\x02\x00\x00\x00")
    ask = _packet(1, b"\xfb" + str(secret).encode())
    heard, error = _talk_to_fake(
        [_greeting(b"caching_sha2_password"), accepted, ask, ask, ask], password=""
    )
    assert isinstance(error, Halted | LinkLost)
    assert SENTINEL.encode() not in heard


def test_what_is_not_mysql_is_a_lost_link() -> None:
    """R52: the budget of dials ends it; no exception of the driver's parser comes out."""
    _, error = _talk_to_fake([b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", b""])
    assert isinstance(error, LinkLost)
    assert error.stage == "connect"


def _talk_to_fake(script: list[bytes], password: str = SENTINEL) -> tuple[bytes, Exception]:
    """Dial a server that says its lines whatever it hears; what it heard, and how it ended."""
    heard = bytearray()

    def serve(listener: socket.socket) -> None:
        peer, _ = listener.accept()
        # Whoever dialled may hang up at any time.
        with peer, contextlib.suppress(OSError):
            for line in script:
                peer.sendall(line)
                heard.extend(peer.recv(65536))
            peer.shutdown(socket.SHUT_WR)
            while more := peer.recv(65536):
                heard.extend(more)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        source = config.Source(
            port=listener.getsockname()[1],
            user="u",
            password=password,
            server_id=4002,
            connect_timeout=5,
        )
        link = LiveSource(source, CaptureList(), write_timeout=1).link()
        with contextlib.closing(link), pytest.raises((LinkLost, Halted)) as caught:
            link.open()
        thread.join(10)
        assert not thread.is_alive()
    return bytes(heard), caught.value
