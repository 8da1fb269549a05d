"""The classifier against what a real server logs: run the statement, read its QUERY events back."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from struct import unpack_from
from typing import Any

import attrs
import pytest
from helpers.mysql import PrivateServers
from helpers.named_objects import ANY_TABLE, OTHER, kept, named, renamed
from pymysql.connections import Connection

from capstan.core.binlog.log_events import read_query
from capstan.core.binlog.statements import NamedObject, Statement, StatementKind, classify_query
from capstan.demo.mysql_install import MysqlPrograms
from capstan.demo.mysql_server import MysqlServer

_QUERY, _HEADER, _CHECKSUM = 2, 19, 4
_FRAME = {StatementKind.BEGIN, StatementKind.COMMIT}

Step = str | bytes | tuple[str | bytes, Any]


def queries(log: Path, position: int) -> tuple[list[Statement], int]:
    """The statements logged since a position, blocks' frames aside, and the new position."""
    data = log.read_bytes()
    found = []
    while position < len(data):
        code, size = data[position + 4], unpack_from("<I", data, position + 9)[0]
        if code == _QUERY:
            query = read_query(data, position + _HEADER, position + size - _CHECKSUM)
            found.append(classify_query(query))
        position += size
    return [statement for statement in found if statement.kind not in _FRAME], position


@attrs.define
class LoggedSession:
    """A session on a server of its own; `run` gives what a statement left in the binlog."""

    server: MysqlServer
    connection: "Connection[Any]"
    position: int = 4

    def run(self, sql: str | bytes) -> list[Statement]:
        """Execute and classify what was logged."""
        self.connection.query(sql)
        log = max(self.server.data.glob("binlog.[0-9]*"))
        found, self.position = queries(log, self.position)
        return found


@pytest.fixture(scope="module")
def server(mysql_programs: MysqlPrograms) -> Iterator[MysqlServer]:
    """One private server: its binlog is read as a file."""
    with contextlib.closing(PrivateServers(mysql_programs)) as servers:
        yield servers(options={"sync_binlog": 0, "innodb_flush_log_at_trx_commit": 0})


@pytest.fixture
def session(server: MysqlServer) -> Iterator[LoggedSession]:
    """A fresh session in a fresh database `db`."""
    with contextlib.closing(server.connect()) as connection:
        for sql in ("drop database if exists db", "create database db", "use db", "flush logs"):
            connection.query(sql)
        yield LoggedSession(server, connection)


def ddl(*objects: NamedObject) -> list[Statement]:
    return [Statement(StatementKind.DDL, objects)]


def filled(name: str) -> list[Statement]:
    return [Statement(StatementKind.CREATE_SELECT, (kept("create_table", name),))]


CHANGE = [Statement(StatementKind.DML)]
NAMELESS = [Statement(StatementKind.OTHER, (OTHER,))]
UNKNOWN = [Statement(StatementKind.OTHER, (ANY_TABLE,))]
NOTHING: list[Statement] = []

SCRIPTS: dict[str, list[Step]] = {
    "tables": [
        ("create table i (a int primary key, b int)", ddl(kept("create_table", "i"))),
        ("create table if not exists i (b int)", ddl(kept("create_table", "i"))),
        ("create table lk like i", ddl(kept("create_table", "lk"))),
        ("create table ct as select * from i", filled("ct")),
        ("create table cu (x int) select a from i", filled("cu")),
        ("create table if not exists ct as select 1 as z", NOTHING),
        ("rename table i to j, lk to i", ddl(renamed("i", "j"), renamed("lk", "i"))),
        ("truncate i", ddl(named("truncate_table", "i"))),
        (
            "drop table j, `db`.ct /* x */;",
            ddl(named("drop_table", "j"), named("drop_table", "ct")),
        ),
        ("drop tables if exists cu, n", ddl(named("drop_table", "cu"), named("drop_table", "n"))),
        ("create table `we.ird ``x` (a int)", ddl(kept("create_table", "we.ird `x"))),
        ("drop table `we.ird ``x`", ddl(named("drop_table", "we.ird `x"))),
        ("create table 1a (a int)", ddl(kept("create_table", "1a"))),
        ("alter table db.1a add 2b int", ddl(named("alter_table", "1a"))),
        ("create table `commit` (id int)", ddl(kept("create_table", "commit"))),
        ("alter table `commit` add begin_at int", ddl(named("alter_table", "commit"))),
        ("create table xa (a int) comment 'XA START ''1'''", ddl(kept("create_table", "xa"))),
        ("drop table xa", ddl(named("drop_table", "xa"))),
    ],
    "alter": [
        "create table t (a int primary key, b int)",
        ("alter table t", ddl(kept("alter_table"))),
        ("alter table t engine=innodb comment 'c' auto_increment=7", ddl(kept("alter_table"))),
        ("alter table t add index z (b), lock=none, algorithm inplace", ddl(kept("alter_table"))),
        ("alter table t rename index z to y", ddl(kept("alter_table"))),
        ("alter table t alter index y invisible", ddl(kept("alter_table"))),
        ("alter table t alter b set default 5, drop index y", ddl(kept("alter_table"))),
        ("alter table t add constraint c check (a > 0)", ddl(kept("alter_table"))),
        ("alter table t drop constraint `primary`", ddl(named("alter_table"))),
        ("alter table t add constraint primary key (a)", ddl(named("alter_table"))),
        ("alter table t drop b, add column b int default 7", ddl(named("alter_table"))),
        ("create unique index ix using btree on t (b)", ddl(kept("alter_table"))),
        ("drop index ix on t", ddl(kept("alter_table"))),
        ("alter table t rename = u", ddl(renamed("t", "u"))),
        ("alter table u rename as t, lock=default", ddl(renamed("u", "t"))),
        (
            "alter table t rename column b to c, rename to u",
            ddl(named("alter_table", new_schema="db", new_table="u")),
        ),
    ],
    "partitions": [
        """create table p (a int primary key) partition by range (a)
           (partition p0 values less than (10), partition p1 values less than maxvalue)""",
        "create table q (a int primary key)",
        (
            "alter table p exchange partition p0 with table q",
            ddl(named("exchange_partition", "p", new_schema="db", new_table="q")),
        ),
        ("alter table p truncate partition p0, p1", ddl(named("alter_partition", "p"))),
        ("alter table p drop partition p0", ddl(named("alter_partition", "p"))),
        ("alter table p add index z (a) remove partitioning", ddl(named("alter_table", "p"))),
        ("alter table p algorithm=copy partition by hash (a)", ddl(named("alter_partition", "p"))),
        ("alter table p remove partitioning", ddl(named("alter_partition", "p"))),
    ],
    "views": [
        ("create view v as select 1", ddl(kept("create_view", "v"))),
        ("create or replace view db.v as select 2", ddl(kept("create_view", "v"))),
        ("create view if not exists v as select 3", ddl(kept("create_view", "v"))),
        ("create definer=current_user() view w as select 1", ddl(kept("create_view", "w"))),
        ("alter view v as select 4", ddl(kept("alter_view", "v"))),
        ("drop view if exists v, w", ddl(kept("drop_view", "v"), kept("drop_view", "w"))),
    ],
    "databases": [
        ("create database if not exists db2", ddl(kept("create_database", None, "db2"))),
        ("alter database db2 charset latin1", ddl(kept("alter_database", None, "db2"))),
        ("alter database default encryption 'N'", ddl(kept("alter_database", None))),
        ("alter database read only = 0", ddl(kept("alter_database", None))),
        ("create table db2.t (a int)", ddl(kept("create_table", "t", "db2"))),
        "use db2",
        ("create table db.t (a int)", ddl(kept("create_table"))),
        ("alter table db.t add b int", ddl(named("alter_table"))),
        ("create table t2 (a int)", ddl(kept("create_table", "t2", "db2"))),
        ("rename table t2 to db.t2", ddl(renamed("t2", "t2", "db2"))),
        ("drop schema db2", ddl(named("drop_database", None, "db2"))),
        ("drop table db.t2", ddl(named("drop_table", "t2"))),
    ],
    "comments": [
        "create table t (a int)",
        ("/* ticket 1 */ alter table t add b int", ddl(named("alter_table"))),
        ("-- hello\nalter table t add c int", ddl(named("alter_table"))),
        ("# note\nalter\ttable\n  t\tadd d int ;", ddl(named("alter_table"))),
        ("/*!80000 alter table t add e int */", ddl(named("alter_table"))),
        ("/*! alter */ /*! table */ t add f int", ddl(named("alter_table"))),
        ("/* BEGIN */ truncate table t /* COMMIT */", ddl(named("truncate_table"))),
        ("ALTER/**/TABLE/**/t/**/ADD/**/g/**/int", ddl(named("alter_table"))),
        ("alter /*!80000 /* in */ table */ t comment 'x'", ddl(kept("alter_table"))),
        ("/*!99999 drop table t; */ alter table t comment 'y'", ddl(kept("alter_table"))),
        ("alter table t /*!990000 drop g, */ comment 'z'", ddl(kept("alter_table"))),
    ],
    "nameless": [
        "create table t (a int)",
        ("create procedure p() BEGIN start transaction; COMMIT; END", NAMELESS),
        ("create function f() returns int no sql BEGIN return 1; END", NAMELESS),
        ("create trigger g before insert on t for each row BEGIN set new.a=1; END", NAMELESS),
        (
            "create event e on schedule at '2037-1-1' do BEGIN truncate t; COMMIT; END",
            NAMELESS,
        ),
        ("alter event e rename to e2", NAMELESS),
        ("drop event e2", NAMELESS),
        ("drop trigger g", NAMELESS),
        ("drop function f", NAMELESS),
        ("drop procedure p", NAMELESS),
        ("create user 'x'@'localhost' identified by 'S3cret-sentinel'", NAMELESS),
        ("grant select on db.* to 'x'@'localhost'", NAMELESS),
        ("set password for 'x'@'localhost' = 'S3cret-sentinel2'", NAMELESS),
        ("revoke all on *.* from 'x'@'localhost'", NAMELESS),
        ("drop user 'x'@'localhost'", NAMELESS),
        ("create role r", NAMELESS),
        ("drop role r", NAMELESS),
        ("create tablespace ts add datafile 'ts.ibd'", NAMELESS),
        ("drop tablespace ts", NAMELESS),
        ("analyze table t", NAMELESS),
        ("optimize table t", NAMELESS),
        ("flush tables", NAMELESS),
        ("repair table t", UNKNOWN),
    ],
    "quotes": [
        "set sql_mode='ANSI_QUOTES'",
        ('create table "a""b" ("c" varchar(9) default \'x"y\')', ddl(kept("create_table", 'a"b'))),
        ('alter table "db"."a""b" add "b c" int', ddl(named("alter_table", 'a"b'))),
        ('create table "ct" as select 1 as "a"', filled("ct")),
        ('create view "v""x" as select 1', ddl(kept("create_view", 'v"x'))),
        ('drop table "a""b"', ddl(named("drop_table", 'a"b'))),
        "set sql_mode='NO_BACKSLASH_ESCAPES'",
        ("create table n (a int comment 'x\\') comment 'y\\'", ddl(kept("create_table", "n"))),
        ("alter table n comment '\\', add b int comment ''", ddl(named("alter_table", "n"))),
    ],
    "latin1 client": [
        "set names latin1",
        (
            b"create table q (a char(2) default '\xe9\xe8') comment '\xe9'",
            ddl(kept("create_table", "q")),
        ),
        (b"create table t\xe9 (a int)", ddl(kept("create_table", "t\u00e9"))),
        (b"alter table t\xe9 add b int", ddl(named("alter_table", "t\u00e9"))),
        (b"create view v\xe9 as select 1 as \xe9", ddl(kept("create_view", "v\u00e9"))),
        (b"drop view v\xe9", ddl(kept("drop_view", "v\u00e9"))),
        (b"create table ct\xe9 as select 1 as `\xe9`", filled("ct\u00e9")),
        (
            b"drop table `t\xe9`, ct\xe9",
            ddl(named("drop_table", "t\u00e9"), named("drop_table", "ct\u00e9")),
        ),
        (b"create database d\xe9", ddl(kept("create_database", None, "d\u00e9"))),
        b"use d\xe9",
        (b"create table t (a int)", ddl(kept("create_table", "t", "d\u00e9"))),
        (b"drop database d\xe9", ddl(named("drop_database", None, "d\u00e9"))),
    ],
    "gbk client": [
        "set names gbk",
        (
            b"create table `\x81\x60a` (a int comment '\x81\x5c')",
            ddl(kept("create_table", "\u4e63a")),
        ),
        (
            b"alter table `\x81\x60a` comment '\x81\x5c', add b int",
            ddl(named("alter_table", "\u4e63a")),
        ),
        (b"rename table \x81\x60a to y\xa1\xa1z", ddl(renamed("\u4e63a", "y\u3000z"))),
        (b"drop table y\xa1\xa1z", ddl(named("drop_table", "y\u3000z"))),
    ],
    "binary client": [
        "set names binary",
        ("create table `\u00e9` (a int)".encode(), ddl(kept("create_table", "\u00e9"))),
        ("drop table `\u00e9`".encode(), ddl(named("drop_table", "\u00e9"))),
    ],
    "temporary": [
        ("create temporary table tt (a int)", NOTHING),
        ("create table lk like tt", ddl(kept("create_table", "lk"))),
        ("drop temporary table tt", NOTHING),
        "set binlog_format=STATEMENT",
        ("create temporary table tt (a int)", NAMELESS),
        ("drop table tt", NAMELESS),
    ],
    "statement format": [
        "create table i (a int primary key)",
        "set binlog_format=STATEMENT",
        ("insert into i values (2)", CHANGE),
        ("/* c */ update i set a = 3", CHANGE),
        ("with c as (select 9 as x) delete from i where a in (select x from c)", CHANGE),
        ("create table ct as select * from i", CHANGE),
        ("create table cu (select * from i)", CHANGE),
        ("create table cv table i", CHANGE),
    ],
    "savepoints": [
        "create table i (a int primary key)",
        "set names latin1",
        "begin",
        "insert into i values (1)",
        "savepoint s1",
        b"savepoint `Q\xc9``x`",
        "insert into i values (2)",
        (
            "commit",
            [
                Statement(StatementKind.SAVEPOINT, savepoint="s1"),
                Statement(StatementKind.SAVEPOINT, savepoint="q\u00e9`x"),
            ],
        ),
    ],
    "xa": [
        "create table i (a int primary key)",
        "xa\tstart\n'x','y'",
        "insert into i values (1)",
        "xa  end 'x','y'",
        (
            "xa prepare 'x','y'",
            [Statement(StatementKind.XA_START), Statement(StatementKind.XA_END)],
        ),
        ("xa   commit 'x','y'", [Statement(StatementKind.XA_COMMIT)]),
        "xa begin 'z'",
        "insert into i values (2)",
        "xa end 'z'",
        "xa prepare 'z'",
        ("xa rollback 'z'", [Statement(StatementKind.XA_ROLLBACK)]),
    ],
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_what_the_server_logs_is_what_was_run(session: LoggedSession, script: list[Step]) -> None:
    """R5, R7, R19, R20, D19, D20, D21, D28: the server's own rewriting is understood."""
    for step in script:
        sql, expected = step if isinstance(step, tuple) else (step, None)
        found = session.run(sql)
        if expected is not None:
            assert (sql, found) == (sql, expected)


def test_a_memory_table_found_empty_after_a_restart_is_truncated_by_the_server(
    session: LoggedSession,
) -> None:
    """D21: the server's statement is told from a user's, whatever quotes and names it has."""
    session.run("create table `mem\u00e9` (a int) engine=memory")
    session.run("create table other (a int) engine=memory")
    session.run("insert into `mem\u00e9` values (1)")
    session.server.restart()
    with contextlib.closing(session.server.connect()) as connection:
        again = LoggedSession(session.server, connection)
        again.run("set names latin1, sql_mode='ANSI_QUOTES'")
        again.run("use db")
        emptied = again.run(b"insert into mem\xe9 values (2)")
        again.run("set names utf8mb4, sql_mode=default")
        emptied += again.run("select * from other")
        connection.query("drop database db")
    assert emptied == [
        Statement(StatementKind.SERVER_EMPTIES_MEMORY_TABLE, (named("truncate_table", name),))
        for name in ("mem\u00e9", "other")
    ]
