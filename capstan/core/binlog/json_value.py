"""JSON columns: from MySQL's binary form to the exact text that SELECT prints.

House rules: a document that no server writes raises ValueError and never loops or grows without
bound: every value lies inside its container, nothing is deeper than the server's limit, and what is
read from one document cannot take more bytes than it has, as it would if two entries shared a
value.

Wire: a type byte, then the value. A container is count, size, key entries (offset, length), value
entries (type, offset or small value), keys, values; offsets count from the container's start. In
the small form counts and offsets take 2 bytes, in the large form 4; a key's length always 2.
"""

from base64 import b64encode
from collections.abc import Callable
from json.encoder import encode_basestring
from struct import Struct
from typing import Final

import attrs

from capstan.core.binlog.columns import FieldType
from capstan.core.binlog.decimal_value import decimal_bytes, decimal_decoder
from capstan.core.binlog.json_number import double_text
from capstan.core.binlog.memo import Memo
from capstan.core.binlog.temporal import json_date, json_datetime, json_time

MAX_DEPTH: Final = 100
"""The server refuses documents that are nested deeper."""

_LARGE_ARRAY: Final = 0x03
_LITERAL: Final = 0x04
_INT16: Final = 0x05
_UINT16: Final = 0x06
_INT32: Final = 0x07
_UINT32: Final = 0x08
_STRING: Final = 0x0C
_OPAQUE: Final = 0x0F

LITERALS: Final = ("null", "true", "false")
_NUMBERS: Final[dict[int, tuple[Struct, Callable[[int], str] | Callable[[float], str]]]] = {
    _LITERAL: (Struct("B"), LITERALS.__getitem__),
    _INT16: (Struct("<h"), str),
    _UINT16: (Struct("<H"), str),
    _INT32: (Struct("<i"), str),
    _UINT32: (Struct("<I"), str),
    0x09: (Struct("<q"), str),
    0x0A: (Struct("<Q"), str),
    0x0B: (Struct("<d"), double_text),
}
"""Type byte -> how it lies there, and its text."""

Names = tuple[str, ...]

quote = encode_basestring
"""A string as JSON, escaped as the server escapes it."""
_packed = Struct("<q").unpack
_BASE64_LINE: Final = 76
_LINE_BREAK: Final = r"\n"
_KEYS_KEPT: Final = 1024
_KEYS_KEPT_BYTES: Final = 1024


@attrs.frozen
class _Form:
    """The widths of the small or the large form."""

    head: Struct
    key_entry: Struct
    value_entry: Struct
    inline: dict[int, Callable[[int], str]]


def _signed16(number: int) -> str:
    return str((number & 0xFFFF ^ 0x8000) - 0x8000)


def _signed32(number: int) -> str:
    return str((number ^ 0x8000_0000) - 0x8000_0000)


def _inline_literal(number: int) -> str:
    return LITERALS[number & 0xFF]


_SMALL_INLINE: Final[dict[int, Callable[[int], str]]] = {
    _LITERAL: _inline_literal,
    _INT16: _signed16,
    _UINT16: lambda number: str(number & 0xFFFF),
}
_FORMS: Final = (
    _Form(Struct("<HH"), Struct("<HH"), Struct("<BH"), _SMALL_INLINE),
    _Form(
        Struct("<II"),
        Struct("<IH"),
        Struct("<BI"),
        {**_SMALL_INLINE, _INT32: _signed32, _UINT32: str},
    ),
)
"""By the low bit of a container's type byte."""


def json_text(document: bytes) -> str:
    """The text of a document.

    Raises:
        ValueError: For bytes that are no document (UnicodeDecodeError for text that is no UTF-8).
        IndexError, struct.error: For a document that is cut off.
    """
    if not document:
        # INSERT IGNORE leaves this in place of NULL; the server prints it so.
        return "null"
    return _Document(document).value(document[0], 1, len(document), 0)[0]


class _Document:
    """One document being read; places are absolute."""

    __slots__ = ("_data", "_left")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = len(data)

    def value(self, kind: int, at: int, end: int, depth: int) -> tuple[str, int]:
        """The text of the value of type `kind` at `at`, and where it ends; at most at `end`."""
        if kind <= _LARGE_ARRAY:
            return self._container(kind, at, end, depth)
        if kind == _STRING:
            raw, stop = self._counted(at, end)
            return quote(raw.decode()), stop
        if kind == _OPAQUE:
            raw, stop = self._counted(at + 1, end)
            return opaque_text(self._data[at], raw), stop
        if kind not in _NUMBERS:
            raise ValueError("an unknown type in a document")
        layout, text = _NUMBERS[kind]
        stop = at + layout.size
        self._spend(layout.size)
        if stop > end:
            raise ValueError("a number outside its container")
        return text(layout.unpack_from(self._data, at)[0]), stop

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ValueError("values that lie on each other")

    def _counted(self, at: int, end: int) -> tuple[bytes, int]:
        """The bytes behind a length of 7 bits a byte, low bits first, and where they end."""
        size = shift = 0
        while True:
            byte = self._data[at]
            at += 1
            size |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 28:
                raise ValueError("a length without an end")
        stop = at + size
        if stop > end:
            raise ValueError("text outside its container")
        self._spend(size)
        return self._data[at:stop], stop

    def _container(self, kind: int, start: int, end: int, depth: int) -> tuple[str, int]:
        if depth >= MAX_DEPTH:
            raise ValueError("nested too deeply")
        form = _FORMS[kind & 1]
        is_object = kind < 2
        count, size = form.head.unpack_from(self._data, start)
        keys = start + form.head.size
        values = keys + count * form.key_entry.size if is_object else keys
        first = values + count * form.value_entry.size
        stop = start + size
        if not first <= stop <= end:
            raise ValueError("a container outside its container")
        self._spend(first - start)
        texts: list[str] = []
        for value_kind, number in form.value_entry.iter_unpack(self._data[values:first]):
            if value_kind in form.inline:
                texts.append(form.inline[value_kind](number))
            elif number < first - start:
                raise ValueError("a value among the entries")
            else:
                texts.append(self.value(value_kind, start + number, stop, depth + 1)[0])
        if not is_object:
            return f"[{', '.join(texts)}]", stop
        names = self._names(kind & 1, start, first, stop, self._data[keys:values])
        return f"{{{', '.join(map(str.__add__, names, texts))}}}", stop

    def _names(self, large: int, start: int, first: int, stop: int, table: bytes) -> Names:
        """The quoted keys with their colons; `table` holds the key entries."""
        if not table:
            return ()
        unpack = _FORMS[large].key_entry.unpack_from
        low = unpack(table)[0]
        high = sum(unpack(table, len(table) - _FORMS[large].key_entry.size))
        if not first <= start + low <= start + high <= stop:
            raise ValueError("keys outside their object")
        section = large, table, self._data[start + low : start + high]
        read = _names_of if high - low <= _KEYS_KEPT_BYTES else _read_names
        names, size = read(section)
        self._spend(size)
        return names


def _read_names(section: tuple[int, bytes, bytes]) -> tuple[Names, int]:
    """The quoted keys and the bytes they take, from key entries and the bytes they point into."""
    large, table, text = section
    names: list[str] = []
    total = 0
    low: int | None = None
    for offset, size in _FORMS[large].key_entry.iter_unpack(table):
        low = offset if low is None else low
        place = offset - low
        if not 0 <= place <= place + size <= len(text):
            raise ValueError("a key among other things")
        names.append(f"{quote(text[place : place + size].decode())}: ")
        total += size
    return tuple(names), total


_names_of = Memo(_read_names, _KEYS_KEPT).__getitem__
"""Documents of one column mostly share their keys."""


def opaque_text(kind: int, raw: bytes) -> str:
    """The text of a value that JSON itself does not have."""
    if kind == FieldType.NEWDECIMAL:
        return _decimal_text(raw)
    if kind in _TEMPORALS:
        return f'"{_TEMPORALS[kind](*_packed(raw))}"'
    text = b64encode(raw).decode()
    lines = [text[place : place + _BASE64_LINE] for place in range(0, len(text), _BASE64_LINE)]
    return f'"base64:type{kind}:{_LINE_BREAK.join(lines)}"'


def _decimal_text(raw: bytes) -> str:
    precision, scale = raw[0], raw[1]
    if not (1 <= precision <= 65 and scale <= min(precision, 30)):
        raise ValueError("no such decimal")
    if len(raw) != 2 + decimal_bytes(precision, scale):
        raise ValueError("a decimal of another length")
    return format(decimal_decoder(precision, scale)(raw[2:]), "f")


_TEMPORALS: Final[dict[int, Callable[[int], str]]] = {
    FieldType.DATE: json_date,
    FieldType.TIME: json_time,
    FieldType.DATETIME: json_datetime,
    FieldType.TIMESTAMP: json_datetime,
}
