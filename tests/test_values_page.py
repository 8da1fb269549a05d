"""The page about values says what the code does: each line of its tables, on a real server."""

import io
import re
from base64 import b64encode
from collections.abc import Iterator
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any

import attrs
import pytest
from helpers.mysql import fresh_database
from helpers.pipelines import catch_up, config_for, running, start_from_now

from capstan import JsonLinesSink, MemoryStore, Sink, Transaction
from capstan.core.binlog.columns import GEOMETRY_TYPES, FieldType, WireColumn, readable, sql_type
from capstan.core.tables import Column
from capstan.demo.mysql_access import SqlServer

PAGE = Path(__file__).parents[1] / "docs" / "values.md"
TYPES = ["MySQL", "Python", "In JSON lines"]
EXAMPLES = ["Column", "Stored", "In Python", "In JSON lines"]


def rows(header: list[str]) -> Iterator[list[str]]:
    """The rows of all tables with this header."""
    inside = False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line else []
        if cells == header:
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|--"):
            yield cells


def words(cell: str) -> list[str]:
    """What stands in backticks."""
    return re.findall("`([^`]*)`", cell)


def spelled(value: Any) -> str:
    """The name of a value's type, as a reader would import it."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


@attrs.frozen(kw_only=True)
class Example:
    """One example of the page and what became of it.

    Attributes:
        declared: The column's type in SQL.
        python: What the page says of the Python value.
        line: What it says of the JSON lines form.
        column: The column as it arrived.
        value: The value as it arrived.
        text: Its form in the line that was written.
    """

    declared: str
    python: str
    line: str
    column: Column
    value: Any
    text: str


class Both(Sink):
    """Keeps changes, and writes them as JSON lines."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.lines = JsonLinesSink(self.stream)
        self.transactions: list[Transaction] = []

    def handle_transaction(self, transaction: Transaction) -> None:
        """Keep it and write it."""
        self.transactions.append(transaction)
        self.lines.handle_transaction(transaction)


@pytest.fixture(scope="module")
def examples(mysql_server: SqlServer) -> list[Example]:
    """Every example, streamed."""
    found = [[words(cell)[0] for cell in row] for row in rows(EXAMPLES)]
    columns = ", ".join(f"c{place} {declared}" for place, (declared, *_) in enumerate(found))
    values = ", ".join(stored for _, stored, *_ in found)
    sink = Both()
    with fresh_database(mysql_server) as database:
        database.execute("SET SESSION sql_mode = '', time_zone = '+00:00'")
        database.execute(f"CREATE TABLE t ({columns}, last INT)")
        store = start_from_now(MemoryStore(), mysql_server)
        with running(config_for(mysql_server, sink, [f"{database.name}.*"], store)) as pipeline:
            database.execute(f"INSERT INTO t VALUES ({values}, 1)")
            catch_up(pipeline, mysql_server)
    ((change,),) = ([*transaction.changes] for transaction in sink.transactions)
    line, _, _ = sink.stream.getvalue().partition(', "last": 1}')
    texts = re.split(r'[{ ]"c\d+": ', line)[1:]
    assert change.values is not None
    return [
        Example(declared=d, python=p, line=j, column=c, value=v, text=t.removesuffix(","))
        for (d, _, p, j), c, v, t in zip(
            found, change.columns[:-1], change.values[:-1], texts, strict=True
        )
    ]


def test_every_example_is_as_the_page_says(examples: list[Example]) -> None:
    """R266: the value in Python and its form in JSON lines, character by character."""
    assert len(examples) > 50
    found = [(e.declared, repr(e.value), e.text) for e in examples]
    said = [(e.declared, e.python, e.line) for e in examples]
    assert found == said


def test_every_example_has_the_type_and_the_form_of_its_family(examples: list[Example]) -> None:
    """R266: what the table of types says holds for each example of that type."""
    forms = {name: row for row in rows(TYPES) for name in words(row[0])}
    for example in examples:
        _, python, form = forms[example.column.type]
        if example.value is None:
            assert example.text == "null"
            continue
        assert spelled(example.value) in words(python), example.declared
        assert form == "document" or (example.text[0] == '"') == (form != "number")
        if form == "base64":
            assert example.text == f'"{b64encode(example.value).decode()}"'
        if isinstance(example.value, datetime):
            assert (example.value.tzinfo is None) == ("without time zone" in python)


def test_the_page_has_every_type_and_an_example_of_each_family(examples: list[Example]) -> None:
    """R266: no type that can arrive is left out, and no other is made up."""
    listed = [words(row[0]) for row in rows(TYPES)]
    made = {
        sql_type(WireColumn(name="c", type=kind, size=size, charset=charset, geometry=geometry))
        for kind, size, charset, geometry in product(
            filter(readable, FieldType), range(1, 5), ("binary", "utf8mb4"), range(GEOMETRY_TYPES)
        )
    }
    made |= {"enum", "set"}

    assert sorted(name for family in listed for name in family) == sorted(made)
    shown = {example.column.type for example in examples}
    assert [family for family in listed if not shown & set(family)] == []
