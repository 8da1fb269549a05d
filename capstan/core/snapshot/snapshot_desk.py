"""The backfill's desk: what is read next, what the stream waits for, when a chunk goes out.

House rules: the coordinator's twin. Told what happened, it answers with orders, one at a time; no
sink, store, server or clock is known here. Chunks go out in the order in which they were asked for;
at most one is read ahead. A chunk goes out when all of its G is processed and on disk (R104), in
three steps: its mark on disk, the sink, the cursor on disk; no item of the stream passes meanwhile.
What an older reader says is dropped. What was captured on another server than the stream's is
thrown away, and the backfill halts (D3).
"""

from collections.abc import Iterable
from enum import Enum, auto
from typing import Final

import attrs

from capstan.core.changes import Item, Row, SchemaChangeGroup
from capstan.core.gtid import GtidSet
from capstan.core.halts import HaltReason, halted
from capstan.core.snapshot.chunk_capture import Capture, Stage, first_position, holders
from capstan.core.snapshot.ddl_reach import names_table, touches
from capstan.core.snapshot.key_gate import Marks, gated
from capstan.core.snapshot.orders import (
    EmitChunk,
    GrantPin,
    Order,
    SaveState,
    WantChunk,
    WantTables,
)
from capstan.core.snapshot.primary_key import Key, require_key
from capstan.core.snapshot.progress import (
    SnapshotState,
    TableProgress,
    canonical,
    check_drift,
    resolved,
    shape_digest,
)
from capstan.core.tables import TableName, TableShape

_READ_AHEAD: Final = 1


class _Step(Enum):
    """Where an exclusive step stands: nothing of the stream is taken outside of NONE."""

    NONE = auto()
    SETTLING = auto()
    MARKING = auto()
    MARKED = auto()
    EMITTING = auto()
    MOVING = auto()


class SnapshotDesk:
    """Decides for one backfill.

    Args:
        patterns: The configured list of tables.
        state: What the store holds; None when the backfill has not begun.

    Raises:
        Halted: `snapshot_config_drifted`, also when the backfill is complete (R161).
    """

    def __init__(self, patterns: Iterable[str], state: SnapshotState | None) -> None:
        self._patterns = canonical(patterns)
        if state is not None:
            check_drift(state, self._patterns)
        self._captures: list[Capture] = []
        self._ticket = 0
        self._reader: int | None = None
        self._reader_uuid: str | None = None
        self._stream_uuid: str | None = None
        self._asked_for_tables = False
        self._step = _Step.NONE
        self._to_save: SnapshotState | None = None
        self._saving: SnapshotState | None = None
        self._redo: list[TableName | None] = []
        self.suppressed = 0
        self._adopt(state)

    def _adopt(self, state: SnapshotState | None) -> None:
        """What is on disk is what the stream is judged by."""
        self._state = state
        self._marks = {
            (each.schema, each.table): Marks(each.key_columns, each.cursor, each.delivered)
            for each in (() if state is None else state.tables)
            if not each.complete
        }

    @property
    def state(self) -> SnapshotState | None:
        """What is on disk; None before the tables are resolved."""
        return self._state

    @property
    def active(self) -> bool:
        """Whether something is left to do; if not, items need not be shown to this desk."""
        return self._state is None or bool(self._marks)

    @property
    def exclusive(self) -> bool:
        """Whether nothing of the stream may be taken now."""
        return self._state is None or self._step is not _Step.NONE

    # -- the stream ----------------------------------------------------------------------------

    def stream_on(self, server_uuid: str) -> None:
        """The stream was opened on this server; what comes from now on is its.

        Raises:
            Halted: `snapshot_source_mismatch` when the reader is on, or captured on, another one.
        """
        self._stream_uuid = server_uuid
        self._compare_servers()

    def holds(self, item: Item) -> bool:
        """Whether this item, and all behind it, has to wait (D6)."""
        if self.exclusive:
            return True
        return any(
            touches(item, name.schema, name.table) for name in holders(self._captures, item.gtid)
        )

    def judged(self, item: Item) -> Item:
        """The item as the sink may see it: the same, or with the changes that pass the gate.

        Raises:
            Halted: `snapshot_schema_drifted` (D9). What stands before the item is to be delivered
                and persisted first.
        """
        if isinstance(item, SchemaChangeGroup):
            self._judge_schema_changes(item)
            return item
        changes, suppressed = gated(item.changes, self._marks)
        self.suppressed += suppressed
        return item if changes is item.changes else attrs.evolve(item, changes=changes)

    def _judge_schema_changes(self, group: SchemaChangeGroup) -> None:
        """A DDL is behind the backfill when every captured chunk shows its effect (D9)."""
        for progress in () if self._state is None else self._state.tables:
            if progress.complete:
                continue
            first = first_position(progress, self._captures)
            if first is None or group.gtid in first:
                continue
            if any(names_table(each, progress.schema, progress.table) for each in group.changes):
                kinds = ", ".join(sorted({each.kind for each in group.changes}))
                raise halted(
                    HaltReason.SNAPSHOT_SCHEMA_DRIFTED,
                    f"{progress.name}: {kinds} under {group.gtid}",
                )

    # -- the reader ----------------------------------------------------------------------------

    def reader_ready(self, incarnation: int) -> None:
        """A new reader can be asked; what the one before had not finished is lost."""
        if self._reader is not None and incarnation <= self._reader:
            return
        self._reader, self._reader_uuid = incarnation, None
        self._asked_for_tables = False
        self._captures = [each for each in self._captures if each.stage is Stage.READ]

    def tables_resolved(
        self, incarnation: int, server_uuid: str, tables: Iterable[TableName]
    ) -> None:
        """The answer to `WantTables`.

        Raises:
            Halted: `config_invalid`, `snapshot_source_mismatch`.
        """
        if incarnation != self._reader or self._state is not None or self._to_save is not None:
            return
        self._meet_reader(server_uuid)
        self._save(resolved(self._patterns, tables), _Step.SETTLING)

    def pin_asked(self, incarnation: int, ticket: int, server_uuid: str) -> None:
        """The reader is connected and wants to pin a view; `GrantPin` answers.

        Raises:
            Halted: `snapshot_source_mismatch`.
        """
        capture = self._outstanding(incarnation, ticket)
        if capture is not None:
            capture.wants_pin(server_uuid)
            self._meet_reader(server_uuid)

    def view_pinned(self, incarnation: int, ticket: int, position: GtidSet) -> None:
        """The view is there, and this is its G."""
        capture = self._outstanding(incarnation, ticket)
        if capture is not None:
            capture.pinned(position)

    def pin_missed(self, incarnation: int, ticket: int) -> None:
        """No view, or no more; the reader asks again."""
        capture = self._outstanding(incarnation, ticket)
        if capture is not None:
            capture.missed()

    def chunk_read(
        self,
        incarnation: int,
        ticket: int,
        shape: TableShape,
        rows: list[Row],
        *,
        final: bool,
    ) -> None:
        """The rows of the pinned view.

        Args:
            incarnation: The reader's.
            ticket: The capture's.
            shape: The table as the view shows it.
            rows: In key order, without the one that was looked at to see whether there are more.
            final: Whether there are no more.

        Raises:
            Halted: `snapshot_schema_drifted`, `snapshot_chunk_read_failed`,
                `snapshot_table_no_primary_key`, `snapshot_pk_unsupported_type`.
        """
        capture = self._outstanding(incarnation, ticket)
        if capture is not None and capture.stage is Stage.PINNED:
            require_key(shape)
            self._check_shape(capture.table, shape)
            capture.read(shape, rows, final=final)

    def _outstanding(self, incarnation: int, ticket: int) -> Capture | None:
        """The capture the reader is at; None for what is no longer wanted."""
        if incarnation != self._reader or not self._captures:
            return None
        last = self._captures[-1]
        return last if last.ticket == ticket and last.stage is not Stage.READ else None

    def _meet_reader(self, server_uuid: str) -> None:
        self._reader_uuid = server_uuid
        self._compare_servers()

    def _compare_servers(self) -> None:
        """Reader, captures and stream must be on one server (R153-R155, D3)."""
        if self._stream_uuid is None or not self.active:
            return
        others = {self._reader_uuid, *(each.server_uuid for each in self._captures)}
        others -= {None, self._stream_uuid}
        if others:
            self._captures.clear()
            raise halted(
                HaltReason.SNAPSHOT_SOURCE_MISMATCH,
                f"the stream is on {self._stream_uuid}, the backfill on {others.pop()}",
            )

    def _check_shape(self, table: TableName, shape: TableShape) -> None:
        """All chunks of a table have one shape."""
        progress = self._progress(table)
        earlier = [each.shape for each in self._captures if each.table == table and each.shape]
        known = {shape_digest(each) for each in earlier}
        if progress.sequence:
            known.add(progress.shape_digest)
        if known - {shape_digest(shape)}:
            raise halted(HaltReason.SNAPSHOT_SCHEMA_DRIFTED, f"{table}: other columns or key")

    def _progress(self, table: TableName) -> TableProgress:
        progress = None if self._state is None else self._state.find(table)
        assert progress is not None
        return progress

    # -- orders --------------------------------------------------------------------------------

    def redo(self, table: TableName | None = None) -> None:
        """Backfill one table, or all, again from the start, as soon as nothing is under way.

        Raises:
            ValueError: When the backfill does not hold this table.
        """
        if self._state is not None:
            self._state.redone(table)
            self._redo.append(table)

    def next_order(self, processed: GtidSet, *, settled: bool) -> Order | None:
        """What is to be done next; to be asked again until it is None.

        Args:
            processed: The durable watermark.
            settled: Whether no batch of the stream is out.
        """
        return self._order_to_reader() or self._exclusive_order(processed, settled=settled)

    def missing(self, processed: GtidSet) -> GtidSet | None:
        """What the chunk that stands first still waits for; None when none does (D6)."""
        if self._step is not _Step.NONE or not self._captures:
            return None
        head = self._captures[0]
        if head.stage is not Stage.READ or head.position is None:
            return None
        return head.position - processed or None

    def _order_to_reader(self) -> Order | None:
        if self._reader is None:
            return None
        if self._state is None:
            asked, self._asked_for_tables = self._asked_for_tables, True
            return None if asked else WantTables(self._patterns)
        last = self._captures[-1] if self._captures else None
        if last is not None and last.stage is not Stage.READ:
            if last.stage is not Stage.WANTS_PIN or self._stream_uuid is None:
                return None
            last.stage = Stage.PINNING
            return GrantPin(last.ticket, last.table)
        return self._want_chunk() if len(self._captures) <= _READ_AHEAD else None

    def _want_chunk(self) -> Order | None:
        """The next portion of the first table that has one."""
        assert self._state is not None
        if self._redo or self._step is _Step.SETTLING:
            # The cursors known here are those from before the table was put back.
            return None
        for progress in self._state.tables:
            own = [each for each in self._captures if each.table == progress.name]
            if progress.complete or (own and own[-1].final):
                continue
            after: Key | None = own[-1].last_key if own else progress.cursor
            self._ticket += 1
            self._captures.append(Capture(ticket=self._ticket, table=progress.name, after=after))
            return WantChunk(
                ticket=self._ticket,
                table=progress.name,
                key_columns=progress.key_columns,
                after=after,
            )
        return None

    def _exclusive_order(self, processed: GtidSet, *, settled: bool) -> Order | None:
        if self._to_save is not None:
            self._saving, self._to_save = self._to_save, None
            return SaveState(self._saving)
        if self._step is _Step.MARKED:
            self._step = _Step.EMITTING
            head = self._captures[0]
            return EmitChunk(head.changes(), head.meta(self._progress(head.table)))
        if self._step is not _Step.NONE or self._state is None or not settled:
            return None
        if self._redo:
            return self._begin_redo(self._state)
        return self._begin_emission(self._state, processed)

    def _begin_redo(self, state: SnapshotState) -> Order | None:
        for table in self._redo:
            state = state.redone(table)
            self._captures = [each for each in self._captures if table not in (None, each.table)]
        self._redo.clear()
        self._save(state, _Step.SETTLING)
        return self._exclusive_order(GtidSet(), settled=True)

    def _begin_emission(self, state: SnapshotState, processed: GtidSet) -> Order | None:
        if not self._captures or self._captures[0].stage is not Stage.READ:
            return None
        head = self._captures[0]
        if head.position is None or not head.position <= processed:
            return None
        progress = self._progress(head.table).marked(head.mark())
        self._save(state.replaced(progress), _Step.MARKING)
        return self._exclusive_order(processed, settled=True)

    def _save(self, state: SnapshotState, step: _Step) -> None:
        self._to_save, self._step = state, step

    def chunk_emitted(self) -> None:
        """The sink has accepted the chunk."""
        assert self._step is _Step.EMITTING
        assert self._state is not None
        head = self._captures[0]
        progress = self._progress(head.table).moved(head.mark())
        self._save(self._state.replaced(progress), _Step.MOVING)

    def state_saved(self, state: SnapshotState) -> None:
        """This state is on disk."""
        if state != self._saving:
            return
        self._saving = None
        if self._step is _Step.MOVING:
            del self._captures[0]
        self._step = _Step.MARKED if self._step is _Step.MARKING else _Step.NONE
        self._adopt(state)
