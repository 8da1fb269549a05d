# ruff: noqa: S608 - statements are built from quoted names; values are only ever bound
"""The mirror's statements as text. Pure.

House rules: only names of ours and quoted names of the source stand in a statement, never a value.
Columns are declared without a type, so that SQLite converts nothing. Long conditions are built as
balanced trees: SQLite bounds the depth of an expression.
"""

from collections.abc import Sequence
from typing import Final

from capstan.core.tables import TableShape
from capstan.sinks.mirror_names import OWN_PREFIX, quoted

SIGN_FUNCTION: Final = f"{OWN_PREFIX}_sign"
"""A function of one value that tells 0.0 from -0.0, which SQLite's comparison does not."""

_FLOATS: Final = frozenset({"float", "double"})
_ROWIDS: Final = ("rowid", "_rowid_", "oid")
_INDEXED: Final = 8


def create_table(name: str, columns: Sequence[str], key: Sequence[str]) -> str:
    """A table with the source's column names; with a key it is clustered by it."""
    lines = [
        f"{quoted(column)} NOT NULL" if column in key else quoted(column) for column in columns
    ]
    if not key:
        return f"CREATE TABLE {quoted(name)} ({', '.join(lines)})"
    lines.append(f"PRIMARY KEY ({_list(key)})")
    return f"CREATE TABLE {quoted(name)} ({', '.join(lines)}) WITHOUT ROWID"


def drop_table(name: str) -> str:
    """Drop a table with its rows and indexes."""
    return f"DROP TABLE {quoted(name)}"


def rename_table(old: str, new: str) -> str:
    """Give a table another name."""
    return f"ALTER TABLE {quoted(old)} RENAME TO {quoted(new)}"


def copy_rows(name: str, into: str) -> str:
    """Put all rows of one table into another of the same columns."""
    return f"INSERT INTO {quoted(into)} SELECT * FROM {quoted(name)}"


def delete_all(name: str) -> str:
    """Delete every row."""
    return f"DELETE FROM {quoted(name)}"


def any_row(name: str) -> str:
    """1 when there is a row, else 0."""
    return f"SELECT EXISTS (SELECT 1 FROM {quoted(name)})"


def insert(name: str, width: int, rows: int) -> str:
    """An insert of so many rows of so many columns."""
    return f"INSERT INTO {quoted(name)} VALUES {_groups(width, rows)}"


def upsert(name: str, shape: TableShape, rows: int) -> str:
    """An insert of so many rows that takes the place of rows with the same keys."""
    # Two keys that SQLite finds equal are the same unless they are floats: 0.0 and -0.0.
    fixed = {place for place in shape.key if shape.columns[place].type not in _FLOATS}
    names = [quoted(column) for place, column in enumerate(shape.names) if place not in fixed]
    action = f"UPDATE SET {', '.join(f'{n} = excluded.{n}' for n in names)}" if names else "NOTHING"
    conflict = f"ON CONFLICT ({_list(shape.key_columns)}) DO {action}"
    return f"{insert(name, len(shape.names), rows)} {conflict}"


def count_keys(name: str, key: Sequence[str], keys: int) -> str:
    """How many of so many different keys are there."""
    return f"SELECT count(*) FROM {quoted(name)} WHERE {_among(key, keys)}"


def delete_keys(name: str, key: Sequence[str], keys: int) -> str:
    """Delete the rows of so many keys."""
    return f"DELETE FROM {quoted(name)} WHERE {_among(key, keys)}"


def delete_match(name: str, shape: TableShape) -> str:
    """Delete one row that equals the given one."""
    return f"DELETE FROM {quoted(name)} WHERE {_one_match(name, shape, 1)}"


def update_match(name: str, shape: TableShape) -> str:
    """Turn one row that equals the second given one into the first."""
    width = len(shape.names)
    pairs = (f"{quoted(column)} = ?{place}" for place, column in enumerate(shape.names, 1))
    return (
        f"UPDATE {quoted(name)} SET {', '.join(pairs)} WHERE {_one_match(name, shape, width + 1)}"
    )


def select_rows(name: str, columns: Sequence[str], where: Sequence[str]) -> str:
    """Rows that satisfy all of these terms."""
    condition = f" WHERE {' AND '.join(where)}" if where else ""
    return f"SELECT {_list(columns)} FROM {quoted(name)}{condition}"


def match_index(name: str, number: int, shape: TableShape, large: Sequence[int]) -> str | None:
    """An index that finds equal rows fast; None when every column can be too long for one."""
    short = [column for place, column in enumerate(shape.names) if place not in large][:_INDEXED]
    if not short:
        return None
    index = quoted(f"{OWN_PREFIX}_match_{number}")
    return f"CREATE INDEX IF NOT EXISTS {index} ON {quoted(name)} ({_list(short)})"


def rowid(shape: TableShape) -> str | None:
    """The name by which a row's number can be asked for; None when columns hide all of them."""
    taken = {column.lower() for column in shape.names}
    return next((alias for alias in _ROWIDS if alias not in taken), None)


def _one_match(name: str, shape: TableShape, first: int) -> str:
    number = rowid(shape)
    terms = []
    for parameter, column in enumerate(shape.columns, first):
        here, given = quoted(column.name), f"?{parameter}"
        terms += [f"{here} IS {given}", f"typeof({here}) = typeof({given})"]
        if column.type in _FLOATS:
            terms.append(f"{SIGN_FUNCTION}({here}) IS {SIGN_FUNCTION}({given})")
    inner = f"SELECT {number} FROM {quoted(name)} WHERE {_all_of(terms)} LIMIT 1"
    return f"{number} = ({inner})"


def _all_of(terms: Sequence[str]) -> str:
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return f"({_all_of(terms[:middle])} AND {_all_of(terms[middle:])})"


def _among(key: Sequence[str], keys: int) -> str:
    if len(key) == 1:
        return f"{quoted(key[0])} IN {_group(keys)}"
    # Given VALUES alone, SQLite reads the whole table instead of looking the keys up.
    return f"({_list(key)}) IN (SELECT * FROM (VALUES {_groups(len(key), keys)}))"


def _groups(width: int, count: int) -> str:
    return ", ".join([_group(width)] * count)


def _group(width: int) -> str:
    return f"({', '.join('?' * width)})"


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))
