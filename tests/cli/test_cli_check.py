"""`capstan check`: every finding at once, nothing written, beside a running pipeline too."""

import json
import signal
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import attrs
import pytest
from helpers.command_line import PASSWORD_VARIABLE, STANDARD_OUTPUT, Shop, halt_in
from helpers.mysql import Database, PrivateServers, execute
from helpers.scripted_source import GOOD_FACTS, SERVER_UUID, ScriptedLink, ScriptedSource

from capstan import GtidSet, SqliteStore
from capstan.cli import server_look
from capstan.core.gtid import Gtid
from capstan.core.preflight import Flavour, ServerFacts
from capstan.core.watermark import Anchor
from capstan.demo.mysql_access import ExternalServer
from capstan.demo.mysql_install import MysqlPrograms
from capstan.demo.mysql_server import MysqlServer

STRANGER = "99999999-8888-7777-6666-555555555555"


@pytest.fixture(scope="module")
def own_server(mysql_programs: MysqlPrograms) -> Iterator[MysqlServer]:
    """A server of this file's own, whose settings may be changed."""
    with closing(PrivateServers(mysql_programs)) as servers:
        server = servers()
        run(server, "CREATE DATABASE shop", "CREATE TABLE shop.items (id INT PRIMARY KEY)")
        yield server


@pytest.fixture
def own_shop(own_server: MysqlServer, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A fresh configuration over that server."""
    monkeypatch.setenv(PASSWORD_VARIABLE, own_server.password)
    return shop.write(own_server, "shop.items")


def run(server: MysqlServer, *statements: str) -> None:
    with closing(server.connect()) as connection:
        for statement in statements:
            execute(connection, statement)


def found(shop: Shop) -> list[dict[str, Any]]:
    """What `check` finds, as it says on standard error."""
    result = shop.invoke("check")
    assert result.exit_code == 3, result.output
    first = halt_in(result.stderr)
    findings = [first, *first["also"]]
    for finding in findings:
        assert f"remedy: {finding['remedy']}" in result.stdout
    return findings


def reasons(shop: Shop) -> list[str]:
    return [finding["reason"] for finding in found(shop)]


def test_a_fresh_configuration_is_ready_and_leaves_no_file_behind(own_shop: Shop) -> None:
    """A check is a look: neither store nor mirror nor lock comes into being."""
    result = own_shop.invoke("check")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "ready: a run would start at the first transaction of the source\n"
    assert own_shop.files() == set()


def test_a_used_configuration_is_ready_and_stays_as_it_is(items: Database, shop: Shop) -> None:
    """It tells where a run would start, and changes no byte of store and mirror."""
    before = shop.state.read_bytes(), shop.mirror.read_bytes()
    result = shop.invoke("check")

    assert result.exit_code == 0
    assert result.stdout == f"ready: a run would start behind {shop.shown()['watermark']}\n"
    assert (shop.state.read_bytes(), shop.mirror.read_bytes()) == before


def test_everything_is_found_at_once(own_server: MysqlServer, own_shop: Shop) -> None:
    """D12, D16, D26: store, sink and server, each finding with its remedy."""
    with closing(SqliteStore(own_shop.state)) as store:
        seen = GtidSet.parse(f"{STRANGER}:1")
        store.save_watermark(seen, None, seen)
        store.save_tables(["shop.items"])
    own_shop.write(own_server, "shop.items", "shop.nothing", sink=STANDARD_OUTPUT)
    settings = {
        "binlog_format": ("STATEMENT", "ROW"),
        "binlog_row_image": ("MINIMAL", "FULL"),
        "binlog_row_metadata": ("MINIMAL", "FULL"),
    }
    run(own_server, *(f"SET GLOBAL {name} = {bad}" for name, (bad, _) in settings.items()))
    try:
        told = found(own_shop)
    finally:
        run(own_server, *(f"SET GLOBAL {name} = {good}" for name, (_, good) in settings.items()))

    assert [finding["reason"] for finding in told] == [
        "capture_config_drifted",
        "sink_position_lost",
        "binlog_format_not_row",
        "binlog_row_image_not_full",
        "binlog_row_metadata_not_full",
        "config_invalid",
    ]
    remedies = " ".join(finding["remedy"] for finding in told)
    assert "SET PERSIST binlog_row_metadata = 'FULL'" in remedies
    assert "capstan checkpoint accept-tables FILE.toml" in remedies


def test_a_position_of_another_server_is_found(items: Database, shop: Shop) -> None:
    """D14: what this server never executed."""
    with closing(SqliteStore(shop.state)) as store:
        here = GtidSet.parse(shop.shown()["watermark"])
        store.save_watermark(here | GtidSet.parse(f"{STRANGER}:1-5"), None, here)

    (finding,) = found(shop)
    assert finding["reason"] == "source_identity_mismatch"
    assert f"{STRANGER}:1-5" in finding["detail"]


def test_a_gap_is_found(own_server: MysqlServer, own_shop: Shop) -> None:
    """R46: purged logs, with a position and without one."""
    assert own_shop.invoke("checkpoint set", "--current").exit_code == 0
    with closing(own_server.connect()) as connection:
        execute(connection, "INSERT INTO shop.items VALUES (1)")
        execute(connection, "FLUSH BINARY LOGS")
        ((current, *_),) = execute(connection, "SHOW BINARY LOG STATUS")
        execute(connection, f"PURGE BINARY LOGS TO '{current}'")

    assert reasons(own_shop) == ["data_gap"]
    for path in own_shop.file.parent.glob("*.db*"):
        path.unlink()
    (finding,) = found(own_shop)
    assert finding["reason"] == "data_gap"
    assert "no position yet" in finding["detail"]
    assert own_shop.files() == set()


def test_a_deleted_mirror_is_found(items: Database, shop: Shop) -> None:
    """D12: and not made anew by the look."""
    shop.mirror.unlink()

    assert reasons(shop) == ["sink_position_lost"]
    assert not shop.mirror.exists()


def test_files_that_are_not_ours_are_found(items: Database, shop: Shop) -> None:
    """A store that cannot be read does not keep the mirror and the server from being looked at."""
    shop.state.write_text("not a database, but long enough to look at\n" * 100)
    shop.mirror.write_text("neither\n" * 200)

    assert reasons(shop) == ["store_failed", "sink_failed"]


def test_a_server_that_is_not_there_is_found_beside_the_rest(items: Database, shop: Shop) -> None:
    """An unreachable server does not hide what the store says."""
    shop.mirror.unlink()
    text = shop.file.read_text()
    shop.file.write_text(text.replace(f"port = {items.server.port}", "port = 1"))

    told = found(shop)
    assert [f["reason"] for f in told] == ["sink_position_lost", "command_retries_exhausted"]
    assert told[1]["detail"] == "the server was not reached: connect, code 2003"


def test_a_wrong_password_is_found(
    items: Database, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R265: by its code; the password is nowhere."""
    monkeypatch.setenv(PASSWORD_VARIABLE, "sentinel-password")

    (finding,) = found(shop)
    assert (finding["reason"], finding["detail"]) == ("auth_failed", "code 1045")
    assert "sentinel" not in json.dumps(finding)


def test_a_running_pipeline_is_looked_at_and_left_alone(items: Database, shop: Shop) -> None:
    """A held store is told, but is no finding; the run does not notice."""
    process = shop.stream(items.server)
    result = shop.invoke("check")
    items.execute("INSERT INTO items VALUES (1, 'a')")
    process.send(signal.SIGTERM)

    assert result.exit_code == 0, result.output
    note, ready = result.stdout.splitlines()
    assert note == "note: a pipeline holds the store; a run can start when that one has ended"
    assert ready.startswith("ready: a run would start behind ")
    assert process.ended() == (0, "", "")
    assert shop.invoke("check").stdout.startswith("ready: ")


def fake(monkeypatch: pytest.MonkeyPatch, source: ScriptedSource) -> None:
    """Let the command line look at a scripted source."""
    monkeypatch.setattr(server_look, "live_source", lambda _: source)


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("check", []),
        ("checkpoint set", ["--current"]),
        ("checkpoint add", [f"{STRANGER}:1"]),
    ],
)
def test_a_server_that_is_not_supported_has_no_position(
    items: Database,
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    arguments: list[str],
) -> None:
    """D26: of such a server nothing else is asked, so nothing else may be concluded."""
    maria = ServerFacts(version_text="11.4.2-MariaDB", version=(11, 4, 2), flavour=Flavour.MARIADB)
    fake(monkeypatch, ScriptedSource(lambda _: [], maria))
    before = shop.shown()
    result = shop.invoke(command, *arguments)

    assert result.exit_code == 3
    assert halt_in(result.stderr)["reason"] == "server_not_supported"
    assert shop.shown() == before


def test_a_transaction_that_is_not_executed_yet_is_looked_at_again(
    items: Database, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D14: under semi-sync a transaction is sent before gtid_executed has it."""
    facts = attrs.evolve(GOOD_FACTS, gtid_executed=GtidSet.parse(f"{SERVER_UUID}:1-4"))
    source = Settling(lambda _: [], facts)
    fake(monkeypatch, source)
    last = Gtid.parse(f"{SERVER_UUID}:5")
    with closing(SqliteStore(shop.state)) as store:
        store.save_watermark(
            GtidSet.parse(f"{SERVER_UUID}:1-5"),
            Anchor(gtid=last, commit_micros=1, arrived_micros=1, server_uuid=SERVER_UUID),
        )
    shop.mirror.unlink()

    assert shop.invoke("check").exit_code == 0
    assert source.looks == 2


class Settling(ScriptedSource):
    """Has the fifth transaction at the second look."""

    looks = 0

    def link(self) -> ScriptedLink:
        link = super().link()
        link.executed = self.executed  # type: ignore[method-assign]
        return link

    def executed(self) -> GtidSet:
        self.looks += 1
        return GtidSet.parse(f"{SERVER_UUID}:1-{3 + self.looks}")


def test_the_position_is_read_before_the_servers(
    items: Database, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D14: a pipeline that goes on while it is looked at is not ahead of its source."""
    fake(monkeypatch, MovingOn(shop))
    with closing(SqliteStore(shop.state)) as store:
        store.save_watermark(GtidSet.parse(f"{SERVER_UUID}:1-5"))
    shop.mirror.unlink()

    assert shop.invoke("check").stdout == f"ready: a run would start behind {SERVER_UUID}:1-5\n"


class MovingOn(ScriptedSource):
    """A transaction is committed and processed as soon as the server has answered."""

    def __init__(self, shop: Shop) -> None:
        executed = GtidSet.parse(f"{SERVER_UUID}:1-5")
        super().__init__(lambda _: [], attrs.evolve(GOOD_FACTS, gtid_executed=executed))
        self._shop = shop

    def link(self) -> ScriptedLink:
        link = super().link()
        link.open = self._open  # type: ignore[method-assign]
        return link

    def _open(self) -> ServerFacts:
        with closing(SqliteStore(self._shop.state)) as store:
            store.save_watermark(GtidSet.parse(f"{SERVER_UUID}:1-6"))
        return self.facts


def test_the_rights_of_a_backfill_are_proven(
    database: Database, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R152, D4: LOCK TABLES is tried, and its GRANT is the remedy; with it a run would start."""
    monkeypatch.setenv(PASSWORD_VARIABLE, "locksmith")
    database.execute("CREATE TABLE items (id INT PRIMARY KEY)")
    user = f"u{database.name[-12:]}"
    database.execute(f"CREATE USER {user}@'%' IDENTIFIED BY 'locksmith'")
    database.execute(f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {user}@'%'")
    database.execute(f"GRANT SELECT ON {database.name}.* TO {user}@'%'")
    here = database.server
    as_user = ExternalServer(f"mysql://{user}:locksmith@{here.host}:{here.port}")
    shop.write(as_user, f"{database.name}.items", more="[snapshot]")
    result = shop.invoke("check")
    assert result.exit_code == 3
    assert halt_in(result.stderr)["reason"] == "snapshot_privilege_missing"
    assert "GRANT SELECT, LOCK TABLES ON `capstan" in result.stdout

    database.execute(f"GRANT LOCK TABLES ON {database.name}.* TO {user}@'%'")
    result = shop.invoke("check")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("ready: a run would start where the source stands then")
    database.execute(f"DROP USER {user}@'%'")
