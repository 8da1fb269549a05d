"""What a real server says of itself, and the findings that follow."""

import contextlib
from typing import Any

import pytest
from helpers.mysql import execute

from capstan import config
from capstan.core.gtid import GtidSet
from capstan.core.halts import HaltReason
from capstan.core.preflight import (
    BinlogFilters,
    Flavour,
    Privilege,
    ServerFacts,
    findings,
    position_verdict,
)
from capstan.core.tables import CaptureList, TableName

PARENT_AND_CHILDREN = (
    "CREATE TABLE shop.parent (id INT PRIMARY KEY)",
    (
        "CREATE TABLE shop.cascading (id INT PRIMARY KEY, p INT, "
        "FOREIGN KEY (p) REFERENCES shop.parent (id) ON DELETE CASCADE)"
    ),
    (
        "CREATE TABLE shop.nulling (id INT PRIMARY KEY, p INT, "
        "FOREIGN KEY (p) REFERENCES shop.parent (id) ON UPDATE SET NULL)"
    ),
    (
        "CREATE TABLE shop.restricting (id INT PRIMARY KEY, p INT, "
        "FOREIGN KEY (p) REFERENCES shop.parent (id))"
    ),
    (
        "CREATE TABLE other.uncaptured (id INT PRIMARY KEY, p INT, "
        "FOREIGN KEY (p) REFERENCES shop.parent (id) ON DELETE CASCADE)"
    ),
)


def reasons(facts: ServerFacts, tables: list[str], server_id: int = 4242) -> list[HaltReason]:
    halts = findings(facts, CaptureList.parse(tables), server_id=server_id)
    return [halt.reason for halt in halts]


def run(server: Any, *statements: str) -> None:
    with contextlib.closing(server.connect()) as connection:
        for statement in statements:
            execute(connection, statement)


def facts_of(link_to: Any, server: Any, tables: list[str], **options: Any) -> ServerFacts:
    facts = link_to(server, tables=tables, **options).open()
    assert isinstance(facts, ServerFacts)
    return facts


def test_a_server_as_tests_have_it_is_fit(tls_server: Any, link_to: Any) -> None:
    """D26: the facts are the server's own, and nothing is found."""
    server = tls_server.server
    facts = facts_of(link_to, server, ["nothing_yet_*.*"])
    assert reasons(facts, ["nothing_yet_*.*"]) == []
    assert facts.flavour is Flavour.MYSQL
    assert facts.version >= (8, 0, 22)
    assert facts.server_uuid == server.server_uuid
    assert facts.server_id == server.options["server_id"]
    assert facts.account == "'root'@'localhost'"
    assert (facts.binlog_checksum, facts.is_replica, facts.filters) == (
        "CRC32",
        False,
        BinlogFilters(),
    )
    assert position_verdict(facts, facts.gtid_executed, None).halt is None


def test_the_sources_own_server_id_is_refused(tls_server: Any, link_to: Any) -> None:
    """D26: the server itself would let the dump start."""
    facts = facts_of(link_to, tls_server.server, ["a.*"])
    assert reasons(facts, ["a.*"], server_id=facts.server_id) == [HaltReason.CONFIG_INVALID]


def test_everything_wrong_is_found_at_once(new_server: Any, link_to: Any) -> None:
    """D26: format, image, metadata, GTID mode, replica updates, filters, cascades."""
    server = new_server(
        options={
            "gtid_mode": "OFF",
            "enforce_gtid_consistency": "OFF",
            "binlog_format": "STATEMENT",
            "binlog_row_image": "MINIMAL",
            "binlog_row_metadata": "MINIMAL",
            "log_replica_updates": "OFF",
            "binlog_ignore_db": "shop",
            "innodb_native_foreign_keys": "ON",
        }
    )
    run(
        server,
        "CREATE DATABASE shop",
        "CREATE DATABASE other",
        *PARENT_AND_CHILDREN,
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_USER = 'nobody'",
    )
    facts = facts_of(link_to, server, ["shop.*", "shop.none"])
    assert reasons(facts, ["shop.*", "shop.none"]) == [
        HaltReason.BINLOG_FORMAT_NOT_ROW,
        HaltReason.BINLOG_ROW_IMAGE_NOT_FULL,
        HaltReason.BINLOG_ROW_METADATA_NOT_FULL,
        HaltReason.GTID_MODE_NOT_ON,
        HaltReason.REPLICA_UPDATES_NOT_LOGGED,
        HaltReason.BINLOG_FILTERED,
        HaltReason.CONFIG_INVALID,
        HaltReason.CASCADES_NOT_LOGGED,
    ]
    assert facts.filters == BinlogFilters(ignore=("shop",))
    assert facts.missing_tables == ("shop.none",)
    assert set(facts.cascade_children) == {
        TableName("shop", "cascading"),
        TableName("shop", "nulling"),
    }


def test_a_server_without_a_binary_log_is_found(new_server: Any, link_to: Any) -> None:
    """D26: and is not blamed for what follows from it."""
    server = new_server(options={"log_bin": None, "skip_log_bin": ""})
    facts = facts_of(link_to, server, ["a.*"])
    assert reasons(facts, ["a.*"]) == [HaltReason.BINLOG_DISABLED]


def test_a_truncate_from_outside_a_do_filter_is_lost_so_the_filter_is_refused(
    new_server: Any, link_to: Any
) -> None:
    """D26: why even a filter that lists the captured schema counts."""
    server = new_server(options={"binlog_do_db": "shop"})
    run(server, "CREATE DATABASE shop", "CREATE DATABASE other", "CREATE TABLE shop.t (id INT)")
    before = facts_of(link_to, server, ["shop.t"])
    run(server, "USE other", "TRUNCATE shop.t")
    after = facts_of(link_to, server, ["shop.t"])
    assert before.gtid_executed == after.gtid_executed
    assert reasons(after, ["shop.t"]) == [HaltReason.BINLOG_FILTERED]


def test_a_long_set_of_purged_transactions_is_read_whole(tls_server: Any, link_to: Any) -> None:
    """R44, D14: SHOW VARIABLES would cut it; without a position it is a gap that names the way."""
    uuids = [f"{number:08x}-0000-0000-0000-000000000000" for number in range(1, 101)]
    purged = ",".join(f"{uuid}:1-5" for uuid in uuids)
    run(tls_server.server, f"SET GLOBAL gtid_purged = '+{purged}'")
    facts = facts_of(link_to, tls_server.server, ["a.*"])
    assert facts.gtid_executed.uuids() >= set(uuids)
    assert GtidSet.parse(purged) <= facts.gtid_purged
    halt = position_verdict(facts, None, None).halt
    assert halt is not None
    assert halt.reason is HaltReason.DATA_GAP
    assert "no position yet" in halt.detail
    run(tls_server.server, "RESET BINARY LOGS AND GTIDS")


@pytest.mark.parametrize(
    "lacking", [(), *[(privilege,) for privilege in Privilege], tuple(Privilege)]
)
def test_a_missing_right_is_a_finding_with_its_grant(
    tls_server: Any, link_to: Any, lacking: tuple[Privilege, ...]
) -> None:
    """D26: the grant that the finding names is what mends it."""
    user = tls_server.new_user("secret")
    for privilege in lacking:
        tls_server.execute(f"REVOKE {privilege.value} ON *.* FROM {user}")
    login = {"user": user, "password": "secret"}
    facts = facts_of(link_to, tls_server.server, ["a.*"], **login)
    assert facts.denied == lacking
    halts = findings(facts, CaptureList.parse(["a.*"]), server_id=4242)
    missing = [halt for halt in halts if halt.reason is HaltReason.PRIVILEGE_MISSING]
    assert len(missing) == len(lacking)
    unreadable = [halt for halt in halts if halt.reason is HaltReason.BINLOG_FILTERED]
    assert bool(unreadable) is (Privilege.REPLICATION_CLIENT in lacking)
    for halt in missing:
        tls_server.execute(halt.detail.partition("run: ")[2])
    mended = facts_of(link_to, tls_server.server, ["a.*"], **login)
    assert reasons(mended, ["a.*"]) == []


def test_an_account_with_an_odd_name_is_quoted_for_its_grant(tls_server: Any, link_to: Any) -> None:
    """D26: the statement can be run as it stands."""
    name = "o'dd@user"
    tls_server.execute("CREATE USER %s@'127.0.0.1' IDENTIFIED BY 'secret'", name)
    facts = facts_of(link_to, tls_server.server, ["a.*"], user=name, password="secret")
    assert facts.account == "'o''dd@user'@'127.0.0.1'"
    (first, *_) = findings(facts, CaptureList.parse(["a.*"]), server_id=4242)
    tls_server.execute(first.detail.partition("run: ")[2])


def test_a_literal_entry_must_name_a_base_table_exactly(tls_server: Any, link_to: Any) -> None:
    """D16: another letter case, a view and a table of another schema are not it."""
    run(
        tls_server.server,
        "CREATE DATABASE IF NOT EXISTS names",
        "CREATE TABLE names.orders (id INT PRIMARY KEY)",
        "CREATE TABLE names.`odd.'name'` (id INT PRIMARY KEY)",
        "CREATE TABLE names.`größe` (id INT PRIMARY KEY)",
        "CREATE VIEW names.seen AS SELECT * FROM names.orders",
    )
    good = ["names.orders", "names.odd.'name'", "names.größe"]
    bad = ["names.Orders", "names.seen", "other.orders", "names.grosse"]
    facts = facts_of(link_to, tls_server.server, [*good, *bad, "absent.*"])
    assert facts.missing_tables == tuple(bad)
    run(tls_server.server, "DROP DATABASE names")


def test_a_table_that_the_account_cannot_see_counts_as_missing(
    tls_server: Any, link_to: Any
) -> None:
    """D16: the detail says that it may be a matter of rights."""
    run(
        tls_server.server,
        "CREATE DATABASE IF NOT EXISTS hidden",
        "CREATE TABLE hidden.t (id INT PRIMARY KEY)",
    )
    user = tls_server.new_user("secret")
    tls_server.execute(f"REVOKE SELECT ON *.* FROM {user}")
    facts = facts_of(link_to, tls_server.server, ["hidden.t"], user=user, password="secret")
    (halt,) = findings(facts, CaptureList.parse(["hidden.t"]), server_id=4242)
    assert halt.reason is HaltReason.CONFIG_INVALID
    assert "that the account can see" in halt.detail
    run(tls_server.server, "DROP DATABASE hidden")


def test_a_replica_that_logs_what_it_applies_is_fit(tls_server: Any, link_to: Any) -> None:
    """D26: only a replica without replica updates is refused."""
    server = tls_server.server
    run(server, "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_USER = 'nobody'")
    try:
        facts = facts_of(link_to, server, ["a.*"])
    finally:
        run(server, "RESET REPLICA ALL")
    assert facts.is_replica is True
    assert reasons(facts, ["a.*"]) == []


def test_of_a_server_that_is_not_supported_nothing_more_is_asked(
    tls_server: Any, link_to: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D26: MariaDB does not know the questions; here a server that says it is MariaDB."""
    from capstan.sources import query

    asked: list[str] = []
    ask = query._rows

    def mariadb(wire: Any, statement: str, *values: Any) -> Any:
        asked.append(statement)
        if "VERSION()" in statement:
            return [("10.11.6-MariaDB-0+deb12u1", "Debian 12")]
        return ask(wire, statement, *values)

    monkeypatch.setattr(query, "_rows", mariadb)
    facts = facts_of(link_to, tls_server.server, ["a.b"])
    assert reasons(facts, ["a.b"]) == [HaltReason.SERVER_NOT_SUPPORTED]
    assert "VERSION()" in asked[-1]


def test_the_accepted_cascades_of_the_configuration_are_names_of_tables() -> None:
    """D26: the option has the form that the finding prints."""
    source = config.Source(user="u", server_id=1, accept_unlogged_cascades=["shop.lines"])
    facts = ServerFacts(
        version_text="8.4.0",
        version=(8, 4, 0),
        flavour=Flavour.MYSQL,
        cascade_children=(TableName("shop", "lines"),),
    )
    capture = CaptureList.parse(["shop.*"])

    def cascades(accepted: tuple[str, ...]) -> list[str]:
        halts = findings(facts, capture, server_id=1, accepted_cascades=accepted)
        return [h.detail for h in halts if h.reason is HaltReason.CASCADES_NOT_LOGGED]

    assert len(cascades(())) == 1
    assert cascades(source.accept_unlogged_cascades) == []
