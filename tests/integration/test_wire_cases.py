"""Faults that users of other tools met between server and reader: connections and streams.

The cases of `tests/data/wire_cases` are workloads in words, so each has tests of its own: those
below, and those that `ELSEWHERE` names.
"""

import contextlib
import json
import re
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from typing import Any

import pymysql
import pytest
from helpers.mysql import Database, PrivateServers, execute
from helpers.pipelines import (
    Recording,
    catch_up,
    config_for,
    executed,
    halt_of,
    source_for,
    start_from_now,
)
from helpers.waiting import wait_until

from capstan import GtidSet, HaltReason, MemoryStore, Pipeline, PipelineHalted, Transaction
from capstan.core.binlog.checksum import RESIDUE
from capstan.core.server_errors import classify_dump_error
from capstan.core.tables import CaptureList
from capstan.demo.mysql_install import MysqlPrograms
from capstan.demo.mysql_server import MysqlServer
from capstan.sources.live import LiveSource
from capstan.testing import RecordingSink, ScriptedMysql, Table, TcpProxy, misbehaviours

TESTS = Path(__file__).parents[1]
FOLDER = TESTS / "data" / "wire_cases"
CASES = {path.stem[:3]: json.loads(path.read_text("utf-8")) for path in FOLDER.glob("*.json")}
ELSEWHERE = {
    "110": ["integration/test_positions.py::test_a_second_pipeline_with_the_same_server_id"],
    "113": ["testing/test_scripted_mysql.py::test_positions_beyond_four_gibibytes_wrap"],
    "114": ["integration/test_streaming.py::test_checksums_switched_while_streaming"],
    "116": [
        "sources/test_live.py::test_an_idle_stream_has_heartbeats",
        "faults/test_survived_faults.py::test_heartbeats_keep_the_link_and_change_nothing_else",
        "integration/test_positions.py::test_a_half_open_link_is_found_dead",
    ],
    "123": [
        "sources/test_handshake.py::test_a_cold_authentication_works_with_and_without_tls",
        "sources/test_handshake.py::test_a_password_too_long_for_the_servers_key",
        "sources/test_handshake.py::test_an_empty_password_works",
        "sources/test_handshake.py::test_a_wrong_password_is_auth_failed",
        "sources/test_faults.py::test_a_refused_password_is_nowhere_in_what_is_raised",
    ],
    "124": ["sources/test_handshake.py::test_accounts_that_ask_for_tls_or_a_certificate"],
    "125": ["sources/test_query.py::test_a_missing_right_is_a_finding_with_its_grant"],
}
ITEMS = Table("shop.items", "id int unsigned", "name varchar(60)", key="id")


@pytest.mark.parametrize("number", sorted(CASES))
def test_every_case_is_played(number: str) -> None:
    """Each file has a test here that names it, or tests elsewhere that exist."""
    here = re.findall(r'"""Case (\d+)', Path(__file__).read_text("utf-8"))
    places = ELSEWHERE.get(number, [])
    assert places or number in here
    for place in places:
        file, _, test = place.partition("::")
        assert f"def {test}" in (TESTS / file).read_text("utf-8")


@pytest.fixture(scope="module")
def server(mysql_programs: MysqlPrograms) -> Iterator[MysqlServer]:
    """A server whose global settings may be changed."""
    with contextlib.closing(PrivateServers(mysql_programs)) as servers:
        made = servers()
        run(made, "CREATE DATABASE shop", "CREATE TABLE shop.items (id INT KEY, v LONGTEXT)")
        yield made


def run(server: Any, *statements: str) -> None:
    """Run statements as root, in one session."""
    with contextlib.closing(server.connect()) as connection:
        for statement in statements:
            execute(connection, statement)
        connection.commit()


# --- connections ----------------------------------------------------------------------------------


def _texts() -> Iterator[tuple[str, str]]:
    """Every text of case 109 and the reason that it stands for."""
    for reason, texts in CASES["109"]["expect"]["classes"].items():
        for text in [texts] if isinstance(texts, str) else texts:
            words = re.sub(r"""^\(1236, ["']|["']\)$|…""", "", text)
            # More exact than the case asks (D24): which server has less.
            exact = "source_identity_mismatch" if "more GTIDs" in words else reason
            yield words, exact


@pytest.mark.parametrize(("words", "reason"), list(_texts()))
def test_each_word_of_a_refused_dump_has_its_halt(
    capstan_source: ScriptedMysql, words: str, reason: str
) -> None:
    """Case 109; R45-R49, D24: end to end, each text seen ends in its own reason, once."""
    capstan_source.misbehave(misbehaviours.refused_dump(1236, words))
    capstan_source.commit(ITEMS.insert((1, "n")))
    sink = RecordingSink()
    assert halt_of(capstan_source.config(sink)) == reason
    assert sink.gtids == []
    assert capstan_source.logins == 1


def test_the_reader_of_a_dead_process_is_evicted_by_its_successor(database: Database) -> None:
    """Case 110; R52: who comes again after a crash streams; the old reader gets the conflict."""
    database.execute("CREATE TABLE items (id INT KEY)")
    server, sink = database.server, Recording()
    store = start_from_now(MemoryStore(), server)
    section = source_for(server)
    dead = LiveSource(section, CaptureList.parse(None), write_timeout=60).link()
    with contextlib.closing(dead):
        dead.open()
        dead.dump(executed(server))
        config = config_for(
            server, sink, [f"{database.name}.*"], store, server_id=section.server_id
        )
        with Pipeline(config) as pipeline:
            database.execute("INSERT INTO items VALUES (1)")
            catch_up(pipeline, server)
            assert pipeline.status().counters["failed_dials"] == 0
        heard = b""
        while piece := dead.read(20):
            heard += piece
    place = heard.index(pack("<BH", 0xFF, 1236))
    assert classify_dump_error(1236, heard[place + 9 :]) is HaltReason.SERVER_ID_CONFLICT
    assert sink.values == [(1,)]


def test_an_expired_password_is_a_named_halt(database: Database) -> None:
    """Case 125; R54: code 1862 or 1820 is not tried again."""
    name = f"{database.name}_expired"
    database.execute(f"CREATE USER {name} IDENTIFIED BY 'x' PASSWORD EXPIRE")
    try:
        config = config_for(database.server, Recording(), ["shop.*"], user=name, password="x")
        assert halt_of(config) is HaltReason.AUTH_FAILED
    finally:
        database.execute(f"DROP USER {name}")


def test_a_server_that_is_offline_is_dialled_again(server: MysqlServer) -> None:
    """Case 125; R31: running sessions are cut, dials are refused, and then it goes on."""
    run(
        server,
        "CREATE USER away IDENTIFIED BY 'x'",
        "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO away",
    )
    sink, store = Recording(), start_from_now(MemoryStore(), server)
    config = config_for(server, sink, ["shop.*"], store, user="away", password="x")
    with Pipeline(config) as pipeline:
        run(server, "SET GLOBAL offline_mode = ON")
        wait_until(lambda: pipeline.status().counters["failed_dials"] > 1, what="refused dials")
        run(server, "SET GLOBAL offline_mode = OFF", "INSERT INTO shop.items VALUES (125, 'a')")
        catch_up(pipeline, server, timeout=60)
    assert sink.values == [(125, "a")]


@pytest.mark.parametrize(
    ("version", "status"), [("9.7.4", b"SHOW BINARY LOG STATUS"), ("8.0.36", b"SHOW MASTER STATUS")]
)
def test_words_are_those_that_the_server_knows(version: str, status: bytes) -> None:
    """Case 126: no removed word on a new server, none that an old one lacks, both variables set."""
    with ScriptedMysql(version=version) as source:
        gtid = source.commit(ITEMS.insert((1, "n")))
        with Pipeline(source.config(RecordingSink())) as pipeline:
            assert pipeline.wait_for(str(gtid), timeout=30)
        heard = source.heard
    removed = {b"SHOW MASTER STATUS", b"SHOW SLAVE", b"RESET MASTER", b"CHANGE MASTER"} - {status}
    assert status in heard
    assert not [words for words in removed if words in heard]
    for name in (b"heartbeat_period", b"binlog_checksum"):
        assert b"@source_" + name in heard
        assert b"@master_" + name in heard


# --- streams --------------------------------------------------------------------------------------


def test_the_step_to_the_millionth_file_is_a_step_like_any_other(
    new_server: PrivateServers,
) -> None:
    """Case 112: names are no numbers and no order; rows of three files arrive in theirs."""
    server = new_server()
    server.stop()
    (server.data / "binlog.999998").touch()
    server.start()
    run(server, "CREATE DATABASE shop", "CREATE TABLE shop.items (id INT KEY)")
    sink, store = Recording(), start_from_now(MemoryStore(), server)
    with Pipeline(config_for(server, sink, ["shop.*"], store)) as pipeline:
        for number in (10, 11, 12):
            run(server, f"INSERT INTO shop.items VALUES ({number})", "FLUSH BINARY LOGS")
        catch_up(pipeline, server)
        assert pipeline.status().counters["connects"] == 1
    with contextlib.closing(server.connect()) as connection:
        names = [row[0] for row in execute(connection, "SHOW BINARY LOGS")]
    assert {"binlog.999999", "binlog.1000000", "binlog.1000001"} <= set(names)
    assert sink.values == [(10,), (11,), (12,)]


def _dump(connection: Any, name: str) -> list[bytes]:
    """The packets of this file, to its end."""
    connection._execute_command(0x12, pack("<IHI", 4, 1, 980_115) + name.encode())
    found: list[bytes] = []
    while not found or not found[-1][0]:
        found.append(connection._read_packet().get_all_data())
    return found


@pytest.mark.parametrize(
    ("setting", "size"),
    [
        ("@source_binlog_checksum = 'CRC32'", 4),
        ("@master_binlog_checksum = 'CRC32'", 4),
        ("@source_binlog_checksum = 'NONE'", 0),
        ("@source_binlog_checksum = 'MD5'", 0),
    ],
)
def test_the_first_rotate_is_as_it_was_negotiated(
    database: Database, setting: str, size: int
) -> None:
    """Case 115; D23: what capstan announces is what makes the first event checkable."""
    ((name, *_),) = database.execute("SHOW BINARY LOG STATUS")
    with contextlib.closing(database.server.connect()) as connection:
        execute(connection, f"SET {setting}")
        rotate, description, *_ = _dump(connection, name)
    assert len(rotate) == 1 + 19 + 8 + len(name) + size
    assert zlib.crc32(description[1:]) == RESIDUE


def test_a_session_that_announces_nothing_is_refused(database: Database) -> None:
    """Case 115; R47: the server's words for it have their own reason."""
    ((name, *_),) = database.execute("SHOW BINARY LOG STATUS")
    connection = database.server.connect()
    with contextlib.closing(connection), pytest.raises(pymysql.MySQLError) as refused:
        _dump(connection, name)
    code, words = refused.value.args
    assert classify_dump_error(code, words) is HaltReason.CHECKSUM_NEGOTIATION_FAILED


def test_a_transaction_that_is_cut_on_the_way_arrives_once_and_whole(database: Database) -> None:
    """Case 117; R10, R31: the cut half is thrown away, and the new dump does not leave it out."""
    database.execute("CREATE TABLE big (id INT KEY, v VARCHAR(5000))")
    server, sink = database.server, Recording()
    store = start_from_now(MemoryStore(), server)
    with TcpProxy(server.host, server.port) as proxy:
        config = config_for(server, sink, [f"{database.name}.*"], store, port=proxy.port)
        with Pipeline(config) as pipeline, contextlib.closing(database.connect()) as session:
            execute(session, "INSERT INTO big VALUES (0, 'first')")
            catch_up(pipeline, server)
            proxy.throttle(4_000_000)
            before = proxy.carried
            execute(session, "BEGIN")
            for start in range(1, 2001, 500):
                rows = ", ".join(f"({n}, REPEAT('x', 4000))" for n in range(start, start + 500))
                execute(session, f"INSERT INTO big VALUES {rows}")
            execute(session, "COMMIT")
            execute(session, "INSERT INTO big VALUES (9999, 'last')")
            wait_until(lambda: proxy.carried > before + 3_000_000, what="a part has come")
            assert len(sink.gtids) == 1
            proxy.cut()
            proxy.throttle(None)
            catch_up(pipeline, server, timeout=60)
    assert [len(changes) for _, changes in sink.transactions] == [1, 2000, 1]
    assert [row[0] for row in sink.values] == [*range(2001), 9999]


class _Resting(Recording):
    """Rests before its fifth transaction."""

    def handle_transaction(self, transaction: Transaction) -> None:
        if len(self.transactions) == 4:
            rested = time.monotonic() + 4
            wait_until(lambda: time.monotonic() > rested, what="the end of a rest")
        super().handle_transaction(transaction)


def test_a_sink_slower_than_the_servers_patience_costs_no_connection(server: MysqlServer) -> None:
    """Case 119; R31: the session asks for more patience than net_write_timeout has by default."""
    run(
        server,
        "SET GLOBAL net_write_timeout = 1",
        "CREATE TABLE shop.slow (id INT KEY, v LONGTEXT)",
    )
    sink, store = _Resting(), start_from_now(MemoryStore(), server)
    inserts = [f"INSERT INTO shop.slow VALUES ({n}, REPEAT('x', 1000000))" for n in range(40)]
    with Pipeline(config_for(server, sink, ["shop.slow"], store)) as pipeline:
        run(server, *inserts)
        catch_up(pipeline, server, timeout=90)
        assert pipeline.status().counters["failed_dials"] == 0
    run(server, "SET GLOBAL net_write_timeout = 60")
    assert [row[0] for row in sink.values] == list(range(40))


def test_an_incident_halts_before_its_transaction(server: MysqlServer) -> None:
    """Case 120; R266: rows that no event announced are never passed over."""
    run(
        server,
        "CREATE TABLE shop.inc (id INT NOT NULL KEY, v VARCHAR(200)) ENGINE=MyISAM",
        "SET GLOBAL max_binlog_stmt_cache_size = 4096",
        "SET GLOBAL binlog_stmt_cache_size = 4096",
    )
    sink, store = Recording(), start_from_now(MemoryStore(), server)
    run(server, "INSERT INTO shop.items VALUES (1201, 'before')")
    before = executed(server)
    rows = ", ".join(f"({number}, REPEAT('x', 100))" for number in range(500))
    with pytest.raises(pymysql.MySQLError, match="1705"):
        run(server, f"INSERT INTO shop.inc VALUES {rows}")
    run(server, "INSERT INTO shop.items VALUES (1202, 'behind')")

    pipeline = Pipeline(config_for(server, sink, ["shop.*"], store))
    with pytest.raises(PipelineHalted) as caught:
        _run_until_it_ends(pipeline)
    assert caught.value.halt.reason is HaltReason.SOURCE_INCIDENT
    assert sink.values == [(1201, "before")]
    assert store.load_watermark() == before
    assert executed(server) - before != GtidSet()


def _run_until_it_ends(pipeline: Pipeline) -> None:
    try:
        pipeline.start()
        pipeline.wait(60)
    finally:
        pipeline.stop()
