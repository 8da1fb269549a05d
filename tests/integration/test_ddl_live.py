"""Every DDL statement of the server's manual that names something, as a sink is told of it.

House rules: a script is played in one session; what it must come to is a list of groups, one for
each transaction that the sink hears of: kind and names, `rows` where stored rows may have changed,
`noop` where the statement may have found its work done. Silence is an outcome as well.
"""

import itertools
from collections.abc import Iterator

import pytest
from helpers.mysql import Database, fresh_database
from helpers.stage import Outcome, Stage

from capstan import ALL, SchemaChange

Script = tuple[list[str], list[str]]

SCRIPTS: dict[str, Script] = {
    "CREATE TABLE": (
        [
            "CREATE TABLE a (id INT PRIMARY KEY)",
            "CREATE TABLE IF NOT EXISTS a (id INT)",
            "CREATE TABLE b LIKE a",
            "CREATE TABLE {two}.b LIKE a",
            "CREATE TABLE c (x INT) SELECT id FROM a",
            "CREATE TABLE d VALUES ROW (1), ROW (2)",
            "CREATE TABLE IF NOT EXISTS d SELECT 1",
            "CREATE TABLE e AS WITH w AS (SELECT 1 AS x) SELECT * FROM w",
            "CREATE TABLE f (id INT) ENGINE = MyISAM",
            "CREATE TABLE g ENGINE = InnoDB COMMENT 'x' CHARSET latin1 SELECT id FROM a",
            "CREATE TABLE h (id INT) PARTITION BY HASH (id) PARTITIONS 2 TABLE a",
        ],
        [
            "create_table a",
            "create_table a noop",
            "create_table b",
            "create_table {two}.b",
            "create_table c",
            "create_table d",
            "create_table e",
            # Another engine than InnoDB leaves no sign that the statement did its work.
            "create_table f noop",
            "create_table g",
            "create_table h",
        ],
    ),
    "DROP TABLE, RENAME TABLE, TRUNCATE TABLE": (
        [
            "CREATE TABLE a (id INT)",
            "CREATE TABLE b (id INT)",
            "CREATE TABLE m (id INT) ENGINE = MyISAM",
            "RENAME TABLE a TO c, b TO a, c TO {two}.c",
            "RENAME TABLES {two}.c TO c",
            "TRUNCATE a",
            "TRUNCATE TABLE c",
            "DROP TABLE a, m, c RESTRICT",
            "DROP TABLES IF EXISTS nosuch, nowhere CASCADE",
        ],
        [
            "create_table a",
            "create_table b",
            "create_table m noop",
            "rename_table a to c & rename_table b to a & rename_table c to {two}.c",
            "rename_table {two}.c to c",
            "truncate_table a rows",
            "truncate_table c rows",
            # The server drops each table without transactions under a GTID of its own.
            "drop_table m rows",
            "drop_table a rows & drop_table c rows",
            "drop_table nosuch rows & drop_table nowhere rows",
        ],
    ),
    "ALTER TABLE": (
        [
            "CREATE TABLE a (id INT NOT NULL, v INT, w VARCHAR(9))",
            "ALTER TABLE a ADD PRIMARY KEY (id)",
            "ALTER TABLE a ADD INDEX i (v), ADD UNIQUE (w), ALGORITHM = INPLACE, LOCK = NONE",
            "CREATE UNIQUE INDEX j ON a (v) COMMENT 'x' ALGORITHM = INPLACE",
            "ALTER TABLE a RENAME INDEX j TO k, ALTER INDEX i INVISIBLE",
            "DROP INDEX i ON a",
            "DROP INDEX `PRIMARY` ON a",
            "ALTER TABLE a DROP COLUMN v, ADD COLUMN v INT DEFAULT 7",
            "ALTER TABLE a MODIFY w VARCHAR(5) FIRST",
            "ALTER TABLE a CONVERT TO CHARACTER SET latin1",
            "ALTER TABLE a ENGINE = InnoDB, COMMENT 'drop column id'",
            "ALTER TABLE a ENGINE = MyISAM",
            "ALTER TABLE a ORDER BY id",
            "ALTER TABLE a RENAME b",
            "ALTER TABLE b RENAME TO {two}.b",
            "ALTER TABLE {two}.b ADD x INT, RENAME AS a",
        ],
        [
            "create_table a",
            "alter_table a rows",
            "alter_table a",
            "alter_table a",
            "alter_table a",
            "alter_table a",
            "alter_table a rows",
            "alter_table a rows",
            "alter_table a rows",
            "alter_table a rows",
            "alter_table a",
            "alter_table a rows",
            "alter_table a rows",
            "rename_table a to b",
            "rename_table b to {two}.b",
            "alter_table {two}.b to a rows",
        ],
    ),
    "partitions": (
        [
            "CREATE TABLE a (id INT) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9))",
            "CREATE TABLE b (id INT)",
            "ALTER TABLE a ADD PARTITION (PARTITION q VALUES LESS THAN (20))",
            "ALTER TABLE a EXCHANGE PARTITION p WITH TABLE b WITHOUT VALIDATION",
            "ALTER TABLE a REORGANIZE PARTITION p INTO (PARTITION r VALUES LESS THAN (9))",
            "ALTER TABLE a REBUILD PARTITION r, q",
            "ALTER TABLE a ANALYZE PARTITION ALL",
            "ALTER TABLE a TRUNCATE PARTITION ALL",
            "ALTER TABLE a DROP PARTITION q",
            "ALTER TABLE a REMOVE PARTITIONING",
            "ALTER TABLE a PARTITION BY HASH (id) PARTITIONS 3",
            "ALTER TABLE a COALESCE PARTITION 1",
            "ALTER TABLE b DISCARD TABLESPACE",
        ],
        [
            "create_table a",
            "create_table b",
            "alter_partition a rows",
            "exchange_partition a to b rows",
            *["alter_partition a rows"] * 8,
            "alter_table b rows",
        ],
    ),
    "views": (
        [
            "CREATE TABLE a (id INT PRIMARY KEY)",
            "CREATE VIEW v AS SELECT * FROM a",
            """CREATE OR REPLACE ALGORITHM = MERGE DEFINER = CURRENT_USER SQL SECURITY INVOKER
               VIEW v (x) AS SELECT id FROM a WITH CHECK OPTION""",
            "ALTER VIEW v AS SELECT 1 AS one",
            "CREATE VIEW {two}.v AS SELECT 1 AS `COMMIT`",
            "CREATE JSON RELATIONAL DUALITY VIEW j AS SELECT JSON_DUALITY_OBJECT('_id': id) FROM a",
            "CREATE MATERIALIZED VIEW m AS SELECT id FROM a",
            "ALTER JSON DUALITY VIEW j AS SELECT JSON_DUALITY_OBJECT('_id': id) FROM a",
            "DROP VIEW IF EXISTS v, j, m, {two}.v, nosuch",
        ],
        [
            "create_table a",
            "create_view v",
            "create_view v",
            "alter_view v",
            "create_view {two}.v",
            "create_view j",
            "create_view m",
            "alter_view j",
            "drop_view v & drop_view j & drop_view m & drop_view {two}.v & drop_view nosuch",
        ],
    ),
    "databases": (
        [
            "CREATE DATABASE {two}_b CHARACTER SET latin1",
            "CREATE SCHEMA IF NOT EXISTS {two}_b",
            "ALTER DATABASE {two}_b COLLATE latin1_bin",
            "ALTER SCHEMA CHARACTER SET utf8mb4",
            "CREATE TABLE {two}_b.a (id INT)",
            "CREATE TABLE {two}_b.m (id INT) ENGINE = MyISAM",
            "DROP DATABASE {two}_b",
            "DROP SCHEMA IF EXISTS {two}_b",
        ],
        [
            "create_database {two}_b",
            "create_database {two}_b noop",
            "alter_database {two}_b",
            "alter_database {one}",
            "create_table {two}_b.a",
            "create_table {two}_b.m noop",
            "drop_table {two}_b.m rows",
            "drop_database {two}_b rows",
            "drop_database {two}_b rows",
        ],
    ),
    "comments": (
        [
            "/* DROP TABLE b */ CREATE /* TABLE b */ TABLE a (id INT) -- BEGIN",
            "-- COMMIT\nALTER TABLE/**/a/* , DROP id */ADD v INT",
            "# XA COMMIT 'a'\n\tALTER\n\tTABLE a\n\tCOMMENT 'BEGIN'",
            "/*!80000 ALTER TABLE a */ /*! ADD */ w INT",
            "ALTER TABLE a COMMENT 'x' /*!990000 , DROP COLUMN w */",
            "/*!50000 CREATE */ /*!50000 VIEW v AS SELECT 1 */",
            "/* a */ TRUNCATE /* b */ a /* c */ ;",
            "/*!40000 DROP TABLE IF EXISTS */ a, /* b, */ c",
        ],
        [
            "create_table a",
            "alter_table a rows",
            "alter_table a",
            "alter_table a rows",
            "alter_table a",
            "create_view v",
            "truncate_table a rows",
            "drop_table a rows & drop_table c rows",
        ],
    ),
    "names": (
        [
            "CREATE TABLE `a.b` (id INT)",
            "CREATE TABLE `sp ace` (id INT)",
            "CREATE TABLE {one}.`back``tick` LIKE `a.b`",
            "CREATE TABLE {one} . `drop``,``x` (id INT)",
            "CREATE TABLE 1a (id INT)",
            "CREATE TABLE `select` (`table` INT) COMMENT 'CREATE TABLE t SELECT 1'",
            "CREATE TABLE straße_日本 (id INT)",
            "ALTER TABLE `a.b` RENAME {two}.`c.d e`",
            "SET sql_mode = 'ANSI_QUOTES'",
            'RENAME TABLE "sp ace" TO "it\'s", "select" TO "com,ma"',
            'DROP TABLE "it\'s", "com,ma", {two}."c.d e"',
        ],
        [
            "create_table a.b",
            "create_table sp ace",
            "create_table back`tick",
            "create_table drop`,`x",
            "create_table 1a",
            "create_table select",
            "create_table straße_日本",
            "rename_table a.b to {two}.c.d e",
            "rename_table sp ace to it's & rename_table select to com,ma",
            "drop_table it's rows & drop_table com,ma rows & drop_table {two}.c.d e rows",
        ],
    ),
    "what names no table": (
        [
            "CREATE TABLE a (id INT)",
            "CREATE PROCEDURE p () BEGIN DROP TABLE a; COMMIT; END",
            "ALTER PROCEDURE p COMMENT 'x'",
            "CREATE FUNCTION f () RETURNS INT NO SQL RETURN 1",
            "ALTER FUNCTION f COMMENT 'x'",
            "CREATE TRIGGER r BEFORE INSERT ON a FOR EACH ROW SET NEW.id = 1",
            "CREATE EVENT e ON SCHEDULE AT '2037-01-01' DO TRUNCATE a",
            "ALTER EVENT e RENAME TO g",
            "DROP EVENT g",
            "DROP TRIGGER r",
            "DROP FUNCTION f",
            "DROP PROCEDURE IF EXISTS p",
            "CREATE LIBRARY l LANGUAGE JAVASCRIPT AS 'export function f () {}'",
            "DROP LIBRARY l",
            "CREATE USER capstan_ddl IDENTIFIED BY 'secret'",
            "ALTER USER capstan_ddl ACCOUNT LOCK",
            "GRANT SELECT ON a TO capstan_ddl",
            "REVOKE ALL ON *.* FROM capstan_ddl",
            "RENAME USER capstan_ddl TO capstan_ddl_2",
            "SET PASSWORD FOR capstan_ddl_2 = 'other'",
            "DROP USER capstan_ddl_2",
            "CREATE ROLE capstan_role",
            "DROP ROLE capstan_role",
            "ANALYZE TABLE a",
            "ANALYZE TABLE a UPDATE HISTOGRAM ON id",
            "OPTIMIZE TABLE a",
            "FLUSH TABLES a",
            "FLUSH PRIVILEGES",
        ],
        ["create_table a"],
    ),
    "what may have changed any table": (
        ["CREATE TABLE m (id INT) ENGINE = MyISAM", "REPAIR TABLE m"],
        ["create_table m noop", "other rows"],
    ),
    "temporary tables": (
        [
            "CREATE TEMPORARY TABLE t (id INT)",
            "ALTER TABLE t ADD v INT",
            "TRUNCATE t",
            "CREATE TABLE a LIKE t",
            "CREATE TABLE b (id INT)",
            "DROP TABLE t, b",
            "CREATE TEMPORARY TABLE t AS SELECT 1 AS id",
            "DROP TEMPORARY TABLE t",
        ],
        ["create_table a", "create_table b", "drop_table b rows"],
    ),
}


@pytest.fixture
def two(database: Database) -> Iterator[Database]:
    """A second database."""
    with fresh_database(database.server) as second:
        yield second


def groups(outcome: Outcome) -> list[str]:
    """What the sink was told of each transaction's schema changes, together."""
    return [
        " & ".join(flagged(outcome, change) for change in changes)
        for _, changes in itertools.groupby(outcome.schema_changes, lambda change: change.gtid)
    ]


def flagged(outcome: Outcome, change: SchemaChange) -> str:
    """Kind and names, and what is known of the rows."""
    words = [outcome.text(change)]
    words += ["rows"] if change.rows_may_change else []
    words += ["noop"] if change.may_be_noop else []
    return " ".join(words)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_ddl_is_told_by_kind_and_names(database: Database, two: Database, name: str) -> None:
    """R5-R8, R18, D20, D28: what is named, whether rows may have changed, at one position."""
    statements, expected = SCRIPTS[name]
    names = {"{one}": database.name, "{two}": two.name}

    def named(text: str) -> str:
        for word, schema in names.items():
            text = text.replace(word, schema)
        return text

    with Stage(database.server, database.name, ALL) as stage:
        outcome = stage.play([named(statement) for statement in statements])

    assert groups(outcome) == list(map(named, expected))
    assert outcome.watermark == outcome.executed
    for change in outcome.schema_changes:
        assert change.captured or change.new_captured
        assert change.gtid in change.position or name == "CREATE TABLE"


# -- swaps ---------------------------------------------------------------------------------------

GHOST = [
    "CREATE TABLE _t_ghc (id INT AUTO_INCREMENT PRIMARY KEY, hint VARCHAR(64))",
    "CREATE TABLE _t_gho LIKE t",
    "ALTER TABLE _t_gho ADD COLUMN n INT NOT NULL DEFAULT 7 FIRST, MODIFY v VARCHAR(30)",
    "INSERT INTO _t_ghc (hint) VALUES ('copying')",
    "INSERT IGNORE INTO _t_gho (id, v) SELECT id, v FROM t FOR SHARE",
    "INSERT INTO t VALUES (3, 'c')",
    "REPLACE INTO _t_gho (id, v) VALUES (3, 'c')",
    "DELETE FROM t WHERE id = 1",
    "DELETE FROM _t_gho WHERE id = 1",
    "RENAME TABLE t TO _t_del, _t_gho TO t",
    "INSERT INTO t VALUES (8, 4, 'longer than nine')",
    "DROP TABLE _t_del, _t_ghc",
]
ONLINE_CHANGE = [
    "CREATE TABLE _t_new LIKE t",
    "ALTER TABLE _t_new ADD COLUMN n INT NOT NULL DEFAULT 7 FIRST, MODIFY v VARCHAR(30)",
    "CREATE TRIGGER osc_del AFTER DELETE ON t FOR EACH ROW DELETE FROM _t_new WHERE id = OLD.id",
    """CREATE TRIGGER osc_ins AFTER INSERT ON t FOR EACH ROW
       REPLACE INTO _t_new (id, v) VALUES (NEW.id, NEW.v)""",
    "INSERT IGNORE INTO _t_new (id, v) SELECT id, v FROM t LOCK IN SHARE MODE",
    "INSERT INTO t VALUES (3, 'c')",
    "DELETE FROM t WHERE id = 1",
    "RENAME TABLE t TO _t_old, _t_new TO t",
    "INSERT INTO t VALUES (8, 4, 'longer than nine')",
    "DROP TABLE IF EXISTS _t_old",
    "DROP TRIGGER IF EXISTS osc_del",
    "DROP TRIGGER IF EXISTS osc_ins",
]


@pytest.mark.parametrize(
    ("statements", "shadow", "old"),
    [(GHOST, "_t_gho", "_t_del"), (ONLINE_CHANGE, "_t_new", "_t_old")],
    ids=["gh-ost", "pt-online-schema-change"],
)
def test_a_swap_keeps_the_tables_changes_and_leaks_no_others(
    database: Database, statements: list[str], shadow: str, old: str
) -> None:
    """R32, D20, D28: copy, triggers and log of a change online are not the captured table's."""
    with Stage(database.server, database.name, [f"{database.name}.t"]) as stage:
        outcome = stage.play(
            statements,
            setup=[
                "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))",
                "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            ],
        )
        late = stage.late(outcome.before, outcome.executed)

    for seen in (outcome, late):
        assert seen.plain == [
            [("insert", "t", (3, "c"), None)],
            [("delete", "t", None, (1, "a"))],
            f"rename_table t to {old}",
            f"rename_table {shadow} to t",
            [("insert", "t", (8, 4, "longer than nine"), None)],
        ]
        assert dict(seen.changes[-1].record or {}) == {"n": 8, "id": 4, "v": "longer than nine"}
        assert len({change.gtid for change in seen.schema_changes}) == 1
        assert seen.watermark == outcome.executed
