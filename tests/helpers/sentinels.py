"""Sentinels: what a test plants where a value or a secret stands, and the search for it elsewhere.

House rules: every text that is planted begins with one rare stem, so that one search finds them
all, cut ones too; numbers and dates have rare digits. The search knows the disguises that a value
wears on its way into a log or a file: text, bytes, UTF-16, hexadecimal, base64, a repr, a pickle.
What is looked through is a channel: a name for the failure's message, and text or bytes.
"""

import base64
import logging
import pickle
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import attrs

import capstan

STEM: Final = "zq7xkw3v"
"""In small letters, so that what changes a text's case cannot hide it."""

ROW_TEXT: Final = f"{STEM}-row-text"
PASSWORD: Final = f"{STEM}-password"
DDL_LITERAL: Final = f"{STEM}-ddl-literal"
DDL_COMMENT: Final = f"{STEM}-ddl-comment"
ROWS_QUERY: Final = f"{STEM}-rows-query"
DML: Final = f"{STEM}-dml"
SERVER_WORDS: Final = f"{STEM}-server-words"
EXCEPTION_TEXT: Final = f"{STEM}-exception-text"

KEY: Final = 2_718_281_800
"""Keys are this number and those shortly above it: the eight digits in front are searched for."""
_KEYS: Final = range(KEY, KEY + 100)
BIG: Final = 7_316_049_218_884_455_123
DECIMAL: Final = "16180339887.4989"
DOUBLE: Final = 0.8414709848078965
DATE: Final = "1987-06-05"
TIME: Final = "27:18:28"

Channel = tuple[str, str | bytes]


def _text_forms(text: str) -> Iterator[bytes]:
    yield text.encode()
    yield text.encode().hex().encode()
    yield text.encode("utf-16-le")


def _base64_forms(text: str) -> Iterator[bytes]:
    """What base64 makes of the text at each place it can have among other bytes."""
    raw = text.encode()
    for before in range(3):
        whole = base64.b64encode(bytes(before) + raw)
        first = -(-before * 8 // 6)
        last = (before + len(raw)) * 8 // 6
        yield whole[first:last]


def _packed(number: int, width: int) -> tuple[bytes, bytes]:
    big = number.to_bytes(width, "big")
    return big, big[::-1]


_PACKED: Final = (*_packed(BIG, 8), *(raw for number in _KEYS for raw in _packed(number, 4)))


_FOLDED: Final = frozenset(
    {
        *_text_forms(STEM),
        str(KEY)[:8].encode(),
        *(raw.hex().encode() for raw in _PACKED),
        str(BIG).encode(),
        *(DECIMAL.encode(), DECIMAL.replace(".", "").encode()),
        str(DOUBLE).encode(),
        *(DATE.encode(), b"1987, 6, 5"),
        *(TIME.encode(), b"days=1, seconds=11908"),
    }
)
"""Looked for in a channel whose letters are made small."""

_EXACT: Final = frozenset({*_base64_forms(STEM), *_PACKED})
"""Looked for as they are."""


def leaks(content: str | bytes) -> list[str]:
    """What of the planted things stands in a text or in bytes, in any disguise."""
    raw = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    small = raw.lower()
    found = [form for form in _FOLDED if form in small]
    found += [form for form in _EXACT if form in raw]
    return sorted(map(repr, found))


def assert_clean(*channels: Channel) -> None:
    """Fail with the name of every channel in which something planted stands.

    Raises:
        AssertionError: Something was found, or there was nothing to look through.
    """
    assert channels, "nothing was looked through"
    found = {name: leak for name, content in channels if (leak := leaks(content))}
    assert not found, f"planted values came out: {found}"


# --- channels -------------------------------------------------------------------------------------


def shown(name: str, thing: object) -> Iterator[Channel]:
    """What anybody sees who prints a thing, puts it into a log line or a list."""
    yield f"repr of {name}", repr(thing)
    yield f"str of {name}", str(thing)
    yield f"format of {name}", f"{thing}"
    yield f"repr of a list of {name}", repr([thing])


def held(name: str, thing: Any) -> Iterator[Channel]:
    """All that can be got out of a thing that may hold no value at all."""
    yield from shown(name, thing)
    yield f"pickle of {name}", pickle.dumps(thing)
    if attrs.has(type(thing)):
        yield f"dict of {name}", repr(attrs.asdict(thing))


def raised(name: str, error: BaseException) -> Iterator[Channel]:
    """An exception with all that hangs on it: chain, arguments, notes, traceback."""
    for number, link in enumerate(_chain(error)):
        where = f"{name}, link {number}"
        yield from shown(where, link)
        yield f"arguments of {where}", repr(link.args)
        yield f"attributes of {where}", repr(vars(link))
        yield f"notes of {where}", repr(getattr(link, "__notes__", []))
    yield f"traceback of {name}", "".join(traceback.format_exception(error))
    yield f"pickle of {name}", pickle.dumps(error)


def _chain(error: BaseException) -> list[BaseException]:
    """The exception and all that it came from, what a `from None` only hides included."""
    found: list[BaseException] = []
    queue: list[BaseException | None] = [error]
    while queue:
        link = queue.pop()
        if link is not None and link not in found:
            found.append(link)
            queue += [link.__cause__, link.__context__]
    return found


def variables(name: str, error: BaseException) -> Iterator[Channel]:
    """What a debugger, or a collector of crashes, sees in capstan's frames of a traceback."""
    package = Path(capstan.__file__).parent
    for frame, _ in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if Path(code.co_filename).is_relative_to(package):
            yield f"variables of {name} in {code.co_name}()", repr(frame.f_locals)


def logged(records: Iterable[logging.LogRecord]) -> Iterator[Channel]:
    """Everything that a log record carries to its handlers."""
    formatter = logging.Formatter("%(name)s %(threadName)s %(message)s")
    for record in records:
        where = f"log record of {record.name}"
        yield where, formatter.format(record)
        yield f"arguments of {where}", repr((record.msg, record.args, record.exc_info))
