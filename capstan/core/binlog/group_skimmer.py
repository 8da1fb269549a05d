"""Counts transactions that are like those before them, many times as fast as a decoder does.

House rules: nothing is judged here for the first time. The strict decoder's verdicts are remembered
by bytes: a BEGIN, a COMMIT, a table map that it took is taken again when it is the same but for its
thread; everything new, odd or wrong ends the skimming in front of its transaction, which then goes
to the decoder and is judged there. Checksums are verified, events must touch, rows are walked to
their exact ends. The one thing that is not looked at is what values say: a count does not need it.

How it works: three states, each a table of event type → what takes it; a handler gives the next
state. Runs of the commonest form go through `repeated_form`. A file's first transaction is always
the decoder's. Limits are not known here: who has any must not skim.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple
from zlib import crc32

from capstan.core.binlog.checksum import RESIDUE
from capstan.core.binlog.file_tally import FileTally
from capstan.core.binlog.header import SIZE, EventType, unpack_header
from capstan.core.binlog.log_events import read_gtid
from capstan.core.binlog.offline.format_description import FormatDescription
from capstan.core.binlog.repeated_form import EVENTS, RepeatedForm, SkimmedBuffer, form_of
from capstan.core.binlog.row_counter import RowCounter
from capstan.core.changes import Committed, Op
from capstan.core.halts import Halted

_OPS: Final = {
    int(EventType.WRITE_ROWS): Op.INSERT,
    int(EventType.UPDATE_ROWS): Op.UPDATE,
    int(EventType.DELETE_ROWS): Op.DELETE,
}
_BODY: Final = SIZE + 8
"""Where a QUERY goes on behind its thread and duration, a table map or row event behind its id."""
_ID: Final = slice(SIZE, SIZE + 6)
_FLAGS: Final = SIZE + 6
_STATEMENT_END: Final = 1
_NUMBER: Final = slice(SIZE + 17, SIZE + 25)
_CLOCK: Final = SIZE + 25
_NO_NUMBER: Final = bytes(8)
_XID_END: Final = SIZE + 8
_REMEMBERED: Final = 4096
_WATCH_STEP: Final = 8 << 20


def _unwatched(_offset: int) -> None:
    """Watch nothing."""


class _UnlikeError(Exception):
    """The event is not like one that was seen."""


class Skimmed(NamedTuple):
    """How far the skimming went.

    Attributes:
        end: Where the last transaction that was counted ends.
        events: How many events were counted.
    """

    end: int
    events: int


class _State(dict[int, Callable[[bytes, int], "_State"]]):
    """Event type → its handler."""


class GroupSkimmer:
    """Skims files into a tally.

    Args:
        tally: Where to count.
    """

    def __init__(self, tally: FileTally) -> None:
        self._tally = tally
        self._layout: tuple[bool, bytes] | None = None
        self._trailer = 0
        self._begins: set[bytes] = set()
        self._commits: set[bytes] = set()
        self._anonymous: set[tuple[int, int]] = set()
        self._counters: dict[bytes, RowCounter] = {}
        self._maps: dict[bytes, RowCounter] = {}
        self._changes: dict[tuple[RowCounter, int], list[int]] = {}
        self._form: RepeatedForm | None = None
        self._gtid: Committed | None = None
        self._unprefixed, self._expecting = _State(), _State()
        self._prefixed, self._inside, self._done = _State(), _State(), _State()

    def _forget(self) -> None:
        for memory in (self._begins, self._commits, self._anonymous, self._counters):
            memory.clear()
        for state in (self._unprefixed, self._expecting, self._prefixed, self._inside):
            state.clear()

    def learn(
        self, data: SkimmedBuffer, start: int, end: int, description: FormatDescription
    ) -> None:
        """Remember the forms of a transaction that the decoder took as committed.

        Args:
            data: The file.
            start: Where its first event begins, the GTID's if there is one.
            end: Where its last event ends.
            description: The file's; what was remembered of other layouts is forgotten.
        """
        layout = (description.checksums, description.post_header_lengths)
        remembered = max(map(len, (self._begins, self._commits, self._counters)))
        if layout != self._layout or remembered > _REMEMBERED:
            self._forget()
            self._layout = layout
            self._trailer = 4 if description.checksums else 0
        begun, first = False, start
        while start < end:
            code, size, _, _ = unpack_header(data, start)
            raw = data[start : start + size]
            body = raw[_BODY : size - self._trailer]
            if code == EventType.QUERY:
                (self._commits if begun else self._begins).add(body)
                begun = True
            elif code == EventType.ANONYMOUS_GTID:
                self._anonymous.add((size, raw[_CLOCK]))
            elif code == EventType.TABLE_MAP and body not in self._counters:
                self._counters[body] = RowCounter.of(body)
            self._allow(code)
            start += size
        # Checksums are what makes one look at several events at once as good as one at each.
        self._form = form_of(data, first, end, self._counters) if description.checksums else None

    def _allow(self, code: int) -> None:
        """Take events of a type from now on."""
        if code in _OPS:
            self._inside[code] = self._rows(code)
        elif code == EventType.TABLE_MAP:
            self._inside[code] = self._map_table
        elif code == EventType.XID:
            self._inside[code] = self._take_xid
        elif code == EventType.QUERY:
            self._inside[code] = self._take_commit
            self._unprefixed[code] = self._prefixed[code] = self._take_begin
        elif code == EventType.GTID:
            self._expecting[code] = self._take_gtid
        elif code == EventType.ANONYMOUS_GTID:
            self._expecting[code] = self._take_anonymous

    def skim(
        self,
        data: SkimmedBuffer,
        offset: int,
        *,
        prefixed: bool,
        watch: Callable[[int], None] = _unwatched,
    ) -> Skimmed:
        """Count as many whole transactions as look like those before.

        Args:
            data: The file.
            offset: Where a transaction, or something else, begins.
            prefixed: Whether this file's transactions have GTID events before them.
            watch: Told now and then how far the reading is.
        """
        outside = self._expecting if prefixed else self._unprefixed
        skimmed = Skimmed(offset, 0)
        try:
            while True:
                skimmed = self._repeated(data, skimmed, watch)
                self._drop()
                for end, events in self._transactions(data, skimmed, outside, watch):
                    self._settle()
                    skimmed = Skimmed(end, events)
                    if self._form is not None:
                        break
                else:
                    return skimmed
        except (_UnlikeError, Halted):
            return skimmed  # the decoder sees the same bytes next, and judges them

    def _repeated(
        self, data: SkimmedBuffer, skimmed: Skimmed, watch: Callable[[int], None]
    ) -> Skimmed:
        """Count the transactions of the form that was learned last."""
        form = self._form
        while form is not None:
            run = form.run(data, skimmed.end)
            if not run.committed:
                break
            for who in run.committed:
                self._tally.has(who.uuid, who.tag, who.number)
            self._tally.count(form.name, _OPS[form.code], run.changes, run.size)
            self._tally.transactions += len(run.committed)
            skimmed = Skimmed(run.end, skimmed.events + EVENTS * len(run.committed))
            watch(run.end)
        return skimmed

    def _drop(self) -> None:
        """Nothing is under way."""
        self._gtid = None
        self._maps.clear()
        self._changes.clear()

    def _transactions(
        self, data: SkimmedBuffer, behind: Skimmed, outside: _State, watch: Callable[[int], None]
    ) -> Iterator[tuple[int, int]]:
        """Where each transaction ends, and how many events have been seen by then."""
        offset, events = behind
        state, trailer = outside, self._trailer
        last, mark = len(data) - SIZE, offset + _WATCH_STEP
        while offset <= last:
            code, size, _, _ = unpack_header(data, offset)
            handler = state.get(code)
            raw = data[offset : offset + size]
            if handler is None or len(raw) != size or (trailer and crc32(raw) != RESIDUE):
                return
            state = handler(raw, size - trailer)
            offset += size
            events += 1
            if state is self._done:
                yield offset, events
                state = outside
            if offset >= mark:
                watch(offset)
                mark = offset + _WATCH_STEP

    def _settle(self) -> None:
        """Count the transaction that has just ended."""
        tally = self._tally
        tally.transactions += 1
        if self._gtid is not None:
            tally.has(self._gtid.uuid, self._gtid.tag, self._gtid.number)
        for (counter, code), (changes, size) in self._changes.items():
            tally.count(counter.name, _OPS[code], changes, size)
        self._drop()

    # -- handlers: the event's bytes, and where its body ends → the next state -------------------

    def _take_gtid(self, raw: bytes, end: int) -> _State:
        self._gtid = read_gtid(raw, SIZE, end)
        return self._prefixed

    def _take_anonymous(self, raw: bytes, _end: int) -> _State:
        if raw[_NUMBER] != _NO_NUMBER or (len(raw), raw[_CLOCK]) not in self._anonymous:
            raise _UnlikeError
        return self._prefixed

    def _take_begin(self, raw: bytes, end: int) -> _State:
        if raw[_BODY:end] not in self._begins:
            raise _UnlikeError
        return self._inside

    def _take_commit(self, raw: bytes, end: int) -> _State:
        if raw[_BODY:end] not in self._commits:
            raise _UnlikeError
        return self._done

    def _take_xid(self, _raw: bytes, end: int) -> _State:
        if end != _XID_END:
            raise _UnlikeError
        return self._done

    def _map_table(self, raw: bytes, end: int) -> _State:
        counter = self._counters.get(raw[_BODY:end])
        if counter is None or self._maps.setdefault(raw[_ID], counter) is not counter:
            raise _UnlikeError
        return self._inside

    def _rows(self, code: int) -> Callable[[bytes, int], _State]:
        """The handler of one type of row events."""
        pairs = code == EventType.UPDATE_ROWS
        maps, changes, inside = self._maps, self._changes, self._inside

        def take(raw: bytes, end: int) -> _State:
            counter = maps.get(raw[_ID])
            if counter is None:
                raise _UnlikeError
            count = counter.changes(raw, _BODY, end, pairs=pairs)
            held = changes.get((counter, code))
            if held is None:
                changes[counter, code] = [count, len(raw)]
            else:
                held[0] += count
                held[1] += len(raw)
            if raw[_FLAGS] & _STATEMENT_END:
                maps.clear()
            return inside

        return take
