"""Names and key values as SQL text: for the few statements that are built and not fixed.

House rules: a name is quoted, a value is a literal that needs no escape. Nothing else becomes SQL.
"""

from capstan.core.tables import TableName


def quoted(name: str) -> str:
    """An identifier in backticks."""
    return "`" + name.replace("`", "``") + "`"


def qualified(table: TableName) -> str:
    """A table with its schema, both in backticks."""
    return f"{quoted(table.schema)}.{quoted(table.table)}"


def grantable(schema: str) -> str:
    """A schema in a GRANT, where `_` and `%` would be wildcards."""
    return quoted(schema.replace("_", r"\_").replace("%", r"\%"))


def literal(value: int | bytes | str) -> str:
    """A value as a literal without quotes to escape: a number, or hexadecimal digits."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, str):
        # In the dictionary's own character set, so that its indexes serve.
        return f"_utf8mb3 x'{value.encode().hex()}'"
    return str(value)


def touch(table: TableName) -> str:
    """A SELECT without rows: it needs the right to read and takes the table's metadata lock."""
    return f"SELECT 1 FROM {qualified(table)} LIMIT 0"  # noqa: S608 - a quoted name


def lock(table: TableName) -> str:
    """The statement that keeps writers out of one table."""
    return f"LOCK TABLES {qualified(table)} READ"
