"""Crashes: each actor at each message, before and behind it; then many, anywhere, with cuts."""

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from helpers.histories import (
    Group,
    HistorySource,
    Keeping,
    Positioned,
    configured,
    create_select,
    ddl,
    empty,
    filtered,
    insert,
    up_to,
)
from helpers.waiting import wait_until

import capstan.pipeline
from capstan import HaltReason, MemoryStore, Pipeline, PipelineHalted, Transaction
from capstan.actors import messages
from capstan.actors.assembler import Assembler
from capstan.actors.checkpoint import Checkpoint
from capstan.actors.connection import Connection
from capstan.actors.coordinator import Coordinator
from capstan.runtime import Actor
from capstan.supervision.intensity import Intensity

MAX_BATCH = 3
KINDS: list[Callable[[int], Group]] = [insert, filtered, insert, ddl, insert, create_select, empty]
HISTORY = [KINDS[n % len(KINDS)](n) for n in range(1, 29)]
LAST = len(HISTORY)
ROWS = [n for n in range(1, LAST + 1) if KINDS[n % len(KINDS)] in {insert, create_select}]
STATEMENTS = [n for n in range(1, LAST + 1) if KINDS[n % len(KINDS)] in {ddl, create_select}]

CONVERSATION = [
    (Checkpoint, messages.SinkOpened, 1),
    (Checkpoint, messages.PositionWanted, 1),
    (Checkpoint, messages.Processed, 1),
    (Checkpoint, messages.Processed, 3),
    (Coordinator, messages.PositionIs, 1),
    (Coordinator, messages.Assembled, 1),
    (Coordinator, messages.Assembled, 5),
    (Coordinator, messages.WatermarkMoved, 1),
    (Coordinator, messages.WatermarkMoved, 3),
    (Assembler, messages.ConnectionReady, 1),
    (Assembler, messages.StreamOpened, 1),
    (Assembler, messages.PacketsRead, 1),
    (Assembler, messages.PacketsRead, 7),
    (Assembler, messages.Settled, 1),
    (Assembler, messages.Settled, 5),
    (Connection, messages.CreditGranted, 1),
    (Connection, messages.CreditGranted, 6),
    (Connection, messages.PositionIs, 1),
    (Connection, messages.ReadOn, 1),
    (Connection, messages.ReadOn, 7),
]


class Bomb:
    """Makes an actor crash once: at the n-th message of one kind, before or behind handling it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.went_off = threading.Event()

    def plant(self, actor: type[Actor], kind: type, count: int, *, behind: bool) -> "Bomb":
        handle = actor.receive
        left = [count]

        def receive(this: Any, message: object) -> None:
            left[0] -= isinstance(message, kind)
            off = isinstance(message, kind) and left[0] == 0
            if behind or not off:
                handle(this, message)
            if off:
                self.went_off.set()
                raise RuntimeError("sentinel-value")

        self._monkeypatch.setattr(actor, "receive", receive)
        return self


@pytest.fixture
def bomb(monkeypatch: pytest.MonkeyPatch) -> Bomb:
    """One crash."""
    return Bomb(monkeypatch)


def restarts(pipeline: Pipeline) -> int:
    rows: list[Any] = pipeline.status().tree
    return sum(row["restarts"] for top in rows for row in (top, *top["children"]))


def doubled(numbers: list[int]) -> list[int]:
    """What came a second time, in order."""
    seen: set[int] = set()
    return [n for n in numbers if n in seen or seen.add(n)]  # type: ignore[func-returns-value]


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize(
    ("actor", "kind", "count"),
    CONVERSATION,
    ids=[f"{a.__name__}-{k.__name__}-{n}" for a, k, n in CONVERSATION],
)
class TestOneCrash:
    def test_a_sink_without_position_gets_everything_and_one_batch_twice_at_most(
        self, bomb: Bomb, actor: type[Actor], kind: type, count: int, behind: bool
    ) -> None:
        """R40, D15, R268: nothing is lost; what comes again lies within the batch under way."""
        bomb.plant(actor, kind, count, behind=behind)
        sink, store = Keeping(), MemoryStore()
        stream(sink, store)

        assert bomb.went_off.is_set()
        again = doubled(sink.numbers)
        assert sorted(set(sink.numbers)) == ROWS
        assert sorted(set(sink.schema_changes)) == STATEMENTS
        assert first_times(sink.numbers) == ROWS
        assert not again or again[-1] - again[0] < MAX_BATCH
        assert store.load_watermark() == up_to(LAST)

    def test_a_sink_with_a_position_gets_each_transaction_once(
        self, bomb: Bomb, actor: type[Actor], kind: type, count: int, behind: bool
    ) -> None:
        """D12, R268: no window at all, whoever crashes."""
        bomb.plant(actor, kind, count, behind=behind)
        sink, store = Positioned(), MemoryStore()
        stream(sink, store)

        assert bomb.went_off.is_set()
        assert sink.numbers == ROWS
        assert first_times(sink.schema_changes) == STATEMENTS
        assert store.load_watermark() == up_to(LAST)
        assert store.load_sink_position() == sink.processed


def first_times(numbers: list[int]) -> list[int]:
    return list(dict.fromkeys(numbers))


def stream(sink: Keeping, store: MemoryStore) -> None:
    """Stream the history through one crash; the tree starts again and catches up."""
    config = configured(sink, store=store, max_batch=MAX_BATCH)
    with Pipeline(config, source=HistorySource(HISTORY)) as pipeline:
        assert pipeline.wait_for(up_to(LAST), timeout=60)
        wait_until(lambda: restarts(pipeline) > 0, what="the restart")


def transactions(batch: Any) -> list[Transaction]:
    return [item for _, item in batch.calls if isinstance(item, Transaction)]


@pytest.mark.parametrize("kind", [Keeping, Positioned])
def test_a_crash_between_the_sinks_commit_and_the_stores_write(
    monkeypatch: pytest.MonkeyPatch, kind: type[Keeping]
) -> None:
    """D12: a sink that tells its position is believed; another gets that one batch again."""
    deliver, left = Coordinator._deliver, [3]

    def delivering(this: Any, batch: Any) -> int:
        accepted = deliver(this, batch)
        left[0] -= bool(transactions(batch))
        if left[0] == 0 and transactions(batch):
            raise RuntimeError("sentinel-value")
        return accepted

    monkeypatch.setattr(Coordinator, "_deliver", delivering)
    sink, store = kind(), MemoryStore()
    stream(sink, store)

    assert first_times(sink.numbers) == ROWS
    again = doubled(sink.numbers)
    assert again == [] if kind is Positioned else 0 < len(again) <= MAX_BATCH
    assert store.load_watermark() == up_to(LAST)


@pytest.mark.parametrize("actor", [Checkpoint, Coordinator, Assembler, Connection])
def test_a_crash_at_the_start_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, actor: type[Actor]
) -> None:
    """A start that fails is a crash like any other."""
    begin, left = actor.started, [2]

    def started(this: Any) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise RuntimeError("sentinel-value")
        begin(this)

    monkeypatch.setattr(actor, "started", started)
    sink = Positioned()
    with Pipeline(configured(sink), source=HistorySource(HISTORY)) as pipeline:
        assert pipeline.wait_for(up_to(LAST), timeout=60)

    assert sink.numbers == ROWS


@pytest.mark.parametrize("actor", [Checkpoint, Coordinator, Assembler, Connection])
def test_crashes_without_end_end_the_tree(
    monkeypatch: pytest.MonkeyPatch, actor: type[Actor]
) -> None:
    """The last crash is named by class and place; its message, which may hold values, is not."""
    monkeypatch.setattr(actor, "started", lambda _: 1 / 0)
    pipeline = Pipeline(configured(Keeping()), source=HistorySource(HISTORY))

    with pytest.raises(PipelineHalted) as caught:
        pipeline.start()

    assert caught.value.halt.reason is HaltReason.RESTARTS_EXHAUSTED
    assert actor.__name__.lower() in caught.value.halt.detail
    assert "ZeroDivisionError" in caught.value.halt.detail


class Roulette:
    """Crashes actors by chance, within a number of crashes; measures what lies unsettled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: int, crashes: int) -> None:
        self._chance = random.Random(seed)
        self._left = crashes
        self._lock = threading.Lock()
        self.crashed = 0
        self.deepest = 0
        for actor in (Checkpoint, Coordinator, Assembler, Connection):
            self._arm(monkeypatch, actor)

    def _arm(self, monkeypatch: pytest.MonkeyPatch, actor: type[Actor]) -> None:
        handle = actor.receive

        def receive(this: Any, message: object) -> None:
            with self._lock:
                roll = self._chance.random() if self._left else 1.0
                if roll < 0.04:
                    self._left -= 1
                    self.crashed += 1
            if roll < 0.02:
                raise RuntimeError("before")
            handle(this, message)
            if isinstance(this, Assembler):
                self.deepest = max(self.deepest, this._unsettled)
            if roll < 0.04:
                raise RuntimeError("behind")

        monkeypatch.setattr(actor, "receive", receive)


@pytest.mark.parametrize("kind", [Keeping, Positioned])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_fifty_crashes_and_cuts_leave_no_gap_and_no_leak(
    monkeypatch: pytest.MonkeyPatch, seed: int, kind: type[Keeping]
) -> None:
    """Whatever crashes when: nothing lost, order kept, credit within its limit, reading goes on."""
    monkeypatch.setattr(capstan.wiring, "RESTARTS", Intensity(200, 10_000.0))
    roulette = Roulette(monkeypatch, seed, crashes=50)
    history = [KINDS[n % len(KINDS)](n) for n in range(1, 601)]
    sink, store = kind(), MemoryStore()
    cuts = cut_now_and_then(seed)
    config = configured(sink, store=store, max_batch=MAX_BATCH, attempts=1000)
    with Pipeline(config, source=HistorySource(history, cuts)) as pipeline:
        assert pipeline.wait_for(up_to(600), timeout=100)
        tree = pipeline.status().tree

    rows = [n for n in range(1, 601) if KINDS[n % len(KINDS)] in {insert, create_select}]
    assert roulette.crashed >= 50, tree
    assert first_times(sink.numbers) == rows
    assert kind is Keeping or sink.numbers == rows
    assert 0 < roulette.deepest <= capstan.wiring.CREDIT_PIECES
    assert store.load_watermark() == up_to(600)


def cut_now_and_then(seed: int) -> Iterator[int]:
    chance = random.Random(seed)
    for _ in range(20):
        yield chance.randrange(1, 40)
