"""Bodies of control events are read exactly or refused."""

import struct
from collections.abc import Callable

import pytest
from helpers import event_builder as events

from capstan.core.binlog import log_events
from capstan.core.halts import Halted, HaltReason

Reader = Callable[[bytes, int, int], object]


def body(raw: bytes) -> tuple[bytes, int, int]:
    return raw, 19, len(raw) - 4


def test_a_gtid_carries_both_commit_times() -> None:
    """D13: original and immediate commit timestamps are told apart."""
    raw = events.gtid(7, commit=1_700_000_000_000_009, original=1_600_000_000_000_001)

    found = log_events.read_gtid(*body(raw))

    assert found == (events.SOURCE, "", 7, 1_600_000_000_000_001, 1_700_000_000_000_009)


def test_a_gtid_committed_here_first_has_one_time() -> None:
    """Without an original timestamp of its own the immediate one is both."""
    found = log_events.read_gtid(*body(events.gtid(7)))

    assert found.commit_micros == found.arrived_micros == 1_700_000_000_000_001


def test_a_gtid_of_an_older_server_has_no_times() -> None:
    """A body that ends behind the logical clock is whole."""
    raw = events.gtid(7)

    assert log_events.read_gtid(raw, 19, 19 + 42).commit_micros == 0


@pytest.mark.parametrize("number", [0, 2**63 - 1, 2**64 - 1])
def test_a_gtid_number_out_of_range_halts(number: int) -> None:
    """Numbers that no server gives are corruption."""
    raw = bytearray(events.gtid(1))
    struct.pack_into("<Q", raw, 19 + 17, number)

    with pytest.raises(Halted) as caught:
        log_events.read_gtid(*body(bytes(raw)))
    assert caught.value.halt.reason is HaltReason.EVENT_CORRUPT


@pytest.mark.parametrize("number", [1, 63, 64, 8191, 8192, 2**40, 2**62 - 1])
@pytest.mark.parametrize("tag", ["a", "blue", "_" * 32])
def test_a_tagged_gtid_is_read(number: int, tag: str) -> None:
    """D22: event 42 gives source, tag, number and time."""
    found = log_events.read_tagged_gtid(*body(events.tagged_gtid(number, tag)))

    assert found == (events.SOURCE, tag, number, 1_700_000_000_000_001, 1_700_000_000_000_001)


def test_a_query_gives_its_parts_and_shows_none() -> None:
    """R7: schema and text are there for the fold; the repr has neither."""
    found = log_events.read_query(*body(events.query(b"CREATE TABLE sentinel (a int)")))

    assert found.schema == b"shop"
    assert found.text == b"CREATE TABLE sentinel (a int)"
    assert found.client_collation == 255
    assert "sentinel" not in repr(found)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (b"\x11" + bytes(8), True),
        (b"\x05\x03UTC" + b"\x0b\x04root\x01%" + b"\x0c\x02a\0b\0" + b"\x11" + bytes(8), True),
        (b"\x0c\xfe" + b"\x11" + bytes(8), True),
        (b"\x0c\x02a\0" + b"\x11" + bytes(8), False),
        (b"\x7f" + b"\x11" + bytes(8), False),
        (b"\x11" + bytes(7), False),
        (b"", False),
    ],
)
def test_the_mark_of_a_carried_out_ddl_is_found(status: bytes, expected: bool) -> None:
    """D28: behind variables of every known form, and never behind an unknown one."""
    head = struct.pack("<IIBHH", 7, 0, 4, 0, len(status))
    raw = events.event(2, head + status + b"shop\0CREATE TABLE t (a int)")

    assert log_events.read_query(*body(raw)).ddl_xid is expected


def test_an_unknown_status_variable_is_no_guess() -> None:
    """A status variable of a newer server ends the reading of status variables, not the event."""
    raw = bytearray(events.query(b"BEGIN"))
    raw[19 + 13] = 0x7F

    assert log_events.read_query(*body(bytes(raw))).text == b"BEGIN"


@pytest.mark.parametrize("on", [True, False])
def test_a_format_description_tells_whether_events_have_checksums(on: bool) -> None:
    """D23: the algorithm is the file's own."""
    raw = events.format_description(checksums=on)

    found = log_events.read_format_description(raw, 19, len(raw) - 4)

    assert found.checksums is on
    assert found.server_version == "9.7.4"


@pytest.mark.parametrize(
    ("reader", "raw"),
    [
        (log_events.read_gtid, events.gtid(3, original=1)),
        (log_events.read_tagged_gtid, events.tagged_gtid(3, "blue")),
        (log_events.read_query, events.query(b"BEGIN")),
        (log_events.read_format_description, events.format_description()),
        (log_events.read_rotate, events.rotate()),
        (log_events.read_previous_gtids, events.previous_gtids()),
    ],
)
def test_every_truncation_is_a_value_or_a_named_halt(reader: Reader, raw: bytes) -> None:
    """R11: no other exception leaves a reader, wherever the event is cut."""
    reasons = set()
    for end in range(19, len(raw)):
        try:
            reader(raw, 19, end)
        except Halted as verdict:
            reasons.add(verdict.halt.reason)

    assert reasons == {HaltReason.EVENT_CORRUPT}
