"""A mirror as another program sees it, and shapes that its tests share."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from capstan.core.halts import Halted, HaltReason
from capstan.core.tables import TableShape
from capstan.sinks.sqlite_mirror import SqliteMirror
from helpers.changes_builder import deleted, shape, transaction

ORDERS = shape("shop.orders", "id int", "note varchar(20)", key=("id",))
BARE = shape("shop.bare", "a int", "b varchar(20)")


def mirrored(path: Path, table: str, order: str = "1") -> list[Any]:
    """All rows of one table of the mirror, through a connection of their own."""
    with closing(sqlite3.connect(path)) as reader:
        return reader.execute(f'SELECT * FROM "{table}" ORDER BY {order}').fetchall()


def mirrored_tables(path: Path) -> set[str]:
    """The names of the source tables that have a table in the mirror."""
    with closing(sqlite3.connect(path)) as reader:
        names = reader.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {name for (name,) in names if not name.startswith("_capstan")}


def is_strict(mirror: SqliteMirror, table: TableShape) -> bool:
    """Whether a DELETE of a row that is not there halts; it moves the position when it does not."""
    number = mirror.position().count() + 1
    nobody = (-1,) * len(table.names)
    try:
        mirror.handle_batch([transaction(number, deleted(table, nobody))])
    except Halted as verdict:
        return verdict.halt.reason is HaltReason.MIRROR_DRIFTED
    return False
