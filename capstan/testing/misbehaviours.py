"""Every way in which the scripted server can be dishonest, one function each.

House rules: a misbehaviour is one fault at one moment. It sends what it sends through the wire it
is given and returns; what the server would have done next happens then, unless the connection was
cut. What a pipeline makes of each is told in `docs/testing.md`.
"""

import itertools
import struct
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from capstan.testing import made_events
from capstan.testing.made_events import Event, packed
from capstan.testing.moments import Act, Misbehaviour, Moment, Server
from capstan.testing.server_wire import FULL, Wire

OTHER_UUID: Final = "5c217ed0-0000-4000-8000-000000000002"
"""Another server's."""
_ABSURD: Final = 1 << 62
_CHECKSUM_PLACE: Final = -1
_SIZE_PLACE: Final = 9
_HEARTBEAT_SECONDS: Final = 0.01
_FILE: Final = "binlog.000001"
_ZSTD_MAGIC: Final = bytes.fromhex("28b52ffd")
_BLOCK: Final = 128 << 10


def _in_the_stream(name: str) -> Callable[[Act], Misbehaviour]:
    return lambda act: Misbehaviour(name, Moment.TRANSACTION, act)


def _place_of_rows(events: Sequence[Event]) -> int:
    """Where the first row event stands, else the last event."""
    found = (place for place, event in enumerate(events) if event.kind in made_events.ROWS)
    return next(found, len(events) - 1)


def _damaged(raw: bytes, place: int, data: bytes) -> bytes:
    whole = bytearray(raw)
    place %= len(whole)
    whole[place : place + len(data)] = data
    return bytes(whole)


# --- damage ---------------------------------------------------------------------------------------


def wrong_checksum() -> Misbehaviour:
    """A row event whose checksum is that of another."""

    @_in_the_stream("a wrong checksum")
    def act(_: Server, wire: Wire, events: Sequence[Event]) -> None:
        place = _place_of_rows(events)
        wire.send_events(events[:place])
        raw = wire.place(events[place])
        flipped = bytes([raw[_CHECKSUM_PLACE] ^ 1])
        wire.send_packet(b"\0" + _damaged(raw, _CHECKSUM_PLACE, flipped))
        wire.send_events(events[place + 1 :])

    return act


def cut_in_header() -> Misbehaviour:
    """The connection ends behind half of a packet's header."""

    @_in_the_stream("a cut in the middle of a header")
    def act(_: Server, wire: Wire, events: Sequence[Event]) -> None:
        place = _place_of_rows(events)
        wire.send_events(events[:place])
        wire.send_raw(wire.packet_header(events[place].size + 1)[:2])
        wire.cut()

    return act


def cut_in_event() -> Misbehaviour:
    """The connection ends behind half of a row event."""

    @_in_the_stream("a cut in the middle of an event")
    def act(_: Server, wire: Wire, events: Sequence[Event]) -> None:
        place = _place_of_rows(events)
        wire.send_events(events[:place])
        raw = wire.place(events[place])
        wire.send_raw(wire.packet_header(len(raw) + 1) + b"\0" + raw[: len(raw) // 2])
        wire.cut()

    return act


def cut_in_transaction() -> Misbehaviour:
    """The connection ends in good order, before the transaction's last event."""

    @_in_the_stream("a cut in the middle of a transaction")
    def act(_: Server, wire: Wire, events: Sequence[Event]) -> None:
        wire.send_events(events[:-1])
        wire.cut()

    return act


def cut_in_large_packet() -> Misbehaviour:
    """The connection ends behind the first 16 MiB of an event that is larger."""

    @_in_the_stream("a cut in the middle of a packet of 16 MiB")
    def act(_: Server, wire: Wire, events: Sequence[Event]) -> None:
        wire.send_events(events[:2])
        raw = b"\0" + wire.place(made_events.rows_query(bytes(FULL)))
        wire.send_raw(wire.packet_header(FULL) + raw[:FULL] + wire.packet_header(1))
        wire.cut()

    return act


# --- disorder -------------------------------------------------------------------------------------


def out_of_sequence() -> Misbehaviour:
    """A packet whose number is one too high, as when one before it was lost."""

    @_in_the_stream("a packet out of sequence")
    def act(_: Server, wire: Wire, events: Sequence[Event]) -> None:
        place = _place_of_rows(events)
        wire.send_events(events[:place])
        wire.sequence = (wire.sequence + 1) & 0xFF
        wire.send_events(events[place:])

    return act


def repeated_gtid() -> Misbehaviour:
    """The transaction comes twice."""

    @_in_the_stream("a repeated GTID")
    def act(_: Server, wire: Wire, events: Sequence[Event]) -> None:
        wire.send_events(events)
        wire.send_events(events)

    return act


def rows_without_map() -> Misbehaviour:
    """Rows of which nobody has said what table they are of."""

    @_in_the_stream("rows without their table map")
    def act(_: Server, wire: Wire, events: Sequence[Event]) -> None:
        wire.send_events(event for event in events if event.kind != made_events.TABLE_MAP)

    return act


def changed_map() -> Misbehaviour:
    """A second table map under the id of the first one, of another shape."""

    @_in_the_stream("a table map that changes its shape under one id")
    def act(_: Server, wire: Wire, events: Sequence[Event]) -> None:
        place = _place_of_rows(events)
        wire.send_events(events[:place])
        wire.send_events([_renamed(events[place - 1])])
        wire.send_events(events[place:])

    return act


def _renamed(table_map: Event) -> Event:
    """The same table map, of a table whose name ends otherwise."""
    schema = 8 + 1 + table_map.body[8] + 1
    last = schema + table_map.body[schema]
    return attrs.evolve(table_map, body=_damaged(table_map.body, last, b"~"))


def unknown_event(kind: int = 99) -> Misbehaviour:
    """An event of a type that no server has, in the middle of a transaction."""

    @_in_the_stream(f"an event of the unknown type {kind}")
    def act(_: Server, wire: Wire, events: Sequence[Event]) -> None:
        place = _place_of_rows(events)
        wire.send_events([*events[:place], Event(kind, b"from the future"), *events[place:]])

    return act


def incident() -> Misbehaviour:
    """The server says that changes were not logged."""

    @_in_the_stream("an incident")
    def act(_: Server, wire: Wire, events: Sequence[Event]) -> None:
        wire.send_events([events[0], made_events.incident("Changes were lost")])

    return act


# --- errors and silence ---------------------------------------------------------------------------


def error_packet(code: int, text: str) -> Misbehaviour:
    """An error packet of any code and text, in the stream."""

    @_in_the_stream(f"an error packet of code {code}")
    def act(_: Server, wire: Wire, _events: Sequence[Event]) -> None:
        wire.send_error(code, text)
        wire.cut()

    return act


def refused_dump(code: int, text: str) -> Misbehaviour:
    """An error packet instead of the stream."""

    def act(_: Server, wire: Wire, _events: Sequence[Event]) -> None:
        wire.send_error(code, text)
        wire.cut()

    return Misbehaviour(f"a dump that is refused with code {code}", Moment.DUMP, act)


def silence() -> Misbehaviour:
    """Nothing more, not even a heartbeat; the connection stays."""

    @_in_the_stream("silence")
    def act(_: Server, wire: Wire, _events: Sequence[Event]) -> None:
        while True:
            wire.wait()

    return act


def endless_heartbeats() -> Misbehaviour:
    """Heartbeats, many a second, and nothing else."""

    @_in_the_stream("endless heartbeats")
    def act(_: Server, wire: Wire, _events: Sequence[Event]) -> None:
        while True:
            wire.send_outside(made_events.heartbeat(_FILE), at=wire.position)
            wire.wait(_HEARTBEAT_SECONDS)

    return act


def slow_drip(seconds: float = 1.0) -> Misbehaviour:
    """One byte, and after so many seconds the next one."""

    @_in_the_stream("a slow drip")
    def act(_: Server, wire: Wire, events: Sequence[Event]) -> None:
        for event in events:
            raw = b"\0" + wire.place(event)
            for byte in wire.packet_header(len(raw)) + raw:
                wire.send_raw(bytes([byte]))
                wire.wait(seconds)

    return act


def another_server(uuid: str = OTHER_UUID, executed: str | None = None) -> Misbehaviour:
    """The connection ends, and who answers next has another server_uuid.

    Args:
        uuid: That one.
        executed: The GTID set that it says it has; None for the same as before.
    """

    @_in_the_stream("another server_uuid behind a reconnect")
    def act(server: Server, wire: Wire, _events: Sequence[Event]) -> None:
        server.server_uuid = uuid
        if executed is not None:
            server.settings["gtid_executed"] = executed
        wire.cut()

    return act


# --- before the stream ----------------------------------------------------------------------------


def garbage_greeting(words: bytes = b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n") -> Misbehaviour:
    """A first word that is none of MySQL's."""

    def act(_: Server, wire: Wire, _events: Sequence[Event]) -> None:
        wire.send_raw(words)
        wire.cut()

    return Misbehaviour("garbage in the handshake", Moment.GREETING, act)


def mute() -> Misbehaviour:
    """A server that takes the connection and says nothing."""

    def act(_: Server, wire: Wire, _events: Sequence[Event]) -> None:
        while True:
            wire.wait()

    return Misbehaviour("no greeting", Moment.GREETING, act)


def asks_for_plugin(plugin: str) -> Misbehaviour:
    """The server asks for another way to log in."""

    def act(_: Server, wire: Wire, _events: Sequence[Event]) -> None:
        wire.ask_for(plugin)
        wire.read_packet()
        wire.send_ok()

    return Misbehaviour(f"a request for {plugin}", Moment.LOGIN, act)


def asks_for_clear_password() -> Misbehaviour:
    """The server asks for the password as it is, although everybody on the way could read it."""
    return asks_for_plugin("mysql_clear_password")


def asks_for_file(path: str) -> Misbehaviour:
    """The server answers a statement with the request for a file of the client's (LOCAL INFILE)."""

    def act(_: Server, wire: Wire, _events: Sequence[Event]) -> None:
        wire.send_packet(b"\xfb" + path.encode())
        wire.read_packet()

    return Misbehaviour("a request for a local file", Moment.QUESTION, act)


# --- absurd sizes ---------------------------------------------------------------------------------


def absurd_answer() -> Misbehaviour:
    """An answer that announces more columns than there are atoms at hand."""

    def act(_: Server, wire: Wire, _events: Sequence[Event]) -> None:
        wire.send_packet(packed(_ABSURD))
        wire.cut()

    return Misbehaviour("an answer of absurd width", Moment.QUESTION, act)


def absurd_name() -> Misbehaviour:
    """An answer with a column whose name is longer than any packet."""

    def act(_: Server, wire: Wire, _events: Sequence[Event]) -> None:
        wire.send_packet(packed(1))
        wire.send_packet(packed(_ABSURD) + b"def")
        wire.cut()

    return Misbehaviour("an answer with an absurd name", Moment.QUESTION, act)


def endless_answer() -> Misbehaviour:
    """An answer in one packet that never ends."""

    def act(_: Server, wire: Wire, _events: Sequence[Event]) -> None:
        part = bytes(FULL)
        while True:
            wire.send_raw(wire.packet_header(FULL) + part)

    return Misbehaviour("an answer without an end", Moment.QUESTION, act)


def endless_rows() -> Misbehaviour:
    """An answer with ever more rows."""

    def act(_: Server, wire: Wire, _events: Sequence[Event]) -> None:
        wire.send_header(["x"], numeric=[False])
        while True:
            wire.send_row(["x" * 60_000])

    return Misbehaviour("rows without an end", Moment.QUESTION, act)


def endless_greeting() -> Misbehaviour:
    """A greeting in one packet that never ends."""

    def act(_: Server, wire: Wire, _events: Sequence[Event]) -> None:
        part = bytes(FULL)
        while True:
            wire.send_raw(wire.packet_header(FULL) + part)

    return Misbehaviour("a greeting without an end", Moment.GREETING, act)


def absurd_event_size() -> Misbehaviour:
    """An event that says it has four gibibytes."""

    @_in_the_stream("an event of absurd size")
    def act(_: Server, wire: Wire, events: Sequence[Event]) -> None:
        place = _place_of_rows(events)
        wire.send_events(events[:place])
        wire.send_packet(b"\0" + _damaged(wire.place(events[place]), _SIZE_PLACE, b"\xff" * 4))

    return act


def absurd_column_count() -> Misbehaviour:
    """A table map that announces more columns than its bytes can hold."""

    @_in_the_stream("a table of absurd width")
    def act(_: Server, wire: Wire, events: Sequence[Event]) -> None:
        place = _place_of_rows(events)
        table_map = events[place - 1]
        names = 8 + 2 + table_map.body[8]
        names += 2 + table_map.body[names]
        wire.send_events(events[: place - 1])
        wire.send_events([attrs.evolve(table_map, body=table_map.body[:names] + packed(_ABSURD))])
        wire.send_events(events[place:])

    return act


def absurd_inflated_size() -> Misbehaviour:
    """A compressed transaction that says it is larger than any memory."""
    return _compressed("a compressed transaction of absurd size", _ABSURD, b"")


def decompression_bomb(inside: int = 1 << 30) -> Misbehaviour:
    """A compressed transaction of a few kilobytes that inflates to far more than it says."""
    return _compressed("a decompression bomb", 1000, zstd_bomb(inside))


def zstd_bomb(inside: int) -> bytes:
    """A Zstandard frame of about `inside` zeros: four bytes for each 128 KiB of them."""
    window = bytes([0x00, 0x38])  # no size given, and a window of 128 KiB
    blocks = [struct.pack("<I", _BLOCK << 3 | 1 << 1)[:3] + b"\0"] * (inside // _BLOCK)
    last = struct.pack("<I", 1 << 3 | 1 << 1 | 1)[:3] + b"\0"
    return _ZSTD_MAGIC + window + b"".join(blocks) + last


def _compressed(name: str, declared: int, payload: bytes) -> Misbehaviour:
    @_in_the_stream(name)
    def act(_: Server, wire: Wire, events: Sequence[Event]) -> None:
        fields = [(1, packed(len(payload))), (2, packed(0)), (3, packed(declared))]
        head = itertools.chain.from_iterable(bytes([f, len(v)]) + v for f, v in fields)
        body = bytes(head) + b"\0" + payload
        wire.send_events([events[0], Event(made_events.TRANSACTION_PAYLOAD, body)])

    return act
