"""Spooled transactions through the actors: handed out whole, let go in time, whoever ends how."""

import contextlib
import io
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers import event_builder as events
from helpers.large_transactions import open_below
from helpers.mailboxes import Bench
from helpers.payloads import payload_event
from helpers.scripted_source import Script, ScriptedSource, cut, one_by_one
from helpers.waiting import wait_until

import capstan.wiring
from capstan import (
    Config,
    Delivery,
    HaltReason,
    JsonLinesSink,
    Limits,
    MemoryStore,
    Pipeline,
    PipelineHalted,
    Sink,
    Source,
    SqliteMirror,
    Transaction,
)
from capstan.actors.assembler import Assembler
from capstan.actors.messages import Assembled, PacketsRead, StreamLost, StreamOpened
from capstan.core.assembly import Fold
from capstan.core.binlog import payload
from capstan.core.binlog.framing import Packets
from capstan.core.changes import SchemaChangeGroup
from capstan.core.epoch import Epoch
from capstan.core.gtid import GtidSet
from capstan.core.limits import Budget
from capstan.core.spooling import SpooledChanges
from capstan.core.tables import CaptureList
from capstan.spool import SpoolFolder

EVENTS = 40
MEMORY = 2000
"""Bytes that hold a few of the events."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where is spooled."""
    made = tmp_path / "spool"
    made.mkdir()
    return made


def beginning(number: int) -> list[bytes]:
    rows = [events.rows(30, 80, [(n, "x" * 40)], last=False) for n in range(EVENTS)]
    return [events.gtid(number), events.query(b"BEGIN"), events.table_map(80), *rows]


def large(number: int) -> list[bytes]:
    """A whole transaction that is spooled."""
    return [*beginning(number), events.xid(number)]


class Reading(Sink):
    """Reads all that it gets, and does to the first large transaction what it is told to.

    Attributes:
        read: Number of each transaction and its ids.
        kept: The transactions.
    """

    def __init__(self, meddle: Callable[[Transaction], object] = lambda _: None) -> None:
        self.read: list[tuple[int, list[int]]] = []
        self.kept: list[Transaction] = []
        self._meddle = meddle

    def handle_transaction(self, transaction: Transaction) -> None:
        """Read it."""
        self.kept.append(transaction)
        if transaction.changes.spooled:
            self._meddle(transaction)
        ids = [change.values[0] for change in transaction.changes if change.values]
        self.read.append((transaction.gtid.number, ids))


class ReadingBatches(Reading):
    """The same, a batch at a time."""

    def handle_batch(self, items: Sequence[Transaction | SchemaChangeGroup]) -> None:
        """Read them."""
        for item in items:
            assert isinstance(item, Transaction)
            self.handle_transaction(item)


WHOLE = list(range(EVENTS))
SINKS = pytest.mark.parametrize("kind", [Reading, ReadingBatches])


def config(sink: Sink, folder: Path, **options: Any) -> Config:
    options.setdefault("limits", Limits(transaction_memory=MEMORY, spool_dir=str(folder)))
    options.setdefault("store", MemoryStore())
    return Config(source=Source(user="u", server_id=9), tables=["shop.*"], sink=sink, **options)


def upto(number: int) -> str:
    return f"{events.SOURCE}:1-{number}"


def pipeline_over(script: Callable[[int], Script], made: Config) -> Pipeline:
    return Pipeline(made, source=ScriptedSource(script))


def halted(pipeline: Pipeline) -> HaltReason:
    with pytest.raises(PipelineHalted) as caught, pipeline:
        pipeline.wait(timeout=60)
    return caught.value.halt.reason


# --- what is handed out ---------------------------------------------------------------------------


@SINKS
def test_spooled_transactions_are_read_in_the_sink_and_never_after_it(
    kind: type[Reading], folder: Path
) -> None:
    """R1, D25: each whole, in order; then the file is gone and a look is an error."""
    sink = kind()
    groups = [large(1), events.insert(2, 7), large(3)]

    with pipeline_over(lambda _: one_by_one(groups), config(sink, folder)) as pipeline:
        assert pipeline.wait_for(upto(3), timeout=30)
        assert open_below(folder) == []

    assert sink.read == [(1, WHOLE), (2, [7]), (3, WHOLE)]
    for transaction in (sink.kept[0], sink.kept[2]):
        assert len(transaction.changes) == EVENTS
        with pytest.raises(RuntimeError, match="gone once the sink returned"):
            next(iter(transaction.changes))
    assert len(list(sink.kept[1].changes)) == 1


def test_a_large_transaction_does_not_wait_for_its_own_credit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one credit and a piece an event: what is spooled gives its credit back at once."""
    monkeypatch.setattr(capstan.wiring, "CREDIT_PIECES", 1)
    sink = Reading()
    source = ScriptedSource(lambda _: one_by_one([raw] for raw in large(1)))

    with Pipeline(config(sink, folder), source=source) as pipeline:
        assert pipeline.wait_for(upto(1), timeout=30)

    assert source.reads == 1 + len(large(1))
    assert sink.read == [(1, WHOLE)]


@SINKS
def test_a_sink_that_swallows_a_fault_of_the_spool_has_not_accepted(
    kind: type[Reading], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D25, R15: what could not be read back was not delivered, whatever the sink says."""

    def swallow(transaction: Transaction) -> None:
        monkeypatch.setattr(os, "pread", lambda *_: b"")
        for _ in range(2):
            try:
                list(transaction.changes)
            except Exception:  # noqa: BLE001 - that is what this sink does wrong
                transaction.changes.__len__()

    class Swallowing(kind):  # type: ignore[valid-type, misc]
        def handle_transaction(self, transaction: Transaction) -> None:
            if transaction.changes.spooled:
                swallow(transaction)
            self.read.append((transaction.gtid.number, []))

    store = MemoryStore()
    groups = [events.insert(1, 1), large(2), events.insert(3, 3)]
    made = config(Swallowing(), folder, store=store, delivery=Delivery(max_batch=1))

    assert halted(pipeline_over(lambda _: one_by_one(groups), made)) is HaltReason.SPOOL_FAILED
    assert str(store.load_watermark()) == f"{events.SOURCE}:1"
    assert open_below(folder) == []


@SINKS
def test_a_sink_that_goes_on_reading_does_not_hang(kind: type[Reading], folder: Path) -> None:
    """Gigabytes take longer than a call may stand still; in memory the clock runs on."""
    pause = threading.Event()
    slow = kind(lambda transaction: [pause.wait(0.1) for _ in transaction.changes])
    delivery = Delivery(sink_timeout=2)

    made = config(slow, folder, delivery=delivery)
    with pipeline_over(lambda _: one_by_one([large(1)]), made) as pipeline:
        assert pipeline.wait_for(upto(1), timeout=60)

    assert slow.read == [(1, WHOLE)]


def test_a_sink_that_stops_reading_hangs(folder: Path) -> None:
    """`sink_stalled`, and the file is let go under it."""
    release = threading.Event()
    hanging = Reading(lambda _: release.wait(60))
    made = config(hanging, folder, delivery=Delivery(sink_timeout=0.5))

    try:
        assert halted(pipeline_over(lambda _: one_by_one([large(1)]), made)) is (
            HaltReason.SINK_STALLED
        )
        assert open_below(folder) == []
    finally:
        release.set()


@pytest.mark.parametrize("memory", [1, MEMORY])
def test_the_json_lines_are_the_same_whether_spooled_or_not(folder: Path, memory: int) -> None:
    """R1, D25: every line, its place and its count."""
    lines = {}
    for limit in (memory, 64 << 20):
        stream = io.StringIO()
        limits = Limits(transaction_memory=limit, spool_dir=str(folder))
        made = config(JsonLinesSink(stream), folder, limits=limits)
        with pipeline_over(lambda _: one_by_one([large(1), updated(2)]), made) as pipeline:
            assert pipeline.wait_for(upto(2), timeout=30)
        lines[limit] = stream.getvalue().splitlines()

    assert lines[memory] == lines[64 << 20]
    assert len(lines[memory]) == 2 * EVENTS


def test_the_mirror_is_the_same_whether_spooled_or_not(folder: Path, tmp_path: Path) -> None:
    """R1, D25: rows that are inserted, changed and deleted on their way through the file."""
    rows = {}
    for limit in (1, 64 << 20):
        path = tmp_path / f"mirror-{limit}.db"
        limits = Limits(transaction_memory=limit, spool_dir=str(folder))
        made = config(SqliteMirror(path), folder, limits=limits)
        with pipeline_over(lambda _: one_by_one([large(1), updated(2)]), made) as pipeline:
            assert pipeline.wait_for(upto(2), timeout=30)
        with contextlib.closing(sqlite3.connect(path)) as connection:
            rows[limit] = connection.execute('SELECT * FROM "shop.items" ORDER BY id').fetchall()

    assert rows[1] == rows[64 << 20] == [(n, f"y{n}") for n in range(1, EVENTS)]


def updated(number: int) -> list[bytes]:
    """A transaction that changes every row but the first, which it deletes."""
    raws = [events.gtid(number), events.query(b"BEGIN"), events.table_map(80)]
    raws.append(events.rows(32, 80, [(0, "x" * 40)], last=False))
    pairs = ([(n, "x" * 40), (n, f"y{n}")] for n in range(1, EVENTS))
    raws += [events.rows(31, 80, pair, last=False) for pair in pairs]
    return [*raws, events.xid(number)]


# --- ends -----------------------------------------------------------------------------------------


def test_a_refusal_lets_the_files_go(folder: Path) -> None:
    """R42: the one that was refused and those behind it."""
    refusing = Reading(lambda _: 1 // 0)
    groups = [large(1), large(2), beginning(3)]

    reason = halted(pipeline_over(lambda _: one_by_one(groups), config(refusing, folder)))

    assert reason is HaltReason.SINK_FAILED
    assert open_below(folder) == []


def test_a_halt_in_the_stream_lets_the_half_built_go(folder: Path) -> None:
    """R11: at once, with the transaction."""
    broken = [*beginning(1), events.event(26, b"\x01\x00\x00")]

    reason = halted(pipeline_over(lambda _: one_by_one([broken]), config(Reading(), folder)))

    assert reason is HaltReason.SOURCE_INCIDENT
    assert open_below(folder) == []


def test_a_stop_lets_everything_go(folder: Path) -> None:
    """R41: what is queued is delivered first, what is half-built is not."""
    gate, entered = threading.Event(), threading.Event()

    def stand_still(_: Transaction) -> None:
        entered.set()
        gate.wait(60)

    sink = Reading(stand_still)
    groups = [large(1), large(2), beginning(3)]
    made = config(sink, folder, delivery=Delivery(max_batch=1))
    with pipeline_over(lambda _: one_by_one(groups), made):
        assert entered.wait(30)
        wait_until(lambda: len(open_below(folder)) == 3, what="all three to be spooled")
        gate.set()

    assert sink.read == [(1, WHOLE), (2, WHOLE)]
    assert open_below(folder) == []


def test_a_lost_stream_lets_the_half_built_go(folder: Path) -> None:
    """R12: at once; what comes with the next dial is whole."""
    sink = Reading()
    cut_now, back = threading.Event(), threading.Event()

    def script(dial: int) -> Script:
        if dial == 0:
            yield from one_by_one([beginning(1)])
            cut_now.wait(60)
        if not back.is_set():
            yield cut()
        yield from one_by_one([large(1)])

    with pipeline_over(script, config(sink, folder)) as pipeline:
        wait_until(lambda: len(open_below(folder)) == 1, what="the transaction to be spooled")
        cut_now.set()
        wait_until(lambda: open_below(folder) == [], what="the file to be let go")
        back.set()
        assert pipeline.wait_for(upto(1), timeout=60)

    assert sink.read == [(1, WHOLE)]
    assert open_below(folder) == []


@pytest.mark.parametrize("actor", ["assembler", "coordinator"])
def test_a_crash_lets_go_what_was_lost_with_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, actor: str
) -> None:
    """R15: the transaction comes again whole, once; no file of the life before is left."""
    open_then: list[int] = []
    kept: list[object] = []

    def crash() -> None:
        if not open_then:
            open_then.append(len(open_below(folder)))
            raise RuntimeError

    sink = Reading()
    if actor == "coordinator":
        arrive = capstan.core.delivery.Desk.arrive

        def remembered(*arguments: Any) -> None:
            # Whoever still holds the transaction does not keep its file.
            kept.append(arguments)
            crash()
            arrive(*arguments)

        monkeypatch.setattr(capstan.core.delivery.Desk, "arrive", remembered)
    else:
        finish = capstan.core.spooling.SpoolWriter.finish
        monkeypatch.setattr(
            capstan.core.spooling.SpoolWriter, "finish", lambda *a: (crash(), finish(*a))[1]
        )

    made = config(sink, folder)
    with pipeline_over(lambda _: one_by_one([large(1)]), made) as pipeline:
        assert pipeline.wait_for(upto(1), timeout=60)
        assert open_below(folder) == []

    assert open_then == [1]
    assert sink.read == [(1, WHOLE)]


# --- the assembler alone --------------------------------------------------------------------------


class Stage:
    """An assembler in the middle of a spooled transaction."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.coordinator = bench.mailbox("coordinator")
        spools = SpoolFolder(str(folder))
        fold = Fold(CaptureList.parse(["shop.*"]), Budget(memory=MEMORY), spools.open)
        self.running = bench.spawn(
            lambda: Assembler(fold, self.coordinator.address, 4), name="assembler"
        )
        self.tell(StreamOpened((1, 1), Epoch(start=GtidSet(), server_uuid="")))
        self.read([*events.opening(), *beginning(1)])
        wait_until(lambda: len(open_below(folder)) == 1, what="the transaction to be spooled")

    def tell(self, message: object) -> None:
        """Send it."""
        assert self.running.address.send(message)

    def read(self, raws: list[bytes]) -> None:
        """Hand a piece over."""
        self.tell(PacketsRead((1, 1), (events.packets_of(raws),)))


def test_the_end_of_the_assembler_lets_the_half_built_go(bench: Bench, folder: Path) -> None:
    """Asked to end: nobody else knows of it."""
    stage = Stage(bench, folder)
    bench.end(stage.running)

    assert open_below(folder) == []


def test_only_the_loss_of_this_stream_counts(bench: Bench, folder: Path) -> None:
    """R12: what an older dial reports late changes nothing."""
    stage = Stage(bench, folder)
    stage.tell(StreamLost((1, 0)))
    stage.read([events.xid(1)])
    (transaction,) = stage.coordinator.wait_for(Assembled).items
    assert [change.values[0] for change in transaction.changes] == WHOLE
    transaction.changes.release()
    stage.read(beginning(2))
    wait_until(lambda: len(open_below(folder)) == 1, what="the next one to be spooled")

    stage.tell(StreamLost((1, 1)))
    wait_until(lambda: open_below(folder) == [], what="the file to be let go")


def test_an_interrupt_is_heard_in_the_middle_of_a_payload(
    bench: Bench, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R41: a stop does not wait until gigabytes are inflated, and is no halt."""
    stage = Stage(bench, folder)
    entered, going = threading.Event(), threading.Event()

    def endless(data: bytes, start: int, end: int) -> Iterator[Packets]:
        yield from real(data, start, end)
        while True:
            entered.set()
            going.wait(60)
            yield from real(beats, 0, len(beats))

    real = payload.open_payload
    monkeypatch.setattr(payload, "open_payload", endless)
    inside = [events.query(b"BEGIN")]
    beats = payload_event([events.event(28, b"")])[19:-4]
    stage.tell(StreamOpened((1, 1), Epoch(start=GtidSet(), server_uuid="")))
    stage.read([*events.opening(), events.gtid(1), payload_event(inside)])
    assert entered.wait(30)
    stage.running.interrupt()
    going.set()

    assert stage.running.wait_ended(30)
    assert stage.running.exit is not None
    assert stage.running.exit.halt is None
    assert open_below(folder) == []


def test_spooled_changes_are_told_apart_by_their_class() -> None:
    """What the flag promises, the class keeps."""
    assert SpooledChanges.spooled
