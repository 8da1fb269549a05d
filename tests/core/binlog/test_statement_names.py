"""Whose name it is, and what it reads as."""

import pytest

from capstan.core.binlog.statement_lexer import Token, TokenKind
from capstan.core.binlog.statement_names import Names
from capstan.core.binlog.statement_types import StatementError


def quoted(raw: bytes) -> Token:
    return Token(TokenKind.QUOTED, b"", raw)


def bare(raw: bytes) -> Token:
    return Token(TokenKind.WORD, raw.upper(), raw)


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (bare(b"Orders"), "Orders"),
        (quoted(b"`Orders`"), "Orders"),
        (quoted(b"`a``b`"), "a`b"),
        (quoted(b"````"), "`"),
        (quoted(b'"a""b``"'), 'a"b``'),
        (quoted(b"`a.b `"), "a.b "),
        (bare(b"\xe9"), "\u00e9"),
        (quoted(b"`x\xa0`"), "x\u00a0"),
    ],
)
def test_a_client_writes_in_its_own_character_set(token: Token, expected: str) -> None:
    """R7: letter case, blanks and doubled quotes come out as they are in the server."""
    assert Names("latin1").clients(token) == expected


def test_the_server_writes_in_utf8_and_the_client_where_that_cannot_be() -> None:
    """R7: UTF-8 first, the client's set when the bytes are none."""
    names = Names("latin1")
    assert names.servers(quoted(b"`\xc3\xa9`")) == "\u00e9"
    assert names.servers(quoted(b"`\xe9`")) == "\u00e9"


def test_a_name_of_either_must_read_the_same() -> None:
    """R7: ASCII and one-sided readings are certain, two different ones are not."""
    names = Names("latin1")
    assert names.either(quoted(b"`t`")) == "t"
    assert names.either(quoted(b"`\xe9`")) == "\u00e9"
    assert Names("ascii").either(quoted(b"`\xc3\xa9`")) == "\u00e9"
    with pytest.raises(StatementError):
        names.either(quoted(b"`\xc3\xa9`"))


@pytest.mark.parametrize(
    ("charset", "token"),
    [
        ("utf8mb4", quoted(b"`\xe9`")),
        ("utf8mb4", quoted(b"`\xed\xa0\x80`")),
        ("ascii", quoted(b"`\xc3\xa9`")),
        ("nonsense", quoted(b"`\xc3\xa9`")),
        ("ucs2", quoted(b"`\xc3\xa9`")),
        ("gbk", quoted(b"`\xff\xff`")),
        ("big5", quoted(b"`\xa1\x5a`")),
        ("gb18030", quoted(b"`\x94\x39\xfc\x36`")),
        ("utf8mb4", quoted(b"`\xf0\x9f\x98\x80`")),
        ("utf8mb4", quoted(b"``")),
        ("latin1", bare(b"x\xa0")),
        ("utf8mb4", bare(b"")),
    ],
)
def test_an_uncertain_name_is_refused(charset: str, token: Token) -> None:
    """R7, R266: no characters, no proven codec, empty, above U+FFFF, or a doubtful blank."""
    with pytest.raises(StatementError):
        Names(charset).clients(token)


@pytest.mark.parametrize(
    ("charset", "raw", "expected"),
    [
        ("sjis", b"a\x81\x5f\xb1", "a\\\uff71"),
        ("ujis", b"\xa1\xc0\x8f\xf5\xa1", "\\\ue3ac"),
        ("eucjpms", b"\xa1\xc1\xad\xa1", "\uff5e\u2460"),
        ("big5", b"\xa4\xa4\xf9\xd6", "\u4e2d\u7881"),
        ("gb18030", b"\xa8\xbc\x81\x35\xf4\x37", "\u1e3f\ue7c7"),
    ],
)
def test_names_have_the_servers_characters(charset: str, raw: bytes, expected: str) -> None:
    """R7, D27: as the server names such a table, where Python's codec has another character."""
    assert Names(charset).clients(quoted(b"`" + raw + b"`")) == expected


def test_in_sets_of_several_bytes_a_wide_blank_is_part_of_the_name() -> None:
    """R7: as the server reads it: U+3000 in gbk, U+00A0 in UTF-8 (seen)."""
    assert Names("gbk").clients(bare(b"y\xa1\xa1z")) == "y\u3000z"
    assert Names("utf8mb4").clients(bare(b"x\xc2\xa0y")) == "x\u00a0y"
    assert Names("binary").clients(bare(b"x\xc2\xa0y")) == "x\u00a0y"


def test_a_set_that_no_client_can_have_leaves_ascii() -> None:
    """R266: two-byte units would turn the bytes of a name into other characters."""
    assert Names("utf16").clients(bare(b"abcd")) == "abcd"
