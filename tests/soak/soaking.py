"""The soak itself: two pipelines over one server, a workload, and a hand that breaks things.

House rules: everything random comes from the seed. The steady pipeline lives as long as the soak
and is measured; the mortal one is killed again and again. Both sit behind one proxy. A round ends
with the server's end straight after the last commit; both mirrors must then become identical with
the source. Schemas of older rounds are dropped, so that the source does not grow.
"""

import contextlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

from helpers.pipelines import executed

from capstan import GtidSet, SqliteMirror, SqliteStore
from capstan.core.tables import CaptureList
from capstan.demo.compare import compare
from capstan.demo.delivery_log import DeliveryLog
from capstan.demo.mysql_server import MysqlServer
from capstan.demo.process_control import PipelineProcess
from capstan.demo.workload import Workload
from capstan.demo.workload_tables import Schemas
from capstan.testing import TcpProxy
from soak import soaked_pipeline
from soak.footprints import Footprint, warm

CAPTURE: Final = "shop?.*"
_WRITERS, _RATE, _ARTICLES = 2, 12.0, 3_000
_CATCH_UP: Final = 120.0
_MINUTE: Final = 60.0
_KEPT_ROUNDS: Final = 2
_IN_GOOD_ORDER: Final = 0.25
"""How many of the server's restarts are asked for, the others being a kill."""
_ONE_ARENA: Final = ("env", "MALLOC_ARENA_MAX=1")
"""glibc gives each new thread a heap of its own, sixteen on two cores, and keeps them: after some
crashes of actors that looks like a leak, and hides one."""
_PAUSE: Final = (0.3, 2.0)
"""Seconds between two faults."""


class SoakError(AssertionError):
    """Something was lost, doubled or ended; names the seed."""


class SoakedProcess(PipelineProcess):
    """A pipeline of the soak in its own folder.

    Args:
        folder: For everything it writes.
        seed: Of its crashes and of its sink's pauses.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(
            config=folder / "soak.toml", log=folder / "deliveries.log", errors=folder / "errors"
        )
        self.folder = folder
        self.temporary = folder / "temporary"
        self.temporary.mkdir(parents=True)
        self.log = DeliveryLog(folder / "deliveries.log")
        self.store = SqliteStore(folder / "state.db")
        self._command = [
            *_ONE_ARENA,
            *(sys.executable, soaked_pipeline.__file__, str(folder / "soak.toml")),
            *(str(folder / "deliveries.log"), str(folder / "crashes"), str(seed)),
        ]

    def configure(self, server: MysqlServer, port: int, server_id: int) -> None:
        """Write its configuration: through the proxy, with little memory, backfilling at first."""
        (self.folder / "password").write_text(server.password, encoding="ascii")
        (self.folder / "soak.toml").write_text(
            f'tables = ["{CAPTURE}"]\n[source]\nport = {port}\nuser = "{server.user}"\n'
            f'password = {{ file = "password" }}\nserver_id = {server_id}\n'
            "heartbeat = 1\nliveness_timeout = 4\nreconnect_attempts = 200\n"
            '[store]\nkind = "sqlite"\npath = "state.db"\n'
            '[sink]\nkind = "sqlite"\npath = "mirror.db"\n'
            '[limits]\ntransaction_memory = 60000\nspool_dir = "temporary"\n'
            '[snapshot]\ntables = ["shop0.catalogue"]\nchunk_size = 500\n',
            encoding="utf-8",
        )

    @property
    def crashes(self) -> int:
        """How many actors were started again in it."""
        file = self.folder / "crashes"
        return file.stat().st_size if file.exists() else 0

    def footprint(self) -> Footprint:
        """What it takes now."""
        assert self._process is not None
        return Footprint.of(self._process.pid, self.temporary)

    def has(self, goal: GtidSet) -> bool:
        """Whether it has processed all of that, and its backfill is complete."""
        self.check()
        state = self.store.load_snapshot()
        done = state is not None and state.complete
        return done and goal <= (self.store.load_watermark() or GtidSet())


class Soak:
    """One soak.

    Args:
        server: A server of its own, running.
        folder: For everything that is written.
        seed: Of everything random.
        say: Gets one line a minute.

    Attributes:
        looks: What the steady pipeline took at the end of each round.
        counts: What was broken how often.
        verified: How many comparisons were identical.
    """

    def __init__(
        self, server: MysqlServer, folder: Path, seed: int, say: Callable[[str], object]
    ) -> None:
        self.looks: list[Footprint] = []
        self.counts: Counter[str] = Counter()
        self.verified = 0
        self._server, self._folder, self._seed, self._say = server, folder, seed, say
        self._random = Random(seed)
        self._rows = 0
        self._never = threading.Event()
        self._began = self._said = time.monotonic()
        self._proxy = TcpProxy(server.host, server.port)
        self._steady = SoakedProcess(folder / "steady", seed)
        self._mortal = SoakedProcess(folder / "mortal", seed + 1)
        self._pipelines = (self._steady, self._mortal)

    def run(self, seconds: float, each: float) -> None:
        """Soak for so many seconds, in rounds of so many.

        Raises:
            SoakError: It is not clean.
        """
        with self._proxy, self._steady, self._mortal, contextlib.ExitStack() as files:
            for number, process in enumerate(self._pipelines):
                process.configure(self._server, self._proxy.port, 4242 + number)
                files.enter_context(process.log)
                files.callback(process.store.close)
            number = 0
            while not number or time.monotonic() - self._began < seconds:
                self._round(number, each)
                self._tell(last=False)
                number += 1
            for process in self._pipelines:
                process.stop(60)
            self._compare()
            self._count_deliveries()
            self._tell(last=True)

    # -- a round -------------------------------------------------------------------------------

    def _round(self, number: int, seconds: float) -> None:
        workload = Workload(
            self._server,
            seed=self._seed + number,
            writers=_WRITERS,
            schemas=_schemas(number),
            rate=_RATE,
            articles=_ARTICLES if not number else 0,
        )
        self._clear(number)
        workload.define()
        if not number:
            for process in self._pipelines:
                process.start()
            self._wait("the backfill to begin", lambda: all(map(_begun, self._pipelines)))
        workload.furnish()
        workload.start()
        try:
            self._break_things(workload, time.monotonic() + seconds)
        finally:
            workload.stop()
        # Straight after the last commit, so that some of them were not delivered yet.
        if self._random.random() < _IN_GOOD_ORDER:
            self._server.restart()
            self.counts["server restarts"] += 1
        else:
            self._server.kill()
            self._server.start()
            self.counts["server deaths"] += 1
        goal = executed(self._server)
        for process in self._pipelines:
            self._wait("a pipeline to catch up", lambda p=process: p.has(goal))
        self._compare()
        for process in self._pipelines:
            process.log.read()
        self.looks.append(self._steady.footprint())

    def _clear(self, number: int) -> None:
        if number >= _KEPT_ROUNDS:
            with contextlib.closing(self._server.connect()) as connection:
                for statement in _schemas(number - _KEPT_ROUNDS).removal():
                    connection.cursor().execute(statement)

    def _break_things(self, workload: Workload, until: float) -> None:
        for fault, name in self._faults():
            if time.monotonic() >= until:
                return
            workload.check()
            for process in self._pipelines:
                process.check()
            fault()
            self.counts[name] += 1
            self._pause()

    def _faults(self) -> Iterator[tuple[Callable[[], None], str]]:
        """A kill, then all of them in any order, again and again."""
        yield self._kill, "kills"
        while True:
            deck = [
                (self._kill, "kills"),
                (self._cut, "cuts"),
                (self._refuse, "refusals"),
                (self._half_open, "half-open links"),
                (self._delay, "delays"),
                (self._throttle, "throttles"),
            ]
            self._random.shuffle(deck)
            yield from deck

    def _pause(self) -> None:
        self._never.wait(self._random.uniform(*_PAUSE))

    def _kill(self) -> None:
        self._mortal.kill()
        self._mortal.start()

    def _cut(self) -> None:
        self._proxy.cut()

    def _refuse(self) -> None:
        self._proxy.refuse()
        self._proxy.cut()
        self._pause()
        self._proxy.refuse(False)

    def _half_open(self) -> None:
        self._proxy.freeze()
        self._pause()
        if self._random.random() < 0.5:
            self._proxy.cut()
        self._proxy.thaw()

    def _delay(self) -> None:
        self._proxy.delay(self._random.uniform(0.01, 0.2))
        self._pause()
        self._proxy.delay(0.0)

    def _throttle(self) -> None:
        self._proxy.throttle(self._random.uniform(10_000, 100_000))
        self._pause()
        self._proxy.throttle(None)

    # -- proofs --------------------------------------------------------------------------------

    def _wait(self, what: str, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _CATCH_UP
        while not reached():
            if time.monotonic() > deadline:
                raise SoakError(f"seed {self._seed}: waited in vain for {what}")
            self._never.wait(0.1)

    def _compare(self) -> None:
        """Both mirrors against the source, while nobody writes."""
        self._rows = 0
        for process in self._pipelines:
            with contextlib.closing(self._server.connect()) as connection:
                mirror = process.folder / "mirror.db"
                found = compare(connection, CaptureList.parse([CAPTURE]), mirror)
            if found.differences:
                told = "; ".join(map(str, found.differences))
                raise SoakError(f"seed {self._seed}: {process.folder.name}: {told}")
            self._rows += found.rows
            self.verified += 1

    def _count_deliveries(self) -> None:
        for process in self._pipelines:
            with contextlib.closing(SqliteMirror(process.folder / "mirror.db")) as mirror:
                deliveries = process.log.settle(mirror.position() or GtidSet())
            if deliveries.duplicates or deliveries.torn or not deliveries.transactions:
                raise SoakError(f"seed {self._seed}: {process.folder.name}: {deliveries}")

    def _tell(self, *, last: bool) -> None:
        now = time.monotonic()
        minutes, told = ((each - self._began) // _MINUTE for each in (now, self._said))
        if minutes == told and not last:
            return
        self._said = now
        run = self.record()
        broken = ", ".join(f"{count} {name}" for name, count in sorted(run["broken"].items()))
        self._say(
            f"{run['seconds']:4} s, seed {self._seed}: {self.verified} comparisons identical"
            f" (now {self._rows} rows), {run['transactions']} transactions; {broken}; {run['last']}"
        )

    def record(self) -> dict[str, Any]:
        """What has happened so far, as plain data."""
        crashes = sum(process.crashes for process in self._pipelines)
        return {
            "seconds": round(self._said - self._began),
            "seed": self._seed,
            "verified": self.verified,
            "transactions": sum(p.log.deliveries.transactions for p in self._pipelines),
            "broken": {**self.counts, "actor crashes": crashes},
            "first": str(self.looks[0]),
            "middle": str(warm(self.looks)),
            "last": str(self.looks[-1]),
        }


def _schemas(number: int) -> Schemas:
    """Of one round; the names come round again when those of old are gone."""
    return Schemas(shop=f"shop{number % 10}", outside=f"backoffice{number % 10}")


def _begun(process: SoakedProcess) -> bool:
    process.check()
    return process.store.load_snapshot() is not None
