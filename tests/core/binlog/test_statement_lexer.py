"""The lexical rules by themselves: tokens, look-ahead, laziness."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.binlog.statement_lexer import END, Token, TokenKind, Tokens, lex
from capstan.core.binlog.statement_types import StatementError


def tokens(text: bytes, **how: Any) -> list[Token]:
    modes: dict[str, Any] = {"charset": "utf8mb4", "ansi_quotes": False}
    modes |= {"no_backslash_escapes": False} | how
    return list(lex(text, **modes))


def words(text: bytes, **how: Any) -> list[bytes]:
    return [token.word or token.raw or token.kind.name.encode() for token in tokens(text, **how)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a.b", [b"A", b".", b"B"]),
        (b"root@`h` $x 1e5 \xc3\xa9", [b"ROOT", b"@", b"`h`", b"$X", b"1E5", b"\xc3\xa9"]),
        (b"x'61' N'a' \"b\"", [b"X", b"LITERAL", b"N", b"LITERAL", b"LITERAL"]),
        (b"'a''b' 'a\\'b' '\\\\' 'a' 'b'", [b"LITERAL"] * 5),
        (b"`a``b` `'` `--`", [b"`a``b`", b"`'`", b"`--`"]),
        (b"a--b", [b"A", b"-", b"-", b"B"]),
        (b"a-- b\nc --", [b"A", b"C"]),
        (b"a--\x01b", [b"A"]),
        (b"a#b\nc", [b"A", b"C"]),
        (b"a/*b*/c/**/d/***/e", [b"A", b"C", b"D", b"E"]),
        (b"a/*+ hint */b", [b"A", b"B"]),
        (b"/*!a*/b/*!80000c*/d/*!080000 e*/", [b"A", b"B", b"C", b"D", b"E"]),
        (b"/*!1234 a*/", [b"1234", b"A"]),
        (b"/*!a/*b*/c*/d", [b"A", b"C", b"D"]),
        (b"2*/*x*/3 */", [b"2", b"*", b"3", b"*", b"/"]),
        (b"/*! '*/' */", [b"LITERAL"]),
        (b"", []),
    ],
)
def test_text_falls_into_the_servers_tokens(text: bytes, expected: list[bytes]) -> None:
    """D21: comments, executable comments, literals and names as the server tells them apart."""
    assert words(text) == expected


@pytest.mark.parametrize("charset", ["gbk", "gb18030", "big5", "cp932", "sjis"])
def test_the_second_byte_of_a_wide_character_is_no_quote(charset: str) -> None:
    """R7: E0 5C and E0 60 are one character each where a character may end so."""
    text = b"'\xe0\\' `\xe0`` \xe0`"
    assert words(text, charset=charset) == [b"LITERAL", b"`\xe0``", b"\xe0`"]
    with pytest.raises(StatementError):
        words(text, charset="latin1")


def test_a_backslash_takes_one_byte_even_of_a_wide_character() -> None:
    """R7: the server's rule: after the escaped first byte the second stands alone."""
    assert words(b"'\\\xe0\\' x'", charset="gbk") == [b"LITERAL"]


@pytest.mark.parametrize("text", [b"'a", b'"a', b"`a", b"/* a", b"/*! a", b"/*!'a*/", b"'a\\'"])
def test_what_has_no_end_is_refused(text: bytes) -> None:
    """R266: text that does not come out even was written under other rules."""
    with pytest.raises(StatementError):
        tokens(text)


def test_a_quoted_name_is_never_a_keyword() -> None:
    """R7: only an unquoted word has a word."""
    assert tokens(b"`table`") == [Token(TokenKind.QUOTED, b"", b"`table`")]
    assert tokens(b'"Table"', ansi_quotes=True) == [Token(TokenKind.QUOTED, b"", b'"Table"')]


@given(st.binary(max_size=80), st.booleans(), st.booleans())
def test_reading_always_ends(text: bytes, ansi: bool, plain: bool) -> None:
    """R266: any bytes are read to the end or refused."""
    try:
        found = tokens(text, ansi_quotes=ansi, no_backslash_escapes=plain)
    except StatementError:
        return
    assert END not in found


def test_only_what_is_asked_for_is_read() -> None:
    """R266: the first word of a statement is told without reading what comes after it."""
    modes: dict[str, Any] = {"ansi_quotes": False, "no_backslash_escapes": False}
    stream = Tokens(lex(b"insert 'broken", charset="utf8mb4", **modes))
    assert stream.peek().word == b"INSERT"
    with pytest.raises(StatementError):
        stream.rest()


def test_a_stream_looks_ahead_and_takes_all_or_nothing() -> None:
    """D21: keywords are taken together or left together."""
    stream = Tokens(tokens(b"if not exists t;"))
    assert not stream.accept(b"IF", b"EXISTS")
    assert stream.peek(3).raw == b"t"
    assert stream.accept(b"IF", b"NOT", b"EXISTS")
    assert stream.take().raw == b"t"
    assert stream.rest() == []
    assert stream.take() == stream.peek() == END
