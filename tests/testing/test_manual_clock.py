"""The clock that tests push, and the pipelines that run on it."""

import pytest

from capstan import Delivery, HaltReason, Pipeline, PipelineHalted
from capstan import pipeline as room
from capstan.testing import ManualClock, ScriptedMysql, Table
from capstan.testing.puppet_sinks import PuppetSinks

ORDERS = Table("shop.orders", "id int unsigned", key="id")


def test_a_pushed_clock_stays_pushed_and_never_goes_back() -> None:
    """It is a steady clock, ahead by what it was pushed."""
    clock = ManualClock()
    before = clock()
    clock.push(1000.0)
    assert clock() >= before + 1000.0
    with pytest.raises(ValueError, match="does not go back"):
        clock.push(-1.0)


def test_a_sink_that_hangs_is_found_when_its_time_is_up(
    capstan_source: ScriptedMysql, capstan_sinks: PuppetSinks, capstan_clock: ManualClock
) -> None:
    """The deadline of an hour passes at once, and not before."""
    sink = capstan_sinks.hanging()
    capstan_source.commit(ORDERS.insert((1,)))
    pipeline = Pipeline(capstan_source.config(sink, delivery=Delivery(sink_timeout=3600.0)))
    pipeline.start()
    assert sink.hangs.wait(30)
    assert pipeline.status().state == "running"
    capstan_clock.push(3601.0)
    with pytest.raises(PipelineHalted) as caught:
        pipeline.wait(30)
    assert caught.value.halt.reason is HaltReason.SINK_STALLED


def test_pipelines_have_their_own_clock_again_behind_the_block() -> None:
    """What was put in place is taken away."""
    launch = vars(room)["launch"]
    with ManualClock():
        assert vars(room)["launch"] is not launch
    assert vars(room)["launch"] is launch
