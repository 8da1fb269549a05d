"""The examples do what they say, against a real server that was set up as the README says."""

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.mysql import PrivateServers, execute
from helpers.waiting import wait_until

from capstan.demo.mysql_server import MysqlServer

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PASSWORD = "a password of your own"

Start = Callable[..., "subprocess.Popen[bytes]"]


def readme_statements() -> list[str]:
    """Every SQL statement of the README, in order."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sql\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"^(\S.*);", "\n".join(blocks), re.MULTILINE)


@pytest.fixture
def shop(new_server: PrivateServers) -> Iterator[MysqlServer]:
    """A server with its own default metadata, set up by the README's statements alone."""
    server = new_server(options={"binlog_row_metadata": "MINIMAL"})
    with contextlib.closing(server.connect()) as connection:
        for statement in readme_statements():
            execute(connection, statement)
        execute(connection, "CREATE DATABASE shop")
        execute(connection, "CREATE TABLE shop.orders (id INT PRIMARY KEY, state VARCHAR(20))")
    return server


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts Python programs in a folder of their own; what still runs at the end is killed."""
    running: list[subprocess.Popen[bytes]] = []
    environment = {**os.environ, "PASSWORD": PASSWORD, "PYTHONPATH": str(ROOT)}

    def begin(*arguments: str, name: str) -> "subprocess.Popen[bytes]":
        with (
            (tmp_path / f"{name}.out").open("ab") as out,
            (tmp_path / f"{name}.err").open("ab") as err,
        ):
            process = subprocess.Popen(
                [sys.executable, *arguments], cwd=tmp_path, env=environment, stdout=out, stderr=err
            )
        running.append(process)
        return process

    yield begin
    for process in running:
        process.kill()
        process.wait()


def run(server: MysqlServer, *statements: str) -> None:
    """Run statements as root."""
    with contextlib.closing(server.connect()) as connection:
        for statement in statements:
            execute(connection, statement)


def test_the_readme_names_rights_and_settings() -> None:
    """The statements of the README are found, so that the tests below use all of them."""
    words = [statement.split()[0] for statement in readme_statements()]
    assert words == ["SET", "SELECT", "CREATE", "GRANT", "GRANT", "GRANT"]


def test_print_changes_prints_each_change_once_and_goes_on_where_it_stood(
    shop: MysqlServer, start: Start, tmp_path: Path
) -> None:
    """R31: the README's program prints what is committed, and after a restart what is new."""
    program = (EXAMPLES / "print_changes.py").read_text(encoding="utf-8")
    program = program.replace("port=3306", f"port={shop.port}")
    printed = tmp_path / "print.out"

    def lines() -> list[str]:
        """What was printed, without the GTIDs."""
        return [line.partition(" ")[2] for line in printed.read_text().splitlines()]

    run(shop, "INSERT INTO shop.orders VALUES (7, 'new'), (8, 'new')")
    first = start("-c", program, name="print")
    wait_until(lambda: printed.exists() and len(lines()) == 2, what="two inserts are printed")
    run(shop, "UPDATE shop.orders SET state = 'paid' WHERE id = 7")
    wait_until(lambda: len(lines()) == 3, what="the update is printed")
    first.send_signal(signal.SIGINT)
    first.wait(timeout=30)
    run(shop, "DELETE FROM shop.orders WHERE id = 8")
    start("-c", program, name="print")
    wait_until(lambda: len(lines()) > 3, what="the delete is printed")

    assert lines() == [
        "insert shop orders (7,)",
        "insert shop orders (8,)",
        "update shop orders (7,)",
        "delete shop orders (8,)",
    ]


def mirrored(file: Path) -> list[tuple[Any, ...]]:
    """The mirror's rows; none while there is no file or no table."""
    if not file.exists():
        return []
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        try:
            return connection.execute('SELECT * FROM "shop.orders" ORDER BY id').fetchall()
        except sqlite3.OperationalError:
            return []


def mirror_arguments(server: MysqlServer) -> tuple[str, ...]:
    """The command line of the mirror example."""
    script = str(EXAMPLES / "mirror_to_sqlite.py")
    return (script, server.host, str(server.port), "repl", "shop.*", "shop.mirror")


def test_the_mirror_survives_a_kill_and_ends_in_good_order(
    shop: MysqlServer, start: Start, tmp_path: Path
) -> None:
    """R31: killed and started again, the mirror goes on from its own position; SIGTERM ends it."""
    file = tmp_path / "shop.mirror"
    run(shop, "INSERT INTO shop.orders VALUES (1, 'new'), (2, 'new')")
    first = start(*mirror_arguments(shop), name="mirror")
    wait_until(lambda: len(mirrored(file)) == 2, what="two rows are mirrored")
    first.kill()
    first.wait()
    run(shop, "UPDATE shop.orders SET state = 'paid' WHERE id = 1")
    second = start(*mirror_arguments(shop), name="mirror")
    wait_until(lambda: (1, "paid") in mirrored(file), what="the update is mirrored")
    second.send_signal(signal.SIGTERM)

    assert second.wait(timeout=60) == 0
    assert mirrored(file) == [(1, "paid"), (2, "new")]


def test_the_mirror_says_why_it_halts(shop: MysqlServer, start: Start, tmp_path: Path) -> None:
    """R54: a halt ends the example with its reason, and with status 3."""
    run(shop, "ALTER USER 'repl'@'%' IDENTIFIED BY 'another'")
    refused = start(*mirror_arguments(shop), name="mirror")

    assert refused.wait(timeout=60) == 3
    assert "docs/halts.md#auth_failed" in (tmp_path / "mirror.err").read_text()
