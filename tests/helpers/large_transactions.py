"""Large transactions: made on a server, checked by a sink that keeps nothing of them.

Run as a script, with a JSON object as its argument, it is a pipeline in a process of its own:
`{"mode": "live", …}` streams from a server and prints what it saw and what it took; `"half"` spools
a scripted transaction that never ends; `"full"` spools onto a disk without room.
"""

import contextlib
import hashlib
import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from capstan import (
    Config,
    GtidSet,
    Limits,
    MemoryStore,
    Pipeline,
    PipelineHalted,
    Sink,
    Source,
    Transaction,
)
from helpers import event_builder as events
from helpers.mysql import Database, execute
from helpers.scripted_source import ScriptedSource, one_by_one

MEBIBYTE_ROWS = 1080
"""Rows of `large` whose row events have about a mebibyte."""
REPEATS = 15
TABLE = "CREATE TABLE large (id INT UNSIGNED PRIMARY KEY, body VARCHAR(1000) CHARSET ascii)"
_SMALL_FILE = 3 << 20


def insert_large(database: Database, mebibytes: int, *, compressed: bool = False) -> int:
    """Commit one transaction of about this size; the number of its rows."""
    rows = mebibytes * MEBIBYTE_ROWS
    with contextlib.closing(database.connect(read_timeout=600)) as session:
        execute(session, f"SET cte_max_recursion_depth = {rows + 1}")
        execute(session, f"SET binlog_transaction_compression = {int(compressed)}")
        execute(
            session,
            "INSERT INTO large WITH RECURSIVE n (i) AS "
            f"(SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) "
            f"SELECT i, REPEAT(SHA2(i, 256), {REPEATS}) FROM n",
        )
        execute(session, "COMMIT")
    return rows


def body(number: int) -> str:
    """What stands in a row of `large`."""
    return hashlib.sha256(str(number).encode()).hexdigest() * REPEATS


class LargeSink(Sink):
    """Checks every row of each transaction against what was inserted, and counts.

    Attributes:
        seen: Of each transaction: its GTID, whether it was spooled, its rows, those that were
            right and in their place, and how many files were open while it was read.
        kept: The transactions themselves; their changes are gone when the call is over.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.seen: list[dict[str, Any]] = []
        self.kept: list[Transaction] = []

    def handle_transaction(self, transaction: Transaction) -> None:
        """Read it once."""
        right = sum(
            change.values == (number, body(number))
            for number, change in enumerate(transaction.changes, 1)
        )
        self.seen.append(
            {
                "gtid": str(transaction.gtid),
                "spooled": transaction.changes.spooled,
                "rows": len(transaction.changes),
                "right": right,
                "files": len(open_below(self._folder)),
            }
        )
        self.kept.append(transaction)


def open_below(folder: Path, process: int | str = "self") -> list[str]:
    """The files of a process that lie, or lay, in a folder."""
    found = []
    for entry in Path(f"/proc/{process}/fd").iterdir():
        # The descriptor with which this folder is read is gone again.
        with contextlib.suppress(FileNotFoundError):
            if (target := str(entry.readlink())).startswith(f"{folder}/"):
                found.append(target)
    return found


def peak_memory() -> int:
    """The most bytes of memory that this process had at once, itself alone."""
    (line,) = (
        line
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        if line.startswith("VmHWM:")
    )
    return int(line.split()[1]) << 10


# --- in a process of its own ----------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Order:
    """What the other process is to do.

    Attributes:
        mode: `live`, `half` or `full`.
        folder: Where it spools.
        limits: Other limits.
        source: Options of the source's section.
        tables: The capture list.
        start: The set to start from.
        until: The set to wait for.
    """

    mode: str
    folder: str
    limits: dict[str, int] = attrs.field(factory=dict)
    source: dict[str, Any] = attrs.field(factory=dict)
    tables: tuple[str, ...] = ("shop.*",)
    start: str = ""
    until: str = ""

    def config(self, sink: Sink) -> Config:
        """The configuration for it."""
        store = MemoryStore()
        if self.start:
            store.save_watermark(GtidSet.parse(self.start))
        return Config(
            source=Source(**{"user": "u", "server_id": 9} | self.source),
            tables=self.tables,
            sink=sink,
            store=store,
            limits=Limits(spool_dir=self.folder, **self.limits),
        )


def _live(order: Order) -> dict[str, Any]:
    sink, folder = LargeSink(Path(order.folder)), Path(order.folder)
    with Pipeline(order.config(sink)) as pipeline:
        reached = pipeline.wait_for(order.until, timeout=900)
        left = len(open_below(folder))
    return {"reached": reached, "seen": sink.seen, "left": left, "peak": peak_memory()}


def _scripted(order: Order, end: list[bytes]) -> dict[str, Any]:
    rows = [(number, "x" * 50) for number in range(2000)]
    group = [events.gtid(1), events.query(b"BEGIN"), events.table_map(80)]
    group += [events.rows(30, 80, rows, last=False)] * 40
    pipeline = Pipeline(
        order.config(LargeSink(Path(order.folder))),
        source=ScriptedSource(lambda _: one_by_one([group, end])),
    )
    try:
        with pipeline:
            pipeline.wait(timeout=120)
    except PipelineHalted as verdict:
        return {"reason": verdict.halt.reason.value, "detail": verdict.halt.detail}
    return {}


def _half(order: Order) -> dict[str, Any]:
    return _scripted(order, [events.heartbeat()])


def _full(order: Order) -> dict[str, Any]:
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_SMALL_FILE, most))
    outcome = _scripted(order, [events.xid()])
    return outcome | {"left": len(open_below(Path(order.folder)))}


MODES: dict[str, Callable[[Order], dict[str, Any]]] = {"live": _live, "half": _half, "full": _full}

if __name__ == "__main__":
    _order = Order(**json.loads(sys.argv[1]))
    sys.stdout.write(json.dumps(MODES[_order.mode](_order)))
