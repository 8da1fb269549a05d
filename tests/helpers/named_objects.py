"""Short forms of what a statement names, for tables of expectations."""

from typing import Any

from capstan.core.binlog.statements import NamedObject, classify

OTHER = NamedObject(kind="other", rows_may_change=False)
ANY_TABLE = NamedObject(kind="other", rows_may_change=True)


def named(kind: Any, name: str | None = "t", schema: str = "db", **more: Any) -> NamedObject:
    """An object whose stored rows may have changed."""
    return NamedObject(kind=kind, schema=schema, table=name, **more)


def kept(kind: Any, name: str | None = "t", schema: str = "db", **more: Any) -> NamedObject:
    """An object whose stored rows are known to stay as they are."""
    return named(kind, name, schema, rows_may_change=False, **more)


def renamed(old: str, new: str, schema: str = "db", new_schema: str = "db") -> NamedObject:
    """A table that only changes its name."""
    return kept("rename_table", old, schema, new_schema=new_schema, new_table=new)


def objects(text: str, **how: Any) -> tuple[NamedObject, ...]:
    """What a statement in UTF-8 names, in the default database `db`."""
    return classify(text.encode(), "db", **how).objects
