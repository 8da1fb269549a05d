"""From a column's bytes to text, by the column's character set (D27).

House rules: a codec stands here only when it gives the server's own characters for every byte
sequence that the server can store; sequences that the server itself prints with a replacement
fail with UnicodeDecodeError. A character set that is not here has no decoder: its columns halt,
they are never guessed. One-byte sets are tables taken from the server; the others are Python's
codecs, amended where the server was found to differ.
"""

import re
from codecs import charmap_decode
from collections.abc import Callable
from functools import cache, partial
from typing import Final

from capstan.core.binlog.single_byte_charsets import TABLES
from capstan.core.binlog.wide_charset_differences import DIFFERENCES

TextDecoder = Callable[[bytes], str]

_UNICODE_CODECS: Final = {
    "utf8mb4": "utf-8",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
}
_BASIC_PLANE_CODECS: Final = {"utf8mb3": "utf-8", "ucs2": "utf-16-be"}
"""Character sets that end at U+FFFF and the codec of their bigger sibling."""

_NATIONAL_CODECS: Final = {
    "big5": "big5",
    "cp932": "cp932",
    "eucjpms": "euc_jp",
    "euckr": "cp949",
    "gb18030": "gb18030",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "sjis": "shift_jis",
    "ujis": "euc_jp",
}
"""Character sets of several bytes and the nearest codec, exact but for DIFFERENCES."""

_NONE: Final = "\ufffe"
"""Stands in DIFFERENCES for the characters of a sequence that has none."""

_PAIRS: Final = rb"[\x81-\xfe].|."
_SHIFTED: Final = rb"[\x81-\x9f\xe0-\xfc].|."
_EXTENDED: Final = rb"\x8f..|[\x8e\xa1-\xfe].|."
_SEQUENCES: Final = {
    "big5": _PAIRS,
    "cp932": _SHIFTED,
    "eucjpms": _EXTENDED,
    "gb18030": rb"[\x81-\xfe][0-9]..|" + _PAIRS,
    "sjis": _SHIFTED,
    "ujis": _EXTENDED,
}
"""The bytes of one character, or of one that is none, by character set with differences."""


def _with_codec(codec: str, raw: bytes) -> str:
    return raw.decode(codec)


def _basic_plane(codec: str, raw: bytes) -> str:
    text = raw.decode(codec)
    if not text.isascii() and max(text) > "\uffff":
        raise UnicodeDecodeError(codec, raw, 0, len(raw), "a character above U+FFFF")
    return text


def _single_byte(table: str, raw: bytes) -> str:
    return charmap_decode(raw, "strict", table)[0]


class _Characters(dict[bytes, str]):
    """The server's character of each sequence, looked up once; those of four bytes each time."""

    __slots__ = ("_codec", "_refused")

    def __init__(self, codec: str, differences: dict[bytes, str]) -> None:
        super().__init__(item for item in differences.items() if item[1] != _NONE)
        self._codec = codec
        self._refused = differences.keys() - self.keys()

    def __missing__(self, sequence: bytes) -> str:
        if sequence in self._refused:
            raise UnicodeDecodeError(self._codec, sequence, 0, len(sequence), "no character")
        character = sequence.decode(self._codec)
        if len(sequence) < 4:  # of four bytes there are a million, which would stay for good
            self[sequence] = character
        return character


class _Amended:
    """A codec of Python's with the server's characters where the two differ.

    Text is decoded whole by the codec. Only where that fails, or gives a character that the codec
    has for a sequence that is another character to the server, each sequence is looked up.
    """

    __slots__ = ("_characters", "_codec", "_doubtful", "_sequence")

    def __init__(self, charset: str) -> None:
        self._codec = _NATIONAL_CODECS[charset]
        self._sequence = re.compile(_SEQUENCES[charset], re.DOTALL)
        differences = {
            first[:-1] + bytes([first[-1] + place]): character
            for first, text in DIFFERENCES[charset]
            for place, character in enumerate(text)
        }
        doubtful = "".join(raw.decode(self._codec, "ignore") for raw in differences)
        self._doubtful = re.compile(f"[{re.escape(doubtful)}]")
        self._characters = _Characters(self._codec, differences)

    def __call__(self, raw: bytes) -> str:
        try:
            text = raw.decode(self._codec)
        except UnicodeDecodeError:
            return self._each(raw)
        return self._each(raw) if self._doubtful.search(text) else text

    def _each(self, raw: bytes) -> str:
        return "".join(map(self._characters.__getitem__, self._sequence.findall(raw)))


_amended = cache(_Amended)


def decoder_for(charset: str) -> TextDecoder | None:
    """The decoder of a MySQL character set, or None when it has no proven one."""
    if charset in TABLES:
        return partial(_single_byte, TABLES[charset])
    if charset in DIFFERENCES:
        return _amended(charset)
    if charset in _BASIC_PLANE_CODECS:
        return partial(_basic_plane, _BASIC_PLANE_CODECS[charset])
    codec = _UNICODE_CODECS.get(charset) or _NATIONAL_CODECS.get(charset)
    return partial(_with_codec, codec) if codec else None
