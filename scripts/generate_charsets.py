"""Write the tables of MySQL's character sets from a running server.

Usage: python scripts/generate_charsets.py --socket PATH [--user root] [--password-env NAME]

Python's codecs differ from the server on single characters, so the server is asked for every
sequence (D27): of the sets of one byte for all 256 (single_byte_charsets.py), of the others for
all that can be a character, of which the differences from Python's nearest codec are written
(wide_charset_differences.py). What the server prints with a replacement gets no character.
"""

import argparse
import itertools
import os
import pathlib
import textwrap
from collections.abc import Iterable, Iterator

import pymysql
from pymysql.cursors import Cursor

FOLDER = pathlib.Path(__file__).parent.parent / "capstan" / "core" / "binlog"

SINGLE = '''"""The characters of MySQL's one-byte character sets, as MySQL {version} converts them.

House rules: written by scripts/generate_charsets.py, never edited by hand. A table has a character
for each of the 256 bytes; U+FFFE, which is none, stands where the server itself has to print a
replacement.
"""

from typing import Final

_ASCII: Final = "".join(map(chr, range(128)))

TABLES: Final[dict[str, str]] = {{
'''

WIDE = '''"""Where MySQL {version} differs from Python's codecs of character sets of several bytes.

House rules: written by scripts/generate_charsets.py, never edited by hand. A run has the characters
of a sequence and of those that follow it by counting up the last byte; U+FFFE, which is none,
stands where the server itself has to print a replacement.
"""

from typing import Final


def _span(first: int, count: int) -> str:
    return "".join(map(chr, range(first, first + count)))


DIFFERENCES: Final[dict[str, tuple[tuple[bytes, str], ...]]] = {{
'''

NONE = "\ufffe"
BATCH = 8192
CODECS = {
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
"""Python's nearest codec by character set."""
HIGH = range(0x80, 0x100)
DIGIT = range(0x30, 0x3A)
LONGER: dict[str, tuple[Iterable[int], ...]] = {
    "eucjpms": ((0x8F,), HIGH, range(256)),
    "gb18030": (HIGH, DIGIT, HIGH, DIGIT),
    "ujis": ((0x8F,), HIGH, range(256)),
}
"""The bytes of the characters of more than two bytes, by place."""


def sequences(charset: str) -> Iterator[bytes]:
    """Every sequence that can be a character, shorter ones first."""
    yield from (bytes([code]) for code in range(256))
    yield from map(bytes, itertools.product(HIGH, range(256)))
    if charset in LONGER:
        yield from map(bytes, itertools.product(*LONGER[charset]))


def asked(cursor: Cursor, charset: str, probes: Iterable[bytes]) -> dict[bytes, str]:
    """The server's characters; nothing for a sequence that is not exactly one to it."""
    found: dict[bytes, str] = {}
    remaining = iter(probes)
    while batch := list(itertools.islice(remaining, BATCH)):
        rows = ",".join(f"ROW(0x{probe.hex()})" for probe in batch)
        cursor.execute(
            f"SELECT HEX(raw), HEX(CONVERT(CONVERT(raw USING {charset}) USING utf32))"
            f" FROM (VALUES {rows}) AS probes (raw)"
        )
        for raw, text in cursor.fetchall():
            probe = bytes.fromhex(raw)
            character = bytes.fromhex(text or "").decode("utf-32-be", "replace")
            # gb18030 has U+FFFD as a character of its own; elsewhere it replaces.
            replaced = (character == "?" and probe != b"?") or (
                character == "\ufffd" and charset != "gb18030"
            )
            # After a character that ends early the server drops the rest.
            begun = any(probe[:size] in found for size in range(1, len(probe)))
            if len(character) == 1 and not replaced and not begun:
                found[probe] = character
    return found


def characters(cursor: Cursor, charset: str) -> str:
    """The 256 characters of a character set of one byte."""
    probes = [bytes([code]) for code in range(256)]
    found = asked(cursor, charset, probes)
    return "".join(found.get(probe, NONE) for probe in probes)


def differences(cursor: Cursor, charset: str) -> dict[bytes, str]:
    """The server's characters where Python's codec has others or none, or has one too many."""
    found = asked(cursor, charset, sequences(charset))
    differing: dict[bytes, str] = {}
    for probe in sequences(charset):
        begun = any(probe[:size] in found for size in range(1, len(probe)))
        python = None if begun else _python(CODECS[charset], probe)
        if found.get(probe) != python:
            differing[probe] = found.get(probe, NONE)
    return differing


def _python(codec: str, probe: bytes) -> str | None:
    try:
        text = probe.decode(codec)
    except UnicodeDecodeError:
        return None
    return text if len(text) == 1 else None


def runs(differing: dict[bytes, str]) -> Iterator[tuple[bytes, str]]:
    """Sequences that differ in the last byte only, and by one, become one run."""
    for _, group in itertools.groupby(
        enumerate(sorted(differing)),
        key=lambda item: (item[1][:-1], item[1][-1] - item[0]),
    ):
        members = [probe for _, probe in group]
        yield members[0], "".join(differing[probe] for probe in members)


def escaped(text: str) -> str:
    """The characters as the inside of a string literal of ASCII."""
    return "".join(f"\\u{ord(character):04x}" for character in text)


def literal(text: str) -> str:
    """The expression of a run's characters; long spans of code points are named by their ends."""
    first = ord(text[0])
    if len(text) > 2 and text == "".join(map(chr, range(first, first + len(text)))):
        return f"_span(0x{first:04x}, {len(text)})"
    lines = " ".join(f'"{line}"' for line in textwrap.wrap(escaped(text), 78))
    return lines if len(text) <= 13 else f"({lines})"


def render_single(version: str, tables: dict[str, str]) -> str:
    """The module's text.

    Args:
        version: The server's version, without a packager's suffix.
        tables: 256 characters by character set.
    """
    lines = [SINGLE.format(version=version)]
    for name, table in sorted(tables.items()):
        plain = table.startswith("".join(map(chr, range(128))))
        lines.append(f'    "{name}": {"_ASCII + " if plain else ""}(\n')
        lines += [
            f'        "{line}"\n' for line in textwrap.wrap(escaped(table[128 * plain :]), 84)
        ]
        lines.append("    ),\n")
    lines.append('}\n"""256 characters by character set."""\n')
    return "".join(lines)


def render_wide(version: str, tables: dict[str, dict[bytes, str]]) -> str:
    """The module's text.

    Args:
        version: The server's version, without a packager's suffix.
        tables: The differing characters by sequence by character set.
    """
    lines = [WIDE.format(version=version)]
    for name, table in sorted(tables.items()):
        if not table:
            continue
        lines.append(f'    "{name}": (\n')
        for first, text in runs(table):
            start = "".join(f"\\x{code:02x}" for code in first)
            lines.append(f'        (b"{start}", {literal(text)}),\n')
        lines.append("    ),\n")
    lines.append('}\n"""Runs by character set; a set whose codec is exact has none."""\n')
    return "".join(lines)


def main() -> None:
    """Ask the server and write the files."""
    parser = argparse.ArgumentParser(description="write the character set tables from a server")
    parser.add_argument("--socket", required=True)
    parser.add_argument("--user", default="root")
    parser.add_argument("--password-env", default="")
    options = parser.parse_args()
    password = os.environ.get(options.password_env, "")
    connection = pymysql.connect(
        unix_socket=options.socket, user=options.user, password=password, charset="utf8mb4"
    )
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        ((version,),) = cursor.fetchall()
        version = version.partition("-")[0]
        cursor.execute(
            "SELECT character_set_name FROM information_schema.character_sets"
            " WHERE maxlen = 1 AND character_set_name <> 'binary'"
        )
        single = {name: characters(cursor, name) for (name,) in cursor.fetchall()}
        wide = {name: differences(cursor, name) for name in CODECS}
    texts = {
        "single_byte_charsets.py": render_single(version, single),
        "wide_charset_differences.py": render_wide(version, wide),
    }
    for name, text in texts.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
