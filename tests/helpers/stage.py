"""Statements played on a real server under a running pipeline, and what became of them.

House rules: a play begins when the pipeline has caught up and ends when it has caught up again or
has halted; a halted pipeline is replaced by one that starts where the server then is.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Self

import attrs
import pytest
from pymysql.connections import Connection
from pymysql.err import MySQLError

from capstan import (
    Change,
    GtidSet,
    HaltReason,
    MemoryStore,
    Pipeline,
    PipelineHalted,
    SchemaChange,
    Sink,
    Transaction,
)
from capstan.demo.mysql_access import SqlServer
from helpers.mysql import gtid_executed
from helpers.pipelines import config_for

Statement = str | bytes | Callable[[], None]
"""SQL, which the server must refuse when it begins with an exclamation mark; or what to do next."""

Told = list[Change] | SchemaChange
"""What one call of the sink was given."""


class Listener(Sink):
    """Keeps what it is told, in order."""

    def __init__(self) -> None:
        self.told: list[Told] = []

    def handle_transaction(self, transaction: Transaction) -> None:
        """Keep its changes."""
        self.told.append(list(transaction.changes))

    def handle_schema_change(self, change: SchemaChange) -> None:
        """Keep it."""
        self.told.append(change)


def plain(change: Change) -> tuple[str, str, Any, Any]:
    """A change as operation, table, values and old values."""
    return change.op.value, change.table, change.values, change.old_values


@attrs.frozen(kw_only=True)
class Outcome:
    """What became of a play.

    Attributes:
        told: What the sink was given of it.
        halt: Why the pipeline ended, None when it did not.
        before: What the server had executed before it.
        executed: What the server had executed after it.
        watermark: What the store had after it.
        schema: The database that was played in.
    """

    told: list[Told]
    halt: HaltReason | None
    before: GtidSet
    executed: GtidSet
    watermark: GtidSet
    schema: str

    @property
    def changes(self) -> list[Change]:
        """All changes of rows, whatever their transactions."""
        return [change for told in self.told if isinstance(told, list) for change in told]

    @property
    def schema_changes(self) -> list[SchemaChange]:
        """All schema changes."""
        return [told for told in self.told if isinstance(told, SchemaChange)]

    @property
    def logged(self) -> int:
        """How many transactions the server logged."""
        return (self.executed - self.before).count()

    @property
    def plain(self) -> list[Any]:
        """Schema changes as text, transactions as lists of `plain` changes."""
        return [
            [plain(change) for change in told] if isinstance(told, list) else self.text(told)
            for told in self.told
        ]

    def text(self, change: SchemaChange) -> str:
        """Kind and names; the schema's only where it is another than that of the play."""
        words = [change.kind, self._name(change.schema, change.table)]
        if change.new_table is not None:
            words += ["to", self._name(change.new_schema, change.new_table)]
        return " ".join(filter(None, words))

    def _name(self, schema: str | None, table: str | None) -> str | None:
        if table is None or schema == self.schema:
            return table or schema
        return f"{schema}.{table}"


def run(session: "Connection[Any]", statement: Statement) -> None:
    """Run one statement, or see it refused."""
    if callable(statement):
        statement()
    elif statement[:1] in ("!", b"!"):
        with pytest.raises(MySQLError):
            session.query(statement[1:])
    else:
        session.query(statement)


class Stage:
    """A database and a pipeline over it.

    Args:
        server: Where it is.
        schema: The database of every session.
        tables: The capture list, everything in the database unless told otherwise.
    """

    def __init__(self, server: SqlServer, schema: str, tables: Any = None) -> None:
        self._server = server
        self._schema = schema
        self._tables = tables or [f"{schema}.*"]
        self._pipeline: Pipeline | None = None
        self._watcher = self._connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._watcher.close()

    def _end(self) -> None:
        if self._pipeline is not None:
            self._pipeline.stop()
            self._pipeline = None

    def play(self, *sessions: Sequence[Statement], setup: Sequence[Statement] = ()) -> Outcome:
        """Run the statements of each session, one session after another.

        Args:
            sessions: Each is closed before the next begins.
            setup: Runs first, in a session that the first of these goes on with.
        """
        first, *others = sessions
        with closing(self._connect()) as session:
            self._run(session, setup)
            pipeline = self._ready()
            before = self.executed()
            self._listener.told.clear()
            self._run(session, first)
        for statements in others:
            with closing(self._connect()) as session:
                self._run(session, statements)
        halt = self._ending(pipeline)
        return Outcome(
            told=list(self._listener.told),
            halt=halt,
            before=before,
            executed=self.executed(),
            watermark=self._store.load_watermark() or GtidSet(),
            schema=self._schema,
        )

    def late(self, start: GtidSet, end: GtidSet) -> Outcome:
        """What becomes of the same with another pipeline, which starts only now, at `start`."""
        listener, store, halt = Listener(), MemoryStore(), None
        store.save_watermark(start)
        try:
            with Pipeline(config_for(self._server, listener, self._tables, store)) as pipeline:
                assert pipeline.wait_for(end, 30)
        except PipelineHalted as verdict:
            halt = verdict.halt.reason
        return Outcome(
            told=listener.told,
            halt=halt,
            before=start,
            executed=end,
            watermark=store.load_watermark() or GtidSet(),
            schema=self._schema,
        )

    def executed(self) -> GtidSet:
        """The server's gtid_executed, also behind a restart."""
        try:
            return GtidSet.parse(gtid_executed(self._watcher))
        except MySQLError:
            self._watcher = self._connect()
            return GtidSet.parse(gtid_executed(self._watcher))

    def _connect(self) -> "Connection[Any]":
        # A context for TLS takes longer to make than most plays.
        return self._server.connect(database=self._schema)

    def _run(self, session: "Connection[Any]", statements: Sequence[Statement]) -> None:
        for statement in statements:
            run(session, statement)

    def _ending(self, pipeline: Pipeline) -> HaltReason | None:
        try:
            assert pipeline.wait_for(self.executed(), 30)
        except PipelineHalted as verdict:
            self._end()
            return verdict.halt.reason
        return None

    def _ready(self) -> Pipeline:
        """A pipeline that stands where the server does; what the setup halted is replaced."""
        if self._pipeline is not None and self._ending(self._pipeline) is None:
            return self._pipeline
        self._listener = Listener()
        self._store = MemoryStore()
        self._store.save_watermark(self.executed())
        config = config_for(self._server, self._listener, self._tables, self._store)
        self._pipeline = Pipeline(config)
        self._pipeline.start()
        return self._pipeline
