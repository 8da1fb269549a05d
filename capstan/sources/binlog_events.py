"""Reads the events of a row of binlog files.

House rules: a listing of what is there (see `core.binlog.event_listing`); the files must still
follow one another.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from capstan.core.binlog.event_listing import EventLister, FileEvent
from capstan.core.binlog.table_signs import Signs
from capstan.core.gtid import GtidAccumulator, GtidSet
from capstan.sources.binlog_walk import BinlogWalk, Place, Tail, unwatched


class EventReader:
    """Reads events; iterate over it once.

    Args:
        paths: The files, in order.
        rows: Whether to decode rows.
        signs: Says which integers are unsigned where table maps do not.
        tail: Waits for more; None to take the files as they are.
        watch: Told how far the reading is.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        rows: bool = False,
        signs: Signs | None = None,
        tail: Tail | None = None,
        watch: Callable[[Path, int], None] = unwatched,
    ) -> None:
        self._walk = BinlogWalk(paths, tail, watch)
        self._rows = rows
        self._signs = signs
        self._gtids = GtidAccumulator(GtidSet())

    @property
    def path(self) -> Path:
        """The file that is being read."""
        return self._walk.path

    def __iter__(self) -> Iterator[FileEvent]:
        """Yield each event; those inside a compressed payload follow it.

        Raises:
            BinlogFileError: For a file that is none, or not the next one.
            DecodeError: With an offset in the file `path`.
        """
        for place in self._walk.places():
            lister = EventLister(rows=self._rows, signs=self._signs)
            yield from self._file(place, lister)
            self._walk.ended(lister.next_file, self._gtids.freeze())

    def _file(self, place: Place, lister: EventLister) -> Iterator[FileEvent]:
        told = False
        while place.at_event():
            for event in lister.feed(place.file.data, place.offset):
                if event.gtid is not None:
                    self._gtids.add(event.gtid.uuid, event.gtid.tag, event.gtid.number)
                yield event
            if not told and lister.previous_gtids is not None:
                self._walk.begun(lister.previous_gtids)
                told = True
            place.move(place.end)
            place.last = lister.ended
