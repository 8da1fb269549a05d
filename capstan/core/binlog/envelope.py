"""What may stand in a binlog file around its transactions, and what is then done with it.

House rules: the envelope is small and closed. Outside a transaction it takes a format description
(first of all), previous GTIDs (second), heartbeats, events that their server marks as ignorable,
rotate or stop (last of all), compressed transactions behind their GTID, and a statement that
commits itself, with the GTID before it where the file has any. A transaction goes to the strict
decoder event by event, from its GTID on, and so does everything else outside: the refusal is the
decoder's own. Behind a GTID, and inside a transaction, nothing is passed over here.

A statement that commits itself is told by the classifier of the online path; it is counted, never
decoded. What a file is, and where its bytes come from, is not known here.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import attrs

from capstan.core.binlog.compressed_transaction import PayloadDecoder
from capstan.core.binlog.header import IGNORABLE, SIZE, EventType
from capstan.core.binlog.log_events import read_previous_gtids, read_query, read_rotate
from capstan.core.binlog.offline.decode_errors import DecodeError, DecodeErrorKind, from_halt
from capstan.core.binlog.offline.decode_limits import TransactionLimits
from capstan.core.binlog.offline.format_description import MAGIC_SIZE, FormatDescription
from capstan.core.binlog.offline.gtid_transactions import (
    PREFIXES,
    GtidPrefix,
    GtidTransactionDecoder,
)
from capstan.core.binlog.offline.outcomes import (
    CommittedTransaction,
    IncompleteTransaction,
    RolledBack,
)
from capstan.core.binlog.offline.raw_event import Buffer, EventHeader, whole_event
from capstan.core.binlog.statements import StatementError, StatementKind, classify_query
from capstan.core.binlog.table_signs import SchemaError, Signs, TableSigns
from capstan.core.gtid import GtidSet
from capstan.core.halts import Halted

_SELF_COMMITTING: Final = frozenset(
    {StatementKind.DDL, StatementKind.OTHER, StatementKind.SERVER_EMPTIES_MEMORY_TABLE}
)


@attrs.frozen(kw_only=True)
class SelfCommitting:
    """One statement that commits itself (DDL, accounts, maintenance); no part of its text.

    Attributes:
        start_offset: Where its event begins.
        end_offset: Where its event ends.
    """

    start_offset: int
    end_offset: int


FileOutcome = CommittedTransaction | RolledBack | IncompleteTransaction | SelfCommitting


@attrs.frozen(kw_only=True)
class FileTransaction:
    """What stands under one GTID, or would under one.

    Attributes:
        start_offset: Where its first event begins in the file, the GTID's if there is one.
        end_offset: Where its last event ends in the file.
        timestamp: Seconds since 1970 in the header of its first event.
        event_count: Its events in the file, the GTID's included; a payload is one.
        prefix: The GTID event before it; None in files of servers that write none.
        outcome: What it came to.
        payload_offset: Where its compressed payload begins; the outcome's own offsets are then
            those inside the payload. None when it is not compressed.
    """

    start_offset: int
    end_offset: int
    timestamp: int
    event_count: int
    prefix: GtidPrefix | None
    outcome: FileOutcome
    payload_offset: int | None = None


class Fed(NamedTuple):
    """What one event did.

    Attributes:
        header: Its header.
        done: The transaction that it finished, if any.
    """

    header: EventHeader
    done: FileTransaction | None


class Envelope:
    """Takes the events of one file in order, from the one behind the magic on.

    Args:
        limits: What a transaction may be.
        keep_rows: False to count only.
        signs: Says which integers are unsigned where table maps do not.

    Attributes:
        format: The file's format description, once it was fed.
        previous_gtids: What is in the files before this one; None when the file does not say.
        next_file: The file that a rotate names.
        ended: Whether a rotate or stop was fed.
    """

    def __init__(
        self, limits: TransactionLimits, *, keep_rows: bool = True, signs: Signs | None = None
    ) -> None:
        self.format: FormatDescription | None = None
        self.previous_gtids: GtidSet | None = None
        self.next_file: str | None = None
        self.ended = False
        self._limits = limits
        self._keep_rows = keep_rows
        self._signs = TableSigns(signs)
        self._position = MAGIC_SIZE
        self._events = 0
        self._prefix: GtidPrefix | None = None
        self._prefixed = False
        self._start = self._timestamp = self._first = 0
        self._inside = False
        self._handlers: dict[int, Callable[[Buffer, int, EventHeader], FileTransaction | None]] = {
            EventType.PREVIOUS_GTIDS: self._take_previous_gtids,
            EventType.ROTATE: self._take_rotate,
            EventType.STOP: self._take_stop,
            EventType.HEARTBEAT: self._pass_over,
            EventType.HEARTBEAT_V2: self._pass_over,
            EventType.QUERY: self._take_query,
            **dict.fromkeys(PREFIXES, self._take_prefix),
        }
        self._behind_prefix: dict[
            int, Callable[[Buffer, int, EventHeader], FileTransaction | None]
        ] = {
            EventType.QUERY: self._take_query,
            EventType.TRANSACTION_PAYLOAD: self._take_payload,
        }

    @property
    def outside(self) -> bool:
        """Whether the next event begins something new."""
        return not self._inside and self._prefix is None

    def feed(self, data: Buffer, offset: int) -> Fed:
        """Take the event at an offset.

        Args:
            data: The whole file, or what there is of it.
            offset: Where the event begins: in `data` and in the file.

        Raises:
            DecodeError: For whatever is not as it must be; the file is not to be read on.
        """
        header = EventHeader.parse(data, offset)
        self._events += 1
        try:
            fed = self._take(data, offset, header)
        except Halted as verdict:
            raise from_halt(verdict.halt, offset=offset, event_type=header.event_type) from None
        except SchemaError as error:
            kind = DecodeErrorKind.SIGNEDNESS_CONFLICT
            raise _refused(kind, header, offset, str(error)) from None
        self._position = offset + header.event_size
        return fed

    def go_on(self, position: int, events: int) -> None:
        """Note that whole transactions up to a position were judged elsewhere."""
        assert self.outside
        self._position = position
        self._events += events

    def finish(self) -> FileTransaction | None:
        """Say that the file ends here; what was not finished, if anything was."""
        if self.outside:
            return None
        if self._inside:
            given = self._decoder.finish()
            assert given is not None
            return self._group(self._position, given.outcome)
        assert self._prefix is not None
        outcome = IncompleteTransaction(
            start_offset=self._start,
            end_offset=self._position,
            event_count=1,
            row_changes=0,
            wire_bytes=self._prefix.header.event_size,
        )
        return self._group(self._position, outcome)

    def _take(self, data: Buffer, offset: int, header: EventHeader) -> Fed:
        if offset != self._position:
            detail = f"the last event ended at {self._position}"
            raise _refused(DecodeErrorKind.NOT_CONTIGUOUS, header, offset, detail)
        if self._inside:
            return self._feed_decoder(data, offset)
        if self.format is None:
            self._take_format(data, offset)
            return Fed(header, None)
        if self.ended:
            raise _refused(DecodeErrorKind.ORDER_INVALID, header, offset, "behind the file's end")
        if self._prefix is not None:
            handler = self._behind_prefix.get(header.event_type)
        else:
            handler = self._handlers.get(header.event_type)
            if handler is None and header.flags & IGNORABLE:
                handler = self._pass_over
        if handler is None:
            return self._judged_by_decoder(data, offset, header)
        return Fed(header, handler(data, offset, header))

    # -- the file's own events -----------------------------------------------------------------

    def _take_format(self, data: Buffer, offset: int) -> None:
        self.format = FormatDescription.parse(data, offset)
        self._decoder = GtidTransactionDecoder(self.format, self._limits, keep_rows=self._keep_rows)
        self._payloads = PayloadDecoder(
            self.format, self._limits, keep_rows=self._keep_rows, signs=self._signs
        )

    def _take_previous_gtids(self, data: Buffer, offset: int, header: EventHeader) -> None:
        raw, end = self._whole(data, offset)
        if self._events != 2:
            detail = "previous GTIDs in the middle of a file"
            raise _refused(DecodeErrorKind.ORDER_INVALID, header, offset, detail)
        self.previous_gtids = read_previous_gtids(raw, SIZE, end)

    def _take_rotate(self, data: Buffer, offset: int, _header: EventHeader) -> None:
        raw, end = self._whole(data, offset)
        self.next_file, _ = read_rotate(raw, SIZE, end)
        self.ended = True

    def _take_stop(self, data: Buffer, offset: int, _header: EventHeader) -> None:
        self._whole(data, offset)
        self.ended = True

    def _pass_over(self, data: Buffer, offset: int, _header: EventHeader) -> None:
        self._whole(data, offset)

    # -- transactions --------------------------------------------------------------------------

    def _take_prefix(self, data: Buffer, offset: int, header: EventHeader) -> None:
        assert self.format is not None
        self._prefix = GtidPrefix.parse(data, offset, self.format)
        self._prefixed = True
        self._begin(offset, header)

    def _begin(self, offset: int, header: EventHeader) -> None:
        """The event is the first of a transaction."""
        self._start, self._timestamp, self._first = offset, header.timestamp, self._events - 1

    def _take_query(self, data: Buffer, offset: int, header: EventHeader) -> FileTransaction | None:
        raw, end = self._whole(data, offset)
        query = read_query(raw, SIZE, end)
        try:
            commits_itself = classify_query(query).kind in _SELF_COMMITTING
        except StatementError:
            commits_itself = False
        if not commits_itself:
            return self._judged_by_decoder(data, offset, header).done
        if self._prefix is None:
            if self._prefixed:
                detail = "without the GTID that transactions have in this file"
                raise _refused(DecodeErrorKind.ORDER_INVALID, header, offset, detail)
            self._begin(offset, header)
        stop = offset + header.event_size
        return self._group(stop, SelfCommitting(start_offset=offset, end_offset=stop))

    def _take_payload(self, data: Buffer, offset: int, header: EventHeader) -> FileTransaction:
        raw, end = self._whole(data, offset)
        outcome = self._payloads.decode(raw, end, offset)
        return self._group(offset + header.event_size, outcome, payload=offset)

    def _judged_by_decoder(self, data: Buffer, offset: int, header: EventHeader) -> Fed:
        """Begin a transaction, or be refused."""
        if self._prefix is not None:
            self._decoder.feed(data, self._prefix.offset)
        else:
            self._begin(offset, header)
        self._inside = True
        return self._feed_decoder(data, offset)

    def _feed_decoder(self, data: Buffer, offset: int) -> Fed:
        assert self.format is not None
        flags = self._signs.at(data, offset, checksums=self.format.checksums)
        header, given = self._decoder.feed(data, offset, flags)
        if given is None:
            return Fed(header, None)
        return Fed(header, self._group(offset + header.event_size, given.outcome))

    def _group(self, end: int, outcome: FileOutcome, payload: int | None = None) -> FileTransaction:
        """Close what is under way."""
        prefix, self._prefix, self._inside = self._prefix, None, False
        self._signs.forget()
        return FileTransaction(
            start_offset=self._start,
            end_offset=end,
            timestamp=self._timestamp,
            event_count=self._events - self._first,
            prefix=prefix,
            outcome=outcome,
            payload_offset=payload,
        )

    def _whole(self, data: Buffer, offset: int) -> tuple[bytes, int]:
        assert self.format is not None
        _, raw, end = whole_event(
            data, offset, checksums=self.format.checksums, largest=self._limits.event_bytes
        )
        return raw, end


def _refused(kind: DecodeErrorKind, header: EventHeader, offset: int, detail: str) -> DecodeError:
    return DecodeError(kind, offset=offset, event_type=header.event_type, detail=detail)
