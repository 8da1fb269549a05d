"""The wiring: a configuration becomes the specification of a supervision tree.

House rules: with `pipeline` the only place that knows every room. Here is who exists, who is told
about whom, and with which limits; nothing is started, decided or looked at.
"""

from collections.abc import Callable
from typing import Final

from capstan.actors.assembler import Assembler
from capstan.actors.backfill import BackfillSettings
from capstan.actors.checkpoint import Checkpoint
from capstan.actors.chunk_reader import ChunkReader, ReaderSettings
from capstan.actors.connection import Connection, StreamSettings
from capstan.actors.coordinator import BUSY_WITH_SINK, Coordinator
from capstan.actors.reading import ReadingSettings
from capstan.config import Config, Snapshot
from capstan.core.assembly import Fold
from capstan.core.halts import Halt, HaltReason
from capstan.core.limits import Budget
from capstan.runtime import Actor
from capstan.sources.base import Source, ViewSource
from capstan.sources.exact_view import ExactViewSource
from capstan.sources.live import LiveSource
from capstan.sources.redial import Redial, Settling, recapture_wait
from capstan.spool import SpoolFolder
from capstan.supervision.child import ChildSpec, SupervisorSpec, Watch
from capstan.supervision.intensity import Intensity
from capstan.supervision.roster import Roster
from capstan.supervision.strategy import Strategy
from capstan.telemetry.board import Board
from capstan.telemetry.hooks import Hooks

CREDIT_PIECES: Final = 4
"""Pieces of about 128 KiB that may be unsettled at once: fewer leave the sink waiting for the
socket, more only hold memory (measured: no gain beyond four)."""

RESTARTS: Final = Intensity(restarts=5, seconds=120.0)
START_WITHIN: Final = 20.0
STOP_TIMEOUT: Final = 30.0
GRACE: Final = 2.0


class Wiring:
    """Who exists in one pipeline.

    Args:
        config: What to read, where to, and how.
        board: Where figures are shown.
        hooks: Who is told.
        source: Another source than the live server of the configuration.
        views: Another source of views, likewise.
        verifies: Whether there is a chunk reader without a backfill, too.

    Attributes:
        spools: Where transactions too large for memory lie.
    """

    def __init__(
        self,
        config: Config,
        board: Board,
        hooks: Hooks,
        source: Source | None = None,
        views: ViewSource | None = None,
        *,
        verifies: bool = False,
    ) -> None:
        self._config = config
        self._board = board
        self._hooks = hooks
        self._source = source
        self._views = views
        self._reader = config.snapshot or (Snapshot() if verifies else None)
        self.spools = SpoolFolder(config.limits.spool_dir)

    def spec(self) -> SupervisorSpec:
        """The whole tree, downstream first."""
        delivery = self._config.delivery
        stalled = Halt(
            HaltReason.SINK_STALLED, f"a call has not returned for {delivery.sink_timeout:g} s"
        )
        backfill = () if self._reader is None else (self._backfill(self._reader),)
        return SupervisorSpec(
            id="capstan",
            strategy=Strategy.REST_FOR_ONE,
            intensity=RESTARTS,
            children=(
                _child("checkpoint", self._checkpoint),
                _child(
                    "coordinator",
                    self._coordinator,
                    watches=(Watch(BUSY_WITH_SINK, delivery.sink_timeout, stalled),),
                ),
                SupervisorSpec(
                    id="stream",
                    strategy=Strategy.REST_FOR_ONE,
                    intensity=RESTARTS,
                    children=(
                        _child("assembler", self._assembler),
                        _child("connection", self._connection, shutdown=0.0),
                    ),
                ),
                *backfill,
            ),
        )

    def _backfill(self, snapshot: Snapshot) -> SupervisorSpec:
        def reader(roster: Roster) -> Actor:
            return self._chunk_reader(snapshot, roster)

        return SupervisorSpec(
            id="backfill",
            strategy=Strategy.ONE_FOR_ONE,
            intensity=RESTARTS,
            children=(_child("chunk_reader", reader, shutdown=0.0),),
        )

    def _checkpoint(self, _roster: Roster) -> Actor:
        config = self._config
        backfilled = None if config.snapshot is None else config.snapshot_tables
        return Checkpoint(config.store, config.tables, backfilled)

    def _coordinator(self, roster: Roster) -> Actor:
        # All that an earlier life had, delivered or not, comes again from the source.
        self.spools.close_all()
        return Coordinator(
            self._config.sink,
            roster["checkpoint"],
            self._config.store.close,
            self._config.delivery.max_batch,
            self._board,
            self._hooks,
            self._reading_settings(),
        )

    def _reading_settings(self) -> ReadingSettings | None:
        if self._reader is None:
            return None
        snapshot, backfill = self._config.snapshot, None
        if snapshot is not None:
            backfill = BackfillSettings(
                patterns=self._config.snapshot_tables.texts,
                gate_timeout=snapshot.gate_timeout,
                redoes_altered=snapshot.on_alter == "backfill",
            )
        return ReadingSettings(backfill=backfill, gate_timeout=self._reader.gate_timeout)

    def _assembler(self, roster: Roster) -> Actor:
        limits = self._config.limits
        budget = Budget(memory=limits.transaction_memory, total=limits.transaction_bytes)
        fold = Fold(self._config.tables, budget, self.spools.open)
        return Assembler(fold, roster["coordinator"], CREDIT_PIECES)

    def _connection(self, roster: Roster) -> Actor:
        source = self._config.source
        return Connection(
            self._source or live_source(self._config),
            roster["assembler"],
            roster["checkpoint"],
            StreamSettings(
                capture=self._config.tables,
                server_id=source.server_id,
                accepted_cascades=source.accept_unlogged_cascades,
                allowed_sources=source.allowed_sources,
                liveness_timeout=source.liveness_timeout,
                patience=lambda: Settling(source.settle_timeout),
            ),
            Redial(source.reconnect_attempts),
            self._board,
            self._hooks,
        )

    def _chunk_reader(self, snapshot: Snapshot, roster: Roster) -> Actor:
        config = self._config
        return ChunkReader(
            self._views or view_source(config, snapshot),
            roster["coordinator"],
            ReaderSettings(
                chunk_size=snapshot.chunk_size,
                chunk_bytes=snapshot.chunk_bytes,
                rows_per_second=snapshot.rows_per_second,
            ),
            Redial(config.source.reconnect_attempts),
            Redial(snapshot.retries, recapture_wait(snapshot.lock_wait)),
            self._board,
            self._hooks,
        )


def live_source(config: Config) -> Source:
    """The configured server, as the stream and `capstan check` see it."""
    return LiveSource(
        config.source, config.tables, write_timeout=config.delivery.sink_timeout + GRACE
    )


def view_source(config: Config, snapshot: Snapshot) -> ViewSource:
    """The configured server, as the chunk reader sees it."""
    patterns = config.tables if config.snapshot is None else config.snapshot_tables
    return ExactViewSource(config.source, snapshot, config.tables, patterns)


def _child(
    id_: str,
    start: Callable[[Roster], Actor],
    *,
    shutdown: float = STOP_TIMEOUT,
    watches: tuple[Watch, ...] = (),
) -> ChildSpec:
    return ChildSpec(
        id=id_,
        start=start,
        shutdown=shutdown,
        grace=GRACE,
        start_within=START_WITHIN,
        watches=watches,
    )
