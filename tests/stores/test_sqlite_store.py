"""The durable store: what a file adds to the contract."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from helpers.changes_builder import UUID, up_to

from capstan.core.halts import Halted
from capstan.stores.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(path)) as made:
        yield made


def test_looking_leaves_no_trace(store: SqliteStore, path: Path) -> None:
    """A store that nobody wrote is not made by loading, holding or closing."""
    assert store.load_watermark() is None
    store.hold()
    store.close()
    assert not path.exists()


def test_what_is_saved_is_on_disk_when_the_call_returns(store: SqliteStore, path: Path) -> None:
    """R31: another process reads the new position at once, without the lock."""
    store.save_watermark(up_to(7))
    code = (
        "import sys; from capstan.stores.sqlite import SqliteStore\n"
        "store = SqliteStore(sys.argv[1]); print(store.load_watermark()); store.close()"
    )
    seen = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert seen.stdout == f"{UUID}:1-7\n"


def test_a_killed_writer_leaves_its_last_save(path: Path) -> None:
    """R31: what `save_watermark` returned from survives SIGKILL, and the lock dies with it."""
    code = (
        "import os, signal, sys; from capstan.core.gtid import GtidSet\n"
        "from capstan.stores.sqlite import SqliteStore\n"
        "store = SqliteStore(sys.argv[1])\n"
        f"store.save_watermark(GtidSet.parse('{UUID}:1-9'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    with closing(SqliteStore(path)) as store:
        store.hold()
        assert store.load_watermark() == up_to(9)


def test_a_second_pipeline_is_refused(store: SqliteStore, path: Path) -> None:
    """`store_locked`: a held store can be read by others, but not held or written."""
    store.hold()
    store.save_watermark(up_to(1))
    with closing(SqliteStore(path)) as second:
        assert second.load_watermark() == up_to(1)
        for use in (
            second.hold,
            lambda: second.save_watermark(up_to(2)),
            lambda: second.save_tables([]),
        ):
            with pytest.raises(Halted, match=r"^store_locked: "):
                use()
    assert store.load_watermark() == up_to(1)


def test_writing_without_holding_takes_the_lock(store: SqliteStore, path: Path) -> None:
    """A command that writes keeps a pipeline out until it closes the store."""
    store.save_watermark(up_to(1))
    with closing(SqliteStore(path)) as pipeline:
        with pytest.raises(Halted, match=r"^store_locked: "):
            pipeline.hold()
        store.close()
        pipeline.hold()


def test_a_refused_hold_keeps_no_lock(store: SqliteStore, path: Path) -> None:
    """A damaged file can be mended and held without ending the process."""
    path.write_bytes(b"damaged")
    with pytest.raises(Halted, match=r"^store_failed: "):
        store.hold()
    path.unlink()
    with closing(SqliteStore(path)) as mended:
        mended.save_watermark(up_to(1))


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE position SET watermark = 'no set at all'",
        "UPDATE position SET watermark = x'00'",
        "DROP TABLE position",
    ],
)
def test_content_that_cannot_be_read_is_a_halt(store: SqliteStore, path: Path, damage: str) -> None:
    """R44: a watermark that is not exactly a GTID set is `store_failed`, never mended."""
    store.save_watermark(up_to(1))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(damage)
        connection.commit()
    with pytest.raises(Halted, match=r"^store_failed: store ") as caught:
        store.load_watermark()
    assert "no set" not in str(caught.value)


@pytest.mark.parametrize(
    ("damage", "load"),
    [
        ("UPDATE position SET anchor_gtid = 'nobody:1'", SqliteStore.load_anchor),
        ("UPDATE position SET sink_position = 'nothing'", SqliteStore.load_sink_position),
        ("UPDATE capture_list SET entries = '7'", SqliteStore.load_tables),
    ],
)
def test_companions_that_cannot_be_read_are_a_halt(
    store: SqliteStore, path: Path, damage: str, load: object
) -> None:
    """D12, D13, D16: so are a damaged anchor, sink position and capture list."""
    assert callable(load)
    store.save_watermark(up_to(1), None, up_to(1))
    store.save_tables(["a.*"])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(damage)
        connection.commit()
    with pytest.raises(Halted, match=r"^store_failed: store "):
        load(store)


def test_a_store_deleted_under_its_pipeline_is_not_made_anew(
    store: SqliteStore, path: Path
) -> None:
    """R42: a write that would go to a file nobody can find any more is a halt."""
    store.hold()
    store.save_watermark(up_to(1))
    path.unlink()
    with pytest.raises(Halted, match=r"^store_failed: .* was deleted or exchanged"):
        store.save_watermark(up_to(2))
    with pytest.raises(Halted, match=r"^store_failed: .* was deleted or exchanged"):
        store.load_watermark()
    assert not path.exists()


def test_a_failed_write_leaves_the_old_position(store: SqliteStore, path: Path) -> None:
    """R42: watermark, anchor and sink position change together or not at all."""
    store.save_watermark(up_to(1), None, up_to(1))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON position BEGIN SELECT raise(ABORT, 'no'); END"
        )
        connection.commit()
    with pytest.raises(
        Halted, match=r"^store_failed: .*: IntegrityError SQLITE_CONSTRAINT_TRIGGER"
    ):
        store.save_watermark(up_to(2), None, up_to(2))
    assert store.load_watermark() == up_to(1)
    assert store.load_sink_position() == up_to(1)


def test_a_store_says_what_it_is(store: SqliteStore, path: Path) -> None:
    """The repr names the file and nothing that stands in it."""
    store.save_watermark(up_to(1))
    assert repr(store) == f"SqliteStore({str(path)!r})"
