"""Reads which GTIDs a row of binlog files holds, and where.

House rules: a fast look (see `core.binlog.group_listing`); the files must still follow one another.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from capstan.core.binlog.group_listing import GroupLister, GtidGroup
from capstan.core.gtid import Gtid, GtidAccumulator, GtidSet
from capstan.sources.binlog_walk import BinlogWalk, Place, unwatched


class GroupReader:
    """Reads groups; iterate over it once.

    Args:
        paths: The files, in order.
        watch: Told how far the reading is.

    Attributes:
        previous_gtids: What is in the files before the first; None when it does not say.
        unfinished: The GTID in whose events the files end, if they do.
    """

    def __init__(
        self, paths: Sequence[Path], watch: Callable[[Path, int], None] = unwatched
    ) -> None:
        self._walk = BinlogWalk(paths, None, watch)
        self._gtids = GtidAccumulator(GtidSet())
        self.previous_gtids: GtidSet | None = None
        self.unfinished: Gtid | None = None

    @property
    def path(self) -> Path:
        """The file that is being read."""
        return self._walk.path

    @property
    def gtids(self) -> GtidSet:
        """All that were read."""
        return self._gtids.freeze()

    def __iter__(self) -> Iterator[GtidGroup]:
        """Yield each group whose events are all there.

        Raises:
            BinlogFileError: For a file that is none, or not the next one.
            DecodeError: With an offset in the file `path`.
        """
        for number, place in enumerate(self._walk.places()):
            lister = GroupLister()
            yield from self._file(place, lister)
            if number == 0:
                self.previous_gtids = lister.previous_gtids
            self.unfinished = lister.unfinished
            if self.unfinished is not None:
                return
            self._walk.ended(lister.next_file, self.gtids)

    def _file(self, place: Place, lister: GroupLister) -> Iterator[GtidGroup]:
        told = False
        data = place.file.data
        while place.at_event():
            end = place.end
            group = lister.feed(data, place.offset)
            if group is not None:
                yield self._noted(group)
            if not told and lister.previous_gtids is not None:
                self._walk.begun(lister.previous_gtids)
                told = True
            place.move(end)
        group = lister.finish(data)
        if group is not None:
            yield self._noted(group)

    def _noted(self, group: GtidGroup) -> GtidGroup:
        self._gtids.add(group.gtid.uuid, group.gtid.tag, group.gtid.number)
        return group
