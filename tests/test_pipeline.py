"""The pipeline's life: it starts, waits, stops and tells in bounded time, whatever happens."""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import event_builder as events
from helpers.histories import (
    HistorySource,
    Keeping,
    Positioned,
    configured,
    ddl,
    empty,
    filtered,
    insert,
    up_to,
)
from helpers.scripted_source import ScriptedLink, ScriptedSource, facts_with, one_by_one
from helpers.waiting import wait_until

from capstan import (
    GtidSet,
    Halt,
    HaltReason,
    MemoryStore,
    Pipeline,
    PipelineHalted,
    Sink,
    SqliteStore,
    Transaction,
)
from capstan.core.changes import PositionLog
from capstan.core.preflight import ServerFacts
from capstan.sources.base import LinkLost
from capstan.telemetry.events import Event, PipelineEnded

DEADLINE = 20.0


def inserts(last: int) -> HistorySource:
    return HistorySource([insert(n) for n in range(1, last + 1)])


def in_a_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def halt_of(pipeline: Pipeline) -> Halt:
    """Run it until it halts, during `start()` or after it."""
    try:
        pipeline.start()
        pipeline.wait(DEADLINE)
    except PipelineHalted as verdict:
        return verdict.halt
    raise AssertionError(f"no halt: {pipeline.status()}")


def joined(thread: threading.Thread) -> bool:
    thread.join(DEADLINE)
    return not thread.is_alive()


class Refusing(Keeping):
    """Refuses the n-th transaction."""

    def __init__(self, number: int = 1) -> None:
        super().__init__()
        self.number = number

    def handle_transaction(self, transaction: Transaction) -> None:
        if transaction.gtid.number == self.number:
            self._pass()
            raise ValueError("sentinel-value")
        super().handle_transaction(transaction)


class Silent(ScriptedSource):
    """Accepts, and never answers until it is interrupted."""

    def __init__(self) -> None:
        super().__init__(lambda _: [])
        self.dialled = threading.Event()

    def link(self) -> "SilentLink":
        self.links += 1
        return SilentLink(self, iter([]))


class SilentLink(ScriptedLink):
    def open(self) -> ServerFacts:
        self._source.dialled.set()  # type: ignore[attr-defined]
        assert self._interrupted.wait(60)
        raise LinkLost("connect")


class Unreachable(ScriptedSource):
    """Refuses every dial."""

    def __init__(self) -> None:
        super().__init__(lambda _: [])

    def link(self) -> "UnreachableLink":
        self.links += 1
        return UnreachableLink(self, iter([]))


class UnreachableLink(ScriptedLink):
    def open(self) -> ServerFacts:
        raise LinkLost("connect", 2003)


class TestStart:
    def test_it_returns_when_the_stream_is_open(self) -> None:
        """The server is known by then."""
        pipeline = Pipeline(configured(Keeping()), source=inserts(1))
        assert pipeline.status().state == "new"
        pipeline.start()
        status = pipeline.status()
        pipeline.stop()

        assert (status.state, status.halt, status.drained) == ("running", None, None)
        assert status.server_uuid is not None
        assert status.counters["connects"] == 1

    def test_it_returns_when_the_first_dial_failed(self) -> None:
        """What may pass by itself is tried again in the background."""
        with Pipeline(configured(Keeping(), attempts=100), source=Unreachable()) as pipeline:
            assert pipeline.status().counters["failed_dials"] > 0
            assert pipeline.status().state == "running"

    def test_a_budget_of_one_dial_raises(self) -> None:
        """The first failure is the last."""
        with pytest.raises(PipelineHalted) as caught:
            Pipeline(configured(Keeping(), attempts=1), source=Unreachable()).start()

        assert caught.value.halt.reason is HaltReason.COMMAND_RETRIES_EXHAUSTED

    def test_a_failed_preflight_raises(self) -> None:
        """Nothing was asked of the source."""
        source = HistorySource([insert(1)], facts=facts_with(gtid_mode="OFF"))

        with pytest.raises(PipelineHalted) as caught:
            Pipeline(configured(Keeping()), source=source).start()

        assert caught.value.halt.reason is HaltReason.GTID_MODE_NOT_ON
        assert source.asked == []

    def test_a_locked_store_raises(self, tmp_path: Path) -> None:
        """Another pipeline writes there."""
        holder = SqliteStore(tmp_path / "state.db")
        holder.hold()
        try:
            store = SqliteStore(tmp_path / "state.db")
            with pytest.raises(PipelineHalted) as caught:
                Pipeline(configured(Keeping(), store=store), source=inserts(1)).start()
        finally:
            holder.close()

        assert caught.value.halt.reason is HaltReason.STORE_LOCKED

    def test_a_sink_that_cannot_be_opened_raises(self) -> None:
        """The class of what it raised, nothing more."""

        class Shut(Keeping):
            def open(self) -> None:
                raise OSError("sentinel-value")

        with pytest.raises(PipelineHalted) as caught:
            Pipeline(configured(Shut()), source=inserts(1)).start()

        assert str(caught.value.halt) == "sink_failed: OSError"

    def test_a_sink_whose_open_hangs_raises_in_time(self) -> None:
        """`sink_stalled`: nothing is dialled before the sink is open."""

        class Stuck(Keeping):
            def open(self) -> None:
                self._pass()

        sink, source = Stuck(), inserts(1)
        sink.gate.clear()
        try:
            with pytest.raises(PipelineHalted) as caught:
                Pipeline(configured(sink, sink_timeout=0.2), source=source).start()
        finally:
            sink.gate.set()

        assert caught.value.halt.reason is HaltReason.SINK_STALLED
        assert source.links == 0

    def test_it_starts_once(self) -> None:
        """A pipeline lives once, also after its end."""
        pipeline = Pipeline(configured(Keeping()), source=inserts(1))
        pipeline.start()
        with pytest.raises(RuntimeError):
            pipeline.start()
        pipeline.stop()
        with pytest.raises(RuntimeError):
            pipeline.start()

    def test_who_waits_for_what_was_not_started_is_told(self) -> None:
        """A mistake of the caller's, not an endless wait."""
        pipeline = Pipeline(configured(Keeping()), source=inserts(1))

        for wait in (pipeline.wait, lambda: pipeline.wait_for(up_to(1))):
            with pytest.raises(RuntimeError):
                wait()
        assert pipeline.watermark == GtidSet()
        assert pipeline.halt is None

    def test_an_interrupted_start_leaves_nothing_running(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Ctrl-C inside `with Pipeline(…)`: nobody else would stop what was started."""
        source = Silent()
        pipeline = Pipeline(configured(Keeping()), source=source)

        def interrupt(*_: object) -> bool:
            assert source.dialled.wait(DEADLINE)
            raise KeyboardInterrupt

        monkeypatch.setattr(pipeline._board, "wait", interrupt)
        with pytest.raises(KeyboardInterrupt), pipeline:
            pass
        monkeypatch.undo()

        assert pipeline.wait(DEADLINE)


class TestStop:
    def test_everything_assembled_is_delivered_and_persisted(self) -> None:
        """What was read before the stop is not read again after it."""
        sink, store = Keeping(), MemoryStore()
        sink.gate.clear()
        source = inserts(100)
        pipeline = Pipeline(configured(sink, store=store, max_batch=1), source=source)
        pipeline.start()
        wait_until(lambda: "waiting for credit" in pipeline.status().connection, what="the pause")
        pipeline.request_stop()
        sink.gate.set()
        pipeline.stop()

        assert pipeline.status().drained
        assert pipeline.status().state == "stopped"
        assert sink.numbers == list(range(1, source.reads))
        assert store.load_watermark() == up_to(source.reads - 1)

    @pytest.mark.parametrize("source", [Silent, Unreachable])
    def test_it_cuts_a_dial_and_a_back_off_short(self, source: Callable[[], Any]) -> None:
        """Nobody sits out a deadline of the network."""
        made = source()
        pipeline = Pipeline(configured(Keeping(), attempts=1000), source=made)
        starting = in_a_thread(pipeline.start)
        wait_until(lambda: made.links > 0, what="the dial")
        pipeline.stop()

        assert joined(starting)
        assert pipeline.wait(0)
        assert pipeline.status().state == "stopped"

    def test_during_start_it_ends_the_start(self) -> None:
        """`start()` returns: the pipeline was stopped, not halted."""
        source = Silent()
        pipeline = Pipeline(configured(Keeping()), source=source)
        starting = in_a_thread(pipeline.start)
        assert source.dialled.wait(DEADLINE)
        pipeline.stop()

        assert joined(starting)
        assert pipeline.status().halt is None

    @pytest.mark.parametrize("stop", [Pipeline.stop, Pipeline.request_stop])
    def test_before_start_it_is_remembered(self, stop: Callable[[Pipeline], None]) -> None:
        """A signal can come first."""
        pipeline = Pipeline(configured(Keeping()), source=inserts(1))
        stop(pipeline)
        pipeline.start()

        assert pipeline.wait(DEADLINE)
        pipeline.stop()

    def test_twice_and_from_two_threads_is_once(self) -> None:
        """The second one finds nothing to do."""
        pipeline = Pipeline(configured(Keeping()), source=inserts(3))
        pipeline.start()
        threads = [in_a_thread(pipeline.stop) for _ in range(3)]

        assert all(map(joined, threads))
        pipeline.stop()
        assert pipeline.status().state == "stopped"

    def test_it_wakes_who_waits(self) -> None:
        """`wait` gives True, `wait_for` False."""
        pipeline = Pipeline(configured(Keeping()), source=inserts(1))
        pipeline.start()
        answers: dict[str, bool] = {}
        threads = [
            in_a_thread(lambda: answers.update(wait=pipeline.wait())),
            in_a_thread(lambda: answers.update(wait_for=pipeline.wait_for(up_to(2)))),
        ]
        pipeline.stop()

        assert all(map(joined, threads))
        assert answers == {"wait": True, "wait_for": False}

    def test_what_was_reached_before_the_stop_stays_reached(self) -> None:
        """A look at the past is no wait."""
        pipeline = Pipeline(configured(Keeping()), source=inserts(1))
        pipeline.start()
        assert pipeline.wait_for(up_to(1), DEADLINE)
        pipeline.stop()

        assert pipeline.wait_for(up_to(1))
        assert not pipeline.wait_for(up_to(2))

    def test_a_drain_past_its_time_is_cut_off(self) -> None:
        """It says so: what was not persisted comes again."""
        sink, store = Keeping(), MemoryStore()
        sink.gate.clear()
        pipeline = Pipeline(configured(sink, store=store), source=inserts(5))
        pipeline.start()
        assert sink.entered.wait(DEADLINE)
        try:
            pipeline.stop(timeout=0.1)
            assert pipeline.status().drained is False
            assert pipeline.halt is not None
            assert pipeline.halt.reason is HaltReason.CHILD_WOULD_NOT_STOP
        finally:
            sink.gate.set()
        assert store.load_watermark() is None

    def test_inside_the_sink_it_only_asks(self) -> None:
        """Waiting there would wait for itself."""

        class Stopping(Keeping):
            def handle_transaction(self, transaction: Transaction) -> None:
                super().handle_transaction(transaction)
                pipeline.stop()

        sink = Stopping()
        pipeline = Pipeline(configured(sink), source=inserts(3))
        pipeline.start()

        assert pipeline.wait(DEADLINE)
        assert sink.numbers[0] == 1
        assert pipeline.status().drained

    def test_another_pipelines_sink_may_stop_this_one(self) -> None:
        """Only its own threads must not wait for it."""
        first = Pipeline(configured(Keeping()), source=inserts(1))
        first.start()

        class Ending(Keeping):
            def handle_transaction(self, transaction: Transaction) -> None:
                super().handle_transaction(transaction)
                first.stop()
                self.schema_changes.append(first.status().state == "stopped")

        sink = Ending()
        with Pipeline(configured(sink), source=inserts(1)) as second:
            assert second.wait_for(up_to(1), DEADLINE)

        assert sink.schema_changes == [True]

    def test_no_thread_is_left(self) -> None:
        """Nor an actor in anybody's registry."""
        before = set(threading.enumerate())
        with Pipeline(configured(Keeping()), source=inserts(3)) as pipeline:
            assert pipeline.wait_for(up_to(3), DEADLINE)
            assert set(threading.enumerate()) - before

        wait_until(lambda: not set(threading.enumerate()) - before, what="the threads' end")


class TestHalt:
    def test_every_waiting_call_raises_at_once(self) -> None:
        """Whoever waits, for whatever, on whichever thread."""
        sink = Refusing(2)
        sink.gate.clear()
        pipeline = Pipeline(configured(sink), source=inserts(3))
        pipeline.start()
        raised: list[HaltReason] = []

        def told(wait: Callable[[], object]) -> None:
            try:
                wait()
            except PipelineHalted as verdict:
                raised.append(verdict.halt.reason)

        waits = [pipeline.wait, lambda: pipeline.wait_for(up_to(9)), lambda: pipeline.wait(60)]
        threads = [in_a_thread(lambda w=wait: told(w)) for wait in waits]
        sink.gate.set()

        assert all(map(joined, threads))
        assert raised == [HaltReason.SINK_FAILED] * 3
        pipeline.stop()

    def test_every_later_call_raises_too(self) -> None:
        """R267: a halted pipeline stays halted."""
        pipeline = Pipeline(configured(Refusing()), source=inserts(1))
        halt_of(pipeline)

        for wait in (pipeline.wait, lambda: pipeline.wait_for(up_to(1)), pipeline.wait):
            with pytest.raises(PipelineHalted):
                wait()
        assert pipeline.status().state == "halted"
        assert pipeline.status().drained is False

    def test_leaving_the_block_raises_when_nobody_was_told(self) -> None:
        """A halt is never silent."""
        with pytest.raises(PipelineHalted):
            self.leave_halted(lambda _: None)

    def test_leaving_the_block_is_quiet_when_somebody_was(self) -> None:
        """Once is enough."""
        told: list[Halt] = []

        def wait(pipeline: Pipeline) -> None:
            with pytest.raises(PipelineHalted) as caught:
                pipeline.wait(DEADLINE)
            told.append(caught.value.halt)

        self.leave_halted(wait)

        assert [halt.reason for halt in told] == [HaltReason.SINK_FAILED]

    def test_the_bodys_own_exception_is_not_masked(self) -> None:
        """What went wrong first is what is seen."""

        def fail(_: Pipeline) -> None:
            raise KeyError

        with pytest.raises(KeyError):
            self.leave_halted(fail)

    def leave_halted(self, body: Callable[[Pipeline], None]) -> None:
        """Leave the block of a pipeline that halts inside it, behind `body`."""
        sink = Refusing()
        sink.gate.clear()
        with Pipeline(configured(sink), source=inserts(1)) as pipeline:
            sink.gate.set()
            body(pipeline)

    def test_a_store_that_fails_halts_without_waiting_for_it(self) -> None:
        """R42: the batch under way could not be persisted, and no deadline is sat out for it."""

        class Full(MemoryStore):
            def save_watermark(self, gtid_set: GtidSet, *more: Any) -> None:
                if gtid_set.count() == 3:
                    raise OSError("sentinel-value")
                super().save_watermark(gtid_set, *more)

        store = Full()
        pipeline = Pipeline(configured(Keeping(), store=store, max_batch=1), source=inserts(9))

        assert str(halt_of(pipeline)) == "store_failed: OSError"
        assert store.load_watermark() == up_to(2)
        assert pipeline.status().drained is False

    def test_what_stood_before_a_halt_of_the_stream_is_delivered(self) -> None:
        """R14, R30: the others drain, then the tree ends."""
        sink, store = Keeping(), MemoryStore()
        broken = [events.gtid(3), events.query(b"XA COMMIT X'61',X'',1")]
        source = HistorySource([insert(1), insert(2), broken])
        pipeline = Pipeline(configured(sink, store=store), source=source)

        assert halt_of(pipeline).reason is HaltReason.UNSUPPORTED_TRANSACTION_SHAPE
        assert sink.numbers == [1, 2]
        assert store.load_watermark() == up_to(2)
        assert pipeline.status().drained

    @pytest.mark.parametrize(
        "broken",
        [
            [events.gtid(2), events.query(b"XA COMMIT X'61',X'',1")],
            [events.event(26, b"\x01\x00\x00")],
            [events.event(34, bytes(42))],
        ],
        ids=["xa", "incident", "anonymous"],
    )
    def test_a_restart_meets_the_same_halt_again(self, broken: list[bytes]) -> None:
        """R29, D13: also right behind the anchor's group, which is passed over unread."""
        store, reasons = MemoryStore(), set()
        for _ in range(3):
            sink = Keeping()
            source = HistorySource([insert(1), broken, insert(3)])
            source.facts = facts_with(gtid_executed=up_to(9))
            reasons.add(halt_of(Pipeline(configured(sink, store=store), source=source)).reason)
            assert 3 not in sink.numbers

        assert len(reasons) == 1
        assert store.load_watermark() == up_to(1)

    def test_a_hanging_sinks_store_stays_locked_until_it_has_ended(self, tmp_path: Path) -> None:
        """No other pipeline starts from a position that the call may still overtake."""
        sink, store = Keeping(), SqliteStore(tmp_path / "state.db")
        sink.gate.clear()
        pipeline = Pipeline(configured(sink, store=store, sink_timeout=0.2), source=inserts(1))
        try:
            assert halt_of(pipeline).reason is HaltReason.SINK_STALLED
            with pytest.raises(PipelineHalted) as locked:
                self.again(tmp_path)
            assert locked.value.halt.reason is HaltReason.STORE_LOCKED
        finally:
            sink.gate.set()
        wait_until(lambda: not alive("coordinator"), what="the end of the call")
        self.again(tmp_path)

    def again(self, folder: Path) -> None:
        config = configured(Keeping(), store=SqliteStore(folder / "state.db"))
        with Pipeline(config, source=inserts(2)) as pipeline:
            assert pipeline.wait_for(up_to(2), DEADLINE)


def alive(name: str) -> bool:
    return any(thread.name == name for thread in threading.enumerate())


class TestObservers:
    def test_the_end_is_told_once_before_anybody_is_told_otherwise(self) -> None:
        """R54: the host may end its process as soon as a call raises."""
        heard: list[Event] = []
        pipeline = Pipeline(configured(Refusing(), observers=[heard.append]), source=inserts(1))
        halt_of(pipeline)

        assert heard[-1] == PipelineEnded(reason="sink_failed", detail="ValueError")
        pipeline.stop()
        assert [event.name for event in heard].count("pipeline.ended") == 1

    def test_a_stop_is_told_without_a_reason(self) -> None:
        """An end is no halt."""
        heard: list[Event] = []
        with Pipeline(configured(Keeping(), observers=[heard.append]), source=inserts(1)):
            pass

        assert heard[-1] == PipelineEnded(reason=None, detail="")

    @pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
    def test_one_that_raises_disturbs_nobody(self, error: type[BaseException]) -> None:
        """Whatever it raises, at whichever event."""

        def raising(_: Event) -> None:
            raise error("sentinel-value")

        heard: list[Event] = []
        sink = Keeping()
        config = configured(sink, observers=[raising, heard.append])
        with Pipeline(config, source=inserts(5)) as pipeline:
            assert pipeline.wait_for(up_to(5), DEADLINE)
            assert restarts(pipeline) == 0

        assert sink.numbers == [1, 2, 3, 4, 5]
        assert heard[-1].name == "pipeline.ended"

    def test_one_that_hangs_at_the_end_holds_nobody_back(self) -> None:
        """The other waits are told in bounded time."""
        release = threading.Event()

        def hanging(event: Event) -> None:
            if event.name == "pipeline.ended":
                release.wait(60)

        pipeline = Pipeline(configured(Refusing(), observers=[hanging]), source=inserts(1))
        try:
            halt_of(pipeline)
            with pytest.raises(PipelineHalted):
                pipeline.wait_for(up_to(1))
            pipeline.stop()
            assert not release.is_set()
        finally:
            release.set()

    @pytest.mark.parametrize(
        "name",
        ["connection.established", "connection.lost", "batch.settled", "pipeline.ended"],
    )
    def test_one_may_stop_the_pipeline(self, name: str) -> None:
        """From any of the pipeline's own threads it only asks for it."""

        def stopping(event: Event) -> None:
            if event.name == name:
                pipeline.stop()

        source = HistorySource([insert(n) for n in range(1, 4)], cuts=[2])
        pipeline = Pipeline(configured(Keeping(), observers=[stopping]), source=source)
        pipeline.start()
        if name == "pipeline.ended":
            pipeline.stop()

        assert pipeline.wait(DEADLINE)
        pipeline.stop()
        assert pipeline.status().halt is None

    def test_a_crash_is_told_with_class_and_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """R265: no message, no value."""
        left = [1]
        read = ScriptedLink.read

        def reading(this: ScriptedLink, timeout: float) -> bytes | None:
            if left.pop() if left else 0:
                raise RuntimeError("sentinel-value")
            return read(this, timeout)

        monkeypatch.setattr(ScriptedLink, "read", reading)
        heard: list[Event] = []
        config = configured(Keeping(), observers=[heard.append])
        with Pipeline(config, source=inserts(1)) as pipeline:
            assert pipeline.wait_for(up_to(1), DEADLINE)
        (told,) = [event for event in heard if event.name == "child.restarted"]

        assert "connection" in str(told)
        assert "RuntimeError" in str(told)
        assert "sentinel" not in str(told)


def restarts(pipeline: Pipeline) -> int:
    rows: list[Any] = pipeline.status().tree
    return sum(row["restarts"] for top in rows for row in (top, *top["children"]))


class TestStatus:
    def test_the_figures_add_up(self) -> None:
        """Delivered, filtered, statements, batches; over two epochs."""
        history = [insert(1), filtered(2), empty(3), ddl(4), insert(5)]
        source = HistorySource(history, cuts=[3])
        with Pipeline(configured(Keeping()), source=source) as pipeline:
            assert pipeline.wait_for(up_to(5), DEADLINE)
        counters = pipeline.status().counters

        assert (counters["transactions"], counters["changes"]) == (2, 2)
        assert (counters["filtered"], counters["schema_changes"]) == (2, 1)
        assert (counters["connects"], counters["failed_dials"]) == (2, 1)
        assert 1 <= counters["batches"] <= 5

    def test_the_watermark_is_what_is_on_disk(self) -> None:
        """Never ahead of the store, whenever it is looked at."""
        store = MemoryStore()
        ahead: list[GtidSet] = []

        def looking(_: Event) -> None:
            ahead.append(pipeline.watermark - (store.load_watermark() or GtidSet()))

        config = configured(Keeping(), store=store, max_batch=1, observers=[looking])
        pipeline = Pipeline(config, source=inserts(20))
        with pipeline:
            assert pipeline.wait_for(up_to(20), DEADLINE)

        assert len(ahead) > 20
        assert not any(ahead)

    def test_the_tree_is_plain_data(self) -> None:
        """Four actors and a supervisor, by name, in start order."""
        with Pipeline(configured(Keeping()), source=inserts(1)) as pipeline:
            tree: list[Any] = pipeline.status().tree

        assert [row["id"] for row in tree] == ["checkpoint", "coordinator", "stream"]
        assert [row["id"] for row in tree[2]["children"]] == ["assembler", "connection"]

    def test_stopping_shows(self) -> None:
        """Between the request and the end."""
        sink = Keeping()
        sink.gate.clear()
        pipeline = Pipeline(configured(sink), source=inserts(1))
        pipeline.start()
        assert sink.entered.wait(DEADLINE)
        pipeline.request_stop()
        state = pipeline.status().state
        sink.gate.set()
        pipeline.stop()

        assert state == "stopping"


class TestMemory:
    def test_a_transaction_that_a_sink_keeps_does_not_keep_the_stream(self) -> None:
        """It holds its own piece's list of identities, no rows of others and no other piece."""
        kept: list[Transaction] = []
        rows: list[weakref.ref[object]] = []

        class Hoarding(Sink):
            def handle_transaction(self, transaction: Transaction) -> None:
                rows.append(weakref.ref(transaction.changes.chunks[0]))
                if transaction.gtid.number == 7:
                    kept.append(transaction)

        with Pipeline(configured(Hoarding()), source=inserts(300)) as pipeline:
            assert pipeline.wait_for(up_to(300), DEADLINE)
        del pipeline
        gc.collect()

        assert [ref() is not None for ref in rows].count(True) == 1
        logs = [found for found in gc.get_referents(kept[0]) if isinstance(found, PositionLog)]
        assert [len(log.run) for log in logs] == [1]
        assert kept[0].position == up_to(7)

    def test_what_is_settled_is_let_go_while_the_stream_goes_on(self) -> None:
        """An idle pipeline holds no row."""
        rows: list[weakref.ref[object]] = []

        class Glancing(Sink):
            def handle_transaction(self, transaction: Transaction) -> None:
                rows.append(weakref.ref(transaction.changes.chunks[0]))

        with Pipeline(configured(Glancing()), source=inserts(50)) as pipeline:
            assert pipeline.wait_for(up_to(50), DEADLINE)
            wait_until(lambda: not any(ref() for ref in rows), what="the rows to be let go")

    def test_an_ended_pipeline_holds_neither_rows_nor_actors(self) -> None:
        """Several pipelines live in one process; those that ended cost nothing."""
        sink = Positioned()
        gone = weakref.ref(sink)
        pipeline = Pipeline(configured(sink), source=inserts(5))
        pipeline.start()
        assert pipeline.wait_for(up_to(5), DEADLINE)
        pipeline.stop()
        del sink, pipeline

        wait_until(lambda: gc.collect() is not None and gone() is None, what="the sink freed")


class TestSeveral:
    def test_two_pipelines_do_not_touch_each_other(self) -> None:
        """One halts, the other streams on."""
        good, bad = Keeping(), Refusing()
        gate = threading.Event()

        def late() -> Iterator[bytes]:
            yield from one_by_one([insert(1)])
            assert gate.wait(DEADLINE)
            yield events.packets(insert(2), 9)

        one = Pipeline(configured(good), source=ScriptedSource(lambda _: late()))
        other = Pipeline(configured(bad), source=inserts(1))
        one.start()
        halt_of(other)
        gate.set()

        assert one.wait_for(up_to(2), DEADLINE)
        one.stop()
        assert one.status().halt is None
