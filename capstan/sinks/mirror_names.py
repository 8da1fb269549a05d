"""Names in the mirror: which SQLite table is which source table. Pure.

House rules: no two source tables share a name, every name can be read back, and none can be taken
for SQLite's own tables or for the mirror's bookkeeping. SQLite takes ASCII letters of either case
for the same; `folded` is its view of a name.

A name is `schema.table`. Inside either part `%`, `.` and `"` are written `%25`, `%2E` and `%22`; a
schema that begins like a name SQLite or the mirror keeps for itself has its first character written
so too.
"""

from typing import Final

OWN_PREFIX: Final = "_capstan"

_RESERVED: Final = ("sqlite_", OWN_PREFIX)
_ESCAPES: Final = str.maketrans({c: f"%{ord(c):02X}" for c in '%."'})


def table_name(schema: str, table: str) -> str:
    """The mirror's name of a source table."""
    first = schema.translate(_ESCAPES)
    if folded(first).startswith(_RESERVED):
        first = f"%{ord(first[0]):02X}{first[1:]}"
    return f"{first}.{table.translate(_ESCAPES)}"


def quoted(name: str) -> str:
    """A name as it stands in SQL."""
    return '"' + name.replace('"', '""') + '"'


def folded(name: str) -> str:
    """A name with ASCII letters in lower case and all others as they are."""
    return name.encode().lower().decode()
