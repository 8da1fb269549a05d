"""What a logged statement is to the fold; and that nothing of its text survives."""

import pickle
from typing import Any

import attrs
import pytest
from helpers.named_objects import ANY_TABLE, OTHER, kept, named
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.binlog.log_events import QueryEvent
from capstan.core.binlog.statements import (
    Statement,
    StatementError,
    StatementKind,
    classify,
    classify_query,
)


def statement(text: str, **how: Any) -> Statement:
    return classify(text.encode(), "db", **how)


# --- boundaries and control -----------------------------------------------------------------------


@pytest.mark.parametrize("word", ["BEGIN", "COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("shape", ["{}", " {}", "{}\n", "\t\r\n {} \v\f"])
@pytest.mark.parametrize("case", [str.upper, str.lower, str.title])
def test_boundaries_are_matched_without_regard_to_case_and_blanks(
    word: str, shape: str, case: Any
) -> None:
    """R17: the whole text, trimmed, in any letter case."""
    assert statement(shape.format(case(word))) == Statement(StatementKind[word])


@pytest.mark.parametrize(
    "text",
    [
        *("BEGIN WORK", "COMMIT WORK", "ROLLBACK WORK", "COMMIT AND CHAIN", "START TRANSACTION"),
        *("/* c */ COMMIT", "COMMIT -- done", "COMMIT;", "/*!80000 BEGIN */", "# x\nROLLBACK"),
        *("ROLLBACK AND NO CHAIN RELEASE", "BEGIN; COMMIT", "ROLLBACK TO", "SAVEPOINT"),
        *("SAVEPOINT 'a'", "SAVEPOINT a b", "RELEASE SAVEPOINT"),
    ],
)
def test_control_that_the_server_never_writes_so_is_no_boundary(text: str) -> None:
    """D21: a boundary in another form than the server's own is neither a boundary nor a DDL."""
    assert statement(text) == Statement(StatementKind.FOREIGN_BOUNDARY)


@pytest.mark.parametrize(
    "text",
    [
        *("BEGINX", "COMMITTED", "XCOMMIT", "BEGIN_LOG", "XAX", "`COMMIT`", "'COMMIT'", ""),
        *("  ", ";", "/* COMMIT */", "-- BEGIN", "\u00a0COMMIT", "\uff23OMMIT"),
    ],
)
def test_a_keyword_inside_something_else_is_no_boundary(text: str) -> None:
    """R17: never by substring; what is not known counts as naming every table (D9)."""
    assert statement(text) == Statement(StatementKind.OTHER, (ANY_TABLE,))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("XA START X'61',X'',1", "XA_START"),
        ("xa begin 'a'", "XA_START"),
        ("  Xa  sTaRt 'a'", "XA_START"),
        ("XA END X'61',X'',1", "XA_END"),
        ("XA COMMIT X'61',X'',1", "XA_COMMIT"),
        ("XA COMMIT X'61',X'',1 ONE PHASE", "XA_COMMIT"),
        ("XA ROLLBACK X'61',X'',1", "XA_ROLLBACK"),
        ("XA PREPARE X'61',X'',1", "XA_OTHER"),
        ("XA RECOVER", "XA_OTHER"),
        ("XA START'a'", "XA_OTHER"),
        ("XA\tSTART 'a'", "XA_OTHER"),
        ("XA", "XA_OTHER"),
        ("/* c */ XA START 'a'", "XA_OTHER"),
    ],
)
def test_xa_is_never_ddl(text: str, kind: str) -> None:
    """R19, R20, R21, R27, R28, D17: by the prefix, and never as something that names or advances.

    Without the XA rules these fall through to OTHER, which is a self-committing statement.
    """
    assert statement(text) == Statement(StatementKind[kind])


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("SAVEPOINT `s1`", "SAVEPOINT", "s1"),
        ("savepoint S1", "SAVEPOINT", "s1"),
        ("SAVEPOINT `COMMIT`", "SAVEPOINT", "commit"),
        ("SAVEPOINT `a``b c`", "SAVEPOINT", "a`b c"),
        ("SAVEPOINT `q\u00c9`", "SAVEPOINT", "q\u00e9"),
        ("/* x */ RELEASE SAVEPOINT s2", "RELEASE_SAVEPOINT", "s2"),
        ("ROLLBACK TO `s1`", "ROLLBACK_TO", "s1"),
        ("rollback work to savepoint S1", "ROLLBACK_TO", "s1"),
    ],
)
def test_savepoints_are_control_with_a_name(text: str, kind: str, name: str) -> None:
    """D19: told apart, with the name to match; the server writes it in UTF-8 for any client."""
    expected = Statement(StatementKind[kind], savepoint=name)
    assert statement(text, charset="latin1") == expected


# --- changes as statements ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *("insert into t values (1)", "UPDATE t SET a=1", "delete from t", "REPLACE t VALUES (1)"),
        *("LOAD DATA LOCAL INFILE 'x' INTO TABLE t", "CALL p()", "DO f()", "SELECT `db`.`f`()"),
        *("WITH c AS (SELECT 1) DELETE FROM t", "TABLE t", "VALUES ROW(1)", "(SELECT 1)"),
        *("/* c */ INSERT INTO t VALUES ('ALTER TABLE')", "\n# c\n -- d\n\tinsert t values (1)"),
        *("/*!50000 INSERT */ INTO t VALUES (1)", "DELETE FROM db.t", "delete from `db`.`t`"),
        "DELETE FROM `db`.`t` LIMIT 1",
    ],
)
def test_a_change_without_row_images_is_told_by_its_first_word(text: str) -> None:
    """D21: comments, white space and letter case change nothing about what a statement is."""
    assert statement(text) == Statement(StatementKind.DML)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "create table t as select * from u",
            "create table t (select 1)",
            "create table t select 1",
        ),
        *("create table if not exists t (a int) ignore select 1 a", "create table t table u"),
        *("create table t values row(1)", "create table t with c as (select 1) select * from c"),
    ],
)
def test_a_table_filled_by_a_logged_query_is_a_change_without_row_images(text: str) -> None:
    """D21: in statement format the rows of CREATE TABLE … SELECT never show in the stream."""
    assert statement(text) == Statement(StatementKind.DML)


@pytest.mark.parametrize(
    "text",
    [
        "create table t (a int references d.select (b), c int)",
        "create table t (`select` int comment 'select') comment 'table'",
        "create table t (a int) partition by list (a) (partition p values in (1))",
    ],
)
def test_a_table_that_only_looks_filled_is_plain_ddl(text: str) -> None:
    """R5: quoted names, literals, names after a dot and partition values are no query."""
    assert statement(text) == Statement(StatementKind.DDL, (kept("create_table"),))


def test_rows_that_follow_a_create_table_are_announced() -> None:
    """D20: CREATE TABLE … START TRANSACTION is a DDL whose rows come in the same transaction."""
    expected = Statement(StatementKind.CREATE_SELECT, (kept("create_table", "ct"),))
    assert statement("CREATE TABLE `ct` (\n  `a` int NOT NULL\n) START TRANSACTION") == expected
    assert statement("create table ct (a int) start transaction") == expected
    assert statement("create table ct (a int) comment 'START TRANSACTION'") == Statement(
        StatementKind.DDL, (kept("create_table", "ct"),)
    )


@pytest.mark.parametrize(
    ("text", "schema", "table"),
    [
        ("TRUNCATE TABLE `d1`.`m` /*@*/", "d1", "m"),
        ('TRUNCATE TABLE "d1"."m" /*@*/', "d1", "m"),
        ("TRUNCATE TABLE `d``1`.`mem\u00e9` /*@*/", "d`1", "mem\u00e9"),
        ('TRUNCATE TABLE "d""1"."a.b" /*@*/', 'd"1', "a.b"),
        ("DELETE FROM `d1`.`m`", "d1", "m"),
    ],
)
def test_the_servers_emptying_of_a_memory_table_names_it(
    text: str, schema: str, table: str
) -> None:
    """D21: what the server itself writes after a restart, in its own quotes and in UTF-8."""
    mark = "/* generated by server, implicitly emptying in-memory table */"
    found = classify(text.replace("/*@*/", mark).encode(), "", charset="latin1")
    assert found == Statement(
        StatementKind.SERVER_EMPTIES_MEMORY_TABLE, (named("truncate_table", table, schema),)
    )


# --- statements without a table -------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "create procedure p() BEGIN start transaction; COMMIT; drop table t; END",
        "CREATE DEFINER=`root`@`localhost` FUNCTION `f`() RETURNS int\nBEGIN return 1; END",
        "CREATE DEFINER=`root`@`localhost` trigger t before insert on t for each row set @a=1",
        "CREATE DEFINER=event@localhost event e on schedule every 1 day do truncate t",
        "CREATE LIBRARY `l`\n    LANGUAGE javascript\nAS $$it's$$",
        *("create aggregate function f returns string soname 'x.so'", "drop library l"),
        *("create function if not exists f() returns int return 1", "alter procedure p comment ''"),
        *("alter function f comment 'x'", "alter event e rename to f", "drop procedure p"),
        *("drop function if exists f", "drop trigger t", "drop event e"),
        "CREATE USER 'u'@'%' IDENTIFIED WITH 'caching_sha2_password' AS '$A$00A$b\\'\x0f'",
        *("alter user u identified by 'x'", "drop user u", "rename user u to v", "create role r"),
        *("drop role r", "GRANT ALL PRIVILEGES ON *.* TO 'u'@'%'", "revoke all on *.* from u"),
        *("set password for u = 'x'", "set default role none to u", "analyze table t"),
        *("check table t", "optimize local table t", "checksum table t", "flush tables t"),
        *("FLUSH PRIVILEGES", "create tablespace s add datafile 's.ibd'", "drop tablespace s"),
        *("alter tablespace s rename to r", "create undo tablespace u add datafile 'u.ibu'"),
        *("drop undo tablespace u", "create logfile group g add undofile 'x'"),
        *("create resource group g type=user", "alter instance rotate innodb master key"),
        "create or replace spatial reference system 1 name 'x' definition 'y'",
        *("drop spatial reference system 1", "create temporary table t (a int)"),
        "CREATE TEMPORARY TABLE IF NOT EXISTS t SELECT 1",
        "DROP TEMPORARY TABLE `t` /* generated by server */",
        "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `t`",
    ],
)
def test_what_names_no_stored_table_is_other_and_leaves_rows_alone(text: str) -> None:
    """R5, D9, D28: accounts, routines, statistics, tablespaces and temporary tables."""
    assert statement(text) == Statement(StatementKind.OTHER, (OTHER,))


@pytest.mark.parametrize(
    "text",
    [
        *("repair table t", "import table from '/tmp/x.sdi'", "install plugin p soname 'x'"),
        *("alter server s options (host 'y')", "drop server s", "lock tables t write"),
        *("create brand new thing t", "drop table t, u wherever", "drop table t; drop table u"),
        *("alter table", "alter table 'x'", "rename table t u", "drop index i from t"),
        *("create table t.", "alter t", "create database a.b", "truncate t u"),
        "alter table t exchange partition p",
    ],
)
def test_what_is_not_known_counts_as_naming_every_table(text: str) -> None:
    """D9: syntax that is not understood is never taken for harmless, nor half-read."""
    assert statement(text) == Statement(StatementKind.OTHER, (ANY_TABLE,))


# --- the event's own variables --------------------------------------------------------------------


def test_the_events_variables_decide_how_it_is_read() -> None:
    """R7: sql_mode bits and the client's collation of the QUERY event itself."""
    ansi = QueryEvent("d\u00e9".encode(), b'drop table "a\xe9"', 0x4, 8)
    assert classify_query(ansi).objects == (named("drop_table", "a\u00e9", "d\u00e9"),)
    assert classify_query(ansi._replace(sql_mode=0)).objects == (ANY_TABLE,)
    literal = QueryEvent(b"db", b"alter table t comment '\\', add a int comment ''", 0x100000, 255)
    assert classify_query(literal).objects == (named("alter_table"),)


@pytest.mark.parametrize("collation", [0, 33, 45, 255, 63])
def test_utf8_and_binary_clients_write_names_in_utf8(collation: int) -> None:
    """R7: also when the event does not tell the character set."""
    query = QueryEvent(b"db", "drop table `\u00e9`".encode(), 0, collation)
    assert classify_query(query).objects == (named("drop_table", "\u00e9"),)


def test_an_unknown_collation_leaves_only_ascii_certain() -> None:
    """R266: no character set is guessed."""
    query = QueryEvent(b"db", b"drop table t", 0, 60000)
    assert classify_query(query).objects == (named("drop_table"),)
    with pytest.raises(StatementError):
        classify_query(query._replace(text="drop table \u00e9".encode()))


def test_a_default_database_that_is_not_utf8_is_refused() -> None:
    """R7: the server writes that field in UTF-8, whatever the client speaks."""
    with pytest.raises(StatementError, match=r"^a name that cannot be decoded$"):
        classify_query(QueryEvent(b"d\xe9", b"drop table t", 0, 8))


def test_an_unqualified_name_without_a_database_is_refused() -> None:
    """R266: a table of no database cannot be matched with anything."""
    with pytest.raises(StatementError, match=r"^a name without a database$"):
        classify_query(QueryEvent(b"", b"drop table t", 0, 255))


# --- nothing leaks --------------------------------------------------------------------------------

SENTINEL = "s3cret-Sentinel"


@pytest.mark.parametrize(
    "text",
    [
        *("alter table t add a int default '{}' comment \"{}\"", "insert into t values ('{}')"),
        *("CREATE USER u IDENTIFIED BY '{}'", "create view v as select '{}'", "wat '{}'"),
        *("/* {} */ drop table t", "create procedure p() select '{}'", "XA START '{}'"),
        *(
            "create table t as select '{}'",
            "rename table t to u -- {}",
            "alter table t comment '{}'",
        ),
    ],
)
def test_no_part_of_the_statement_is_reachable_from_the_result(text: str) -> None:
    """R7, R8, R265: names and kinds only, in repr, fields and pickle."""
    found = statement(text.replace("{}", SENTINEL))
    for form in (repr(found), str(attrs.asdict(found)), repr(pickle.dumps(found))):
        assert SENTINEL.lower() not in form.lower()


@pytest.mark.parametrize(
    "text",
    ["alter table `{}\xe9` add a int", "drop table t, '{}", "/*! drop table {}", "drop table `{}"],
)
def test_no_part_of_the_statement_is_reachable_from_a_refusal(text: str) -> None:
    """R8, R265: neither the message nor any exception behind it holds the text."""
    with pytest.raises(StatementError) as refused:
        classify(text.replace("{}", SENTINEL).encode("latin-1"), "db")
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None
    assert SENTINEL not in repr(refused.value.args)


@given(st.binary(max_size=60), st.sampled_from(["utf8mb4", "latin1", "gbk", "binary"]))
def test_any_bytes_are_classified_or_refused(data: bytes, charset: str) -> None:
    """R266: nothing but a StatementError ever comes out of bad bytes."""
    for head in (b"", b"ALTER TABLE t ", b"CREATE ", b"DROP TABLE "):
        try:
            found = classify(head + data, "db", charset=charset)
        except StatementError:
            continue
        assert isinstance(found, Statement)
