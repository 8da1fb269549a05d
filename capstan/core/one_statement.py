"""The short cut of the fold: transactions of one statement, taken whole.

Most transactions of an application that commits each statement are five events: GTID, BEGIN,
TABLE_MAP, one row event, XID; and most have them in the sizes of the one before.

House rules: nothing is decided here that the table of shapes has not decided. A transaction is
taken only when everything in it is as that table lets it through; one that is different in anything
is left untouched for the fold's event loop, which gives the verdict. No halt begins here.

How it works: an opening (`_Opening`) says what must stand where in a GTID, a BEGIN and a TABLE_MAP
of certain sizes, so that one `struct` call and one comparison do for the three. Checksums: the
CRC32 over an event with its own checksum is one constant, so over events side by side it depends on
their sizes and on the packet headers between them. Errors inside one of them change the sum as
surely as that event's own, and errors in several pass by chance as rarely, once in 2^32; a checksum
keeps nobody out who means it. What the sum must be is learned from events checked one by one.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from struct import Struct
from typing import Any, Final
from zlib import crc32

import attrs

from capstan.core.binlog.checksum import STEP, intact
from capstan.core.binlog.framing import Packets
from capstan.core.binlog.header import SIZE, EventType
from capstan.core.binlog.log_events import (
    GTID_LAYOUT,
    GTID_SIZE,
    LOGICAL_CLOCK,
    TIME,
    TWO_TIMES,
    uuid_of,
)
from capstan.core.binlog.row_compiler import FAILURES, RowDecoder
from capstan.core.changes import (
    NO_CHANGES,
    Changes,
    Committed,
    Item,
    Op,
    PositionLog,
    RowsChunk,
    Transaction,
)
from capstan.core.gtid import MAX_NUMBER, GtidAccumulator
from capstan.core.halts import Halted
from capstan.core.limits import Budget
from capstan.core.row_keeping import Table
from capstan.core.spooling import OPS

_EVENTS: Final = 5
"""Events of such a transaction."""
_CRC: Final = 4
_CODE: Final = 4
"""Where an event's header has its type."""
_XID: Final = int(EventType.XID)
_XID_CODE: Final = bytes([_XID])
_XID_SIZE: Final = SIZE + 8 + _CRC
_SESSION: Final = 8
"""Bytes of a QUERY that are another session's: thread and duration."""
_TABLE_ID: Final = 6
_ROWS_HEAD: Final = 8
"""Table id and flags in front of a table map and of rows."""
_ROWS: Final = (EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS)
_HEADER: Final = "4xB4xII2x"
"""Type, size and position of an event."""
_SECOND_TIME: Final = SIZE + GTID_SIZE - 1
"""Where a GTID has the time of its original commit, when that is another one."""
_TWO_TIMES_SIZE: Final = _SECOND_TIME + 7 + 1 + _CRC
"""Bytes of a GTID with two times, at least; one byte of the transaction's size stands behind."""
_TYPE_SIZE_POSITION: Final = Struct("<4xB4xII").unpack_from
_SIZE_POSITION: Final = Struct("<9xII").unpack_from
_UNREADABLE: Final = (*FAILURES, Halted)
_MOST_OPENINGS: Final = 1024
_PATIENCE: Final = 16
"""So many times as many transactions that found no opening until all are forgotten: to make one
costs more than it saves once, and tables that are too many to be known are read as fast as ever."""

_Sizes = tuple[int, int, bytes]
"""From GTID to BEGIN, from GTID to TABLE_MAP, and what the TABLE_MAP says: one opening's name."""

_new_committed: Final = tuple.__new__


@attrs.frozen(eq=False, repr=False)
class _RowsForm:
    """How a row event of one type begins behind an opening.

    Attributes:
        op: What it says happened.
        pairs: 1 when before and after images alternate, else 0.
        head: What stands between its header and its rows.
        start: Where its rows begin, from the event's beginning.
        decoder: Reads them; None outside the capture list.
    """

    op: Op
    pairs: int
    head: bytes
    start: int
    decoder: RowDecoder | None

    def changes(self, data: bytes, start: int, end: int) -> Changes | None:
        """What the rows at `data[start:end]` say; None when they are not as usual."""
        if self.decoder is None:
            return NO_CHANGES if start <= end else None
        images, stop = self.decoder.rows(data, start, end)
        if stop != end or not images or len(images) & self.pairs:
            return None
        return RowsChunk(self.op, self.decoder.shape, images)


@attrs.frozen(eq=False, repr=False)
class _Opening:
    """GTID, BEGIN and TABLE_MAP of certain sizes, with a certain statement and table.

    Attributes:
        read: Reads what may differ in all three at once, and what must not.
        expected: What must not.
        table: Whose rows follow; None outside the capture list.
        forms: How their events look, by type.
        sums: The CRC32 over the three, by the number of the second one's packet.
    """

    read: Callable[[bytes, int], tuple[Any, ...]]
    expected: tuple[int | bytes, ...]
    table: Table | None
    forms: dict[int, _RowsForm] = attrs.field(factory=dict)
    sums: dict[int, int] = attrs.field(factory=dict)


class ShortCut:
    """Takes transactions of one statement for one fold.

    Args:
        tables: What the fold knows of table maps, by their bytes.
        is_begin: Whether a QUERY's bytes, without what is a session's, are known to say BEGIN.
        budget: What one transaction may take.
    """

    def __init__(
        self,
        tables: Mapping[bytes, Table | None],
        is_begin: Callable[[bytes], bool],
        budget: Budget,
    ) -> None:
        self._tables = tables
        self._is_begin = is_begin
        self._budget = budget
        self._openings: dict[_Sizes, _Opening] = {}
        self._endings: dict[int, int] = {}
        self._in_vain = 0

    @staticmethod
    def worth_a_try(packets: Packets, place: int) -> bool:
        """Whether what begins at `place` may be five events that end in an XID."""
        if place + _EVENTS >= len(packets.bounds):
            return False
        last = packets.bounds[place + _EVENTS - 1] + _CODE
        return packets.data[last : last + 1] == _XID_CODE

    def take(
        self,
        packets: Packets,
        place: int,
        offset: int,
        processed: GtidAccumulator,
        log: PositionLog,
        out: list[Item],
    ) -> tuple[int, int]:
        """Take transactions for as long as one of five events follows another.

        Args:
            packets: Events with checksums.
            place: The first event, which must lie between transactions.
            offset: Where the event before it ends in its file.
            processed: Where the GTIDs go.
            log: Where the positions go.
            out: Where the transactions go.

        Returns:
            Place of and offset in front of the first event that was not taken.
        """
        data, bounds, gap = packets.data, packets.bounds, packets.gap
        run, append = log.run, out.append
        source = b""
        try:
            while place + _EVENTS < len(bounds):
                read = self._read(data, gap, offset, bounds[place : place + _EVENTS + 1])
                if read is None:
                    break
                raw, number, commit, arrived, changes, following = read
                if raw != source:
                    source, uuid = raw, uuid_of(raw)
                    add = processed.add_to(uuid, "")
                if not add(number):
                    break
                committed = _new_committed(Committed, (uuid, "", number, commit, arrived))
                append(Transaction(committed, changes, log, len(run)))
                run.append(committed)
                place, offset = place + _EVENTS, following
        except _UNREADABLE:
            pass  # the event loop says what stands there
        return place, offset

    def _read(
        self, data: bytes, gap: int, offset: int, starts: list[int]
    ) -> tuple[bytes, int, int, int, Changes, int] | None:
        """Read one transaction; the way through here is hot.

        Args:
            data: What holds its events.
            gap: Bytes between two of them.
            offset: Where the event before it ends in its file.
            starts: Where they begin, and where the event behind them does.

        Returns:
            The source's uuid, the number, microseconds of the commit there and here, the changes
            and where the last event ends in its file; None when anything is not as usual.
        """
        gtid, begin, mapping, rows, xid, following = starts
        behind = gap + _CRC
        sizes = begin - gtid, mapping - gtid, data[mapping + SIZE : rows - behind]
        opening = self._openings.get(sizes) or self._learn(data, gap, starts, sizes)
        if opening is None:
            return None
        form = opening.forms.get(data[rows + _CODE]) or _learn_form(opening, data, mapping, rows)
        # t, s, p: type, size and position of each event.
        t1, s1, p1, raw, number, clock, time, t2, s2, p2, text, t3, s3, p3 = opening.read(
            data, gtid
        )
        s4, p4 = _SIZE_POSITION(data, rows)
        t5, s5, p5 = _TYPE_SIZE_POSITION(data, xid)
        commit = arrived = time & TIME
        if time & TWO_TIMES:
            commit = int.from_bytes(data[gtid + _SECOND_TIME : gtid + _SECOND_TIME + 7], "little")
        # A sum's key: the packet's number in front of the event; in a file the event's own type.
        mark = -2 if gap else _CODE
        if (
            form is None
            or opening.expected
            != (t1, s1, p1 - offset, clock, t2, s2, p2 - p1, text, t3, s3, p3 - p2)
            or data[rows + SIZE : rows + form.start] != form.head
            or not s4 == p4 - p3 == xid - rows - gap < STEP
            or t5 != _XID
            or not s5 == p5 - p4 == following - xid - gap == _XID_SIZE
            or not 0 < number <= MAX_NUMBER
            or not commit
            or (time & TWO_TIMES and s1 < _TWO_TIMES_SIZE)
            or (
                crc32(data[gtid : rows - gap]) != opening.sums.get(data[begin + mark])
                and not _learn_sum(opening.sums, data[begin + mark], data, gap, starts[:4])
            )
            or (
                crc32(data[rows : following - gap]) != self._endings.get(data[xid + mark])
                and not _learn_sum(self._endings, data[xid + mark], data, gap, starts[3:])
            )
        ):
            return None
        changes = form.changes(data, rows + form.start, xid - behind)
        return None if changes is None else (raw, number, commit, arrived, changes, p5)

    def _learn(self, data: bytes, gap: int, starts: list[int], sizes: _Sizes) -> _Opening | None:
        """Make an opening of three events side by side; None when they are no such thing.

        Args:
            data: What holds them.
            gap: Bytes between two of them.
            starts: Where they begin, and where the event behind them does.
            sizes: What the opening is to be known by.
        """
        gtid, begin, mapping, rows, *_ = starts
        behind = gap + _CRC
        statement = data[begin + SIZE + _SESSION : mapping - behind]
        body = data[mapping + SIZE + _ROWS_HEAD : rows - behind]
        size = begin - gtid - gap
        if (
            size < SIZE + GTID_SIZE + _CRC
            or body not in self._tables
            or not self._is_begin(statement)
            or not self._has_room()
        ):
            return None
        table = self._tables[body]
        if table is not None and not self._in_memory(table):
            return None
        rest = size - SIZE - GTID_SIZE
        layout = f"<{_HEADER}{GTID_LAYOUT}{rest + gap}x{_HEADER}{_SESSION}x{len(statement)}s"
        opening = _Opening(
            Struct(f"{layout}{behind}x{_HEADER}").unpack_from,
            (
                *(EventType.GTID, size, size, LOGICAL_CLOCK),
                *(EventType.QUERY, mapping - begin - gap, mapping - begin - gap, statement),
                *(EventType.TABLE_MAP, rows - mapping - gap, rows - mapping - gap),
            ),
            table,
        )
        self._openings[sizes] = opening
        return opening

    def _has_room(self) -> bool:
        """Whether one more opening may be kept."""
        if len(self._openings) >= _MOST_OPENINGS:
            self._in_vain += 1
            if self._in_vain < _PATIENCE * _MOST_OPENINGS:
                return False
            self._openings.clear()
            self._in_vain = 0
        return True

    def _in_memory(self, table: Table) -> bool:
        """Whether no event that is small enough for the short cut can break the budget."""
        images = STEP // ((len(table.shape.columns) + 7) // 8)
        total = self._budget.total
        fits = STEP + images * table.weight <= self._budget.memory
        return fits and (total is None or total >= STEP)


def _learn_form(opening: _Opening, data: bytes, mapping: int, rows: int) -> _RowsForm | None:
    """Make the form of a row event whose head was found good before; None for any other."""
    code, start = data[rows + _CODE], rows + SIZE
    op, table = OPS.get(code), opening.table
    of_table = data[start : start + _TABLE_ID] == data[mapping + SIZE : mapping + SIZE + _TABLE_ID]
    if op is None or not of_table:
        return None
    pairs, size = op is Op.UPDATE, _ROWS_HEAD
    if table is not None:
        known = code in _ROWS and table.decoder.known_head(data, start + _ROWS_HEAD, pairs)
        if not known:
            return None
        size += known
    decoder = None if table is None else table.decoder
    form = _RowsForm(op, int(pairs), data[start : start + size], SIZE + size, decoder)
    opening.forms[code] = form
    return form


def _learn_sum(sums: dict[int, int], key: int, data: bytes, gap: int, starts: list[int]) -> bool:
    """Learn the CRC32 over events side by side; False when one of them is not intact.

    Args:
        sums: Where it is kept.
        key: Under what.
        data: What holds the events.
        gap: Bytes between two of them.
        starts: Where they begin, and where the event behind them does.
    """
    if not all(intact(data, start, following - gap) for start, following in pairwise(starts)):
        return False
    sums[key] = crc32(data[starts[0] : starts[-1] - gap])
    return True
