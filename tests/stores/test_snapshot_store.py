"""Where the backfill's state is kept: one contract for all stores, and what a file adds to it."""

import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import attrs
import pytest
from helpers.changes_builder import UUID, up_to

from capstan.core.gtid import GtidSet
from capstan.core.halts import Halted
from capstan.core.snapshot.progress import SnapshotState, TableProgress, resolved
from capstan.core.tables import TableName
from capstan.stores.base import Store
from capstan.stores.memory import MemoryStore
from capstan.stores.sqlite import SqliteStore

T, U = TableName("shop", "t"), TableName("shop", 'ü"; --')
SECRET = 987654321
BEGUN = TableProgress(
    schema="shop",
    table="t",
    key_columns=("a", 'b"'),
    shape_digest="d1",
    cursor=(2**64 - 1, b"", -(2**63)),
    delivered=(2**64 - 1, b"\0\xff\0", SECRET),
    sequence=3,
    first_position=GtidSet.parse(f"{UUID}:1-3:7:blue:2"),
    rows=2**40,
)
STATE = resolved(["shop.*"], [T, U]).replaced(BEGUN)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture(params=[SqliteStore, MemoryStore])
def store(request: pytest.FixtureRequest, path: Path) -> Iterator[Store]:
    kind: Callable[..., Store] = request.param
    with closing(kind(path) if kind is SqliteStore else kind()) as made:
        yield made


def test_no_backfill_is_none(store: Store) -> None:
    """R60: also when there is a position."""
    assert store.load_snapshot() is None
    store.save_watermark(up_to(3))
    assert store.load_snapshot() is None


@pytest.mark.parametrize(
    "state",
    [
        STATE,
        STATE.redone(),
        attrs.evolve(STATE, patterns=()),
        attrs.evolve(STATE, tables=STATE.tables[::-1]),
        STATE.replaced(attrs.evolve(BEGUN, complete=True, cursor=None, first_position=GtidSet())),
    ],
)
def test_a_state_comes_back_as_it_was(store: Store, state: SnapshotState) -> None:
    """R60, R107, R147, case 141: keys beyond 63 bits, bytes, order, absent marks, odd names."""
    store.save_snapshot(STATE)
    store.save_snapshot(state)
    store.close()
    assert store.load_snapshot() == state


def test_backfill_and_position_do_not_touch_each_other(store: Store) -> None:
    """R57, R58, R60: neither write changes what the other one keeps."""
    store.save_watermark(up_to(3), None, up_to(2))
    store.save_snapshot(STATE)
    assert (store.load_watermark(), store.load_sink_position()) == (up_to(3), up_to(2))
    store.save_watermark(up_to(4))
    assert store.load_snapshot() == STATE
    store.clear_snapshot()
    assert store.load_watermark() == up_to(4)


def test_a_cleared_backfill_is_none_again(store: Store) -> None:
    """R163: and clearing what is not there is nothing."""
    store.clear_snapshot()
    store.save_snapshot(STATE)
    store.clear_snapshot()
    assert store.load_snapshot() is None
    store.save_snapshot(STATE)
    assert store.load_snapshot() == STATE


def test_one_table_is_put_back_to_its_start(store: Store) -> None:
    """R160, R163: it stays in the set, the others stay as they are."""
    done = STATE.replaced(attrs.evolve(STATE.tables[1], complete=True))
    store.save_snapshot(done)
    store.clear_snapshot(T)
    assert store.load_snapshot() == done.redone(T)


def test_a_table_outside_cannot_be_put_back(store: Store) -> None:
    """R160: with a backfill and without one."""
    for name in (T, TableName("shop", "x")):
        with pytest.raises(ValueError, match="no table of this backfill"):
            store.clear_snapshot(name)
        store.save_snapshot(attrs.evolve(STATE, tables=STATE.tables[1:]))


# -- files -----------------------------------------------------------------------------------------


@pytest.fixture
def file(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(path)) as made:
        yield made


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def as_format_1(path: Path) -> None:
    """The file as it was before backfills: the same mark, no tables for them."""
    change(
        path,
        "DROP TABLE snapshot",
        "DROP TABLE snapshot_table",
        "PRAGMA user_version = 1",
    )


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def test_looking_for_a_backfill_makes_no_file(file: SqliteStore, path: Path) -> None:
    """R60: neither loading nor clearing."""
    assert file.load_snapshot() is None
    file.clear_snapshot()
    assert not path.exists()


def test_an_older_file_is_read_as_it_is_and_grows_with_the_first_backfill(
    file: SqliteStore, path: Path
) -> None:
    """R60: loading changes nothing, saving makes room, and what stood there stays."""
    file.save_watermark(up_to(3))
    file.save_tables(["shop.*"])
    file.close()
    as_format_1(path)
    assert file.load_snapshot() is None
    file.clear_snapshot()
    file.save_watermark(up_to(4))
    assert version_of(path) == 1
    file.save_snapshot(STATE)
    assert version_of(path) == 2
    assert file.load_snapshot() == STATE
    assert (file.load_watermark(), file.load_tables()) == (up_to(4), ("shop.*",))


def test_a_newer_file_is_refused(file: SqliteStore, path: Path) -> None:
    """R44: whatever it holds, it is neither read nor written."""
    file.save_snapshot(STATE)
    file.close()
    change(path, "PRAGMA user_version = 3")
    for use in (file.load_snapshot, lambda: file.save_snapshot(STATE), file.clear_snapshot):
        with pytest.raises(Halted, match=r"^store_failed: .* has format version 3; "):
            use()
        file.close()


@pytest.mark.parametrize("way", ["ABORT", "ROLLBACK"])
def test_a_failed_write_leaves_the_old_state(file: SqliteStore, path: Path, way: str) -> None:
    """R42, R129: all tables change together or none does, whoever rolled the write back."""
    file.save_snapshot(STATE)
    change(
        path,
        "CREATE TRIGGER refuse BEFORE INSERT ON snapshot_table WHEN new.place = 1"
        f" BEGIN SELECT raise({way}, 'no'); END",
    )
    for use in (lambda: file.save_snapshot(STATE.redone()), lambda: file.clear_snapshot(T)):
        with pytest.raises(Halted, match=r"^store_failed: .*SQLITE_CONSTRAINT_TRIGGER$"):
            use()
    assert file.load_snapshot() == STATE
    file.save_watermark(up_to(9))


def test_an_older_file_that_cannot_grow_stays_as_it_was(file: SqliteStore, path: Path) -> None:
    """R42: making room is part of the one write."""
    file.save_watermark(up_to(3))
    file.close()
    as_format_1(path)
    change(path, "CREATE TABLE snapshot_table (something)")
    with pytest.raises(Halted, match=r"^store_failed: "):
        file.save_snapshot(STATE)
    assert version_of(path) == 1
    assert file.load_watermark() == up_to(3)


def test_what_is_saved_survives_a_kill(path: Path) -> None:
    """R107, R123: another process reads the state that a killed one had saved."""
    code = (
        "import os, signal, sys\n"
        "from capstan.core.snapshot.progress import resolved\n"
        "from capstan.core.tables import TableName\n"
        "from capstan.stores.sqlite import SqliteStore\n"
        "state = resolved(['shop.t'], [TableName('shop', 't')])\n"
        "SqliteStore(sys.argv[1]).save_snapshot(state)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    with closing(SqliteStore(path)) as store:
        assert store.load_snapshot() == resolved(["shop.t"], [T])


def test_the_file_is_private_and_locked(file: SqliteStore, path: Path) -> None:
    """R119: keys stand in it: only its owner may read it, and one pipeline writes."""
    file.save_snapshot(STATE)
    assert {stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()} == {0o600}
    with closing(SqliteStore(path)) as second:
        assert second.load_snapshot() == STATE
        for use in (lambda: second.save_snapshot(STATE), second.clear_snapshot):
            with pytest.raises(Halted, match=r"^store_locked: "):
                use()


@pytest.mark.parametrize(
    "damage",
    [
        f"UPDATE snapshot_table SET cursor = '{SECRET},zz'",
        f"UPDATE snapshot_table SET delivered = '0{SECRET}'",
        "UPDATE snapshot_table SET first_position = 'no set'",
        "UPDATE snapshot_table SET key_columns = '7'",
        "UPDATE snapshot_table SET sequence = 'two'",
        "UPDATE snapshot SET patterns = '['",
        "DROP TABLE snapshot_table",
    ],
)
def test_a_state_that_cannot_be_read_is_a_halt(file: SqliteStore, path: Path, damage: str) -> None:
    """R44, R265: never mended, and nothing of it in the halt."""
    file.save_snapshot(STATE)
    change(path, damage)
    with pytest.raises(Halted, match=r"^store_failed: store ") as caught:
        file.load_snapshot()
    assert str(SECRET) not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_damaged_state_can_be_forgotten(file: SqliteStore, path: Path) -> None:
    """R163: clearing does not need to read what it clears."""
    file.save_snapshot(STATE)
    change(path, "UPDATE snapshot SET patterns = '['")
    file.clear_snapshot()
    assert file.load_snapshot() is None
