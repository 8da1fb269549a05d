"""What a schema change does to the mirror: one rule for each kind.

House rules: only what leaves the stored rows right is followed. Whatever may have changed rows that
are held halts `mirror_rows_stale`: the values that the server gave them are not in the binlog. A
table that awaits its backfill holds nothing that could be stale: it stays empty and waits on.

`CREATE TABLE IF NOT EXISTS` is written to the binlog even when the table was there and nothing
happened. A CREATE of a table that is mirrored already is therefore no news, and no reason to empty
it: a table that was really dropped before was dropped here too.
"""

from collections.abc import Callable
from typing import Final

from capstan.core.changes import SchemaChange
from capstan.sinks.mirror_tables import MirrorTable, MirrorTables, State, stale

Rule = Callable[[MirrorTables, SchemaChange], None]


def follow(tables: MirrorTables, change: SchemaChange) -> None:
    """Apply one schema change; those that concern no mirrored table do nothing.

    Raises:
        Halted: `mirror_rows_stale`, `mirror_name_conflict`.
    """
    rule = _RULES.get(change.kind)
    if rule is not None:
        rule(tables, change)


def _named(tables: MirrorTables, change: SchemaChange) -> MirrorTable | None:
    """The mirrored table that the change names, if it is captured."""
    if not change.captured or change.schema is None or change.table is None:
        return None
    return tables.find(change.schema, change.table)


def _create(tables: MirrorTables, change: SchemaChange) -> None:
    if not change.captured or change.schema is None or change.table is None:
        return
    if tables.find(change.schema, change.table) is None:
        # Of a CREATE that may have found the table there, older rows are not known.
        state = State.PARTIAL if change.may_be_noop else State.COMPLETE
        tables.add(change.schema, change.table, state)


def _drop(tables: MirrorTables, change: SchemaChange) -> None:
    table = _named(tables, change)
    if table is not None:
        _take_away(tables, table)


def _drop_database(tables: MirrorTables, change: SchemaChange) -> None:
    for table in tables:
        if table.schema == change.schema:
            _take_away(tables, table)


def _take_away(tables: MirrorTables, table: MirrorTable) -> None:
    if table.state is State.AWAITING:
        tables.clear(table)
    else:
        tables.remove(table)


def _truncate(tables: MirrorTables, change: SchemaChange) -> None:
    table = _named(tables, change)
    if table is not None:
        tables.clear(table)


def _alter(tables: MirrorTables, change: SchemaChange) -> None:
    table = _named(tables, change)
    if table is not None and change.rows_may_change:
        if table.state is State.AWAITING:
            tables.clear(table)
        elif tables.holds_rows(table):
            raise stale(table, f"{change.kind} in {change.gtid}")
    if change.new_table is not None:
        _rename(tables, change)


def _exchange(tables: MirrorTables, change: SchemaChange) -> None:
    """Two tables swap rows: harmless between two that are known to be empty."""
    here, there = _named(tables, change), _renamed(tables, change)
    if all(table is not None and _surely_empty(tables, table) for table in (here, there)):
        return
    for captured, table in ((change.captured, here), (change.new_captured, there)):
        if captured and (table is None or table.state is not State.AWAITING):
            raise stale(table or _both_names(change), f"{change.kind} in {change.gtid}")


def _surely_empty(tables: MirrorTables, table: MirrorTable) -> bool:
    return table.state is State.COMPLETE and not tables.holds_rows(table)


def _renamed(tables: MirrorTables, change: SchemaChange) -> MirrorTable | None:
    if not change.new_captured or change.new_schema is None or change.new_table is None:
        return None
    return tables.find(change.new_schema, change.new_table)


def _both_names(change: SchemaChange) -> str:
    return f"{change.schema}.{change.table}, {change.new_schema}.{change.new_table}"


def _rename(tables: MirrorTables, change: SchemaChange) -> None:
    table = _named(tables, change)
    if not change.new_captured or change.new_schema is None or change.new_table is None:
        if table is not None:
            _take_away(tables, table)
        return
    if table is not None and table.state is not State.AWAITING:
        tables.rename(table, change.new_schema, change.new_table)
        return
    target = tables.find(change.new_schema, change.new_table)
    if target is not None and target.state is State.AWAITING:
        tables.clear(target)
    elif change.captured and table is None:
        # Nothing was known of its rows and nothing is now; what stood in its way is gone.
        if target is not None:
            tables.remove(target)
    else:
        raise stale(
            f"{change.new_schema}.{change.new_table}", f"unseen rows come in with {change.gtid}"
        )


_RULES: Final[dict[str, Rule]] = {
    "create_table": _create,
    "drop_table": _drop,
    "drop_database": _drop_database,
    "truncate_table": _truncate,
    "alter_table": _alter,
    "alter_partition": _alter,
    "exchange_partition": _exchange,
    "rename_table": _rename,
}
