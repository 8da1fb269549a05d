"""The desk of a verification: ranges of source and sink, compared at one exact position.

House rules: a range is a chunk that goes to nobody. Its view is pinned under the same rules as a
chunk's: while it is being pinned every change of the table waits, then those outside of its G; when
all of G is processed the sink holds exactly what the view shows, and is compared. No mark, no
cursor and no state is kept: what is lost begins again. A table that cannot be read at exact
positions is named with the reason, and the stream goes on.
"""

from collections import deque
from collections.abc import Iterable

import attrs

from capstan.core.changes import Item, Row
from capstan.core.gtid import GtidSet
from capstan.core.halts import Halted, HaltReason
from capstan.core.snapshot.chunk_capture import Capture, Stage, holders
from capstan.core.snapshot.ddl_reach import touches
from capstan.core.snapshot.orders import CompareRange, GrantPin, WantChunk, WantSurvey
from capstan.core.snapshot.primary_key import Key
from capstan.core.tables import TableName, TableShape
from capstan.core.verification import Differences, TableVerdict, Verification

VerifyOrder = WantSurvey | WantChunk | GrantPin | CompareRange

Surveyed = tuple[TableName, HaltReason | None]
"""A table, and why it cannot be read at exact positions."""


class VerifyDesk:
    """Decides for one verification."""

    def __init__(self) -> None:
        self._survey: list[Surveyed] | None = None
        self._asked = False
        self._waiting: deque[TableName] = deque()
        self._verdicts: dict[TableName, TableVerdict] = {}
        self._capture: Capture | None = None
        self._next: tuple[TableName, Key | None] | None = None
        self._ticket = 0
        self._reader: int | None = None
        self._stream_uuid: str | None = None

    @property
    def outcome(self) -> Verification | None:
        """The result; None before the end."""
        if self._survey is None or self._waiting or self._next or self._capture:
            return None
        ordered = sorted(self._verdicts.values(), key=lambda each: str(each.name))
        return Verification(tables=tuple(ordered))

    @property
    def active(self) -> bool:
        """Whether an item of the stream may have to wait."""
        return self._capture is not None

    def holds(self, item: Item) -> bool:
        """Whether this item, and all behind it, has to wait (D6)."""
        return self._capture is not None and any(
            touches(item, name.schema, name.table) for name in holders([self._capture], item.gtid)
        )

    # -- what is heard -------------------------------------------------------------------------

    def stream_on(self, server_uuid: str) -> None:
        """The stream was opened on this server; a view of another one is worth nothing."""
        self._stream_uuid = server_uuid
        capture = self._capture
        if capture is not None and capture.server_uuid not in (None, server_uuid):
            self._refuse(HaltReason.SNAPSHOT_SOURCE_MISMATCH)

    def reader_ready(self, incarnation: int) -> None:
        """A new reader can be asked; the range that the one before was at begins again."""
        if self._reader is not None and incarnation <= self._reader:
            return
        self._reader = incarnation
        self._asked = self._survey is not None
        self.interrupted()

    def interrupted(self) -> None:
        """The reader has turned to something else; the range that it was at begins again."""
        if self._capture is not None and self._capture.stage is not Stage.READ:
            self._next = (self._capture.table, self._capture.after)
            self._capture = None

    def surveyed(self, incarnation: int, tables: Iterable[Surveyed]) -> None:
        """The answer to `WantSurvey`."""
        if incarnation != self._reader or self._survey is not None:
            return
        self._survey = list(tables)
        for name, refused in self._survey:
            self._verdicts[name] = TableVerdict(name=name, refused=refused)
            if refused is None:
                self._waiting.append(name)

    def pin_asked(self, incarnation: int, ticket: int, server_uuid: str) -> None:
        """The reader is connected and wants to pin a view."""
        if (capture := self._outstanding(incarnation, ticket)) is not None:
            capture.wants_pin(server_uuid)
            if self._stream_uuid not in (None, server_uuid):
                self._refuse(HaltReason.SNAPSHOT_SOURCE_MISMATCH)

    def view_pinned(self, incarnation: int, ticket: int, position: GtidSet) -> None:
        """The view is there, and this is its G."""
        if (capture := self._outstanding(incarnation, ticket)) is not None:
            capture.pinned(position)

    def pin_missed(self, incarnation: int, ticket: int) -> None:
        """No view, or no more; the reader asks again."""
        if (capture := self._outstanding(incarnation, ticket)) is not None:
            capture.missed()

    def chunk_read(
        self, incarnation: int, ticket: int, shape: TableShape, rows: list[Row], *, final: bool
    ) -> None:
        """The rows of the pinned view."""
        capture = self._outstanding(incarnation, ticket)
        if capture is not None and capture.stage is Stage.PINNED:
            try:
                capture.read(shape, rows, final=final)
            except Halted as verdict:
                self._refuse(verdict.halt.reason)

    def capture_refused(self, incarnation: int, ticket: int, reason: HaltReason) -> None:
        """The reader cannot read this table any further."""
        if self._outstanding(incarnation, ticket) is not None:
            self._refuse(reason)

    def range_compared(self, differences: Differences) -> None:
        """The sink has been looked at."""
        capture = self._capture
        assert capture is not None
        verdict = self._verdicts[capture.table]
        self._verdicts[capture.table] = verdict.compared(len(capture.rows), differences)
        self._next = None if capture.final else (capture.table, capture.last_key)
        self._capture = None

    def give_up(self, reason: HaltReason) -> None:
        """The range that waits will not be reached; its table is done with."""
        if self._capture is not None:
            self._refuse(reason)

    def _outstanding(self, incarnation: int, ticket: int) -> Capture | None:
        capture = self._capture
        if capture is None or incarnation != self._reader or capture.ticket != ticket:
            return None
        return None if capture.stage is Stage.READ else capture

    def _refuse(self, reason: HaltReason) -> None:
        assert self._capture is not None
        name = self._capture.table
        self._verdicts[name] = attrs.evolve(self._verdicts[name], refused=reason)
        self._capture = self._next = None

    # -- orders --------------------------------------------------------------------------------

    def missing(self, processed: GtidSet) -> GtidSet | None:
        """What the range still waits for; None when none does."""
        capture = self._capture
        if capture is None or capture.stage is not Stage.READ or capture.position is None:
            return None
        return capture.position - processed or None

    def next_order(self, processed: GtidSet) -> VerifyOrder | None:
        """What is to be done next; to be asked again until it is None, while no batch is out."""
        if self._reader is None or self._stream_uuid is None:
            return None
        if self._survey is None:
            asked, self._asked = self._asked, True
            return None if asked else WantSurvey()
        if self._capture is None:
            return self._want_range()
        return self._go_on_with(self._capture, processed)

    def _want_range(self) -> WantChunk | None:
        if self._next is None:
            if not self._waiting:
                return None
            self._next = (self._waiting.popleft(), None)
        (table, after), self._next = self._next, None
        # Below zero: never taken for a chunk of the backfill.
        self._ticket -= 1
        self._capture = Capture(ticket=self._ticket, table=table, after=after)
        return WantChunk(ticket=self._ticket, table=table, key_columns=(), after=after)

    def _go_on_with(self, capture: Capture, processed: GtidSet) -> GrantPin | CompareRange | None:
        if capture.stage is Stage.WANTS_PIN:
            capture.stage = Stage.PINNING
            return GrantPin(capture.ticket, capture.table)
        if capture.stage is not Stage.READ or capture.shape is None or capture.position is None:
            return None
        if not capture.position <= processed:
            return None
        return CompareRange(
            shape=capture.shape, rows=capture.rows, after=capture.after, final=capture.final
        )
