"""The configuration as frozen sections, every refusal before any socket.

House rules: a section checks itself when it is made; `Config` checks what two sections say
together. Messages name the option and what it must be, never its value. The password is out of
every repr and is not pickled.
"""

import ipaddress
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, get_args

import attrs
from attrs.validators import optional

from capstan.core.tables import CaptureList, CapturePattern, widened
from capstan.errors import ConfigError

if TYPE_CHECKING:
    from capstan.sinks.base import Sink as SinkInterface
    from capstan.stores.base import Store as StoreInterface

TlsMode = Literal["disabled", "preferred", "required", "verify_ca", "verify_identity"]
OnAlter = Literal["halt", "backfill"]

_NOT_ALL: Final = "must not name every schema; list the tables, or patterns schema.*"


class _All:
    """The type of `ALL`: every table outside the server's own schemas."""

    def __repr__(self) -> str:
        return "capstan.ALL"


ALL: Final = _All()


_SERVER_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _refuse(option: str, rule: str) -> NoReturn:
    raise ConfigError(f"{option}: {rule}")


_Validator = Callable[[Any, "attrs.Attribute[Any]", Any], None]

_SHORTEST: Final = 0.001
_LONGEST: Final = 31_536_000
"""A year; what is longer does not fit into every clock, and infinity into none."""


def _seconds(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
    a_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not a_number or not _SHORTEST <= value <= _LONGEST:
        _refuse(attribute.name, f"must be a number of seconds from {_SHORTEST} to {_LONGEST}")


def _whole(low: int, high: int) -> _Validator:
    def check(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            _refuse(attribute.name, f"must be a whole number from {low} to {high}")

    return check


def _text(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
    if not isinstance(value, str) or not value or "\0" in value:
        _refuse(attribute.name, "must be a non-empty text without NUL")


def _folder(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
    _text(_, attribute, value)
    # In this order: `is_dir` raises for a text that can be no path at all.
    if not os.access(value, os.W_OK | os.X_OK) or not Path(value).is_dir():
        _refuse(attribute.name, "must be a folder that exists and can be written to")


def _a(kind: type) -> _Validator:
    def check(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
        if not isinstance(value, kind):
            _refuse(attribute.name, f"must be of the class {kind.__name__}")

    return check


def _listed(option: str, entries: Any, rule: str) -> list[Any]:
    """The entries of something that is a list; a text or a mapping would pass for one."""
    if isinstance(entries, str | bytes | Mapping) or not isinstance(entries, Iterable):
        _refuse(option, rule)
    return list(entries)


def _table_names(entries: Iterable[str]) -> tuple[str, ...]:
    option, rule = "accept_unlogged_cascades", "must be a list of texts of the form schema.table"
    names = _listed(option, entries, rule)
    if not all(isinstance(name, str) and all(name.partition(".")) for name in names):
        _refuse(option, rule)
    return tuple(names)


def _server_uuids(entries: Iterable[str]) -> tuple[str, ...]:
    """In the one form that servers print: lower case, with dashes."""
    option, rule = "allowed_sources", "must be a list of server_uuids"
    uuids = _listed(option, entries, rule)
    if not all(isinstance(text, str) and _SERVER_UUID.fullmatch(text) for text in uuids):
        _refuse(option, rule)
    return tuple(text.lower() for text in uuids)


def _observers(entries: Iterable[Callable[[Any], None]]) -> tuple[Callable[[Any], None], ...]:
    rule = "must be a list of callables"
    observers = _listed("observers", entries, rule)
    if not all(map(callable, observers)):
        _refuse("observers", rule)
    return tuple(observers)


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
        allowed_sources: The server_uuids that may answer, looked at on every dial: the source and
            the replicas that may take over. Any other one is `source_identity_mismatch`, before
            anything is read from it. Empty for whoever has all that was processed.
    """

    host: str = attrs.field(default="127.0.0.1", validator=_text)
    port: int = attrs.field(default=3306, validator=_whole(1, 65535))
    unix_socket: str | None = attrs.field(default=None, validator=optional(_text))
    user: str = attrs.field(validator=_text)
    password: str = attrs.field(default="", repr=False)
    server_id: int = attrs.field(validator=_whole(1, 2**32 - 1))
    tls: TlsMode | None = None
    tls_ca: str | None = attrs.field(default=None, validator=optional(_text))
    tls_cert: str | None = attrs.field(default=None, validator=optional(_text))
    tls_key: str | None = attrs.field(default=None, validator=optional(_text))
    connect_timeout: float = attrs.field(default=10.0, validator=_seconds)
    heartbeat: float = attrs.field(default=5.0, validator=_seconds)
    liveness_timeout: float = attrs.field(default=30.0, validator=_seconds)
    settle_timeout: float = attrs.field(default=30.0, validator=_seconds)
    reconnect_attempts: int = attrs.field(default=30, validator=_whole(1, 1_000_000))
    accept_unlogged_cascades: tuple[str, ...] = attrs.field(default=(), converter=_table_names)
    allowed_sources: tuple[str, ...] = attrs.field(default=(), converter=_server_uuids)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.password, str):
            _refuse("password", "must be a text")
        if self.tls is not None and self.tls not in get_args(TlsMode):
            _refuse("tls", f"must be one of {', '.join(get_args(TlsMode))}")
        if not self.liveness_timeout > self.heartbeat:
            _refuse("liveness_timeout", "must be greater than heartbeat")
        self._refuse_idle_tls()

    def _refuse_idle_tls(self) -> None:
        """Whoever configures a protection must get it: nothing of TLS is passed over in silence."""
        if self.unix_socket is not None and self.tls == "verify_identity":
            _refuse("tls", "verify_identity needs a host; over a Unix socket there is none")
        if self.tls_key is not None and self.tls_cert is None:
            _refuse("tls_key", "needs tls_cert")
        # Over a Unix socket `preferred` stays in clear, as with MySQL's own client.
        in_clear = ("disabled",) if self.unix_socket is None else ("disabled", "preferred")
        for option in ("tls_ca", "tls_cert"):
            if getattr(self, option) is not None and self.tls_mode in in_clear:
                _refuse(option, "is of no use without encryption; tls must be another mode")
        if self.tls_ca is not None and self.tls is None and self.tls_mode == "preferred":
            _refuse("tls_ca", "is of no use with a loopback address unless tls says what to verify")

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
    sink_timeout: float = attrs.field(default=300.0, validator=_seconds)


@attrs.frozen(kw_only=True)
class Limits:
    """Budgets: what is over the first is spooled, what is over the second is a named halt.

    Attributes:
        transaction_memory: Bytes that the rows of one unfinished transaction may take in memory
            (an estimate of Python's objects, not of the bytes on the wire). A larger one goes on
            in a private temporary file and is still delivered whole.
        transaction_bytes: Bytes of row events of captured tables that one transaction may have at
            all, as they stand in the binlog, uncompressed; None for no limit
            (`transaction_too_large`).
        spool_dir: The folder for those files, which need room for the largest transaction; None
            for the system's folder for temporary files. Where that is held in memory (tmpfs),
            name another.
    """

    transaction_memory: int = attrs.field(default=64 << 20, validator=_whole(1, 2**63 - 1))
    transaction_bytes: int | None = attrs.field(
        default=None, validator=optional(_whole(1, 2**63 - 1))
    )
    spool_dir: str | None = attrs.field(default=None, validator=optional(_folder))


def _capture(tables: object) -> CaptureList:
    if tables is ALL:
        return CaptureList.parse(None)
    return _patterns(tables)


def _patterns(tables: object) -> CaptureList:
    if isinstance(tables, CaptureList):
        return tables
    rule = "must be a list of schema.table patterns, or capstan.ALL"
    entries = _listed("tables", tables, rule)
    if not all(isinstance(entry, str) for entry in entries):
        _refuse("tables", "every entry must be a text of the form schema.table")
    try:
        return CaptureList.parse(entries)
    except ValueError as error:
        raise ConfigError(f"tables: {error}") from None


def _snapshot_tables(tables: object) -> CaptureList | None:
    if tables is None:
        return None
    if tables is ALL:
        _refuse("tables", _NOT_ALL)
    return _patterns(tables)


def _names_every_schema(pattern: CapturePattern) -> bool:
    schema = pattern.text.partition(".")[0]
    return "*" in schema and not schema.strip("*?")


@attrs.frozen(kw_only=True)
class Snapshot:
    """The backfill: which tables are read whole while the stream runs, and how.

    Attributes:
        tables: Patterns within the capture list; None takes the capture list itself (R157).
            Every schema at once is refused (R156, D11).
        chunk_size: Rows in one portion at most. Larger portions need fewer locks and more memory.
        chunk_bytes: Bytes of one portion at most, as the server sends them; a single row may
            be longer.
        lock_wait: Seconds, whole ones, that a lock is waited for; writers can queue that long.
        retries: Captures missed in a row before `snapshot_lock_unavailable`.
        gate_timeout: Seconds that a portion may wait for the stream while the stream is live.
        rows_per_second: An upper bound of the pace; None for none.
        on_alter: What follows an ALTER that makes stored rows stale: `halt`, or `backfill` to
            read the table again by itself.
    """

    tables: CaptureList | None = attrs.field(default=None, converter=_snapshot_tables)
    chunk_size: int = attrs.field(default=4096, validator=_whole(1, 1_000_000))
    chunk_bytes: int = attrs.field(default=16 << 20, validator=_whole(1, 1 << 30))
    lock_wait: int = attrs.field(default=1, validator=_whole(1, 60))
    retries: int = attrs.field(default=10, validator=_whole(1, 1_000_000))
    gate_timeout: float = attrs.field(default=300.0, validator=_seconds)
    rows_per_second: int | None = attrs.field(
        default=None, validator=optional(_whole(1, 1_000_000_000))
    )
    on_alter: OnAlter = "halt"

    def __attrs_post_init__(self) -> None:
        if self.on_alter not in get_args(OnAlter):
            _refuse("on_alter", f"must be one of {', '.join(get_args(OnAlter))}")
        if self.tables is not None:
            self.refuse_all(self.tables)

    @staticmethod
    def refuse_all(tables: CaptureList) -> None:
        """Refuse a list that names every schema.

        Raises:
            ConfigError: When it does.
        """
        if tables.everything or any(map(_names_every_schema, tables.patterns)):
            _refuse("tables", _NOT_ALL)


def _missing(value: object, methods: Iterable[str]) -> list[str]:
    return [name for name in methods if not callable(getattr(value, name, None))]


def _has(*methods: str) -> _Validator:
    def check(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
        if isinstance(value, type):
            _refuse(attribute.name, "must be an object, not a class")
        if missing := _missing(value, methods):
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
        snapshot: The backfill; None for none.
        observers: Called with value-free telemetry events; one that raises is ignored.
    """

    source: Source = attrs.field(validator=_a(Source))
    tables: CaptureList = attrs.field(converter=_capture)
    sink: "SinkInterface" = attrs.field(
        validator=_has(
            "open",
            "close",
            "position",
            "handle_transaction",
            "handle_schema_changes",
            "handle_batch",
        )
    )
    store: "StoreInterface" = attrs.field(
        validator=_has(
            "hold",
            "load_watermark",
            "save_watermark",
            "load_anchor",
            "load_sink_position",
            "load_tables",
            "save_tables",
            "close",
        )
    )
    delivery: Delivery = attrs.field(factory=Delivery, validator=_a(Delivery))
    limits: Limits = attrs.field(factory=Limits, validator=_a(Limits))
    snapshot: Snapshot | None = attrs.field(default=None, validator=optional(_a(Snapshot)))
    observers: tuple[Callable[[Any], None], ...] = attrs.field(default=(), converter=_observers)

    def __attrs_post_init__(self) -> None:
        if self.snapshot is not None:
            self._check_snapshot()

    def _check_snapshot(self) -> None:
        """Refuse what the backfill cannot do together with the other sections (R113, R156)."""
        try:
            Snapshot.refuse_all(self.snapshot_tables)
        except ConfigError as refusal:
            raise ConfigError(f"snapshot.{refusal}") from None
        if widened(self.tables.texts, self.snapshot_tables.texts):
            _refuse("snapshot.tables", "must not reach beyond `tables`")
        if missing := _missing(self.sink, ("takes_snapshots", "handle_snapshot", "await_backfill")):
            _refuse("sink", f"lacks {', '.join(missing)}, which a backfill needs")
        if not self.sink.takes_snapshots():
            _refuse("sink", "lacks handle_snapshot, which a backfill needs")
        if missing := _missing(self.store, ("load_snapshot", "save_snapshot", "clear_snapshot")):
            _refuse("store", f"lacks {', '.join(missing)}, which a backfill needs")

    @property
    def snapshot_tables(self) -> CaptureList:
        """The patterns of the tables to be backfilled (D11); empty without a snapshot section."""
        if self.snapshot is None:
            return CaptureList()
        return self.tables if self.snapshot.tables is None else self.snapshot.tables

    @classmethod
    def from_toml(cls, path: str | Path) -> "Config":
        """Read a configuration file; see `capstan.config_file`.

        Raises:
            ConfigError: For anything that is refused.
        """
        # The file names kinds of sinks and stores, which this module may not know.
        from capstan.config_file import load  # noqa: PLC0415

        return load(Path(path))
