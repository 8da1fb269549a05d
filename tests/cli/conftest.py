"""A configuration file for each test, and a table on the shared server that it mirrors."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.command_line import PASSWORD_VARIABLE, STANDARD_OUTPUT, Shop
from helpers.mysql import Database


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A configuration file that is still to be written."""
    monkeypatch.setenv(PASSWORD_VARIABLE, "")
    folder = tmp_path / "shop"
    folder.mkdir()
    with contextlib.closing(Shop(file=folder / "shop.toml")) as made:
        yield made


@pytest.fixture
def items(database: Database, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database with a table that `shop` mirrors from now on."""
    monkeypatch.setenv(PASSWORD_VARIABLE, database.server.password)
    database.execute("CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(2000))")
    shop.write(database.server, f"{database.name}.items")
    shop.start_from_now()
    return database


@pytest.fixture
def printed(items: Database, shop: Shop) -> Database:
    """The same table, printed on standard output instead."""
    shop.write(items.server, f"{items.name}.items", sink=STANDARD_OUTPUT)
    shop.start_from_now()
    return items
