"""The hooks: every observer hears, and none disturbs."""

import logging
import threading

import pytest

from capstan.telemetry.events import Event, PipelineEnded
from capstan.telemetry.hooks import Hooks

ENDED = PipelineEnded(reason=None, detail="")


def test_every_observer_hears_every_event_in_order() -> None:
    """On the thread where it happened."""
    heard: list[tuple[int, Event, int]] = []
    hooks = Hooks([lambda e, n=n: heard.append((n, e, threading.get_ident())) for n in (1, 2)])
    second = PipelineEnded(reason="data_gap", detail="x")
    hooks.emit(ENDED)
    hooks.emit(second)

    here = threading.get_ident()
    assert heard == [(1, ENDED, here), (2, ENDED, here), (1, second, here), (2, second, here)]


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_one_that_raises_is_counted_and_the_others_hear(error: type[BaseException]) -> None:
    """Whatever it raises: on an actor's thread it would look like a crash."""
    heard: list[Event] = []

    def raising(_: Event) -> None:
        raise error("sentinel-value")

    hooks = Hooks([raising, heard.append])
    hooks.emit(ENDED)
    hooks.emit(ENDED)

    assert heard == [ENDED, ENDED]
    assert hooks.failures == 2


def test_an_observer_is_the_hosts_code() -> None:
    """A stop from inside it must not wait for the thread that it is on."""
    inside: list[bool] = []
    hooks = Hooks([lambda _: inside.append(hooks.in_host_code())])
    hooks.emit(ENDED)

    assert inside == [True]
    assert not hooks.in_host_code()


def test_host_code_is_known_by_its_thread() -> None:
    """Another thread may wait for the pipeline meanwhile; another pipeline's may too."""
    hooks, others = Hooks(), Hooks()
    seen: list[bool] = []
    with hooks.host_code():
        assert hooks.in_host_code()
        assert not others.in_host_code()
        thread = threading.Thread(target=lambda: seen.append(hooks.in_host_code()))
        thread.start()
        thread.join()

    assert seen == [False]


def test_host_code_is_left_when_it_raises() -> None:
    """A sink that refuses is not inside for ever."""
    hooks = Hooks()
    with pytest.raises(ValueError, match="x"), hooks.host_code():
        raise ValueError("x")

    assert not hooks.in_host_code()


def test_events_go_to_the_debug_log(caplog: pytest.LogCaptureFixture) -> None:
    """By name, for a host that turned it on."""
    with caplog.at_level(logging.DEBUG, logger="capstan"):
        Hooks().emit(ENDED)

    assert "pipeline.ended" in caplog.text


def test_nothing_is_logged_unless_the_host_asks(caplog: pytest.LogCaptureFixture) -> None:
    """A library is quiet."""
    with caplog.at_level(logging.INFO, logger="capstan"):
        Hooks().emit(ENDED)

    assert caplog.text == ""
    assert any(isinstance(h, logging.NullHandler) for h in logging.getLogger("capstan").handlers)
