"""Ties GTID events to the transactions directly behind them, around the plain decoder.

House rules: the plain decoder stays as it is; everything it refuses is refused here, and what it
gives back is given back unchanged beside the prefix. A prefix belongs to the BEGIN that begins
where the prefix ends, or to nothing, which is an error. In a file whose transactions have prefixes
one without is an error too: it could only have lost it. Files of servers without GTIDs have none.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from capstan.core.binlog import log_events
from capstan.core.binlog.header import SIZE, EventType
from capstan.core.binlog.offline.decode_errors import DecodeError, DecodeErrorKind, from_halt
from capstan.core.binlog.offline.decode_limits import TransactionLimits
from capstan.core.binlog.offline.format_description import FormatDescription
from capstan.core.binlog.offline.outcomes import (
    IncompleteTransaction,
    Outcome,
)
from capstan.core.binlog.offline.raw_event import Buffer, EventHeader, whole_event
from capstan.core.binlog.offline.transactions import Signs, TransactionDecoder
from capstan.core.changes import Committed
from capstan.core.gtid import Gtid
from capstan.core.halts import Halted

PREFIXES: Final = frozenset({EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED})
"""The event types that stand before a transaction."""

_NUMBER: Final = slice(SIZE + 17, SIZE + 25)
_NO_NUMBER: Final = bytes(8)
_ANY_NUMBER: Final = b"\x01" + bytes(7)
_new_tuple: Final = tuple.__new__
_DEFAULTS: Final = TransactionLimits()
_GTID: Final = int(EventType.GTID)
_TYPE: Final = 4
_NO_EVENT: Final = -1


class GtidPrefix(NamedTuple):
    """The event in front of a transaction that says which one it is.

    Attributes:
        offset: Where the event begins.
        header: Its header.
        committed: Who committed the transaction and when, microseconds since 1970; times are 0 in
            files of servers before 8.0.1. For an anonymous one only the times have a meaning.
    """

    offset: int
    header: EventHeader
    committed: Committed

    @classmethod
    def parse(cls, data: Buffer, offset: int, description: FormatDescription) -> "GtidPrefix":
        """Read the GTID event (with or without tag) or anonymous GTID event at an offset.

        Raises:
            DecodeError: `event_not_accepted` for another type; `malformed`, `truncated`,
                `size_invalid`, `checksum_mismatch`.
        """
        header, raw, end = whole_event(data, offset, checksums=description.checksums)
        return _read_prefix(header, raw, end, offset)

    @property
    def gtid(self) -> Gtid | None:
        """The transaction's identity; None for an anonymous one."""
        anonymous = self.header.event_type == EventType.ANONYMOUS_GTID
        return None if anonymous else self.committed.gtid

    @property
    def commit_micros(self) -> int:
        """When the original server committed it, microseconds since 1970.

        0 in files of servers before 8.0.1, which do not say.
        """
        return self.committed.commit_micros

    @property
    def end_offset(self) -> int:
        """Where its transaction must begin."""
        return self.offset + self.header.event_size


def _read_prefix(header: EventHeader, raw: bytes, end: int, offset: int) -> GtidPrefix:
    code = header.event_type
    try:
        if code == _GTID:
            committed = log_events.read_gtid(raw, SIZE, end)
        elif code == EventType.GTID_TAGGED:
            committed = log_events.read_tagged_gtid(raw, SIZE, end)
        elif code == EventType.ANONYMOUS_GTID:
            committed = _read_anonymous(raw, end)
        else:
            raise _refused(DecodeErrorKind.EVENT_NOT_ACCEPTED, code, offset, "no GTID event")
    except Halted as verdict:
        raise from_halt(verdict.halt, offset=offset, event_type=code) from None
    return _new_tuple(GtidPrefix, (offset, header, committed))


def _read_anonymous(raw: bytes, end: int) -> Committed:
    """An anonymous event is laid out as a GTID with the number 0, which no GTID has."""
    if raw[_NUMBER] != _NO_NUMBER:
        raise log_events.corrupt("ANONYMOUS_GTID truncated, or with a number")
    named = raw[: _NUMBER.start] + _ANY_NUMBER + raw[_NUMBER.stop :]
    return log_events.read_gtid(named, SIZE, end)


class GtidOutcome(NamedTuple):
    """How a transaction ended, and which one it was.

    Attributes:
        prefix: The event directly in front of it; None in a file without any.
        outcome: What the plain decoder gave.
    """

    prefix: GtidPrefix | None
    outcome: Outcome | IncompleteTransaction


class GtidStep(NamedTuple):
    """What one event did.

    Attributes:
        header: Its header; `event_size` says how many bytes were consumed.
        outcome: The transaction that it finished, if any.
    """

    header: EventHeader
    outcome: GtidOutcome | None


class GtidTransactionDecoder:
    """Decodes a contiguous run of explicit transactions of one file, each behind its GTID event.

    Args:
        description: The file's format description.
        limits: What a transaction, an event and a row may be; a prefix counts as no event of its
            transaction.
        keep_rows: As for `TransactionDecoder`.
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
        self._plain = TransactionDecoder(description, limits, keep_rows=keep_rows)
        self._prefix: GtidPrefix | None = None
        self._prefixed = False

    @property
    def active(self) -> bool:
        """Whether a prefix or a transaction is under way."""
        return self._prefix is not None or self._plain.active

    def feed(
        self,
        data: Buffer,
        offset: int,
        integer_unsigned: Sequence[bool] | None = None,
        *,
        base: int = 0,
    ) -> GtidStep:
        """Take the event at an offset, as `TransactionDecoder.feed` does.

        Raises:
            DecodeError: What the plain decoder raises; `order_invalid` for a prefix inside a
                transaction or behind another prefix, and for a BEGIN that lacks its prefix;
                `not_contiguous` for one that is not directly behind it. The transaction under way
                and its prefix are gone.
        """
        signs = None if integer_unsigned is None else lambda _: integer_unsigned
        outcome, _ = self._advance(data, offset, signs, base, once=True)
        return GtidStep(EventHeader.parse(data, offset, base=base), outcome)

    def decode(
        self, data: Buffer, offset: int, signs: Signs | None = None, *, base: int = 0
    ) -> tuple[GtidOutcome | None, int]:
        """Take events until one finishes a transaction, as `TransactionDecoder.decode` does.

        Returns:
            The transaction, None when `data` ended inside it, and where the next event begins.

        Raises:
            DecodeError: As `feed` does, for the first event that is not as it must be.
        """
        return self._advance(data, offset, signs, base, once=False)

    def finish(self) -> GtidOutcome | None:
        """Say that the input ends here; never commits.

        Returns:
            What was under way and is dropped, be it a prefix alone; None when nothing was.
        """
        prefix, incomplete = self._prefix, self._plain.finish()
        self._prefix = None
        if incomplete is not None:
            return GtidOutcome(prefix, incomplete)
        if prefix is None:
            return None
        alone = IncompleteTransaction(
            start_offset=prefix.end_offset,
            end_offset=prefix.end_offset,
            event_count=0,
            row_changes=0,
            wire_bytes=0,
        )
        return GtidOutcome(prefix, alone)

    def _drop(self) -> None:
        self._prefix = None
        self._plain.finish()

    def _advance(
        self, data: Buffer, offset: int, signs: Signs | None, base: int, *, once: bool
    ) -> tuple[GtidOutcome | None, int]:
        plain, prefix = self._plain, self._prefix
        try:
            if not plain.active:
                if prefix is None and _type_at(data, offset - base) in PREFIXES:
                    prefix, offset = self._take_prefix(data, offset, base)
                    if once or offset == base + len(data):
                        return None, offset
                else:
                    self._look_at_prefix(offset)
            outcome, following = plain.advance(data, offset, signs, base, once=once)
        except DecodeError as error:
            self._drop()
            if error.event_type not in PREFIXES:
                raise
            # Its transaction must not pass for one without, whatever was wrong with it.
            self._prefixed = True
            if error.kind is not DecodeErrorKind.EVENT_NOT_ACCEPTED:
                raise
            detail = "inside a transaction, or behind another prefix"
            kind, code = DecodeErrorKind.ORDER_INVALID, error.event_type
            raise _refused(kind, code, error.offset, detail) from None
        except BaseException:
            # Whatever it was: neither a prefix nor half a transaction must be continued.
            self._drop()
            raise
        if outcome is None:
            return None, following
        self._prefix = None
        return _new_tuple(GtidOutcome, (prefix, outcome)), following

    def _take_prefix(self, data: Buffer, offset: int, base: int) -> tuple[GtidPrefix, int]:
        header, raw, end = whole_event(
            data, offset, checksums=self._checksums, largest=self._limits.event_bytes, base=base
        )
        self._prefix = prefix = _read_prefix(header, raw, end, offset)
        self._prefixed = True
        return prefix, offset + header.event_size

    def _look_at_prefix(self, offset: int) -> None:
        """Whether a transaction may begin here, as far as prefixes go."""
        prefix = self._prefix
        if prefix is None and self._prefixed:
            detail = "without the prefix that transactions of this file have"
            raise DecodeError(DecodeErrorKind.ORDER_INVALID, offset=offset, detail=detail)
        if prefix is not None and offset != prefix.end_offset:
            detail = f"its prefix ended at {prefix.end_offset}"
            raise DecodeError(DecodeErrorKind.NOT_CONTIGUOUS, offset=offset, detail=detail)


def _type_at(data: Buffer, place: int) -> int:
    """The type of the event at a place, believed only as far as which reader is to judge it."""
    return data[place + _TYPE] if 0 <= place < len(data) - _TYPE else _NO_EVENT


def _refused(kind: DecodeErrorKind, code: int, offset: int, detail: str) -> DecodeError:
    return DecodeError(kind, offset=offset, event_type=code, detail=detail)
