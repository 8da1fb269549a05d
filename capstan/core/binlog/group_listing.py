"""Finds which GTIDs a binlog file holds and where their events lie, without a look into rows.

House rules: headers are walked, and only GTID events, previous GTIDs, rotates and the last event of
all are read. What stands under a GTID is not judged: whatever a server has logged there counts,
once something else follows it or it is closed. A GTID whose events the file does not close is not
counted.
"""

from typing import Final

import attrs

from capstan.core.binlog.header import SIZE, EventType
from capstan.core.binlog.log_events import (
    read_gtid,
    read_previous_gtids,
    read_query,
    read_rotate,
    read_tagged_gtid,
)
from capstan.core.binlog.offline.decode_errors import from_halt
from capstan.core.binlog.offline.format_description import FormatDescription
from capstan.core.binlog.offline.raw_event import Buffer, EventHeader, whole_event
from capstan.core.binlog.statements import StatementError, StatementKind, classify_query
from capstan.core.gtid import Gtid, GtidSet
from capstan.core.halts import Halted

_PREFIXES: Final = frozenset({EventType.GTID, EventType.GTID_TAGGED, EventType.ANONYMOUS_GTID})
_BETWEEN: Final = frozenset(
    {EventType.ROTATE, EventType.STOP, EventType.HEARTBEAT, EventType.HEARTBEAT_V2}
)
_CLOSERS: Final = frozenset(
    {EventType.XID, EventType.XA_PREPARE, EventType.TRANSACTION_PAYLOAD, EventType.INCIDENT}
)
_OPENING: Final = frozenset({StatementKind.BEGIN, StatementKind.XA_START})
_CLOSING: Final = frozenset({StatementKind.COMMIT, StatementKind.ROLLBACK})


@attrs.frozen(kw_only=True)
class GtidGroup:
    """The events under one GTID.

    Attributes:
        gtid: Whose.
        start_offset: Where its GTID event begins.
        end_offset: Where its last event ends.
        event_count: How many they are.
        timestamp: Seconds since 1970 in the header of the GTID event.
    """

    gtid: Gtid
    start_offset: int
    end_offset: int
    event_count: int
    timestamp: int


class GroupLister:
    """Takes the events of one file in order.

    Attributes:
        format: The file's format description, once it was fed.
        previous_gtids: What is in the files before this one; None when the file does not say.
        next_file: The file that a rotate names.
        ended: Whether a rotate or stop was fed.
    """

    def __init__(self) -> None:
        self.format: FormatDescription | None = None
        self.previous_gtids: GtidSet | None = None
        self.next_file: str | None = None
        self.ended = False
        self._gtid: Gtid | None = None
        self._start = self._end = self._events = self._timestamp = 0
        self._last = (0, 0)

    def feed(self, data: Buffer, offset: int) -> GtidGroup | None:
        """Take the event at an offset; the group that it shows to be over, if any.

        Raises:
            DecodeError: For a format description or GTID that cannot be read.
        """
        header = EventHeader.parse(data, offset)
        if self.format is None:
            self.format = FormatDescription.parse(data, offset)
            return None
        code = header.event_type
        done = None
        try:
            if code in _PREFIXES:
                done = self._close()
                self._open(data, offset, header)
            elif code in _BETWEEN:
                done = self._close()
                self._note_end(data, offset, code)
            elif code == EventType.PREVIOUS_GTIDS:
                raw, end = self._read(data, offset)
                self.previous_gtids = read_previous_gtids(raw, SIZE, end)
            self._events += 1
        except Halted as verdict:
            raise from_halt(verdict.halt, offset=offset, event_type=code) from None
        self._last = (code, offset)
        self._end = offset + header.event_size
        return done

    def finish(self, data: Buffer) -> GtidGroup | None:
        """Say that the file ends here: its last group, when it is closed.

        Returns:
            None as well when there is none or it is not closed; `unfinished` tells which.
        """
        return self._close() if self._gtid is not None and self._is_closed(data) else None

    @property
    def unfinished(self) -> Gtid | None:
        """Whose events are not all there, behind `finish`."""
        return self._gtid

    def _open(self, data: Buffer, offset: int, header: EventHeader) -> None:
        raw, end = self._read(data, offset)
        if header.event_type == EventType.GTID:
            self._gtid = read_gtid(raw, SIZE, end).gtid
        elif header.event_type == EventType.GTID_TAGGED:
            self._gtid = read_tagged_gtid(raw, SIZE, end).gtid
        self._start, self._events, self._timestamp = offset, 0, header.timestamp

    def _note_end(self, data: Buffer, offset: int, code: int) -> None:
        raw, end = self._read(data, offset)
        if code == EventType.ROTATE:
            self.next_file, _ = read_rotate(raw, SIZE, end)
        self.ended = code in (EventType.ROTATE, EventType.STOP)

    def _close(self) -> GtidGroup | None:
        gtid, self._gtid = self._gtid, None
        if gtid is None:
            return None
        return GtidGroup(
            gtid=gtid,
            start_offset=self._start,
            end_offset=self._end,
            event_count=self._events,
            timestamp=self._timestamp,
        )

    def _is_closed(self, data: Buffer) -> bool:
        code, offset = self._last
        if code != EventType.QUERY:
            return code in _CLOSERS
        raw, end = self._read(data, offset)
        try:
            kind = classify_query(read_query(raw, SIZE, end)).kind
        except (StatementError, Halted):
            return False
        # Alone behind its GTID a statement commits itself, or opens what is not here.
        return kind not in _OPENING if self._events == 2 else kind in _CLOSING

    def _read(self, data: Buffer, offset: int) -> tuple[bytes, int]:
        assert self.format is not None
        _, raw, end = whole_event(data, offset, checksums=self.format.checksums)
        return raw, end
