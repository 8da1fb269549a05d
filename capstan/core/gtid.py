"""Global transaction identifiers and sets of them: the one module that knows them (R108).

House rules: a set is immutable and canonical, so equal sets are equal in every form. Text and bytes
from outside are refused when malformed (R44), never mended; a refusal names the kind and the place
of the fault and quotes nothing. A source is a lower-case uuid and a tag, `""` for no tag. Interval
arithmetic is `intervals`' business.

Text. Accepted is what a server prints: entries `uuid:1-3:5:tag:7` between commas, blanks and line
breaks around entries only. Printed is the server's own text without the line break after a comma:
sources by uuid, untagged first, then by tag.

Bytes. Two layouts, both of COM_BINLOG_DUMP_GTID and PREVIOUS_GTIDS: one without tags, and one that
opens with a format mark in the first and in the last byte of its first word. A set without tags is
always written in the first one, which every server reads.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from struct import Struct
from types import MappingProxyType
from typing import Any, Final

import attrs

from capstan.core import intervals as iv
from capstan.core.intervals import Interval, Intervals, Runs

MAX_NUMBER: Final = 2**63 - 2
"""The highest transaction number: the server keeps 2^63-1 as the end of the line."""

Source = tuple[str, str]

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TAG: Final = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_NUMBERS: Final = re.compile(r"([1-9][0-9]{0,18})(?:-([1-9][0-9]{0,18}))?")
_GTID: Final = re.compile(rf"({_UUID.pattern})(?::({_TAG.pattern}))?:([1-9][0-9]{{0,18}})")
_BLANKS: Final = " \t\n\v\f\r"

_U64: Final = Struct("<Q")
_TAGGED_MARK: Final = 1
_MAX_TAG: Final = 32


def uuid_text(raw: bytes) -> str:
    """The text of a source's 16 bytes: lower case with hyphens."""
    digits = raw.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _malformed(kind: str, position: int) -> ValueError:
    return ValueError(f"malformed GTID set: {kind} at offset {position}")


@attrs.frozen(order=True)
class Gtid:
    """One transaction's identity. The constructor trusts its caller; `parse` does not.

    Attributes:
        uuid: The source, lower case with hyphens.
        tag: The tag, lower case; `""` without one.
        number: 1 to `MAX_NUMBER`.
    """

    uuid: str
    tag: str
    number: int

    @classmethod
    def parse(cls, text: str) -> "Gtid":
        """Read `uuid:n` or `uuid:tag:n`.

        Raises:
            ValueError: When the text is not exactly one identifier.
        """
        parts = _GTID.fullmatch(text.lower()) if text.isascii() else None
        if parts is None or int(parts[3]) > MAX_NUMBER:
            raise ValueError("malformed GTID")
        return cls(parts[1], parts[2] or "", int(parts[3]))

    def __str__(self) -> str:
        return f"{self.uuid}:{self.tag}:{self.number}" if self.tag else f"{self.uuid}:{self.number}"


class GtidSet:
    """An immutable set of GTIDs, kept as runs per source."""

    __slots__ = ("_hash", "_sources")

    def __init__(self, sources: Mapping[Source, Intervals] = MappingProxyType({})) -> None:
        """Build from canonical runs: sorted, disjoint, not touching; sources without runs drop out.

        Text, bytes and single identifiers have their own constructors: `parse`, `decode`, `of`.
        """
        self._sources = {source: runs for source, runs in sources.items() if runs}
        self._hash: int | None = None

    @classmethod
    def of(cls, gtids: Iterable[Gtid]) -> "GtidSet":
        """The set of these identifiers."""
        return cls().add_all(gtids)

    @classmethod
    def parse(cls, text: str) -> "GtidSet":
        """Read the server's text form; blank text is the empty set.

        Raises:
            ValueError: When malformed; the message holds a kind and an offset only.
        """
        return cls(_parse_text(text))

    @classmethod
    def decode(cls, data: bytes) -> "GtidSet":
        """Read the whole of `data` in either wire layout.

        Raises:
            ValueError: When truncated, trailing, unordered or out of range.
        """
        return cls(_decode(data))

    def encode(self) -> bytes:
        """The wire form: the layout without tags whenever it suffices."""
        return _encode(dict(sorted(self._sources.items())))

    def __str__(self) -> str:
        entries: dict[str, list[str]] = {}
        for (uuid, tag), runs in sorted(self._sources.items()):
            parts = entries.setdefault(uuid, [uuid])
            if tag:
                parts.append(tag)
            parts.extend(
                str(start) if end - start == 1 else f"{start}-{end - 1}" for start, end in runs
            )
        return ",".join(":".join(parts) for parts in entries.values())

    def __repr__(self) -> str:
        return f"<GtidSet {self}>"

    def __eq__(self, other: object) -> bool:
        return self._sources == other._sources if isinstance(other, GtidSet) else NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._sources.items()))
        return self._hash

    def __bool__(self) -> bool:
        return bool(self._sources)

    def __contains__(self, gtid: Gtid) -> bool:
        runs = self._sources.get((gtid.uuid, gtid.tag))
        return runs is not None and iv.contains(runs, gtid.number)

    def __le__(self, other: "GtidSet") -> bool:
        theirs = other._sources
        return all(
            (whole := theirs.get(source)) is not None and iv.covers(whole, runs)
            for source, runs in self._sources.items()
        )

    def __lt__(self, other: "GtidSet") -> bool:
        return self != other and self <= other

    def __or__(self, other: "GtidSet") -> "GtidSet":
        sources = dict(self._sources)
        for source, runs in other._sources.items():
            sources[source] = iv.union(sources.get(source, ()), runs)
        return GtidSet(sources)

    def __and__(self, other: "GtidSet") -> "GtidSet":
        theirs = other._sources
        return GtidSet(
            {s: iv.intersect(runs, theirs.get(s, ())) for s, runs in self._sources.items()}
        )

    def __sub__(self, other: "GtidSet") -> "GtidSet":
        theirs = other._sources
        return GtidSet(
            {s: iv.subtract(runs, theirs.get(s, ())) for s, runs in self._sources.items()}
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (GtidSet, (self._sources,))

    def add(self, gtid: Gtid) -> "GtidSet":
        """A set with this identifier too."""
        return self.add_all((gtid,))

    def add_all(self, gtids: Iterable[Gtid]) -> "GtidSet":
        """A set with these identifiers too."""
        grown = GtidAccumulator(self)
        for gtid in gtids:
            grown.add(gtid.uuid, gtid.tag, gtid.number)
        return grown.freeze()

    def without(self, gtid: Gtid) -> "GtidSet":
        """A set without this identifier."""
        return self - GtidSet({(gtid.uuid, gtid.tag): ((gtid.number, gtid.number + 1),)})

    def restricted_to(self, uuid: str) -> "GtidSet":
        """The part of one source uuid, all its tags included."""
        return GtidSet({source: r for source, r in self._sources.items() if source[0] == uuid})

    def uuids(self) -> frozenset[str]:
        """The source uuids that occur."""
        return frozenset(uuid for uuid, _ in self._sources)

    def sources(self) -> tuple[Source, ...]:
        """The (uuid, tag) pairs that occur, in canonical order."""
        return tuple(sorted(self._sources))

    def intervals(self, uuid: str, tag: str = "") -> Intervals:
        """The half-open runs of one source; empty when it does not occur."""
        return self._sources.get((uuid, tag), ())

    def count(self) -> int:
        """How many identifiers the set holds."""
        return sum(map(iv.count, self._sources.values()))

    def exceeds_only_at_top(self, other: "GtidSet") -> bool:
        """Whether all that this set has beyond `other` is newer than all `other` has (D14).

        Newer means: with a higher number than any of `other` under the same uuid and tag. True
        when there is no excess; true for a source of which `other` holds nothing.
        """
        return all(
            not theirs or runs[0][0] >= theirs[-1][1]
            for source, runs in (self - other)._sources.items()
            for theirs in (other._sources.get(source, ()),)
        )


class GtidAccumulator:
    """A set that grows by one identifier at a time, for one owner on one thread."""

    __slots__ = ("_frozen", "_grown")

    def __init__(self, start: GtidSet) -> None:
        self._frozen = start._sources
        self._grown: dict[Source, Runs] = {}

    def add(self, uuid: str, tag: str, number: int) -> bool:
        """Put one identifier in; False when it was a member already. O(1) at the top of a run."""
        runs = self._grown.get((uuid, tag))
        if runs is None:
            runs = self._runs(uuid, tag)
        return runs.add(number)

    def add_to(self, uuid: str, tag: str) -> Callable[[int], bool]:
        """`add` for one source."""
        return (self._grown.get((uuid, tag)) or self._runs(uuid, tag)).add

    def _runs(self, uuid: str, tag: str) -> Runs:
        runs = self._grown[uuid, tag] = Runs(self._frozen.get((uuid, tag), ()))
        return runs

    def freeze(self) -> GtidSet:
        """The set as it is now: proportional to its runs, not to what was added."""
        if not self._grown:
            return GtidSet(self._frozen)
        return GtidSet(self._frozen | {s: runs.freeze() for s, runs in self._grown.items()})


def _parse_text(text: str) -> dict[Source, Intervals]:
    # Outside ASCII some letters turn into others in lower case: nothing is made to fit.
    if not text.isascii():
        raise _malformed("characters outside ASCII", 0)
    found: dict[Source, list[Interval]] = {}
    if text.strip(_BLANKS):
        position = 0
        for entry in text.lower().split(","):
            body = entry.lstrip(_BLANKS)
            _parse_entry(body.rstrip(_BLANKS), position + len(entry) - len(body), found)
            position += len(entry) + 1
    return {source: iv.merge(pairs) for source, pairs in found.items()}


def _parse_entry(entry: str, position: int, found: dict[Source, list[Interval]]) -> None:
    uuid, *parts = entry.split(":")
    if not _UUID.fullmatch(uuid):
        raise _malformed("no source uuid" if uuid else "an empty entry", position)
    position += len(uuid) + 1
    tag, pairs = "", found.setdefault((uuid, ""), [])
    wants_numbers = True
    for part in parts:
        if numbers := _NUMBERS.fullmatch(part):
            pairs.append(_interval(numbers, position))
            wants_numbers = False
        elif _TAG.fullmatch(part) and not (tag and wants_numbers):
            tag, pairs = part, found.setdefault((uuid, part), [])
            wants_numbers = True
        else:
            raise _malformed("neither numbers nor a tag", position)
        position += len(part) + 1
    if wants_numbers:
        raise _malformed("no numbers", position - 1)


def _interval(numbers: re.Match[str], position: int) -> Interval:
    low = int(numbers[1])
    high = int(numbers[2] or low)
    if low > high:
        raise _malformed("a descending range", position)
    if high > MAX_NUMBER:
        raise _malformed("a number out of range", position)
    return low, high + 1


def _encode(sources: Mapping[Source, Intervals]) -> bytes:
    tagged = any(tag for _, tag in sources)
    count = len(sources)
    head = _TAGGED_MARK << 56 | count << 8 | _TAGGED_MARK if tagged else count
    parts = [_U64.pack(head)]
    for (uuid, tag), runs in sources.items():
        parts.append(bytes.fromhex(uuid.replace("-", "")))
        if tagged:
            parts.append(bytes((len(tag) << 1,)) + tag.encode("ascii"))
        flat = [bound for run in runs for bound in run]
        parts.append(Struct(f"<Q{len(flat)}Q").pack(len(runs), *flat))
    return b"".join(parts)


def _decode(data: bytes) -> dict[Source, Intervals]:
    head, position = _read_u64(data, 0)
    tagged = head >> 56 == _TAGGED_MARK and head & 0xFF == _TAGGED_MARK
    count = head >> 8 & 0xFFFF_FFFF_FFFF if tagged else head
    # An entry takes at least a uuid, a count and one pair: no count is trusted beyond the data.
    if count > (len(data) - position) // 40:
        raise _malformed("more sources than bytes", 0)
    sources: dict[Source, Intervals] = {}
    for _ in range(count):
        start = position
        uuid, position = _read_uuid(data, position)
        tag = ""
        if tagged:
            tag, position = _read_tag(data, position)
        if (uuid, tag) in sources:
            raise _malformed("a source twice", start)
        sources[uuid, tag], position = _read_runs(data, position)
    if position != len(data):
        raise _malformed("trailing bytes", position)
    return sources


def _read_u64(data: bytes, position: int) -> tuple[int, int]:
    if len(data) - position < 8:
        raise _malformed("truncated", position)
    (value,) = _U64.unpack_from(data, position)
    return value, position + 8


def _read_uuid(data: bytes, position: int) -> tuple[str, int]:
    if len(data) - position < 16:
        raise _malformed("truncated", position)
    return uuid_text(data[position : position + 16]), position + 16


def _read_tag(data: bytes, position: int) -> tuple[str, int]:
    if position >= len(data):
        raise _malformed("truncated", position)
    # The length is a variable-length integer of which a tag only ever needs the one-byte form.
    length, odd = divmod(data[position], 2)
    end = position + 1 + length
    if odd or length > _MAX_TAG or end > len(data):
        raise _malformed("a wrong tag length", position)
    tag = data[position + 1 : end].decode("latin-1")
    if tag and not _TAG.fullmatch(tag):
        raise _malformed("a wrong tag", position)
    return tag, end


def _read_runs(data: bytes, position: int) -> tuple[Intervals, int]:
    count, start = _read_u64(data, position)
    if not 0 < count <= (len(data) - start) // 16:
        raise _malformed("a wrong number of intervals", position)
    flat = Struct(f"<{2 * count}Q").unpack_from(data, start)
    # The server's own rule: bounds strictly ascend, so runs are ordered and do not touch.
    if flat[0] < 1 or flat[-1] > MAX_NUMBER + 1 or any(map(_not_below, flat, flat[1:])):
        raise _malformed("unordered intervals", start)
    return tuple(_pairs(flat)), start + 16 * count


def _not_below(left: int, right: int) -> bool:
    return left >= right


def _pairs(flat: tuple[int, ...]) -> Iterator[Interval]:
    return zip(flat[::2], flat[1::2], strict=True)
