"""Which items of the stream concern a table that is being backfilled."""

import attrs
import pytest
from helpers.changes_builder import group, inserted, schema_change, shape, transaction

from capstan.core.changes import SchemaChange
from capstan.core.snapshot.ddl_reach import names_table, touches

T = shape("shop.t", "id int", key=("id",))


@pytest.mark.parametrize(
    "change",
    [
        schema_change(1, "alter_table", "shop.t"),
        schema_change(1, "alter_table", "shop.t", rows_may_change=False),
        schema_change(1, "create_table", "shop.t", rows_may_change=False),
        schema_change(1, "drop_table", "shop.t"),
        schema_change(1, "truncate_table", "shop.t"),
        schema_change(1, "alter_partition", "shop.t"),
        schema_change(1, "exchange_partition", "shop.t", "shop.x"),
        schema_change(1, "exchange_partition", "shop.x", "shop.t"),
        schema_change(1, "rename_table", "shop.t", "shop.x"),
        schema_change(1, "rename_table", "bar.x", "shop.t"),
        schema_change(1, "drop_database", "shop"),
        schema_change(1, "other"),
    ],
    ids=lambda change: f"{change.kind} {change.schema}.{change.table}",
)
def test_a_statement_concerns_every_table_it_names(change: SchemaChange) -> None:
    """D9: both sides of RENAME and EXCHANGE, all of DROP DATABASE, TRUNCATE, what nobody knows."""
    assert names_table(change, "shop", "t")


@pytest.mark.parametrize(
    "change",
    [
        schema_change(1, "alter_table", "shop.tt"),
        schema_change(1, "alter_table", "bar.t"),
        schema_change(1, "rename_table", "shop.x", "bar.t"),
        schema_change(1, "drop_database", "bar"),
        schema_change(1, "create_database", "shop"),
        schema_change(1, "alter_database", "shop", rows_may_change=False),
        schema_change(1, "other", rows_may_change=False),
        attrs.evolve(schema_change(1, "create_table", "shop.t"), may_be_noop=True),
    ],
    ids=lambda change: f"{change.kind} {change.schema}.{change.table}",
)
def test_what_leaves_the_table_as_it_stands_does_not(change: SchemaChange) -> None:
    """D9: other tables, new databases, the closed list, and a CREATE that found it there."""
    assert not names_table(change, "shop", "t")


def test_a_transaction_touches_the_tables_of_its_rows() -> None:
    """D6: whichever of its rows it is; a filtered one touches none."""
    other = shape("shop.o", "id int", key=("id",))
    both = transaction(1, inserted(other, (1,)), inserted(T, (1,)))
    assert touches(both, "shop", "t")
    assert touches(both, "shop", "o")
    assert not touches(both, "bar", "t")
    assert not touches(transaction(2), "shop", "t")


def test_a_group_touches_what_any_of_its_changes_names() -> None:
    """D6, D20: one of several tables of a DROP."""
    dropped = group(
        schema_change(3, "drop_table", "shop.o"), schema_change(3, "drop_table", "shop.t")
    )
    assert touches(dropped, "shop", "t")
    assert not touches(dropped, "shop", "x")
