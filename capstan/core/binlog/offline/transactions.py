"""The strict decoder: explicit BEGIN … XID, COMMIT or ROLLBACK, event by event, all or nothing.

House rules: six event types are accepted, in one order; everything else is an error, and an error
throws away the transaction under way together with its table maps. Nothing of an unfinished
transaction is in any result, and nothing but a new BEGIN is accepted after an error. Where events
lie is believed from their offsets alone. The online fold is another grammar with reasons of its
own: no tolerance of it is here.

What this cannot know: whether a table's engine can roll back, whether a statement outside BEGIN
commits by itself, and what lies between transactions. It writes nowhere and promises no delivery.

How it works: `feed` takes one event and `decode` one transaction, through the same loop. It cuts
events out by itself, since a call for each would cost more than the event; what does not fit is
shown to `whole_event`, whose verdict counts.
"""

from collections.abc import Callable, Sequence
from typing import Final
from zlib import crc32

from capstan.core.binlog.checksum import RESIDUE
from capstan.core.binlog.header import SIZE, EventType, unpack_header
from capstan.core.binlog.memo import Memo
from capstan.core.binlog.offline.boundary import (
    POST_HEADERS,
    TransactionAction,
    read_statement,
    read_xid,
)
from capstan.core.binlog.offline.decode_errors import DecodeError, DecodeErrorKind, from_halt
from capstan.core.binlog.offline.decode_limits import U64_MAX, TransactionLimits
from capstan.core.binlog.offline.format_description import FormatDescription
from capstan.core.binlog.offline.mapped_table import MappedTable, OfflineRows, SignednessError
from capstan.core.binlog.offline.outcomes import (
    CommittedTransaction,
    Counts,
    IncompleteTransaction,
    Outcome,
    RolledBack,
    RowEvent,
    TransactionStep,
    count_rows,
)
from capstan.core.binlog.offline.raw_event import (
    CHECKSUM_SIZE,
    Buffer,
    EventHeader,
    whole_event,
)
from capstan.core.changes import Op, RowsChunk
from capstan.core.halts import Halted

_OPS: Final = {
    int(EventType.WRITE_ROWS): Op.INSERT,
    int(EventType.UPDATE_ROWS): Op.UPDATE,
    int(EventType.DELETE_ROWS): Op.DELETE,
}
_QUERY: Final = int(EventType.QUERY)
_XID: Final = int(EventType.XID)
_TABLE_MAP: Final = int(EventType.TABLE_MAP)
_UPDATE: Final = int(EventType.UPDATE_ROWS)
_BEGIN: Final = TransactionAction.BEGIN
_COMMIT: Final = TransactionAction.COMMIT
_ACCEPTED: Final = {**POST_HEADERS, _TABLE_MAP: 8, **dict.fromkeys(_OPS, 10)}
"""Event type → bytes of its fixed part."""

_TYPE: Final = 4
_IDS: Final = slice(SIZE, SIZE + 6)
_BODY: Final = SIZE + 8
_FLAGS: Final = SIZE + 6
_STATEMENT_END: Final = 1
_MAPS_KEPT: Final = 4096
_SAID: Final = SIZE + 8
"""Where a QUERY goes on behind the session's number and the statement's time."""
_BEGINS_KEPT: Final = 64
_DEFAULTS: Final = TransactionLimits()

_new_tuple: Final = tuple.__new__

Signs = Callable[[MappedTable], Sequence[bool] | None]
"""Gives the signs of a table's integer columns, or None to rely on the table map."""

_Handler = Callable[[bytes, int], Outcome | None]


class TransactionDecoder:
    """Decodes a contiguous run of explicit transactions of one file.

    Another file, or another format description, needs another decoder.

    Args:
        description: The file's format description.
        limits: What a transaction, an event and a row may be.
        keep_rows: False to count only: every row is decoded and judged all the same and then let
            go, so that a transaction of any size takes constant memory. Signs of integers are not
            needed then, since no count depends on them; those that are given are checked.
    """

    def __init__(
        self,
        description: FormatDescription,
        limits: TransactionLimits = _DEFAULTS,
        *,
        keep_rows: bool = True,
    ) -> None:
        self._checksums = description.checksums
        self._limits = limits
        trailer = CHECKSUM_SIZE if description.checksums else 0
        self._framing = (
            description.checksums,
            trailer,
            SIZE + trailer,
            limits.event_bytes,
            limits.events,
        )
        self._keep_rows = keep_rows
        self._lengths = {code: description.post_header_length(code) for code in _ACCEPTED}
        self._tables: Memo[bytes, MappedTable] = Memo(MappedTable, _MAPS_KEPT)
        self._maps: dict[bytes, MappedTable] = {}
        self._begins: set[bytes] = set()
        rows = {code: self._row_handler(code) for code in _OPS}
        self._outside = self._by_type({_QUERY: self._begin})
        self._inside = self._by_type(
            {
                _QUERY: self._end_by_query,
                _XID: self._end_by_xid,
                _TABLE_MAP: self._map_table,
                **rows,
            }
        )
        self._signs: Signs | None = None
        self._offset = 0
        self._drop()

    def _by_type(self, handlers: dict[int, _Handler]) -> list[_Handler]:
        """A handler for each event type; those whose layout is another one are refused."""
        table: list[_Handler] = [self._refuse] * 256
        for code, handler in handlers.items():
            if self._lengths[code] == _ACCEPTED[code]:
                table[code] = handler
        return table

    @property
    def active(self) -> bool:
        """Whether a transaction is under way."""
        return self._active

    def feed(
        self,
        data: Buffer,
        offset: int,
        integer_unsigned: Sequence[bool] | None = None,
        *,
        base: int = 0,
    ) -> TransactionStep:
        """Take the event at an offset; bytes behind it are not looked at.

        Args:
            data: The file's bytes (a memory map, as a rule), or those inside a payload.
            offset: Where the event begins in the file, or in what is inside the payload.
            integer_unsigned: For a row event: which of its table's integer columns (tinyint to
                bigint) are unsigned, one flag for each, in column order. Needed where the table
                map does not say; must agree where it does. Not looked at for other events.
            base: The offset of the first byte of `data`, when that is only a part.

        Returns:
            The event's header, and the transaction that it finished, if any.

        Raises:
            DecodeError: For whatever is not as it must be. The transaction under way is gone.
        """
        signs = None if integer_unsigned is None else lambda _: integer_unsigned
        outcome, _ = self.advance(data, offset, signs, base, once=True)
        return TransactionStep(EventHeader.parse(data, offset, base=base), outcome)

    def decode(
        self, data: Buffer, offset: int, signs: Signs | None = None, *, base: int = 0
    ) -> tuple[Outcome | None, int]:
        """Take events from an offset on until one finishes a transaction, or until no more come.

        The same as `feed` for each of them, faster.

        Args:
            data: As for `feed`; must end where an event ends, if no transaction is finished before.
            offset: Where the first event begins.
            signs: Asked at each row event for its table's `integer_unsigned`.
            base: As for `feed`.

        Returns:
            The transaction, None when `data` ended inside it, and where the next event begins.

        Raises:
            DecodeError: As `feed` does, for the first event that is not as it must be.
        """
        return self.advance(data, offset, signs, base, once=False)

    def finish(self) -> IncompleteTransaction | None:
        """Say that the input ends here; never commits.

        Returns:
            What was under way and is dropped; None when nothing was.
        """
        incomplete = None
        if self._active:
            incomplete = IncompleteTransaction(
                start_offset=self._start,
                end_offset=self._end,
                event_count=self._events,
                row_changes=self._changes,
                wire_bytes=self._end - self._start,
            )
        self._drop()
        return incomplete

    def _drop(self) -> None:
        """Nothing is under way."""
        self._active = False
        self._start = self._end = self._events = self._changes = 0
        self._ceiling = U64_MAX
        self._rows: list[RowEvent] = []
        self._counts: Counts = {}
        self._maps.clear()
        self._handlers = self._outside

    # -- events --------------------------------------------------------------------------------

    def advance(
        self, data: Buffer, offset: int, signs: Signs | None, base: int, *, once: bool
    ) -> tuple[Outcome | None, int]:
        """What `feed` and `decode` are made of: one event, or as many as finish a transaction."""
        if self._active and offset != self._end:
            error = self._misplaced(offset)
            self._drop()
            raise error
        self._signs = signs
        try:
            return self._run(data, offset - base, base, once)
        except Halted as verdict:
            halt, place = verdict.halt, self._offset
            self._drop()
        except BaseException:
            # Whatever it was: half a transaction must never be continued.
            self._drop()
            raise
        raise from_halt(halt, offset=place, event_type=data[place - base + _TYPE])

    def _run(self, data: Buffer, start: int, base: int, once: bool) -> tuple[Outcome | None, int]:
        checksums, trailer, smallest, largest, most = self._framing
        events, have = self._events, len(data)
        last = have - SIZE if start >= 0 else start - 1
        while start <= last:
            code, size, _next, _flags = unpack_header(data, start)
            stop = start + size
            if not smallest <= size <= largest or stop > have:
                break
            raw = data[start:stop]
            if checksums and crc32(raw) != RESIDUE:
                break
            self._offset = offset = start + base
            self._events = events = events + 1
            if events > most or offset + size > self._ceiling:
                self._look_at_totals(code, offset + size)
            outcome = self._handlers[code](raw, size - trailer)
            if outcome is not None:
                return outcome, stop + base
            if once or stop == have:
                self._end = end = stop + base
                return None, end
            start = stop
        raise self._unfit(data, start + base, base)

    def _unfit(self, data: Buffer, offset: int, base: int) -> DecodeError:
        """What is wrong with the event here."""
        try:
            whole_event(
                data,
                offset,
                checksums=self._checksums,
                largest=self._limits.event_bytes,
                base=base,
            )
        except DecodeError as error:
            return error
        raise AssertionError("an event was refused that is fit")

    def _misplaced(self, offset: int) -> DecodeError:
        what = "a gap" if offset > self._end else "an overlap"
        detail = f"{what}: the last event ended at {self._end}"
        return DecodeError(DecodeErrorKind.NOT_CONTIGUOUS, offset=offset, detail=detail)

    def _refuse(self, raw: bytes, _end: int) -> Outcome | None:
        """Refuse an event that is not accepted, or not here, or not in this layout."""
        code = raw[_TYPE]
        if code not in _ACCEPTED:
            raise _refused(DecodeErrorKind.EVENT_NOT_ACCEPTED, code, self._offset, "")
        if self._lengths[code] != _ACCEPTED[code]:
            detail = f"of {self._lengths[code]} bytes"
            raise _refused(DecodeErrorKind.POST_HEADER_INVALID, code, self._offset, detail)
        raise _refused(DecodeErrorKind.ORDER_INVALID, code, self._offset, "outside a transaction")

    def _look_at_totals(self, code: int, end: int) -> None:
        """Say what is too much."""
        limits = self._limits
        if end > U64_MAX:
            detail = "it ends beyond 2^64 - 1"
            raise _refused(DecodeErrorKind.TOTAL_OVERFLOW, code, self._offset, detail)
        if self._events > limits.events:
            raise self._over("events", limits.events, code)
        raise self._over("bytes", limits.encoded_bytes, code)

    def _over(self, what: str, limit: int, code: int) -> DecodeError:
        detail = f"more than {limit} {what}"
        return _refused(DecodeErrorKind.LIMIT_EXCEEDED, code, self._offset, detail)

    # -- control events ------------------------------------------------------------------------

    def _begin(self, raw: bytes, end: int) -> None:
        # The same session's BEGINs differ in their first bytes only, which are not looked at.
        said = raw[_SAID:end]
        if said not in self._begins:
            action, _database = read_statement(raw, end, self._offset)
            if action is not _BEGIN:
                detail = f"{action.name} outside a transaction"
                raise _refused(DecodeErrorKind.ORDER_INVALID, _QUERY, self._offset, detail)
            if len(self._begins) < _BEGINS_KEPT:
                self._begins.add(said)
        limit = self._limits.encoded_bytes
        if len(raw) > limit:
            raise self._over("bytes", limit, _QUERY)
        self._active, self._start, self._handlers = True, self._offset, self._inside
        self._ceiling = min(self._start + limit, U64_MAX)

    def _end_by_query(self, raw: bytes, end: int) -> Outcome:
        action, _database = read_statement(raw, end, self._offset)
        if action is _BEGIN:
            detail = "BEGIN inside a transaction"
            raise _refused(DecodeErrorKind.ORDER_INVALID, _QUERY, self._offset, detail)
        stop = self._offset + len(raw)
        return self._commit(None, stop) if action is _COMMIT else self._roll_back(stop)

    def _end_by_xid(self, raw: bytes, end: int) -> Outcome:
        return self._commit(read_xid(raw, end, self._offset), self._offset + len(raw))

    def _commit(self, xid: int | None, end: int) -> CommittedTransaction:
        rows, counts = tuple(self._rows), None if self._keep_rows else self._counts
        committed = _new_tuple(
            CommittedTransaction,
            (self._start, end, xid, rows, self._events, self._changes, counts),
        )
        self._drop()
        return committed

    def _roll_back(self, end: int) -> RolledBack:
        rolled_back = RolledBack(start_offset=self._start, end_offset=end, discarded=self._changes)
        self._drop()
        return rolled_back

    # -- rows ----------------------------------------------------------------------------------

    def _map_table(self, raw: bytes, end: int) -> None:
        """Register a table until its statement ends."""
        if end < _BODY:
            raise _short(_TABLE_MAP, self._offset)
        table = self._tables[raw[_BODY:end]]
        known = self._maps.setdefault(raw[_IDS], table)
        if known is not table and known.body != table.body:
            detail = f"{table.schema}.{table.table} under a number that is taken"
            raise _refused(DecodeErrorKind.TABLE_MAP_CONFLICT, _TABLE_MAP, self._offset, detail)
        if len(self._maps) > self._limits.table_maps:
            raise self._over("tables in one statement", self._limits.table_maps, _TABLE_MAP)

    def _row_handler(self, code: int) -> _Handler:
        """Decodes whole row events; their rows stay here until the transaction is committed."""
        op, pairs, maps, limits = _OPS[code], code == _UPDATE, self._maps, self._limits
        most = limits.event_row_changes
        most_in_all, widest, keep_rows = limits.row_changes, limits.image_bytes, self._keep_rows

        def handle(raw: bytes, end: int) -> None:
            if end < _BODY:
                raise _short(code, self._offset)
            table = maps.get(raw[_IDS])
            if table is None:
                raise _refused(DecodeErrorKind.TABLE_MAP_MISSING, code, self._offset, "")
            decoder = table.ready
            if decoder is None or self._signs is not None:
                decoder = self._decoder(table, code)
            images = decoder.images(raw, _BODY, end, pairs)
            changes = len(images) >> pairs
            self._changes = in_all = self._changes + changes
            if changes > most or in_all > most_in_all or len(raw) > widest:
                self._look_at_size(decoder, raw, end, changes)
            if keep_rows:
                table_id = int.from_bytes(raw[_IDS], "little")
                rows = RowsChunk(op, decoder.shape, images)
                header = EventHeader.parse(raw, 0)
                self._rows.append(RowEvent(self._offset, header, table_id, rows))
            else:
                count_rows(self._counts, decoder.shape, op, changes, len(raw))
            if raw[_FLAGS] & _STATEMENT_END:
                maps.clear()

        return handle

    def _decoder(self, table: MappedTable, code: int) -> OfflineRows:
        """The decoder of a table whose signs are asked for, or not needed."""
        signs = self._signs
        try:
            return table.rows(signs and signs(table), values=self._keep_rows)
        except SignednessError as error:
            raise _refused(error.kind, code, self._offset, error.detail) from None

    def _look_at_size(self, decoder: OfflineRows, raw: bytes, end: int, changes: int) -> None:
        limits, code = self._limits, raw[_TYPE]
        if changes > limits.event_row_changes:
            raise self._over("row changes in one event", limits.event_row_changes, code)
        if self._changes > limits.row_changes:
            raise self._over("row changes", limits.row_changes, code)
        widest = decoder.widest(raw, _BODY, end, pairs=code == _UPDATE)
        if widest > limits.image_bytes:
            raise self._over("bytes in one row image", limits.image_bytes, code)


def _short(code: int, offset: int) -> DecodeError:
    return _refused(DecodeErrorKind.MALFORMED, code, offset, "shorter than its fixed part")


def _refused(kind: DecodeErrorKind, code: int, offset: int, detail: str) -> DecodeError:
    return DecodeError(kind, offset=offset, event_type=code, detail=detail)
