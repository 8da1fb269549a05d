"""The mirror's file: private, locked, recognised, in step with itself after any kill."""

import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from helpers.changes_builder import (
    created,
    deleted,
    inserted,
    transaction,
    up_to,
    updated,
)
from helpers.mirror_reader import ORDERS, mirrored

from capstan.core.gtid import GtidSet
from capstan.core.halts import Halted
from capstan.sinks.sqlite_mirror import SqliteMirror


def test_the_files_are_private_durable_and_readable_by_others(
    mirror: SqliteMirror, path: Path
) -> None:
    """D12: what is reported survives a power cut; nobody else may read rows."""
    mirror.handle_batch([transaction(1, inserted(ORDERS, (1, "a")))])
    connection = mirror._file.writing()
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}


def test_a_second_pipeline_is_refused(mirror: SqliteMirror, path: Path) -> None:
    """`store_locked`: one mirror, one writer; its position can still be read."""
    mirror.handle_batch([transaction(1, inserted(ORDERS, (1, "a")))])
    with closing(SqliteMirror(path)) as second:
        assert second.position() == up_to(1)
        with pytest.raises(Halted, match=r"^store_locked: mirror .* is held by another pipeline$"):
            second.open()
        mirror.close()
        second.open()
        assert second.position() == up_to(1)


def test_a_closed_mirror_opens_again_where_it_was(mirror: SqliteMirror, path: Path) -> None:
    """D12: a restarted pipeline finds position, rows and catalogue."""
    mirror.handle_batch([created(1, "shop.orders"), transaction(2, inserted(ORDERS, (1, "a")))])
    mirror.close()
    mirror.open()
    assert mirror.position() == up_to(2)
    mirror.handle_batch([transaction(3, updated(ORDERS, ((1, "a"), (1, "b"))))])
    with pytest.raises(Halted, match=r"^mirror_drifted: "):
        mirror.handle_batch([transaction(4, deleted(ORDERS, (9, "z")))])
    assert mirrored(path, "shop.orders") == [(1, "b")]


def test_looking_at_the_position_makes_no_mirror(path: Path) -> None:
    """D12: `checkpoint show` leaves nothing behind."""
    with closing(SqliteMirror(path)) as mirror:
        assert mirror.position() == GtidSet()
    assert list(path.parent.iterdir()) == []


def test_a_mirror_deleted_while_it_runs_is_not_made_anew(mirror: SqliteMirror, path: Path) -> None:
    """D12: rows written to a file that nobody can find would be lost."""
    mirror.handle_batch([transaction(1, inserted(ORDERS, (1, "a")))])
    path.unlink()
    with pytest.raises(Halted, match=r"^sink_failed: mirror .* was deleted or exchanged"):
        mirror.handle_batch([transaction(2, inserted(ORDERS, (2, "b")))])
    assert not path.exists()


def test_a_mirror_deleted_while_a_batch_is_written_takes_nothing(
    mirror: SqliteMirror, path: Path
) -> None:
    """D12: the file is looked at again before the commit."""

    class Deleting(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            yield from list.__iter__(self)
            path.unlink()

    with pytest.raises(Halted, match=r"^sink_failed: mirror .* was deleted or exchanged"):
        mirror.handle_batch(Deleting([transaction(1, inserted(ORDERS, (1, "a")))]))


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (["CREATE TABLE x (a)"], "is not a mirror of capstan"),
        (["PRAGMA application_id = 1129336146", "PRAGMA user_version = 2"], "has format version 2"),
        (["PRAGMA application_id = 1129337684", "PRAGMA user_version = 1"], "is not a mirror"),
    ],
    ids=["foreign", "newer", "a store"],
)
def test_what_is_no_mirror_of_this_format_is_refused(
    path: Path, statements: list[str], why: str
) -> None:
    """R266: a foreign or newer file is left as it is."""
    with closing(sqlite3.connect(path)) as other:
        for statement in statements:
            other.execute(statement)
    before = path.read_bytes()
    mirror = SqliteMirror(path)
    with pytest.raises(Halted, match=rf"^sink_failed: mirror .* {why}"):
        mirror.open()
    mirror.close()
    assert path.read_bytes() == before


def test_a_position_that_cannot_be_read_is_a_halt(mirror: SqliteMirror, path: Path) -> None:
    """R44: a damaged position is never taken for an empty one."""
    mirror.close()
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE _capstan_position SET gtid_set = 'nonsense'")
        other.commit()
    with pytest.raises(Halted, match=r"^sink_failed: mirror .*: ValueError$"):
        mirror.open()
    with pytest.raises(Halted, match=r"^sink_failed: mirror .*: ValueError$"):
        mirror.position()


def test_a_table_taken_away_by_hand_is_a_halt(mirror: SqliteMirror, path: Path) -> None:
    """R266: what somebody does to the mirror's tables shows, by name and code."""
    mirror.handle_batch([transaction(1, inserted(ORDERS, (1, "a")))])
    with closing(sqlite3.connect(path)) as other:
        other.execute('DROP TABLE "shop.orders"')
        other.commit()
    with pytest.raises(Halted, match=r"^sink_failed: shop.orders: OperationalError SQLITE_ERROR$"):
        mirror.handle_batch([transaction(2, inserted(ORDERS, (2, "b")))])


CRASH = """
import os, signal, sys
sys.path[:0] = [sys.argv[2]]
from helpers.changes_builder import created, inserted, shape, transaction, updated
from capstan.files import SqliteFile
from capstan.sinks.sqlite_mirror import SqliteMirror

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

moment = sys.argv[3]
orders = shape("shop.orders", "id int", "note varchar(20)", key=("id",))
mirror = SqliteMirror(sys.argv[1])
mirror.open()
mirror.handle_batch([created(1, "shop.orders"), transaction(2, inserted(orders, (1, "a")))])

class Items(list):
    def __iter__(self):
        yield transaction(3, inserted(orders, (2, "b")), updated(orders, ((1, "a"), (1, "A"))))
        if moment == "between items":
            die()
        yield created(4, "shop.other")
        if moment == "after a schema change":
            die()

if moment == "before the commit":
    SqliteFile.check_present = lambda self: die() if self._connection.in_transaction else None
mirror.handle_batch(Items())
if moment == "after the commit":
    die()
"""


@pytest.mark.parametrize(
    ("moment", "arrived"),
    [
        ("between items", False),
        ("after a schema change", False),
        ("before the commit", False),
        ("after the commit", True),
    ],
)
def test_a_killed_writer_leaves_data_and_position_in_step(
    path: Path, moment: str, arrived: bool
) -> None:
    """D12: SIGKILL between any two steps: a whole batch with its position, or none of it."""
    helpers = str(Path(__file__).parent.parent)
    ended = subprocess.run([sys.executable, "-c", CRASH, str(path), helpers, moment], check=False)
    assert ended.returncode == -9
    with closing(SqliteMirror(path)) as mirror:
        mirror.open()
        assert mirror.position() == up_to(4 if arrived else 2)
        expected = [(1, "A"), (2, "b")] if arrived else [(1, "a")]
        assert mirrored(path, "shop.orders") == expected
        number = 5 if arrived else 3
        mirror.handle_batch([transaction(number, inserted(ORDERS, (3, "c")))])
        assert mirrored(path, "shop.orders") == [*expected, (3, "c")]


WRITER = """
import sys
sys.path[:0] = [sys.argv[2]]
from helpers.changes_builder import created, inserted, shape, transaction, updated
from capstan.sinks.sqlite_mirror import SqliteMirror

orders = shape("shop.orders", "id int", "note varchar(20)", key=("id",))
total = shape("shop.total", "id int", "n int", key=("id",))
mirror = SqliteMirror(sys.argv[1])
mirror.open()
last = mirror.position().count()
if not last:
    mirror.handle_batch([created(1, "shop.orders"), created(2, "shop.total"),
                         transaction(3, inserted(total, (0, 3)))])
    last = 3
while True:
    batch = [transaction(n, inserted(orders, (n, "x" * 20)), updated(total, ((0, n - 1), (0, n))))
             for n in range(last + 1, last + 20)]
    mirror.handle_batch(batch)
    last += len(batch)
    print(last, flush=True)
"""


def test_writers_killed_at_any_time_lose_nothing_and_repeat_nothing(path: Path) -> None:
    """D12: after each of several kills the rows are exactly those of the reported position."""
    helpers = str(Path(__file__).parent.parent)
    reached = 0
    for round_ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), helpers], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for _ in range(3 + round_):
                reached = int(process.stdout.readline())
            process.kill()
        with closing(SqliteMirror(path)) as mirror:
            count = mirror.position().count()
            assert mirror.position() == up_to(count)
            assert count >= reached
            assert mirrored(path, "shop.total") == [(0, count)]
            assert [row[0] for row in mirrored(path, "shop.orders")] == list(range(4, count + 1))
