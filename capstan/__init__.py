"""Change data capture for MySQL that would rather stop than be wrong.

The public names, nothing else. Each is imported when it is first asked for, so that a program pays
for what it uses: reading a binary log file needs no driver. See `docs/tour.md` for the rooms.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from capstan.version import __version__

if TYPE_CHECKING:
    from capstan.config import ALL, Config, Delivery, Limits, Snapshot, Source
    from capstan.core.changes import Change, Op, SchemaChange, SnapshotMeta, Transaction
    from capstan.core.gtid import Gtid, GtidSet
    from capstan.core.halts import Halt, HaltReason
    from capstan.core.tables import Column
    from capstan.errors import ConfigError, PipelineHalted
    from capstan.pipeline import Pipeline, Status
    from capstan.sinks.base import Sink
    from capstan.sinks.function import FunctionSink
    from capstan.sinks.jsonl import JsonLinesSink
    from capstan.sinks.sqlite_mirror import SqliteMirror
    from capstan.stores.base import Store
    from capstan.stores.memory import MemoryStore
    from capstan.stores.sqlite import SqliteStore

__all__ = [
    "ALL",
    "Change",
    "Column",
    "Config",
    "ConfigError",
    "Delivery",
    "FunctionSink",
    "Gtid",
    "GtidSet",
    "Halt",
    "HaltReason",
    "JsonLinesSink",
    "Limits",
    "MemoryStore",
    "Op",
    "Pipeline",
    "PipelineHalted",
    "SchemaChange",
    "Sink",
    "Snapshot",
    "SnapshotMeta",
    "Source",
    "SqliteMirror",
    "SqliteStore",
    "Status",
    "Store",
    "Transaction",
    "__version__",
]

_HOMES = {
    "capstan.config": ("ALL", "Config", "Delivery", "Limits", "Snapshot", "Source"),
    "capstan.core.changes": ("Change", "Op", "SchemaChange", "SnapshotMeta", "Transaction"),
    "capstan.core.gtid": ("Gtid", "GtidSet"),
    "capstan.core.halts": ("Halt", "HaltReason"),
    "capstan.core.tables": ("Column",),
    "capstan.errors": ("ConfigError", "PipelineHalted"),
    "capstan.pipeline": ("Pipeline", "Status"),
    "capstan.sinks.base": ("Sink",),
    "capstan.sinks.function": ("FunctionSink",),
    "capstan.sinks.jsonl": ("JsonLinesSink",),
    "capstan.sinks.sqlite_mirror": ("SqliteMirror",),
    "capstan.stores.base": ("Store",),
    "capstan.stores.memory": ("MemoryStore",),
    "capstan.stores.sqlite": ("SqliteStore",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name from its home."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'capstan' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
