"""What the rows of one table are used to be like, learned from those that were read step by step.

House rules: a habit only says which code is worth writing; it never says what a row holds. The code
looks at each row whether it keeps to it, and one that does not is read step by step. Everything
here is bounded: null bitmaps by what code may take, lengths by how many are looked at.

How it works: a null bitmap that was seen often enough gets code of its own. Values behind a length
that was the same in all those rows (codes, hashes, CHARs of one byte a character) are read with
their row by one `struct` call. A bitmap under which too many rows were different is learned anew,
and for the last time without lengths.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from capstan.core.binlog.field_codecs import FieldCodec

_MOST_VARIANTS: Final = 8
_MOST_LINES: Final = 2048
"""Columns times variants at most, so that a table of 4096 columns compiles in bounded time."""
_COUNTED: Final = 1024
"""Null bitmaps that are counted at a time."""
_MEASURED: Final = 32
"""Values behind a length, in the order of columns, whose length is looked at."""
_MOST_MISSES: Final = 256
_MOST_RELAPSES: Final = 4

Lengths = Mapping[int, int]
"""Bytes of the values behind a length that always have as many, by column."""


class RowHabits:
    """The habits of one table's rows.

    Args:
        codecs: How each column is read.
        sightings: How often a null bitmap must occur before code is worth it.

    Attributes:
        variants: What code is to be written for: null bitmaps and the lengths under each.
    """

    def __init__(self, codecs: Sequence[FieldCodec], sightings: int) -> None:
        self._codecs = codecs
        self._mask_size = (len(codecs) + 7) // 8
        self._sightings = sightings
        self._room = min(_MOST_VARIANTS, _MOST_LINES // len(codecs))
        self._seen: Counter[bytes] = Counter()
        self._lengths: dict[bytes, dict[int, int]] = {}
        self._misses: Counter[bytes] = Counter()
        self._relapses: Counter[bytes] = Counter()
        self.variants: dict[bytes, Lengths] = {}

    @property
    def learning(self) -> bool:
        """Whether more variants have a place."""
        return len(self.variants) < self._room

    def note(self, data: bytes, start: int) -> bool:
        """Look at a row without code of its own; whether there is more code to write now.

        Args:
            data: What holds the row, which was found good.
            start: Where it begins.
        """
        mask = data[start : start + self._mask_size]
        lengths = self._measure(mask, data, start + self._mask_size)
        known = self._lengths.get(mask, lengths)
        known = {place: size for place, size in known.items() if lengths[place] == size}
        self._lengths[mask] = known
        self._seen[mask] += 1
        if self._seen[mask] >= self._sightings and self.learning:
            self.variants[mask] = {} if self._relapses[mask] >= _MOST_RELAPSES else known
            del self._seen[mask], self._lengths[mask]
            return True
        if len(self._seen) > _COUNTED:
            self._seen.clear()
            self._lengths.clear()
        return False

    def missed(self, mask: bytes) -> bool:
        """Count a row of other lengths than its bitmap's; whether its code is to go."""
        self._misses[mask] += 1
        if self._misses[mask] < _MOST_MISSES:
            return False
        del self._misses[mask], self.variants[mask]
        self._relapses[mask] += 1
        return True

    def _measure(self, mask: bytes, data: bytes, position: int) -> dict[int, int]:
        """Bytes of the first values behind a length."""
        found: dict[int, int] = {}
        for place, codec in enumerate(self._codecs):
            if mask[place >> 3] & 1 << (place & 7):
                continue
            if codec.prefixed:
                size = int.from_bytes(data[position : position + codec.width], "little")
                found[place] = size
                position += size
                if len(found) == _MEASURED:
                    break
            position += codec.width
        return found
