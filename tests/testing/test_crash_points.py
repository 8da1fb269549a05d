"""Crash points: they are all there, strike where they are told, and leave nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from capstan import Delivery, HaltReason, MemoryStore, Pipeline, PipelineHalted, SqliteMirror
from capstan.runtime import Actor, Address
from capstan.sinks.base import Sink
from capstan.testing import CrashPoints, PlannedCrash, RecordingSink, ScriptedMysql, Table, crash

ORDERS = Table("shop.orders", "id int unsigned", "state varchar(20)", key="id")
SENDS = {
    "checkpoint": ("PositionIs", "WatermarkMoved"),
    "coordinator": ("SinkOpened", "Processed", "Settled"),
    "assembler": ("CreditGranted", "Assembled"),
    "connection": ("ConnectionReady", "PositionWanted", "StreamOpened", "PacketsRead", "ReadOn"),
}
CALLS = {
    "checkpoint": ("hold", "load_watermark", "load_tables", "save_tables", "save_watermark"),
    "coordinator": ("open", "position", "handle_transaction", "handle_schema_changes", "close"),
}


def fill(source: ScriptedMysql) -> None:
    """Two transactions and a schema change."""
    source.commit(ORDERS.insert((1, "new")))
    source.statement("CREATE TABLE other (id INT)", "shop")
    source.commit(ORDERS.insert((2, "new")))


def run(source: ScriptedMysql, points: CrashPoints, sink: Sink) -> Pipeline:
    """Stream everything; with one transaction a batch every step is taken often."""
    config = source.config(sink, tables=["shop.*"], delivery=Delivery(max_batch=1))
    with Pipeline(points.wrap(config)) as pipeline:
        assert pipeline.wait_for(source.executed, timeout=30)
    return pipeline


def test_every_persist_send_and_sink_call_is_a_point(
    capstan_source: ScriptedMysql, capstan_points: CrashPoints
) -> None:
    """Store, sink and every message of the conversation can be struck before and behind."""
    fill(capstan_source)
    run(capstan_source, capstan_points, RecordingSink())
    expected = {f"{actor} send {name}" for actor, names in SENDS.items() for name in names}
    expected |= {f"{actor} {name}" for actor, names in CALLS.items() for name in names}
    expected |= {f"{actor} start" for actor in SENDS}
    passed = capstan_points.passed
    for when in ("before", "after"):
        assert {point for name in expected if not passed[point := f"{when} {name}"]} == set()


@pytest.mark.parametrize(
    "point",
    [
        "before checkpoint save_watermark",
        "after checkpoint save_watermark",
        "before checkpoint send WatermarkMoved",
        "before coordinator receive Assembled",
        "before coordinator send Processed",
        "after coordinator send Processed",
        "before assembler send Assembled",
        "after assembler receive StreamOpened",
        "before connection send PacketsRead",
        "before connection start",
    ],
)
@pytest.mark.parametrize("hit", [1, 2])
def test_an_actor_that_crashes_is_started_again_and_nothing_is_lost(
    capstan_source: ScriptedMysql, capstan_points: CrashPoints, point: str, hit: int, tmp_path: Path
) -> None:
    """R31: with a sink that keeps its position each transaction arrives once."""
    fill(capstan_source)
    capstan_points.at(point, hit=hit)
    mirror = SqliteMirror(tmp_path / "mirror.db")
    pipeline = run(capstan_source, capstan_points, mirror)

    assert mirror.position() == capstan_source.executed
    mirror.close()
    restarts = sum(restarts_of(child) for child in pipeline.status().tree)
    assert bool(restarts) is (capstan_points.passed[point] >= hit)


def restarts_of(child: dict[str, object]) -> int:
    """Of a child and those below it."""
    below = child["children"]
    assert isinstance(below, list)
    own = child["restarts"]
    assert isinstance(own, int)
    return own + sum(map(restarts_of, below))


def test_a_crash_between_sink_and_store_repeats_exactly_that(
    capstan_source: ScriptedMysql, capstan_points: CrashPoints
) -> None:
    """R31, R268: the duplicate window of a sink without a position is one batch."""
    fill(capstan_source)
    capstan_points.at("before coordinator send Processed", hit=2)
    sink = RecordingSink()
    run(capstan_source, capstan_points, sink)
    first, _, third = map(str, capstan_source.committed)
    assert sink.gtids == [first, third]
    assert len(sink.schema_changes) == 2


def test_code_of_the_tests_own_runs_at_a_point_as_often_as_told(
    capstan_source: ScriptedMysql, capstan_points: CrashPoints
) -> None:
    """A point can be watched, or held up, without a crash."""
    fill(capstan_source)
    seen: list[str] = []
    capstan_points.at(
        "after coordinator handle_transaction", lambda: seen.append("x"), hit=1, times=2
    )
    run(capstan_source, capstan_points, RecordingSink())
    assert seen == ["x", "x"]


def test_a_crash_inside_the_sinks_call_is_a_refusal(
    capstan_source: ScriptedMysql, capstan_points: CrashPoints
) -> None:
    """R267: whatever comes out of a sink halts, a planned crash too."""
    fill(capstan_source)
    capstan_points.at("before coordinator handle_transaction")
    with pytest.raises(PipelineHalted) as caught:
        run(capstan_source, capstan_points, RecordingSink())
    assert caught.value.halt.reason is HaltReason.SINK_FAILED
    assert caught.value.halt.detail == "PlannedCrash"


_KILLED = """
import sys
from capstan import Delivery, Pipeline, SqliteMirror, SqliteStore
from capstan.testing import CrashPoints, ScriptedMysql, Table, kill_process
orders = Table("shop.orders", "id int unsigned", key="id")
with ScriptedMysql() as source, CrashPoints() as points:
    for number in range(1, 6):
        source.commit(orders.insert((number,)))
    if sys.argv[3]:
        points.at(sys.argv[3], kill_process, hit=3)
    config = source.config(
        SqliteMirror(sys.argv[1]), SqliteStore(sys.argv[2]), delivery=Delivery(max_batch=1)
    )
    with Pipeline(points.wrap(config)) as pipeline:
        assert pipeline.wait_for(source.executed, timeout=30)
    print(config.sink.position())
    config.sink.close()
"""


@pytest.mark.parametrize(
    "point", ["before checkpoint save_watermark", "after coordinator handle_batch"]
)
def test_a_process_that_is_killed_at_a_point_goes_on_from_there(
    capstan_source: ScriptedMysql, tmp_path: Path, point: str
) -> None:
    """R31: the second process finds both files as the first one left them."""
    places = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-c", _KILLED, str(tmp_path / "mirror"), str(tmp_path / "store")]
    environment = {**os.environ, "PYTHONPATH": places}
    first = subprocess.run([*command, point], env=environment, capture_output=True, check=False)
    assert first.returncode == -signal.SIGKILL, first.stderr
    second = subprocess.run(
        [*command, ""], env=environment, capture_output=True, text=True, check=True
    )
    assert second.stdout.strip().endswith(":1-5")


# --- the kit's own manners ------------------------------------------------------------------------


def test_points_are_gone_behind_their_block() -> None:
    """Unused, nothing of the kit is in the way of a message."""
    before = (Address.send, Actor._start, Actor._dispatch)
    with CrashPoints(), pytest.raises(RuntimeError, match="active already"):
        CrashPoints().__enter__()
    assert (Address.send, Actor._start, Actor._dispatch) == before


@pytest.mark.parametrize("name", ["", "before", "before checkpoint", "during checkpoint hold"])
def test_a_name_that_is_not_built_like_one_is_refused(name: str) -> None:
    """A slip of the pen is found before the test runs for nothing."""
    with pytest.raises(ValueError, match="a point is named"):
        CrashPoints().at(name)


def test_a_wrapped_sink_does_itself_what_the_sink_does_itself(tmp_path: Path) -> None:
    """Whoever asks what a sink can do gets the same answer of both."""
    points = CrashPoints()
    for sink in (RecordingSink(), SqliteMirror(tmp_path / "mirror.db")):
        wrapped = points.sink(sink)
        for name in ("handle_batch", "handle_snapshot", "position"):
            base = getattr(Sink, name)
            assert name == "position" or (getattr(type(wrapped), name) is base) is (
                getattr(type(sink), name) is base
            )
        assert wrapped.position() == sink.position()


def test_what_is_wrapped_outside_a_pipeline_is_not_struck() -> None:
    """Only actors pass points: a test that looks into its store does not."""
    points = CrashPoints()
    points.at("before checkpoint load_watermark")
    store = points.store(MemoryStore())
    assert store.load_watermark() is None
    assert not points.passed
    with pytest.raises(PlannedCrash):
        crash()
