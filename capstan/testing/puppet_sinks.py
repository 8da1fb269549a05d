"""Sinks that do as they are told: remember, raise, hang, dawdle, refuse once, kill the process.

House rules: each puppet keeps what it accepted, as plain data, and misbehaves at one call of
`handle_transaction`, counted from 1 over its whole life. Nothing here waits for ever: what hangs is
let go by `release()`.
"""

import os
import signal
import threading
from typing import Any, Final, TypeVar

import attrs

from capstan.core.changes import SchemaChange, Transaction
from capstan.sinks.base import Sink

_FOR_EVER: Final = 3600.0


@attrs.frozen(kw_only=True)
class Accepted:
    """One change as a sink got it.

    Attributes:
        gtid: Its transaction.
        op: `insert`, `update` or `delete`.
        table: `schema.table`.
        values: The row behind the change, None for a delete.
        old_values: The row before it, None for an insert.
    """

    gtid: str
    op: str
    table: str
    values: tuple[Any, ...] | None
    old_values: tuple[Any, ...] | None


class RecordingSink(Sink):
    """Accepts everything and keeps it; at least once, as it has no position of its own.

    Attributes:
        gtids: Of the transactions, in order of delivery.
        changes: All changes, in order of delivery.
        schema_changes: All schema changes, in order of delivery.
        opened: How often it was opened.
        closed: How often it was closed.
    """

    def __init__(self) -> None:
        self.gtids: list[str] = []
        self.changes: list[Accepted] = []
        self.schema_changes: list[SchemaChange] = []
        self.opened = self.closed = 0
        self._more = threading.Condition()

    def open(self) -> None:
        """Count it."""
        self.opened += 1

    def close(self) -> None:
        """Count it."""
        self.closed += 1

    def handle_transaction(self, transaction: Transaction) -> None:
        """Keep it."""
        gtid = str(transaction.gtid)
        changes = [
            Accepted(
                gtid=gtid,
                op=change.op.value,
                table=f"{change.schema}.{change.table}",
                values=change.values,
                old_values=change.old_values,
            )
            for change in transaction.changes
        ]
        with self._more:
            self.gtids.append(gtid)
            self.changes += changes
            self._more.notify_all()

    def handle_schema_change(self, change: SchemaChange) -> None:
        """Keep it."""
        self.schema_changes.append(change)

    def wait_for(self, transactions: int, timeout: float = 30.0) -> bool:
        """Wait until so many transactions were accepted, repeated ones included."""
        with self._more:
            return self._more.wait_for(lambda: len(self.gtids) >= transactions, timeout)


class _Puppet(RecordingSink):
    """Misbehaves at one call.

    Args:
        at: Which call of `handle_transaction`, counted from 1.

    Attributes:
        calls: How many there were.
    """

    def __init__(self, at: int = 1) -> None:
        super().__init__()
        self.at = at
        self.calls = 0

    def handle_transaction(self, transaction: Transaction) -> None:
        """Count the call, misbehave if it is the one, then keep the transaction."""
        self.calls += 1
        if self.strikes():
            self.misbehave()
        super().handle_transaction(transaction)

    def strikes(self) -> bool:
        """Whether this call is the one."""
        return self.calls == self.at

    def misbehave(self) -> None:
        """Do it."""
        raise NotImplementedError


class RaisingSink(_Puppet):
    """Raises at that call and at every later one; the exception holds the rows.

    Args:
        at: Which call, counted from 1.
        error: The class of the exception.
    """

    def __init__(self, at: int = 1, error: type[BaseException] = ValueError) -> None:
        super().__init__(at)
        self.error = error

    def handle_transaction(self, transaction: Transaction) -> None:
        """Keep it, or raise."""
        if self.calls + 1 >= self.at:
            self.calls += 1
            raise self.error([change.values for change in transaction.changes])
        super().handle_transaction(transaction)


class RefusingOnceSink(_Puppet):
    """Raises at that call alone: whoever starts again finds it willing."""

    def misbehave(self) -> None:
        """Raise."""
        raise ConnectionError("the target is away")


class HangingSink(_Puppet):
    """Does not come back from that call until it is released."""

    def __init__(self, at: int = 1) -> None:
        super().__init__(at)
        self.hangs = threading.Event()
        self._released = threading.Event()

    def misbehave(self) -> None:
        """Hang."""
        self.hangs.set()
        self._released.wait(_FOR_EVER)

    def release(self) -> None:
        """Let go of the call that hangs, and of every later one."""
        self._released.set()


class SlowSink(_Puppet):
    """Takes so many seconds for each call, from that one on.

    Args:
        seconds: For each call.
        at: The first slow call, counted from 1.
    """

    def __init__(self, seconds: float, at: int = 1) -> None:
        super().__init__(at)
        self.seconds = seconds
        self._released = threading.Event()

    def strikes(self) -> bool:
        """At that call and from then on."""
        return self.calls >= self.at

    def misbehave(self) -> None:
        """Take its time."""
        self._released.wait(self.seconds)

    def release(self) -> None:
        """Be fast from now on."""
        self._released.set()


class KillingSink(_Puppet):
    """Ends the process with SIGKILL at that call; for a process of its own only."""

    def misbehave(self) -> None:
        """Kill."""
        os.kill(os.getpid(), signal.SIGKILL)


Stuck = TypeVar("Stuck", "HangingSink", "SlowSink")


class PuppetSinks:
    """Makes puppets and remembers which of them have to be let go."""

    def __init__(self) -> None:
        self._stuck: list[HangingSink | SlowSink] = []

    def recording(self) -> RecordingSink:
        """A sink that accepts everything and keeps it."""
        return RecordingSink()

    def raising(self, at: int = 1, error: type[BaseException] = ValueError) -> RaisingSink:
        """A sink that raises from that call on."""
        return RaisingSink(at, error)

    def refusing_once(self, at: int = 1) -> RefusingOnceSink:
        """A sink that raises at that call alone."""
        return RefusingOnceSink(at)

    def hanging(self, at: int = 1) -> HangingSink:
        """A sink that does not come back from that call."""
        return self._remembered(HangingSink(at))

    def slow(self, seconds: float, at: int = 1) -> SlowSink:
        """A sink that takes so many seconds for each call."""
        return self._remembered(SlowSink(seconds, at))

    def killing(self, at: int = 1) -> KillingSink:
        """A sink that kills the process at that call."""
        return KillingSink(at)

    def release(self) -> None:
        """Let go of everything that hangs or dawdles."""
        for sink in self._stuck:
            sink.release()

    def _remembered(self, sink: Stuck) -> Stuck:
        self._stuck.append(sink)
        return sink
