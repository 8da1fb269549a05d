"""A view reads a table in chunks by its key, from a real server: every row once, in key order."""

import pytest
from helpers.exact_views import ROOMY, before, name_in, page_statements, paged, view_of
from helpers.mysql import Database, execute

from capstan.core.gtid import GtidSet
from capstan.core.tables import TableName


def filled(database: Database, declared: str, *rows: str) -> TableName:
    """Table `t` with these rows."""
    database.execute(f"CREATE TABLE t ({declared})")
    if rows:
        database.execute(f"INSERT INTO t VALUES {','.join(rows)}")
    return name_in(database)


# --- the statements -------------------------------------------------------------------------------


def test_a_capture_is_lock_position_view_touch_unlock_and_then_the_rows(
    database: Database,
) -> None:
    """R70-R73, R76, D1: the order of statements, over both connections, is the argument."""
    table = filled(database, "id INT PRIMARY KEY", "(1)", "(2)", "(3)")
    quoted = f"`{database.name}`.`t`"
    with view_of(database) as view:
        view.pin(table)
        view.release()
        seen = before(view, "none", lambda: None)
        pages = page_statements(view)
        view.pin(table)
        at_rows = len(seen)
        view.rows((1,), 256, ROOMY)

    short = "SET SESSION lock_wait_timeout = 1, wait_timeout = 5"
    assert seen[:at_rows] == [
        f"locker: {short}",
        f"reader: {short}",
        f"locker: LOCK TABLES {quoted} READ",
        "locker: SELECT @@GLOBAL.gtid_executed",
        "reader: START TRANSACTION WITH CONSISTENT SNAPSHOT",
        f"reader: SELECT 1 FROM {quoted} LIMIT 0",
        "locker: UNLOCK TABLES",
        "locker: SET SESSION wait_timeout = 28800",
        f"locker: SHOW CREATE TABLE {quoted}",
    ]
    assert seen[at_rows:] == ["reader: COMMIT", "reader: SET SESSION wait_timeout = 28800"]
    assert len(pages) == 1


def test_nothing_is_written(database: Database) -> None:
    """R82: what a whole backfill runs adds nothing to the binary log."""
    table = filled(database, "id INT PRIMARY KEY", "(1)", "(2)", "(3)")
    ((start,),) = database.execute("SELECT @@GLOBAL.gtid_executed")
    with view_of(database) as view:
        view.findings()
        paged(view, table, 1)
        positions = {str(view.pin(table).position)}
    ((end,),) = database.execute("SELECT @@GLOBAL.gtid_executed")
    assert end == start
    assert positions == {str(GtidSet.parse(start))}


def test_the_connections_stay_the_same_across_chunks(database: Database) -> None:
    """R88: no chunk costs a connect."""
    table = filled(database, "id INT PRIMARY KEY", "(1)", "(2)", "(3)")
    with view_of(database) as view:
        counted = [execute(database.connection, "SHOW GLOBAL STATUS LIKE 'Connections'")]
        paged(view, table, 1)
        counted.append(execute(database.connection, "SHOW GLOBAL STATUS LIKE 'Connections'"))
    assert counted[0] == counted[1]


# --- chunks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 7])
def test_chunks_hold_every_row_once_and_the_last_one_knows(database: Database, size: int) -> None:
    """R74-R80: any number of rows against the chunk size; k full chunks are exactly k."""
    table = filled(database, "id INT PRIMARY KEY")
    with view_of(database) as view:
        rows: list[tuple[int]] = []
        for count in (0, 1, size - 1, size, size + 1, 2 * size, 2 * size + 1):
            for number in range(len(rows), count):
                database.execute("INSERT INTO t VALUES (%s)", number)
                rows.append((number,))
            chunks = paged(view, table, size)
            expected = [rows[at : at + size] for at in range(0, len(rows), size)]
            assert chunks == (expected or [[]])


KEYS: dict[str, tuple[str, list[str]]] = {
    "signed": ("a INT, PRIMARY KEY (a)", ["-2147483648", "-1", "0", "1", "2147483647"]),
    "bigint": (
        "a BIGINT, PRIMARY KEY (a)",
        [str(-(1 << 63)), str(1 - (1 << 63)), "-1", "0", str((1 << 63) - 1)],
    ),
    "unsigned": (
        "a BIGINT UNSIGNED, PRIMARY KEY (a)",
        ["0", str((1 << 63) - 1), str(1 << 63), str((1 << 63) + 1), str((1 << 64) - 1)],
    ),
    "binary": ("a BINARY(3), PRIMARY KEY (a)", ["''", "x'01'", "x'0100ff'", "x'0101'", "x'ff'"]),
    "varbinary": (
        "a VARBINARY(3), PRIMARY KEY (a)",
        ["''", "x'00'", "x'0000'", "x'01'", "x'20'", "x'2020'", "x'ffffff'"],
    ),
    "descending": ("a INT, PRIMARY KEY (a DESC)", ["-3", "1", "2", "9"]),
    "composite": (
        "a INT, b BINARY(4), c BIGINT UNSIGNED, PRIMARY KEY (b, a, c)",
        [
            f"{a}, x'{b}', {c}"
            for b in ("01", "0100ff00", "02")
            for a in (-1, 5, 9)
            for c in (0, 1 << 63)
        ],
    ),
    "mixed": (
        "a INT, b INT, PRIMARY KEY (a, b DESC)",
        [f"{a}, {b}" for a in (1, 2, 3) for b in (-1, 0, 1)],
    ),
    "unique": ("v INT NULL, a INT NOT NULL, UNIQUE (a)", ["NULL, -1", "NULL, 0", "5, 7"]),
    "partitioned": (
        "a INT, PRIMARY KEY (a)) PARTITION BY HASH (a) PARTITIONS 3 COMMENT (''",
        ["-3", "-2", "0", "1", "2", "3", "4"],
    ),
}


@pytest.mark.parametrize("case", KEYS)
def test_keys_of_every_kind_page_in_the_servers_order(database: Database, case: str) -> None:
    """R140-R142, R146-R148, R151: rows come in tuple order, in chunks of every size."""
    declared, rows = KEYS[case]
    declared = declared.replace(" COMMENT (''", "")
    closing = "" if "PARTITION" in declared else ")"
    database.execute(f"CREATE TABLE t ({declared}{closing}")
    for row in reversed(rows):
        database.execute(f"INSERT INTO t VALUES ({row})")
    table = name_in(database)
    with view_of(database) as view:
        shape = view.describe(table).shape
        key = ", ".join(shape.key_columns)
        expected = [
            shape.key_of(row) for row in database.execute(f"SELECT * FROM t ORDER BY {key}")
        ]
        assert expected == sorted(expected)
        assert len(expected) == len(rows)
        for size in (1, 2, len(rows)):
            chunks = paged(view, table, size)
            assert [shape.key_of(row) for chunk in chunks for row in chunk] == expected
            assert {len(chunk) for chunk in chunks[:-1]} <= {size}


def test_a_chunk_is_bounded_in_bytes(database: Database) -> None:
    """R76, R80: few long rows fill a chunk; a row longer than a chunk comes alone."""
    table = filled(database, "id INT PRIMARY KEY, v LONGBLOB")
    sizes = [10, 5000, 10, 3000, 3000, 3000, 10, 9000, 10, 10]
    for place, size in enumerate(sizes):
        database.execute("INSERT INTO t VALUES (%s, REPEAT('x', %s))", place, size)
    with view_of(database) as view:
        chunks = paged(view, table, 4, max_bytes=6000)
    assert [len(row[1]) for chunk in chunks for row in chunk] == sizes
    assert [row[0] for chunk in chunks for row in chunk] == list(range(len(sizes)))
    assert all(len(c) == 1 or sum(len(row[1]) for row in c) <= 6000 for c in chunks)
    assert [[row[0] for row in chunk] for chunk in chunks] == [
        [0, 1, 2],
        [3],
        [4],
        [5, 6],
        [7],
        [8, 9],
    ]


def test_rows_that_grow_long_all_at_once_are_left_unread(database: Database) -> None:
    """R76: what is thrown away stays small; the rows kept are those of the view all the same."""
    table = filled(database, "id INT PRIMARY KEY, v LONGBLOB", *(f"({n}, 'x')" for n in range(500)))
    for place in range(500, 540):
        database.execute("INSERT INTO t VALUES (%s, REPEAT('x', 1000000))", place)
    with view_of(database) as view:
        chunks = paged(view, table, 400, max_bytes=3_000_000)
    assert [row[0] for chunk in chunks for row in chunk] == list(range(540))
    assert [len(chunk) for chunk in chunks[:2]] == [400, 102]
    assert {sum(len(row[1]) for row in chunk) <= 3_000_000 for chunk in chunks} == {True}


def test_rows_longer_than_a_packet_are_read_whole(database: Database) -> None:
    """R80: a row of more than 16 MiB comes in several packets, also exactly at their border."""
    table = filled(database, "id INT PRIMARY KEY, v LONGBLOB, w INT")
    border = 0xFFFFFF - 2 - 4 - 2
    sizes = [border - 1, border, border + 1, 1, 17 << 20, 33_554_430]
    for place, size in enumerate(sizes):
        database.execute("INSERT INTO t VALUES (%s, REPEAT('x', %s), 7)", place, size)
    with view_of(database) as view:
        chunks = paged(view, table, 3)
    found = [(row[0], len(row[1]), row[2]) for chunk in chunks for row in chunk]
    assert found == [(place, size, 7) for place, size in enumerate(sizes)]


def test_many_short_rows_are_asked_for_at_once(database: Database) -> None:
    """R76: from the second chunk on one SELECT fetches chunk_size + 1 rows."""
    table = filled(database, "id INT PRIMARY KEY", *(f"({n})" for n in range(3000)))
    with view_of(database) as view:
        pages = page_statements(view)
        chunks = paged(view, table, 1000)
    assert [len(chunk) for chunk in chunks] == [1000, 1000, 1000]
    assert [text.rpartition(" ")[2] for text in pages[-2:]] == ["1001", "1001"]
    assert len(pages) == 4


def reads(database: Database) -> int:
    """How many index entries the view's connections have read."""
    ((count,),) = database.execute(
        "SELECT SUM(variable_value) FROM performance_schema.status_by_thread"
        " JOIN performance_schema.threads USING (thread_id)"
        " JOIN performance_schema.session_connect_attrs USING (processlist_id)"
        " WHERE variable_name LIKE 'Handler_read%%' AND attr_name = 'program_name'"
        " AND attr_value = 'capstan'"
    )
    return int(count)


@pytest.mark.parametrize(
    ("key", "select"),
    [
        ("a", "n, 0, 0"),
        ("a, b", "n DIV 100, n MOD 100, 0"),
        ("a, b, c", "n DIV 400, n DIV 20 MOD 20, n MOD 20"),
        ("c, a, b", "n DIV 20 MOD 20, n MOD 20, n DIV 400"),
    ],
)
def test_a_chunk_costs_the_same_wherever_it_lies(database: Database, key: str, select: str) -> None:
    """R74: composite keys too page in constant reads; the row comparison reads from the start."""
    database.execute("SET SESSION cte_max_recursion_depth = 100000")
    database.execute(
        f"CREATE TABLE t (a INT, b INT, c INT, v INT, KEY (v), KEY (b), PRIMARY KEY ({key}))"
    )
    database.execute(
        "INSERT INTO t WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s"
        f" WHERE n < 11999) SELECT {select}, 1 FROM s"
    )
    table = name_in(database)
    with view_of(database) as view:
        costs = []
        after = None
        more = True
        while more:
            pinned = view.pin(table)
            start = reads(database)
            chunk = view.rows(after, 100, ROOMY)
            costs.append(reads(database) - start)
            after, more = pinned.facts.shape.key_of(chunk.rows[-1]), chunk.more
    assert len(costs) == 120
    assert max(costs) <= 110
