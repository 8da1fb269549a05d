"""The one place where the driver's exceptions become ours.

House rules: PyMySQL, ssl and socket exceptions end here, as a `LinkLost` or a `Halted` that holds
a stage, a code, a reason. The driver keeps passwords, statements and server texts inside its
exceptions and in their chain, so the new exception carries no cause, no context and no foreign
traceback.
"""

import socket
import ssl
from types import TracebackType
from typing import Final

import pymysql
from pymysql.constants import CR

from capstan.core.halts import Halt, Halted, HaltReason
from capstan.core.server_errors import Stage, classify_error
from capstan.sources.base import LinkLost

_VERIFY_CODES: Final = {
    9: "not yet valid",
    10: "expired",
    18: "self-signed",
    19: "self-signed in the chain",
    20: "of an unknown issuer",
    21: "of an unknown issuer",
    62: "for another host name",
    64: "for another address",
}


class AuthRefused(Exception):  # noqa: N818 - a decision of ours, on its way out of the driver
    """The client does not go along with what the server asks for.

    Attributes:
        why: Value-free, for the halt's detail.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class translated:  # noqa: N801 - used as a statement: `with translated(Stage.QUERY):`
    """A block around calls of the driver; what it raises is ours.

    Raises:
        LinkLost: What a later dial may cure.
        Halted: What it will not.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if (
            error is None
            or isinstance(error, LinkLost | Halted)
            or not isinstance(error, Exception)
        ):
            return
        ours = _translate(self._stage, error)
        try:
            raise ours from None
        finally:
            # `from None` only hides the context; the driver's exception would still hang on it.
            ours.__context__ = None


def error_code(error: BaseException) -> int | None:
    """The server's or driver's code of a driver's exception, when it has one."""
    if not isinstance(error, pymysql.MySQLError) or not error.args:
        return None
    code = error.args[0]
    return code if isinstance(code, int) and code > 0 else None


def _translate(stage: Stage, error: Exception) -> LinkLost | Halted:
    original = getattr(error, "original_exception", None)
    if isinstance(original, Exception):
        # What PyMySQL wraps while connecting.
        return _translate(stage, original)
    if isinstance(error, ssl.SSLError):
        return _tls(stage, error)
    if isinstance(error, AuthRefused):
        return Halted(Halt(HaltReason.AUTH_FAILED, error.why))
    if isinstance(error, UnicodeEncodeError):
        return Halted(Halt(HaltReason.AUTH_FAILED, "user or password cannot be encoded"))
    if isinstance(error, OSError):
        return LinkLost(stage, _lost_code(stage, error))
    if (code := error_code(error)) is not None:
        reason = classify_error(stage, code)
        return LinkLost(stage, code) if reason is None else Halted(Halt(reason, f"code {code}"))
    return _uncoded(stage, error)


def _lost_code(stage: Stage, error: OSError) -> int:
    """The client library's code for what the operating system reports."""
    if stage is not Stage.CONNECT:
        return CR.CR_SERVER_LOST
    return CR.CR_UNKNOWN_HOST if isinstance(error, socket.gaierror) else CR.CR_CONN_HOST_ERROR


def _tls(stage: Stage, error: ssl.SSLError) -> LinkLost | Halted:
    if stage is not Stage.CONNECT or isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return LinkLost(stage, CR.CR_SSL_CONNECTION_ERROR)
    if isinstance(error, ssl.SSLCertVerificationError):
        what = _VERIFY_CODES.get(error.verify_code, "not accepted")
        detail = f"the server's certificate is {what}, code {error.verify_code}"
    else:
        detail = f"the handshake failed: {getattr(error, 'reason', None) or 'unknown'}"
    return Halted(Halt(HaltReason.TLS_FAILED, detail))


def _uncoded(stage: Stage, error: Exception) -> LinkLost | Halted:
    if stage is Stage.QUERY and not isinstance(error, pymysql.MySQLError):
        return Halted(
            Halt(HaltReason.PRECONDITION_QUERY_FAILED, f"unreadable answer: {type(error).__name__}")
        )
    if stage is Stage.CONNECT and isinstance(error, pymysql.OperationalError):
        # The driver has no code for an authentication exchange that leaves the protocol.
        return Halted(Halt(HaltReason.AUTH_FAILED, "the authentication exchange broke off"))
    # Not MySQL at the other end, or a closed connection: the budget of dials bounds it.
    return LinkLost(stage)
