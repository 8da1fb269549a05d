"""From a column's bytes to text, by the column's character set (D27).

House rules: a codec stands here only when it gives the server's own characters for every byte
sequence that the server can store; sequences that the server itself prints with a replacement
fail with UnicodeDecodeError. A character set without a proven codec has none: its columns halt,
they are never guessed. One-byte sets are tables taken from the server; of Python's codecs those are
used that were compared with the server for every character of two bytes and found equal.
"""

from codecs import charmap_decode
from collections.abc import Callable
from functools import partial
from typing import Final

from capstan.core.binlog.single_byte_charsets import TABLES

TextDecoder = Callable[[bytes], str]

_PYTHON_CODECS: Final = {
    "utf8mb4": "utf-8",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "cp932": "cp932",
    "euckr": "cp949",
    "gb2312": "gb2312",
    "gbk": "gbk",
}
_BASIC_PLANE_CODECS: Final = {"utf8mb3": "utf-8", "ucs2": "utf-16-be"}
"""Character sets that end at U+FFFF and the codec of their bigger sibling."""


def _with_codec(codec: str, raw: bytes) -> str:
    return raw.decode(codec)


def _basic_plane(codec: str, raw: bytes) -> str:
    text = raw.decode(codec)
    if not text.isascii() and max(text) > "\uffff":
        raise UnicodeDecodeError(codec, raw, 0, len(raw), "a character above U+FFFF")
    return text


def _single_byte(table: str, raw: bytes) -> str:
    return charmap_decode(raw, "strict", table)[0]


def decoder_for(charset: str) -> TextDecoder | None:
    """The decoder of a MySQL character set, or None when it has no proven one."""
    if charset in TABLES:
        return partial(_single_byte, TABLES[charset])
    if charset in _BASIC_PLANE_CODECS:
        return partial(_basic_plane, _BASIC_PLANE_CODECS[charset])
    if charset in _PYTHON_CODECS:
        return partial(_with_codec, _PYTHON_CODECS[charset])
    return None
