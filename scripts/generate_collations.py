"""Write capstan/core/binlog/collations.py from a running server's information_schema.

Usage: python scripts/generate_collations.py --socket PATH [--user root] [--password-env NAME]

The server's catalogue is the only source of these numbers. Collation ids are never reused, so the
table of a newer server is a superset of an older one's.
"""

import argparse
import os
import pathlib

import pymysql

TARGET = pathlib.Path(__file__).parent.parent / "capstan" / "core" / "binlog" / "collations.py"

HEADER = '''"""Collation ids and character sets as MySQL {version} lists them.

House rules: written by scripts/generate_collations.py from the server's information_schema; never
edited by hand. Ids are stable over versions; an id that is missing here is a halt, never a guess.
"""

from typing import Final

'''


def render(version: str, collations: list[tuple[int, str]], charsets: list[tuple[str, int]]) -> str:
    """The module's text.

    Args:
        version: The server's version, without a packager's suffix.
        collations: Pairs of collation id and character set name, by id.
        charsets: Pairs of character set name and its longest character in bytes, by name.
    """
    lines = [HEADER.format(version=version)]
    lines.append("CHARSET_OF_COLLATION: Final[dict[int, str]] = {\n")
    lines += [f'    {number}: "{charset}",\n' for number, charset in collations]
    lines.append(
        '}\n"""The character set of each collation, by the number that table maps carry."""\n'
    )
    lines.append("\nLONGEST_CHARACTER: Final[dict[str, int]] = {\n")
    lines += [f'    "{name}": {size},\n' for name, size in charsets]
    lines.append('}\n"""Bytes of the longest character of each character set."""\n')
    return "".join(lines)


def main() -> None:
    """Ask the server and write the file."""
    parser = argparse.ArgumentParser(description="write collations.py from a server")
    parser.add_argument("--socket", required=True)
    parser.add_argument("--user", default="root")
    parser.add_argument("--password-env", default="")
    options = parser.parse_args()
    password = os.environ.get(options.password_env, "")
    connection = pymysql.connect(unix_socket=options.socket, user=options.user, password=password)
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        ((version,),) = cursor.fetchall()
        cursor.execute("SELECT id, character_set_name FROM information_schema.collations")
        collations = sorted(cursor.fetchall())
        cursor.execute("SELECT character_set_name, maxlen FROM information_schema.character_sets")
        charsets = sorted(cursor.fetchall())
    TARGET.write_text(render(version.partition("-")[0], collations, charsets), encoding="utf-8")


if __name__ == "__main__":
    main()
