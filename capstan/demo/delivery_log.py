"""What the sink was given and what became of it: a private log that survives SIGKILL.

Owns: the lines that the pipeline's process writes around each call of the sink, and their
judgement. A line is one `write` to the end of the file before and after each call; what the process
had written when it was killed stays. A call without an answer is settled by the position that the
mirror reports when it is opened next: data and position are one SQLite transaction, so a call is in
it whole or not at all, and anything else is an error here. So every transaction that was given to a
mirror that already had it is counted, never assumed away. Refuses to know: rows.
"""

import contextlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs

from capstan.core.changes import (
    Change,
    Item,
    SchemaChange,
    SchemaChangeGroup,
    SnapshotMeta,
    Transaction,
)
from capstan.core.gtid import Gtid, GtidSet
from capstan.sinks.base import Sink


class LoggedSink(Sink):
    """A sink that hands everything on to another one and logs each call.

    Args:
        sink: One that keeps its position beside its data.
        log: The file; lines are added to it.
    """

    def __init__(self, sink: Sink, log: Path) -> None:
        self._sink = sink
        self._path = log
        self._file = -1

    def open(self) -> None:
        """Open the other sink and log the position that it reports."""
        self._sink.open()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._file = os.open(self._path, flags, 0o600)
        # A kill may have cut the last line short.
        os.write(self._file, b"\n")
        self._write({"open": str(self._sink.position() or GtidSet()), "at": _now()})

    def close(self) -> None:
        """Close both."""
        self._sink.close()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def position(self) -> GtidSet | None:
        """The other sink's."""
        return self._sink.position()

    def handle_transaction(self, transaction: Transaction) -> None:
        """Hand it on as a batch of one."""
        self.handle_batch((transaction,))

    def handle_schema_changes(self, changes: Sequence[SchemaChange]) -> None:
        """Hand them on, outside the log: the pipeline delivers batches."""
        self._sink.handle_schema_changes(changes)

    def handle_snapshot(self, changes: Sequence[Change], meta: SnapshotMeta) -> None:
        """Hand it on, outside the log: a chunk may come twice after a kill."""
        self._sink.handle_snapshot(changes, meta)

    def await_backfill(self, schema: str, table: str) -> None:
        """Hand it on."""
        self._sink.await_backfill(schema, table)

    def handle_batch(self, items: Sequence[Item]) -> None:
        """Log the call, hand it on, log that it returned."""
        self._write({"call": [_described(item) for item in items if not _to_be_continued(item)]})
        self._sink.handle_batch(items)
        self._write({"done": _now()})

    def _write(self, line: dict[str, Any]) -> None:
        data = json.dumps(line).encode("ascii") + b"\n"
        if os.write(self._file, data) != len(data):
            raise OSError("the log could not be written")


def _described(item: Item) -> list[Any]:
    rows = len(item.changes) if isinstance(item, Transaction) else 0
    return [str(item.gtid), item.committed.arrived_micros, rows]


def _to_be_continued(item: Item) -> bool:
    """The definition part of CREATE TABLE … SELECT: its GTID comes with the rows."""
    return isinstance(item, SchemaChangeGroup) and item.rows_follow


def _now() -> int:
    """Microseconds since 1970, by the clock that the server's timestamps come from."""
    return time.time_ns() // 1000


@attrs.frozen
class _Delivery:
    gtid: str
    committed: int
    rows: int


@attrs.define(kw_only=True)
class Deliveries:
    """What the log says so far.

    Attributes:
        transactions: Transactions and definitions that the mirror has taken in.
        rows: Row changes in them.
        opened: How often the mirror was opened.
        interrupted: Calls that a kill left without an answer.
        recovered: Those of them that the mirror had committed all the same.
        duplicates: Transactions given to a mirror that already had them.
        torn: Calls of which the mirror had a part; a mirror without that promise broken has none.
        newest: When the newest transaction of the mirror was committed, microseconds since 1970.
        latencies: Microseconds from each commit to the return of the sink.
        undisturbed: Those of transactions committed while the pipeline was streaming: not the
            backlog of a restart.
    """

    transactions: int = 0
    rows: int = 0
    opened: int = 0
    interrupted: int = 0
    recovered: int = 0
    duplicates: int = 0
    torn: int = 0
    newest: int | None = None
    latencies: list[int] = attrs.field(factory=list)
    undisturbed: list[int] = attrs.field(factory=list)


class DeliveryLog:
    """Reads the log of another process while it grows.

    Args:
        path: The file; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.deliveries = Deliveries()
        self._path = path
        self._file: Any = None
        self._rest = b""
        self._taken: set[str] = set()
        self._pending: list[_Delivery] | None = None
        self._streaming_since: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    def read(self) -> Deliveries:
        """Take in every whole line that is new."""
        if self._file is None and self._path.exists():
            self._file = self._path.open("rb")
        if self._file is not None:
            *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
            for line in lines:
                # A line cut short by a kill: its call did not begin, or has no answer.
                with contextlib.suppress(json.JSONDecodeError):
                    self._take(json.loads(line))
        return self.deliveries

    def settle(self, position: GtidSet) -> Deliveries:
        """Take in what is new and settle the last call by the mirror's final position."""
        self.read()
        self._settle(position)
        return self.deliveries

    def _take(self, line: dict[str, Any]) -> None:
        match line:
            case {"open": position}:
                self.deliveries.opened += 1
                self._settle(GtidSet.parse(position))
                self._streaming_since = None
            case {"call": items}:
                self._pending = [_Delivery(*item) for item in items]
                self.deliveries.duplicates += sum(
                    delivery.gtid in self._taken for delivery in self._pending
                )
            case {"done": at}:
                self._accept(at)

    def _accept(self, at: int | None) -> None:
        deliveries = self.deliveries
        for delivery in self._pending or ():
            self._taken.add(delivery.gtid)
            deliveries.transactions += 1
            deliveries.rows += delivery.rows
            deliveries.newest = max(deliveries.newest or 0, delivery.committed)
            if at is not None:
                latency = at - delivery.committed
                deliveries.latencies.append(latency)
                since = self._streaming_since
                if since is not None and delivery.committed >= since:
                    deliveries.undisturbed.append(latency)
        if at is not None and self._streaming_since is None:
            self._streaming_since = at
        self._pending = None

    def _settle(self, position: GtidSet) -> None:
        """A call without an answer: committed as the position says, whole or not at all."""
        if self._pending is None:
            return
        self.deliveries.interrupted += 1
        inside = [Gtid.parse(delivery.gtid) in position for delivery in self._pending]
        if all(inside):
            self.deliveries.recovered += 1
            self._accept(None)
        elif any(inside):
            self.deliveries.torn += 1
        self._pending = None
