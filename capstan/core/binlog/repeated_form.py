"""Counts runs of transactions of one form: GTID, BEGIN, one table map, one row event, XID.

House rules: this is what most servers write most of the time, so that its cost per event decides
how long a file takes. The form is taken byte by byte from a transaction that the strict decoder
took; one that differs in more than its GTID, times, positions and rows ends the run.

Checksums: events of known sizes are summed up together. The CRC32 of a right event and its own
checksum is one constant, so that of right events in a row is a constant of their sizes too; a
flipped bit anywhere changes it as it would change the event's own. Sizes are compared, and the
constants are those of the transaction that was learned.
"""

from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple, Protocol, overload
from zlib import crc32

from capstan.core.binlog.header import SIZE, EventType, unpack_header
from capstan.core.binlog.log_events import read_gtid
from capstan.core.binlog.offline.raw_event import Buffer
from capstan.core.binlog.row_counter import RowCounter
from capstan.core.changes import Committed
from capstan.core.halts import Halted

ROWS: Final = frozenset({EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS})
EVENTS: Final = 5
"""Events of each transaction of a run."""

_GTID, _QUERY, _TABLE_MAP, _XID = (
    int(EventType.GTID),
    int(EventType.QUERY),
    int(EventType.TABLE_MAP),
    int(EventType.XID),
)
_CHECKSUM: Final = 4
_XID_SIZE: Final = SIZE + 8 + _CHECKSUM
_BODY: Final = SIZE + 8
_TYPE: Final = 4
_ID: Final = slice(SIZE, SIZE + 6)
_STATEMENT_END: Final = 1
_MOST: Final = 4096


class SkimmedBuffer(Buffer, Protocol):
    """A buffer whose slices are bytes: bytes themselves, or a memory map."""

    @overload
    def __getitem__(self, index: int, /) -> int: ...
    @overload
    def __getitem__(self, index: slice, /) -> bytes: ...


class Run(NamedTuple):
    """Transactions that were counted.

    Attributes:
        end: Where the last of them ends.
        committed: Who they are.
        changes: How many rows they changed.
        size: Bytes of their row events.
    """

    end: int
    committed: list[Committed]
    changes: int
    size: int


class RepeatedForm:
    """One form, of a file with checksums.

    Args:
        head: A right GTID, BEGIN and TABLE_MAP event, one behind the other.
        sizes: Their sizes.
        rest: The right row event and XID behind them.
        counter: Counts that table's rows.

    Attributes:
        code: The type of the row event.
        name: The database and the table.
    """

    __slots__ = (
        *("_begin", "_counter", "_gtid_end", "_head", "_head_size", "_heads", "_map", "_sums"),
        *("code", "name"),
    )

    def __init__(
        self, head: bytes, sizes: tuple[int, int, int], rest: bytes, counter: RowCounter
    ) -> None:
        gtid, begin, table = sizes
        self.code = rest[_TYPE]
        self.name = counter.name
        self._counter = counter
        self._gtid_end = gtid - _CHECKSUM
        pads = (gtid - 13, begin - 13)
        self._heads = Struct(f"<4xB4xI{pads[0]}x4xB4xI{pads[1]}x4xB4xI").unpack_from
        self._head = (_GTID, gtid, _QUERY, begin, _TABLE_MAP, table)
        self._begin = _piece(head, gtid + _BODY, gtid + begin - _CHECKSUM)
        self._map = _piece(head, gtid + begin + SIZE, len(head) - _CHECKSUM)
        self._head_size = len(head)
        self._sums = (crc32(head), crc32(rest))

    def run(self, data: SkimmedBuffer, offset: int) -> Run:
        """Count the transactions of this form that begin at an offset, some thousand at most."""
        committed: list[Committed] = []
        changes = size = 0
        # Rows or a GTID that are not right end the run in front of their transaction.
        with suppress(Halted):
            for end, who, count, bytes_ in self._transactions(data, offset):
                committed.append(who)
                changes += count
                size += bytes_
                offset = end
        return Run(offset, committed, changes, size)

    def _transactions(
        self, data: SkimmedBuffer, offset: int
    ) -> Iterator[tuple[int, Committed, int, int]]:
        head_size, heads, expected = self._head_size, self._heads, self._head
        (begin, begin_text), (table, table_text) = self._begin, self._map
        (head_sum, rest_sum), changes = self._sums, self._counter.changes
        wanted, pairs = self.code, self.code == EventType.UPDATE_ROWS
        last = len(data) - head_size - SIZE
        for _ in range(_MOST):
            if offset > last:
                return
            head = data[offset : offset + head_size]
            if (
                heads(head) != expected
                or head[begin] != begin_text
                or head[table] != table_text
                or crc32(head) != head_sum
            ):
                return
            code, size, _, _ = unpack_header(data, offset + head_size)
            rest = data[offset + head_size : offset + head_size + size + _XID_SIZE]
            if (
                code != wanted
                or len(rest) != size + _XID_SIZE
                or rest[_ID] != table_text[:6]
                or not rest[_ID.stop] & _STATEMENT_END
                or unpack_header(rest, size)[:2] != (_XID, _XID_SIZE)
                or crc32(rest) != rest_sum
            ):
                return
            count = changes(rest, _BODY, size - _CHECKSUM, pairs=pairs)
            who = read_gtid(head, SIZE, self._gtid_end)
            offset += head_size + len(rest)
            yield offset, who, count, size


def _piece(head: bytes, start: int, end: int) -> tuple[slice, bytes]:
    return slice(start, end), head[start:end]


def form_of(
    data: SkimmedBuffer, start: int, end: int, counters: dict[bytes, RowCounter]
) -> RepeatedForm | None:
    """The form of a transaction that was decoded; None when it has another one.

    Args:
        data: The file, which has checksums.
        start: Where the transaction's GTID begins.
        end: Where its last event ends.
        counters: Body of a table map → what counts its rows.
    """
    codes: list[int] = []
    ends = [start]
    while ends[-1] < end and len(codes) < EVENTS:
        code, size, _, _ = unpack_header(data, ends[-1])
        codes.append(code)
        ends.append(ends[-1] + size)
    alike = len(codes) == EVENTS and codes[3] in ROWS
    if not alike or ends[-1] != end or codes[:3] + codes[4:] != [_GTID, _QUERY, _TABLE_MAP, _XID]:
        return None
    head, rest = data[start : ends[3]], data[ends[3] : end]
    body = data[ends[2] + _BODY : ends[3] - _CHECKSUM]
    sizes = (ends[1] - ends[0], ends[2] - ends[1], ends[3] - ends[2])
    return RepeatedForm(head, sizes, rest, counters[body])
