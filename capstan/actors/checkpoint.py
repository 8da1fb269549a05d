"""The checkpoint: the only writer of the store, the only answer to "where do we stand?".

House rules: a position is answered only when the sink's own position has been reconciled with the
stored one (D12), and through the mailbox, so behind every earlier `Processed` (D15). What is in
memory is what is on disk: the write comes first.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from capstan.actors.messages import (
    CheckpointEnded,
    PositionIs,
    PositionWanted,
    Processed,
    SinkOpened,
    WatermarkMoved,
)
from capstan.core.gtid import GtidSet
from capstan.core.halts import Halted, HaltReason, halted
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
    """

    def __init__(self, store: Store, capture: CaptureList) -> None:
        super().__init__()
        self._store = store
        self._capture = capture
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
            self._compare_tables()

    def _compare_tables(self) -> None:
        accepted = self._store.load_tables()
        if accepted is not None and self._stored is not None:
            new = widened(accepted, self._capture.texts)
            if new:
                raise halted(HaltReason.CAPTURE_CONFIG_DRIFTED, f"new: {', '.join(new)}")
        self._tables_noted = accepted == self._capture.texts

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
                coordinator.send(PositionIs(self._reconcile(reported)))
            case PositionWanted(reply_to=asker):
                assert self._position is not None  # nobody asks before the sink is open
                asker.send(PositionIs(self._position))
            case Processed(reply_to=coordinator, position=told):
                assert self._position is not None
                self._persist(advanced(self._position, told))
                coordinator.send(WatermarkMoved(told))

    def _reconcile(self, reported: GtidSet | None) -> Position:
        """The position to start from; on disk before anybody hears it."""
        known = self._position or self._stored
        position = reconcile(known, reported)
        if position != known and position.watermark:
            self._persist(position)
        self._position = position
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
