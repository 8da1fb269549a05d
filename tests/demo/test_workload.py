"""The workload: repeatable, fully counted, and of all the kinds that a mirror must bear."""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator

import pymysql
import pytest
from helpers.mysql import execute, gtid_executed

from capstan.core.gtid import GtidSet
from capstan.demo.mysql_access import SqlServer
from capstan.demo.workload import Workload
from capstan.demo.workload_session import Tally
from capstan.demo.workload_tables import Schemas

_NUMBERS = itertools.count(1)


@pytest.fixture
def new_schemas(mysql_server: SqlServer) -> Iterator[Callable[[], Schemas]]:
    """Names of databases that do not exist, and no longer exist after the test."""
    made: list[Schemas] = []

    def make() -> Schemas:
        mark = f"{os.getpid()}_{next(_NUMBERS)}"
        made.append(Schemas(shop=f"capstan_shop_{mark}", outside=f"capstan_out_{mark}"))
        return made[-1]

    yield make
    with contextlib.closing(mysql_server.connect()) as connection:
        for schemas in made:
            for statement in schemas.removal():
                execute(connection, statement)


def content(server: SqlServer, schema: str) -> dict[str, int]:
    """A checksum of every table of a schema."""
    with contextlib.closing(server.connect(database=schema)) as connection:
        tables = [name for (name,) in execute(connection, "SHOW TABLES")]
        return {
            table: execute(connection, f"CHECKSUM TABLE `{table}` EXTENDED")[0][1]
            for table in tables
        }


def test_a_seed_repeats_what_a_writer_does(
    mysql_server: SqlServer, new_schemas: Callable[[], Schemas]
) -> None:
    """Equal seeds leave equal tables behind, another seed leaves other ones."""
    contents = []
    for seed in (7, 7, 8):
        schemas = new_schemas()
        workload = Workload(mysql_server, seed=seed, writers=1, schemas=schemas)
        workload.prepare()
        workload.start(actions=120)
        workload.join()
        contents.append(content(mysql_server, schemas.shop))
    assert contents[0] == contents[1]
    assert contents[0]["orders"] != contents[2]["orders"]


def test_every_transaction_is_counted_and_the_journal_has_its_line(
    mysql_server: SqlServer, new_schemas: Callable[[], Schemas]
) -> None:
    """The tally equals what the server counts; no two lines of the keyless journal are equal."""
    schemas = new_schemas()
    workload = Workload(mysql_server, seed=3, writers=3, schemas=schemas)
    with contextlib.closing(mysql_server.connect()) as connection:
        before = GtidSet.parse(gtid_executed(connection))
        workload.prepare()
        workload.start(actions=150)
        workload.join()
        executed = GtidSet.parse(gtid_executed(connection)) - before
        tally = workload.tally
        assert executed.count() == tally.committed
        assert tally.rolled_back > 0
        assert tally.definitions > 0
        ((lines, distinct),) = execute(
            connection,
            f"SELECT COUNT(*), COUNT(DISTINCT writer, number) FROM {schemas.shop}.journal",
        )
        assert lines == distinct == tally.journalled


def test_the_workload_is_of_all_kinds(
    mysql_server: SqlServer, new_schemas: Callable[[], Schemas]
) -> None:
    """The binary log shows each kind of statement, and tables with each kind of value fill up."""
    schemas = new_schemas()
    workload = Workload(mysql_server, seed=5, writers=1, schemas=schemas)
    with contextlib.closing(mysql_server.connect()) as connection:
        file, start, *_ = execute(connection, "SHOW BINARY LOGS")[-1]
        workload.prepare()
        workload.start(actions=400)
        workload.join()
        events = execute(connection, f"SHOW BINLOG EVENTS IN '{file}' FROM {start}")
        kinds = {kind for _, _, kind, *_ in events}
        texts = "\n".join(text for *_, text in events)
        assert kinds >= {"Write_rows", "Update_rows", "Delete_rows", "Xid"}
        for what in (
            "SAVEPOINT `before_the_second`",
            "RENAME TABLE board TO board_old",
            "TRUNCATE TABLE",
            "ADD INDEX",
            "ADD COLUMN",
            "LIKE",
            "DROP TABLE",
            "START TRANSACTION",
            "COMMIT\n",
            f"{schemas.outside}.audit",
            f"{schemas.shop}.stock",
        ):
            assert what in texts, what
        for table in ("customers", "orders", "order_lines", "journal", "board", "bag_0"):
            ((rows,),) = execute(connection, f"SELECT COUNT(*) FROM {schemas.shop}.{table}")
            assert rows > 0, table
        ((large, negative, null),) = execute(
            connection,
            f"SELECT MAX(id) >= 1 << 63, MIN(total) < 0, MAX(details IS NULL)"
            f" FROM {schemas.shop}.orders",
        )
        assert (large, negative, null) == (1, 1, 1)


def test_stopping_lets_each_writer_finish_its_action(
    mysql_server: SqlServer, new_schemas: Callable[[], Schemas]
) -> None:
    """After stop() nothing is open: no transaction is left behind."""
    schemas = new_schemas()
    workload = Workload(mysql_server, seed=1, writers=2, schemas=schemas, rate=200.0)
    workload.prepare()
    workload.start()
    workload.stop()
    with contextlib.closing(mysql_server.connect()) as connection:
        assert execute(
            connection,
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = %s",
            schemas.shop,
        ) == [(0,)]


def test_what_ends_a_writer_is_told(
    mysql_server: SqlServer, new_schemas: Callable[[], Schemas]
) -> None:
    """A writer whose tables are gone ends the workload with the server's error."""
    schemas = new_schemas()
    workload = Workload(mysql_server, seed=1, writers=2, schemas=schemas)
    workload.prepare()
    with contextlib.closing(mysql_server.connect()) as connection:
        execute(connection, f"DROP TABLE {schemas.shop}.journal")
    workload.start()
    with pytest.raises(pymysql.err.ProgrammingError) as raised:
        workload.join()
    assert raised.value.args[0] == 1146


def test_tallies_add_up() -> None:
    """Each count is added to its own kind."""
    total = Tally(journalled=1, unjournalled=2, definitions=3, rolled_back=4) + Tally(journalled=10)
    assert total == Tally(journalled=11, unjournalled=2, definitions=3, rolled_back=4)
    assert total.committed == 16
