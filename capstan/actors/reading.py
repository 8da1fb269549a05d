"""Everything that the coordinator has to do with the chunk reader: a backfill, verifications.

House rules: one reader serves both, the backfill first. To the delivery desk this is one gate; to
the coordinator it is a list of calls that the sink is to get while no batch is out.
"""

from collections.abc import Callable

import attrs

from capstan.actors.backfill import Backfill, BackfillSettings
from capstan.actors.comparing import Comparing
from capstan.core.changes import Item, SchemaChangeGroup
from capstan.core.gtid import GtidSet
from capstan.core.snapshot.orders import CompareRange, EmitChunk
from capstan.core.tables import TableName
from capstan.core.verification import Differences
from capstan.runtime import Address
from capstan.telemetry.board import Board
from capstan.telemetry.hooks import Hooks

SinkCall = EmitChunk | CompareRange

_LONGEST_LOOK = 5.0


@attrs.frozen(kw_only=True)
class ReadingSettings:
    """What the coordinator must know of the configuration.

    Attributes:
        backfill: Of the backfill; None without one.
        gate_timeout: Seconds without any progress that a chunk or a range waits for the stream.
    """

    backfill: BackfillSettings | None
    gate_timeout: float


class Reading:
    """The coordinator's side of the reader."""

    def __init__(
        self,
        settings: ReadingSettings,
        checkpoint: Address,
        board: Board,
        hooks: Hooks,
        after: Callable[[float, object], None],
    ) -> None:
        """Make what is configured; the arguments are those of `Backfill`."""
        self.look_again_in = min(_LONGEST_LOOK, settings.gate_timeout / 4)
        """Seconds until the gate should be looked at again."""
        self._comparing = Comparing(board, settings.gate_timeout)
        self._backfill: Backfill | None = None
        if settings.backfill is not None:
            self._backfill = Backfill(settings.backfill, checkpoint, board, hooks, after)

    # -- the gate ------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """Whether the items of the stream are to be looked at."""
        watching = self._backfill is not None and self._backfill.watching
        return watching or self._comparing.active

    @property
    def _backfills(self) -> bool:
        return self._backfill is not None and self._backfill.active

    def holds(self, item: Item) -> bool:
        """Whether this item, and all behind it, has to wait (D6)."""
        backfill_holds = self._backfill is not None and self._backfill.holds(item)
        return backfill_holds or self._comparing.holds(item)

    def judged(self, item: Item) -> Item:
        """The item as the sink may see it.

        Raises:
            Halted: `snapshot_schema_drifted` (D9).
        """
        return item if self._backfill is None else self._backfill.judged(item)

    @property
    def exclusive(self) -> bool:
        """Whether the stream has to wait for a write of the backfill."""
        return self._backfill is not None and self._backfill.exclusive

    @property
    def midway(self) -> bool:
        """Whether a chunk is between its two writes: a drain waits for the second."""
        return self._backfill is not None and self._backfill.midway

    @property
    def quiet(self) -> bool:
        """Whether a view is just being captured: for a moment the sink is better not called."""
        return self._backfill is not None and self._backfill.quiet

    # -- the conversation ----------------------------------------------------------------------

    def hear(self, message: object, processed: GtidSet) -> None:
        """One step of the conversation with the reader.

        Raises:
            Halted: What the backfill refuses, and a gate that stalled.
        """
        if self._backfill is not None:
            self._backfill.hear(message, processed)
        self._comparing.hear(message, processed)

    def redo_stale(self, group: SchemaChangeGroup) -> None:
        """Begin again with the tables whose stored rows these schema changes make stale."""
        if self._backfill is not None:
            self._backfill.redo_stale(group)

    def to_announce(self) -> tuple[TableName, ...]:
        """The tables about to be backfilled of which the sink has not been told."""
        return () if self._backfill is None else self._backfill.to_announce()

    def next_call(
        self, coordinator: Address, processed: GtidSet, *, stopping: bool
    ) -> SinkCall | None:
        """Carry out what is to be done now; returns what the sink is to be called for, if anything.

        Only to be called while no batch is out. A drain only finishes what has begun.
        """
        if self._backfill is not None and (self._backfill.midway or not stopping):
            order = self._backfill.next_emission(coordinator, processed)
            if order is not None:
                return order
        if stopping:
            return None
        return self._comparing.next_comparison(processed, reader_is_free=not self._backfills)

    def emitted(self, chunk: EmitChunk, seconds: float) -> None:
        """The sink has accepted the chunk."""
        assert self._backfill is not None
        self._backfill.emitted(chunk, seconds)

    def compared(self, differences: Differences) -> None:
        """The sink has said how the range differs."""
        self._comparing.compared(differences)
