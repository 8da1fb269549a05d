"""A backfill that is killed, whose actors crash and whose server goes away: the end is the same."""

import contextlib
import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest
from helpers import backfill_lives
from helpers.backfills import Upserting, backfilling, ten_items
from helpers.mysql import Database
from helpers.pipelines import catch_up, executed
from helpers.writers import tables_for, writing

from capstan import MemoryStore, Pipeline
from capstan.core.tables import CaptureList
from capstan.demo.compare import compare
from capstan.telemetry.events import ChildRestarted
from capstan.testing import CrashPoints

DEADLINE = 90.0

BEGINNING = [
    "before checkpoint save_watermark*1",
    "after checkpoint save_watermark*1",
    "before checkpoint save_snapshot*1",
    "after checkpoint save_snapshot*1",
]
"""Around the first position and the list of tables."""

A_CHUNK = [
    "before checkpoint save_snapshot*{first}",
    "after checkpoint save_snapshot*{first}",
    "before coordinator handle_snapshot*{number}",
    "after coordinator handle_snapshot*{number}",
    "before checkpoint save_snapshot*{second}",
    "after checkpoint save_snapshot*{second}",
]
"""Around the three steps of a chunk of a life: its mark, the sink, its cursor."""

A_BATCH = [
    "before coordinator handle_batch*1",
    "after coordinator handle_batch*1",
    "before checkpoint save_watermark*2",
    "after checkpoint save_watermark*2",
]
"""Around a batch of the stream; the first write of a life may be that of the sink's position."""


def around_chunk(number: int) -> list[str]:
    """The points around a chunk, counted from 1 in each life."""
    return [
        point.format(first=2 * number - 1, number=number, second=2 * number) for point in A_CHUNK
    ]


@contextmanager
def lives(
    database: Database, folder: Path, chunk_size: int, points: list[str]
) -> Iterator["subprocess.Popen[str]"]:
    """A backfill that is killed at each of these points."""
    server = database.server
    address = [server.host, str(server.port), server.user, server.password]
    places = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        [
            *(sys.executable, backfill_lives.__file__, *address, database.name),
            *(str(folder), str(chunk_size), *points),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": places},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def killed_everywhere(
    database: Database, folder: Path, rows: int, writers: int, chunk_size: int, points: list[str]
) -> None:
    """Backfill under writers, one life after another, and compare every row at the end."""
    tables_for(database, rows)
    with lives(database, folder, chunk_size, points) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with writing(database, writers, rows):
            assert process.stdout.readline() == "complete\n"
        process.stdin.write(f"{executed(database.server)}\n")
        process.stdin.close()
        assert process.wait(DEADLINE) == 0
    with contextlib.closing(database.server.connect()) as connection:
        capture = CaptureList.parse([f"{database.name}.*"])
        comparison = compare(connection, capture, folder / "mirror.db")
    assert comparison.differences == ()
    assert comparison.tables == 4
    assert_nothing_older_comes_again(folder / backfill_lives.LOG)


def assert_nothing_older_comes_again(log: Path) -> None:
    """In one life a chunk comes once; a new life begins with the last one or with its successor."""
    chunks = [line.split() for line in log.read_text(encoding="ascii").splitlines()]
    came = Counter((table, number, life) for table, number, life in chunks)
    assert set(came.values()) == {1}
    for table, group in itertools.groupby(chunks, lambda chunk: chunk[0]):
        numbers = [int(number) for _, number, _ in group]
        assert numbers[0] == 0, table
        assert all(later - number in {0, 1} for number, later in itertools.pairwise(numbers))


def test_a_process_killed_at_every_step_ends_identical(database: Database, tmp_path: Path) -> None:
    """R63, R121-R124, R127, R130, R167, R168: SIGKILL around each persist and each sink call."""
    points = [*BEGINNING[1::2], *around_chunk(1), *A_BATCH[1::2], around_chunk(2)[-2]]
    killed_everywhere(database, tmp_path, rows=250, writers=2, chunk_size=50, points=points)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_large_backfill_killed_at_every_step_ends_identical(
    database: Database, tmp_path: Path
) -> None:
    """R121-R124, R127, R130, R167, R168: the same with 8 writers, at many chunks."""
    later = [point for number in (1, 2, 3, 5, 8, 1, 4) for point in around_chunk(number)]
    points = [*BEGINNING, *later, *A_BATCH, *around_chunk(10), *A_BATCH]
    killed_everywhere(database, tmp_path, rows=75_000, writers=8, chunk_size=1000, points=points)


# --- actors that crash ----------------------------------------------------------------------------

STEPS = [
    "checkpoint receive SeedWanted",
    "checkpoint receive SaveSnapshot",
    "coordinator receive SnapshotIs",
    "coordinator receive ReaderReady",
    "coordinator receive StreamOn",
    "coordinator receive TablesResolved",
    "coordinator receive PinAsked",
    "coordinator receive ViewPinned",
    "coordinator receive ChunkRead",
    "coordinator receive SnapshotSaved",
    "coordinator send SaveSnapshot",
    "chunk_reader receive TablesWanted",
    "chunk_reader receive ChunkWanted",
    "chunk_reader receive PinGranted",
    "chunk_reader send ViewPinned",
    "chunk_reader send ChunkRead",
    "assembler receive StreamOpened",
    "connection receive PositionIs",
]
"""Every step of the conversation of a backfill."""

ONCE_IN_A_LIFE = {
    "checkpoint receive SeedWanted",
    "coordinator receive SnapshotIs",
    "coordinator receive ReaderReady",
    "coordinator receive StreamOn",
    "coordinator receive TablesResolved",
    "chunk_reader receive TablesWanted",
    "assembler receive StreamOpened",
    "connection receive PositionIs",
}
"""Those that a backfill comes by once, unless somebody crashes."""


@pytest.fixture
def items(database: Database) -> Database:
    """A database with one table of ten rows."""
    return ten_items(database)


@pytest.mark.parametrize("step", STEPS)
def test_an_actor_that_crashes_in_a_step_goes_on(
    items: Database, capstan_points: CrashPoints, step: str
) -> None:
    """R121, R122, R130, R168, R266: before it and, in another life, behind it."""
    sink, store = Upserting(), MemoryStore()
    capstan_points.at(f"before {step}")
    capstan_points.at(f"after {step}", hit=1 if step in ONCE_IN_A_LIFE else 2)
    told: list[object] = []
    config = backfilling(items, sink, capstan_points.store(store), chunk_size=4)

    with Pipeline(attrs.evolve(config, observers=(told.append,))) as pipeline:
        assert pipeline.wait_snapshot(DEADLINE)
        items.execute("UPDATE items SET name = 'new' WHERE id = 1")
        catch_up(pipeline, items.server)
        crashes = [event for event in told if isinstance(event, ChildRestarted)]

    assert len(crashes) >= 2
    assert sink.content == {(n,): (n, "new" if n == 1 else f"n{n}") for n in range(1, 11)}
    assert max(sink.came.values()) <= 2
    numbers = [meta.sequence for meta in sink.chunks]
    assert all(later - number in {0, 1} for number, later in itertools.pairwise(numbers))
