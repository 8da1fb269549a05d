"""Schemas from a document: read strictly, and checked against what table maps say."""

import pytest
from helpers.binlog_files import a_file, group
from helpers.binlog_stream import COLUMNS
from helpers.table_bytes import counted, full_metadata, integer, table_map, varchar

from capstan.core.binlog.offline.mapped_table import MappedTable
from capstan.core.binlog.table_signs import SchemaError, Schemas, TableSigns

FULL = MappedTable(table_map(COLUMNS))
BARE = MappedTable(table_map(COLUMNS, fields={}))
NAMED = MappedTable(
    table_map(COLUMNS, fields={4: b"".join(counted(name) for name in (b"id", b"name"))})
)
GOOD = {"shop.orders": [{"name": "id", "unsigned": True}, "name"]}


def test_a_schema_tells_signs_and_names() -> None:
    """R202: one flag for each integer column, and the names of all."""
    schemas = Schemas.read(GOOD)
    assert schemas.of(BARE) == (True,)
    assert schemas.names(BARE) == ("id", "name")


def test_a_table_that_is_not_in_the_document_relies_on_its_map() -> None:
    """R202: nothing is said of it."""
    schemas = Schemas.read({})
    assert schemas.of(BARE) is None
    assert schemas.names(BARE) is None


def test_a_sign_may_be_a_number_as_mysql_writes_it() -> None:
    """R258: JSON_OBJECT writes 0 and 1 for a comparison."""
    document = {"shop.orders": [{"name": "id", "unsigned": 1}, {"name": "name", "unsigned": 0}]}
    assert Schemas.read(document).of(BARE) == (True,)


@pytest.mark.parametrize("table", [FULL, NAMED, BARE], ids=["full", "names", "bare"])
def test_a_schema_that_agrees_is_taken(table: MappedTable) -> None:
    """R258: where the map says it too, both agree."""
    assert Schemas.read(GOOD).of(table) == (True,)


@pytest.mark.parametrize(
    ("table", "columns", "why"),
    [
        (BARE, ["id"], "has 2 columns, the schema 1"),
        (FULL, [{"name": "id", "unsigned": True}, "label"], "column 2 has another name"),
        (NAMED, ["key", "name"], "column 1 has another name"),
        (FULL, ["id", "name"], "other signs"),
    ],
)
def test_a_schema_that_contradicts_a_table_map_is_refused(
    table: MappedTable, columns: list[object], why: str
) -> None:
    """R258: number, names, signs."""
    schemas = Schemas.read({"shop.orders": columns})
    with pytest.raises(SchemaError, match=f"shop.orders.*{why}"):
        schemas.of(table)


@pytest.mark.parametrize(
    "document",
    [
        [],
        "x",
        {"a.b": {}},
        {"a.b": []},
        {"a.b": [1]},
        {"a.b": [{"name": ""}]},
        {"a.b": [{"unsigned": True}]},
        {"a.b": [{"name": "x", "unsigned": "yes"}]},
        {"a.b": [{"name": "x", "unsigned": 2}]},
        {"a.b": [{"name": "x", "type": "int"}]},
        {"a.b": ["x", "x"]},
    ],
)
def test_a_document_of_another_form_is_refused(document: object) -> None:
    """R258: nothing in it is passed over."""
    with pytest.raises(SchemaError):
        Schemas.read(document)


def test_columns_that_are_no_integers_need_no_flag() -> None:
    """R202: flags are for tinyint to bigint, in column order."""
    columns = [varchar("a"), integer("b"), varchar("c"), integer("d", unsigned=True)]
    table = MappedTable(table_map(columns, fields={}))
    document = {"shop.orders": ["a", "b", "c", {"name": "d", "unsigned": True}]}
    assert Schemas.read(document).of(table) == (False, True)
    assert full_metadata(columns)[1] == bytes([0b0100_0000])


def test_signs_are_told_with_row_events_only() -> None:
    """R202: a table map is remembered until its transaction ends."""
    file = a_file(*group(1))
    document = {"shop.items": [{"name": "id", "unsigned": True}, "name"]}
    signs = TableSigns(Schemas.read(document))
    told = [signs.at(file.data, offset, checksums=True) for offset in file.offsets[2:]]
    assert told == [None, None, None, (True,), None]
    signs.forget()
    assert signs.at(file.data, file.offsets[5], checksums=True) is None
    assert TableSigns(None).at(file.data, file.offsets[5], checksums=True) is None
