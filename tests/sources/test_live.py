"""A live link from dial to close, against a real server."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from helpers.waiting import wait_until

from capstan.core.gtid import GtidSet
from capstan.core.halts import Halted, HaltReason
from capstan.sources.base import LinkLost

LONG = 600.0
ROTATE, FORMAT_DESCRIPTION, HEARTBEAT, PREVIOUS_GTIDS = 4, 15, 27, 35


@pytest.mark.parametrize("tls", ["disabled", "required"])
def test_a_dump_brings_what_is_committed_after_it(
    tls_server: Any, table: str, tapped: Any, tls: str
) -> None:
    """D23: first a rotate, a format description and the previous GTIDs, then the insert."""
    tap = tapped(tls_server.server, tls=tls)
    assert tap.link.tls is (tls == "required")
    tls_server.insert(table, "sentinel-1")
    tap.until(lambda: b"sentinel-1" in tap.raw, "the row arrives")
    assert tap.types()[:3] == [ROTATE, FORMAT_DESCRIPTION, PREVIOUS_GTIDS]


def test_a_unix_socket_streams_too(tls_server: Any, table: str, tapped: Any) -> None:
    """D23: the same bytes over the server's socket file."""
    tap = tapped(tls_server.server, unix_socket=str(tls_server.server.socket))
    tls_server.insert(table, "sentinel-2")
    tap.until(lambda: b"sentinel-2" in tap.raw, "the row arrives")


def test_a_dump_resumes_behind_its_set(tls_server: Any, table: str, tapped: Any) -> None:
    """R43: nothing of what was processed comes again, everything after it comes."""
    tls_server.insert(table, "processed")
    processed = tls_server.insert(table, "processed-too")
    tls_server.insert(table, "unprocessed")
    tls_server.insert(table, "last")
    tap = tapped(tls_server.server, processed)
    tap.until(lambda: b"last" in tap.raw, "the last row arrives")
    assert b"unprocessed" in tap.raw
    assert b"processed-too" not in tap.raw


def test_a_dump_resumes_behind_a_set_with_tags(tls_server: Any, table: str, tapped: Any) -> None:
    """D22: the tagged layout of the request says which tagged transactions are processed."""
    statement = f"INSERT INTO {table} (v) VALUES (%s)"
    with contextlib.closing(tls_server.server.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute("SET gtid_next = 'automatic:blue'")
        cursor.execute(statement, ("tagged-and-processed",))
        cursor.execute("SELECT @@global.gtid_executed")
        processed = GtidSet.parse(cursor.fetchone()[0])
        cursor.execute(statement, ("tagged-and-new",))
        cursor.execute("SET gtid_next = 'automatic:green'")
        cursor.execute(statement, ("of-another-tag",))
    assert ":blue:" in str(processed)
    tap = tapped(tls_server.server, processed)
    tap.until(lambda: b"of-another-tag" in tap.raw, "the last row arrives")
    assert b"tagged-and-new" in tap.raw
    assert b"tagged-and-processed" not in tap.raw


def test_executed_is_read_afresh_until_the_dump(tls_server: Any, table: str, link_to: Any) -> None:
    """D14: looking again needs no new link."""
    link = link_to(tls_server.server)
    before = link.open().gtid_executed
    assert link.executed() == before
    after = tls_server.insert(table, "one more")
    assert link.executed() == after
    assert before < after
    link.dump(after)
    with pytest.raises(RuntimeError, match="stream has begun"):
        link.executed()


def test_the_stream_shows_as_a_replica(tls_server: Any, tapped: Any) -> None:
    """R45: under its own server_id and without a uuid, so that a second one evicts it."""
    tapped(tls_server.server, server_id=77_001).begun()
    rows = {row[0]: row for row in tls_server.execute("SHOW REPLICAS")}
    assert rows[77_001][-1] == ""


def test_the_session_is_patient_with_a_slow_sink(tls_server: Any, tapped: Any) -> None:
    """D15: the server's write time-out is that of the sink, so that back-pressure cuts nothing."""
    tapped(tls_server.server).begun()
    rows = tls_server.execute(
        "SELECT VARIABLE_VALUE FROM performance_schema.variables_by_thread "
        "JOIN performance_schema.threads USING (THREAD_ID) "
        "WHERE VARIABLE_NAME = 'net_write_timeout' AND PROCESSLIST_COMMAND = 'Binlog Dump GTID'"
    )
    assert ("300",) in rows


def test_an_idle_stream_has_heartbeats(tls_server: Any, tapped: Any) -> None:
    """D23: at the period that was asked for, in the server's nanoseconds."""
    tap = tapped(tls_server.server, heartbeat=0.1)
    tap.until(lambda: tap.types().count(HEARTBEAT) >= 3, "three heartbeats")


@pytest.mark.parametrize("algorithm", ["CRC32", "NONE"])
def test_the_first_rotate_has_a_checksum_whatever_the_server_writes(
    tls_server: Any, tapped: Any, algorithm: str
) -> None:
    """D23: what is negotiated is CRC32, always."""
    # Each change begins a new file.
    tls_server.execute(f"SET GLOBAL binlog_checksum = {algorithm}")
    try:
        tap = tapped(tls_server.server).begun()
    finally:
        tls_server.execute("SET GLOBAL binlog_checksum = CRC32")
    rotate, description, *_ = tap.packets()
    # Status byte, header, position, file name, checksum.
    assert len(rotate) == 1 + 19 + 8 + len("binlog.000001") + 4
    assert description[-5] == (1 if algorithm == "CRC32" else 0)


@pytest.mark.parametrize("tls", ["disabled", "required"])
def test_a_large_row_comes_in_bounded_pieces(
    tls_server: Any, table: str, tapped: Any, tls: str
) -> None:
    """D25: no piece is larger than what is gathered at most, however large the event."""
    tap = tapped(tls_server.server, tls=tls)
    tls_server.insert(table, "x" * (3 << 20) + "the-end")
    tap.until(lambda: b"the-end" in tap.raw, "the whole row arrives")
    assert tap.raw.count(b"x") >= 3 << 20


def test_an_idle_read_gives_none_and_the_stream_goes_on(
    tls_server: Any, table: str, tapped: Any
) -> None:
    """D15: reading with a short patience loses nothing."""
    tap = tapped(tls_server.server, heartbeat=LONG, liveness_timeout=2 * LONG).begun()
    assert [tap.link.read(0.01) for _ in range(3)] == [None] * 3
    tls_server.insert(table, "after-silence")
    tap.until(lambda: b"after-silence" in tap.raw, "the row arrives")


@pytest.mark.parametrize("tls", ["disabled", "required"])
def test_a_killed_dump_ends_the_stream(tls_server: Any, tapped: Any, tls: str) -> None:
    """R52: the end is seen as such, as b"" or as a lost link, and stays so."""
    tap = tapped(tls_server.server, server_id=77_002, tls=tls).begun()
    ((thread,),) = tls_server.execute(
        "SELECT MAX(ID) FROM information_schema.PROCESSLIST WHERE COMMAND = 'Binlog Dump GTID'"
    )
    tls_server.execute(f"KILL {thread}")

    def ended() -> bool:
        try:
            return tap.link.read(0.1) == b""
        except LinkLost:
            return True

    wait_until(ended, what="the stream ends")
    assert ended()


def test_a_second_reader_with_the_same_id_evicts_the_first(
    tls_server: Any, table: str, tapped: Any
) -> None:
    """R45, R53: the old one is told why, the new one streams."""
    old = tapped(tls_server.server, server_id=77_003).begun()
    new = tapped(tls_server.server, server_id=77_003)
    assert old.refusal() == (1236, HaltReason.SERVER_ID_CONFLICT)
    tls_server.insert(table, "for-the-new-one")
    new.until(lambda: b"for-the-new-one" in new.raw, "the row arrives")


def test_purged_logs_and_a_source_that_is_behind_are_told_apart(
    tls_server: Any, tapped: Any
) -> None:
    """R46, D24: the real texts of a real server."""
    server = tls_server.server
    tls_server.execute("CREATE DATABASE to_be_purged")
    tls_server.execute("DROP DATABASE to_be_purged")
    tls_server.execute("FLUSH BINARY LOGS")
    ((newest, *_),) = tls_server.execute("SHOW BINARY LOG STATUS")
    tls_server.execute("PURGE BINARY LOGS TO %s", newest)
    ahead = GtidSet.parse(f"{server.server_uuid}:1-1000000")
    assert tapped(server, GtidSet()).refusal() == (1236, HaltReason.DATA_GAP)
    assert tapped(server, ahead).refusal() == (1236, HaltReason.SOURCE_IDENTITY_MISMATCH)


def test_a_reset_while_streaming_is_unrecognised(tls_server: Any, tapped: Any) -> None:
    """D24: its text names an input error and is never taken for a gap."""
    tap = tapped(tls_server.server).begun()
    tls_server.execute("RESET BINARY LOGS AND GTIDS")
    tls_server.execute("CREATE DATABASE after_the_reset")
    tls_server.execute("DROP DATABASE after_the_reset")
    assert tap.refusal() == (1236, HaltReason.UNRECOGNIZED_DUMP_ERROR)


def test_registering_without_the_right_is_a_named_halt(tls_server: Any, link_to: Any) -> None:
    """R54: not an endless retry."""
    user = tls_server.new_user("secret")
    tls_server.execute(f"REVOKE REPLICATION SLAVE ON *.* FROM {user}")
    link = link_to(tls_server.server, user=user, password="secret")
    facts = link.open()
    with pytest.raises(Halted) as caught:
        link.dump(facts.gtid_executed)
    assert caught.value.halt.reason is HaltReason.PRIVILEGE_MISSING
    assert caught.value.halt.detail == "code 1045"


def test_closing_is_safe_at_any_time(tls_server: Any, link_to: Any) -> None:
    """P8: unopened, open, streaming, twice, and interrupted afterwards."""
    unopened, opened, streaming = (link_to(tls_server.server) for _ in range(3))
    opened.open()
    streaming.open()
    streaming.dump(streaming.executed())
    for link in (unopened, opened, streaming):
        link.close()
        link.close()
        link.interrupt()
        with pytest.raises(RuntimeError):
            link.read(0)


def test_links_leave_no_connection_and_no_descriptor_behind(tls_server: Any, tapped: Any) -> None:
    """R53: a thousand dials would not run out of either."""
    tapped(tls_server.server).link.close()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        tap = tapped(tls_server.server)
        tap.until(lambda tap=tap: tap.types(), "the stream begins")
        tap.link.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
