"""Faults of source and network that pass: everything arrives, once, in order, and stays so."""

import contextlib
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from faults.provoked_wires import IMPATIENT, WIRES
from helpers.waiting import wait_until

from capstan import Gtid, GtidSet, MemoryStore, Pipeline
from capstan.testing import (
    Misbehaviour,
    RecordingSink,
    ScriptedMysql,
    Table,
    TcpProxy,
    misbehaviours,
)
from capstan.testing.moments import Moment

ITEMS = Table("shop.items", "id int unsigned", "name varchar(60)", key="id")
PATIENT = {"heartbeat": 0.05, "liveness_timeout": 20.0, "reconnect_attempts": 10}


class CountingStore(MemoryStore):
    """Counts its writes."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    def save_watermark(self, *arguments: Any) -> None:
        self.writes += 1
        super().save_watermark(*arguments)


@attrs.frozen(kw_only=True)
class Run:
    """A pipeline over the scripted server."""

    source: ScriptedMysql
    sink: RecordingSink
    store: CountingStore
    pipeline: Pipeline

    def commit(self, number: int) -> Gtid:
        """Commit a row with this key."""
        return self.source.commit(ITEMS.insert((number, f"n{number}")))

    def arrives_whole(self) -> None:
        """Everything has come, once, in order, and is stored."""
        assert self.pipeline.wait_for(self.source.executed, timeout=60)
        assert self.sink.gtids == [str(gtid) for gtid in self.source.committed]
        assert [change.values for change in self.sink.changes] == [
            (n, f"n{n}") for n in range(1, len(self.sink.gtids) + 1)
        ]
        self.pipeline.stop()
        assert self.pipeline.status().drained
        assert self.store.load_watermark() == self.source.executed


@contextlib.contextmanager
def running(source: ScriptedMysql, **link: Any) -> Iterator[Run]:
    """Run a pipeline that has processed one transaction."""
    run_store, sink = CountingStore(), RecordingSink()
    config = source.config(
        sink, run_store, source=source.source(**PATIENT | link), tables=["shop.*"]
    )
    run = Run(source=source, sink=sink, store=run_store, pipeline=Pipeline(config))
    first = run.commit(1)
    with run.pipeline:
        assert run.pipeline.wait_for(str(first), timeout=30)
        yield run


PASSING = [
    (misbehaviours.cut_in_header(), {}),
    (misbehaviours.cut_in_event(), {}),
    (misbehaviours.cut_in_transaction(), {}),
    (misbehaviours.cut_in_large_packet(), {}),
    (misbehaviours.silence(), IMPATIENT),
    (misbehaviours.slow_drip(0.001), {}),
    (misbehaviours.another_server(), {}),
    (misbehaviours.error_packet(1053, "Server shutdown in progress"), {}),
    (misbehaviours.error_packet(1317, "Query execution was interrupted"), {}),
]
"""Each happens once, to the second of three transactions."""
CONNECTING = [
    misbehaviours.garbage_greeting(),
    misbehaviours.refused_dump(1040, "Too many connections"),
    misbehaviours.absurd_answer(),
]
"""Each happens to one connection, behind a cut."""


def test_every_misbehaviour_is_played() -> None:
    """R266: what the kit can do wrong either halts or is survived, and both are shown."""
    made = {
        name
        for name, value in vars(misbehaviours).items()
        if callable(value)
        and not name.startswith("_")
        and getattr(value, "__annotations__", {}).get("return") is Misbehaviour
    }
    survived = {how.act.__qualname__.partition(".")[0] for how, _ in PASSING}
    survived |= {how.act.__qualname__.partition(".")[0] for how in CONNECTING}
    named = "\n".join(str(provocation) for provocation in WIRES)
    halted = {name for name in made if name not in survived and _name_of(name) in named}
    assert made - survived - halted == {"endless_heartbeats"}


def _name_of(function: str) -> str:
    """What the misbehaviour calls itself."""
    arguments = {
        "error_packet": (1105, ""),
        "refused_dump": (1227, ""),
        "asks_for_plugin": ("dialog",),
        "asks_for_file": ("x",),
    }
    how: Misbehaviour = getattr(misbehaviours, function)(*arguments.get(function, ()))
    return how.name


@pytest.mark.parametrize(("how", "link"), PASSING, ids=str)
def test_a_fault_of_the_stream_that_passes_costs_nothing(
    capstan_source: ScriptedMysql, how: Misbehaviour, link: dict[str, Any]
) -> None:
    """R10, R31: the half transaction is thrown away, asked for again, and comes once."""
    with running(capstan_source, **link) as run:
        capstan_source.misbehave(how, times=1)
        cut = run.commit(2)
        run.commit(3)
        run.arrives_whole()
    assert cut not in capstan_source.dumps[-1]


@pytest.mark.parametrize("how", CONNECTING, ids=str)
def test_a_fault_while_connecting_that_passes_costs_nothing(
    capstan_source: ScriptedMysql, how: Misbehaviour
) -> None:
    """R31: the dial after it goes through."""
    with running(capstan_source) as run:
        capstan_source.misbehave(how, times=1)
        capstan_source.cut()
        run.commit(2)
        run.commit(3)
        run.arrives_whole()
    assert run.pipeline.status().counters["failed_dials"] == 2


def test_heartbeats_keep_the_link_and_change_nothing_else(capstan_source: ScriptedMysql) -> None:
    """R31: no output, no write, no GTID, no dial; the pipeline can be stopped all the same."""
    with running(capstan_source, heartbeat=0.1, liveness_timeout=1.5) as run:
        writes = run.store.writes
        capstan_source.misbehave(misbehaviours.endless_heartbeats())
        run.commit(2)
        sent = capstan_source.packets
        wait_until(lambda: capstan_source.packets > sent + 250, what="two seconds of heartbeats")

        first = str(capstan_source.committed[0])
        assert run.sink.gtids == [first]
        assert run.store.writes == writes
        assert run.pipeline.status().counters["connects"] == 1
        run.pipeline.stop()
        assert run.pipeline.status().drained
    assert run.store.load_watermark() == GtidSet.parse(first)


def test_another_server_with_the_same_history_is_gone_on_with(
    capstan_source: ScriptedMysql,
) -> None:
    """D13, D14: who has all that was processed may answer; its name is told."""
    with running(capstan_source) as run:
        capstan_source.misbehave(misbehaviours.another_server(), times=1)
        run.commit(2)
        run.commit(3)
        run.arrives_whole()
        assert run.pipeline.status().server_uuid == misbehaviours.OTHER_UUID


@pytest.mark.parametrize("fault", ["cut", "half-open", "slow", "throttled"])
def test_a_fault_of_the_network_that_passes_costs_nothing(
    capstan_source: ScriptedMysql, capstan_proxy: TcpProxy, fault: str
) -> None:
    """R31: whatever the network does between two events, each transaction comes once."""
    with running(capstan_source, port=capstan_proxy.port, liveness_timeout=0.6) as run:
        match fault:
            case "cut":
                capstan_proxy.cut()
            case "half-open":
                capstan_proxy.freeze()
            case "slow":
                capstan_proxy.delay(0.05)
            case "throttled":
                capstan_proxy.throttle(5_000)
        run.commit(2)
        run.commit(3)
        if fault == "half-open":
            wait_until(
                lambda: run.pipeline.status().counters["failed_dials"], what="the link is dead"
            )
            capstan_proxy.cut()
            capstan_proxy.thaw()
        run.arrives_whole()


def test_a_target_that_is_switched_is_gone_on_with(
    capstan_source: ScriptedMysql, capstan_proxy: TcpProxy
) -> None:
    """D13, D14: the second server goes on where the first one ended."""
    with ScriptedMysql(server_uuid=capstan_source.server_uuid) as second:
        for number in (1, 2, 3):
            second.commit(ITEMS.insert((number, f"n{number}")))
        second.server_uuid = misbehaviours.OTHER_UUID
        with running(capstan_source, port=capstan_proxy.port) as run:
            capstan_proxy.retarget(second.host, second.port)
            capstan_source.close()
            run.commit(2)
            run.commit(3)
            run.arrives_whole()
            assert run.pipeline.status().server_uuid == misbehaviours.OTHER_UUID


def test_moments_are_those_that_the_kit_strikes_at() -> None:
    """Every moment of the kit has a misbehaviour that strikes there."""
    played = {how.moment for how, _ in PASSING} | {how.moment for how in CONNECTING}
    assert played | {misbehaviours.asks_for_clear_password().moment} == set(Moment)
