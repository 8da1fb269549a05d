"""The fold: binlog events → whole transactions and schema changes. Sans-IO; ADR-0003.

House rules: what may follow what stands in `shapes`, what is done then stands here. Nothing leaves
before its terminator; a halt throws away what is half-built, keeps what was finished before it, and
is final until a new epoch is opened. Names and types of rows come from the table map before them;
no statement is ever needed to read a row, and no statement's text outlives its event.

How it works: `open()` begins an epoch at a watermark, `feed()` takes whole events and returns what
they finished. Its loop is the hot path: header, checksum, one look in the table, one action.
"""

from collections.abc import Callable
from struct import Struct
from struct import error as too_short
from typing import Final
from zlib import crc32

import attrs

from capstan.core.binlog import checksum, log_events, payload, statements
from capstan.core.binlog.checksum import RESIDUE, STEP
from capstan.core.binlog.framing import Packets
from capstan.core.binlog.header import IGNORABLE, SIZE, EventType, type_name, unpack_header
from capstan.core.binlog.log_events import corrupt
from capstan.core.changes import (
    NO_CHANGES,
    ChunkedChanges,
    Committed,
    Item,
    PositionLog,
    SchemaChangeGroup,
    Transaction,
)
from capstan.core.dispatch import Action, Row, dispatch_rows
from capstan.core.epoch import Epoch
from capstan.core.gtid import GtidAccumulator, GtidSet
from capstan.core.halts import Halt, Halted, HaltReason, halted
from capstan.core.limits import Budget
from capstan.core.one_statement import ShortCut
from capstan.core.row_keeping import RowKeeper
from capstan.core.schema_naming import Namer
from capstan.core.shapes import SHAPES, STATEMENT_SHAPES, Cell, Shape, State
from capstan.core.spooling import OpenSpool, SpooledChanges, nowhere
from capstan.core.tables import CaptureList
from capstan.core.watermark import Anchor

_WRAP: Final = 0xFFFFFFFF
_QUERY: Final = int(EventType.QUERY)
_BEHIND_SESSION: Final = SIZE + 8
"""Where a QUERY's bytes begin that are the same in every session: behind thread and duration."""
_SECONDS: Final = Struct("<I").unpack_from


class _GivenUpError(Exception):
    """Whoever feeds the fold wants to end; never leaves it."""


class Fold(RowKeeper):
    """Assembles one stream after another for one capture list.

    Args:
        capture: The capture list.
        budget: What one transaction may take.
        open_spool: Opens a place for what is over the memory budget.

    Attributes:
        halt: The verdict, once there is one.
        given_up: Asked now and then while one event keeps the fold busy: whether to drop it.
    """

    _group: Committed
    _statement: statements.Statement
    _carried_out: bool

    def __init__(
        self, capture: CaptureList, budget: Budget, open_spool: OpenSpool = nowhere
    ) -> None:
        super().__init__(capture, budget, open_spool)
        self.halt: Halt | None = None
        self.given_up: Callable[[], bool] = lambda: False
        self._rows = dispatch_rows(self._bound)
        self._outside = self._rows[State.OUTSIDE]
        self._short_cut = ShortCut(self._known, self._rows[State.STARTED].is_begin, budget)
        self.open(Epoch(start=GtidSet(), server_uuid=""))

    def _bound(self, cell: Cell, code: int) -> Action:
        """The action of a cell for one event type."""
        if cell.action == "buffer_rows":
            return self._buffer_rows(code)
        action: Action = getattr(self, f"_{cell.action}")
        return action

    def open(self, epoch: Epoch) -> None:
        """Begin a new epoch; what an older one left half-built is gone, a halt included."""
        self.close()
        self.halt = None
        self._epoch = epoch
        self._namer = Namer(self._capture, epoch.folds_names)
        self._anchor = epoch.anchor
        self._checksums = epoch.checksums
        self._processed = GtidAccumulator(epoch.start)
        self._log: PositionLog | None = None
        self._out: list[Item] = []
        self._offset = 0

    def close(self) -> None:
        """Throw the half-built away, and whatever it holds outside memory."""
        self._row = self._rows[State.UNOPENED]
        self._discard()
        self._drop_spool()

    @property
    def building(self) -> bool:
        """Whether a transaction is under way."""
        return self._row.inside

    def feed(self, packets: Packets) -> list[Item]:
        """Take whole events; return what they finished, in order.

        A halt met on the way is left in `halt` and the items finished before it are returned.

        Raises:
            Halted: When the fold was halted before.
        """
        if self.halt is not None:
            raise Halted(self.halt)
        self._log = None
        try:
            self._run(packets)
        except Halted as verdict:
            self._latch(verdict.halt)
        except too_short:
            # Lengths are looked at before they are used, but for the header's own.
            self._latch(corrupt("an event shorter than its header").halt)
        except _GivenUpError:
            self.close()
        finished, self._out = self._out, []
        return finished

    def _latch(self, halt: Halt) -> None:
        if self._in_group:
            halt = attrs.evolve(halt, detail=f"{halt.detail}; under {self._group.gtid}")
        self.halt = halt
        self.close()
        self._row = self._rows[State.HALTED]

    def _run(self, packets: Packets) -> None:
        place, last = 0, len(packets.bounds) - 1
        while place < last:
            if self._may_be_short(packets, place):
                log = self._position_log()
                place, self._offset = self._short_cut.take(
                    packets, place, self._offset, self._processed, log, self._out
                )
            place = self._take_events(packets, place)

    def _may_be_short(self, packets: Packets, place: int) -> bool:
        """Whether the short cut is open: between transactions, with nothing to look for."""
        between = self._row is self._outside and self._anchor is None
        return between and self._checksums and self._short_cut.worth_a_try(packets, place)

    def _take_events(self, packets: Packets, place: int) -> int:
        """Take one event after the other up to the end of a group; this loop is hot.

        Returns:
            The place of the first event that was not taken.
        """
        data, bounds, gap = packets.data, packets.bounds, packets.gap
        row, offset, checksums, outside = self._row, self._offset, self._checksums, self._outside
        while place + 1 < len(bounds):
            start = bounds[place]
            code, size, log_pos, flags = unpack_header(data, start)
            end = start + size
            place += 1
            if end + gap != bounds[place] or size < SIZE:
                raise corrupt(f"{type_name(code)} of another size than its packet")
            if checksums:
                # Most events are small: those are checked without another call.
                if (
                    crc32(data[start:end]) != RESIDUE
                    if size <= STEP
                    else not checksum.intact(data, start, end)
                ):
                    raise corrupt(f"{type_name(code)} with a wrong checksum")
                end -= 4
            cell = row.by_type[code]
            if cell is None:
                if code == _QUERY:
                    cell = row.by_body.get(data[start + _BEHIND_SESSION : end])
                cell = cell or self._look_closer(row, code, flags, data, start, end)
            if log_pos - size == offset:
                offset = log_pos
            elif log_pos:
                self._look_at_jump(row, code, (log_pos - size) & _WRAP, offset)
                offset = log_pos
            row, action = cell
            override = action(data, start + SIZE, end)
            if override is not None:
                row, checksums = self._rows[override], self._checksums
            if row is outside:
                break
        self._row, self._offset = row, offset
        return place

    def _look_at_jump(self, row: Row, code: int, begins: int, expected: int) -> None:
        """Events of a group follow each other; between groups a dump may leave some out."""
        if row.inside and begins != expected:
            raise halted(HaltReason.EVENT_ORDER_INVALID, f"a gap before {type_name(code)}")

    def _look_closer(
        self, row: Row, code: int, flags: int, data: bytes, start: int, end: int
    ) -> tuple[Row, Action]:
        """The cell of an event whose type alone does not tell: a query, or an unknown one."""
        if code == _QUERY:
            cell = row.by_text.get(log_events.query_text(data, start + SIZE, end))
            if cell is not None:
                row.remember(data[start + _BEHIND_SESSION : end], cell)
                return cell
            shape = self._read_query(data, start + SIZE, end)
        else:
            shape = SHAPES.get(code) or _unknown(code, flags)
        cell = row.by_shape.get(shape)
        if cell is None:
            raise halted(HaltReason.EVENT_ORDER_INVALID, f"{shape.value} {row.state.value}")
        return cell

    def _read_query(self, data: bytes, start: int, end: int) -> Shape:
        try:
            query = log_events.read_query(data, start, end)
            self._statement = statements.classify_query(query)
        except statements.StatementError:
            raise halted(HaltReason.UNDECODABLE_TEXT, "the names in a statement") from None
        create_select = self._statement.kind is statements.StatementKind.CREATE_SELECT
        self._carried_out = query.ddl_xid or create_select
        return STATEMENT_SHAPES[self._statement.kind]

    # -- files ---------------------------------------------------------------------------------

    def _pass_over(self, _data: bytes, _start: int, _end: int) -> None:
        """Nothing to do: the shape alone mattered."""

    def _note_format(self, data: bytes, start: int, end: int) -> State:
        """A file begins; its description has a CRC32 whatever its events have (D23)."""
        if not self._checksums:
            if not checksum.intact(data, start - SIZE, end):
                raise corrupt("FORMAT_DESCRIPTION with a wrong checksum")
            end -= 4
        self._checksums = log_events.read_format_description(data, start, end).checksums
        self._discard()
        return State.OUTSIDE

    def _note_rotate(self, data: bytes, start: int, end: int) -> None:
        """The next file's name: table ids of this one mean nothing there."""
        log_events.read_rotate(data, start, end)
        self._discard()

    def _note_previous_gtids(self, data: bytes, start: int, end: int) -> None:
        """What the files before this one hold: only that it can be read is of interest."""
        log_events.read_previous_gtids(data, start, end)

    # -- groups --------------------------------------------------------------------------------

    def _begin_group(self, data: bytes, start: int, end: int) -> State | None:
        """Remember who the group is; the anchor's group is passed over instead (D13)."""
        self._group = group = log_events.read_gtid(data, start, end)
        self._in_group = True
        if self._anchor is None and group.commit_micros:
            return None
        return self._look_at_group(data, start)

    def _begin_tagged_group(self, data: bytes, start: int, end: int) -> State | None:
        """Do the same for a GTID with a tag (D22)."""
        self._group = log_events.read_tagged_gtid(data, start, end)
        self._in_group = True
        return self._look_at_group(data, start)

    def _look_at_group(self, data: bytes, start: int) -> State | None:
        if self._group.commit_micros == 0:
            (seconds,) = _SECONDS(data, start - SIZE)
            micros = seconds * 1_000_000
            self._group = self._group._replace(commit_micros=micros, arrived_micros=micros)
        return None if self._anchor is None else self._meet_anchor(self._anchor, self._group)

    def _meet_anchor(self, anchor: Anchor, group: Committed) -> State | None:
        """The anchored transaction must come by again, unchanged; its group is passed over."""
        same_server = anchor.server_uuid == self._epoch.server_uuid
        if group.gtid != anchor.gtid:
            if same_server:
                raise _history_changed(f"the stream does not begin with {anchor.gtid}")
            return None
        if group.commit_micros != anchor.commit_micros or (
            same_server and group.arrived_micros != anchor.arrived_micros
        ):
            raise _history_changed(f"another transaction stands under {anchor.gtid}")
        self._anchor = None
        return State.SKIPPING

    def _open_block(self, _data: bytes, _start: int, _end: int) -> None:
        """BEGIN or XA START: rows may follow; nothing is out before the terminator."""

    def _release(self, _data: bytes, _start: int, _end: int) -> None:
        """The terminator: the transaction leaves whole, empty or not (R1, R2, R34)."""
        log, index = self._advance()
        held, ddl = self._rows_held, self._ddl
        if not held:
            changes = NO_CHANGES
        elif self._spool is None:
            changes = ChunkedChanges(self._chunks, held)
        else:
            changes = self._spooled_changes(self._spool)
        if ddl is not None:
            self._out.append(self._schema_group(ddl, log, index, rows_follow=bool(held)))
        if held or ddl is None:
            self._out.append(Transaction(self._group, changes, log, index))
        self._discard()

    def _release_rolled_back(self, data: bytes, start: int, end: int) -> None:
        """Release a block without rows as empty; one with rows is refused (D18)."""
        if self._rows_held or self._ddl is not None:
            raise halted(
                HaltReason.UNSUPPORTED_TRANSACTION_SHAPE, "ROLLBACK of a block that holds rows"
            )
        self._release(data, start, end)

    def _take_ddl(self, _data: bytes, _start: int, _end: int) -> None:
        """A self-committing statement: its schema changes leave and its GTID moves (R5, R6)."""
        log, index = self._advance()
        self._out.append(self._schema_group(self._statement, log, index, rows_follow=False))
        self._discard()

    def _take_ddl_with_rows(self, _data: bytes, _start: int, _end: int) -> None:
        """CREATE TABLE … SELECT: kept until the terminator of its rows (D20)."""
        self._ddl = self._statement

    def _advance(self) -> tuple[PositionLog, int]:
        """Put the group's GTID into the processed set."""
        log, group = self._position_log(), self._group
        if not self._processed.add(group.uuid, group.tag, group.number):
            raise _history_changed(f"{group.gtid} was not asked for, or came twice")
        log.run.append(group)
        return log, len(log.run) - 1

    def _position_log(self) -> PositionLog:
        if self._log is None:
            self._log = PositionLog(self._processed.freeze())
        return self._log

    def _schema_group(
        self, statement: statements.Statement, log: PositionLog, index: int, *, rows_follow: bool
    ) -> SchemaChangeGroup:
        return SchemaChangeGroup(
            self._group,
            self._namer.changes(
                statement,
                self._group,
                position=log.before(index) if rows_follow else log.at(index),
                carried_out=self._carried_out,
            ),
            rows_follow,
        )

    # -- savepoints ----------------------------------------------------------------------------

    def _mark_savepoint(self, _data: bytes, _start: int, _end: int) -> None:
        """Remember how many rows stood before the savepoint (D19)."""
        self._savepoints[self._statement.savepoint] = self._rows_held

    def _roll_back_to(self, _data: bytes, _start: int, _end: int) -> None:
        """Nothing when no rows came since the savepoint, else refused (D19)."""
        if self._savepoints.get(self._statement.savepoint, 0) != self._rows_held:
            raise halted(
                HaltReason.UNSUPPORTED_TRANSACTION_SHAPE, "ROLLBACK TO a savepoint before rows"
            )

    # -- refusals ------------------------------------------------------------------------------

    def _refuse_incident(self, _data: bytes, _start: int, _end: int) -> None:
        """Halt `source_incident`: the source says that changes were not logged."""
        raise halted(HaltReason.SOURCE_INCIDENT, "the source logged an INCIDENT event")

    def _refuse_xa(self, _data: bytes, _start: int, _end: int) -> None:
        """Halt `unsupported_transaction_shape`: prepared rows may yet be rolled back (R23, D17)."""
        raise halted(HaltReason.UNSUPPORTED_TRANSACTION_SHAPE, "an XA transaction")

    def _refuse_anonymous(self, _data: bytes, _start: int, _end: int) -> None:
        """Halt `anonymous_gtid`: without a GTID there is no position to go on from."""
        raise halted(HaltReason.ANONYMOUS_GTID, "a transaction without a GTID")

    def _refuse_statement(self, _data: bytes, _start: int, _end: int) -> None:
        """Halt `statement_based_change`: rows changed and their images are not here (D21)."""
        raise halted(HaltReason.STATEMENT_BASED_CHANGE, "a change without row images")

    # -- compressed transactions ---------------------------------------------------------------

    def _open_payload(self, data: bytes, start: int, end: int) -> State:
        """Fold the events inside, which must be the whole rest of this group (D22)."""
        finished, outside = len(self._out), self._checksums
        self._checksums, self._row = False, self._rows[State.STARTED]
        try:
            self._run_inside(data, start, end)
        except BaseException:
            # What ended inside the payload is good only if all of the payload is.
            self._take_back(finished)
            raise
        self._checksums = outside
        return State.OUTSIDE

    def _run_inside(self, data: bytes, start: int, end: int) -> None:
        for inside in payload.open_payload(data, start, end):
            if self.given_up():
                raise _GivenUpError
            self._run(inside)
        if self._in_group:
            raise halted(HaltReason.EVENT_ORDER_INVALID, "a payload that holds half a transaction")

    def _take_back(self, finished: int) -> None:
        """Drop what was finished behind the first `finished` items."""
        for item in self._out[finished:]:
            if isinstance(item, Transaction) and isinstance(item.changes, SpooledChanges):
                item.changes.release()
        del self._out[finished:]


def _unknown(code: int, flags: int) -> Shape:
    if flags & IGNORABLE:
        return Shape.IGNORABLE
    raise halted(HaltReason.EVENT_UNKNOWN, type_name(code))


def _history_changed(detail: str) -> Halted:
    return halted(HaltReason.SOURCE_HISTORY_CHANGED, detail)
