"""CREATE TABLE … SELECT as the server writes it: options stand behind START TRANSACTION."""

import pytest
from helpers.named_objects import kept

from capstan.core.binlog.statements import Statement, StatementKind, classify

COLUMNS = "CREATE TABLE `ct` (\n  `a` int NOT NULL,\n  `select` int\n)"
OPTIONS = [
    "",
    " ENGINE=InnoDB",
    " COMMENT='SELECT 1'",
    " /*!50100 TABLESPACE `ts` */ ENGINE=InnoDB DEFAULT CHARSET=latin1 ROW_FORMAT=DYNAMIC",
    "\n/*!50100 PARTITION BY HASH (`a`)\nPARTITIONS 2 */",
    "\n/*!50100 PARTITION BY RANGE (`a`)\n(PARTITION p VALUES LESS THAN (5) ENGINE = InnoDB) */",
    "\n/*!50500 PARTITION BY LIST  COLUMNS(a)\n(PARTITION p VALUES IN ('SELECT')) */",
]


@pytest.mark.parametrize("options", OPTIONS)
def test_rows_follow_whatever_options_the_table_has(options: str) -> None:
    """D20: START TRANSACTION is one option among others, and the server writes it first."""
    text = f"{COLUMNS} START TRANSACTION{options}".encode()

    assert classify(text, "db") == Statement(
        StatementKind.CREATE_SELECT, (kept("create_table", "ct"),)
    )


@pytest.mark.parametrize("options", OPTIONS)
def test_without_the_option_no_rows_follow(options: str) -> None:
    """R5: the same table without it commits itself."""
    assert classify(f"{COLUMNS}{options}".encode(), "db") == Statement(
        StatementKind.DDL, (kept("create_table", "ct"),)
    )


@pytest.mark.parametrize(
    "query",
    ["SELECT * FROM start transaction", "AS TABLE start", "SELECT 1 AS start FROM transaction"],
)
def test_a_table_named_start_does_not_announce_rows(query: str) -> None:
    """D21: in statement format these rows are nowhere, whatever the table is called."""
    assert classify(f"CREATE TABLE ct {query}".encode(), "db") == Statement(StatementKind.DML)
