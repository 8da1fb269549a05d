"""Failover on real servers: the source is killed, its replica takes over behind the same address.

House rules: what the replica has is waited for, never hoped for; that it commits in another order
is done by a row that the test holds.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest
from helpers.mysql import PrivateServers, execute
from helpers.pipelines import Recording, catch_up, config_for, executed, source_for
from helpers.replication import follow, run, updated
from helpers.waiting import wait_until
from pymysql.connections import Connection

from capstan import (
    Delivery,
    GtidSet,
    HaltReason,
    MemoryStore,
    Pipeline,
    PipelineHalted,
    SqliteMirror,
    Transaction,
)
from capstan.core.changes import Item
from capstan.core.dialling import Phase
from capstan.core.tables import CaptureList
from capstan.demo.compare import compare
from capstan.demo.mysql_server import MysqlServer
from capstan.testing import TcpProxy

TABLES = ["shop.*"]
DEADLINE = 60.0


@attrs.frozen
class Pair:
    """A source, a replica that commits in any order, and the address that clients know.

    Attributes:
        source: Who is killed.
        replica: Who takes over.
        proxy: The address.
    """

    source: MysqlServer
    replica: MysqlServer
    proxy: TcpProxy

    def follow(self) -> None:
        """Let the replica follow."""
        follow(self.replica, self.source)

    def settle(self) -> None:
        """Everything of the source is on the replica."""
        wanted = executed(self.source)
        wait_until(lambda: wanted <= executed(self.replica), what="the replica to catch up")

    def fail_over(self) -> None:
        """The source dies at once; whoever dials from now on meets the replica."""
        self.source.kill()
        self.proxy.retarget(self.replica.host, self.replica.port)
        self.proxy.cut()
        self.proxy.thaw()
        run(self.replica, "STOP REPLICA", "RESET REPLICA ALL")

    @property
    def uuids(self) -> list[str]:
        """Both servers'."""
        return [self.source.server_uuid, self.replica.server_uuid]


@pytest.fixture
def pair(new_server: PrivateServers) -> Iterator[Pair]:
    """The replica follows; `shop.t` has forty rows of 0."""
    source = new_server()
    replica = new_server(
        options={"replica_parallel_workers": 4, "replica_preserve_commit_order": "OFF"}
    )
    rows = ", ".join(f"({number}, 0)" for number in range(1, 41))
    run(
        source,
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO shop.t VALUES {rows}",
    )
    with TcpProxy(source.host, source.port) as proxy:
        made = Pair(source, replica, proxy)
        made.follow()
        made.settle()
        yield made


def held(server: MysqlServer, number: int) -> "Connection[Any]":
    """A connection that locks a row until it is closed."""
    connection = server.connect(ssl_disabled=True)
    execute(connection, "BEGIN")
    execute(connection, f"SELECT * FROM shop.t WHERE id = {number} FOR UPDATE")
    return connection


class Gated(SqliteMirror):
    """A mirror with a gate that a test can close; it refuses by itself what it already has.

    Attributes:
        gtids: Of the transactions that came in.
        gate: Closed, it holds every batch.
        entered: Set when one is held.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.gtids: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def handle_batch(self, items: Sequence[Item]) -> None:
        """Wait at the gate, apply, note."""
        if not self.gate.is_set():
            self.entered.set()
        assert self.gate.wait(DEADLINE)
        super().handle_batch(items)
        self.gtids += [str(item.gtid) for item in items if isinstance(item, Transaction)]


def test_a_killed_source_is_gone_on_from_on_its_replica(pair: Pair, tmp_path: Path) -> None:
    """R31, R43, D13, D14: other order, items under way: each transaction once, nothing missing."""
    mirror = Gated(tmp_path / "mirror.db")
    options = {"port": pair.proxy.port, "allowed_sources": pair.uuids}
    one_by_one = Delivery(max_batch=1)
    config = config_for(pair.source, mirror, TABLES, delivery=one_by_one, **options)
    with Pipeline(config) as pipeline:
        catch_up(pipeline, pair.source)
        mirror.gate.clear()
        with closing(held(pair.replica, 1)):
            under_way(pair, mirror)
            pair.proxy.freeze()
            run(pair.source, *updated(3, 4))
            wait_until(lambda: changed(pair.replica) == {2, 3, 4}, what="all but the held one")
        pair.settle()
        pair.fail_over()
        run(pair.replica, *updated(7, 1, 8))
        wait_until(
            lambda: pipeline.status().connection == Phase.ASKING.value, what="the link's end"
        )
        mirror.gate.set()
        assert pipeline.wait_for(executed(pair.replica), DEADLINE)
        status = pipeline.status()
    with closing(pair.replica.connect()) as connection:
        comparison = compare(connection, CaptureList.parse(TABLES), tmp_path / "mirror.db")

    assert comparison.differences == ()
    assert comparison.rows == 40
    assert len(mirror.gtids) == len(set(mirror.gtids)) == 1 + 4 + 3
    assert status.server_uuid == pair.replica.server_uuid
    assert status.counters["skipped"] == 0


def under_way(pair: Pair, mirror: Gated) -> None:
    """Two transactions are read, and the sink is busy with the first."""
    run(pair.source, *updated(1))
    assert mirror.entered.wait(DEADLINE)
    carried = pair.proxy.carried
    run(pair.source, *updated(2))
    wait_until(lambda: pair.proxy.carried > carried, what="the second one")


def changed(server: MysqlServer) -> set[int]:
    """The rows that were updated."""
    with closing(server.connect(ssl_disabled=True)) as connection:
        return {row[0] for row in execute(connection, "SELECT id FROM shop.t WHERE v > 0")}


def test_a_replica_that_lacks_what_was_processed_is_refused(pair: Pair) -> None:
    """D14: it was behind when its source died; going on would lose what it has instead."""
    sink, store = Recording(), MemoryStore()
    config = config_for(pair.source, sink, TABLES, store, port=pair.proxy.port, settle_timeout=0.2)
    with Pipeline(config) as pipeline:
        catch_up(pipeline, pair.source)
        run(pair.replica, "STOP REPLICA")
        run(pair.source, *updated(1, 2))
        catch_up(pipeline, pair.source)
        pair.fail_over()
        run(pair.replica, *updated(3))
        with pytest.raises(PipelineHalted) as caught:
            pipeline.wait(DEADLINE)

    lost = f"{pair.source.server_uuid}:4-5"
    assert caught.value.halt.reason is HaltReason.SOURCE_IDENTITY_MISMATCH
    assert lost in caught.value.halt.detail
    assert [values[0] for values in sink.values[40:]] == [1, 2]
    assert GtidSet.parse(lost) <= (store.load_watermark() or GtidSet())


def test_a_server_outside_the_allowed_sources_is_refused(pair: Pair) -> None:
    """D14: it has all that was processed, and is none of those that may answer."""
    sink, store = Recording(), MemoryStore()
    options = {"port": pair.proxy.port, "allowed_sources": [pair.source.server_uuid.upper()]}
    config = config_for(pair.source, sink, TABLES, store, **options)
    with Pipeline(config) as pipeline:
        catch_up(pipeline, pair.source)
        pair.fail_over()
        run(pair.replica, *updated(3))
        with pytest.raises(PipelineHalted) as caught:
            pipeline.wait(DEADLINE)

    assert caught.value.halt.reason is HaltReason.SOURCE_IDENTITY_MISMATCH
    assert pair.replica.server_uuid in caught.value.halt.detail
    assert len(sink.values) == 40
    with Pipeline(attrs.evolve(config, source=source_for(pair.replica))) as pipeline:
        catch_up(pipeline, pair.replica)
    assert [values[0] for values in sink.values[40:]] == [3]
