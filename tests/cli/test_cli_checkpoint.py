"""`capstan checkpoint …`: the position by hand, checked against the server, sink included."""

import json
import signal
from contextlib import closing
from pathlib import Path

import pytest
from helpers.command_line import PASSWORD_VARIABLE, Shop, halt_in, invoke
from helpers.mirror_reader import mirrored
from helpers.mysql import Database, PrivateServers, execute
from helpers.pipelines import executed

from capstan import GtidSet, SqliteMirror, SqliteStore
from capstan.core.halts import HaltReason, halted
from capstan.demo.mysql_server import MysqlServer

STRANGER = "99999999-8888-7777-6666-555555555555"


def run_to_the_end(items: Database, shop: Shop) -> None:
    """Stream everything that the server has."""
    result = shop.invoke("run", "--until", str(executed(items.server)))
    assert result.exit_code == 0, result.output


def position_of(mirror: Path) -> GtidSet:
    with closing(SqliteMirror(mirror)) as looked_at:
        return looked_at.position()


def refused(shop: Shop, command: str, *arguments: str) -> str:
    """The reason for which a command ends with 3."""
    result = shop.invoke(command, *arguments)
    assert result.exit_code == 3, result.output
    return str(halt_in(result.stderr)["reason"])


def test_an_empty_store_on_purged_logs_is_told_what_to_do_and_then_goes(
    new_server: PrivateServers, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R46, R65, R66: `no position yet`, the command, and after the command a run."""
    server = new_server()
    monkeypatch.setenv(PASSWORD_VARIABLE, server.password)
    shop.write(server, "shop.items")
    purged_shop(server)
    result = shop.invoke("run")
    assert result.exit_code == 3
    halt = halt_in(result.stderr)
    assert halt["reason"] == "data_gap"
    assert "no position yet" in halt["detail"]
    assert "capstan checkpoint set FILE.toml --current" in halt["remedy"]

    before = executed(server)
    assert shop.invoke("checkpoint set", "--current").stdout == f"position: {before}\n"
    with closing(server.connect()) as connection:
        execute(connection, "INSERT INTO shop.items VALUES (2)")
    assert shop.invoke("run", "--until", str(executed(server))).exit_code == 0
    assert mirrored(shop.mirror, "shop.items") == [(2,)]


def purged_shop(server: MysqlServer) -> None:
    with closing(server.connect()) as connection:
        for statement in (
            "CREATE DATABASE shop",
            "CREATE TABLE shop.items (id INT PRIMARY KEY)",
            "INSERT INTO shop.items VALUES (1)",
            "FLUSH BINARY LOGS",
        ):
            execute(connection, statement)
        ((current, *_),) = execute(connection, "SHOW BINARY LOG STATUS")
        execute(connection, f"PURGE BINARY LOGS TO '{current}'")


def test_a_position_set_by_hand_reaches_the_sink_and_clears_the_anchor(
    items: Database, shop: Shop
) -> None:
    """D12, D13: also backwards; what was delivered beyond it comes again."""
    items.execute("INSERT INTO items VALUES (1, 'a')")
    middle = executed(items.server)
    items.execute("INSERT INTO items VALUES (2, 'b')")
    run_to_the_end(items, shop)
    assert shop.shown()["anchor"] is not None

    result = shop.invoke("checkpoint set", str(middle))
    assert (result.exit_code, result.stdout) == (0, f"position: {middle}\n")
    shown = shop.shown()
    assert (shown["watermark"], shown["sink_position"]) == (str(middle), str(middle))
    assert shown["anchor"] is None
    assert position_of(shop.mirror) == middle
    run_to_the_end(items, shop)
    assert mirrored(shop.mirror, f"{items.name}.items") == [(1, "a"), (2, "b")]
    assert position_of(shop.mirror) == executed(items.server)


def test_a_set_that_broke_off_halfway_is_noticed(
    items: Database, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D12: the sink is set first; a store that was not set halts and goes nowhere in silence."""
    beginning = shop.shown()["watermark"]
    items.execute("INSERT INTO items VALUES (1, 'a')")
    run_to_the_end(items, shop)
    with monkeypatch.context() as broken:
        broken.setattr(SqliteStore, "save_watermark", break_off)
        assert refused(shop, "checkpoint set", beginning) == "store_failed"

    assert refused(shop, "run") == "sink_position_lost"
    assert shop.invoke("checkpoint set", beginning).exit_code == 0
    run_to_the_end(items, shop)


def break_off(*_: object) -> None:
    raise halted(HaltReason.STORE_FAILED, "broken off")


def test_a_position_that_the_server_cannot_serve_is_refused(items: Database, shop: Shop) -> None:
    """D14: nothing is written, and no file is made."""
    for path in (shop.mirror, shop.state):
        path.unlink()

    assert refused(shop, "checkpoint set", f"{STRANGER}:1-5") == "source_identity_mismatch"
    assert refused(shop, "checkpoint add", f"{STRANGER}:1-5") == "source_identity_mismatch"
    assert not shop.mirror.exists()
    assert not shop.state.exists()


def test_nothing_is_set_beside_a_running_pipeline(items: Database, shop: Shop) -> None:
    """A store has one writer; `show` may look at it meanwhile."""
    process = shop.stream(items.server)
    here = shop.shown()["watermark"]

    assert refused(shop, "checkpoint set", "--current") == "store_locked"
    assert refused(shop, "checkpoint add", f"{STRANGER}:1") == "store_locked"
    assert refused(shop, "checkpoint accept-tables") == "store_locked"
    assert shop.shown()["watermark"] == here
    process.send(signal.SIGTERM)
    assert process.ended() == (0, "", "")


def test_a_transaction_that_cannot_be_delivered_can_be_passed(items: Database, shop: Shop) -> None:
    """D21: the remedy of the halt, typed as it stands there."""
    before = executed(items.server)
    with items.connect() as session:
        execute(session, "SET binlog_format = STATEMENT")
        execute(session, "INSERT INTO items VALUES (1, 'a')")
    poison = executed(items.server) - before
    items.execute("INSERT INTO items VALUES (2, 'b')")
    assert refused(shop, "run") == "statement_based_change"

    result = shop.invoke("checkpoint add", str(poison))
    assert (result.exit_code, result.stdout) == (0, f"position: {before | poison}\n")
    run_to_the_end(items, shop)
    assert mirrored(shop.mirror, f"{items.name}.items") == [(2, "b")]


def test_adding_does_not_cover_up_a_lost_sink(items: Database, shop: Shop) -> None:
    """D12: a deleted mirror stays deleted, whatever is passed over."""
    shop.mirror.unlink()

    assert refused(shop, "checkpoint add", str(executed(items.server))) == "sink_position_lost"
    assert not shop.mirror.exists()


def test_adding_to_an_empty_store_begins_with_the_sinks_position(
    items: Database, shop: Shop
) -> None:
    """D12: a sink with a position beside an empty store is where the pipeline stands."""
    before = position_of(shop.mirror)
    shop.state.unlink()
    items.execute("INSERT INTO items VALUES (1, 'a')")
    new = executed(items.server) - before

    assert shop.invoke("checkpoint add", str(new)).exit_code == 0
    assert shop.shown()["watermark"] == str(before | new)


def test_a_longer_capture_list_is_accepted_by_command(items: Database, shop: Shop) -> None:
    """D16: refused until a person says that the past may be missing."""
    items.execute("CREATE TABLE more (id INT PRIMARY KEY)")
    run_to_the_end(items, shop)
    shop.write(items.server, f"{items.name}.items", f"{items.name}.more")
    assert refused(shop, "run") == "capture_config_drifted"

    result = shop.invoke("checkpoint accept-tables")
    assert result.exit_code == 0
    assert result.stdout == f"tables: {items.name}.items, {items.name}.more\n"
    items.execute("INSERT INTO more VALUES (1)")
    run_to_the_end(items, shop)
    assert mirrored(shop.mirror, f"{items.name}.more") == [(1,)]


def test_what_is_stored_is_shown_as_json(items: Database, shop: Shop) -> None:
    """All of it; and nulls, without a file coming into being, when there is nothing."""
    before = executed(items.server)
    items.execute("INSERT INTO items VALUES (1, 'a')")
    run_to_the_end(items, shop)
    here = executed(items.server)

    assert shop.shown() == {
        "watermark": str(here),
        "anchor": str(here - before),
        "sink_position": str(here),
        "tables": [f"{items.name}.items"],
    }
    for path in shop.file.parent.glob("*.db*"):
        path.unlink()
    assert set(shop.shown().values()) == {None}
    assert shop.files() == set()


def test_a_store_that_cannot_be_read_is_a_halt(items: Database, shop: Shop) -> None:
    """Whichever command asks it."""
    shop.state.write_text("not a database, but long enough to look at\n" * 100)

    for command, *arguments in (
        ("checkpoint show",),
        ("checkpoint set", "--current"),
        ("checkpoint accept-tables",),
        ("run",),
    ):
        assert refused(shop, command, *arguments) == "store_failed"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--current", f"{STRANGER}:1"],
        ["not-a-gtid-set"],
    ],
)
def test_a_position_that_makes_no_sense_is_refused_before_anything(
    items: Database, shop: Shop, arguments: list[str]
) -> None:
    """R44: exit 2, and no file is touched."""
    before = shop.shown()
    result = shop.invoke("checkpoint set", *arguments)

    assert result.exit_code == 2
    assert result.stderr.startswith("capstan: ")
    assert shop.shown() == before


def test_until_must_be_a_gtid_set(items: Database, shop: Shop) -> None:
    """R44: exit 2 before the pipeline is made."""
    result = shop.invoke("run", "--until", "uuid:1-x")

    assert result.exit_code == 2
    assert invoke("checkpoint", "add", str(shop.file)).exit_code == 2
    assert json.loads(shop.invoke("checkpoint show").stdout)["anchor"] is None
