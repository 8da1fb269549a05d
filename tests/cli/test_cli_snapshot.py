"""`capstan snapshot …`: a backfill looked at, and begun again while the stream runs."""

import json
import sqlite3
from contextlib import closing

import pytest
from helpers.command_line import Shop, halt_in
from helpers.mirror_reader import mirrored
from helpers.mysql import Database
from helpers.pipelines import executed

SNAPSHOT = "[snapshot]\nchunk_size = 2"


@pytest.fixture
def filled(items: Database, shop: Shop) -> Database:
    """The table with five rows from before, and a configuration that backfills it."""
    items.execute("INSERT INTO items VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e')")
    shop.state.unlink()
    shop.mirror.unlink()
    shop.write(items.server, f"{items.name}.items", more=SNAPSHOT)
    return items


def run_to_the_end(database: Database, shop: Shop) -> None:
    """Backfill and stream everything that the server has."""
    result = shop.invoke("run", "--until", str(executed(database.server)))
    assert result.exit_code == 0, result.output


def shown(shop: Shop) -> object:
    result = shop.invoke("snapshot show")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_run_until_a_set_waits_for_the_backfill(filled: Database, shop: Shop) -> None:
    """R61: the rows of before are in the mirror when it ends."""
    assert shown(shop) is None
    run_to_the_end(filled, shop)

    assert [row[0] for row in mirrored(shop.mirror, f"{filled.name}.items")] == [1, 2, 3, 4, 5]
    name = f"{filled.name}.items"
    assert shown(shop) == {
        "complete": True,
        "patterns": [name],
        "tables": {name: {"rows": 5, "chunks": 3, "complete": True}},
    }


@pytest.mark.parametrize("whole", [True, False])
def test_redo_reads_a_table_again(filled: Database, shop: Shop, *, whole: bool) -> None:
    """R163, D8: the mirror's rows are replaced by those of the source, and nothing is left."""
    run_to_the_end(filled, shop)
    name = f"{filled.name}.items"
    result = shop.invoke("snapshot redo", *([] if whole else [name]))
    assert result.stdout == f"to be backfilled again: {name}\n"
    assert shown(shop) is None if whole else shown(shop)["complete"] is False  # type: ignore[index]

    filled.execute("DELETE FROM items WHERE id > 3")
    run_to_the_end(filled, shop)

    assert [row[0] for row in mirrored(shop.mirror, name)] == [1, 2, 3]


def test_redo_is_the_remedy_for_stale_rows(filled: Database, shop: Shop) -> None:
    """D28: the halt names the command; behind it a run passes the ALTER and reads the rows."""
    run_to_the_end(filled, shop)
    filled.execute("ALTER TABLE items DROP COLUMN name, ADD COLUMN name INT DEFAULT 7")
    result = shop.invoke("run", "--until", str(executed(filled.server)))
    assert result.exit_code == 3
    halt = halt_in(result.stderr)
    assert halt["reason"] == "mirror_rows_stale"
    assert "capstan snapshot redo FILE.toml" in halt["remedy"]

    assert shop.invoke("snapshot redo", f"{filled.name}.items").exit_code == 0
    run_to_the_end(filled, shop)

    assert mirrored(shop.mirror, f"{filled.name}.items") == [(n, 7) for n in range(1, 6)]


@pytest.mark.parametrize(
    ("arguments", "words"), [(["shop.nothing"], "shop.nothing"), ([], "no backfill has begun")]
)
def test_redo_refuses_what_is_not_there(
    filled: Database, shop: Shop, arguments: list[str], words: str
) -> None:
    """A wrong name, or no backfill at all, is told and changes nothing."""
    if arguments:
        run_to_the_end(filled, shop)
    result = shop.invoke("snapshot redo", *arguments)

    assert result.exit_code == 2
    assert words in result.stderr


def test_without_a_snapshot_section_there_is_nothing_to_redo(items: Database, shop: Shop) -> None:
    """R69: said in one line."""
    result = shop.invoke("snapshot redo")

    assert result.exit_code == 2
    assert "[snapshot]" in result.stderr


def test_verify_says_identical_or_not_by_its_exit_code(filled: Database, shop: Shop) -> None:
    """Without a running pipeline the command streams by itself; counts, never values."""
    run_to_the_end(filled, shop)
    filled.execute("UPDATE items SET name = 'later' WHERE id = 1")
    name = f"{filled.name}.items"
    same = shop.invoke("verify")
    assert same.exit_code == 0, same.output
    assert same.stdout == f"{name}: 5 rows, identical\nidentical: yes\n"

    with closing(sqlite3.connect(shop.mirror)) as connection:
        connection.execute(f"UPDATE \"{name}\" SET name = 'sentinel' WHERE id = 4")
        connection.commit()
    other = shop.invoke("verify")
    assert other.exit_code == 4
    assert "1 differing of 5 rows, in range 1 of 3" in other.stdout
    assert "sentinel" not in other.output
    (table,) = json.loads(shop.invoke("verify", "--json").stdout)["tables"]
    assert table["findings"] == [{"range": 1, "missing": 0, "extra": 0, "differing": 1}]
