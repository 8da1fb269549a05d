"""Backfills from servers that move, go away, or are replicas themselves."""

import contextlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pymysql
import pytest
from helpers.backfill_acts import acting
from helpers.backfills import Upserting, backfilling
from helpers.mysql import Database, PrivateServers, execute
from helpers.pipelines import catch_up, executed
from helpers.replication import follow
from helpers.writers import StrictSink, content_of, tables_for, writing

from capstan import HaltReason, MemoryStore, Pipeline, PipelineHalted
from capstan.demo.mysql_server import MysqlServer
from capstan.testing import TcpProxy

DEADLINE = 90.0
ROWS = 30


@contextmanager
def shop_on(server: MysqlServer) -> Iterator[Database]:
    """A database with one table of thirty rows."""
    with contextlib.closing(server.connect()) as connection:
        execute(connection, "CREATE DATABASE shop")
        execute(connection, "CREATE TABLE shop.items (id INT PRIMARY KEY, v INT)")
        values = ", ".join(f"({n}, 0)" for n in range(ROWS))
        execute(connection, f"INSERT INTO shop.items VALUES {values}")
        connection.commit()
    yield Database(name="shop", server=server, connection=connection)


def run(server: MysqlServer, *statements: str) -> list[tuple[Any, ...]]:
    """Statements on a connection of their own; the rows of the last one."""
    rows: list[tuple[Any, ...]] = []
    with contextlib.closing(server.connect(autocommit=True)) as connection:
        for statement in statements:
            rows = execute(connection, statement)
    return rows


def cut_readers(server: MysqlServer) -> None:
    """Kill every connection of the account but those of a dump."""
    listed = run(
        server,
        "SELECT id FROM information_schema.processlist WHERE user = 'root'"
        " AND command NOT LIKE 'Binlog Dump%' AND id <> CONNECTION_ID()",
    )
    for (id_,) in listed:
        # It may have gone by itself meanwhile.
        with contextlib.suppress(pymysql.err.OperationalError):
            run(server, f"KILL {id_}")


def test_an_address_that_moves_in_the_middle_is_seen(new_server: PrivateServers) -> None:
    """R153-R155, D3: case 154: the stream is where it was, the reader lands on another server."""
    first, second = new_server(), new_server()
    sink, store = Upserting(), MemoryStore()
    with (
        shop_on(first) as shop,
        shop_on(second),
        TcpProxy(first.host, first.port) as proxy,
    ):
        config = backfilling(shop, sink, store, chunk_size=5)
        config = attrs.evolve(config, source=attrs.evolve(config.source, port=proxy.port))

        def move() -> None:
            proxy.retarget(second.host, second.port)
            cut_readers(first)

        with (
            pytest.raises(PipelineHalted) as caught,
            Pipeline(config, views=acting(config, move, before_pin=3)) as pipeline,
        ):
            pipeline.wait(DEADLINE)

    halt = caught.value.halt
    assert halt.reason is HaltReason.SNAPSHOT_SOURCE_MISMATCH
    assert first.server_uuid in halt.detail
    assert second.server_uuid in halt.detail
    assert [meta.sequence for meta in sink.chunks] in ([0], [0, 1])


def test_a_server_that_restarts_in_the_middle_is_gone_on_with(new_server: PrivateServers) -> None:
    """R53, R120, R130, R168: killed between two captures; no key comes twice, none is missing."""
    server = new_server()
    sink, store = Upserting(), MemoryStore()

    def restart() -> None:
        run(server, "UPDATE shop.items SET v = 1 WHERE id IN (1, 29)")
        server.kill()
        server.start()
        run(server, "UPDATE shop.items SET v = v + 1 WHERE id IN (2, 29)")

    with shop_on(server) as shop:
        config = backfilling(shop, sink, store, chunk_size=5)
        with Pipeline(config, views=acting(config, restart, before_pin=3)) as pipeline:
            assert pipeline.wait_snapshot(DEADLINE)
            catch_up(pipeline, server)

    changed = {1: 1, 2: 1, 29: 2}
    assert sink.content == {(n,): (n, changed.get(n, 0)) for n in range(ROWS)}
    assert set(sink.came.values()) == {1}
    assert [meta.sequence for meta in sink.chunks] == list(range(6))


# --- a replica ------------------------------------------------------------------------------------


@contextmanager
def replicating(source: MysqlServer, replica: MysqlServer) -> Iterator[None]:
    """The replica follows the source, and takes writes from nobody else."""
    follow(replica, source)
    run(replica, "SET GLOBAL super_read_only = ON")
    wait_for_replica(source, replica)
    yield
    run(replica, "STOP REPLICA")


def wait_for_replica(source: MysqlServer, replica: MysqlServer) -> None:
    """Until it has everything that the source has now."""
    asked = f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed(source)}', {DEADLINE:.0f})"
    assert run(replica, asked) == [(0,)]


@contextmanager
def lag_watched(replica: MysqlServer) -> Iterator[list[float]]:
    """Seconds from commit on the source to apply, of the newest of each worker, while it lasts."""
    lags: list[float] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.1):
            ((lag,),) = run(
                replica,
                "SELECT MAX(TIMESTAMPDIFF(MICROSECOND,"
                " LAST_APPLIED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP,"
                " LAST_APPLIED_TRANSACTION_END_APPLY_TIMESTAMP))"
                " FROM performance_schema.replication_applier_status_by_worker"
                " WHERE LAST_APPLIED_TRANSACTION <> ''",
            )
            lags.append(float(lag or 0) / 1e6)

    thread = threading.Thread(target=watch, name="lag")
    thread.start()
    try:
        yield lags
    finally:
        ended.set()
        thread.join()


Report = Callable[[str, object], None]


def backfilled_from_replica(
    new_server: PrivateServers,
    report: Report,
    ordered: str,
    source_orders: str,
    rows: int,
    writers: int,
    **snapshot: Any,
) -> None:
    """Writers on the source, the backfill and the stream from the replica; nothing comes twice."""
    source = new_server(options={"binlog_order_commits": source_orders})
    replica = new_server(
        options={"replica_parallel_workers": 4, "replica_preserve_commit_order": ordered}
    )
    run(source, "CREATE DATABASE shop")
    with contextlib.closing(source.connect(database="shop")) as connection:
        shop = Database(name="shop", server=source, connection=connection)
        tables_for(shop, rows)
        sink = StrictSink()
        with replicating(source, replica):
            there = Database(name="shop", server=replica, connection=connection)
            config = backfilling(there, sink, MemoryStore(), **snapshot)
            began = time.monotonic()
            with Pipeline(config) as pipeline:
                with writing(shop, writers, rows), lag_watched(replica) as lags:
                    assert pipeline.wait_snapshot(DEADLINE * 10)
                    seconds = time.monotonic() - began
                    progress = pipeline.status().snapshot
                wait_for_replica(source, replica)
                catch_up(pipeline, replica, DEADLINE)
    assert progress is not None
    report("seconds", seconds)
    report("missed captures", progress.retries)
    report("lock p99", progress.lock_p99)
    report("replica lag, median and most", (statistics.median(lags), max(lags)))
    assert sink.content == content_of(source, "shop")
    assert set(sink.by_chunk.values()) == {1}
    assert progress.suppressed > 0


def test_a_backfill_from_a_replica_is_exact(
    new_server: PrivateServers, record_property: Report
) -> None:
    """R61, R120, R167, D6: with workers that commit in an order of their own, read-only."""
    backfilled_from_replica(
        new_server, record_property, "OFF", "ON", 500, 2, chunk_size=50, rows_per_second=1000
    )


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("ordered", "source_orders"), [("ON", "ON"), ("OFF", "ON"), ("OFF", "OFF")]
)
def test_a_large_backfill_from_a_replica_is_exact(
    new_server: PrivateServers, record_property: Report, ordered: str, source_orders: str
) -> None:
    """R61, R120, R167, D6: the same with 8 writers; also when a source's commits have no order."""
    backfilled_from_replica(new_server, record_property, ordered, source_orders, 75_000, 8)
