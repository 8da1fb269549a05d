"""A statement's bytes → words, names and marks, by the server's own lexical rules.

House rules: bytes are read as the server reads them, before any decoding, because it is the server
that has accepted the text. Comments vanish, except that what stands in an executable comment counts
(one that this source did not execute is logged as a plain comment: the server rewrites its head).
Literals become a token without content. Reading is lazy: a caller that needs one word pays for one.
Text that does not come out even is refused: it was written under other rules than we were told.
"""

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cache
from itertools import chain, repeat
from typing import Final, NamedTuple

from capstan.core.binlog.statement_types import StatementError


class TokenKind(Enum):
    """What a token is."""

    WORD = "a keyword, an unquoted name or a number"
    QUOTED = "a quoted name"
    LITERAL = "a string"
    MARK = "any other single character"
    END = "the end"


class Token(NamedTuple):
    """One token.

    Attributes:
        kind: What it is.
        word: The word in upper case, or the mark; empty for all else, so that a quoted name is
            never taken for a keyword.
        raw: The bytes of a word or quoted name as written, quotes included; empty for all else.
    """

    kind: TokenKind
    word: bytes = b""
    raw: bytes = b""


END: Final = Token(TokenKind.END)
_LITERAL: Final = Token(TokenKind.LITERAL)

# Character sets whose two-byte characters can end in the byte of a quote or a backslash.
_WIDE: Final = {
    "big5": rb"[\xa1-\xf9][\x40-\x7e\xa1-\xfe]",
    "cp932": rb"[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]",
    "gb18030": rb"[\x81-\xfe][\x40-\x7e\x80-\xfe]",
    "gbk": rb"[\x81-\xfe][\x40-\x7e\x80-\xfe]",
    "sjis": rb"[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]",
}
_NEVER: Final = rb"(?!)"


def _name(quote: bytes, wide: bytes) -> bytes:
    return quote + b"(?:" + wide + b"|[^" + quote + b"]|" + quote + quote + b")*+" + quote


def _literal(quote: bytes, wide: bytes, *, escapes: bool) -> bytes:
    if not escapes:
        return _name(quote, wide)
    # A backslash takes one byte with it, be it the first of a wide character: the server's rule.
    plain = b"[^" + quote + rb"\\]"
    inside = wide + b"|" + plain + b"|" + quote + quote + rb"|\\."
    return quote + b"(?:" + inside + b")*+" + quote


@cache
def _pattern(charset: str, ansi_quotes: bool, no_backslash_escapes: bool) -> re.Pattern[bytes]:
    wide = _WIDE.get(charset, _NEVER)
    names = [_name(b"`", wide)]
    literals = [_literal(b"'", wide, escapes=not no_backslash_escapes)]
    if ansi_quotes:
        names.append(_name(b'"', wide))
    else:
        literals.append(_literal(b'"', wide, escapes=not no_backslash_escapes))
    gaps = (
        rb"[ \t\n\v\f\r]++",
        rb"#[^\n]*+",
        rb"--(?:(?=[\x00-\x20\x7f])[^\n]*+|\Z)",
        rb"/\*(?!!).*?\*/",
    )
    return re.compile(
        rb"(?P<gap>%b)|(?P<executable>/\*!(?:[0-9]{5,6})?)|(?P<word>(?:%b|[0-9A-Za-z_$\x80-\xff])++)"
        rb"|(?P<quoted>%b)|(?P<literal>%b)|(?P<broken>[`'\"]|/\*)|(?P<mark>.)"
        % (b"|".join(gaps), wide, b"|".join(names), b"|".join(literals)),
        re.DOTALL,
    )


def lex(
    text: bytes, *, charset: str, ansi_quotes: bool, no_backslash_escapes: bool
) -> Iterator[Token]:
    """The tokens of a statement, one at a time, without an end token.

    Raises:
        StatementError: While iterating, for a quote or comment without its end.
    """
    pattern = _pattern(charset, ansi_quotes, no_backslash_escapes)
    position, executable = 0, False
    while match := pattern.match(text, position):
        if executable and text.startswith(b"*/", position):
            executable = False
            position += 2
            continue
        position = match.end()
        group = match.lastgroup
        if group == "word":
            yield Token(TokenKind.WORD, match[0].upper(), match[0])
        elif group == "quoted":
            yield Token(TokenKind.QUOTED, b"", match[0])
        elif group == "literal":
            yield _LITERAL
        elif group == "mark":
            yield Token(TokenKind.MARK, match[0])
        elif group == "executable":
            executable = True
        elif group == "broken":
            raise StatementError("a quote or comment without its end")
    if executable:
        raise StatementError("an executable comment without its end")


class Tokens:
    """A stream of tokens with look-ahead; past the last one it gives `END` for ever."""

    __slots__ = ("_ahead", "_source")

    def __init__(self, source: Iterable[Token]) -> None:
        self._source = chain(source, repeat(END))
        self._ahead: list[Token] = []

    def peek(self, distance: int = 0) -> Token:
        """The token `distance` places ahead; it stays."""
        while len(self._ahead) <= distance:
            self._ahead.append(next(self._source))
        return self._ahead[distance]

    def take(self) -> Token:
        """The next token."""
        token = self.peek()
        del self._ahead[0]
        return token

    def accept(self, *words: bytes) -> bool:
        """Take these words or marks when they come next, all or none."""
        if any(self.peek(distance).word != word for distance, word in enumerate(words)):
            return False
        del self._ahead[: len(words)]
        return True

    def rest(self) -> list[Token]:
        """All that is left, without the end and a final semicolon."""
        found = list(iter(self.take, END))
        if found and found[-1].word == b";":
            found.pop()
        return found
