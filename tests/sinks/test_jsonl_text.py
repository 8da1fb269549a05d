"""What lines look like, value by value."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from helpers.changes_builder import (
    UUID,
    Row,
    chunk,
    chunk_facts,
    deleted,
    inserted,
    schema_change,
    shape,
    transaction,
    updated,
)
from helpers.mysql import Database
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.changes import RowsChunk
from capstan.sinks import jsonl_text

ORDERS = shape("shop.orders", "id int", "note varchar(20)", key=("id",))


def lines_of(*chunks: RowsChunk) -> list[Any]:
    texts = list(jsonl_text.Lines().transaction(transaction(7, *chunks)))
    assert all(text.endswith("\n") and text.count("\n") == 1 for text in texts)
    return [json.loads(text) for text in texts]


def record_text(column: str, value: Any) -> str:
    """The JSON text of one value."""
    (line,) = jsonl_text.Lines().transaction(
        transaction(1, inserted(shape("a.b", column), (value,)))
    )
    _, _, rest = line.partition('"record": {"v": ')
    text, _, _ = rest.rpartition('}, "old_record"')
    return text


def test_a_transaction_is_one_object_a_change() -> None:
    """R1: identity, time, place, names, key and both images of every change, in order."""
    lines = lines_of(
        inserted(ORDERS, (1, "a"), (2, None)),
        updated(ORDERS, ((1, "a"), (3, "b"))),
        deleted(ORDERS, (2, None)),
    )
    first = {
        "gtid": f"{UUID}:7",
        "commit_time": "2023-11-14T22:13:20.123456Z",
        "index": 0,
        "count": 4,
        "op": "insert",
        "schema": "shop",
        "table": "orders",
        "key": [1],
        "record": {"id": 1, "note": "a"},
        "old_record": None,
    }
    assert lines[0] == first
    assert list(lines[0]) == list(first), "the order of the fields is part of the form"
    assert [(line["index"], line["count"]) for line in lines] == [(n, 4) for n in range(4)]
    assert [line["op"] for line in lines] == ["insert", "insert", "update", "delete"]
    assert [line["key"] for line in lines] == [[1], [2], [3], [2]]
    assert lines[1]["record"] == {"id": 2, "note": None}
    assert lines[2]["old_record"] == {"id": 1, "note": "a"}
    assert lines[3]["record"] is None
    assert lines[3]["old_record"] == {"id": 2, "note": None}


def test_a_commit_time_has_all_its_microseconds() -> None:
    """A whole second is written with six zeros: every line has the same form."""
    change = schema_change(1, "other")
    (line,) = jsonl_text.schema_changes([type(change)(
        gtid=change.gtid, commit_micros=1_700_000_000_000_000, position=change.position,
        schema=None, table=None, kind="other",
    )])  # fmt: skip
    assert json.loads(line)["commit_time"] == "2023-11-14T22:13:20.000000Z"


def test_a_table_without_a_key_has_key_null() -> None:
    """D5: no key is null, not an empty array."""
    (line,) = lines_of(inserted(shape("shop.bare", "a int"), (1,)))
    assert line["key"] is None


def test_a_composite_key_is_in_key_order() -> None:
    """D5: the key's own order, with values in the same form as in the record."""
    table = shape("shop.t", "a decimal", "b binary(2)", "c int", key=("b", "a"))
    (line,) = lines_of(inserted(table, (Decimal("1.0"), b"\x00\xff", 3)))
    assert line["key"] == ["AP8=", "1.0"]


def test_rows_of_a_backfill_carry_their_chunk() -> None:
    """R116: position, sequence and whether it is the last chunk; never a GTID or a time."""
    facts = chunk_facts("shop.orders", 3, position=5, final=True)
    texts = list(jsonl_text.Lines().snapshot(chunk(ORDERS, (1, "a"), (2, "b")), facts))
    assert json.loads(texts[1]) == {
        "position": f"{UUID}:1-5",
        "sequence": 3,
        "final": True,
        "index": 1,
        "count": 2,
        "op": "snapshot",
        "schema": "shop",
        "table": "orders",
        "key": [2],
        "record": {"id": 2, "note": "b"},
        "old_record": None,
    }


def test_a_schema_change_has_names_and_kind_only() -> None:
    """R7: every name that a statement touches, what it was, and no text of it."""
    changes = [
        schema_change(8, "rename_table", "shop.a", "shop.b"),
        schema_change(8, "drop_database", "shop", rows_may_change=False),
    ]
    lines = [json.loads(text) for text in jsonl_text.schema_changes(changes)]
    assert lines[0] == {
        "gtid": f"{UUID}:8",
        "commit_time": "2023-11-14T22:13:20.123456Z",
        "index": 0,
        "count": 2,
        "op": "schema",
        "kind": "rename_table",
        "schema": "shop",
        "table": "a",
        "new_schema": "shop",
        "new_table": "b",
        "rows_may_change": True,
    }
    assert (lines[1]["kind"], lines[1]["table"], lines[1]["index"]) == ("drop_database", None, 1)
    assert lines[1]["rows_may_change"] is False


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("v int", -5, "-5"),
        ("v bigint unsigned", 2**64 - 1, "18446744073709551615"),
        ("v bigint", 2**53 + 1, "9007199254740993"),
        ("v double", 0.1, "0.1"),
        ("v double", -0.0, "-0.0"),
        ("v double", 1e308, "1e+308"),
        ("v float", 16777216.0, "16777216.0"),
        ("v decimal", Decimal("105.0000000000"), '"105.0000000000"'),
        ("v date", date(2024, 2, 29), '"2024-02-29"'),
        ("v date", "0000-00-00", '"0000-00-00"'),
        ("v datetime(3)", datetime(2024, 2, 29), '"2024-02-29 00:00:00.000"'),
        ("v timestamp", datetime(2024, 2, 29, tzinfo=UTC), '"2024-02-29 00:00:00"'),
        ("v time", timedelta(hours=-25), '"-25:00:00"'),
        ("v year", 2024, "2024"),
        ("v enum", "", '""'),
        ("v varchar(9)", 'é"\\\n\u2028😀\0', '"é\\"\\\\\\n\u2028😀\\u0000"'),
        ("v blob", b"", '""'),
        ("v blob", b"\x00\xff\x10", '"AP8Q"'),
        ("v json", None, "null"),
        ("v json", "null", "null"),
    ],
)
def test_a_value_has_one_form(column: str, value: Any, text: str) -> None:
    """Numbers with all digits, texts as SELECT prints them, bytes as base64."""
    assert record_text(column, value) == text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), [1], True])
def test_a_value_without_a_form_is_refused(value: object) -> None:
    """R266: nothing is written that a reader would take for something else."""
    with pytest.raises((ValueError, TypeError)) as caught:
        record_text("v double", value)
    assert "nan" not in str(caught.value)


def test_odd_names_are_names() -> None:
    """Quotes, percent signs, line breaks and letters of any script stand in names as they are."""
    table = shape('a"b\0c%s\n日', 'x%d"\n int', "100%s int", "{y} int", key=("100%s",))
    (line,) = lines_of(inserted(table, (1, 2, 3)))
    assert (line["schema"], line["table"]) == ('a"b', "c%s\n日")
    assert line["record"] == {'x%d"\n': 1, "100%s": 2, "{y}": 3}
    assert line["key"] == [2]


EMBEDDED = [
    "{}",
    '{"a": 1, "b": [1, 2, {"": null}], "c": true}',
    "[9223372036854775807, 18446744073709551615, 9007199254740993]",
    "[1, 1.0, -1.5, 1e308, 5e-324, 0.1, 1e100, 100.0, 1.2345678901234568e20, -0.0, 1e20]",
    '"a\\u0000b\\"c\\\\d\\n\\t\\u001f/😀é"',
    '"1.50 is text here"',
    "12345678901234567890123456789012345678901234567890123456789012345",
]
AS_STRING = [
    '{"a": 105.0000000000}',
    "[0.00]",
    "[0.12345678901234567890]",
    "[12345678901234567890.5]",
    "[1.10]",
    "[1e400]",
]


@pytest.mark.parametrize("document", EMBEDDED)
def test_a_document_that_readers_keep_is_embedded(document: str) -> None:
    """A JSON column stands in the line as the server prints it, character by character."""
    assert record_text("v json", document) == document


@pytest.mark.parametrize("document", AS_STRING)
def test_a_document_that_a_double_would_change_is_a_string(document: str) -> None:
    """A decimal keeps its digits: the whole document is a string."""
    assert json.loads(record_text("v json", document)) == document


@pytest.mark.parametrize("text", ["not json", "{'a': 1}", "[NaN]", "[1,\n2]", "", '{"a": 1} '])
def test_what_the_server_would_not_print_cannot_break_a_line(text: str) -> None:
    """Whatever stands in a JSON column, the line is one JSON object."""
    assert json.loads(record_text("v json", text)) in (text, {"a": 1})
    assert "\n" not in record_text("v json", text)


def test_doubles_in_documents_are_embedded_as_the_server_prints_them(database: Database) -> None:
    """D27: every double of a document printed by a real server survives a reader's double."""
    database.execute("CREATE TABLE docs (v JSON)")
    numbers = "1e16, 123456789012345680, 1e15, 0.00001, 1e-7, 3.141592653589793, 2.5e-8, 1e0"
    database.execute(f"INSERT INTO docs VALUES ('[{numbers}]')")
    database.execute("INSERT INTO docs VALUES (JSON_ARRAY(CAST(1.50 AS DECIMAL(9,2))))")
    (doubles,), (decimals,) = database.execute("SELECT CAST(v AS CHAR) FROM docs")
    assert record_text("v json", doubles) == doubles
    assert json.loads(record_text("v json", decimals)) == decimals == "[1.50]"


ROWS = st.tuples(
    st.integers(-(2**63), 2**64 - 1),
    st.none() | st.text(st.characters(codec="utf-8")),
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
)


@given(rows=st.lists(ROWS, max_size=5))
def test_a_reader_gets_every_value_back(rows: list[Row]) -> None:
    """R266: integers, texts and floats read from the lines equal what was written."""
    table = shape("shop.t", "a bigint", "b text", "c double", key=("a",))
    lines = lines_of(inserted(table, *rows))
    assert [tuple(line["record"].values()) for line in lines] == rows
    assert [line["key"] for line in lines] == [[row[0]] for row in rows]
