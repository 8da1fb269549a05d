"""Streams from replicas: out of order, with holes, of several sources, under another server's name.

House rules: what makes a replica commit out of order is a row that the test holds, never chance; a
pipeline over it is stopped and started while there are holes.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import attrs
import pymysql
import pytest
from helpers.mysql import PrivateServers, execute
from helpers.pipelines import Recording, config_for, executed, halt_of, start_from_now
from helpers.replication import follow, run, updated
from helpers.waiting import wait_until
from pymysql.connections import Connection

from capstan import GtidSet, HaltReason, MemoryStore, Pipeline, SqliteStore, Store
from capstan.demo.mysql_install import MysqlPrograms
from capstan.demo.mysql_server import MysqlServer, Option, free_port

_NOT_AN_ACTIVE_MEMBER = 3092
ROWS = 40
TABLES = ["shop.*"]
GROUP = "cccccccc-0000-0000-0000-000000000000"


@attrs.frozen
class Pair:
    """A source and a replica of it that commits in any order."""

    source: MysqlServer
    replica: MysqlServer

    def attach(self) -> None:
        """Let the replica follow."""
        follow(self.replica, self.source)
        self.settled()

    def promote(self) -> None:
        """Let the replica follow nobody."""
        run(self.replica, "STOP REPLICA", "RESET REPLICA ALL")

    def settled(self) -> GtidSet:
        """Everything of the source, once the replica has it."""
        wanted = executed(self.source)
        wait_until(lambda: wanted <= executed(self.replica), what="the replica to catch up")
        return wanted


@pytest.fixture(scope="module")
def servers(mysql_programs: MysqlPrograms) -> Iterator[Pair]:
    """Both, the source with `shop.t`, whose rows 1 to 40 are all 0."""
    apart: dict[str, Option] = {
        "replica_parallel_workers": 4,
        "replica_preserve_commit_order": "OFF",
    }
    grouped: dict[str, Option] = {
        "plugin_load_add": "group_replication.so",
        "group_replication_group_name": GROUP,
        "group_replication_local_address": f"127.0.0.1:{free_port()}",
        "group_replication_start_on_boot": "OFF",
        "group_replication_bootstrap_group": "ON",
    }
    with closing(PrivateServers(mysql_programs)) as private:
        pair = Pair(private(options=grouped), private(options=apart))
        rows = ", ".join(f"({number}, 0)" for number in range(1, ROWS + 1))
        run(
            pair.source,
            "CREATE DATABASE shop",
            "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)",
            f"INSERT INTO shop.t VALUES {rows}",
        )
        yield pair


@pytest.fixture
def pair(servers: Pair) -> Iterator[Pair]:
    """The replica follows and has caught up."""
    servers.attach()
    yield servers
    servers.promote()


def hold(stack: ExitStack, server: MysqlServer, number: int) -> "Connection[Any]":
    """Lock a row until the connection's ROLLBACK."""
    connection = stack.enter_context(closing(server.connect()))
    execute(connection, "BEGIN")
    execute(connection, f"SELECT * FROM shop.t WHERE id = {number} FOR UPDATE")
    return connection


@attrs.define
class Reader:
    """One pipeline after another over a server, with one store.

    Attributes:
        lives: What each of them was given.
    """

    server: MysqlServer
    store: Store
    lives: list[Recording] = attrs.field(factory=list)

    def read_until(self, *, count: int | None = None, position: GtidSet | None = None) -> GtidSet:
        """Start, read so many transactions or up to a position, stop; where it then stands."""
        sink = Recording()
        self.lives.append(sink)
        with Pipeline(config_for(self.server, sink, TABLES, self.store)) as pipeline:
            if position is not None:
                assert pipeline.wait_for(position, 30)
            else:
                wait_until(lambda: len(sink.gtids) == count, what=f"{count} transactions")
            pipeline.stop()
            return pipeline.watermark

    @property
    def gtids(self) -> list[str]:
        """Of all lives."""
        return [gtid for life in self.lives for gtid in life.gtids]

    @property
    def rows(self) -> list[int]:
        """Their numbers, of all lives."""
        return [values[0] for life in self.lives for values in life.values]


def test_a_replica_without_commit_order_is_read_once_and_whole(pair: Pair, tmp_path: Path) -> None:
    """R31, R39, R43: held rows leave holes; each is filled later, with restarts between (101)."""
    first = start_from_now(SqliteStore(tmp_path / "state.db"), pair.replica)
    first.close()
    reader = Reader(pair.replica, SqliteStore(tmp_path / "state.db"))
    before = executed(pair.replica)
    source = pair.source.server_uuid
    with ExitStack() as stack:
        held = {number: hold(stack, pair.replica, number) for number in (1, 2, 3)}
        run(pair.source, *updated(1, 10, 11, 2, 12, 13, 3, 14))
        holes = reader.read_until(count=5)
        assert sorted(reader.rows) == [10, 11, 12, 13, 14]
        assert len(holes.intervals(source)) == len(before.intervals(source)) + 3
        assert reader.read_until(position=holes) == holes
        for number in (2, 3, 1):
            execute(held[number], "ROLLBACK")
            reader.read_until(count=1)
        run(pair.source, *updated(20, 21))
    after = reader.read_until(position=pair.settled())

    assert reader.rows[5:8] == [2, 3, 1]
    assert sorted(reader.rows[8:]) == [20, 21]
    assert len(set(reader.gtids)) == 10
    assert after == executed(pair.replica)
    assert len(after.intervals(source)) == 1


def test_a_promoted_replica_is_gone_on_with(pair: Pair) -> None:
    """R43, D13, D14: what the old source still had, then the new one's own (case 131)."""
    reader = Reader(pair.source, start_from_now(MemoryStore(), pair.source))
    run(pair.source, *updated(30, 31))
    reader.read_until(position=executed(pair.source))
    run(pair.source, *updated(32, 33))
    pair.settled()
    pair.promote()
    run(pair.replica, *updated(34, 35))

    reader.server = pair.replica
    after = reader.read_until(position=executed(pair.replica))

    assert [sorted(reader.rows[at : at + 2]) for at in (0, 2, 4)] == [[30, 31], [32, 33], [34, 35]]
    assert [gtid.split(":")[0] for gtid in reader.gtids] == [
        *[pair.source.server_uuid] * 4,
        *[pair.replica.server_uuid] * 2,
    ]
    assert after == executed(pair.replica)
    assert len(after.uuids()) == 2


def start_group(source: MysqlServer) -> None:
    """Make the server a group of one; a port that was taken meanwhile is followed by another."""
    account = f"USER = '{source.user}', PASSWORD = '{source.password}'"

    def started() -> bool:
        address = f"127.0.0.1:{free_port()}"
        try:
            run(
                source,
                f"SET GLOBAL group_replication_local_address = '{address}'",
                f"START GROUP_REPLICATION {account}",
            )
        except pymysql.err.OperationalError as error:
            if error.args[0] != _NOT_AN_ACTIVE_MEMBER:
                raise
            return False
        return True

    wait_until(started, timeout=60.0, what="a group of one")


def test_a_group_names_its_transactions_itself(servers: Pair) -> None:
    """D14, R43: a GTID's uuid need not be the server's; what is ahead is refused (case 133)."""
    source = servers.source
    reader = Reader(source, start_from_now(MemoryStore(), source))
    start_group(source)
    run(source, *updated(5, 6), "STOP GROUP_REPLICATION")

    run(source, "SET GLOBAL super_read_only = OFF, GLOBAL read_only = OFF", *updated(7))
    after = reader.read_until(position=executed(source))

    assert reader.rows == [5, 6, 7]
    assert [gtid.split(":")[0] for gtid in reader.gtids] == [GROUP, GROUP, source.server_uuid]
    assert after == executed(source)
    ahead = MemoryStore()
    ahead.save_watermark(after | GtidSet.parse(f"{GROUP}:1-999"))
    config = config_for(source, Recording(), TABLES, ahead, settle_timeout=0.2)
    assert halt_of(config) is HaltReason.SOURCE_IDENTITY_MISMATCH
