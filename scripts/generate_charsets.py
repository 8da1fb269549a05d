"""Write capstan/core/binlog/single_byte_charsets.py from a running server.

Usage: python scripts/generate_charsets.py --socket PATH [--user root] [--password-env NAME]

Python's codecs differ from the server on single characters, so the server is asked for each of the
256 bytes of each character set of one byte (D27). A byte that the server prints with a replacement
gets no character.
"""

import argparse
import os
import pathlib
import textwrap

import pymysql
from pymysql.cursors import Cursor

TARGET = (
    pathlib.Path(__file__).parent.parent / "capstan" / "core" / "binlog" / "single_byte_charsets.py"
)

HEADER = '''"""The characters of MySQL's one-byte character sets, as MySQL {version} converts them.

House rules: written by scripts/generate_charsets.py, never edited by hand. A table has a character
for each of the 256 bytes; U+FFFE, which is none, stands where the server itself has to print a
replacement.
"""

from typing import Final

_ASCII: Final = "".join(map(chr, range(128)))

TABLES: Final[dict[str, str]] = {{
'''

NONE = "\ufffe"


def characters(cursor: Cursor, charset: str) -> str:
    """The 256 characters of a character set."""
    table = ""
    for code in range(256):
        cursor.execute(
            f"SELECT HEX(CONVERT(CONVERT(UNHEX(%s) USING {charset}) USING utf32))", (f"{code:02x}",)
        )
        ((text,),) = cursor.fetchall()
        character = bytes.fromhex(text or "").decode("utf-32-be", "replace")
        replaced = character == "?" and code != ord("?")
        table += NONE if len(character) != 1 or replaced or character == "\ufffd" else character
    return table


def render(version: str, tables: dict[str, str]) -> str:
    """The module's text.

    Args:
        version: The server's version, without a packager's suffix.
        tables: 256 characters by character set.
    """
    lines = [HEADER.format(version=version)]
    for name, table in sorted(tables.items()):
        plain = table.startswith("".join(map(chr, range(128))))
        rest = "".join(f"\\u{ord(character):04x}" for character in table[128 * plain :])
        lines.append(f'    "{name}": {"_ASCII + " if plain else ""}(\n')
        lines += [f'        "{line}"\n' for line in textwrap.wrap(rest, 84)]
        lines.append("    ),\n")
    lines.append('}\n"""256 characters by character set."""\n')
    return "".join(lines)


def main() -> None:
    """Ask the server and write the file."""
    parser = argparse.ArgumentParser(description="write single_byte_charsets.py from a server")
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
        cursor.execute(
            "SELECT character_set_name FROM information_schema.character_sets"
            " WHERE maxlen = 1 AND character_set_name <> 'binary'"
        )
        tables = {name: characters(cursor, name) for (name,) in cursor.fetchall()}
    TARGET.write_text(render(version.partition("-")[0], tables), encoding="utf-8")


if __name__ == "__main__":
    main()
