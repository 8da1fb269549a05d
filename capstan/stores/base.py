"""What a store must do: keep watermark and companions, and the backfill, durably.

House rules: a store remembers and answers; it decides nothing. A save is one write and returns only
when that would survive a power cut. The backfill's state lies apart from the position (R60).
Everything that goes wrong is a `Halted` (`store_failed`, `store_locked`); nothing is ever recreated
in silence.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from capstan.core.gtid import GtidSet
from capstan.core.snapshot.progress import SnapshotState
from capstan.core.tables import TableName
from capstan.core.watermark import Anchor


class Store(ABC):
    """Keeps one pipeline's position. Used by one thread at a time."""

    def hold(self) -> None:  # noqa: B027 - a store that cannot be shared needs no lock
        """Claim the store for one writer until `close()`.

        Raises:
            Halted: `store_locked` when another pipeline holds it.
        """

    @abstractmethod
    def load_watermark(self) -> GtidSet | None:
        """The processed set; None for an empty store."""

    @abstractmethod
    def save_watermark(
        self,
        gtid_set: GtidSet,
        anchor: Anchor | None = None,
        sink_position: GtidSet | None = None,
    ) -> None:
        """Persist the three together, in one write; without an anchor it clears the old one."""

    @abstractmethod
    def load_anchor(self) -> Anchor | None:
        """The last processed transaction; None after a seed."""

    @abstractmethod
    def load_sink_position(self) -> GtidSet | None:
        """What the sink was last seen to report; None for a sink without position."""

    @abstractmethod
    def load_tables(self) -> tuple[str, ...] | None:
        """The capture list of the last accepted run; None for an empty store."""

    @abstractmethod
    def save_tables(self, tables: Sequence[str]) -> None:
        """Persist the capture list in its canonical form."""

    @abstractmethod
    def load_snapshot(self) -> SnapshotState | None:
        """How far the backfill has come; None when none has begun."""

    @abstractmethod
    def save_snapshot(self, state: SnapshotState) -> None:
        """Persist the whole backfill in one write."""

    @abstractmethod
    def clear_snapshot(self, table: TableName | None = None) -> None:
        """Forget the backfill (R163), or put one of its tables back to the start.

        Raises:
            ValueError: When the backfill does not hold this table.
        """

    @abstractmethod
    def close(self) -> None:
        """Release everything; a later call of another method opens it again."""


def put_back(state: SnapshotState | None, table: TableName) -> SnapshotState:
    """The state with one table back at the start, for `clear_snapshot`.

    Raises:
        ValueError: When the backfill does not hold this table.
    """
    if state is None:
        raise ValueError("no table of this backfill")
    return state.redone(table)
