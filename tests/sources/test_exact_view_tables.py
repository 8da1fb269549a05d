"""What may be backfilled, what the account needs, and sessions that depend on nothing."""

import contextlib
import itertools
import random
from collections.abc import Iterator

import pytest
from helpers.exact_views import ROOMY, before, name_in, opened, paged, view_for, view_of
from helpers.mysql import Database, PrivateServers, execute
from helpers.row_stream import position, rows_since

from capstan.core.binlog.charsets import decoder_for
from capstan.core.halts import Halt, Halted, HaltReason
from capstan.core.tables import TableName

SERVER_ID = 733
"""Of these dumps; no pipeline of another test uses it."""
ACCOUNTS = itertools.count(1)

NO_KEY = HaltReason.SNAPSHOT_TABLE_NO_PRIMARY_KEY
WRONG_KEY = HaltReason.SNAPSHOT_PK_UNSUPPORTED_TYPE
ENGINE = HaltReason.SNAPSHOT_ENGINE_UNSUPPORTED
RIGHTS = HaltReason.SNAPSHOT_PRIVILEGE_MISSING


@contextlib.contextmanager
def refused(reason: HaltReason, detail: str) -> Iterator[None]:
    """The block must end in this halt."""
    with pytest.raises(Halted) as caught:
        yield
    assert (caught.value.halt.reason, caught.value.halt.detail) == (reason, detail)


# --- kinds and keys -------------------------------------------------------------------------------

REFUSALS: dict[str, tuple[str, HaltReason, str]] = {
    "none": ("TABLE t (a INT, b INT)", NO_KEY, ""),
    "nullable": ("TABLE t (a INT, UNIQUE (a))", NO_KEY, ""),
    "functional": ("TABLE t (a INT NOT NULL, UNIQUE ((a + 1)))", NO_KEY, ""),
    "part": ("TABLE t (a VARBINARY(9) NOT NULL, UNIQUE (a(3)))", NO_KEY, ""),
    "prefix": (
        "TABLE t (a VARBINARY(20), PRIMARY KEY (a(5)))",
        WRONG_KEY,
        ": the key holds only a prefix of a",
    ),
    "varchar": ("TABLE t (a VARCHAR(9) PRIMARY KEY)", WRONG_KEY, ": a is varchar"),
    "char": ("TABLE t (a CHAR(9) PRIMARY KEY)", WRONG_KEY, ": a is char"),
    "decimal": ("TABLE t (a DECIMAL(9,2) PRIMARY KEY)", WRONG_KEY, ": a is decimal"),
    "date": ("TABLE t (a DATE PRIMARY KEY)", WRONG_KEY, ": a is date"),
    "enum": ("TABLE t (a ENUM('x') PRIMARY KEY)", WRONG_KEY, ": a is enum"),
    "bit": ("TABLE t (a BIT(9) PRIMARY KEY)", WRONG_KEY, ": a is bit"),
    "double": ("TABLE t (a DOUBLE PRIMARY KEY)", WRONG_KEY, ": a is double"),
    "composite": (
        "TABLE t (a INT, b VARCHAR(9), PRIMARY KEY (a, b))",
        WRONG_KEY,
        ": b is varchar",
    ),
    "no second choice": (
        "TABLE t (a INT NOT NULL UNIQUE, b CHAR(9) PRIMARY KEY)",
        WRONG_KEY,
        ": b is char",
    ),
    "myisam": ("TABLE t (a INT PRIMARY KEY) ENGINE = MyISAM", ENGINE, ": MyISAM"),
    "memory": ("TABLE t (a INT PRIMARY KEY) ENGINE = MEMORY", ENGINE, ": MEMORY"),
    "view": ("VIEW t AS SELECT 1 AS a", ENGINE, ": a view"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_tables_that_cannot_be_backfilled_are_refused(database: Database, case: str) -> None:
    """D4, D5, R143-R145, R149-R150: each with its own reason, by every way in."""
    created, reason, what = REFUSALS[case]
    database.execute(f"CREATE {created}")
    table = name_in(database)
    detail = f"{table}{what}"
    with opened(view_for(database.server, [str(table)])) as view:
        assert view.tables() == (table,)
        with refused(reason, detail):
            view.describe(table)
        with refused(reason, detail):
            view.pin(table)
        assert view.findings() == (Halt(reason, detail),)
        database.execute("SET SESSION lock_wait_timeout = 2")
        database.execute(f"DROP {created.partition(' ')[0]} t")


def test_unsupported_columns_are_refused_like_in_the_stream(database: Database) -> None:
    """D27: a character set without an exact table has no values in chunks either."""
    database.execute("CREATE TABLE t (a INT PRIMARY KEY, v VARCHAR(9))")
    table = name_in(database)
    sets = [row[0] for row in database.execute("SHOW CHARACTER SET")]
    with view_of(database) as view:
        unsupported = {}
        for charset in sets:
            if charset == "binary":
                continue
            database.execute(f"ALTER TABLE t MODIFY v VARCHAR(9) CHARACTER SET {charset}")
            try:
                view.describe(table)
            except Halted as verdict:
                unsupported[charset] = verdict.halt
    assert unsupported == {
        charset: Halt(
            HaltReason.UNSUPPORTED_COLUMN_TYPE, f"{table}.v: varchar in character set {charset}"
        )
        for charset in sets
        if charset != "binary" and decoder_for(charset) is None
    }


def test_a_table_that_is_gone_is_a_drift(database: Database) -> None:
    """D9, R87: not retried for ever."""
    database.execute("CREATE TABLE t (a INT PRIMARY KEY)")
    table = name_in(database)
    with view_of(database) as view:
        view.pin(table)
        view.release()
        database.execute("DROP TABLE t")
        for ask in (view.describe, view.pin):
            with refused(HaltReason.SNAPSHOT_SCHEMA_DRIFTED, f"{table}: there is no such table"):
                ask(table)
        assert view.estimate(table) == 0


def test_the_key_is_the_one_of_the_table_map(database: Database) -> None:
    """D5: whatever unique keys there are, in whatever order, before and after ALTERs."""
    chance = random.Random(5)
    indexes = [
        "UNIQUE {} (a)",
        "UNIQUE {} (b)",
        "UNIQUE {} (n)",
        "UNIQUE {} (b, a)",
        "UNIQUE {} (s(3))",
        "UNIQUE {} ((a + 1))",
        "UNIQUE {} (g)",
        "UNIQUE {} (w)",
        "UNIQUE {} (b DESC)",
        "KEY {} (a)",
    ]
    with view_of(database) as view:
        keys = set()
        for number in range(30):
            name = f"t{number}"
            chosen = chance.sample(indexes, chance.randint(1, 5))
            named = [
                text.format(f"k{chance.randint(1, 99)}_{at}") for at, text in enumerate(chosen)
            ]
            database.execute(
                f"CREATE TABLE {name} (a INT NOT NULL, b INT NOT NULL, n INT NULL,"
                " s VARBINARY(9) NOT NULL, g INT AS (a * 2) STORED NOT NULL,"
                f" w INT AS (a * 3) VIRTUAL NOT NULL, {named[0]})"
            )
            for index in named[1:]:
                database.execute(f"ALTER TABLE {name} ADD {index}")
            start = position(database)
            database.execute(f"INSERT INTO {name} (a, b, n, s) VALUES (1, 1, 1, 'abc')")
            ((event),) = rows_since(database, start, SERVER_ID)
            if not event.shape.key:
                with refused(NO_KEY, f"{database.name}.{name}"):
                    view.describe(name_in(database, name))
                continue
            described = view.describe(name_in(database, name)).shape
            assert described.columns == event.shape.columns, named
            assert described.key == event.shape.key, named
            keys.add(described.key_columns)
    assert keys == {("a",), ("b",), ("b", "a"), ("g",)}


def test_hidden_keys_are_seen(database: Database) -> None:
    """D5: a key that the server generated is the key, shown to other sessions or not."""
    database.execute("SET SESSION sql_generate_invisible_primary_key = ON")
    database.execute("CREATE TABLE t (a INT)")
    database.execute("INSERT INTO t VALUES (7), (8)")
    with view_of(database) as view:
        assert view.describe(name_in(database)).shape.key_columns == ("my_row_id",)
        assert paged(view, name_in(database), 1) == [[(1, 7)], [(2, 8)]]


def test_the_shape_is_that_of_the_view(database: Database) -> None:
    """D9: after an ALTER the next capture has the new shape, and equal shapes are one object."""
    database.execute("CREATE TABLE t (a INT PRIMARY KEY AUTO_INCREMENT, b INT)")
    table = name_in(database)
    with view_of(database) as view:
        first = view.pin(table).facts.shape
        database.execute("INSERT INTO t VALUES (NULL, 5)")
        assert view.pin(table).facts.shape is first
        view.release()
        database.execute(
            "ALTER TABLE t ADD c INT DEFAULT 9, ADD KEY (a), DROP PRIMARY KEY,"
            " ADD PRIMARY KEY (b, a)"
        )
        pinned = view.pin(table).facts
        assert pinned.shape.names == ("a", "b", "c")
        assert pinned.shape.key_columns == ("b", "a")
        assert pinned.name == table
        assert view.rows((5, 0), 9, ROOMY).rows == [(1, 5, 9)]


def test_odd_names_are_names(database: Database) -> None:
    """D5: quotes, blanks, percent signs, braces and other scripts in names are nothing special."""
    odd = ["select", "a b", "it's", 'q"q', "b`t", "back\\slash", "100%s", "日本語", "{x}", "{0}"]
    declared = ", ".join(f"`{name.replace('`', '``')}` INT" for name in odd)
    database.connection.query(
        f"CREATE TABLE `o'd``d %s.{{}}` ({declared}, PRIMARY KEY (`b``t`, `{{x}}`))"
    )
    database.connection.query("INSERT INTO `o'd``d %s.{}` VALUES (1,2,3,4,5,6,7,8,9,10)")
    table = TableName(database.name, "o'd`d %s.{}")
    with view_of(database) as view:
        assert view.tables() == (table,)
        assert view.findings() == ()
        assert view.describe(table).shape.names == tuple(odd)
        assert paged(view, table, 1) == [[tuple(range(1, 11))]]
        assert view.pin(table).facts.shape.key_columns == ("b`t", "{x}")
        assert view.rows((5, 8), 1, ROOMY).rows == [tuple(range(1, 11))]


# --- patterns -------------------------------------------------------------------------------------


def test_patterns_name_base_tables(database: Database) -> None:
    """D11: wildcards pass views over, an exact name does not; what is not there is not named."""
    database.execute("CREATE TABLE a1 (id INT PRIMARY KEY)")
    database.execute("CREATE TABLE a2 (id INT PRIMARY KEY) ENGINE = MyISAM")
    database.execute("CREATE TABLE b1 (id INT PRIMARY KEY)")
    database.execute("CREATE VIEW av AS SELECT 1")
    schema = database.name
    for patterns, names in (
        ([f"{schema}.a*"], ["a1", "a2"]),
        ([f"{schema}.av", f"{schema}.b?"], ["av", "b1"]),
        ([f"{schema}.none", f"{schema}.b1"], ["b1"]),
        ([f"{schema}.A1"], []),
    ):
        with opened(view_for(database.server, patterns)) as view:
            assert [table.table for table in view.tables()] == names


def test_estimates_come_from_the_engine(database: Database) -> None:
    """R171: a guess for progress, not cached by the session."""
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    with view_of(database) as view:
        assert view.estimate(name_in(database)) == 0
        database.execute("INSERT INTO t VALUES (1), (2), (3)")
        database.execute("ANALYZE TABLE t")
        assert view.estimate(name_in(database)) == 3


# --- rights ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def account(database: Database) -> Iterator[str]:
    """A new account without rights."""
    name = f"snap{next(ACCOUNTS)}_{database.name}"[:32]
    database.execute(f"CREATE USER '{name}'@'%%' IDENTIFIED BY 'secret'" % ())
    try:
        yield name
    finally:
        database.execute(f"DROP USER '{name}'@'%%'" % ())


def test_missing_rights_are_named_with_the_statement_that_gives_them(database: Database) -> None:
    """D4, R152: SELECT and LOCK TABLES on the schema are proven, and suffice."""
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    database.execute("CREATE TABLE s (id INT PRIMARY KEY)")
    database.execute("INSERT INTO t VALUES (1, 2)")
    table = name_in(database)
    schema = database.name.replace("_", r"\_")
    with account(database) as user:
        grant = f"GRANT SELECT, LOCK TABLES ON `{schema}`.* TO '{user}'@'%'"
        missing = Halt(RIGHTS, f"{database.name}; run: {grant}")
        rights = [
            None,
            f"GRANT SELECT (id) ON {database.name}.t TO {user}",
            f"GRANT SELECT ON `{schema}`.* TO {user}",
        ]
        login = {"user": user, "password": "secret"}
        for right in rights:
            if right is not None:
                database.execute(right)
            both = [str(table), f"{database.name}.s"]
            with opened(view_for(database.server, both, source=login)) as view:
                assert view.findings() == (missing,)
                with refused(missing.reason, missing.detail):
                    view.pin(table)
        database.connection.query(grant)
        with opened(view_for(database.server, both, source=login)) as view:
            assert view.findings() == ()
            assert len(view.tables()) == 2
            assert paged(view, table, 9) == [[(1, 2)]]


def test_a_named_table_that_may_not_be_read_is_not_passed_over(database: Database) -> None:
    """D4: the dictionary hides it from the account; trying shows why."""
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    with account(database) as user:
        login = {"user": user, "password": "secret"}
        view = view_for(database.server, [f"{database.name}.t"], source=login)
        with opened(view), pytest.raises(Halted) as caught:
            view.tables()
    assert caught.value.halt.reason is RIGHTS


def test_an_entry_that_names_nothing_is_a_finding(database: Database) -> None:
    """D11, R166: nothing is narrowed in silence."""
    invalid = HaltReason.CONFIG_INVALID
    missing = f"snapshot.tables: {database.name}.t names no table that the account can see"
    with opened(view_for(database.server, [f"{database.name}.t"])) as view:
        assert view.findings() == (Halt(invalid, missing),)
    with opened(view_for(database.server, [f"{database.name}.*"])) as view:
        assert view.findings() == (Halt(invalid, "snapshot.tables: names no table"),)


def test_a_busy_table_is_no_finding(database: Database) -> None:
    """R152: the rights are looked at before the lock is waited for."""
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    with contextlib.closing(database.connect()) as writer, view_of(database) as view:
        execute(writer, "BEGIN")
        execute(writer, "INSERT INTO t VALUES (1)")
        assert view.findings() == ()


# --- settings -------------------------------------------------------------------------------------


def test_nothing_is_inherited_from_the_servers_settings(new_server: PrivateServers) -> None:
    """D27, R70: isolation, zone, mode, character set, limits and timeouts are the view's own."""
    server = new_server(
        options={
            "transaction_isolation": "READ-COMMITTED",
            "default_time_zone": "+09:00",
            "sql_mode": "PAD_CHAR_TO_FULL_LENGTH,ANSI_QUOTES,NO_BACKSLASH_ESCAPES",
            "character_set_server": "latin1",
            "completion_type": "CHAIN",
            "max_execution_time": 1,
            "lock_wait_timeout": 1000,
            "show_gipk_in_create_table_and_information_schema": "OFF",
            "sql_generate_invisible_primary_key": "ON",
            "init_connect": "SET SESSION sql_select_limit = 1, max_join_size = 1",
        }
    )
    with contextlib.closing(server.connect()) as connection:
        for statement in (
            "CREATE DATABASE shop",
            "CREATE TABLE shop.t (c CHAR(5) CHARACTER SET utf8mb4, ts TIMESTAMP, d DATE)",
            "CREATE USER reader IDENTIFIED BY 'secret'",
            "GRANT SELECT, LOCK TABLES ON shop.* TO reader",
            "SET SESSION time_zone = '+00:00', sql_mode = '', character_set_client = utf8mb4",
        ):
            execute(connection, statement)
        row = "x'f09f9880', '2024-01-01 00:00:00', '2024-00-00'"
        execute(connection, f"INSERT INTO shop.t VALUES ({row}), ({row}), ({row})")
        login = {"user": "reader", "password": "secret"}
        with opened(view_for(server, ["shop.t"], source=login)) as view:
            table = TableName("shop", "t")
            assert view.describe(table).shape.key_columns == ("my_row_id",)
            pinned = view.pin(table)
            before(view, "none", lambda: None)
            execute(connection, "DELETE FROM shop.t WHERE my_row_id = 2")
            rows = view.rows(None, 9, ROOMY).rows
            assert [(key, text, day) for key, text, _, day in rows] == [
                (key, "😀", "2024-00-00") for key in (1, 2, 3)
            ]
            assert {stamp.isoformat() for _, _, stamp, _ in rows} == {"2024-01-01T00:00:00+00:00"}
            assert not view.pin(table).position <= pinned.position
            assert [row[0] for row in view.rows(None, 9, ROOMY).rows] == [1, 3]
