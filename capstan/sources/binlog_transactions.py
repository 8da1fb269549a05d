"""Reads the transactions of a row of binlog files.

House rules: one envelope a file, one decoder a file; the reading ends with the first file that ends
in the middle of a transaction. With a skimmer what it counts is not yielded.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from capstan.core.binlog.envelope import Envelope, FileTransaction
from capstan.core.binlog.file_tally import FileTally
from capstan.core.binlog.group_skimmer import GroupSkimmer
from capstan.core.binlog.offline.decode_errors import DecodeError, DecodeErrorKind
from capstan.core.binlog.offline.decode_limits import TransactionLimits
from capstan.core.binlog.offline.outcomes import CommittedTransaction
from capstan.core.binlog.table_signs import Signs
from capstan.sources.binlog_walk import BinlogWalk, Place, Tail, unwatched


class TransactionReader:
    """Reads transactions; iterate over it once.

    Args:
        paths: The files, in order.
        limits: What a transaction may be.
        signs: Says which integers are unsigned where table maps do not.
        count_only: Let rows go as soon as they are judged.
        tail: Waits for more; None to take the files as they are.
        watch: Told how far the reading is.

    Attributes:
        tally: What was read, in numbers.
        events: Events of the files so far.
        size: Their bytes.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        limits: TransactionLimits,
        signs: Signs | None = None,
        count_only: bool = False,
        tail: Tail | None = None,
        watch: Callable[[Path, int], None] = unwatched,
    ) -> None:
        self._walk = BinlogWalk(paths, tail, watch)
        self._limits = limits
        self._signs = signs
        self._count_only = count_only
        self.tally = FileTally()
        self.events = 0
        self.size = 0

    @property
    def path(self) -> Path:
        """The file that is being read."""
        return self._walk.path

    @property
    def stopped(self) -> bool:
        """Whether the tail ended the reading."""
        return self._walk.stopped

    def __iter__(self) -> Iterator[FileTransaction]:
        """Yield each transaction; the last may be an incomplete one.

        Raises:
            BinlogFileError: For a file that is none, or not the next one.
            DecodeError: With an offset in the file `path`.
        """
        return self._read(None)

    def count(self) -> Iterator[FileTransaction]:
        """Like iterating, but those that are like others before them are only counted."""
        return self._read(GroupSkimmer(self.tally))

    def _read(self, skimmer: GroupSkimmer | None) -> Iterator[FileTransaction]:
        for place in self._walk.places():
            envelope = Envelope(self._limits, keep_rows=not self._count_only, signs=self._signs)
            cut: DecodeError | None = None
            try:
                yield from self._file(place, envelope, skimmer)
            except DecodeError as error:
                if error.kind is not DecodeErrorKind.TRUNCATED:
                    raise
                cut = error
            if (incomplete := envelope.finish()) is not None:
                self.tally.add(incomplete)
                yield incomplete
            if cut is not None:
                raise cut
            if incomplete is not None:
                return
            self._walk.ended(envelope.next_file, self.tally.gtids)

    def _file(
        self, place: Place, envelope: Envelope, skimmer: GroupSkimmer | None
    ) -> Iterator[FileTransaction]:
        told = False
        while place.at_event():
            data = place.file.data
            header, done = envelope.feed(data, place.offset)
            self.events += 1
            self.size += header.event_size
            place.move(place.end)
            place.last = envelope.ended
            if not told and envelope.previous_gtids is not None:
                self._walk.begun(envelope.previous_gtids)
                told = True
            if done is not None:
                self.tally.add(done)
                yield done
                if skimmer is not None and isinstance(done.outcome, CommittedTransaction):
                    self._skim(place, envelope, skimmer, done)

    def _skim(
        self,
        place: Place,
        envelope: Envelope,
        skimmer: GroupSkimmer,
        known: FileTransaction,
    ) -> None:
        """Count what follows as far as it is like what is known."""
        assert envelope.format is not None
        if known.payload_offset is not None:
            return
        data = place.file.data
        skimmer.learn(data, known.start_offset, known.end_offset, envelope.format)
        skimmed = skimmer.skim(
            data, place.offset, prefixed=known.prefix is not None, watch=place.passed
        )
        self.events += skimmed.events
        self.size += skimmed.end - place.offset
        envelope.go_on(skimmed.end, skimmed.events)
        place.move(skimmed.end)
