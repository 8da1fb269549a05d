"""The main job on a real server: what is committed arrives, whole, in order, once."""

import threading

import pytest
from helpers.mysql import Database, PrivateServers, execute
from helpers.pipelines import (
    Recording,
    catch_up,
    config_for,
    executed,
    halt_of,
    start_from_now,
)
from helpers.waiting import wait_until

from capstan import ALL, Delivery, HaltReason, MemoryStore, Pipeline, PipelineHalted

XA = [
    "XA START 'a'",
    "INSERT INTO items VALUES (1, 'x')",
    "XA END 'a'",
    "XA PREPARE 'a'",
]


@pytest.fixture
def items(database: Database) -> Database:
    """A database with one table."""
    database.execute("CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(50))")
    return database


def streamed(database: Database, *statements: str, tables: list[str] | None = None) -> Recording:
    """What a pipeline started now delivers of these statements."""
    sink = Recording()
    store = start_from_now(MemoryStore(), database.server)
    config = config_for(database.server, sink, tables or [f"{database.name}.*"], store)
    with Pipeline(config) as pipeline:
        for statement in statements:
            database.execute(statement)
        catch_up(pipeline, database.server)
    return sink


def test_a_transaction_arrives_whole(items: Database) -> None:
    """R1, R10: all changes of one transaction in one call, in order."""
    sink = streamed(
        items,
        "BEGIN",
        "INSERT INTO items VALUES (1, 'a'), (2, NULL)",
        "UPDATE items SET id = 3 WHERE id = 1",
        "DELETE FROM items WHERE id = 2",
        "COMMIT",
    )

    ((_, changes),) = sink.transactions
    assert changes == [
        ("insert", "items", (1, "a"), None),
        ("insert", "items", (2, None), None),
        ("update", "items", (3, "a"), (1, "a")),
        ("delete", "items", None, (2, None)),
    ]


def test_rolled_back_work_never_arrives(items: Database) -> None:
    """R10: without a terminator nothing leaves."""
    sink = streamed(
        items,
        "BEGIN",
        "INSERT INTO items VALUES (1, 'a')",
        "ROLLBACK",
        "INSERT INTO items VALUES (2, 'b')",
    )

    assert sink.values == [(2, "b")]


def test_savepoints_inside_a_transaction_change_nothing(items: Database) -> None:
    """D19: what was rolled back to a savepoint is absent, the rest arrives whole."""
    sink = streamed(
        items,
        "BEGIN",
        "INSERT INTO items VALUES (1, 'a')",
        "SAVEPOINT `COMMIT`",
        "INSERT INTO items VALUES (2, 'b')",
        "ROLLBACK TO `COMMIT`",
        "SAVEPOINT s2",
        "INSERT INTO items VALUES (3, 'c')",
        "RELEASE SAVEPOINT s2",
        "COMMIT",
    )

    assert len(sink.transactions) == 1
    assert sink.values == [(1, "a"), (3, "c")]


def test_a_myisam_change_arrives(database: Database) -> None:
    """R2, R16: QUERY COMMIT is the terminator of a non-transactional engine."""
    sink = streamed(
        database,
        "CREATE TABLE m (id INT PRIMARY KEY) ENGINE = MyISAM",
        "INSERT INTO m VALUES (1), (2)",
    )

    assert sink.values == [(1,), (2,)]


def test_filtered_work_moves_the_position(items: Database) -> None:
    """R32, R36, R37: a quiet capture list never stalls; the position stays one interval."""
    sink = Recording()
    store = start_from_now(MemoryStore(), items.server)
    items.execute("CREATE TABLE secret (id INT PRIMARY KEY)")
    with Pipeline(config_for(items.server, sink, [f"{items.name}.items"], store)) as pipeline:
        for number in range(40):
            items.execute(f"INSERT INTO secret VALUES ({number})")
        catch_up(pipeline, items.server)
        assert pipeline.watermark == executed(items.server)

    assert sink.transactions == []
    assert sink.schema_changes == []


def test_ddl_arrives_as_structure_only(database: Database) -> None:
    """R5, R6, R7, D20, D28: kind, names, position; a swap by rename in one group."""
    sink = streamed(
        database,
        "CREATE TABLE a (id INT PRIMARY KEY)",
        "CREATE TABLE b LIKE a",
        "RENAME TABLE a TO c, b TO a, c TO b",
        "ALTER TABLE a ADD INDEX (id), ADD COLUMN x INT",
        "TRUNCATE TABLE b",
        "DROP TABLE a, b",
    )

    assert [(c.kind, c.table, c.new_table) for c in sink.schema_changes] == [
        ("create_table", "a", None),
        ("create_table", "b", None),
        ("rename_table", "a", "c"),
        ("rename_table", "b", "a"),
        ("rename_table", "c", "b"),
        ("alter_table", "a", None),
        ("truncate_table", "b", None),
        ("drop_table", "a", None),
        ("drop_table", "b", None),
    ]


def test_a_create_that_found_its_table_is_told_apart(database: Database) -> None:
    """D28: CREATE … IF NOT EXISTS is logged also when it did nothing; that must empty no mirror."""
    sink = streamed(
        database,
        "CREATE TABLE IF NOT EXISTS a (id INT PRIMARY KEY)",
        "CREATE TABLE IF NOT EXISTS a (id INT PRIMARY KEY)",
        "CREATE TABLE b AS SELECT * FROM a",
        "CREATE TABLE c LIKE a",
    )

    told = [(c.table, c.may_be_noop) for c in sink.schema_changes]
    assert told == [("a", False), ("a", True), ("b", False), ("c", False)]


def test_create_table_select_arrives_under_one_gtid(items: Database) -> None:
    """D20: a DDL inside an open block, then its rows, all under one GTID."""
    sink = streamed(
        items, "INSERT INTO items VALUES (1, 'a')", "CREATE TABLE copy AS SELECT * FROM items"
    )

    assert sink.values == [(1, "a"), (1, "a")]
    assert [str(c.gtid) for c in sink.schema_changes] == [sink.gtids[1]]


def test_a_tagged_transaction_arrives_and_is_resumed_behind(items: Database) -> None:
    """D22: tagged GTIDs are streamed, kept and asked for again exactly."""
    store = start_from_now(MemoryStore(), items.server)
    first = Recording()
    with Pipeline(config_for(items.server, first, [f"{items.name}.*"], store)) as pipeline:
        items.execute("SET gtid_next = 'automatic:blue'")
        items.execute("INSERT INTO items VALUES (1, 'a')")
        items.execute("SET gtid_next = 'automatic'")
        catch_up(pipeline, items.server)
    second = Recording()
    with Pipeline(config_for(items.server, second, [f"{items.name}.*"], store)) as pipeline:
        items.execute("INSERT INTO items VALUES (2, 'b')")
        catch_up(pipeline, items.server)

    assert ":blue:" in first.gtids[0]
    assert (first.values, second.values) == ([(1, "a")], [(2, "b")])


def test_compressed_transactions_arrive_like_any_other(items: Database) -> None:
    """D22: a session can compress its transactions; mixed with others, large ones too."""
    sink = streamed(
        items,
        "INSERT INTO items VALUES (1, 'a')",
        "SET binlog_transaction_compression = ON",
        "INSERT INTO items VALUES (2, 'b')",
        "INSERT INTO items SELECT 1000 + n, REPEAT('x', 50) FROM "
        "(WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 900) "
        "SELECT n FROM r) AS numbers",
        "SET binlog_transaction_compression = OFF",
        "INSERT INTO items VALUES (3, 'c')",
    )

    assert [len(changes) for _, changes in sink.transactions] == [1, 1, 900, 1]
    assert sink.values[:2] == [(1, "a"), (2, "b")]
    assert sorted(sink.values[2:-1]) == [(1000 + n, "x" * 50) for n in range(1, 901)]
    assert sink.values[-1] == (3, "c")


def test_an_xa_transaction_inside_a_compressed_one_is_refused(items: Database) -> None:
    """R23, D22: compression hides nothing."""
    store = start_from_now(MemoryStore(), items.server)
    before = store.load_watermark()
    for statement in ["SET binlog_transaction_compression = ON", *XA, "XA ROLLBACK 'a'"]:
        items.execute(statement)

    sink = Recording()
    config = config_for(items.server, sink, [f"{items.name}.*"], store)
    assert halt_of(config) is HaltReason.UNSUPPORTED_TRANSACTION_SHAPE
    assert (sink.transactions, store.load_watermark()) == ([], before)


@pytest.mark.parametrize("resolve", ["XA COMMIT 'a'", "XA ROLLBACK 'a'"])
def test_xa_is_refused_with_nothing_delivered(items: Database, resolve: str) -> None:
    """R23, R25, R29, R30: zero rows, position held, and the same halt after a restart."""
    sink = Recording()
    store = start_from_now(MemoryStore(), items.server)
    config = config_for(items.server, sink, [f"{items.name}.*"], store)
    items.execute("INSERT INTO items VALUES (9, 'before')")
    before = executed(items.server)
    for statement in [*XA, resolve]:
        items.execute(statement)

    assert halt_of(config) is HaltReason.UNSUPPORTED_TRANSACTION_SHAPE
    assert store.load_watermark() == before
    assert halt_of(config) is HaltReason.UNSUPPORTED_TRANSACTION_SHAPE
    assert sink.values == [(9, "before")]
    assert sink.schema_changes == []


def test_a_change_in_statement_format_is_refused(items: Database) -> None:
    """D21: any privileged session can log without row images; that is never passed over."""
    store = start_from_now(MemoryStore(), items.server)
    with items.connect() as session:
        execute(session, "SET binlog_format = STATEMENT")
        execute(session, "INSERT INTO items VALUES (1, 'a')")
        session.commit()

    config = config_for(items.server, Recording(), [f"{items.name}.*"], store)
    assert halt_of(config) is HaltReason.STATEMENT_BASED_CHANGE


def test_a_row_image_without_all_columns_is_refused(items: Database) -> None:
    """D22: a session can log less than everything; of a captured table that is a halt."""
    store = start_from_now(MemoryStore(), items.server)
    items.execute("INSERT INTO items VALUES (1, 'a')")
    with items.connect() as session:
        execute(session, "SET binlog_row_image = MINIMAL")
        execute(session, "UPDATE items SET name = 'b'")
        session.commit()

    config = config_for(items.server, Recording(), [f"{items.name}.*"], store)
    assert halt_of(config) is HaltReason.ROW_IMAGE_NOT_FULL


def test_everything_leaves_the_servers_own_schemas_out(items: Database) -> None:
    """D16: ALL is every table outside mysql, sys, information_schema, performance_schema."""
    sink = Recording()
    store = start_from_now(MemoryStore(), items.server)
    with Pipeline(config_for(items.server, sink, ALL, store)) as pipeline:
        items.execute("INSERT INTO items VALUES (1, 'a')")
        items.execute("CREATE USER capstan_all_test")
        items.execute("DROP USER capstan_all_test")
        catch_up(pipeline, items.server)

    assert sink.values == [(1, "a")]


def test_a_refusing_sink_halts_behind_what_it_accepted(items: Database) -> None:
    """R40, R41, D15: items before the refused one are persisted, the refused one comes again."""
    store = start_from_now(MemoryStore(), items.server)
    for number in range(1, 6):
        items.execute(f"INSERT INTO items VALUES ({number}, 'x')")

    class Refusing(Recording):
        def handle_transaction(self, transaction: object) -> None:
            if len(self.transactions) == 3:
                raise ValueError("sentinel-value")
            super().handle_transaction(transaction)  # type: ignore[arg-type]

    refusing = Refusing()
    config = config_for(items.server, refusing, [f"{items.name}.*"], store)
    with pytest.raises(PipelineHalted) as caught, Pipeline(config) as pipeline:
        pipeline.wait(30)

    assert caught.value.halt.reason is HaltReason.SINK_FAILED
    assert caught.value.halt.detail == "ValueError"
    after = Recording()
    with Pipeline(config_for(items.server, after, [f"{items.name}.*"], store)) as pipeline:
        catch_up(pipeline, items.server)
    assert [v[0] for v in refusing.values + after.values] == [1, 2, 3, 4, 5]


def test_a_hanging_sink_halts_in_bounded_time(items: Database) -> None:
    """A call that never returns ends in `sink_stalled`; nothing of it is persisted."""
    store = start_from_now(MemoryStore(), items.server)
    before = store.load_watermark()
    release = threading.Event()

    class Hanging(Recording):
        def handle_transaction(self, transaction: object) -> None:
            release.wait(60)

    config = config_for(
        items.server, Hanging(), [f"{items.name}.*"], store, Delivery(sink_timeout=0.5)
    )
    pipeline = Pipeline(config)
    pipeline.start()
    items.execute("INSERT INTO items VALUES (1, 'x')")
    try:
        with pytest.raises(PipelineHalted) as caught:
            pipeline.wait(30)
        assert caught.value.halt.reason is HaltReason.SINK_STALLED
        assert store.load_watermark() == before
        tree = {child["id"]: child for child in pipeline.status().tree}
        assert tree["coordinator"]["would_not_stop"]
    finally:
        release.set()
    wait_until(lambda: "coordinator" not in thread_names(), what="the hung call to come back")
    assert store.load_watermark() == before


def thread_names() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def test_stop_inside_the_sink_only_asks_for_the_stop(items: Database) -> None:
    """A sink may end its own pipeline without waiting for itself."""
    store = start_from_now(MemoryStore(), items.server)

    class Stopping(Recording):
        def handle_transaction(self, transaction: object) -> None:
            super().handle_transaction(transaction)  # type: ignore[arg-type]
            pipeline.stop()

    sink = Stopping()
    pipeline = Pipeline(config_for(items.server, sink, [f"{items.name}.*"], store))
    pipeline.start()
    items.execute("INSERT INTO items VALUES (1, 'x')")

    assert pipeline.wait(30)
    assert pipeline.status().state == "stopped"
    assert store.load_watermark() == executed(items.server)


def test_two_pipelines_live_beside_each_other(items: Database) -> None:
    """A pipeline never touches another's actors: one halts, the other goes on."""
    good, bad = Recording(), Recording()
    bad.handle_transaction = lambda _: 1 / 0  # type: ignore[method-assign, assignment]
    tables = [f"{items.name}.*"]
    first = Pipeline(
        config_for(items.server, good, tables, start_from_now(MemoryStore(), items.server))
    )
    second = Pipeline(
        config_for(items.server, bad, tables, start_from_now(MemoryStore(), items.server))
    )
    first.start()
    second.start()
    items.execute("INSERT INTO items VALUES (1, 'x')")

    with pytest.raises(PipelineHalted):
        second.wait(30)
    items.execute("INSERT INTO items VALUES (2, 'y')")
    catch_up(first, items.server)
    first.stop()

    assert good.values == [(1, "x"), (2, "y")]


def test_checksums_switched_while_streaming_change_nothing(new_server: PrivateServers) -> None:
    """D23: the algorithm is the file's own, off and on again."""
    server = new_server()
    sink = Recording()
    with server.connect() as connection:
        execute(connection, "CREATE DATABASE shop")
        execute(connection, "CREATE TABLE shop.items (id INT PRIMARY KEY)")
        with Pipeline(config_for(server, sink, ["shop.*"])) as pipeline:
            for number, value in enumerate(["NONE", "CRC32", "NONE", "CRC32"]):
                execute(connection, f"INSERT INTO shop.items VALUES ({number})")
                execute(connection, f"SET GLOBAL binlog_checksum = {value}")
                execute(connection, f"INSERT INTO shop.items VALUES ({number + 100})")
            catch_up(pipeline, server)
            assert pipeline.status().counters["connects"] == 1

    assert sorted(v[0] for v in sink.values) == [0, 1, 2, 3, 100, 101, 102, 103]
