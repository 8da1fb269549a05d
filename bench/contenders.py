"""The contenders of the benchmark; each run is a process of its own.

Owns: how each reads a workload from its first transaction to its last, walks every row change, and
what it counts as done. Refuses to know: the others.

    python bench/contenders.py NAME    with a `Task` as JSON on standard input
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

CLIENT_ID = 77_001


@attrs.frozen(kw_only=True)
class Task:
    """What is to be read.

    Attributes:
        host: Of the server.
        port: Its port.
        user: An account that may read everything.
        password: Its password.
        start: What was executed before the workload.
        goal: What was executed after it.
        rows: Row changes that must come.
        folder: Where a contender may write.
    """

    host: str
    port: int
    user: str
    password: str = attrs.field(repr=False)
    start: str
    goal: str
    rows: int
    folder: str


@attrs.frozen(kw_only=True)
class Result:
    """What one run took.

    Attributes:
        seconds: From the first dial until the last row change is dealt with.
        cpu_seconds: Of the whole process until then, imports included.
        peak_mib: The most memory the process held, in MiB.
        rows: Row changes that came.
    """

    seconds: float
    cpu_seconds: float
    peak_mib: float
    rows: int


def capstan(task: Task, tls: str) -> Result:
    """A pipeline into a sink that walks every change and drops it; done when all is settled.

    Settled means that the watermark is on disk: the store is a SQLite file.
    """
    from capstan.config import Config, Source  # noqa: PLC0415 - each process imports one contender
    from capstan.core.changes import Transaction  # noqa: PLC0415
    from capstan.core.gtid import GtidSet  # noqa: PLC0415
    from capstan.pipeline import Pipeline  # noqa: PLC0415
    from capstan.sinks.base import Sink  # noqa: PLC0415
    from capstan.stores.sqlite import SqliteStore  # noqa: PLC0415

    class Null(Sink):
        rows = 0

        def handle_transaction(self, transaction: Transaction) -> None:
            for _change in transaction.changes:
                pass
            self.rows += len(transaction.changes)

    sink, store = Null(), SqliteStore(Path(task.folder) / "state.db")
    store.save_watermark(GtidSet.parse(task.start))
    store.close()
    config = Config(
        source=Source(
            host=task.host,
            port=task.port,
            user=task.user,
            password=task.password,
            server_id=CLIENT_ID,
            tls=tls,  # type: ignore[arg-type] # one of the mode names, from the table below
        ),
        tables=["bench.*"],
        sink=sink,
        store=store,
    )
    goal = GtidSet.parse(task.goal)
    began = time.perf_counter()
    with Pipeline(config) as pipeline:
        if not pipeline.wait_for(goal, timeout=600):
            raise TimeoutError("the pipeline did not get there")
        return _result(began, sink.rows)


def mysql_replication(task: Task, *, tls: bool) -> Result:
    """`BinLogStreamReader`, rows events only, every row made and dropped; no checksum verified."""
    from pymysqlreplication import BinLogStreamReader  # noqa: PLC0415
    from pymysqlreplication.row_event import (  # noqa: PLC0415
        DeleteRowsEvent,
        UpdateRowsEvent,
        WriteRowsEvent,
    )

    settings: dict[str, Any] = {
        "host": task.host,
        "port": task.port,
        "user": task.user,
        "passwd": task.password,
        "ssl_disabled": not tls,
    }
    rows = 0
    began = time.perf_counter()
    stream = BinLogStreamReader(
        connection_settings=settings,
        server_id=CLIENT_ID,
        auto_position=task.start,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
    )
    try:
        for event in stream:
            for _row in event.rows:
                rows += 1
            if rows >= task.rows:
                break
        return _result(began, rows)
    finally:
        stream.close()


CONTENDERS: dict[str, Callable[[Task], Result]] = {
    "capstan": lambda task: capstan(task, "disabled"),
    "capstan, TLS": lambda task: capstan(task, "required"),
    "mysql-replication": lambda task: mysql_replication(task, tls=False),
    "mysql-replication, TLS": lambda task: mysql_replication(task, tls=True),
}


def _result(began: float, rows: int) -> Result:
    seconds = time.perf_counter() - began
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return Result(
        seconds=seconds,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_mib=usage.ru_maxrss / 1024,
        rows=rows,
    )


if __name__ == "__main__":
    task = Task(**json.load(sys.stdin))
    print(json.dumps(attrs.asdict(CONTENDERS[sys.argv[1]](task))))
