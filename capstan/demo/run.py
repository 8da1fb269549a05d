"""The demonstration: a real source under load, a pipeline killed again and again, and the proof.

Owns: the order of events and what is cleaned up at the end, however it comes. Refuses to know: how
each part does its work.
"""

import contextlib
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import FrameType

import attrs
import pymysql

from capstan.core.gtid import GtidSet
from capstan.core.tables import CaptureList
from capstan.demo.compare import compare
from capstan.demo.delivery_log import DeliveryLog
from capstan.demo.demo_report import Report
from capstan.demo.demo_source import DemoSource, demo_source
from capstan.demo.display import Display, Progress, display_for
from capstan.demo.mysql_install import NoMysqlServer
from capstan.demo.mysql_template import MysqlServerError
from capstan.demo.process_control import PipelineEndedError, PipelineProcess
from capstan.demo.workload import Workload, new_seed
from capstan.sinks.sqlite_mirror import SqliteMirror
from capstan.stores.sqlite import SqliteStore

EXIT_PROVEN = 0
EXIT_FAILED = 1
EXIT_NO_SERVER = 2
EXIT_INTERRUPTED = 130

_WRITERS = 4
_ARTICLES = 200_000
_TICK_SECONDS = 0.2
_CATCH_UP_SECONDS = 60.0
_STOP_SECONDS = 30.0


@attrs.frozen(kw_only=True)
class Plan:
    """What a demonstration is to do.

    Attributes:
        seconds: How long the workload runs.
        seed: Of the workload and of the moments of the kills.
        kills: How often the pipeline is killed.
        rate: Actions a second of each writer; None for as many as it can.
        articles: Rows that are there before the pipeline is started.
    """

    seconds: float = 20.0
    seed: int = attrs.field(factory=new_seed)
    kills: int = 4
    rate: float | None = 50.0
    articles: int = _ARTICLES

    def kill_moments(self) -> list[float]:
        """Random moments, in seconds from the start, one in each of as many equal parts."""
        random = Random(f"{self.seed}/kills")  # noqa: S311 - repeatable, not secret
        part = self.seconds / max(self.kills, 1)
        return [part * (number + random.random()) for number in range(self.kills)]

    @property
    def longest(self) -> float:
        """Seconds after which the workload ends even if a kill is still to come."""
        return 2 * self.seconds + 20


def main(
    *,
    seconds: float = 20.0,
    seed: int | None = None,
    keep: bool = False,
    articles: int = _ARTICLES,
    display: Display | None = None,
) -> int:
    """Run the demonstration.

    Args:
        seconds: How long the workload runs.
        seed: Of the workload; a random one by default, told at the end.
        keep: Leave the folder with source, mirror and logs behind.
        articles: Rows that are there before the pipeline is started.
        display: Where to speak; standard output by default.

    Returns:
        0 when the mirror is identical and nothing was delivered twice, 1 when not or when something
        broke, 2 when there is no MySQL server, 3 when the pipeline halted, 130 after Ctrl-C.
    """
    plan = Plan(seconds=seconds, seed=new_seed() if seed is None else seed, articles=articles)
    with display or display_for() as shown:
        try:
            with _terminable(), _folder(keep, shown.say) as folder:
                return Demonstration(plan, folder, shown).run()
        except PipelineEndedError as end:
            for line in end.lines:
                shown.say(line)
            return end.code
        except NoMysqlServer as error:
            shown.say(str(error))
            return EXIT_NO_SERVER
        except (MysqlServerError, pymysql.err.MySQLError) as error:
            shown.say(f"the source failed: {error}")
            return EXIT_FAILED
        except KeyboardInterrupt:
            shown.say("interrupted; everything is cleaned up")
            return EXIT_INTERRUPTED


class Demonstration:
    """One demonstration in one folder.

    Args:
        plan: What to do.
        folder: For everything that is written.
        display: Where to speak.
    """

    def __init__(self, plan: Plan, folder: Path, display: Display) -> None:
        self._plan = plan
        self._display = display
        self._folder = folder
        self._mirror = folder / "mirror.db"
        self._store = SqliteStore(folder / "state.db")
        self._log = DeliveryLog(folder / "deliveries.log")
        self._pipeline = PipelineProcess(
            config=folder / "demo.toml",
            log=folder / "deliveries.log",
            errors=folder / "pipeline.err",
        )
        self._restarts = 0
        self._began = time.monotonic()
        self._look = (0.0, 0)

    def run(self) -> int:
        """Run it to its end; the exit code.

        Raises:
            PipelineEndedError: The pipeline halted, crashed or did not stop.
            NoMysqlServer: There is no server.
            MysqlServerError: Ours failed.
            pymysql.err.MySQLError: The source refused a statement, or is gone.
        """
        with (
            demo_source(self._folder / "source", self._display.say) as source,
            contextlib.closing(self._store),
            self._log,
            self._pipeline,
        ):
            report = self._run(source)
        for line in report.lines():
            self._display.say(line)
        return EXIT_PROVEN if report.good else EXIT_FAILED

    def _run(self, source: DemoSource) -> Report:
        self._configure(source)
        workload = Workload(
            source.server,
            seed=self._plan.seed,
            writers=_WRITERS,
            schemas=source.schemas,
            rate=self._plan.rate,
            articles=self._plan.articles,
        )
        self._display.say(f"filling a table with {self._plan.articles} rows")
        workload.define()
        self._pipeline.start()
        self._wait("begin", lambda: self._store.load_snapshot() is not None)
        workload.furnish()
        with _running(workload):
            self._disturb(workload)
        self._catch_up(source, workload)
        self._pipeline.stop(_STOP_SECONDS)
        return self._report(source, workload)

    def _configure(self, source: DemoSource) -> None:
        secret = self._folder / "password"
        secret.touch(mode=0o600)
        secret.write_text(source.password, encoding="ascii")
        (self._folder / "demo.toml").write_text(
            f'tables = ["{source.schemas.capture}"]\n'
            "[source]\n"
            f'host = "{source.server.host}"\n'
            f"port = {source.server.port}\n"
            f'user = "{source.user}"\n'
            'password = { file = "password" }\n'
            f"server_id = {source.server_id}\n"
            '[store]\nkind = "sqlite"\npath = "state.db"\n'
            '[sink]\nkind = "sqlite"\npath = "mirror.db"\n'
            f'[snapshot]\ntables = ["{source.schemas.shop}.catalogue"]\n',
            encoding="utf-8",
        )

    def _disturb(self, workload: Workload) -> None:
        """While the writers write, kill the pipeline at every moment of the plan.

        A pipeline that has not delivered anything since its start is left alone until it has:
        on a slow machine the kills, and the workload with them, take longer.
        """
        moments = self._plan.kill_moments()
        self._began = time.monotonic()
        delivered = 0
        while (now := time.monotonic() - self._began) < self._plan.seconds or moments:
            if now > self._plan.longest:
                raise PipelineEndedError(
                    code=EXIT_FAILED, lines=("the pipeline did not deliver anything in time",)
                )
            workload.check()
            self._pipeline.check()
            self._show("streaming", workload)
            if moments and now >= moments[0] and self._log.deliveries.transactions > delivered:
                moments.pop(0)
                self._pipeline.kill()
                delivered = self._log.read().transactions
                self._pipeline.start()
                self._restarts += 1
            time.sleep(_TICK_SECONDS)

    def _catch_up(self, source: DemoSource, workload: Workload) -> None:
        """Wait until the pipeline has backfilled and processed everything that the source has."""
        goal = source.executed()

        def caught_up() -> bool:
            self._show("catching up", workload)
            state = self._store.load_snapshot()
            processed = self._store.load_watermark() or GtidSet()
            return state is not None and state.complete and goal <= processed

        self._wait("catch up", caught_up)
        self._show("caught up", workload)

    def _wait(self, what: str, reached: Callable[[], bool]) -> None:
        """Wait until the pipeline has reached something.

        Raises:
            PipelineEndedError: When it ends before, or takes too long.
        """
        deadline = time.monotonic() + _CATCH_UP_SECONDS
        while not reached():
            self._pipeline.check()
            if time.monotonic() > deadline:
                raise PipelineEndedError(
                    code=EXIT_FAILED,
                    lines=(f"the pipeline did not {what} within {_CATCH_UP_SECONDS:.0f} s",),
                )
            time.sleep(_TICK_SECONDS)

    def _backfilled(self) -> tuple[int, int]:
        """Rows and chunks of the backfill that are in the mirror."""
        state = self._store.load_snapshot()
        tables = () if state is None else state.tables
        return sum(table.rows for table in tables), sum(table.sequence for table in tables)

    def _show(self, phase: str, workload: Workload) -> None:
        deliveries = self._log.read()
        seconds = time.monotonic() - self._began
        since, rows = self._look
        self._look = (seconds, deliveries.rows)
        lag = None if deliveries.newest is None else time.time() - deliveries.newest / 1e6
        self._display.show(
            Progress(
                phase=phase,
                seconds=seconds,
                total_seconds=self._plan.seconds,
                committed=workload.tally.committed,
                transactions=deliveries.transactions,
                rows=deliveries.rows,
                rows_per_second=(deliveries.rows - rows) / max(seconds - since, 0.001),
                lag_seconds=lag,
                restarts=self._restarts,
                backfilled=self._backfilled()[0],
                to_backfill=self._plan.articles,
            )
        )

    def _report(self, source: DemoSource, workload: Workload) -> Report:
        deliveries = self._log.settle(SqliteMirror(self._mirror).position())
        capture = CaptureList.parse([source.schemas.capture])
        with contextlib.closing(source.server.connect()) as connection:
            comparison = compare(connection, capture, self._mirror)
        backfilled, chunks = self._backfilled()
        return Report(
            seed=self._plan.seed,
            tally=workload.tally,
            restarts=self._restarts,
            deliveries=deliveries,
            comparison=comparison,
            backfilled=backfilled,
            chunks=chunks,
        )


@contextlib.contextmanager
def _running(workload: Workload) -> Iterator[None]:
    """The workload runs inside the block; its writers have ended after it."""
    workload.start()
    try:
        yield
    finally:
        workload.stop()


@contextlib.contextmanager
def _folder(keep: bool, say: Callable[[str], None]) -> Iterator[Path]:
    if keep:
        folder = Path(tempfile.mkdtemp(prefix="capstan-demo-"))
        yield folder
        say(f"kept: {folder}")
        return
    with tempfile.TemporaryDirectory(prefix="capstan-demo-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the demonstration as Ctrl-C does: with everything cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
