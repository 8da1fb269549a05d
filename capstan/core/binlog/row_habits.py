"""What the rows of one table are used to be like, learned from those that were read step by step.

House rules: a habit only says which code is worth writing; it never says what a row holds. The code
looks at each row whether it keeps to it, and one that does not is read step by step. Everything
here is bounded: null bitmaps by what code may take, lengths by how many are looked at.

How it works: a null bitmap that was seen often enough gets code of its own, a variant. Values
behind a length that was the same in all those rows (codes, hashes, CHARs of one byte a character)
are read with their row by one `struct` call. A column whose length was another one too often is no
longer expected to keep it. Code is written anew while the code before is still running, to the end
of its event: what that goes on to tell must change nothing twice.
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
"""Rows in all in which a column may have another length than expected."""

Lengths = Mapping[int, int]
"""Bytes that values behind a length are expected to have, by column."""


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
        self._misses: Counter[tuple[bytes, int]] = Counter()
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
        if mask in self.variants:
            return False
        lengths = self._measure(mask, data, start + self._mask_size)
        known = self._lengths.get(mask, lengths)
        known = {place: size for place, size in known.items() if lengths[place] == size}
        self._lengths[mask] = known
        self._seen[mask] += 1
        if self._seen[mask] >= self._sightings and self.learning:
            self.variants[mask] = known
            del self._seen[mask], self._lengths[mask]
            return True
        if len(self._seen) > _COUNTED:
            self._seen.clear()
            self._lengths.clear()
        return False

    def missed(self, data: bytes, start: int) -> bool:
        """Look at a row of other lengths than its variant's; whether that is to be written anew.

        Args:
            data: What holds the row, which was found good.
            start: Where it begins.
        """
        mask = data[start : start + self._mask_size]
        found = self._measure(mask, data, start + self._mask_size)
        expected = self.variants[mask]
        others = [place for place, size in expected.items() if found[place] != size]
        self._misses.update((mask, place) for place in others)
        given_up = {place for place in others if self._misses[mask, place] >= _MOST_MISSES}
        if given_up:
            kept = {place: size for place, size in expected.items() if place not in given_up}
            self.variants[mask] = kept
        return bool(given_up)

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
