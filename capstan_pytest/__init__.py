"""pytest's door to capstan's fault kit: a fixture for each part, found through an entry point.

House rules: a package of its own, because it is loaded by every run of pytest beside which capstan
is installed: nothing of capstan is imported before a test asks for it. What a fixture made ends
with its test.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from capstan.testing.crash_points import CrashPoints
    from capstan.testing.manual_clock import ManualClock
    from capstan.testing.puppet_sinks import PuppetSinks
    from capstan.testing.scripted_mysql import ScriptedMysql
    from capstan.testing.tcp_proxy import TcpProxy


@pytest.fixture
def capstan_source() -> "Iterator[ScriptedMysql]":
    """A scripted MySQL source that listens; honest until told otherwise."""
    from capstan.testing.scripted_mysql import ScriptedMysql  # noqa: PLC0415 - see the house rules

    with ScriptedMysql() as source:
        yield source


@pytest.fixture
def capstan_proxy(capstan_source: "ScriptedMysql") -> "Iterator[TcpProxy]":
    """A proxy in front of `capstan_source`; `retarget()` puts it in front of another server."""
    from capstan.testing.tcp_proxy import TcpProxy  # noqa: PLC0415 - see the house rules

    with TcpProxy(capstan_source.host, capstan_source.port) as proxy:
        yield proxy


@pytest.fixture
def capstan_sinks() -> "Iterator[PuppetSinks]":
    """Makes puppet sinks; what hangs is let go at the end of the test."""
    from capstan.testing.puppet_sinks import PuppetSinks  # noqa: PLC0415 - see the house rules

    sinks = PuppetSinks()
    yield sinks
    sinks.release()


@pytest.fixture
def capstan_points() -> "Iterator[CrashPoints]":
    """Crash points that are active while the test runs."""
    from capstan.testing.crash_points import CrashPoints  # noqa: PLC0415 - see the house rules

    with CrashPoints() as points:
        yield points


@pytest.fixture
def capstan_clock() -> "Iterator[ManualClock]":
    """The clock of the pipelines that the test starts, pushed by the test."""
    from capstan.testing.manual_clock import ManualClock  # noqa: PLC0415 - see the house rules

    with ManualClock() as clock:
        yield clock
