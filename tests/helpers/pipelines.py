"""Pipelines over a real server, for tests: a recording sink, a configuration, a way to catch up."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from capstan import (
    Config,
    Delivery,
    GtidSet,
    HaltReason,
    MemoryStore,
    Pipeline,
    PipelineHalted,
    SchemaChange,
    Sink,
    Source,
    Store,
    Transaction,
)
from capstan.demo.mysql_access import SqlServer
from helpers.mysql import execute

_SERVER_IDS = itertools.count(70_001)


class Recording(Sink):
    """Keeps what it is given, as plain data.

    Attributes:
        transactions: GTID text and its changes as (op, table, values, old values).
        schema_changes: In order.
    """

    def __init__(self) -> None:
        self.transactions: list[tuple[str, list[tuple[str, str, Any, Any]]]] = []
        self.schema_changes: list[SchemaChange] = []
        self.lock = threading.Lock()

    def handle_transaction(self, transaction: Transaction) -> None:
        """Keep it."""
        changes = [(c.op.value, c.table, c.values, c.old_values) for c in transaction.changes]
        with self.lock:
            self.transactions.append((str(transaction.gtid), changes))

    def handle_schema_change(self, change: SchemaChange) -> None:
        """Keep it."""
        with self.lock:
            self.schema_changes.append(change)

    @property
    def gtids(self) -> list[str]:
        """Of the transactions, in order of delivery."""
        return [gtid for gtid, _ in self.transactions]

    @property
    def values(self) -> list[Any]:
        """The rows after each change, in order of delivery."""
        return [values for _, changes in self.transactions for _, _, values, _ in changes]


def source_for(server: SqlServer, **options: Any) -> Source:
    """A source section for this server, under a server_id of its own."""
    options.setdefault("server_id", next(_SERVER_IDS))
    options.setdefault("host", server.host)
    options.setdefault("port", server.port)
    options.setdefault("user", server.user)
    options.setdefault("password", server.password)
    return Source(**options)


def config_for(
    server: SqlServer,
    sink: Sink,
    tables: Any,
    store: Store | None = None,
    delivery: Delivery | None = None,
    observers: tuple[Any, ...] = (),
    **source: Any,
) -> Config:
    """A configuration over this server; `source` options as in `source_for`."""
    return Config(
        source=source_for(server, **source),
        tables=tables,
        sink=sink,
        store=store or MemoryStore(),
        delivery=delivery or Delivery(),
        observers=observers,
    )


def executed(server: SqlServer) -> GtidSet:
    """The server's gtid_executed."""
    connection = server.connect()
    try:
        ((text,),) = execute(connection, "SELECT @@GLOBAL.gtid_executed")
    finally:
        connection.close()
    return GtidSet.parse(text)


def catch_up(pipeline: Pipeline, server: SqlServer, timeout: float = 30) -> None:
    """Wait until everything that the server has now is processed."""
    assert pipeline.wait_for(executed(server), timeout=timeout)


def start_from_now(store: Store, server: SqlServer) -> Store:
    """Seed a store with the server's present position."""
    store.save_watermark(executed(server))
    return store


def halt_of(config: Config, timeout: float = 60) -> HaltReason:
    """Run a pipeline until it halts; its reason."""
    pipeline = Pipeline(config)
    try:
        pipeline.start()
        ended = pipeline.wait(timeout)
    except PipelineHalted as verdict:
        return verdict.halt.reason
    finally:
        pipeline.stop()
    raise AssertionError(f"no halt: ended={ended} {pipeline.status()}")


@contextmanager
def running(config: Config) -> Iterator[Pipeline]:
    """A running pipeline."""
    with Pipeline(config) as pipeline:
        yield pipeline
