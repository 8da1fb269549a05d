"""Fast text for JSON columns whose documents share their shape.

House rules: what is not exactly as the code expects goes to `json_value`, which is the judge of
every document; the code here only saves its work. A shape is everything but the values: keys,
nesting, the type of each value. Code is written for a shape that was seen often enough, a bounded
number of them per column, and reads the whole document in one go: one `struct` call up to the next
text whose length varies. A text or a length that was the same in every sample is expected again;
where that turns out wrong the code is written anew, with it read from the document.

Keys never become code: they are constants of the generated function's namespace.
"""

import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from capstan.core.binlog.json_number import double_text
from capstan.core.binlog.json_outline import Field, Outline, Role, outline_of
from capstan.core.binlog.json_value import LITERALS, json_text, opaque_text, quote

Shape = Callable[[bytes], str | None]

_SIGHTINGS: Final = 8
_SAMPLED: Final = 8
"""One of so many documents is looked at: columns whose documents share nothing pay little."""
_MOST_SHAPES: Final = 6
_COUNTED: Final = 256
_LONGEST_CONSTANT: Final = 64
"""Bytes of a text that is kept to see whether it is always the same."""
_NONE: Final[frozenset[int]] = frozenset()
_FAILURES: Final = (ValueError, IndexError, struct.error)


class JsonTexts:
    """The documents of one column; `text` gives the text of one.

    Args:
        sightings: How often a shape must occur among the sampled documents before code is written.
    """

    __slots__ = ("_learned", "_misses", "_samples", "_shapes", "_sightings")

    def __init__(self, sightings: int = _SIGHTINGS) -> None:
        self._sightings = sightings
        self._shapes: tuple[Shape, ...] = ()
        self._misses = 0
        self._samples: dict[tuple[object, ...], _Samples] = {}
        self._learned: dict[tuple[object, ...], int] = {}

    def text(self, document: bytes) -> str:
        """The text of a document; raises what `json_text` raises."""
        try:
            for shape in self._shapes:
                text = shape(document)
                if text is not None:
                    return text
        except _FAILURES:
            pass  # the judge says what is wrong, if anything is
        text = json_text(document)
        self._misses += 1
        if not self._misses % _SAMPLED and document:
            self._learn(document)
        return text

    def _learn(self, document: bytes) -> None:
        """Count the shape of a sound document; write code for it when it occurs often."""
        outline = outline_of(document)
        if outline is None:
            return
        kind = outline.kind
        if kind not in self._learned and len(self._learned) == _MOST_SHAPES:
            return
        samples = self._samples.setdefault(kind, _Samples())
        samples.add(outline)
        if samples.count == self._sightings:
            shape = _compiled(outline, samples)
            samples.count = 0
            place = self._learned.setdefault(kind, len(self._shapes))
            self._shapes = (*self._shapes[:place], shape, *self._shapes[place + 1 :])
        elif len(self._samples) > _COUNTED:
            self._samples = {kind: self._samples[kind] for kind in self._learned}


class _Samples:
    """What the sampled documents of one shape have in common.

    Attributes:
        count: How many there were since code was last written.
        varying: The texts that were not always as long.
        changing: The texts that were not always the same, and long ones, which are not kept.
    """

    __slots__ = ("_texts", "changing", "count", "varying")

    def __init__(self) -> None:
        self.count = 0
        self.varying = self.changing = _NONE
        self._texts: dict[int, bytes | int] = {}

    def add(self, outline: Outline) -> None:
        texts = {
            index: raw if len(raw) <= _LONGEST_CONSTANT else len(raw)
            for index, raw in outline.texts.items()
        }
        before, self._texts = self._texts or texts, texts
        changed = {i for i, text in texts.items() if isinstance(text, int) or text != before[i]}
        varied = {i for i in changed if _size(texts[i]) != _size(before[i])}
        # Most kinds of most columns never have either: they share the empty set.
        self.changing = self.changing | changed if changed else self.changing
        self.varying = self.varying | varied if varied else self.varying
        self.count += 1


def _size(text: bytes | int) -> int:
    return text if isinstance(text, int) else len(text)


def _compiled(outline: Outline, samples: _Samples) -> Shape:
    """The function for documents of a shape."""
    namespace: dict[str, Any] = {"QUOTE": quote, "DOUBLE": double_text, "LITERALS": LITERALS}
    source = "\n".join(_Writer(outline, samples, namespace).lines())
    # The text is made of numbers and of the lines of this file only.
    exec(compile(source, "<document decoder>", "exec"), namespace)  # noqa: S102
    shape: Shape = namespace["shape"]
    return shape


class _Writer:
    """Writes the function of one shape.

    Of field 7 the number is `r7`, the text's bytes `x7`, their length `n7` and their end `q7`.
    """

    def __init__(self, outline: Outline, samples: _Samples, namespace: dict[str, Any]) -> None:
        self._fields = outline.fields
        self._text = outline.text
        self._varying = samples.varying
        self._changing = samples.changing
        self._names = namespace
        self._cursor = "0"
        self._layouts: list[str] = []
        self._variables: list[str] = []
        self._same = b""
        self._refused: list[str] = []
        self._late: list[str] = []

    def lines(self) -> Iterator[str]:
        """The text of the function."""
        sizes = [len(field.raw) for field in self._fields]
        first = min(self._varying, default=len(sizes))
        yield "def shape(doc):"
        # Shorter than what is read first: another shape, perhaps.
        yield f"    if len(doc) {'<' if self._varying else '!='} {sum(sizes[:first])}:"
        yield "        return None"
        for index in range(len(sizes)):
            yield from (f"    {line}" for line in self._field(index))
        yield from (f"    {line}" for line in self._unpack("len(doc)"))
        yield f'    return f"{"".join(self._parts())}"'
        yield ""

    def _field(self, index: int) -> Iterator[str]:
        """Take one field; what is in the way of reading on comes out as lines."""
        field = self._fields[index]
        if field.role is Role.NUMBER:
            self._read(field.layout, f"r{index}")
        elif field.role is Role.PLACE and (texts := self._texts_inside(field)):
            self._read("H", f"r{index}")
            rest = field.offset - sum(len(self._fields[text].raw) for text in texts)
            expected = " + ".join([str(rest), *(f"n{text}" for text in texts)])
            self._late.append(f"r{index} != {expected}")
        elif field.role is Role.LENGTH and index + 1 in self._varying:
            yield from self._length(index + 1, len(field.raw))
        elif field.role is Role.TEXT and index in self._varying:
            yield f"q{index} = p + n{index}"
            yield f"x{index} = doc[p:q{index}]"
            self._cursor = f"q{index}"
        elif field.role is Role.TEXT and not self._is_constant(index):
            self._read(f"{len(field.raw)}s", f"x{index}")
        else:
            self._same += field.raw

    def _is_constant(self, index: int) -> bool:
        """Whether a field is a string that is expected to be always the same."""
        field = self._fields[index]
        same = index not in self._changing and field.opaque is None
        return field.role is Role.TEXT and same

    def _length(self, text: int, digits: int) -> Iterator[str]:
        if digits == 1:
            self._read("B", f"n{text}")
            self._refused.append(f"n{text} > 127")
        else:
            self._read("BB", f"n{text}, h{text}")
            self._refused.append(f"n{text} < 128 or not 0 < h{text} < 128")
        yield from self._unpack("p")
        if digits == 2:
            yield f"n{text} = n{text} & 127 | h{text} << 7"

    def _texts_inside(self, place: Field) -> list[int]:
        """The texts of varying length between the beginning of a container and a place in it."""
        return [
            i for i in sorted(self._varying) if place.start <= self._fields[i].at < place.target
        ]

    def _read(self, layout: str, variables: str) -> None:
        """Have the next `struct` call read this."""
        if self._same:
            name = f"K{len(self._names)}"
            self._names[name] = self._same
            self._layouts.append(f"{len(self._same)}s")
            self._variables.append(name.lower())
            self._refused.append(f"{name.lower()} != {name}")
            self._same = b""
        if layout:
            self._layouts.append(layout)
            self._variables.append(variables)

    def _unpack(self, end: str) -> Iterator[str]:
        """Read what was gathered and look at it; `end` becomes or must be the place behind it."""
        self._read("", "")
        layout = struct.Struct(f"<{''.join(self._layouts)}")
        after = f"{self._cursor} + {layout.size}" if layout.size else self._cursor
        if self._layouts:
            name = f"S{len(self._names)}"
            self._names[name] = layout.unpack_from
            yield f"{', '.join(self._variables)}, = {name}(doc, {self._cursor})"
        refused = self._refused if end == "p" else [*self._refused, *self._late]
        if end == "p":
            yield f"p = {after}"
        elif self._varying:
            refused.append(f"{after} != {end}")
        if refused:
            yield f"if {' or '.join(refused)}:"
            yield "    return None"
        self._layouts, self._variables, self._refused = [], [], []

    def _parts(self) -> Iterator[str]:
        """What the text is joined from, in the braces of an f-string."""
        constant = ""
        for part in (*self._text, None):
            if isinstance(part, str):
                constant += part
                continue
            if part is not None and self._is_constant(part):
                constant += quote(self._fields[part].raw.decode())
                continue
            if constant:
                name = f"T{len(self._names)}"
                self._names[name] = constant
                yield f"{{{name}}}"
                constant = ""
            if part is not None:
                yield f"{{{self._value(part)}}}"

    def _value(self, index: int) -> str:
        field = self._fields[index]
        if field.role is Role.NUMBER:
            return _NUMBER_TEXTS.get(field.layout, "r{0}").format(index)
        if field.opaque is None:
            return f"QUOTE(x{index}.decode())"
        self._names[f"O{index}"] = partial(opaque_text, field.opaque)
        return f"O{index}(x{index})"


_NUMBER_TEXTS: Final = {
    "Bx": "LITERALS[r{0}]",
    # As `double_text` begins, without the call.
    "d": "r{0} if 1e-4 <= r{0} < 1e15 else DOUBLE(r{0})",
}
