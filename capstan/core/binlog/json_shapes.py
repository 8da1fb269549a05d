"""Fast text for JSON columns whose documents share their keys.

House rules: what is not exactly as the code expects goes to `json_value`, which is the judge of
every document; the code here only saves its work. Code is written for the keys of an object that
was seen often enough, a bounded number of them per column. It expects a small object as the server
writes it new: keys at the same places, values one behind the other in the order of the keys, ending
where the object ends. The types of the values are hints: another type costs time, not exactness.

Keys never become code: they are constants of the generated function's namespace.
"""

import struct
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import attrs

from capstan.core.binlog.json_number import double_text
from capstan.core.binlog.json_value import element, json_text, quote

Shape = Callable[[bytes, int], tuple[str, int] | None]

_SIGHTINGS: Final = 8
_SAMPLED: Final = 4
"""One of so many documents is looked at: columns whose documents share no keys pay little."""
_MOST_SHAPES: Final = 4
_MOST_VALUES: Final = 64
_MOST_NESTED: Final = 8
_MOST_KEY_BYTES: Final = 1024
_COUNTED: Final = 256
_FAILURES: Final = (ValueError, IndexError, struct.error)

_SMALL_OBJECT: Final = 0x00
_LITERAL: Final = 0x04
_INT16: Final = 0x05
_UINT16: Final = 0x06
_DOUBLE: Final = 0x0B
_STRING: Final = 0x0C
_NUMBERS: Final = {0x07: "i", 0x08: "I", 0x09: "q", 0x0A: "Q"}
_LITERALS: Final = ("null", "true", "false")


class JsonTexts:
    """The documents of one column; `text` gives the text of one.

    Args:
        sightings: How often the keys of a sampled document must occur before code is written.
    """

    __slots__ = ("_misses", "_seen", "_shapes", "_sightings")

    def __init__(self, sightings: int = _SIGHTINGS) -> None:
        self._sightings = sightings
        self._shapes: tuple[Shape, ...] = ()
        self._misses = 0
        self._seen: Counter[bytes] = Counter()

    def text(self, document: bytes) -> str:
        """The text of a document; raises what `json_text` raises."""
        try:
            for shape in self._shapes:
                found = shape(document, 1)
                if found is not None and found[1] + 1 == len(document) and not document[0]:
                    return found[0]
        except _FAILURES:
            pass  # the judge says what is wrong, if anything is
        text = json_text(document)
        if len(self._shapes) < _MOST_SHAPES:
            self._misses += 1
            if not self._misses % _SAMPLED:
                self._learn(document)
        return text

    def _learn(self, document: bytes) -> None:
        """Count the keys of a sound document; write code for them when they occur often."""
        if not document or document[0] != _SMALL_OBJECT:
            return
        layout = _layout(document, 1)
        if layout is None:
            return
        key = layout.table + layout.keys
        self._seen[key] += 1
        if self._seen[key] == self._sightings:
            self._shapes += (_compile(document, 1, 1),)
        elif len(self._seen) > _COUNTED:
            self._seen.clear()


@attrs.frozen
class _Layout:
    """An object with its keys where the server puts them.

    Attributes:
        count: How many keys.
        table: The key entries.
        keys: The keys' bytes.
        kinds: The type of each value.
    """

    count: int
    table: bytes
    keys: bytes
    kinds: tuple[int, ...]

    @property
    def first(self) -> int:
        """Where the first value begins, counted from the object's start."""
        return 4 + 7 * self.count + len(self.keys)


def _layout(document: bytes, start: int) -> _Layout | None:
    """Read the layout of the sound small object at `start`; None when it is not as written new."""
    (count,) = struct.unpack_from("<H", document, start)
    if not 0 < count <= _MOST_VALUES:
        return None
    values = start + 4 + 4 * count
    table = document[start + 4 : values]
    at = first = 4 + 7 * count
    for offset, size in struct.iter_unpack("<HH", table):
        if offset != at:
            return None
        at += size
    if at - first > _MOST_KEY_BYTES:
        return None
    kinds = document[values : start + first : 3]
    return _Layout(count, table, document[start + first : start + at], tuple(kinds))


def _compile(document: bytes, start: int, depth: int) -> Shape:
    """The function for objects like the sound one at `start`, in `depth - 1` other objects."""
    layout = _layout(document, start)
    assert layout is not None, "only objects with a layout are compiled"
    namespace: dict[str, Any] = {
        "HEAD": struct.Struct(
            f"<HH{4 * layout.count}s{'BH' * layout.count}{len(layout.keys)}s"
        ).unpack_from,
        "COUNT": layout.count,
        "TABLE": layout.table,
        "KEYS": layout.keys,
        "QUOTE": quote,
        "DOUBLE": double_text,
        "ELEMENT": element,
        "LITERALS": _LITERALS,
    }
    namespace |= {f"N{c}": struct.Struct(f"<{c}").unpack_from for c in (*_NUMBERS.values(), "d")}
    places = struct.iter_unpack("<HH", layout.table)
    for place, (offset, size) in enumerate(places):
        name = document[start + offset : start + offset + size].decode()
        namespace[f"K{place}"] = f"{'{,'[place > 0]}{' ' * (place > 0)}{quote(name)}: "
    entries = struct.iter_unpack(
        "<BH", document[start + 4 + 4 * layout.count : start + layout.first - len(layout.keys)]
    )
    for place, (kind, offset) in enumerate(entries):
        nested = kind == _SMALL_OBJECT and depth < _MOST_NESTED
        if nested and _layout(document, start + offset) is not None:
            namespace[f"F{place}"] = _compile(document, start + offset, depth + 1)
    source = _source(layout, [f"F{place}" in namespace for place in range(layout.count)], depth)
    # The text is made of numbers and of the lines of this file only.
    exec(compile(source, "<document decoder>", "exec"), namespace)  # noqa: S102
    shape: Shape = namespace["shape"]
    return shape


def _source(layout: _Layout, nested: list[bool], depth: int) -> str:
    """The text of one object's function; `nested`: which values have a function of their own."""
    entries = ", ".join(f"t{place}, v{place}" for place in range(layout.count))
    lines = [
        "def shape(doc, b):",
        f"    count, size, table, {entries}, keys = HEAD(doc, b)",
        "    if table != TABLE or keys != KEYS or count != COUNT:",
        "        return None",
        f"    e = {layout.first}",
    ]
    for place, kind in enumerate(layout.kinds):
        fast = _fast(place, kind, nested[place])
        other = f"x{place}, e = ELEMENT(doc, b, (t{place}, v{place}), e, {depth})"
        lines += (f"    {line}" for line in fast)
        lines += ["    else:", f"        {other}"] if fast else [f"    {other}"]
    text = "".join(f"{{K{place}}}{{x{place}}}" for place in range(layout.count))
    lines += ["    if e != size:", "        return None", f'    return f"{text}}}}}", size', ""]
    return "\n".join(lines)


def _fast(place: int, kind: int, nested: bool) -> list[str]:
    """The lines for a value of the expected type, up to its `else`; none for the rarer types."""
    t, v, x = f"t{place}", f"v{place}", f"x{place}"
    if kind == _LITERAL:
        return [f"if {t} == {kind}:", f"    {x} = LITERALS[{v} & 255]"]
    if kind == _INT16:
        return [f"if {t} == {kind}:", f"    {x} = ({v} ^ 32768) - 32768"]
    if kind == _UINT16:
        return [f"if {t} == {kind}:", f"    {x} = {v}"]
    if kind == _DOUBLE:
        return [
            f"if {t} == {kind} and {v} == e:",
            f"    {x} = DOUBLE(*Nd(doc, b + e))",
            "    e += 8",
        ]
    if kind in _NUMBERS:
        layout = _NUMBERS[kind]
        return [
            f"if {t} == {kind} and {v} == e:",
            f"    {x}, = N{layout}(doc, b + e)",
            f"    e += {struct.calcsize('<' + layout)}",
        ]
    if kind == _STRING:
        return [
            f"if {t} == {kind} and {v} == e and doc[b + e] < 128:",
            "    p = b + e + 1",
            "    e += doc[b + e] + 1",
            f"    {x} = QUOTE(doc[p:b + e].decode())",
        ]
    if nested:
        return [
            f"if {t} == {kind} and {v} == e and (found := F{place}(doc, b + e)):",
            f"    {x} = found[0]",
            "    e += found[1]",
        ]
    return []
