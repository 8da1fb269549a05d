"""A sink of plain functions."""

from collections.abc import Sequence

import pytest
from helpers.changes_builder import (
    chunk,
    chunk_facts,
    created,
    group,
    inserted,
    schema_change,
    shape,
    transaction,
)

from capstan.core.changes import Change, SchemaChange, SnapshotMeta, Transaction
from capstan.sinks.function import FunctionSink

ORDERS = shape("shop.orders", "id int", key=("id",))


def test_functions_get_what_the_sink_gets() -> None:
    """Transactions, single schema changes and chunks reach the function made for them."""
    seen: list[object] = []

    def on_transaction(transaction: Transaction) -> None:
        seen.append(transaction)

    def on_snapshot(changes: Sequence[Change], meta: SnapshotMeta) -> None:
        seen.append((changes, meta))

    def on_schema_change(change: SchemaChange) -> None:
        seen.append(change)

    sink = FunctionSink(on_transaction, on_snapshot, on_schema_change)
    first, renames = (
        transaction(1, inserted(ORDERS, (1,))),
        [
            schema_change(2, "rename_table", "a.b", "a.c"),
            schema_change(2, "rename_table", "a.d", "a.b"),
        ],
    )
    rows, facts = chunk(ORDERS, (2,)), chunk_facts("shop.orders")
    sink.open()
    sink.handle_batch([first, group(*renames)])
    sink.handle_snapshot(rows, facts)
    sink.close()
    assert seen == [first, *renames, (rows, facts)]
    assert sink.position() is None


def test_schema_changes_are_passed_over_without_a_function() -> None:
    """Only `on_transaction` must be given."""
    seen: list[object] = []
    sink = FunctionSink(seen.append)
    sink.handle_batch([created(1, "shop.orders")])

    assert seen == []


def test_a_chunk_without_a_function_is_refused() -> None:
    """R112: nothing of a backfill is dropped in silence."""
    sink = FunctionSink(lambda _: None)
    with pytest.raises(NotImplementedError):
        sink.handle_snapshot(chunk(ORDERS, (1,)), chunk_facts("shop.orders"))


def test_what_a_function_raises_passes_through() -> None:
    """R41: a function that raises has not accepted."""

    def refuse(_: Transaction) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        FunctionSink(refuse).handle_batch([transaction(1, inserted(ORDERS, (1,)))])
