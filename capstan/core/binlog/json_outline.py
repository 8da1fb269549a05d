"""What a JSON document looks like byte by byte, for `json_shapes` to write code from.

House rules: an outline exists only for documents as the server writes them new: small containers,
keys at the same places, values one behind the other in the order of the keys, nothing between and
nothing behind them. Of every byte it says what it is; a document whose bytes are of the same kinds
has a text of the same form.
"""

import struct
from enum import Enum
from typing import Final

import attrs

from capstan.core.binlog.json_value import quote

_SMALL_OBJECT: Final = 0x00
_SMALL_ARRAY: Final = 0x02
_LITERAL: Final = 0x04
_STRING: Final = 0x0C
_OPAQUE: Final = 0x0F
_INLINE: Final = {_LITERAL: "Bx", 0x05: "h", 0x06: "H"}
_NUMBERS: Final = {0x07: "i", 0x08: "I", 0x09: "q", 0x0A: "Q", 0x0B: "d"}

_MOST_VALUES: Final = 64
_MOST_NESTED: Final = 8
_MOST_KEY_BYTES: Final = 1024


class Role(Enum):
    """What a field of a document is to its text."""

    SAME = "the same bytes in every document of the shape"
    PLACE = "an offset or a size, which follows from the lengths of texts"
    NUMBER = "a number or a literal"
    LENGTH = "the length of the text behind it"
    TEXT = "the bytes of a string or of an opaque value"


@attrs.frozen
class Field:
    """Some bytes of a document.

    Attributes:
        role: What they are.
        at: Where they begin.
        raw: What they were in the document that was outlined.
        layout: Of a number its `struct` character, of a literal `Bx`, else nothing.
        start: Of a place, where its container begins.
        opaque: Of a text, its type if it is no string.
    """

    role: Role
    at: int
    raw: bytes
    layout: str = ""
    start: int = 0
    opaque: int | None = None

    @property
    def offset(self) -> int:
        """Of a place, how far from its container's beginning it points."""
        return int.from_bytes(self.raw, "little")

    @property
    def target(self) -> int:
        """Of a place, where it points to."""
        return self.start + self.offset


@attrs.frozen
class Outline:
    """A document taken apart.

    Attributes:
        fields: All its bytes, in order.
        text: The parts of its text: as they are, or the index of the field that they come from.
    """

    fields: tuple[Field, ...]
    text: tuple[str | int, ...]

    @property
    def kind(self) -> tuple[object, ...]:
        """Equal for documents that differ in values and in lengths of texts only."""
        return tuple(
            field.raw
            if field.role is Role.SAME
            else (field.layout, field.opaque, len(field.raw) if field.role is Role.LENGTH else 0)
            for field in self.fields
        )

    @property
    def texts(self) -> dict[int, bytes]:
        """The bytes of each text, by its index."""
        return {
            index: field.raw for index, field in enumerate(self.fields) if field.role is Role.TEXT
        }


class _NoOutlineError(Exception):
    """The document is sound and not as code expects documents."""


def outline_of(document: bytes) -> Outline | None:
    """Take a sound document apart; None for one that code cannot be written for."""
    reader = _Reader(document)
    try:
        reader.container(document[0], 1, 1)
    except (_NoOutlineError, struct.error, IndexError):
        return None
    if reader.end != len(document):
        return None
    return Outline(tuple(reader.fields), tuple(reader.text))


class _Reader:
    """Walks through one document; `fields` and `text` grow on the way, `end` is how far it is."""

    def __init__(self, document: bytes) -> None:
        self._document = document
        self._values = self._key_bytes = 0
        self.fields: list[Field] = []
        self.text: list[str | int] = []
        self.end = 0
        self._take(Role.SAME, 1)

    def _take(
        self, role: Role, size: int, *, layout: str = "", start: int = 0, opaque: int | None = None
    ) -> Field:
        raw = self._document[self.end : self.end + size]
        if len(raw) < size:
            raise _NoOutlineError
        field = Field(role, self.end, raw, layout, start, opaque)
        self.fields.append(field)
        self.end += size
        return field

    def container(self, kind: int, start: int, depth: int) -> None:
        """Read the container that begins here."""
        if kind not in (_SMALL_OBJECT, _SMALL_ARRAY) or depth > _MOST_NESTED:
            raise _NoOutlineError
        count = int.from_bytes(self._take(Role.SAME, 2).raw, "little")
        size = self._take(Role.PLACE, 2, start=start)
        self._values += count
        if self._values > _MOST_VALUES:
            raise _NoOutlineError
        keys = self._key_entries(count) if kind == _SMALL_OBJECT else []
        entries = [self._value_entry(start) for _ in range(count)]
        names = [f"{quote(self._take(Role.SAME, size).raw.decode())}: " for size in keys]
        marks = "{}" if kind == _SMALL_OBJECT else "[]"
        for place, (value_kind, index) in enumerate(entries):
            self.text.append(", " if place else marks[0])
            self.text += names[place : place + 1]
            self._value(value_kind, index, depth)
        self.text.append(marks[1] if entries else marks)
        if self.end != size.target:
            raise _NoOutlineError

    def _key_entries(self, count: int) -> list[int]:
        """The sizes of the keys, which must lie one behind the other after the entries."""
        at = 4 + 7 * count
        entries = self._take(Role.SAME, 4 * count).raw
        sizes: list[int] = []
        for offset, size in struct.iter_unpack("<HH", entries):
            if offset != at:
                raise _NoOutlineError
            at += size
            sizes.append(size)
        self._key_bytes += sum(sizes)
        if self._key_bytes > _MOST_KEY_BYTES:
            raise _NoOutlineError
        return sizes

    def _value_entry(self, start: int) -> tuple[int, int]:
        """The type of a value, and the index of the field that holds it or its place."""
        kind = self._take(Role.SAME, 1).raw[0]
        if kind in _INLINE:
            self._take(Role.NUMBER, 2, layout=_INLINE[kind])
        else:
            self._take(Role.PLACE, 2, start=start)
        return kind, len(self.fields) - 1

    def _value(self, kind: int, index: int, depth: int) -> None:
        if kind in _INLINE:
            self.text.append(index)
            return
        if self.fields[index].target != self.end:
            raise _NoOutlineError
        if kind in _NUMBERS:
            layout = _NUMBERS[kind]
            self._take(Role.NUMBER, struct.calcsize(f"<{layout}"), layout=layout)
            self.text.append(len(self.fields) - 1)
        elif kind == _STRING:
            self._counted(None)
        elif kind == _OPAQUE:
            self._counted(self._take(Role.SAME, 1).raw[0])
        else:
            self.container(kind, self.end, depth + 1)

    def _counted(self, opaque: int | None) -> None:
        """A text behind its length."""
        low, *high = self._take(Role.LENGTH, 1 + (self._document[self.end] > 127)).raw
        size = low & 127 | sum(high) << 7
        if high and not 0 < high[0] < 128:
            raise _NoOutlineError
        self._take(Role.TEXT, size, opaque=opaque)
        self.text.append(len(self.fields) - 1)
