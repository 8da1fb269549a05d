"""Change data capture for MySQL that would rather stop than be wrong.

The public names, nothing else. See `docs/tour.md` for the rooms behind them.
"""

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
from capstan.version import __version__

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
