"""The main job under everything at once: kills, server restarts, cut links; the mirror is exact."""

import contextlib
import time
from pathlib import Path
from random import Random

import pytest
from helpers.mysql import PrivateServers
from helpers.pipelines import executed
from helpers.waiting import wait_until

from capstan import GtidSet, SqliteMirror, SqliteStore
from capstan.core.tables import CaptureList
from capstan.demo.compare import compare
from capstan.demo.delivery_log import DeliveryLog
from capstan.demo.mysql_server import MysqlServer
from capstan.demo.process_control import PipelineProcess
from capstan.demo.workload import Workload, new_seed
from capstan.demo.workload_tables import Schemas
from capstan.testing import TcpProxy

CAPTURE = "shop?.*"


class Chaos:
    """A source behind a proxy, a pipeline process, a mirror, and a hand that breaks things."""

    def __init__(self, server: MysqlServer, proxy: TcpProxy, folder: Path, seed: int) -> None:
        self.server, self.proxy, self.folder = server, proxy, folder
        self.random, self.seed = Random(seed), seed
        self.log = DeliveryLog(folder / "deliveries.log")
        self.process = PipelineProcess(
            config=self.configured(), log=folder / "deliveries.log", errors=folder / "errors"
        )
        self.kills = self.cuts = self.restarts = 0

    def configured(self) -> Path:
        """The configuration file, through the proxy."""
        (self.folder / "password").write_text(self.server.password, encoding="ascii")
        path = self.folder / "chaos.toml"
        path.write_text(
            f'tables = ["{CAPTURE}"]\n[source]\nport = {self.proxy.port}\n'
            f'user = "{self.server.user}"\npassword = {{ file = "password" }}\nserver_id = 4242\n'
            '[store]\nkind = "sqlite"\npath = "state.db"\n'
            '[sink]\nkind = "sqlite"\npath = "mirror.db"\n',
            encoding="utf-8",
        )
        return path

    def round(self, number: int, seconds: float) -> None:
        """Writers write, the pipeline is killed and its link cut; then the server is restarted."""
        schemas = Schemas(shop=f"shop{number}", outside=f"backoffice{number}")
        workload = Workload(
            self.server, seed=self.seed + number, writers=3, schemas=schemas, rate=40
        )
        workload.prepare()
        workload.start()
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                workload.check()
                self.process.check()
                self.disturb()
                self.wait_a_moment()
        finally:
            workload.stop()
        # Straight after the last commit, so that some of them were not delivered yet.
        self.server.kill()
        self.server.start()
        self.restarts += 1

    def disturb(self) -> None:
        """One thing breaks."""
        if self.random.random() < 0.5:
            self.process.kill()
            self.process.start()
            self.kills += 1
        else:
            self.proxy.cut()
            self.cuts += 1

    def wait_a_moment(self) -> None:
        """Until something was delivered since the last thing broke, and a little longer."""
        seen = self.log.read().opened, self.log.deliveries.transactions
        wait_until(
            lambda: (self.log.read().opened, self.log.deliveries.transactions) != seen,
            what="a delivery",
            timeout=60,
        )
        pause = time.monotonic() + self.random.uniform(0.0, 0.8)
        wait_until(lambda: time.monotonic() > pause, what="the moment to pass")

    def catch_up(self) -> None:
        """Everything the source has is in the store's watermark."""
        goal = executed(self.server)
        with contextlib.closing(SqliteStore(self.folder / "state.db")) as store:
            wait_until(
                lambda: self.process.check() or goal <= (store.load_watermark() or GtidSet()),
                what="the pipeline to catch up",
                timeout=60,
            )


def unleash(server: MysqlServer, folder: Path, rounds: int, seconds: float) -> None:
    """Run chaos and prove that nothing was lost and nothing came twice."""
    seed = new_seed()
    with TcpProxy(server.host, server.port) as proxy:
        chaos = Chaos(server, proxy, folder, seed)
        with chaos.log, chaos.process:
            chaos.process.start()
            for number in range(rounds):
                chaos.round(number, seconds)
            chaos.catch_up()
            chaos.process.stop(30)
            with contextlib.closing(SqliteMirror(folder / "mirror.db")) as mirror:
                deliveries = chaos.log.settle(mirror.position())
    told = f"seed {seed}: {chaos.kills} kills, {chaos.cuts} cuts, {chaos.restarts} restarts"
    with contextlib.closing(server.connect()) as connection:
        comparison = compare(connection, CaptureList.parse([CAPTURE]), folder / "mirror.db")

    assert comparison.differences == (), told
    assert comparison.rows > 0
    assert (deliveries.duplicates, deliveries.torn) == (0, 0), told
    assert deliveries.transactions > 0
    assert chaos.restarts == rounds


def test_a_short_run_under_chaos_ends_identical(new_server: PrivateServers, tmp_path: Path) -> None:
    """R42, R53, D12, D15: kills, cuts and server crashes; the mirror is exact, nothing twice."""
    unleash(new_server(), tmp_path, rounds=2, seconds=6)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_minute_under_chaos_ends_identical(new_server: PrivateServers, tmp_path: Path) -> None:
    """R42, R53, D12, D15: the same for a minute."""
    unleash(new_server(), tmp_path, rounds=6, seconds=10)
