"""The scripted server as an honest one: login, answers, stream, heartbeats, restart."""

import contextlib
from typing import Any

import pymysql
import pytest
from helpers.waiting import wait_until

from capstan import GtidSet, HaltReason, Pipeline, PipelineHalted, SqliteMirror, SqliteStore
from capstan.testing import RecordingSink, ScriptedMysql, Table, made_events

ORDERS = Table("shop.orders", "id int unsigned", "state varchar(20)", key="id")
LINES = Table("shop.lines", "a smallint", "b bigint", "note text", key=("b", "a"))


def connect(source: ScriptedMysql, **overrides: Any) -> Any:
    options: dict[str, Any] = {
        "user": source.user,
        "password": source.password,
        "ssl_disabled": True,
    }
    return pymysql.connect(host=source.host, port=source.port, **options | overrides)


def test_the_account_gets_in_and_nobody_else(capstan_source: ScriptedMysql) -> None:
    """A client of another make logs in with the right proof only."""
    connect(capstan_source).close()
    for wrong in ({"password": "x"}, {"password": ""}, {"user": "x"}):
        with pytest.raises(pymysql.OperationalError, match="1045"):
            connect(capstan_source, **wrong)
    assert capstan_source.logins == 1


def test_an_account_without_a_password_gets_in() -> None:
    """The empty proof is that of the empty password."""
    with ScriptedMysql(password="") as source:
        connect(source).close()


def test_settings_can_be_asked_for_and_the_rest_is_refused(capstan_source: ScriptedMysql) -> None:
    """What it does not understand it refuses with MySQL's codes, and goes on."""
    capstan_source.knows(ORDERS)
    capstan_source.settings["binlog_format"] = "MIXED"
    with contextlib.closing(connect(capstan_source)) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT @@global.binlog_format, @@log_bin, VERSION()")
        assert cursor.fetchall() == (("MIXED", 1, "9.7.4"),)
        cursor.execute("SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES")
        assert cursor.fetchall() == (("shop", "orders"),)
        for statement, code in {
            "SELECT @@no_such_thing": 1193,
            "SELECT 1 FROM t": 1064,
            "SHOW TABLES": 1064,
            "DELETE FROM t": 1064,
        }.items():
            with pytest.raises(pymysql.MySQLError) as refused:
                cursor.execute(statement)
            assert refused.value.args[0] == code


def test_what_is_committed_arrives_before_and_behind_the_dial(
    capstan_source: ScriptedMysql,
) -> None:
    """Rows, keys and old rows of every operation, in several tables, as they were given."""
    sink = RecordingSink()
    capstan_source.commit(ORDERS.insert((1, "new"), (2, None)), LINES.insert((-1, 2**40, "é")))
    with Pipeline(capstan_source.config(sink, tables=["shop.*"])) as pipeline:
        assert pipeline.wait_for(capstan_source.executed, timeout=30)
        capstan_source.commit(ORDERS.update(((1, "new"), (1, "paid"))))
        capstan_source.statement("ALTER TABLE orders ADD w INT", "shop")
        capstan_source.commit(ORDERS.delete((2, None)))
        capstan_source.commit()
        assert pipeline.wait_for(capstan_source.executed, timeout=30)

    assert [(c.op, c.table, c.values, c.old_values) for c in sink.changes] == [
        ("insert", "shop.orders", (1, "new"), None),
        ("insert", "shop.orders", (2, None), None),
        ("insert", "shop.lines", (-1, 2**40, "é"), None),
        ("update", "shop.orders", (1, "paid"), (1, "new")),
        ("delete", "shop.orders", None, (2, None)),
    ]
    assert [(c.kind, c.schema, c.table) for c in sink.schema_changes] == [
        ("alter_table", "shop", "orders")
    ]


def test_a_dump_begins_behind_what_it_excludes(
    capstan_source: ScriptedMysql, tmp_path: Any
) -> None:
    """R31: a second pipeline over store and mirror gets what is new, and the anchor again."""
    mirror, store = tmp_path / "mirror.db", tmp_path / "state.db"
    for number in (1, 2, 3):
        capstan_source.commit(ORDERS.insert((number, None)))
        config = capstan_source.config(SqliteMirror(mirror), SqliteStore(store))
        with Pipeline(config) as pipeline:
            assert pipeline.wait_for(capstan_source.executed, timeout=30)
    counts = [excluded.count() for excluded in capstan_source.dumps]
    assert counts == [0, 0, 1]
    assert GtidSet.parse(str(capstan_source.committed[0])) <= capstan_source.dumps[-1]


def test_a_setting_makes_it_another_kind_of_server(capstan_source: ScriptedMysql) -> None:
    """The preflight refuses it for what it says of itself."""
    capstan_source.settings["gtid_mode"] = "OFF"
    with pytest.raises(PipelineHalted) as caught:
        Pipeline(capstan_source.config(RecordingSink())).start()
    assert caught.value.halt.reason is HaltReason.GTID_MODE_NOT_ON


def test_an_idle_stream_has_heartbeats_as_often_as_it_was_asked(
    capstan_source: ScriptedMysql,
) -> None:
    """A silence longer than the liveness timeout never comes up."""
    section = capstan_source.source(heartbeat=0.05, liveness_timeout=5.0)
    with Pipeline(capstan_source.config(RecordingSink(), source=section)) as pipeline:
        sent = capstan_source.packets
        wait_until(lambda: capstan_source.packets > sent + 5, what="heartbeats")
        assert pipeline.status().counters["connects"] == 1


def test_it_comes_back_on_its_port_with_its_log(capstan_source: ScriptedMysql) -> None:
    """Closed and started again it is the same server, as after a restart."""
    sink, port = RecordingSink(), capstan_source.port
    capstan_source.commit(ORDERS.insert((1, None)))
    section = capstan_source.source(reconnect_attempts=30)
    with Pipeline(capstan_source.config(sink, source=section)) as pipeline:
        assert pipeline.wait_for(capstan_source.executed, timeout=30)
        capstan_source.close()
        capstan_source.commit(ORDERS.insert((2, None)))
        capstan_source.start()
        assert pipeline.wait_for(capstan_source.executed, timeout=30)
    assert capstan_source.port == port
    assert sink.gtids == [str(gtid) for gtid in capstan_source.committed]


def test_positions_beyond_four_gibibytes_wrap_as_they_do_in_files() -> None:
    """A file may be longer than the position in an event's header can say (case 113)."""
    sink = RecordingSink()
    with ScriptedMysql(position=2**32 - 150) as source:
        for number in range(1, 4):
            source.commit(ORDERS.insert((number, "x" * 20)))
        with Pipeline(source.config(sink)) as pipeline:
            assert pipeline.wait_for(source.executed, timeout=30)
    assert [change.values for change in sink.changes] == [(n, "x" * 20) for n in (1, 2, 3)]


def test_events_of_ones_own_are_sent_as_they_are(capstan_source: ScriptedMysql) -> None:
    """A transaction may be made of anything; here of a block without rows that is rolled back."""
    gtid = capstan_source.events(
        made_events.query("BEGIN", "shop", 0), made_events.query("ROLLBACK", "shop", 0)
    )
    sink = RecordingSink()
    with Pipeline(capstan_source.config(sink)) as pipeline:
        assert pipeline.wait_for(str(gtid), timeout=30)
    assert sink.gtids == []


def test_nothing_is_left_when_it_is_closed() -> None:
    """Connections end with it, and their threads."""
    with ScriptedMysql() as source:
        connection = connect(source)
    with pytest.raises(pymysql.MySQLError):
        connection.ping(reconnect=False)
    assert source._wires == {}
    connection._force_close()


def test_a_malformed_dump_request_is_refused(capstan_source: ScriptedMysql) -> None:
    """A GTID set that is none gets an error packet, as from a real server."""
    connection = connect(capstan_source)
    connection._execute_command(0x1E, b"\0" * 14 + b"\xff" * 8 + b"\x08\0\0\0" + b"\xff" * 8)
    with pytest.raises(pymysql.MySQLError):
        connection._read_packet()
    connection._force_close()


def test_an_unknown_command_is_refused(capstan_source: ScriptedMysql) -> None:
    """A command that the kit does not play is an error, and the connection goes on."""
    with contextlib.closing(connect(capstan_source)) as connection:
        connection._execute_command(0x09, b"")
        with pytest.raises(pymysql.MySQLError, match="1047"):
            connection._read_packet()
        connection.ping(reconnect=False)
