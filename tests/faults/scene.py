"""A scene: one pipeline run into one halt, and everything that could be seen of it.

House rules: a provocation says what goes wrong, the scene runs the pipeline, counts the calls of
source, sink and store, and keeps the verdict. What is streamed is full of sentinels, the account's
password is one, and one observer raises another. All that a scene started ends with `close()`.
"""

import contextlib
import itertools
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
from helpers import event_builder as events
from helpers import sentinels
from helpers.mysql import Database, execute
from helpers.pipelines import Recording, catch_up, executed, source_for, start_from_now
from helpers.scripted_source import ScriptedSource, facts_with
from helpers.waiting import wait_until

from capstan import Config, GtidSet, HaltReason, MemoryStore, Pipeline, PipelineHalted, Sink, Store
from capstan.config import Source
from capstan.core.halts import Halted
from capstan.sinks.sqlite_mirror import SqliteMirror
from capstan.sources import base
from capstan.telemetry.events import PipelineEnded
from capstan.testing import Misbehaviour, ScriptedMysql, Table
from capstan.testing.moments import Moment
from capstan.wiring import live_source

DEADLINE = 60.0
RIGHTS = "REPLICATION SLAVE, REPLICATION CLIENT, SELECT"
SERVER_ID = 9
_ROWS_QUERY = 29
_NUMBERS = itertools.count(1)
_COUNTED = ("link", "handle_transaction", "handle_schema_changes", "handle_batch", "save_watermark")

Act = Callable[[Pipeline], object]

ITEMS = f"""CREATE TABLE items (
    id INT UNSIGNED PRIMARY KEY,
    name VARCHAR(60) DEFAULT '{sentinels.ROW_TEXT}' COMMENT '{sentinels.DDL_COMMENT}',
    body TEXT DEFAULT ('{sentinels.ROW_TEXT}'),
    raw BLOB DEFAULT (x'{sentinels.ROW_TEXT.encode().hex()}'),
    fixed BINARY(40) DEFAULT '{sentinels.ROW_TEXT}',
    doc JSON DEFAULT (JSON_OBJECT('{sentinels.ROW_TEXT}', {sentinels.BIG})),
    kind ENUM('{sentinels.ROW_TEXT}', 'b') DEFAULT '{sentinels.ROW_TEXT}',
    tags SET('{sentinels.ROW_TEXT}', 'b') DEFAULT '{sentinels.ROW_TEXT}',
    amount DECIMAL(20, 4) DEFAULT {sentinels.DECIMAL},
    ratio DOUBLE DEFAULT {sentinels.DOUBLE},
    big BIGINT UNSIGNED DEFAULT {sentinels.BIG},
    born DATE DEFAULT '{sentinels.DATE}',
    seen DATETIME(6) DEFAULT '{sentinels.DATE} 04:32:10.271828',
    lasted TIME DEFAULT '{sentinels.TIME}'
)"""
"""A table whose rows are full of sentinels when only the key is given."""


def insert(number: int) -> str:
    """A statement that puts one such row in."""
    key = sentinels.KEY + number
    return f"INSERT INTO items (id) VALUES ({key}) /* {sentinels.ROWS_QUERY} */"


def upto(number: int) -> GtidSet:
    """The scripted source's transactions 1 to `number`."""
    return GtidSet.parse(f"{events.SOURCE}:1-{number}")


def _of(source: str, number: int) -> GtidSet:
    return GtidSet.parse(f"{source}:1-{number}")


def head(number: int) -> list[bytes]:
    """The beginning of a scripted transaction, with the text of its statement."""
    text = sentinels.ROWS_QUERY.encode()
    statement = events.event(_ROWS_QUERY, bytes([len(text)]) + text)
    return [events.gtid(number), events.query(b"BEGIN"), statement]


def row(number: int) -> bytes:
    """The row event of a scripted transaction; the key, too, is a sentinel."""
    return events.rows(30, 80, [(sentinels.KEY + number, sentinels.ROW_TEXT)])


def sown(number: int) -> list[bytes]:
    """A whole scripted transaction of one row."""
    return [*head(number), events.table_map(80), row(number), events.xid(number)]


OPENED = [*events.opening(), *sown(1), *sown(2)]
"""What every script that gets as far as streaming begins with."""


@attrs.frozen
class Provocation:
    """One way into a halt.

    Attributes:
        reason: The halt.
        how: What goes wrong, in words.
        play: Plays it out on a scene.
    """

    reason: HaltReason
    how: str
    play: Callable[["Scene"], object]

    def __str__(self) -> str:
        return f"{self.reason.value}: {self.how}"


class Scene:
    """One run.

    Attributes:
        folder: For files.
        sink: Where the pipeline delivers; a provocation may put another in.
        store: Where it keeps its position; likewise.
        started_at: What the store held before.
        expected: The watermark that must be stored at the end; None for none at all.
        window: What the sink may have beyond that, and will get again: the store was at fault.
        all_delivered: Whether everything between the two must have reached the sink.
        calls: How often which method of source, sink and store was called.
        told: The telemetry events, in order.
        pipeline: The pipeline.
        error: The verdict it ended with.
        planted: What was streamed and what was run on the server.
        release: Set at the end: whatever hangs on purpose goes on.
        ending: What else has to be ended.
    """

    config: Config
    pipeline: Pipeline
    error: PipelineHalted

    def __init__(self, folder: Path, database: Callable[[], Database]) -> None:
        self.folder = folder
        self.sink: Sink = Recording()
        self.store: Store = MemoryStore()
        self.started_at: GtidSet | None = None
        self.expected: GtidSet | None = None
        self.window = GtidSet()
        self.all_delivered = False
        self.calls: Counter[str] = Counter()
        self.told: list[Any] = []
        self.planted: list[bytes] = []
        self.release = threading.Event()
        self.ending = contextlib.ExitStack()
        self._database = database
        self._threads = set(threading.enumerate())

    # -- over a script -------------------------------------------------------------------------

    def stream(self, *bad: bytes, **options: Any) -> None:
        """Two good transactions, these events, and a good one that must not come through."""
        self.all_delivered = True
        self.play([events.packets([*OPENED, *bad, *sown(4)])], **options)

    def after_two(self, *steps: bytes | Exception, **options: Any) -> None:
        """Two good transactions, then these raw pieces, or exceptions of the link."""
        self.all_delivered = True
        self.play([events.packets(OPENED), *steps], **options)

    def refused(self, **options: Any) -> None:
        """A start that is refused before anything is read."""
        self.play([events.packets(OPENED)], expected=self.store.load_watermark(), **options)

    def play(
        self,
        steps: Sequence[bytes | Exception],
        *,
        expected: GtidSet | None = None,
        source: base.Source | None = None,
        act: Act = lambda _: None,
        facts: dict[str, object] | None = None,
        link: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Run over a script.

        Args:
            steps: Pieces and exceptions of the first dial.
            expected: The watermark at the end.
            source: Another source than the script.
            act: What is done while the pipeline runs.
            facts: What the server says differently.
            link: Options of the source's section.
            options: Other sections of the configuration.
        """
        self.expected = expected if expected is not None or not self.all_delivered else upto(2)
        self.planted += [step for step in steps if isinstance(step, bytes)]
        reach: dict[str, Any] = {"user": "u", "password": sentinels.PASSWORD}
        section = Source(server_id=SERVER_ID, **reach | (link or {}))
        scripted = ScriptedSource(lambda _: steps, facts_with(**facts or {}))
        self.run(self.configured(section, **options), source or scripted, act)

    # -- over a scripted server ----------------------------------------------------------------

    def misled(
        self,
        how: Misbehaviour,
        *,
        good: int = 2,
        link: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Run over a socket: two good transactions, one that the server spoils, a good one.

        Args:
            how: What the server does: to the third transaction, or to every connection.
            good: How many transactions come through.
            link: Options of the source's section.
            options: Other sections of the configuration.
        """
        table = Table("shop.items", "id int unsigned", "name varchar(60)", key="id")
        rows = [(sentinels.KEY + number, sentinels.ROW_TEXT) for number in range(1, 5)]
        self.all_delivered = streams = how.moment is Moment.TRANSACTION
        with ScriptedMysql(user="u", password=sentinels.PASSWORD) as server:
            first = [server.commit(table.insert(row)) for row in rows[:2]]
            server.misbehave(how)
            self.expected = _of(first[0].uuid, good) if streams else None
            self.planted += [event.body for row in rows for event in table.insert(row).events(0)]

            def act(pipeline: Pipeline) -> None:
                assert pipeline.wait_for(_of(first[0].uuid, 2), timeout=DEADLINE)
                for row in rows[2:]:
                    server.commit(table.insert(row))

            section = server.source(server_id=SERVER_ID, **{"reconnect_attempts": 1} | (link or {}))
            config = self.configured(section, **options)
            self.run(config, live_source(config), act)

    # -- over a real server --------------------------------------------------------------------

    def live(
        self,
        *bad: str,
        before: Sequence[str] = (),
        meddle: Callable[[], object] = lambda: None,
        link: dict[str, Any] | None = None,
        grant: str = RIGHTS,
        **options: Any,
    ) -> None:
        """Run over the shared server: a good transaction arrives, then these statements are run.

        Args:
            bad: Statements, all in one session; they may set session variables.
            before: Statements in front of the good transaction.
            meddle: What is done behind it, outside the server.
            link: Options of the source's section.
            grant: The account's rights.
            options: Other sections of the configuration.
        """
        database = self._database()
        self.planted += [text.encode() for text in (ITEMS, *before, *bad)]

        def act(pipeline: Pipeline) -> None:
            with contextlib.closing(database.connect()) as session:
                for statement in ("SET binlog_rows_query_log_events = ON", *before, insert(1)):
                    execute(session, statement)
                catch_up(pipeline, database.server)
                self.expected = executed(database.server)
                meddle()
                for statement in bad:
                    execute(session, statement)
                pipeline.wait(DEADLINE)

        database.execute(ITEMS)
        with account(database, grant) as user:
            start_from_now(self.store, database.server)
            self.expected = self.store.load_watermark()
            reach = {"user": user, "password": sentinels.PASSWORD}
            section = source_for(database.server, **reach | (link or {}))
            options.setdefault("tables", [f"{database.name}.*"])
            config = self.configured(section, **options)
            self.run(config, live_source(config), act)

    # -- the run -------------------------------------------------------------------------------

    def configured(self, section: Source, **options: Any) -> Config:
        """A configuration around this scene's sink and store."""
        options.setdefault("tables", ["shop.*"])
        observers = (self.told.append, _raise)
        return Config(
            source=section, sink=self.sink, store=self.store, observers=observers, **options
        )

    def run(
        self,
        config: Config,
        source: base.Source,
        act: Act = lambda _: None,
        views: base.ViewSource | None = None,
    ) -> None:
        """Run the pipeline into its halt and wait until everybody was told."""
        self.config = config
        self.started_at = self.store.load_watermark()
        for thing in (source, self.sink, self.store):
            self._count(thing)
        self.pipeline = Pipeline(config, source=source, views=views)
        self.ending.callback(self.pipeline.stop)
        try:
            self.pipeline.start()
            act(self.pipeline)
            ended = self.pipeline.wait(DEADLINE)
        except PipelineHalted as verdict:
            self.error = verdict
        else:
            raise AssertionError(f"no halt: ended={ended}, {self.pipeline.status()}")
        wait_until(
            lambda: self.told and isinstance(self.told[-1], PipelineEnded), what="the end was told"
        )

    def _count(self, thing: Any) -> None:
        """Count calls on the instance, so that its class stays what the pipeline looks at."""
        for name in _COUNTED:
            if hasattr(thing, name):
                setattr(thing, name, self._counting(name, getattr(thing, name)))

    def _counting(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.calls[name] += 1
            return method(*arguments)

        return call

    # -- looks ---------------------------------------------------------------------------------

    def stored(self) -> GtidSet | None:
        """The watermark that is in the store."""
        try:
            return self.store.load_watermark()
        finally:
            self.store.close()

    def delivered(self) -> GtidSet:
        """What the sink has accepted."""
        match self.sink:
            case Recording(gtids=gtids):
                return GtidSet.parse(",".join(gtids))
            case SqliteMirror():
                return self._mirrored()
        return GtidSet()

    def _mirrored(self) -> GtidSet:
        """The position of a mirror that nobody holds any more; empty when it is none."""
        try:
            return self.sink.position() or GtidSet()
        except Halted:
            return GtidSet()
        finally:
            self.sink.close()

    def wait_until_still(self) -> None:
        """Let go of what hangs and wait until no thread of the pipeline is left."""
        self.release.set()
        wait_until(
            lambda: set(threading.enumerate()) <= self._threads, what="all threads have ended"
        )

    def close(self) -> None:
        """End everything."""
        self.release.set()
        self.ending.close()


def _raise(_: object) -> None:
    raise ValueError(sentinels.EXCEPTION_TEXT)


@contextlib.contextmanager
def account(database: Database, grant: str = RIGHTS) -> Iterator[str]:
    """An account whose password is a sentinel."""
    name = f"capstan_{os.getpid()}_{next(_NUMBERS)}"
    database.execute(f"CREATE USER {name} IDENTIFIED BY %s", sentinels.PASSWORD)
    try:
        database.execute(f"GRANT {grant} ON *.* TO {name}")
        yield name
    finally:
        database.execute(f"DROP USER {name}")
