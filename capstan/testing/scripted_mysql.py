"""A MySQL source that plays what a test wrote, over a real socket, and lies when it is told to.

House rules: without a misbehaviour it is an honest server: it logs in, answers the preflight, and
streams what was committed and is not excluded by the client's GTID set, then heartbeats. Each
misbehaviour is one way to be dishonest, at one point, so many times. Everything that it starts ends
with `close()`. It keeps no rows: what is committed is only ever streamed.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self

import attrs

from capstan.config import Config, Source
from capstan.core.gtid import Gtid, GtidSet
from capstan.demo.mysql_server import LOOPBACK, free_port
from capstan.sinks.base import Sink
from capstan.stores.base import Store
from capstan.stores.memory import MemoryStore
from capstan.testing import made_events, server_answers
from capstan.testing.made_events import Event
from capstan.testing.made_tables import RowChange, Table
from capstan.testing.moments import Misbehaviour, Moment
from capstan.testing.server_answers import Refusal, Rows
from capstan.testing.server_wire import Hangup, Value, Wire

SERVER_UUID: Final = "5c217ed0-0000-4000-8000-000000000001"
"""Whose transactions these are, unless said otherwise."""
FIRST_COMMIT: Final = 1_700_000_000_000_000
"""When the first transaction was committed, in microseconds since 1970; the others one
millisecond later each."""
_MAGIC: Final = 4
_FILE: Final = "binlog.000001"
_QUIT, _INIT_DB, _QUERY, _PING, _REGISTER, _DUMP_GTID = 0x01, 0x02, 0x03, 0x0E, 0x15, 0x1E
_UNKNOWN_COMMAND: Final = 1047
_ACCESS_DENIED: Final = 1045
_MALFORMED: Final = 1105
_JOIN_SECONDS: Final = 10.0


@attrs.frozen(kw_only=True)
class Logged:
    """One transaction of the server's binary log.

    Attributes:
        gtid: Its GTID.
        events: What it consists of.
        start: Where in the file it begins.
        misbehaviour: How it is sent; None for as it is.
    """

    gtid: Gtid
    events: tuple[Event, ...]
    start: int
    misbehaviour: "Planned | None" = None


class Planned:
    """A misbehaviour, and how often it still happens; None for always."""

    def __init__(self, misbehaviour: Misbehaviour, times: int | None) -> None:
        self.misbehaviour = misbehaviour
        self._left = times
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Whether it happens this time."""
        with self._lock:
            if self._left is None:
                return True
            self._left -= 1
            return self._left >= 0


class ScriptedMysql:
    """A scripted source on a loopback port, from `start()` to `close()`, or as a context manager.

    Args:
        user: The one account.
        password: Its password, proved by caching_sha2_password.
        server_uuid: The server's, and that of its transactions.
        version: What it says it is.
        position: Where its binary log file begins to be written: any number, as files can be long.

    Attributes:
        settings: System variables by name; change them to be another kind of server.
        server_uuid: What it says of itself; may be changed.
        logins: How many connections were let in so far.
        dumps: The GTID set that each dump request excluded, in order.
        port: Where it listens, between two starts as well.
    """

    host = LOOPBACK

    def __init__(
        self,
        *,
        user: str = "repl",
        password: str = "secret",  # noqa: S107 - it guards nothing
        server_uuid: str = SERVER_UUID,
        version: str = "9.7.4",
        position: int = _MAGIC,
    ) -> None:
        self.user, self.password = user, password
        self.server_uuid, self.version = server_uuid, version
        self.settings: dict[str, Value] = dict(server_answers.SETTINGS)
        self.logins = 0
        self.dumps: list[GtidSet] = []
        self.port = free_port()
        self._source = server_uuid
        self._log: list[Logged] = []
        self._next_position = position
        self._tables: dict[tuple[str, str], None] = {}
        self._planned: Planned | None = None
        self._next_sent: Planned | None = None
        self._lock = threading.RLock()
        self._wires: dict[Wire, threading.Thread] = {}
        self._heard = bytearray()
        self._packets = 0
        self._listener: socket.socket | None = None
        self._accepting: threading.Thread | None = None

    # -- life ----------------------------------------------------------------------------------

    def start(self) -> Self:
        """Listen."""
        listener = self._listener = socket.create_server((LOOPBACK, self.port))
        self._accepting = threading.Thread(
            target=self._accept, args=(listener,), name="scripted-mysql", daemon=True
        )
        self._accepting.start()
        return self

    def close(self) -> None:
        """End every connection and thread; it may be started again, as a server may."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            assert self._accepting is not None
            self._accepting.join(_JOIN_SECONDS)
            self._listener.close()
            self._listener = None
        self.cut()

    def cut(self) -> None:
        """End every connection there is; new ones are welcome."""
        with self._lock:
            wires = dict(self._wires)
        for wire, thread in wires.items():
            wire.hang_up()
            thread.join(_JOIN_SECONDS)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- what it has ---------------------------------------------------------------------------

    def commit(self, *changes: RowChange) -> Gtid:
        """Commit one transaction of these changes; whoever streams gets it at once."""
        for change in changes:
            self.knows(change.table)

        def events(number: int, micros: int) -> list[Event]:
            seconds = micros // 1_000_000
            schema = changes[0].table.schema if changes else ""
            return [
                made_events.gtid(self._source, number, micros),
                made_events.query("BEGIN", schema, seconds),
                *(event for change in changes for event in change.events(seconds)),
                made_events.xid(number, seconds),
            ]

        return self._append(events)

    def statement(self, text: str, schema: str) -> Gtid:
        """Log a statement that commits by itself, such as a CREATE TABLE."""

        def events(number: int, micros: int) -> list[Event]:
            return [
                made_events.gtid(self._source, number, micros),
                made_events.query(text, schema, micros // 1_000_000),
            ]

        return self._append(events)

    def events(self, *events: Event) -> Gtid:
        """Log a transaction of these events behind its GTID event, whatever they are."""
        return self._append(lambda n, micros: [made_events.gtid(self._source, n, micros), *events])

    def knows(self, *tables: Table) -> None:
        """Make tables exist, for a capture list that names them before anything is committed."""
        with self._lock:
            self._tables |= {(table.schema, table.table): None for table in tables}

    @property
    def committed(self) -> list[Gtid]:
        """Every transaction, in the order of the log."""
        with self._lock:
            return [logged.gtid for logged in self._log]

    @property
    def executed(self) -> GtidSet:
        """Every transaction, as a set."""
        return GtidSet.parse(",".join(map(str, self.committed)))

    @property
    def packets(self) -> int:
        """How many packets were sent, over all connections."""
        with self._lock:
            return self._packets + sum(wire.packets for wire in self._wires)

    @property
    def heard(self) -> bytes:
        """What clients have said, over all connections."""
        with self._lock:
            return bytes(self._heard) + b"".join(bytes(wire.heard) for wire in self._wires)

    # -- how it behaves ------------------------------------------------------------------------

    def misbehave(self, how: Misbehaviour, *, times: int | None = None) -> None:
        """Misbehave from now on.

        A misbehaviour of the stream strikes the next transaction that is committed, whenever it is
        sent; any other one strikes every connection.

        Args:
            how: One of `capstan.testing.misbehaviours`.
            times: How often, before it behaves again; None for ever.
        """
        planned = Planned(how, times)
        if how.moment is Moment.TRANSACTION:
            self._next_sent = planned
        else:
            self._planned = planned

    def behave(self) -> None:
        """Be honest with connections again; what was committed to be sent badly stays bad."""
        self._planned = None

    # -- for a pipeline ------------------------------------------------------------------------

    def source(self, **options: Any) -> Source:
        """A source section for this server; `options` are those of `capstan.Source`.

        Dials fail fast: two attempts, unless said otherwise.
        """
        reach: dict[str, Any] = {
            "host": LOOPBACK,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "server_id": 4242,
            "reconnect_attempts": 2,
        }
        return Source(**reach | options)

    def config(self, sink: Sink, store: Store | None = None, **options: Any) -> Config:
        """A configuration over this server.

        Args:
            sink: The sink under test.
            store: Where the position is kept; in memory by default.
            options: Options of `capstan.Config`; `tables` is everything by default.
        """
        options.setdefault("source", self.source())
        options.setdefault("tables", ["*.*"])
        return Config(sink=sink, store=store or MemoryStore(), **options)

    # -- serving -------------------------------------------------------------------------------

    def _append(self, make: Callable[[int, int], Sequence[Event]]) -> Gtid:
        with self._lock:
            number = len(self._log) + 1
            made = tuple(make(number, FIRST_COMMIT + 1000 * number))
            planned, self._next_sent = self._next_sent, None
            gtid = Gtid(self._source, "", number)
            start = self._next_position
            self._next_position += sum(event.size for event in made)
            self._log.append(Logged(gtid=gtid, events=made, start=start, misbehaviour=planned))
            for wire in self._wires:
                wire.wake()
            return gtid

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            wire = Wire(sock)
            thread = threading.Thread(
                target=self._serve, args=(wire,), name="scripted-mysql-wire", daemon=True
            )
            with self._lock:
                self._wires[wire] = thread
                thread.start()

    def _serve(self, wire: Wire) -> None:
        try:
            with contextlib.suppress(Hangup):
                self._converse(wire)
        finally:
            wire.hang_up()
            with self._lock:
                self._heard += wire.heard
                self._packets += wire.packets
                del self._wires[wire]
            wire.close()

    def _converse(self, wire: Wire) -> None:
        self._strike(Moment.GREETING, wire)
        wire.greet(self.version)
        known = wire.is_login(self.user, self.password)
        self._strike(Moment.LOGIN, wire)
        if not known:
            wire.send_error(_ACCESS_DENIED, "Access denied")
            return
        wire.admit(self.password)
        with self._lock:
            self.logins += 1
        heartbeat = 30.0
        while True:
            packet = wire.read_packet()
            command, body = packet[0], packet[1:]
            if command == _QUIT:
                return
            if command == _QUERY:
                text = body.decode("utf-8", "replace")
                heartbeat = server_answers.heartbeat_in(text) or heartbeat
                if text.lower().startswith("select"):
                    self._strike(Moment.QUESTION, wire)
                self._answer(wire, text)
            elif command in (_PING, _INIT_DB, _REGISTER):
                wire.send_ok()
            elif command == _DUMP_GTID:
                self._strike(Moment.DUMP, wire)
                self._stream(wire, body, heartbeat)
            else:
                wire.send_error(_UNKNOWN_COMMAND, "Unknown command")

    def _strike(self, moment: Moment, wire: Wire) -> None:
        planned = self._planned
        if planned is not None and planned.misbehaviour.moment is moment and planned.take():
            planned.misbehaviour.act(self, wire, ())

    def _answer(self, wire: Wire, text: str) -> None:
        with self._lock:
            tables = list(self._tables)
        match server_answers.answer(text, self._variables(), tables):
            case Rows(columns=columns, rows=rows):
                wire.send_rows(columns, rows)
            case Refusal(code=code, text=words):
                wire.send_error(code, words)
            case None:
                wire.send_ok()

    def _variables(self) -> dict[str, Value]:
        said: dict[str, Value] = {
            "version()": self.version,
            "current_user()": f"{self.user}@%",
            "server_uuid": self.server_uuid,
            "server_id": 1,
            "gtid_executed": str(self.executed),
            "gtid_purged": "",
        }
        return said | self.settings

    def _stream(self, wire: Wire, request: bytes, heartbeat: float) -> None:
        excluded = _excluded(request)
        if excluded is None:
            wire.send_error(_MALFORMED, "Malformed dump request")
            return
        with self._lock:
            self.dumps.append(excluded)
        wire.send_outside(made_events.rotate(_FILE))
        wire.send_outside(made_events.format_description(self.version))
        wire.send_outside(made_events.previous_gtids())
        for logged in self._to_come(wire, excluded, heartbeat):
            wire.position = logged.start
            planned = logged.misbehaviour
            if planned is not None and planned.take():
                planned.misbehaviour.act(self, wire, logged.events)
            else:
                wire.send_events(logged.events)

    def _to_come(self, wire: Wire, excluded: GtidSet, heartbeat: float) -> Iterator[Logged]:
        """Every transaction that was not excluded, those to come included."""
        place = 0
        while True:
            with self._lock:
                logged = self._log[place] if place < len(self._log) else None
            if logged is not None:
                place += 1
                if logged.gtid not in excluded:
                    yield logged
                continue
            wire.wait(heartbeat)
            if len(self._log) == place:
                wire.send_outside(made_events.heartbeat(_FILE), at=wire.position)


def _excluded(request: bytes) -> GtidSet | None:
    """The set in a COM_BINLOG_DUMP_GTID: flags, server id, file name, position, set."""
    name = int.from_bytes(request[6:10], "little")
    start = 10 + name + 8
    size = int.from_bytes(request[start : start + 4], "little")
    try:
        return GtidSet.decode(request[start + 4 : start + 4 + size])
    except ValueError:
        return None
