"""Tables at the edges of what the server allows, live: labels, names, images, keys."""

import contextlib
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import attrs
import pytest
from helpers.mysql import Database, execute, fresh_database
from helpers.pipelines import catch_up, config_for, running, start_from_now
from helpers.row_stream import RowEvent, position, rows_since
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capstan import Change, HaltReason, MemoryStore, Pipeline, PipelineHalted, Sink, Transaction
from capstan.core.tables import Column
from capstan.demo.mysql_access import SqlServer

SERVER_ID = 734
"""Of these dumps; no other test uses it."""
ODD = ["a.b", "a b", "`", "'", '"', "\\", "%s", "{x}", "日本", "ÉÉ", "$", "@1", "-- x", "/*", "#;"]
"""Names that a careless reader or writer takes for something else."""


def streamed(database: Database, statement: str, *arguments: Any) -> list[RowEvent]:
    """The row events of a statement."""
    start = position(database)
    database.execute(statement, *arguments)
    return rows_since(database, start, SERVER_ID)


def images(database: Database, statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
    """The images of a statement."""
    return [image for event in streamed(database, statement, *arguments) for image in event.images]


def quoted(name: str) -> str:
    """A name in backticks."""
    return f"`{name.replace('`', '``')}`"


@pytest.mark.parametrize("charset", ["utf8mb4", "latin1", "ucs2", "gbk"])
@pytest.mark.parametrize("count", [255, 256, 700])
def test_enums_of_any_size_have_any_labels(database: Database, charset: str, count: int) -> None:
    """R266: numbers of one and of two bytes; quotes, commas, blanks, the empty label, accents."""
    odd = ["", "it''s", "x,y", 'q"', " lead", "é", "\\\\", "%", "NULL", "0", "日" * 3]
    odd = [label for label in odd if charset != "latin1" or label.isascii() or label == "é"]
    labels = [*odd, *(f"m{place}" for place in range(count - len(odd)))]
    members = ",".join(f"'{label}'" for label in labels)
    database.execute(
        f"CREATE TABLE t (id INT PRIMARY KEY, e ENUM({members}) CHARACTER SET {charset})"
    )
    rows = ",".join(f"({place},{place})" for place in range(1, count + 1))
    found = images(database, f"INSERT INTO t VALUES {rows}")

    assert found == database.execute("SELECT * FROM t ORDER BY id")
    assert len({label for _, label in found}) == count


def test_sets_of_64_odd_labels_are_read_member_by_member(database: Database) -> None:
    """R266: every member alone, with its neighbour, all and none."""
    labels = ["", "it''s", " lead", "é", "\\\\", "日", "😀", "0", *(f"m{n}" for n in range(56))]
    members = ",".join(f"'{label}'" for label in labels)
    database.execute(f"CREATE TABLE t (id INT PRIMARY KEY, s SET({members}))")
    numbers = [0, (1 << 64) - 1, *(1 << bit for bit in range(64)), *(3 << bit for bit in range(63))]
    rows = ",".join(f"({place},{number})" for place, number in enumerate(numbers))

    assert images(database, f"INSERT INTO t VALUES {rows}") == (
        database.execute("SELECT * FROM t ORDER BY id")
    )


@pytest.mark.parametrize("length", [63, 64, 127, 128, 191, 192, 254, 255])
def test_chars_of_every_length_in_bytes_are_read_whole(database: Database, length: int) -> None:
    """R266: from 256 bytes on two bits of the length hide in the type, and it takes two bytes."""
    database.execute(
        f"CREATE TABLE t (id INT PRIMARY KEY, c CHAR({length}), l CHAR({length})"
        f" CHARACTER SET latin1, u CHAR({length}) CHARACTER SET utf8mb3, b BINARY({length}))"
    )
    (event,) = streamed(
        database,
        "INSERT INTO t VALUES (1, REPEAT('😀', %s), REPEAT('é', %s), REPEAT('日', %s), 'x'),"
        " (2, '', ' x', 'y ', '')",
        *[length] * 3,
    )

    assert event.images == database.execute("SELECT * FROM t ORDER BY id")
    assert [column.length for column in event.shape.columns] == [None, *[length] * 4]


@pytest.fixture
def oddly_named(mysql_server: SqlServer) -> Iterator[Database]:
    """A database whose name begins like any other's and goes on oddly."""
    with fresh_database(mysql_server) as plain:
        name = f"{plain.name}.`x '\"%日"
        plain.execute(f"CREATE DATABASE {quoted(name)}")
        with contextlib.closing(plain.server.connect(database=name)) as connection:
            try:
                yield attrs.evolve(plain, name=name, connection=connection)
            finally:
                plain.execute(f"DROP DATABASE {quoted(name)}")


def test_schemas_tables_and_columns_have_any_name(oddly_named: Database) -> None:
    """R266: names come as the server has them, up to its 64 characters."""
    names = [*ODD, "x" * 64, "日" * 40]
    columns = ",".join(f"{quoted(column)} INT" for column in names)
    start = position(oddly_named)
    for name in names:
        oddly_named.execute(f"CREATE TABLE {quoted(name)} ({columns})")
        oddly_named.execute(f"INSERT INTO {quoted(name)} ({quoted(name)}) VALUES (1)")
    events = rows_since(oddly_named, start, SERVER_ID)

    assert [(event.shape.schema, event.shape.table) for event in events] == [
        (oddly_named.name, name) for name in names
    ]
    for event in events:
        assert list(event.shape.names) == names
        assert event.images == [
            tuple(1 if name == event.shape.table else None for name in names),
        ]


class Keeping(Sink):
    """Keeps the changes it is given."""

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def handle_transaction(self, transaction: Transaction) -> None:
        """Keep its changes."""
        self.changes.extend(transaction.changes)


@pytest.mark.parametrize("mode", ["MINIMAL", "NOBLOB"])
@pytest.mark.parametrize(
    "change", ["INSERT INTO t (id) VALUES (2)", "UPDATE t SET n = 2", "DELETE"]
)
def test_images_that_lack_columns_halt_naming_their_table(
    database: Database, mode: str, change: str
) -> None:
    """D22, R266: a session decides what it logs; of a captured table nothing is made up."""
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT, b BLOB, d JSON)")
    database.execute("CREATE TABLE other LIKE t")
    database.execute("INSERT INTO t VALUES (1, 1, 'b', '{}')")
    store = start_from_now(MemoryStore(), database.server)
    with database.connect() as session:
        execute(session, f"SET binlog_row_image = {mode}")
        execute(session, "INSERT INTO other (id) VALUES (1)")
        execute(session, "DELETE FROM t" if change == "DELETE" else change)
        session.commit()
    sink = Keeping()
    config = config_for(database.server, sink, [f"{database.name}.t"], store)
    with pytest.raises(PipelineHalted) as caught, Pipeline(config) as pipeline:
        pipeline.wait(60)

    assert caught.value.halt.reason is HaltReason.ROW_IMAGE_NOT_FULL
    assert caught.value.halt.detail.startswith(f"{database.name}.t;")
    assert sink.changes == []


def test_a_change_carries_all_of_its_columns_and_its_key(database: Database) -> None:
    """D5: types, sizes, signs, character sets, visibility, the key with prefix in its order."""
    database.execute(
        "CREATE TABLE t (b TEXT NOT NULL, a INT UNSIGNED, hidden BIT(9) INVISIBLE DEFAULT 3,"
        " g BIGINT AS (a + 1) VIRTUAL, s BIGINT AS (a + 2) STORED INVISIBLE,"
        " v VARCHAR(7) CHARACTER SET latin1 NOT NULL, x VARBINARY(5), d DECIMAL(9,4),"
        " ts TIMESTAMP(3), e ENUM('x') NULL, p POINT, y YEAR, PRIMARY KEY (b(3), a))"
    )
    sink, store = Keeping(), start_from_now(MemoryStore(), database.server)
    with running(config_for(database.server, sink, [f"{database.name}.*"], store)) as pipeline:
        database.execute("INSERT INTO t (a, b, v, y) VALUES (4294967295, 'abcd', 'é', 0)")
        database.execute("UPDATE t SET b = 'xyzw'")
        catch_up(pipeline, database.server)
    inserted, updated = sink.changes

    assert inserted.columns == (
        Column(name="b", type="text", charset="utf8mb4", nullable=False, key_position=0),
        Column(name="a", type="int", unsigned=True, nullable=False, key_position=1),
        Column(name="hidden", type="bit", length=9, visible=False),
        Column(name="g", type="bigint"),
        Column(name="s", type="bigint", visible=False),
        Column(name="v", type="varchar", length=7, charset="latin1", nullable=False),
        Column(name="x", type="varbinary", length=5, charset="binary"),
        Column(name="d", type="decimal", precision=9, scale=4),
        Column(name="ts", type="timestamp", fsp=3),
        Column(name="e", type="enum", charset="utf8mb4"),
        Column(name="p", type="point"),
        Column(name="y", type="year"),
    )
    row = ("abcd", 4294967295, 3, 4294967296, 4294967297, "é", None, None, None, None, None, 0)
    assert inserted.values == row
    assert (inserted.key_columns, inserted.key) == (("b", "a"), ("abcd", 4294967295))
    assert (updated.old_key, updated.key) == (("abcd", 4294967295), ("xyzw", 4294967295))


def test_a_generated_invisible_key_is_the_key(database: Database) -> None:
    """D5: a key that the server made up itself is in the rows, and named."""
    database.execute("SET SESSION sql_generate_invisible_primary_key = ON")
    database.execute("CREATE TABLE t (n INT)")
    (event,) = streamed(database, "INSERT INTO t VALUES (7), (8)")

    assert event.shape.key_columns == ("my_row_id",)
    assert not event.shape.columns[0].visible
    assert event.images == [(1, 7), (2, 8)]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
CLOCKS = st.datetimes(datetime(1971, 1, 1), datetime(2037, 1, 1))
SPANS = st.timedeltas(-timedelta(hours=838), timedelta(hours=838))
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "TINYINT": st.integers(-128, 127),
    "SMALLINT UNSIGNED": st.integers(0, 65535),
    "MEDIUMINT": st.integers(-(1 << 23), (1 << 23) - 1),
    "MEDIUMINT UNSIGNED": st.integers(0, (1 << 24) - 1),
    "INT": st.integers(-(1 << 31), (1 << 31) - 1),
    "BIGINT UNSIGNED": st.integers(0, (1 << 64) - 1),
    "DECIMAL(5,5)": st.decimals(Decimal("-0.99999"), Decimal("0.99999"), places=5),
    "DECIMAL(30,0)": st.integers(-(10**30) + 1, 10**30 - 1),
    "DOUBLE": st.floats(allow_nan=False, allow_infinity=False),
    "YEAR": st.integers(1901, 2155),
    "DATE": st.dates(date(1000, 1, 1)),
    "DATETIME": CLOCKS.map(lambda value: value.replace(microsecond=0)),
    "DATETIME(3)": CLOCKS.map(lambda v: v.replace(microsecond=v.microsecond // 1000 * 1000)),
    "TIMESTAMP(6) NULL": CLOCKS,
    "TIME(6)": SPANS,
    "BIT(1)": st.integers(0, 1),
    "BIT(33)": st.integers(0, (1 << 33) - 1),
    "CHAR(8)": TEXT.map(str.rstrip),
    "VARCHAR(300)": TEXT,
    "TEXT": TEXT,
    "VARCHAR(8) CHARACTER SET utf16": TEXT,
    "BINARY(3)": st.binary(min_size=3, max_size=3),
    "VARBINARY(8)": st.binary(max_size=8),
    "LONGBLOB": st.binary(max_size=8),
    "ENUM('a','b','')": st.sampled_from(["a", "b", ""]),
    "SET('a','b','c','d','e','f','g','h','i')": st.sets(st.sampled_from("abcdefghi")).map(
        lambda members: ",".join(sorted(members))
    ),
    "JSON": st.dictionaries(TEXT, st.integers() | TEXT, max_size=3).map(json.dumps),
}
TABLES = st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=18).flatmap(
    lambda kinds: st.tuples(
        st.just(kinds),
        st.lists(st.tuples(*(st.none() | KINDS[kind] for kind in kinds)), min_size=1, max_size=4),
    )
)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(table=TABLES)
def test_generated_tables_are_what_select_gives(
    database: Database, table: tuple[list[str], list[tuple[Any, ...]]]
) -> None:
    """R266: columns beside each other that nobody put together, with NULLs anywhere."""
    kinds, rows = table
    database.execute("SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES'")
    database.execute("DROP TABLE IF EXISTS g")
    columns = ",".join(f"c{place} {kind}" for place, kind in enumerate(kinds))
    database.execute(f"CREATE TABLE g (id INT PRIMARY KEY,{columns})")
    start = position(database)
    for place, row in enumerate(rows):
        marks = ",".join(["%s"] * (len(row) + 1))
        database.execute(f"INSERT INTO g VALUES ({marks})", place, *row)
    found = [image for event in rows_since(database, start, SERVER_ID) for image in event.images]
    expected = [
        (place, *(modelled(*pair) for pair in zip(row, kinds, strict=True)))
        for place, *row in database.execute("SELECT * FROM g ORDER BY id")
    ]

    assert repr(found) == repr(expected)


def modelled(value: Any, kind: str) -> Any:
    """A selected value in the types of the value model."""
    if kind.startswith("BIT") and value is not None:
        return int.from_bytes(value, "big")
    return value.replace(tzinfo=UTC) if kind.startswith("TIMESTAMP") and value else value
