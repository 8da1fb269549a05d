"""Lists the events of a binlog file, one by one, whatever they are.

House rules: a look at the file, not a judgement of its transactions: any order and any type is
listed, statement-based changes and XA included. Sizes and checksums must be right, since nothing
behind a wrong one is where it seems. What cannot be read inside an event is a `trouble` of that
event; the listing goes on. Rows are counted, and decoded only when asked for; what was not decoded
is never made up. No statement's text is here.
"""

from collections.abc import Iterator
from typing import Final

import attrs

from capstan.core.binlog.header import SIZE, EventType
from capstan.core.binlog.log_events import (
    read_gtid,
    read_previous_gtids,
    read_rotate,
    read_tagged_gtid,
)
from capstan.core.binlog.memo import Memo
from capstan.core.binlog.offline.decode_errors import DecodeError, DecodeErrorKind, from_halt
from capstan.core.binlog.offline.format_description import FormatDescription
from capstan.core.binlog.offline.mapped_table import MappedTable, SignednessError
from capstan.core.binlog.offline.raw_event import Buffer, EventHeader, whole_event
from capstan.core.binlog.payload import open_payload
from capstan.core.binlog.row_counter import RowCounter
from capstan.core.binlog.table_signs import SchemaError, Signs
from capstan.core.changes import Op, RowsChunk
from capstan.core.gtid import Gtid, GtidSet
from capstan.core.halts import Halted

_BODY: Final = SIZE + 8
_ID: Final = slice(SIZE, SIZE + 6)
_FLAGS: Final = SIZE + 6
_STATEMENT_END: Final = 1
_MAPS_KEPT: Final = 4096
_OPS: Final = {
    int(EventType.WRITE_ROWS): Op.INSERT,
    int(EventType.UPDATE_ROWS): Op.UPDATE,
    int(EventType.DELETE_ROWS): Op.DELETE,
}
_UNREAD: Final = {
    int(EventType.WRITE_ROWS_V1): "row events of version 1 are not decoded",
    int(EventType.UPDATE_ROWS_V1): "row events of version 1 are not decoded",
    int(EventType.DELETE_ROWS_V1): "row events of version 1 are not decoded",
    int(EventType.PARTIAL_UPDATE_ROWS): "partial updates of JSON are not decoded",
}
"""Row events of which only the table is told."""
_FILE_LEVEL: Final = frozenset(
    {
        EventType.FORMAT_DESCRIPTION,
        EventType.PREVIOUS_GTIDS,
        EventType.ROTATE,
        EventType.STOP,
        EventType.HEARTBEAT,
        EventType.HEARTBEAT_V2,
    }
)


@attrs.frozen(kw_only=True)
class FileEvent:
    """One event as it lies in a file.

    Attributes:
        offset: Where it begins in the file; of an event inside a compressed payload, where the
            payload event does.
        inside: Where it begins inside that payload; None for an event of the file itself.
        header: Its header.
        gtid: Whose it is; None outside transactions and for anonymous ones.
        schema: The database, of table maps and row events.
        table: The table, likewise.
        op: What a row event did.
        row_changes: How many rows it changed; None for other events, and when it cannot be told.
        rows: Its rows, when they were asked for.
        names: The table's column names, with the rows.
        trouble: What could not be read of it.
    """

    offset: int
    header: EventHeader
    inside: int | None = None
    gtid: Gtid | None = None
    schema: str | None = None
    table: str | None = None
    op: Op | None = None
    row_changes: int | None = None
    rows: RowsChunk | None = attrs.field(default=None, repr=False)
    names: tuple[str, ...] | None = None
    trouble: DecodeError | None = None


class EventLister:
    """Lists the events of one file, in order.

    Args:
        rows: Whether to decode rows.
        signs: Says which integers are unsigned where table maps do not.

    Attributes:
        format: The file's format description, once it was fed.
        previous_gtids: What is in the files before this one; None when the file does not say.
        next_file: The file that a rotate names.
        ended: Whether a rotate or stop was fed.
    """

    def __init__(self, *, rows: bool = False, signs: Signs | None = None) -> None:
        self.format: FormatDescription | None = None
        self.previous_gtids: GtidSet | None = None
        self.next_file: str | None = None
        self.ended = False
        self._wants_rows = rows
        self._signs = signs
        self._gtid: Gtid | None = None
        self._tables: dict[bytes, _Table] = {}
        self._known: Memo[bytes, _Table] = Memo(_Table, _MAPS_KEPT)

    def feed(self, data: Buffer, offset: int) -> Iterator[FileEvent]:
        """List the event at an offset, and those inside it when it is a compressed payload.

        Raises:
            DecodeError: For an event that is cut off, of an impossible size or with a wrong
                checksum; for a file that does not begin with a readable format description; for
                a schema that contradicts a table map.
        """
        if self.format is None:
            self.format = FormatDescription.parse(data, offset)
            yield FileEvent(offset=offset, header=EventHeader.parse(data, offset))
            return
        header, raw, end = whole_event(data, offset, checksums=self.format.checksums)
        event = self._look(_Draft(offset, None, header), raw, end)
        yield event
        if header.event_type == EventType.TRANSACTION_PAYLOAD:
            yield from self._inside(event, raw, end)

    def _look(self, draft: "_Draft", raw: bytes, end: int) -> FileEvent:
        """Look into an event as far as a listing does."""
        code = draft.header.event_type
        try:
            if code in _FILE_LEVEL:
                self._take_file_event(code, raw, end)
                return draft.event()
            if code in (EventType.GTID, EventType.GTID_TAGGED):
                read = read_gtid if code == EventType.GTID else read_tagged_gtid
                self._gtid = read(raw, SIZE, end).gtid
            elif code == EventType.ANONYMOUS_GTID:
                self._gtid = None
            draft.gtid = self._gtid
            if code == EventType.TABLE_MAP:
                draft.table = self._tables[raw[_ID]] = self._known[raw[_BODY:end]]
            elif code in _OPS or code in _UNREAD:
                self._take_rows(draft, raw, end)
        except Halted as verdict:
            draft.trouble = from_halt(verdict.halt, offset=draft.offset, event_type=code)
        return draft.event()

    def _take_file_event(self, code: int, raw: bytes, end: int) -> None:
        if code == EventType.PREVIOUS_GTIDS:
            self.previous_gtids = read_previous_gtids(raw, SIZE, end)
        elif code == EventType.ROTATE:
            self.next_file, _ = read_rotate(raw, SIZE, end)
        self.ended = self.ended or code in (EventType.ROTATE, EventType.STOP)

    def _take_rows(self, draft: "_Draft", raw: bytes, end: int) -> None:
        code = draft.header.event_type
        table = self._tables.get(raw[_ID])
        if len(raw) > _FLAGS and raw[_FLAGS] & _STATEMENT_END:
            self._tables.clear()
        if table is None:
            draft.trouble = draft.error(DecodeErrorKind.TABLE_MAP_MISSING, "")
            return
        draft.table, draft.op = table, _OPS.get(code)
        if (reason := _UNREAD.get(code)) is not None:
            draft.trouble = draft.error(DecodeErrorKind.EVENT_NOT_ACCEPTED, reason)
            return
        pairs = code == EventType.UPDATE_ROWS
        draft.row_changes = table.counter.changes(raw, _BODY, end, pairs=pairs)
        if self._wants_rows:
            self._decode(draft, table.mapped, raw, end)

    def _decode(self, draft: "_Draft", mapped: MappedTable, raw: bytes, end: int) -> None:
        assert draft.op is not None
        names = None
        try:
            flags = None if self._signs is None else self._signs.of(mapped)
            names = None if self._signs is None else self._signs.names(mapped)
            decoder = mapped.rows(flags)
        except SchemaError as error:
            raise draft.error(DecodeErrorKind.SIGNEDNESS_CONFLICT, str(error)) from None
        except SignednessError as error:
            draft.trouble = draft.error(error.kind, error.detail)
            return
        images = decoder.images(raw, _BODY, end, draft.op is Op.UPDATE)
        draft.rows = RowsChunk(draft.op, decoder.shape, images)
        draft.names = names or decoder.shape.names

    def _inside(self, payload: FileEvent, raw: bytes, end: int) -> Iterator[FileEvent]:
        position = 0
        try:
            for piece in open_payload(raw, SIZE, end):
                for start in piece.bounds[:-1]:
                    header, event, stop = whole_event(piece.data, start, checksums=False)
                    yield self._look(_Draft(payload.offset, position, header), event, stop)
                    position += header.event_size
        except Halted as verdict:
            code = payload.header.event_type
            raise from_halt(verdict.halt, offset=payload.offset, event_type=code) from None


class _Table:
    """What is known of one distinct table map."""

    def __init__(self, body: bytes) -> None:
        self.counter = RowCounter.of(body)
        self._body = body
        self._mapped: MappedTable | None = None

    @property
    def mapped(self) -> MappedTable:
        """The map read whole, which only rows need."""
        if self._mapped is None:
            self._mapped = MappedTable(self._body)
        return self._mapped


class _Draft:
    """An event while it is looked into."""

    __slots__ = (
        *("gtid", "header", "inside", "names", "offset", "op"),
        *("row_changes", "rows", "table", "trouble"),
    )

    def __init__(self, offset: int, inside: int | None, header: EventHeader) -> None:
        self.offset = offset
        self.inside = inside
        self.header = header
        self.gtid: Gtid | None = None
        self.table: _Table | None = None
        self.op: Op | None = None
        self.row_changes: int | None = None
        self.rows: RowsChunk | None = None
        self.names: tuple[str, ...] | None = None
        self.trouble: DecodeError | None = None

    def error(self, kind: DecodeErrorKind, detail: str) -> DecodeError:
        """An error of this event."""
        code = self.header.event_type
        return DecodeError(kind, offset=self.offset, event_type=code, detail=detail)

    def event(self) -> FileEvent:
        """What it came to."""
        schema, table = (None, None) if self.table is None else self.table.counter.name
        return FileEvent(
            offset=self.offset,
            header=self.header,
            inside=self.inside,
            gtid=self.gtid,
            schema=schema,
            table=table,
            op=self.op,
            row_changes=self.row_changes,
            rows=self.rows,
            names=self.names,
            trouble=self.trouble,
        )
