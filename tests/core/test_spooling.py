"""Spooled changes: what went in comes out, however it is looked at, or nothing does."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import pytest
from helpers import event_builder as events
from helpers.spools import MemorySpool
from hypothesis import given, settings
from hypothesis import strategies as st

import capstan.core.spooling
from capstan.core.binlog.row_compiler import compile_rows
from capstan.core.binlog.table_map import parse
from capstan.core.changes import Change, ChunkedChanges, RowsChunk
from capstan.core.halts import Halted, HaltReason
from capstan.core.spooling import OPS, SpooledChanges, SpoolWriter, images_of, nowhere

TABLES = [events.table_map(80, table=name)[27:-4] for name in (b"items", b"others")]
DECODERS = [compile_rows(parse(body)) for body in TABLES]
Event = tuple[int, int, list[int]]
"""Its type, the place of its table, its ids."""

EVENTS = st.lists(
    st.tuples(
        st.sampled_from([30, 31, 32]),
        st.integers(0, 1),
        st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5),
    ),
    min_size=1,
    max_size=20,
)


def body_of(event: Event) -> bytes:
    kind, _, ids = event
    images = [(number, f"n{number}") for number in ids for _ in range(2 if kind == 31 else 1)]
    return events.rows(kind, 80, images)[27:-4]


def chunk_of(event: Event) -> RowsChunk:
    kind, table, _ = event
    body = body_of(event)
    images = images_of(DECODERS[table], kind, body, 0, len(body))
    return RowsChunk(OPS[kind], DECODERS[table].shape, images)


def spooled(
    streamed: Sequence[Event], held: int = 0, spool: MemorySpool | None = None
) -> SpooledChanges:
    """These events, the first of them in memory and the others spooled."""
    chunks = [chunk_of(event) for event in streamed[:held]]
    writer = SpoolWriter(spool or MemorySpool(), sum(map(len, chunks)))
    for event in streamed[held:]:
        images = len(chunk_of(event).images)
        writer.add(event[0], TABLES[event[1]], body_of(event), images)
    return writer.finish(chunks)


def plain(change: Change) -> tuple[Any, ...]:
    return change.op, change.table, change.values, change.old_values, change.key


def flat(changes: Sequence[Change]) -> list[tuple[Any, ...]]:
    return [plain(change) for change in changes]


FIVE: list[Event] = [(30, 0, [number, number + 10]) for number in range(5)]


@pytest.fixture(params=[1, 64, 1 << 20])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Blocks of one record, of a few, and of all."""
    monkeypatch.setattr(capstan.core.spooling, "_BLOCK", request.param)
    return int(request.param)


@settings(max_examples=40, deadline=None)
@given(streamed=EVENTS, held=st.integers(0, 3), size=st.sampled_from([1, 64, 1 << 20]))
def test_spooled_changes_are_those_that_memory_would_hold(
    streamed: list[Event], held: int, size: int
) -> None:
    """D25: by iteration, again and again, by place, from behind, in slices, and by the chunk."""
    held = min(held, len(streamed) - 1)
    chunks = [chunk_of(event) for event in streamed]
    expected = ChunkedChanges(chunks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capstan.core.spooling, "_BLOCK", size)
        changes = spooled(streamed, held)

    assert len(changes) == len(expected)
    for _ in range(2):
        assert flat(changes) == flat(expected)
    places = range(-len(expected), len(expected))
    assert [plain(changes[i]) for i in places] == [plain(expected[i]) for i in places]
    assert flat(list(reversed(changes))) == flat(list(reversed(expected)))
    assert flat(changes[1:-1:2]) == flat(expected[1:-1:2])
    assert len(changes.chunks) == len(chunks)
    assert [chunk.images for chunk in changes.chunks] == [chunk.images for chunk in chunks]
    assert [changes.chunks[i].images for i in range(-len(chunks), 0)] == [c.images for c in chunks]
    assert [c.op for c in changes.chunks[:2]] == [c.op for c in chunks[:2]]


def test_places_beyond_the_ends_are_refused(block: int) -> None:
    """As a list does it."""
    changes = spooled(FIVE, 1)
    looks: list[Callable[[], object]] = [
        lambda: changes[10],
        lambda: changes[-11],
        lambda: changes.chunks[5],
        lambda: changes.chunks[-6],
    ]

    for look in looks:
        with pytest.raises(IndexError, match="out of range"):
            look()


def test_two_readers_do_not_disturb_each_other(block: int) -> None:
    """One that began earlier goes on where it stood."""
    changes = spooled(FIVE, 1)
    ahead = iter(changes)
    beginning = list(islice(ahead, 3))

    assert len(flat(changes)) == 10
    assert [c.values for c in [*beginning, *ahead]] == [c.values for c in changes]


def test_no_read_takes_more_than_a_block_and_one_event(block: int) -> None:
    """D25: memory is flat, whatever the transaction's size."""
    spool = MemorySpool()
    changes = spooled(FIVE * 20, 0, spool)
    record = len(spool.data) // 100

    assert len(flat(changes)) == 200
    assert max(spool.reads) < block + record
    assert sum(spool.reads) == len(spool.data)


def test_asking_for_one_place_after_the_other_reads_each_block_once() -> None:
    """`changes[i]` in a loop costs no more than iteration."""
    spool = MemorySpool()
    changes = spooled(FIVE * 20, 0, spool)

    assert [changes[i].values for i in range(len(changes))] == [c.values for c in changes]
    assert spool.reads == [len(spool.data)]


@pytest.mark.parametrize("held", [0, 2])
def test_after_the_release_every_look_is_refused_and_the_size_stays(held: int) -> None:
    """D25: a clear error, never wrong data; the spool is let go at once."""
    spool = MemorySpool()
    changes = spooled(FIVE, held, spool)
    chunks, half_way = changes.chunks, iter(changes)
    next(half_way)
    changes.release()
    changes.release()
    looks: list[Callable[[], object]] = [
        lambda: list(changes),
        lambda: changes[0],
        lambda: changes[-1],
        lambda: list(chunks),
        lambda: chunks[0],
        lambda: list(half_way),
    ]

    for look in looks:
        with pytest.raises(RuntimeError, match="gone once the sink returned"):
            look()
    assert spool.closed
    assert (len(changes), len(chunks)) == (10, 5)
    assert repr(changes) == "<10 changes>"


@pytest.mark.parametrize("fault", ["flips", "refuses"])
def test_what_cannot_be_read_back_is_a_halt_whatever_the_reader_makes_of_it(fault: str) -> None:
    """D25, R266: wrong bytes and no bytes; a reader that swallows it is not taken for content."""
    spool = MemorySpool()
    changes = spooled(FIVE, 2, spool)
    spool.flips, spool.refuses = fault == "flips", "read" if fault == "refuses" else ""

    with pytest.raises(Halted) as read:
        list(changes)
    with pytest.raises(Halted) as concluded:
        changes.conclude()

    assert read.value.halt.reason is HaltReason.SPOOL_FAILED
    assert concluded.value.halt == read.value.halt
    assert spool.closed


def test_a_reader_that_was_content_is_believed() -> None:
    """Whether it looked at everything or at nothing."""
    spool = MemorySpool()
    changes = spooled(FIVE, 2, spool)

    next(iter(changes))
    changes.conclude()

    assert spool.closed


def test_every_event_that_is_read_is_told(block: int) -> None:
    """The clock of a sink that writes for hours runs from the last event it took."""
    told: list[None] = []
    changes = spooled(FIVE, 1)
    changes.on_read(lambda: told.append(None))

    list(changes)
    assert len(told) == 4
    changes.release()
    assert len(told) == 4


def test_a_full_disk_is_told_by_whoever_writes() -> None:
    """D25: at the block that does not fit, at the latest at the end."""
    with pytest.raises(Halted) as caught:
        spooled(FIVE, 0, MemorySpool("write"))

    assert caught.value.halt.reason is HaltReason.SPOOL_FAILED


def test_without_a_place_to_spool_it_is_too_large() -> None:
    """A fold of which nobody said where: the named halt, never endless memory."""
    with pytest.raises(Halted) as caught:
        nowhere()

    assert caught.value.halt.reason is HaltReason.TRANSACTION_TOO_LARGE


def test_many_tables_do_not_pile_up_decoders(monkeypatch: pytest.MonkeyPatch) -> None:
    """D29: decoders are bounded; those that were dropped are made again."""
    monkeypatch.setattr(capstan.core.spooling, "_MAX_DECODERS", 1)
    streamed: list[Event] = [(30, number % 2, [number]) for number in range(6)]
    changes = spooled(streamed)

    assert [change.table for change in changes] == ["items", "others"] * 3
    assert len(changes._spooled._decoders) == 1
