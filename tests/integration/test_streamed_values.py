"""A streamed value is what SELECT gives: edge values of every type on the live server."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from struct import pack
from typing import Any

import pytest
from helpers.mysql import Database
from helpers.row_stream import RowEvent, position, rows_since
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SERVER_ID = 731
"""Of these dumps; no pipeline of another test uses it."""

INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
DAYS = ("0000-00-00", "2020-00-00", "2020-05-00", "2021-02-31", "0000-01-01", "0001-01-01")
DAYS = (*DAYS, "1000-01-01", "1582-10-10", "2024-02-29", "9999-12-31")
NEAR = ("1.1", "-1.1", "0", "-0.0e0", "16777215", "16777216", "123456.789", "1e-45", "3.4028234e38")


def texts(*values: str) -> list[str]:
    """SQL literals."""
    return [f"'{value}'" for value in values]


def hexes(*values: str) -> list[str]:
    """SQL literals of bytes."""
    return [f"x'{value}'" for value in values]


def fractions(fsp: int) -> tuple[str, ...]:
    """Fractions with the digits of an fsp."""
    return ("",) if not fsp else tuple(f".{d[:fsp]}" for d in ("000000", "000001", "999999"))


def utc(value: Any) -> Any:
    """What a TIMESTAMP column gives in a session at UTC."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


def number(value: bytes) -> int:
    """What a BIT column gives."""
    return int.from_bytes(value, "big")


CASES: dict[str, tuple[list[str], Callable[[Any], Any] | None]] = {}
for name, bits in INTEGERS.items():
    half = 1 << bits - 1
    CASES[name] = [str(v) for v in (-half, -half + 1, -1, 0, 1, half - 1)], None
    CASES[f"{name} unsigned"] = [str(v) for v in (0, half - 1, half, 2 * half - 1)], None
CASES["tinyint(1)"] = ["true", "false", "127", "-128"], None
CASES["int(5) unsigned zerofill"] = ["7"], None
for precision, scale in ((1, 0), (5, 5), (10, 2), (18, 9), (20, 0), (65, 30), (65, 0), (31, 30)):
    most = "9" * (precision - scale) + (f".{'9' * scale}" if scale else "")
    least = f"0.{'0' * (scale - 1)}1" if scale else "1"
    values = [most, f"-{most}", least, f"-{least}", "0", "-0.0"]
    CASES[f"decimal({precision},{scale})"] = values, None
CASES["double"] = [*NEAR, "1.7976931348623157e308", "5e-324", "-2.2250738585072014e-308"], None
for bits in (1, 7, 8, 9, 63, 64):
    CASES[f"bit({bits})"] = ["0", "1", str((1 << bits) - 1), str(1 << bits - 1)], number
CASES["year"] = ["0", "1901", "2024", "2155"], None
CASES["date"] = texts(*DAYS), None
for fsp in range(7):
    clocks = [f"{clock}{f}" for clock in ("00:00:00", "23:59:59") for f in fractions(fsp)]
    CASES[f"datetime({fsp})"] = texts(*(f"{day} {clock}" for day in DAYS for clock in clocks)), None
    spans = ("-838:59:59", "-838:59:58", "-100:00:00", "-00:00:00", "00:00:00", "838:59:58")
    CASES[f"time({fsp})"] = texts(*(f"{span}{f}" for span in spans for f in fractions(fsp))), None
    instants = ("1970-01-01 00:00:01", "2001-09-09 01:46:40", "2038-01-19 03:14:07")
    stamps = texts("0000-00-00 00:00:00", *(f"{i}{f}" for i in instants for f in fractions(fsp)))
    CASES[f"timestamp({fsp})"] = stamps, utc
STRINGS = texts("", "a", " lead", "trail  ", "x" * 60)
LATIN1 = [*STRINGS, "_latin1 x'80818d8f909de9ff'"]
UTF8MB4 = [*STRINGS, *texts("é日😀", "\u200b", "\u00ff")]
for kind in ("char(60)", "varchar(60)", "varchar(300)", "tinytext", "text", "longtext"):
    CASES[kind] = UTF8MB4, None
for charset in ("utf8mb3", "latin1", "ascii", "ucs2", "utf16", "utf16le", "utf32", "cp1251"):
    for kind in ("char(60)", "varchar(60)"):
        strings = LATIN1 if charset == "latin1" else STRINGS
        CASES[f"{kind} character set {charset}"] = strings, None
WIDE = {
    "big5": ("a4a4f9d6f9dc", "a15c"),
    "cp932": ("b193fa967b", "815f5c", "fc4b8740"),
    "eucjpms": ("a1c1ada18ff4a1", "8eb1f5a18ff5a1", "7e5c"),
    "euckr": ("b0a18141c8fe",),
    "gb18030": ("a8bc8135f437", "8431a437d6d090308130", "8130813041e3329a35", "fe59"),
    "gb2312": ("d6d0a1a1",),
    "gbk": ("d6d08140fe4f",),
    "sjis": ("815fb15c", "93fa967b", "8140e040"),
    "ujis": ("a1c05c", "8eb1f5a18ff5a1", "8fb0a1c6fc"),
}
"""Characters on which Python's codecs and the server differ, between others."""
for charset, values in WIDE.items():
    strings = [f"_{charset} x'{value}'" for value in values]
    for kind in ("char(60)", "varchar(60)", "text"):
        CASES[f"{kind} character set {charset}"] = [*STRINGS, *strings], None
    labels = ",".join(["'a'", *hexes(*values)])
    CASES[f"enum({labels}) character set {charset}"] = ["1", str(len(values) + 1)], None
    CASES[f"set({labels}) character set {charset}"] = ["0", "3", str(2 << len(values) - 1)], None
CASES["char(255)"] = texts("", "日" * 255), None
for kind in ("binary(4)", "varbinary(4)", "varbinary(300)", "tinyblob", "blob", "mediumblob"):
    CASES[kind] = hexes("", "00", "0102", "01020000", "00000000", "ff80fe", "20"), None
CASES["enum('a','é','','it''s','x,y')"] = ["0", "1", "2", "3", "4", "5"], None
CASES["enum('é','日') character set ucs2"] = ["1", "2"], None
CASES["set('a','é','it''s','d')"] = ["0", "1", "2", "5", "15"], None
CASES[f"set({','.join(repr(f'm{n}') for n in range(64))})"] = (
    ["0", "1", str(1 << 63), str((1 << 64) - 1)],
    None,
)
CASES["json"] = (
    [
        *texts("null", "true", "1", "-1.5", '"s"', "[]", "{}", '{"b": 1, "a": [1.0, 1e300, -0.0]}'),
        "cast(cast('12.340' as decimal(10,3)) as json)",
        "json_array(cast('2024-02-29' as date), cast('-838:59:59' as time), now(6), x'00ff')",
        "json_object('k', repeat('x', 70000), repeat('k', 300), json_array(1, 2))",
        "json_array(repeat('\\0', 20), '\\\\', '\"', '\u2028', char(127 using utf8mb4))",
        "json_array(cast(repeat('x', 57) as binary), cast(repeat('x', 200) as binary))",
        f"'{'[' * 100}{']' * 100}'",
    ],
    None,
)
CASES["geometry"] = ["st_geomfromtext('point(1 2)')", "st_geomfromtext('point(1 2)', 4326)"], None
CASES["linestring"] = ["st_geomfromtext('linestring(0 0,1 1,2 2)')"], None
CASES["vector(3)"] = ["to_vector('[1,-2.5,3e38]')"], None


def stream(database: Database, *statements: str) -> list[RowEvent]:
    """The row events of these statements."""
    start = position(database)
    for statement in statements:
        database.execute(statement)
    return rows_since(database, start, SERVER_ID)


def lax(database: Database) -> None:
    """Zero dates are allowed, and TIMESTAMP columns print in UTC."""
    database.execute("SET SESSION sql_mode = '', time_zone = '+00:00'")


def same(found: Any, expected: Any) -> bool:
    """Equal in type and value; a float also in its sign, a decimal in its digits."""
    return type(found) is type(expected) and repr(found) == repr(expected)


@pytest.mark.parametrize("kind", CASES)
def test_streamed_values_are_what_select_gives(database: Database, kind: str) -> None:
    """R266, D27, R147: insert, update and delete images equal SELECT in type and value."""
    literals, convert = CASES[kind]
    lax(database)
    database.execute(f"CREATE TABLE t (id INT PRIMARY KEY, v {kind} NULL, w VARCHAR(9))")
    rows = ",".join(f"({place},{text},'end')" for place, text in enumerate([*literals, "NULL"]))
    inserted = stream(database, f"INSERT INTO t VALUES {rows}")
    # PyMySQL knows no VECTOR and would take its bytes for text.
    column = "CAST(v AS BINARY)" if kind.startswith("vector") else "v"
    selected = database.execute(f"SELECT id, {column}, w FROM t ORDER BY id")
    expected = [
        (place, value if convert is None or value is None else convert(value), end)
        for place, value, end in selected
    ]
    images = [image for event in inserted for image in event.images]
    assert len(images) == len(literals) + 1
    assert [pair for pair in zip(images, expected, strict=True) if not same(*pair)] == []
    changed = stream(database, "UPDATE t SET w = 'new'", "DELETE FROM t")
    befores = [image for e in changed if e.op == "update" for image in e.images[::2]]
    deleted = [image[:2] for e in changed if e.op == "delete" for image in e.images]
    assert repr(befores) == repr(images)
    assert repr(deleted) == repr([image[:2] for image in images])


def test_streamed_floats_are_the_shortest_that_read_back(database: Database) -> None:
    """R266: the server's own print of a FLOAT merges different values; its double does not."""
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, v FLOAT)")
    rows = ",".join(f"({place},{text})" for place, text in enumerate(NEAR))
    ((event),) = stream(database, f"INSERT INTO t VALUES {rows}")
    doubles = database.execute("SELECT CAST(v AS DOUBLE) FROM t ORDER BY id")
    for (_, found), (double,) in zip(event.images, doubles, strict=True):
        assert pack("<f", found) == pack("<f", double)
    short = [found for _, found in event.images]
    assert short[:3] == [1.1, -1.1, 0.0]
    assert short[4:] == [16777215.0, 16777216.0, 123456.79, 1e-45, 3.4028235e38]


@pytest.mark.parametrize("count", [7, 8, 9, 63, 64, 65])
def test_null_bitmaps_of_every_alignment_are_the_servers(database: Database, count: int) -> None:
    """R266: nulls at both ends, in the last column alone, everywhere."""
    columns = ",".join(f"c{place} INT" for place in range(count))
    database.execute(f"CREATE TABLE t (id INT PRIMARY KEY,{columns.partition(',')[2]})")
    rows = [
        [row, *(None if (place + row) % step == 0 else place for place in range(1, count))]
        for row, step in enumerate((1, 2, 3, 7, 8, count - 1))
    ]
    rows.append([len(rows), *range(1, count - 1), None])
    values = ",".join(
        f"({','.join('NULL' if value is None else str(value) for value in row)})" for row in rows
    )
    ((event),) = stream(database, f"INSERT INTO t VALUES {values}")
    assert event.images == [tuple(row) for row in rows]


def test_the_key_is_the_one_the_server_names(database: Database) -> None:
    """D5: primary key, else the first NOT NULL unique key of whole columns; never a functional."""
    tables = {
        "pk": ("a INT, b INT, PRIMARY KEY (b, a)", ("b", "a")),
        "prefix": ("a INT, b TEXT NOT NULL, PRIMARY KEY (b(9), a)", ("b", "a")),
        "uniq": ("a INT NOT NULL, b INT NOT NULL, UNIQUE z (b), UNIQUE y (a)", ("b",)),
        "part": ("a VARCHAR(9) NOT NULL, b INT NOT NULL, UNIQUE z (a(3)), UNIQUE y (b)", ("b",)),
        "func": ("a INT NOT NULL, b INT, UNIQUE z ((a + 1))", ()),
        "nullable": ("a INT NULL, b INT, UNIQUE z (a)", ()),
    }
    for name, (columns, _) in tables.items():
        database.execute(f"CREATE TABLE {name} ({columns})")
    events = stream(database, *(f"INSERT INTO {name} VALUES (1, 1)" for name in tables))
    keys = {event.shape.table: event.shape.key_columns for event in events}
    assert keys == {name: key for name, (_, key) in tables.items()}


def test_columns_are_described_as_the_server_describes_them(database: Database) -> None:
    """D5: names, types, lengths, precisions, signs and character sets as information_schema."""
    declared = ",".join(f"`c {place}` {kind}" for place, kind in enumerate(CASES))
    database.execute(f"CREATE TABLE t ({declared}, hidden INT UNSIGNED INVISIBLE)")
    ((event),) = stream(database, "INSERT INTO t (hidden) VALUES (1)")
    described = database.execute(
        "SELECT column_name, data_type, numeric_precision, numeric_scale, datetime_precision,"
        " column_type, character_set_name, character_maximum_length, is_nullable, extra"
        " FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY ordinal_position"
    )
    assert len(described) == len(event.shape.columns)
    for column, row in zip(event.shape.columns, described, strict=True):
        name, kind, precision, scale, fsp, full, charset, length, nullable, extra = row
        assert (column.name, column.type) == (name, kind)
        assert column.unsigned == ("unsigned" in full)
        assert column.nullable == (nullable == "YES")
        assert column.visible == ("INVISIBLE" not in extra)
        assert column.fsp == (fsp if kind != "date" else None)
        if kind == "decimal":
            assert (column.precision, column.scale) == (precision, scale)
        if kind == "bit":
            assert column.length == precision
        if kind in ("char", "varchar", "binary", "varbinary"):
            assert column.length == length
        if column.charset != "binary":
            assert column.charset == charset


def test_an_empty_document_is_the_null_that_select_prints(database: Database) -> None:
    """R266: what INSERT IGNORE puts into a NOT NULL document column has no bytes."""
    lax(database)
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, v JSON NOT NULL)")
    ((event),) = stream(database, "INSERT IGNORE INTO t SELECT 1, NULL")
    assert event.images == list(database.execute("SELECT id, v FROM t")) == [(1, "null")]


DOCUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abé\0\"'", max_size=3), inner)
    ),
    max_leaves=10,
)


ROWS = st.lists(
    st.tuples(
        DOCUMENTS,
        st.floats(allow_nan=False, allow_infinity=False),
        st.decimals(places=3, min_value=-(10**16), max_value=10**16),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
        st.binary(max_size=20),
    ),
    max_size=9,
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=ROWS)
def test_generated_values_are_what_select_gives(database: Database, rows: list[Any]) -> None:
    """R266: documents, doubles, decimals, texts and bytes that nobody thought of."""
    database.execute(
        "CREATE TABLE IF NOT EXISTS g (id INT PRIMARY KEY, j JSON, d DOUBLE, n DECIMAL(20,3),"
        " t VARCHAR(100), b VARBINARY(20))"
    )
    database.execute("DELETE FROM g")
    start = position(database)
    for place, (document, *values) in enumerate(rows):
        database.execute(
            "INSERT INTO g VALUES (%s, %s, %s, %s, %s, %s)", place, json.dumps(document), *values
        )
    selected = database.execute("SELECT * FROM g ORDER BY id")
    inserted = [e for e in rows_since(database, start, SERVER_ID) if e.op == "insert"]
    assert repr([image for event in inserted for image in event.images]) == repr(list(selected))
