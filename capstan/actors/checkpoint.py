"""The checkpoint: the only writer of the store, the only answer to "where do we stand?".

House rules: a position is answered only when the sink's own position has been reconciled with the
stored one (D12), and through the mailbox, so behind every earlier `Processed` (D15). What is in
memory is what is on disk: the write comes first.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import attrs

from capstan.actors.messages import (
    CheckpointEnded,
    PositionIs,
    PositionWanted,
    Processed,
    SaveSnapshot,
    SeedWanted,
    SinkOpened,
    SnapshotIs,
    SnapshotSaved,
    WatermarkMoved,
)
from capstan.core.gtid import GtidSet
from capstan.core.halts import Halted, HaltReason, halted
from capstan.core.snapshot.progress import SnapshotState
from capstan.core.tables import CaptureList, widened
from capstan.core.watermark import Position, advanced, reconcile
from capstan.runtime import Actor, Address
from capstan.stores.base import Store


class Checkpoint(Actor):
    """Keeps the durable position.

    Args:
        store: Where it is kept; held for one writer while this actor lives.
        capture: The capture list. It is compared with the one kept in the store, and kept itself
            once something is processed under it (D16).
        backfilled: The tables to be backfilled, when a backfill is configured: an empty store is
            seeded then.
    """

    def __init__(
        self, store: Store, capture: CaptureList, backfilled: CaptureList | None = None
    ) -> None:
        super().__init__()
        self._store = store
        self._capture = capture
        self._backfilled = backfilled
        self._snapshot: SnapshotState | None = None
        self._stored: Position | None = None
        self._position: Position | None = None
        self._coordinator: Address | None = None
        self._tables_noted = False

    def started(self) -> None:
        """Claim the store, read it, compare the capture list with the one last processed under."""
        with _store_failures():
            self._store.hold()
            watermark = self._store.load_watermark()
            if watermark is not None:
                self._stored = Position(
                    watermark=watermark,
                    anchor=self._store.load_anchor(),
                    sink_position=self._store.load_sink_position(),
                )
            if self._backfilled is not None:
                self._snapshot = self._store.load_snapshot()
            self._compare_tables()

    def _compare_tables(self) -> None:
        accepted = self._store.load_tables()
        if accepted is not None and self._stored is not None:
            new = widened(accepted, self._capture.texts)
            if new and not self._will_backfill(new):
                raise halted(HaltReason.CAPTURE_CONFIG_DRIFTED, f"new: {', '.join(new)}")
        self._tables_noted = accepted == self._capture.texts

    def _will_backfill(self, patterns: Sequence[str]) -> bool:
        """Whether the past of these tables is still to be read, by a backfill not yet begun."""
        if self._backfilled is None or self._snapshot is not None:
            return False
        return not widened(self._backfilled.texts, tuple(patterns))

    def stopped(self) -> None:
        """Let the store go, unless the coordinator still lives: then it does, when it ends."""
        if self._coordinator is None or not self._coordinator.send(CheckpointEnded()):
            with _store_failures():
                self._store.close()

    def receive(self, message: object) -> None:
        """One step of the conversation."""
        match message:
            case SinkOpened(reply_to=coordinator, position=reported):
                self._coordinator = coordinator
                self._position = self._reconcile(reported)
                if self._backfilled is not None:
                    coordinator.send(SnapshotIs(self._snapshot))
                self._tell_position(coordinator)
            case PositionWanted(reply_to=asker):
                self._tell_position(asker)
            case SeedWanted(reply_to=asker, executed=executed):
                self._seed(executed)
                self._tell_position(asker)
            case Processed(reply_to=coordinator, position=told):
                assert self._position is not None
                self._persist(advanced(self._position, told))
                coordinator.send(WatermarkMoved(told))
            case SaveSnapshot(reply_to=coordinator, state=state):
                with _store_failures():
                    self._store.save_snapshot(state)
                self._snapshot = state
                coordinator.send(SnapshotSaved(state))

    @property
    def _seed_wanted(self) -> bool:
        assert self._position is not None
        if self._backfilled is None:
            return False
        return self._stored is None and not self._position.watermark

    def _tell_position(self, asker: Address) -> None:
        assert self._position is not None  # nobody asks before the sink is open
        asker.send(PositionIs(self._position, self._seed_wanted))

    def _seed(self, executed: GtidSet) -> None:
        """Begin at P0; a position that is there stays (R67)."""
        if self._seed_wanted:
            assert self._position is not None
            assert self._coordinator is not None
            self._stored = attrs.evolve(self._position, watermark=executed)
            self._persist(self._stored)
            self._tell_position(self._coordinator)

    def _reconcile(self, reported: GtidSet | None) -> Position:
        """The position to start from; on disk before anybody hears it."""
        known = self._position or self._stored
        position = reconcile(known, reported)
        if position != known and position.watermark:
            self._persist(position)
        return position

    def _persist(self, position: Position) -> None:
        with _store_failures():
            if not self._tables_noted:
                self._store.save_tables(self._capture.texts)
                self._tables_noted = True
            self._store.save_watermark(position.watermark, position.anchor, position.sink_position)
        self._position = position


@contextmanager
def _store_failures() -> Iterator[None]:
    try:
        yield
    except Halted:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a host's store raises, the text may hold values
        raise halted(HaltReason.STORE_FAILED, type(error).__name__) from None
