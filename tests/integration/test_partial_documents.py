"""Partial JSON updates on the live server: the image after them is what SELECT gives."""

import json
from typing import Any

import attrs
import pytest
from helpers.mysql import Database
from helpers.pipelines import Recording, catch_up, config_for, running, start_from_now
from helpers.row_stream import position, rows_since
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from capstan import Limits, MemoryStore
from capstan.core.binlog.bounded_reader import BoundedReader
from capstan.core.binlog.json_diff import apply_diffs

SERVER_ID = 733
"""Of these dumps; no other test uses it."""

BASE = json.dumps(
    {
        "n": 12345678,
        "o": {"x": "q" * 50, "y": "w" * 50, "z": {"deep": [1, [2, [3]]]}},
        "k1": "abcdefghij",
        "arr": ["aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc"],
        "long": "z" * 300,
        'a.b "c" [0]\\': {"é": 1.5, "日本": 2, "😀": 3, "": 4, " ": 5},
    }
)
UPDATES = {
    "a number in place": "JSON_REPLACE(j, '$.n', 1)",
    "a member by its order": "JSON_SET(j, '$.zz', 1, '$.é', 2, '$.aaa', 3, '$.a', 4, '$.k', 5)",
    "a member of a member": "JSON_SET(j, '$.o.z.new', JSON_OBJECT('b', 1, 'a', JSON_ARRAY()))",
    "the first cell": "JSON_REPLACE(j, '$.arr[0]', 'x')",
    "the last cell": "JSON_SET(j, '$.arr[last]', 'x', '$.arr[last-1]', 'y')",
    "a cell far behind the end": "JSON_SET(j, '$.arr[99]', 'end', '$.arr[100]', 'after it')",
    "a cell before the start": "JSON_SET(j, '$.arr[last-9]', 'start')",
    "cells of cells": "JSON_SET(j, '$.o.z.deep[1][1][0]', JSON_ARRAY(), '$.o.z.deep[1][1][1]', 4)",
    "a member removed": "JSON_REMOVE(j, '$.long')",
    "a cell removed": "JSON_REMOVE(j, '$.arr[0]', '$.arr[last]')",
    "all members removed": "JSON_REMOVE(j, '$.o.x', '$.o.y', '$.o.z')",
    "what is not there removed": "JSON_REMOVE(j, '$.nothing', '$.arr[17]', '$.n[3].a')",
    "the same path again": "JSON_SET(JSON_REMOVE(JSON_SET(j, '$.n', 1), '$.n'), '$.n', 'again')",
    "quoted keys": 'JSON_SET(j, \'$."a.b \\\\"c\\\\" [0]\\\\\\\\"."é"\', 7, \'$."a b"\', NULL)',
    "keys without need of quotes": "JSON_SET(j, '$.日é', 1, '$.$_', 2, '$.\"last\"', 3)",
    "an empty key": "JSON_SET(j, '$.\"\"', 1, '$.\" \"', 2)",
    "a key of many bytes": "JSON_SET(j, CONCAT('$.', REPEAT('日', 200)), 1)",
    "a scalar taken for an array": "JSON_SET(j, '$.n[0]', 1, '$.k1[1]', 2, '$.long[last-1]', 3)",
    "literals": "JSON_REPLACE(j, '$.n', NULL, '$.k1', TRUE, '$.long', FALSE)",
    "numbers": "JSON_SET(j, '$.n', -0.0e0, '$.k1', 18446744073709551615, '$.long', 1.50)",
    "days and times": "JSON_SET(j, '$.n', NOW(6), '$.k1', CAST('-838:59:59' AS TIME))",
    "bytes": "JSON_SET(j, '$.k1', REPEAT(x'00ff', 60))",
    "text to escape": "JSON_SET(j, '$.k1', '\\0\\n\\t\\\\ \" \\' é 日 😀 \u2028')",
    "a document of more than 64 KiB": "JSON_SET(j, '$.k1', JSON_ARRAY(REPEAT('x', 70000), 1))",
    "a whole document": '\'{"b": 1, "a": 2}\'',
    "the root": "JSON_SET(j, '$', JSON_ARRAY(1))",
    "nothing at all": "JSON_SET(j, '$.n', 12345678)",
    "NULL": "NULL",
    "a path that is NULL": "JSON_SET(j, NULL, 1)",
}
WHOLE = {"a whole document", "the root", "NULL", "a path that is NULL"}
"""Updates that cannot be written as diffs."""


@pytest.fixture
def diffing(database: Database) -> Database:
    """A database whose session writes diffs."""
    database.execute("SET SESSION binlog_row_value_options = PARTIAL_JSON")
    return database


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the diffs that were applied."""
    sizes: list[int] = []

    def counting(before: str, diffs: BoundedReader) -> str:
        sizes.append(diffs.left)
        return apply_diffs(before, diffs)

    monkeypatch.setattr("capstan.core.binlog.partial_rows.apply_diffs", counting)
    return sizes


def updated(database: Database, statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
    """The images of a statement."""
    start = position(database)
    database.execute(statement, *arguments)
    return [image for event in rows_since(database, start, SERVER_ID) for image in event.images]


@pytest.mark.parametrize("name", UPDATES)
def test_the_document_after_an_update_is_what_select_gives(
    diffing: Database, applied: list[int], name: str
) -> None:
    """D22, R266: diffs are applied as the server applies them, and printed as it prints them."""
    diffing.execute("CREATE TABLE t (id INT PRIMARY KEY, j JSON, n INT)")
    diffing.execute("INSERT INTO t VALUES (1, %s, 1), (2, %s, 2)", BASE, BASE)
    before = diffing.execute("SELECT * FROM t ORDER BY id")
    images = updated(diffing, f"UPDATE t SET j = {UPDATES[name]}, n = n + 10")

    assert bool(applied) == (name not in WHOLE)
    assert images[::2] == before
    assert images[1::2] == diffing.execute("SELECT * FROM t ORDER BY id")


def test_each_document_of_a_row_has_diffs_of_its_own(diffing: Database, applied: list[int]) -> None:
    """D22: changed, replaced, untouched, NULL before, NULL after, beside other columns."""
    columns = ", ".join(f"j{place} JSON, c{place} INT" for place in range(11))
    diffing.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
    documents = ", ".join([f"'{json.dumps({'a': [1, 2], 'b': 'x' * 40})}', 1"] * 10)
    diffing.execute(f"INSERT INTO t VALUES (1, {documents}, NULL, 3), (2, {documents}, NULL, 3)")
    changes = {
        "j0": "JSON_SET(j0, '$.a[0]', 'first')",
        "j1": "JSON_REMOVE(j1, '$.b')",
        "j3": "NULL",
        "j4": "IF(id = 1, JSON_SET(j4, '$.c', 1), j4)",
        "j5": "'[]'",
        "j7": "JSON_SET(j6, '$.a', 7)",
        "j9": "JSON_REPLACE(JSON_SET(j9, '$.new', id), '$.a[1]', JSON_OBJECT())",
        "j10": "'{}'",
        "c10": "NULL",
    }
    assignments = ", ".join(f"{name} = {value}" for name, value in changes.items())
    images = updated(diffing, f"UPDATE t SET {assignments}")

    assert 0 in applied
    assert any(applied)
    assert images[1::2] == diffing.execute("SELECT * FROM t ORDER BY id")


def test_rows_with_and_without_diffs_share_an_event(diffing: Database, applied: list[int]) -> None:
    """D22: each row says for itself which of its documents are diffs."""
    diffing.execute("CREATE TABLE t (id INT PRIMARY KEY, j JSON)")
    long = json.dumps([1, 2, "x" * 60])
    rows = [long, None, "[1]", long, '"a"', "[[1, 2, 3, 4, 5]]"]
    for place, row in enumerate(rows):
        diffing.execute("INSERT INTO t VALUES (%s, %s)", place, row)
    images = updated(diffing, "UPDATE t SET j = JSON_SET(j, '$[0]', id + 100, '$[1]', 'end')")
    selected = {row[0]: row for row in diffing.execute("SELECT * FROM t")}

    assert len(images) == 2 * 5
    assert len(applied) == 6 * 2, "two of five documents, in each of six readings"
    assert [image for image in images[1::2] if image != selected[image[0]]] == []


def test_generated_columns_beside_diffs_are_whole(diffing: Database, applied: list[int]) -> None:
    """D22: what the server computes from a document, documents included, is in both images."""
    diffing.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(300) AS (JSON_PRETTY(j)) VIRTUAL, j JSON,"
        " d JSON AS (JSON_EXTRACT(j, '$.a')) STORED, s VARCHAR(300) AS (JSON_PRETTY(j)) STORED,"
        " KEY ((CAST(j->'$.a' AS UNSIGNED ARRAY))))"
    )
    diffing.execute("""INSERT INTO t (id, j) VALUES (1, '{"a": [1, 2], "b": "xxxxxxxx"}')""")
    images = updated(diffing, "UPDATE t SET j = JSON_REMOVE(JSON_SET(j, '$.a[0]', 7), '$.b')")

    assert any(applied)
    assert images[1:] == diffing.execute("SELECT * FROM t")


KEYS = ["a", "bb", "é", "zz", "a.b", 'q"t', "[0]", "", " ", "日本", "😀", "a\\b", "last", "1"]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=14,
)
LEGS = st.sampled_from(KEYS).map(lambda key: f".{json.dumps(key, ensure_ascii=False)}") | (
    st.sampled_from(["[0]", "[1]", "[2]", "[9]", "[last]", "[last-1]", "[last-5]"])
)
PATHS = st.lists(LEGS, min_size=1, max_size=3).map(lambda legs: f"${''.join(legs)}")
STEPS = st.tuples(st.sampled_from(["SET", "REPLACE", "REMOVE"]), PATHS, DOCUMENTS)


def nested(column: str, steps: list[tuple[str, str, Any]]) -> tuple[str, list[str]]:
    """An expression of nested calls and its arguments."""
    text, arguments = column, []
    for function, path, value in steps:
        arguments.append(path)
        if function == "REMOVE":
            text = f"JSON_REMOVE({text}, %s)"
        else:
            text = f"JSON_{function}({text}, %s, CAST(%s AS JSON))"
            arguments.append(json.dumps(value))
    return text, arguments


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(st.tuples(DOCUMENTS, DOCUMENTS), min_size=1, max_size=4),
    first=st.lists(STEPS, min_size=1, max_size=4),
    second=st.lists(STEPS, max_size=3),
)
@example(
    rows=[({"a": {"bb": [1]}}, {"é": 1, "zz": "x" * 99})],
    first=[("SET", '$."a"."bb"[9]', {"b": 1}), ("REMOVE", '$."a"."bb"[0]', None)],
    second=[("SET", '$."a"', [1.5, None]), ("REPLACE", '$."zz"', "y")],
)
def test_generated_updates_are_what_select_gives(
    diffing: Database,
    rows: list[tuple[Any, Any]],
    first: list[tuple[str, str, Any]],
    second: list[tuple[str, str, Any]],
) -> None:
    """D22: documents, paths and combinations that nobody thought of, on two columns."""
    diffing.execute("CREATE TABLE IF NOT EXISTS g (id INT PRIMARY KEY, j JSON, k JSON, n INT)")
    diffing.execute("DELETE FROM g")
    for place, (j, k) in enumerate(rows):
        diffing.execute("INSERT INTO g VALUES (%s, %s, %s, 0)", place, json.dumps(j), json.dumps(k))
    before = diffing.execute("SELECT * FROM g ORDER BY id")
    (one, ones), (two, twos) = nested("j", first), nested("k", second)
    images = updated(diffing, f"UPDATE g SET j = {one}, k = {two}, n = 1", *ones, *twos)

    assert images[::2] == before
    assert images[1::2] == diffing.execute("SELECT * FROM g ORDER BY id")


@pytest.mark.parametrize("memory", [1 << 20, 1], ids=["in memory", "spooled"])
def test_diffs_arrive_whole_from_compressed_and_from_large_transactions(
    diffing: Database, memory: int
) -> None:
    """D22: a session may use both; a pipeline delivers whole images, read again from disk too."""
    diffing.execute("CREATE TABLE t (id INT PRIMARY KEY, j JSON)")
    diffing.execute("INSERT INTO t VALUES (1, %s)", BASE)
    sink = Recording()
    store = start_from_now(MemoryStore(), diffing.server)
    config = config_for(diffing.server, sink, [f"{diffing.name}.*"], store)
    limits = Limits(transaction_memory=memory)
    with running(attrs.evolve(config, limits=limits)) as pipeline:
        for compressed in ("ON", "OFF"):
            diffing.execute(f"SET SESSION binlog_transaction_compression = {compressed}")
            diffing.execute("UPDATE t SET j = JSON_SET(JSON_REMOVE(j, '$.arr[0]'), '$.n', 1)")
            expected = diffing.execute("SELECT * FROM t")
            catch_up(pipeline, diffing.server)
            assert [sink.values[-1]] == expected
    assert [changes[0][0] for _, changes in sink.transactions] == ["update", "update"]
