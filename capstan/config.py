"""The configuration as frozen sections, every refusal before any socket.

House rules: a section checks itself when it is made; `Config` checks what two sections say
together. Messages name the option and what it must be, never its value. The password is out of
every repr and is not pickled.
"""

import ipaddress
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, get_args

import attrs

from capstan.core.tables import CaptureList
from capstan.errors import ConfigError

if TYPE_CHECKING:
    from capstan.sinks.base import Sink as SinkInterface
    from capstan.stores.base import Store as StoreInterface

TlsMode = Literal["disabled", "preferred", "required", "verify_ca", "verify_identity"]


class _All:
    """The type of `ALL`: every table outside the server's own schemas."""

    def __repr__(self) -> str:
        return "capstan.ALL"


ALL: Final = _All()


def _refuse(option: str, rule: str) -> NoReturn:
    raise ConfigError(f"{option}: {rule}")


def _positive(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        _refuse(attribute.name, "must be a positive number")


def _whole(low: int, high: int) -> Callable[[Any, "attrs.Attribute[Any]", Any], None]:
    def check(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            _refuse(attribute.name, f"must be a whole number from {low} to {high}")

    return check


def _text(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
    if not isinstance(value, str) or not value:
        _refuse(attribute.name, "must be a non-empty text")


def _optional_text(instance: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
    if value is not None:
        _text(instance, attribute, value)


def _texts(entries: Iterable[str]) -> tuple[str, ...]:
    return tuple(entries)


def _observers(entries: Iterable[Callable[[Any], None]]) -> tuple[Callable[[Any], None], ...]:
    return tuple(entries)


@attrs.frozen(kw_only=True)
class Source:
    """The MySQL server to read from.

    Attributes:
        host: Name or address; unused with `unix_socket`.
        port: TCP port.
        unix_socket: Path of the server's socket, instead of host and port.
        user: Account with REPLICATION SLAVE, REPLICATION CLIENT and SELECT.
        password: Its password; never shown.
        server_id: This reader's own id, unlike that of any other replica of the source.
        tls: MySQL's mode names; by default `verify_identity` for remote hosts and `preferred`
            for loopback addresses and Unix sockets.
        tls_ca: Path of the CA certificates; the system's by default.
        tls_cert: Path of the client certificate.
        tls_key: Path of its key.
        connect_timeout: Seconds for connecting and for each answer before the stream.
        heartbeat: Seconds of silence after which the server sends a heartbeat.
        liveness_timeout: Seconds without a packet, while reading, after which the link is
            taken for dead; greater than `heartbeat`.
        settle_timeout: Seconds granted to a transaction seen before gtid_executed has it (D14).
        reconnect_attempts: Failed dials in a row, without progress, before the halt; the waits
            between them double up to half a minute, so the default spans about ten minutes.
        accept_unlogged_cascades: Captured tables whose unlogged foreign key cascades are
            accepted, as `schema.table` (D26).
    """

    host: str = attrs.field(default="127.0.0.1", validator=_text)
    port: int = attrs.field(default=3306, validator=_whole(1, 65535))
    unix_socket: str | None = attrs.field(default=None, validator=_optional_text)
    user: str = attrs.field(validator=_text)
    password: str = attrs.field(default="", repr=False)
    server_id: int = attrs.field(validator=_whole(1, 2**32 - 1))
    tls: TlsMode | None = None
    tls_ca: str | None = attrs.field(default=None, validator=_optional_text)
    tls_cert: str | None = attrs.field(default=None, validator=_optional_text)
    tls_key: str | None = attrs.field(default=None, validator=_optional_text)
    connect_timeout: float = attrs.field(default=10.0, validator=_positive)
    heartbeat: float = attrs.field(default=5.0, validator=_positive)
    liveness_timeout: float = attrs.field(default=30.0, validator=_positive)
    settle_timeout: float = attrs.field(default=30.0, validator=_positive)
    reconnect_attempts: int = attrs.field(default=30, validator=_whole(1, 1_000_000))
    accept_unlogged_cascades: tuple[str, ...] = attrs.field(default=(), converter=_texts)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.password, str):
            _refuse("password", "must be a text")
        if self.tls is not None and self.tls not in get_args(TlsMode):
            _refuse("tls", f"must be one of {', '.join(get_args(TlsMode))}")
        if not self.liveness_timeout > self.heartbeat:
            _refuse("liveness_timeout", "must be greater than heartbeat")
        if self.tls_key is not None and self.tls_cert is None:
            _refuse("tls_key", "needs tls_cert")

    @property
    def tls_mode(self) -> TlsMode:
        """The mode in force."""
        if self.tls is not None:
            return self.tls
        return "preferred" if self.unix_socket or _is_loopback(self.host) else "verify_identity"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Source holds a secret and is not pickled")


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@attrs.frozen(kw_only=True)
class Delivery:
    """How items reach the sink.

    Attributes:
        max_batch: Transactions settled together at most; 1 makes the duplicate window after a
            crash one transaction.
        sink_timeout: Seconds after which a sink call counts as hung (`sink_stalled`).
    """

    max_batch: int = attrs.field(default=1000, validator=_whole(1, 1_000_000))
    sink_timeout: float = attrs.field(default=300.0, validator=_positive)


@attrs.frozen(kw_only=True)
class Limits:
    """Budgets; each bound is a named halt.

    Attributes:
        transaction_memory: Bytes of row events one unfinished transaction may hold in memory.
        transaction_bytes: Bytes one transaction may have at all; None for no limit.
        spool_dir: Where larger transactions are spooled; None for the system's place.
    """

    transaction_memory: int = attrs.field(default=64 << 20, validator=_whole(1, 2**63 - 1))
    transaction_bytes: int | None = None
    spool_dir: str | None = attrs.field(default=None, validator=_optional_text)

    def __attrs_post_init__(self) -> None:
        if self.transaction_bytes is not None:
            _whole(1, 2**63 - 1)(
                self, attrs.fields(Limits).transaction_bytes, self.transaction_bytes
            )


def _capture(tables: object) -> CaptureList:
    if tables is ALL:
        return CaptureList.parse(None)
    if isinstance(tables, CaptureList):
        return tables
    if isinstance(tables, str | bytes) or not isinstance(tables, Iterable):
        _refuse("tables", "must be a list of schema.table patterns, or capstan.ALL")
    entries = list(tables)
    if not all(isinstance(entry, str) for entry in entries):
        _refuse("tables", "every entry must be a text of the form schema.table")
    try:
        return CaptureList.parse(entries)
    except ValueError as error:
        raise ConfigError(f"tables: {error}") from None


def _has(*methods: str) -> Callable[[Any, "attrs.Attribute[Any]", Any], None]:
    def check(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
        missing = [name for name in methods if not callable(getattr(value, name, None))]
        if missing:
            _refuse(attribute.name, f"lacks {', '.join(missing)}")

    return check


@attrs.frozen(kw_only=True)
class Config:
    """Everything a pipeline needs.

    Attributes:
        source: The server.
        tables: Patterns `schema.table` with `*` and `?`, or `capstan.ALL`.
        sink: Where changes go.
        store: Where the watermark is kept.
        delivery: Batches and the sink's deadline.
        limits: Budgets.
        observers: Called with value-free telemetry events; one that raises is ignored.
    """

    source: Source = attrs.field(validator=attrs.validators.instance_of(Source))
    tables: CaptureList = attrs.field(converter=_capture)
    sink: "SinkInterface" = attrs.field(
        validator=_has("open", "close", "position", "handle_transaction", "handle_batch")
    )
    store: "StoreInterface" = attrs.field(
        validator=_has("load_watermark", "save_watermark", "close")
    )
    delivery: Delivery = attrs.field(
        factory=Delivery, validator=attrs.validators.instance_of(Delivery)
    )
    limits: Limits = attrs.field(factory=Limits, validator=attrs.validators.instance_of(Limits))
    observers: tuple[Callable[[Any], None], ...] = attrs.field(default=(), converter=_observers)

    @classmethod
    def from_toml(cls, path: str | Path) -> "Config":
        """Read a configuration file; see `capstan.config_file`.

        Raises:
            ConfigError: For anything that is refused.
        """
        # The file names kinds of sinks and stores, which this module may not know.
        from capstan.config_file import load  # noqa: PLC0415

        return load(Path(path))
