"""What a caller catches, and what it may say."""

import copy
import pickle

import pytest

import capstan
from capstan import ConfigError, Halt, HaltReason, PipelineHalted

HALT = Halt(HaltReason.DATA_GAP, "3 transactions", also=(Halt(HaltReason.BINLOG_DISABLED),))


def test_a_halted_pipeline_tells_reason_and_detail() -> None:
    """R54: the whole halt for programs, one line of it for people."""
    verdict = PipelineHalted(HALT)

    assert verdict.halt is HALT
    assert str(verdict) == "data_gap: 3 transactions"
    assert str(PipelineHalted(Halt(HaltReason.SINK_STALLED))) == "sink_stalled"


@pytest.mark.parametrize(
    "carry", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
def test_a_verdict_survives_being_carried(carry: object) -> None:
    """R54: between processes too: a pool hands exceptions on by pickling them."""
    carried = carry(PipelineHalted(HALT))  # type: ignore[operator]

    assert type(carried) is PipelineHalted
    assert carried.halt == HALT
    assert str(carried) == str(PipelineHalted(HALT))


def test_a_verdict_is_not_caught_as_something_else() -> None:
    """It is neither a mistake in a value nor a mishap of the system."""
    assert PipelineHalted.__mro__[1] is Exception
    assert not issubclass(PipelineHalted, ConfigError)


def test_a_refused_configuration_is_a_value_error() -> None:
    """Who does not know capstan's exceptions catches it all the same."""
    assert issubclass(ConfigError, ValueError)
    assert str(ConfigError("port: must be a number")) == "port: must be a number"


def test_both_are_public() -> None:
    """What has to be caught can be imported from `capstan`."""
    assert capstan.PipelineHalted is PipelineHalted
    assert capstan.ConfigError is ConfigError
