"""Rare things in a real server's stream: many files, restarts, table ids that change, resets.

House rules: one server for all; a test that resets its history stands at the end.
"""

from collections.abc import Iterator
from contextlib import closing
from struct import unpack_from

import pytest
from helpers.mysql import PrivateServers, execute
from helpers.pipelines import config_for, halt_of
from helpers.stage import Listener, Stage

from capstan import GtidSet, HaltReason, MemoryStore
from capstan.core.gtid import Gtid
from capstan.demo.mysql_install import MysqlPrograms
from capstan.demo.mysql_server import MysqlServer

PREVIOUS_GTIDS = 35


@pytest.fixture(scope="module")
def server(mysql_programs: MysqlPrograms) -> Iterator[MysqlServer]:
    """A server to restart and to reset."""
    with closing(PrivateServers(mysql_programs)) as servers:
        server = servers()
        run(server, "CREATE DATABASE shop")
        yield server


@pytest.fixture
def stage(server: MysqlServer) -> Iterator[Stage]:
    """A pipeline over `shop`, with an empty table `t`."""
    run(server, "DROP TABLE IF EXISTS shop.t", "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)")
    with Stage(server, "shop") as stage:
        yield stage


def run(server: MysqlServer, *statements: str) -> None:
    with server.connect() as connection:
        for statement in statements:
            execute(connection, statement)


def inserts(*numbers: int) -> list[list[object]]:
    """A transaction of one row for each."""
    return [[("insert", "t", (number, number), None)] for number in numbers]


def insert(number: int) -> str:
    return f"INSERT INTO t VALUES ({number}, {number})"


def current_file(server: MysqlServer) -> str:
    with server.connect() as connection:
        ((name, *_),) = execute(connection, "SHOW BINARY LOG STATUS")
    return str(name)


def test_many_files_are_one_stream(stage: Stage, server: MysqlServer) -> None:
    """R36: one interval, whatever file a transaction stands in."""
    first = current_file(server)

    outcome = stage.play(
        [step for number in range(8) for step in ("FLUSH BINARY LOGS", insert(number))]
    )

    assert current_file(server) > first
    assert outcome.plain == inserts(*range(8))
    assert outcome.watermark == outcome.executed


def test_a_memory_table_is_empty_behind_a_restart(stage: Stage, server: MysqlServer) -> None:
    """D21: STOP, a new file, and a TRUNCATE that the server itself writes."""
    outcome = stage.play(
        ["INSERT INTO mem VALUES (1)", server.restart],
        ["INSERT INTO mem VALUES (2)"],
        setup=["CREATE TABLE mem (id INT PRIMARY KEY) ENGINE = MEMORY"],
    )

    assert outcome.plain == [
        [("insert", "mem", (1,), None)],
        "truncate_table mem",
        [("insert", "mem", (2,), None)],
    ]
    assert outcome.watermark == outcome.executed


def test_a_table_may_have_two_ids_in_one_transaction(stage: Stage, server: MysqlServer) -> None:
    """R1: FLUSH TABLES of another session between two statements gives the table a new id."""
    outcome = stage.play(
        ["BEGIN", insert(1), lambda: run(server, "FLUSH TABLES"), insert(2), "COMMIT"],
        setup=["FLUSH BINARY LOGS"],
    )

    with server.connect() as connection:
        events = execute(connection, f"SHOW BINLOG EVENTS IN '{current_file(server)}'")
    maps = [info for _, _, kind, _, _, info in events if kind == "Table_map"]
    assert len(set(maps)) == 2
    assert outcome.plain == [[*inserts(1)[0], *inserts(2)[0]]]
    assert outcome.watermark == outcome.executed


def test_a_name_may_have_many_ids_and_shapes(stage: Stage) -> None:
    """R1, D20: names and types are those of each table map, never the newest (case 070)."""
    outcome = stage.play(
        [
            insert(1),
            "FLUSH TABLES t",
            insert(2),
            "ALTER TABLE t ADD COLUMN b VARCHAR(3) DEFAULT 'q' FIRST",
            "INSERT INTO t VALUES ('r', 3, 3)",
            "RENAME TABLE t TO t2",
            "INSERT INTO t2 VALUES ('s', 4, 4)",
            "RENAME TABLE t2 TO t",
            "ALTER TABLE t DROP COLUMN v",
            "INSERT INTO t VALUES ('u', 5)",
        ]
    )

    for seen in (outcome, stage.late(outcome.before, outcome.executed)):
        assert seen.halt is None
        assert [told[0].record if isinstance(told, list) else told.kind for told in seen.told] == [
            {"id": 1, "v": 1},
            {"id": 2, "v": 2},
            "alter_table",
            {"b": "r", "id": 3, "v": 3},
            "rename_table",
            {"b": "s", "id": 4, "v": 4},
            "rename_table",
            "alter_table",
            {"b": "u", "id": 5},
        ]


def previous_gtids(server: MysqlServer) -> bytes:
    """The body of the newest file's PREVIOUS_GTIDS."""
    data, position = (server.data / current_file(server)).read_bytes(), 4
    while data[position + 4] != PREVIOUS_GTIDS:
        position += unpack_from("<I", data, position + 9)[0]
    return data[position + 19 : position + unpack_from("<I", data, position + 9)[0] - 4]


@pytest.fixture
def purged(server: MysqlServer, stage: Stage) -> GtidSet:
    """The server's set, all of it purged."""
    run(server, *["ANALYZE TABLE shop.t"] * 5, "FLUSH BINARY LOGS")
    run(server, f"PURGE BINARY LOGS TO '{current_file(server)}'")
    return stage.executed()


def halt_at(server: MysqlServer, position: GtidSet) -> HaltReason:
    """The halt of a pipeline that stands there; it is told nothing and stays there."""
    listener, store = Listener(), MemoryStore()
    store.save_watermark(position)
    reason = halt_of(config_for(server, listener, ["shop.*"], store, settle_timeout=0.2))
    assert (listener.told, store.load_watermark()) == ([], position)
    return reason


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_a_hole_in_what_is_purged_is_a_gap(
    server: MysqlServer, purged: GtidSet, place: str
) -> None:
    """R46: wherever it is, what is missing cannot be had any more (case 106)."""
    own = server.server_uuid
    last = purged.intervals(own)[-1][1] - 1
    number = {"first": 1, "middle": last - 2, "last": last}[place]

    reason = halt_at(server, purged.without(Gtid(own, "", number)))

    assert reason is HaltReason.DATA_GAP


@pytest.mark.parametrize(
    "extra", ["{own}:1000000", "bbbbbbbb-0000-0000-0000-000000000000:1-5", "{own}:green:7"]
)
def test_a_position_that_the_server_never_had_is_anothers(
    server: MysqlServer, purged: GtidSet, extra: str
) -> None:
    """D14: of its own, of a source or a tag that it never saw (cases 102, 108)."""
    excess = GtidSet.parse(extra.format(own=server.server_uuid))

    assert halt_at(server, purged | excess) is HaltReason.SOURCE_IDENTITY_MISMATCH


def test_exactly_what_is_purged_is_enough(stage: Stage, purged: GtidSet) -> None:
    """R46: the stream begins behind it (case 106)."""
    outcome = stage.play([insert(1)])

    late = stage.late(purged, outcome.executed)
    assert (late.plain, late.halt) == (inserts(1), None)


def test_files_say_tags_with_and_without_any(stage: Stage, server: MysqlServer) -> None:
    """D22: one tag changes the layout of PREVIOUS_GTIDS for good, RESET or not (case 104)."""
    outcome = stage.play(
        [
            "SET gtid_next = 'automatic:blue'",
            insert(1),
            "SET gtid_next = 'automatic'",
            "FLUSH BINARY LOGS",
            insert(2),
        ]
    )
    assert (outcome.plain, outcome.watermark) == (inserts(1, 2), outcome.executed)
    assert ":blue:" in str(outcome.executed)

    run(server, "RESET BINARY LOGS AND GTIDS")
    assert previous_gtids(server) == b"\x01\0\0\0\0\0\0\x01"
    with Stage(server, "shop") as afresh:
        outcome = afresh.play([insert(3), "FLUSH BINARY LOGS", insert(4)])
        late = afresh.late(GtidSet(), outcome.executed)
    for seen in (outcome, late):
        assert (seen.plain, seen.watermark) == (inserts(3, 4), outcome.executed)
