"""Situations in which other tools lost, doubled or mixed up rows, played on a real server.

Each case of `tests/data/cases/snapshot` is played here or by the test that `ELSEWHERE` names.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from helpers.backfill_acts import acting
from helpers.backfills import Upserting, backfilling
from helpers.mysql import Database
from helpers.pipelines import catch_up

from capstan import HaltReason, MemoryStore, Pipeline, PipelineHalted

DEADLINE = 60.0
TESTS = Path(__file__).parents[1]
FOLDER = TESTS / "data" / "cases" / "snapshot"
LARGEST = 2**63 - 1

ELSEWHERE = {
    "142": "sources/test_exact_view.py::test_a_chunk_costs_the_same_wherever_it_lies",
    "147": "core/snapshot/test_snapshot_cases.py::test_case_147_a_delete_in_three_places",
    "150": "integration/test_backfill_ddl.py::test_a_table_changed_between_two_chunks_drifts",
    "151": "integration/test_backfill_ddl.py::test_a_table_changed_in_its_partitions_drifts",
    "152": "integration/test_exactness_ddl.py::test_without_the_touch_a_swap_shows_the_other_table",
    "154": "integration/test_backfill_servers.py::test_an_address_that_moves_in_the_middle_is_seen",
    "155": "integration/test_snapshot_values.py::test_chunk_values_are_the_streams",
    "156": "sources/test_exact_view_tables.py::test_nothing_is_inherited_from_the_servers_settings",
    "158": "sources/test_exact_view_faults.py"
    "::test_a_lock_that_is_not_to_be_had_is_missed_within_its_bound",
    "159": "sources/test_exact_view_faults.py::test_connections_that_died_idle_are_replaced",
    "160": "integration/test_exactness.py::test_captures_under_writers_are_exact",
    "164": "integration/test_exactness.py::test_other_orders_run_ahead",
}
"""Number of a case → the test that plays it."""


def test_every_case_is_played() -> None:
    """Each file is named by a test, here or where it says."""
    numbers = {path.name[:3] for path in FOLDER.glob("*.json")}
    here = set(re.findall(r"def test_case_(\d+)_", Path(__file__).read_text(encoding="utf-8")))
    assert here | set(ELSEWHERE) == numbers
    for place in ELSEWHERE.values():
        file, _, test = place.partition("::")
        assert f"def {test}(" in (TESTS / file).read_text(encoding="utf-8"), place


def backfilled(database: Database, *acts: str, before_pin: int = 2, **snapshot: Any) -> Upserting:
    """Backfill the whole database, with these statements run in front of one capture."""
    sink = Upserting()
    config = backfilling(database, sink, MemoryStore(), **snapshot)

    def act() -> None:
        for statement in acts:
            database.execute(statement)
        database.connection.commit()

    with Pipeline(config, views=acting(config, act, before_pin)) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)
        catch_up(pipeline, database.server)
    return sink


def streamed(sink: Upserting) -> list[list[tuple[str, Any, Any]]]:
    """Of each transaction that reached the sink: kind, old row, new row."""
    return [[(op, old, new) for op, _, new, old in changes] for _, changes in sink.transactions]


def refused(database: Database) -> dict[str, str]:
    """Why the backfill of this database is refused: table → reason. No chunk comes."""
    sink = Upserting()
    config = backfilling(database, sink, MemoryStore())
    with pytest.raises(PipelineHalted) as caught, Pipeline(config) as pipeline:
        pipeline.wait(DEADLINE)
    halt = caught.value.halt
    assert sink.chunks == []
    told = [(one.reason.value, one.detail.partition(":")[0]) for one in (halt, *halt.also)]
    return {name.partition(".")[2]: reason for reason, name in told}


# --- keys -----------------------------------------------------------------------------------------

WRONG_KEY, NO_KEY = (
    HaltReason.SNAPSHOT_PK_UNSUPPORTED_TYPE,
    HaltReason.SNAPSHOT_TABLE_NO_PRIMARY_KEY,
)


def test_case_140_keys_of_text_are_never_compared(database: Database) -> None:
    """R143, R166: whatever the collation, there is no chunk."""
    for name in ("utf8mb4_0900_ai_ci", "utf8mb4_general_ci", "utf8mb4_bin", "ascii_bin"):
        database.execute(f"CREATE TABLE {name} (k VARCHAR(20) COLLATE {name} PRIMARY KEY)")
        database.execute(f"INSERT INTO {name} VALUES ('_'), ('10'), ('9'), ('aB2'), ('Z')")
    assert set(refused(database).values()) == {WRONG_KEY}


TYPES = (
    *("DECIMAL(9, 2)", "FLOAT", "DOUBLE", "DATE", "DATETIME(6)", "TIMESTAMP", "TIME", "YEAR"),
    *("ENUM('b', 'a')", "SET('b', 'a')", "BIT(9)", "CHAR(36)", "VARCHAR(9)"),
)
ALLOWED = ("TINYINT", "BOOL", "SMALLINT", "MEDIUMINT", "BIGINT", "BINARY(16)", "VARBINARY(9)")


def test_case_163_keys_of_other_types_are_refused_at_the_start(database: Database) -> None:
    """R140-R144, R164: all of them at once, by their own reason; integers and bytes are taken."""
    for place, kind in enumerate((*TYPES, *ALLOWED)):
        database.execute(f"CREATE TABLE t{place} (k {kind} PRIMARY KEY)")
    database.execute("CREATE TABLE prefix (k TEXT, PRIMARY KEY (k(9)))")
    names = [f"t{place}" for place in range(len(TYPES))]
    assert refused(database) == dict.fromkeys([*names, "prefix"], WRONG_KEY)


def test_case_149_only_the_servers_own_key_will_do(database: Database) -> None:
    """R149-R151, D5: NULLs, prefixes, functions are no key; a unique one without them is."""
    bad = {
        "n1": "a INT, b INT",
        "n2": "a INT, UNIQUE (a)",
        "n4": "a VARBINARY(20) NOT NULL, UNIQUE (a(5))",
        "n6": "a INT, UNIQUE ((a + 1))",
    }
    good = {
        "n3": "a INT NOT NULL, b INT NOT NULL, UNIQUE (a, b)",
        "n5": "a INT NOT NULL, b INT, PRIMARY KEY (a DESC)",
    }
    for name, columns in (bad | good).items():
        database.execute(f"CREATE TABLE {name} ({columns})")
        second = ", 0" if "b INT" in columns else ""
        values = ", ".join(f"({n}{second})" for n in (2, 3, 1))
        database.execute(f"INSERT INTO {name} VALUES {values}")
    database.execute("SET SESSION sql_generate_invisible_primary_key = ON")
    database.execute("CREATE TABLE hidden (a INT)")
    database.execute("INSERT INTO hidden VALUES (7), (8), (9)")
    assert refused(database) == dict.fromkeys(bad, NO_KEY)

    for name in bad:
        database.execute(f"DROP TABLE {name}")
    sink = backfilled(database, chunk_size=2)
    assert [(m.table, m.sequence) for m in sink.chunks] == [
        (table, number) for table in ("hidden", "n3", "n5") for number in (0, 1)
    ]
    assert set(sink.came) == {(1,), (2,), (3,), (1, 0), (2, 0), (3, 0)}


def test_case_141_unsigned_keys_on_both_sides_of_the_largest_signed(database: Database) -> None:
    """R147: in order, in chunks and in the stream, and through the store."""
    keys = (0, LARGEST, LARGEST + 1, 2**64 - 1)
    database.execute("CREATE TABLE ub (k BIGINT UNSIGNED PRIMARY KEY, v INT)")
    database.execute(f"INSERT INTO ub VALUES {', '.join(f'({key}, 0)' for key in keys)}")
    updates = [f"UPDATE ub SET v = 1 WHERE k = {key}" for key in keys]
    sink = backfilled(database, *updates, before_pin=3, chunk_size=1)

    assert [m.sequence for m in sink.chunks] == [0, 1, 2, 3]
    assert list(sink.came) == [(key,) for key in keys]
    assert streamed(sink) == [[("update", (key, 0), (key, 1))] for key in keys[:2]]
    assert sink.content == {(key,): (key, 1) for key in keys}


@pytest.mark.parametrize("chunk_size", [1, 2, 5])
def test_case_145_the_first_page_has_no_lower_bound(database: Database, chunk_size: int) -> None:
    """R75, R78, R146: the smallest key comes first, the last chunk knows that it is."""
    keys = [-(2**31), -1, 0, 1, 2**31 - 1]
    database.execute("CREATE TABLE ng (k INT PRIMARY KEY)")
    database.execute(f"INSERT INTO ng VALUES {', '.join(f'({key})' for key in keys)}")
    sink = backfilled(database, chunk_size=chunk_size)

    assert list(sink.came) == [(key,) for key in keys]
    chunks = -(-len(keys) // chunk_size)
    assert [m.final for m in sink.chunks] == [*[False] * (chunks - 1), True]


def test_case_144_padded_and_cut_bytes_are_one_key(database: Database) -> None:
    """R148: the stream's key is behind the cursor like the chunk's; nothing comes twice."""
    database.execute("CREATE TABLE bb (a BINARY(4), b INT, PRIMARY KEY (a, b))")
    database.execute("INSERT INTO bb VALUES (x'01', 5), (x'01', 9), (x'0100ff', 1)")
    sink = backfilled(database, "UPDATE bb SET b = 10 WHERE b = 9", chunk_size=1)

    assert streamed(sink) == []
    assert sink.came == {(b"\1\0\0\0", 5): 1, (b"\1\0\0\0", 10): 1, (b"\1\0\xff\0", 1): 1}
    assert set(sink.content) == set(sink.came)


# --- chunks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3])
def test_case_153_any_count_of_rows_gives_as_few_chunks_as_it_can(
    database: Database, size: int
) -> None:
    """R76, R77, R78, R79, R80: no empty one behind a full one, one empty one for no rows."""
    counts = (0, 1, size - 1, size, size + 1, 2 * size)
    for place, count in enumerate(counts):
        database.execute(f"CREATE TABLE t{place} (id INT PRIMARY KEY)")
        if count:
            values = ", ".join(f"({1000 * place + n})" for n in range(count))
            database.execute(f"INSERT INTO t{place} VALUES {values}")
    sink = backfilled(database, chunk_size=size)

    for place, count in enumerate(counts):
        finals = [meta.final for meta in sink.chunks if meta.table == f"t{place}"]
        assert finals == [*[False] * (max(1, -(-count // size)) - 1), True]
    assert len(sink.came) == sum(counts)
    assert set(sink.came.values()) == {1}


# --- writers at the cursor ------------------------------------------------------------------------


def tens(database: Database) -> None:
    """Rows 10, 20, … 100; five of them are a chunk, so that the cursor comes to 50."""
    database.execute("CREATE TABLE mv (id INT PRIMARY KEY, v INT)")
    values = ", ".join(f"({10 * n}, 0)" for n in range(1, 11))
    database.execute(f"INSERT INTO mv VALUES {values}")


def test_case_146_rows_that_move_over_the_cursor(database: Database) -> None:
    """R98, R99, R100, R101, R102, R103, D10: each half by its own key; none lost, none left."""
    tens(database)
    sink = backfilled(
        database,
        "UPDATE mv SET id = 95 WHERE id = 10",
        "UPDATE mv SET id = 25 WHERE id = 80",
        "UPDATE mv SET id = 31 WHERE id = 30",
        "UPDATE mv SET id = 61 WHERE id = 60",
        "BEGIN",
        "UPDATE mv SET id = 1000 WHERE id = 40",
        "UPDATE mv SET id = 40, v = 1 WHERE id = 70",
        "UPDATE mv SET id = 70 WHERE id = 1000",
        "COMMIT",
        chunk_size=5,
    )

    assert streamed(sink) == [
        [("delete", (10, 0), None)],
        [("insert", None, (25, 0))],
        [("delete", (30, 0), None), ("insert", None, (31, 0))],
        [("delete", (40, 0), None), ("insert", None, (40, 1))],
    ]
    assert sorted(sink.content.values()) == database.execute("SELECT * FROM mv ORDER BY id")


def test_case_162_writes_behind_at_and_ahead_of_the_cursor(database: Database) -> None:
    """R90-R92, R120: behind and at it at once, the rest with its chunk; the last value stays."""
    tens(database)
    sink = backfilled(
        database,
        "INSERT INTO mv VALUES (5, 1)",
        "UPDATE mv SET v = 1 WHERE id = 50",
        "INSERT INTO mv VALUES (55, 1)",
        *[f"UPDATE mv SET v = {n} WHERE id = 60" for n in range(1, 11)],
        "INSERT INTO mv VALUES (999, 1)",
        chunk_size=5,
    )

    assert streamed(sink) == [[("insert", None, (5, 1))], [("update", (50, 0), (50, 1))]]
    assert set(sink.came.values()) == {1}
    assert sink.content[(60,)] == (60, 10)
    assert sorted(sink.content.values()) == database.execute("SELECT * FROM mv ORDER BY id")
