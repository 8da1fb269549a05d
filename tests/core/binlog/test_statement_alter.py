"""ALTER TABLE clause by clause: what is certain to leave stored rows alone."""

import pytest

from capstan.core.binlog.statements import NamedObject, classify


def altered(clauses: str) -> NamedObject:
    (found,) = classify(f"alter table t {clauses}".encode(), "db").objects
    assert (found.schema, found.table) == ("db", "t")
    return found


HARMLESS = [
    *("", "add index (a)", "add key k (a)", "add unique (a)", "add unique key k (a, b)"),
    *("add fulltext index (a)", "add spatial key (a)", "add index ((a + 1)) comment 'x, y'"),
    *("add foreign key (a) references u (b) on delete cascade", "add check (a > 0)"),
    *(
        "add constraint unique (a)",
        "add constraint c unique key (a)",
        "add constraint check (a > 0)",
    ),
    *("add constraint `c` check (a > 0)", "add constraint c foreign key (a) references u (a)"),
    *("drop index i", "drop key `i`", "drop foreign key f", "drop check c", "drop constraint c"),
    *(
        "rename index i to j",
        "rename key i to j",
        "alter index i invisible",
        "alter index i visible",
    ),
    *("alter check c not enforced", "alter constraint c enforced", "alter a set default 5"),
    *(
        "alter column a set default (1 + 2)",
        "alter column `a` drop default",
        "alter a set invisible",
    ),
    *("alter column a set visible", "comment 'x'", "comment = 'add column a int'", "enable keys"),
    *("disable keys", "auto_increment=7", "auto_increment 7", "row_format = dynamic", "force"),
    *("engine=innodb", "engine InnoDB", "engine=innodb comment 'c' auto_increment=7"),
    *("default charset utf8mb4 collate utf8mb4_bin", "character set = latin1", "charset latin1"),
    *("default character set latin1, default collate latin1_bin", "checksum=1 row_format dynamic"),
    *("stats_persistent=default stats_auto_recalc=0 stats_sample_pages 20", "key_block_size=8"),
    *("compression='zlib'", "encryption='Y'", "tablespace ts", "secondary_engine=null"),
    *("algorithm=inplace", "lock none", "algorithm = copy, lock = none, comment 'x'"),
    *("add index (a), drop index i, comment 'x', rename index a to b", "without validation"),
]

UNKNOWN = [
    *("add a int", "add column a int default 7", "add (a int, b int)", "drop a", "drop column a"),
    *(
        "modify a bigint",
        "modify column a int comment 'x'",
        "change a b int",
        "rename column a to b",
    ),
    *("add primary key (a)", "add constraint primary key (a)", "add constraint c primary key (a)"),
    *(
        "drop primary key",
        "drop index `primary`",
        "drop constraint `PRIMARY`",
        "drop key `Primary`",
    ),
    *(
        "convert to character set utf8mb4",
        "order by a, b",
        "discard tablespace",
        "import tablespace",
    ),
    *("engine=blackhole", "engine myisam", "engine='InnoDB'", "union=(u, v)", "connection='x'"),
    *("comment", "comment 'x' wat", "wat", "add index (a), add b int", "comment 'x', drop a"),
    *("secondary_load", "algorithm=copy, wat", "rename to u wat", "data directory 'x'"),
    *("algorithm=copy wat", "lock none wat", "without validation wat"),
    *("alter a", "alter column a set", "force wat", "enable wat", "character latin1"),
]


@pytest.mark.parametrize("clauses", HARMLESS)
def test_clauses_of_the_closed_list_leave_rows_alone(clauses: str) -> None:
    """D28: indexes, constraints, defaults, comments, options."""
    assert altered(clauses) == NamedObject(
        kind="alter_table", schema="db", table="t", rows_may_change=False
    )


@pytest.mark.parametrize("clauses", UNKNOWN)
def test_every_other_clause_may_change_rows(clauses: str) -> None:
    """D28: an ALTER can change stored rows without any row event; unknown is not harmless."""
    found = altered(clauses)
    assert (found.kind, found.rows_may_change) == ("alter_table", True)


@pytest.mark.parametrize("harmful", ["add a int", "drop column b", "modify c int", "wat"])
@pytest.mark.parametrize("clauses", [clauses for clauses in HARMLESS if clauses])
def test_one_clause_in_doubt_is_enough(clauses: str, harmful: str) -> None:
    """D28: every clause must be on the list, wherever the other one stands."""
    assert altered(f"{clauses}, {harmful}").rows_may_change
    assert altered(f"{harmful}, {clauses}").rows_may_change


@pytest.mark.parametrize(
    ("clauses", "schema", "table"),
    [
        ("rename u", "db", "u"),
        ("rename to u", "db", "u"),
        ("rename as `u.v`", "db", "u.v"),
        ("rename = x.u", "x", "u"),
        ("rename to x . u, algorithm=inplace, lock=none", "x", "u"),
    ],
)
def test_a_rename_alone_is_a_rename_table(clauses: str, schema: str, table: str) -> None:
    """D28: the new name goes with it."""
    assert altered(clauses) == NamedObject(
        kind="rename_table",
        schema="db",
        table="t",
        new_schema=schema,
        new_table=table,
        rows_may_change=False,
    )


@pytest.mark.parametrize(
    ("clauses", "rows_may_change"),
    [
        ("rename to u, add c int", True),
        ("add index (a), rename to u", False),
        ("rename column a to b, rename to u", True),
        ("rename index a to b, rename u", False),
        ("rename to u partition by hash (a)", True),
        ("rename to u remove partitioning", True),
    ],
)
def test_a_rename_among_others_keeps_the_new_name(clauses: str, rows_may_change: bool) -> None:
    """D9, D28: both names count, whatever else is done."""
    assert altered(clauses) == NamedObject(
        kind="alter_table",
        schema="db",
        table="t",
        new_schema="db",
        new_table="u",
        rows_may_change=rows_may_change,
    )


@pytest.mark.parametrize(
    "clauses",
    [
        "add partition (partition p1 values less than (20))",
        "add partition partitions 4",
        "drop partition p0, p1",
        "truncate partition all",
        "coalesce partition 2",
        "reorganize partition p0 into (partition a values in (1), partition b values in (2))",
        "rebuild partition p0",
        "optimize partition p0, p1",
        "analyze partition all",
        "check partition p0",
        "repair partition p0",
        "discard partition p0 tablespace",
        "import partition p0 tablespace",
        "partition by hash (a) partitions 4",
        "partition by range (a) (partition p0 values less than maxvalue)",
        "remove partitioning",
        "algorithm=inplace, drop partition p0",
        "algorithm=copy partition by key (a)",
    ],
)
def test_partition_ddl_may_change_rows(clauses: str) -> None:
    """D9, D28: it can remove rows without any row event."""
    assert altered(clauses) == NamedObject(kind="alter_partition", schema="db", table="t")


@pytest.mark.parametrize(
    "clauses",
    [
        *("add index z (a) remove partitioning", "add unique (a) partition by hash (a)"),
        *("comment 'x' partition by hash (a)", "comment 'x' remove partitioning"),
    ],
)
def test_partitioning_hidden_behind_another_clause_is_seen(clauses: str) -> None:
    """D28: it needs no comma before it."""
    assert altered(clauses) == NamedObject(kind="alter_table", schema="db", table="t")


@pytest.mark.parametrize(
    ("clauses", "schema"),
    [
        ("exchange partition p0 with table u", "db"),
        ("exchange partition `with` with table x.u without validation", "x"),
        ("algorithm=inplace, exchange partition p0 with table `x`.`u` with validation", "x"),
    ],
)
def test_an_exchange_names_both_tables(clauses: str, schema: str) -> None:
    """D9: both sides of EXCHANGE PARTITION."""
    assert altered(clauses) == NamedObject(
        kind="exchange_partition", schema="db", table="t", new_schema=schema, new_table="u"
    )
