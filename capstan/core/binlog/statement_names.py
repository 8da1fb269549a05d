"""A name's bytes in a statement → the name, or a refusal.

House rules: a statement is logged in the client's character set, but what the server wrote itself
holds its names in UTF-8 whatever that set is, sometimes beside text of the client (seen: CREATE
VIEW, CREATE TABLE … START TRANSACTION, SAVEPOINT). Who wrote a name is the caller's to know; where
it cannot be known, both readings must agree. A name is exact or refused, and never in an exception.
"""

from typing import Final

from capstan.core.binlog.charsets import TextDecoder, decoder_for
from capstan.core.binlog.single_byte_charsets import TABLES
from capstan.core.binlog.statement_lexer import Token, TokenKind
from capstan.core.binlog.statement_types import StatementError

# The server refuses these as a client's set: ASCII bytes would not be ASCII characters.
_NEVER_A_CLIENTS: Final = frozenset({"ucs2", "utf16", "utf16le", "utf32"})


def _ascii(raw: bytes) -> str:
    return raw.decode("ascii")


def _decoder(charset: str) -> TextDecoder:
    """The client's reading; only ASCII is certain without a proven codec."""
    if charset == "binary":
        return bytes.decode  # such a client's names are taken for UTF-8: seen
    if charset in _NEVER_A_CLIENTS:
        return _ascii
    return decoder_for(charset) or _ascii


def _reading(raw: bytes, decode: TextDecoder) -> str | None:
    """The decoded name; None, and no exception that would keep the bytes, when there is none."""
    try:
        text = decode(raw)
    except UnicodeError:
        return None
    return text or None


class Names:
    """Reads the names of one statement."""

    __slots__ = ("_decode", "_one_byte")

    def __init__(self, charset: str) -> None:
        self._decode = _decoder(charset)
        self._one_byte = charset in TABLES

    def clients(self, token: Token) -> str:
        """A name as the client wrote it.

        Raises:
            StatementError: When it cannot be decoded with certainty.
        """
        return self._certain(token, _reading(token.raw, self._decode))

    def servers(self, token: Token) -> str:
        """A name in text that the server writes; the client's reading where that fails.

        Raises:
            StatementError: When neither reading exists.
        """
        text = _reading(token.raw, bytes.decode)
        return self.clients(token) if text is None else self._certain(token, text)

    def either(self, token: Token) -> str:
        """A name that the one or the other wrote.

        Raises:
            StatementError: When both readings exist and differ, or none does.
        """
        server = _reading(token.raw, bytes.decode)
        client = _reading(token.raw, self._decode)
        if server is not None and client is not None and server != client:
            raise StatementError("a name with two readings")
        return self._certain(token, client if server is None else server)

    def _certain(self, token: Token, text: str | None) -> str:
        if text is None:
            raise StatementError("a name that cannot be decoded")
        if max(text) > "\uffff":
            # The server keeps names in utf8mb3: it took a question mark for the character (seen).
            raise StatementError("a name with a character above U+FFFF")
        if token.kind is TokenKind.QUOTED:
            quote = text[0]
            text = text[1:-1].replace(quote * 2, quote)
        elif self._one_byte and any(map(str.isspace, text)):
            # Blanks beyond ASCII end a word in some one-byte sets (A0 in latin1: seen); in the
            # others, and where a character has several bytes, they are part of it.
            raise StatementError("a name with white space beyond ASCII")
        if not text:
            raise StatementError("an empty name")
        return text
