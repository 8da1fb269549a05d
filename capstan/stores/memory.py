"""A store for tests: everything in memory, for as long as the object lives.

House rules: the same answers as the durable store, `close()` included: it keeps what was saved.
"""

from collections.abc import Sequence

from capstan.core.gtid import GtidSet
from capstan.core.snapshot.progress import SnapshotState
from capstan.core.tables import TableName
from capstan.core.watermark import Anchor, Position
from capstan.stores.base import Store, put_back


class MemoryStore(Store):
    """Keeps one pipeline's position until the process ends."""

    def __init__(self) -> None:
        self._position: Position | None = None
        self._tables: tuple[str, ...] | None = None
        self._snapshot: SnapshotState | None = None

    def load_watermark(self) -> GtidSet | None:
        """The processed set; None for an empty store."""
        return None if self._position is None else self._position.watermark

    def save_watermark(
        self,
        gtid_set: GtidSet,
        anchor: Anchor | None = None,
        sink_position: GtidSet | None = None,
    ) -> None:
        """Keep the three together; without an anchor the old one is cleared."""
        self._position = Position(watermark=gtid_set, anchor=anchor, sink_position=sink_position)

    def load_anchor(self) -> Anchor | None:
        """The last processed transaction; None after a seed."""
        return None if self._position is None else self._position.anchor

    def load_sink_position(self) -> GtidSet | None:
        """What the sink was last seen to report; None for a sink without position."""
        return None if self._position is None else self._position.sink_position

    def load_tables(self) -> tuple[str, ...] | None:
        """The capture list of the last accepted run; None for an empty store."""
        return self._tables

    def save_tables(self, tables: Sequence[str]) -> None:
        """Keep the capture list."""
        self._tables = tuple(tables)

    def load_snapshot(self) -> SnapshotState | None:
        """How far the backfill has come; None when none has begun."""
        return self._snapshot

    def save_snapshot(self, state: SnapshotState) -> None:
        """Keep the whole backfill."""
        self._snapshot = state

    def clear_snapshot(self, table: TableName | None = None) -> None:
        """Forget the backfill (R163), or put one of its tables back to the start."""
        self._snapshot = None if table is None else put_back(self._snapshot, table)

    def close(self) -> None:
        """Nothing to release; what was saved stays."""
