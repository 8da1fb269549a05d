"""The fault kit: a server that lies, sinks that fail, crash points, a proxy, a clock to push.

For tests of pipelines and of sinks of one's own; see `docs/testing.md`. Installed together with
capstan it is a plug-in of pytest, with a fixture for each part.
"""

from capstan.testing import misbehaviours
from capstan.testing.crash_points import CrashPoints, PlannedCrash, crash, kill_process
from capstan.testing.made_events import Event
from capstan.testing.made_tables import RowChange, Table
from capstan.testing.manual_clock import ManualClock
from capstan.testing.moments import Misbehaviour
from capstan.testing.puppet_sinks import (
    Accepted,
    HangingSink,
    KillingSink,
    PuppetSinks,
    RaisingSink,
    RecordingSink,
    RefusingOnceSink,
    SlowSink,
)
from capstan.testing.scripted_mysql import ScriptedMysql
from capstan.testing.tcp_proxy import TcpProxy

__all__ = [
    "Accepted",
    "CrashPoints",
    "Event",
    "HangingSink",
    "KillingSink",
    "ManualClock",
    "Misbehaviour",
    "PlannedCrash",
    "PuppetSinks",
    "RaisingSink",
    "RecordingSink",
    "RefusingOnceSink",
    "RowChange",
    "ScriptedMysql",
    "SlowSink",
    "Table",
    "TcpProxy",
    "crash",
    "kill_process",
    "misbehaviours",
]
