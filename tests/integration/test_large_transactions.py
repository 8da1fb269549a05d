"""Large transactions on a real server and a real disk: whole, once, in flat memory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from helpers import large_transactions
from helpers.large_transactions import (
    MEBIBYTE_ROWS,
    TABLE,
    LargeSink,
    insert_large,
    open_below,
    peak_memory,
)
from helpers.mysql import Database
from helpers.pipelines import catch_up, executed, source_for, start_from_now
from helpers.waiting import wait_until

from capstan import Config, GtidSet, HaltReason, Limits, MemoryStore, Pipeline
from capstan.core.preflight import ServerFacts
from capstan.sources.base import Link, LinkLost, Source
from capstan.wiring import live_source

MIB = 1 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where is spooled."""
    made = tmp_path / "spool"
    made.mkdir()
    return made


@pytest.fixture
def large(database: Database) -> Database:
    """A database with the table of large transactions."""
    database.execute(TABLE)
    return database


def config(database: Database, folder: Path, sink: LargeSink, store: MemoryStore) -> Config:
    """A pipeline that holds a mebibyte in memory."""
    return Config(
        source=source_for(database.server),
        tables=[f"{database.name}.*"],
        sink=sink,
        store=start_from_now(store, database.server),
        limits=Limits(transaction_memory=MIB, spool_dir=str(folder)),
    )


def whole(sink: LargeSink, rows: int) -> bool:
    """Whether exactly one transaction came, spooled, with all its rows."""
    (seen,) = sink.seen
    return bool(seen["spooled"] and seen["rows"] == seen["right"] == rows and seen["files"] == 1)


@pytest.mark.parametrize(("mebibytes", "compressed"), [(40, False), (30, True)])
def test_a_large_transaction_arrives_whole_and_leaves_nothing(
    large: Database, folder: Path, mebibytes: int, compressed: bool
) -> None:
    """D22, D25: all of it through one MiB of memory; gone when the sink has returned."""
    sink, store = LargeSink(folder), MemoryStore()
    with Pipeline(config(large, folder, sink, store)) as pipeline:
        rows = insert_large(large, mebibytes, compressed=compressed)
        large.execute("DELETE FROM large WHERE id = 1")
        catch_up(pipeline, large.server, timeout=100)
        assert open_below(folder) == []

    sink.seen.pop()
    assert whole(sink, rows)
    with pytest.raises(RuntimeError, match="gone once the sink returned"):
        next(iter(sink.kept[0].changes))
    assert list(folder.iterdir()) == []


# --- cut off --------------------------------------------------------------------------------------


class CutShort(Source):
    """A real server whose first dump breaks behind so many bytes, and that is gone for a while.

    Attributes:
        back: Set by a test: dials succeed again.
        refused: How many dials found nobody.
    """

    def __init__(self, real: Source, size: int) -> None:
        self._real = real
        self.left: int | None = size
        self.back = False
        self.refused = 0

    def link(self) -> Link:
        """A link; behind the cut only when the server is back."""
        return _CutLink(self, self._real.link())


@attrs.define
class _CutLink(Link):
    _source: CutShort
    _real: Link
    tls = False

    def open(self) -> ServerFacts:
        if self._source.left is None and not self._source.back:
            self._source.refused += 1
            raise LinkLost("connect")
        return self._real.open()

    def executed(self) -> GtidSet:
        return self._real.executed()

    def dump(self, gtid_set: GtidSet) -> None:
        self._real.dump(gtid_set)

    def read(self, timeout: float) -> bytes | None:
        piece = self._real.read(timeout)
        if self._source.left is not None and piece:
            self._source.left -= len(piece)
            if self._source.left < 0:
                self._source.left = None
                raise LinkLost("read")
        return piece

    def close(self) -> None:
        self._real.close()

    def interrupt(self) -> None:
        self._real.interrupt()


def binlog_size(database: Database) -> int:
    """Where the binlog's file ends now."""
    ((_, offset, *_),) = database.execute("SHOW BINARY LOG STATUS")
    return int(offset)


def test_a_stream_that_is_cut_near_the_end_leaves_nothing_and_comes_again(
    large: Database, folder: Path
) -> None:
    """R11, R15, D25: nothing delivered, persisted or open; then all of it, once."""
    sink, store = LargeSink(folder), MemoryStore()
    made = config(large, folder, sink, store)
    large.execute("FLUSH BINARY LOGS")
    before, start = binlog_size(large), executed(large.server)
    store.save_watermark(start)
    rows = insert_large(large, 20)
    source = CutShort(live_source(made), (binlog_size(large) - before) * 99 // 100)

    with Pipeline(made, source=source) as pipeline:
        wait_until(lambda: source.refused, what="the stream to be cut", timeout=60)
        wait_until(lambda: not open_below(folder), what="the file to be let go")
        assert sink.seen == []
        assert store.load_watermark() == start
        assert list(folder.iterdir()) == []
        source.back = True
        catch_up(pipeline, large.server, timeout=60)

    assert whole(sink, rows)
    assert open_below(folder) == []


# --- in a process of its own ----------------------------------------------------------------------


def start(**order: Any) -> "subprocess.Popen[str]":
    """Start the other process."""
    places = [path for path in sys.path if path]
    return subprocess.Popen(
        [sys.executable, large_transactions.__file__, json.dumps(order)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
    )


def outcome(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """What it said at its end."""
    with process:
        out, err = process.communicate()
    assert err == ""
    result: dict[str, Any] = json.loads(out)
    return result


def measured(
    database: Database, folder: Path, mebibytes: int, compressed: bool, **limits: int
) -> dict[str, Any]:
    """What a pipeline in its own process makes of one large transaction, and takes for it."""
    server = database.server
    begin = executed(server)
    rows = insert_large(database, mebibytes, compressed=compressed)
    reach = {"host": server.host, "port": server.port, "user": server.user}
    found = outcome(
        start(
            mode="live",
            folder=str(folder),
            limits=limits,
            source={**reach, "password": server.password, "server_id": 71_001},
            tables=[f"{database.name}.*"],
            start=str(begin),
            until=str(executed(server)),
        )
    )
    (seen,) = found["seen"]
    assert found["reached"]
    assert (seen["spooled"], seen["files"], found["left"]) == (True, 1, 0)
    assert seen["rows"] == seen["right"] == rows
    assert list(folder.iterdir()) == []
    return found


@pytest.mark.parametrize("compressed", [False, True])
def test_memory_is_no_matter_of_the_transactions_size(
    large: Database, folder: Path, compressed: bool
) -> None:
    """D25: 60 MiB are streamed with less than 90 in all, about 50 of which are Python itself."""
    found = measured(large, folder, 60, compressed, transaction_memory=MIB)

    assert found["peak"] < 90 * MIB


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("compressed", [False, True])
def test_a_gibibyte_passes_below_three_hundred_mebibytes(
    large: Database, folder: Path, compressed: bool
) -> None:
    """D25: with the limits that nobody has set."""
    found = measured(large, folder, 1024, compressed)

    assert found["seen"][0]["rows"] == 1024 * MEBIBYTE_ROWS
    assert found["peak"] < 300 * MIB


def test_the_peak_is_this_process_own() -> None:
    """The figure that the tests above go by grows with what is taken."""
    before = peak_memory()
    taken = b"x" * (2 * before)

    assert peak_memory() > len(taken) > before


def test_a_killed_process_leaves_no_file(folder: Path) -> None:
    """D25: not even SIGKILL in the middle of a spooled transaction."""
    limits = {"transaction_memory": 100_000}
    with start(mode="half", folder=str(folder), limits=limits) as process:
        try:
            wait_until(
                lambda: bool(process.poll() is None and open_below(folder, process.pid)),
                what="the process to spool",
                timeout=60,
            )
            assert list(folder.iterdir()) == []
        finally:
            process.kill()
            process.communicate()

    assert list(folder.iterdir()) == []


def test_a_full_disk_halts_and_leaves_nothing(folder: Path) -> None:
    """D25, R266: the reason and the system's code, nothing delivered, no file."""
    found = outcome(start(mode="full", folder=str(folder), limits={"transaction_memory": 100_000}))

    assert found == {
        "reason": HaltReason.SPOOL_FAILED.value,
        "detail": f"spool in {folder}: OSError EFBIG; under {GTID}",
        "left": 0,
    }
    assert list(folder.iterdir()) == []


GTID = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1"
