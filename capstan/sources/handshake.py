"""From a configured server to an authenticated connection of the driver.

House rules: the socket is ours, so that every step has a deadline and gives way to an interrupt;
the driver does greeting, TLS and authentication on it. What it reads is bounded, because it would
gather whatever comes: a server that never ends its answer costs no more than that. The password
goes over the wire in clear only inside TLS or a Unix socket. The TLS modes mean what MySQL's own
client means by them. Every fault leaves through `faults.translated`.
"""

import contextlib
import math
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from pymysql import _auth  # the driver's own plugins, which ours only stand in front of
from pymysql.connections import Connection

from capstan.config import Source
from capstan.core.halts import Halt, Halted, HaltReason
from capstan.core.server_errors import Stage
from capstan.sources import sockets
from capstan.sources.faults import AuthRefused, translated
from capstan.sources.sockets import Interrupt

PROGRAM: Final = "capstan"
_VERIFYING: Final = frozenset({"verify_ca", "verify_identity"})

T = TypeVar("T")

_LOGIN_BYTES: Final = 1 << 20
"""Far more than greeting, certificates and authentication need."""


class AnswerTooLong(Exception):  # noqa: N818 - what a server did, not what went wrong here
    """The server has sent more than was allowed."""


class Wire(Connection):
    """A connection of the driver, authenticated, that reads no more than it is allowed."""

    allowance: float = math.inf

    def _read_bytes(self, num_bytes: int) -> Any:
        self.allowance -= num_bytes
        if self.allowance < 0:
            raise AnswerTooLong
        return super()._read_bytes(num_bytes)  # type: ignore[misc]

    def _create_ssl_ctx(self, sslp: Any) -> Any:
        # The context is ours (`_prepared`): the driver's own would read every authority of the
        # system, for nothing, at each dial.
        return sslp


@contextlib.contextmanager
def at_most(wire: Wire, size: int) -> Iterator[None]:
    """A block in which the server may send so many bytes; without one there is no bound.

    Raises:
        AnswerTooLong: When it sends more.
    """
    wire.allowance = size
    try:
        yield
    finally:
        wire.allowance = math.inf


def dial(source: Source, interrupt: Interrupt) -> Wire:
    """Connect, encrypt as configured and authenticate.

    From the moment the socket is connected `interrupt` guards it; the caller releases it when it
    polls for itself.

    Raises:
        LinkLost: What a later dial may cure, an interrupt included.
        Halted: `auth_failed`, `tls_failed`, `privilege_missing`.
    """
    context = tls_context(source)
    with translated(Stage.CONNECT):
        wire = _prepared(source, context)
        sock = sockets.connect(source, interrupt)
        try:
            interrupt.guard(sock)
            with at_most(wire, _LOGIN_BYTES):
                wire.connect(sock)
        except BaseException:
            # The driver closes what it was given, which is not what it may have wrapped since.
            drop(wire)
            sock.close()
            raise
        finally:
            # The driver keeps it for reconnects that capstan never lets it do.
            wire.password = b""
    return wire


def raw_socket(wire: Wire) -> socket.socket:
    """The socket under a connection: plain, or the TLS layer over it."""
    sock: socket.socket = wire._sock  # type: ignore[attr-defined]
    return sock


def send_command(wire: Wire, command: int, body: bytes) -> None:
    """Send one command of the protocol."""
    wire._execute_command(command, body)  # type: ignore[attr-defined]


def read_packet(wire: Wire) -> Any:
    """Read one whole packet; an error packet is raised."""
    return wire._read_packet()  # type: ignore[no-untyped-call]


def drop(wire: Wire) -> None:
    """Close without a word, whatever the state."""
    wire._force_close()  # type: ignore[attr-defined]


def tls_context(source: Source) -> ssl.SSLContext | None:
    """The TLS settings of the configured mode; None for a connection that stays in clear.

    Raises:
        Halted: `tls_failed` when a configured file cannot be used.
    """
    mode = _mode(source)
    if mode == "disabled":
        return None
    if mode in _VERIFYING:
        context = _load("tls_ca", lambda: ssl.create_default_context(cafile=source.tls_ca))
        context.check_hostname = mode == "verify_identity"
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    # Certificates that the server makes for itself fail the strict profile of newer Pythons;
    # MySQL's own client does not ask for it.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if source.tls_cert is not None:
        certificate, key = source.tls_cert, source.tls_key
        _load("tls_cert", lambda: context.load_cert_chain(certificate, key, _no_password))
    return context


def _mode(source: Source) -> str:
    # MySQL's own client does not encrypt over a Unix socket unless told to.
    if source.unix_socket is not None and source.tls_mode == "preferred":
        return "disabled"
    return source.tls_mode


def _no_password() -> str:
    # Without an answer of ours OpenSSL would ask on the terminal.
    raise ValueError("the key is encrypted")


def _load(option: str, load: Callable[[], T]) -> T:
    with contextlib.suppress(OSError, ValueError):
        return load()
    raise Halted(Halt(HaltReason.TLS_FAILED, f"{option}: the file cannot be used"))


def _prepared(source: Source, context: ssl.SSLContext | None) -> Wire:
    mode = _mode(source)
    wire = Wire(
        host=source.host,
        user=source.user,
        # As bytes: a text would be sent as latin-1.
        password=source.password.encode("utf-8"),
        port=source.port,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=source.connect_timeout,
        read_timeout=source.connect_timeout,
        write_timeout=source.connect_timeout,
        local_infile=False,
        program_name=PROGRAM,
        defer_connect=True,
        # Without a word about TLS the driver encrypts when the server offers it: `preferred`.
        ssl=None if mode == "preferred" else context,
        ssl_disabled=mode == "disabled",
        auth_plugin_map=dict(_PLUGINS),
    )
    if context is not None:
        wire.ctx = context  # type: ignore[attr-defined]
    if source.unix_socket is not None:
        # The driver only knows this of sockets that it opened itself.
        wire._secure = True  # type: ignore[attr-defined]
    return wire


class _Plugin:
    """One authentication method as the driver calls it."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire


class _Hashed(_Plugin):
    """The driver's method, with its mishaps named."""

    method: Callable[[Any, Any], Any]

    def authenticate(self, packet: Any) -> Any:
        try:
            return type(self).method(self._wire, packet)
        except (ValueError, RuntimeError):
            # The password does not fit the server's RSA key, the key is none, or the package
            # that could encrypt it is not installed.
            raise AuthRefused("the password cannot be encrypted for the server") from None


class _CachingSha2(_Hashed):
    method = staticmethod(_auth.caching_sha2_password_auth)


class _Sha256(_Hashed):
    method = staticmethod(_auth.sha256_password_auth)


class _Clear(_Plugin):
    """The password as it is: only where nobody can listen."""

    def authenticate(self, _packet: Any) -> Any:
        if not self._wire._secure:  # type: ignore[attr-defined]
            raise AuthRefused("the server asks for the password in clear without encryption")
        self._wire.write_packet(self._wire.password + b"\0")
        return read_packet(self._wire)


class _Never(_Plugin):
    """A method that would show the password, or a weak proof of it, to whoever asks."""

    def authenticate(self, _packet: Any) -> Any:
        raise AuthRefused("the server asks for an authentication method that is not supported")


_PLUGINS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "caching_sha2_password": _CachingSha2,
    "sha256_password": _Sha256,
    "mysql_clear_password": _Clear,
    "mysql_old_password": _Never,
    "client_ed25519": _Never,
    "dialog": _Never,
}
