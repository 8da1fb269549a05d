"""Credit: the four promises of the flow control, on the real actors over a scripted source."""

import threading
from collections.abc import Iterator

import pytest
from helpers import event_builder as events
from helpers.scripted_source import ScriptedSource, cut, facts_with, one_by_one, pieces
from helpers.waiting import wait_until

import capstan.wiring
from capstan import Config, Delivery, MemoryStore, Pipeline, Source, Transaction
from capstan.sinks.base import Sink


class Collecting(Sink):
    """Counts what it gets; waits at a gate first."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def handle_transaction(self, transaction: Transaction) -> None:
        self.entered.set()
        self.gate.wait(60)
        self.numbers.append(transaction.gtid.number)


def waits_for_credit(pipeline: Pipeline) -> bool:
    return pipeline.status().connection == "connected, waiting for credit"


def config(sink: Sink, *, attempts: int = 3, max_batch: int = 1000) -> Config:
    return Config(
        source=Source(user="u", server_id=9, reconnect_attempts=attempts),
        tables=["shop.*"],
        sink=sink,
        store=MemoryStore(),
        delivery=Delivery(max_batch=max_batch),
    )


def upto(number: int) -> str:
    return f"{events.SOURCE}:1-{number}"


def test_a_transaction_of_many_pieces_does_not_wait_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With one credit, pieces that finish nothing give it back at once."""
    monkeypatch.setattr(capstan.wiring, "CREDIT_PIECES", 1)
    rows = [events.rows(30, 80, [(i, "x" * 40)], last=i == 199) for i in range(200)]
    raws = [events.gtid(1), events.query(b"BEGIN"), events.table_map(80), *rows, events.xid()]
    parts = pieces(raws, size=300)
    sink = Collecting()
    assert len(parts) >= 50

    with Pipeline(config(sink), source=ScriptedSource(lambda _: parts)) as pipeline:
        assert pipeline.wait_for(upto(1), timeout=20)

    assert sink.numbers == [1]


def test_ten_thousand_heartbeats_cost_no_credit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quiet source never uses the credit up."""
    monkeypatch.setattr(capstan.wiring, "CREDIT_PIECES", 8)
    groups = [*[[events.heartbeat()]] * 10_000, events.insert(1, 1)]
    sink = Collecting()

    with Pipeline(config(sink), source=ScriptedSource(lambda _: one_by_one(groups))) as pipeline:
        assert pipeline.wait_for(upto(1), timeout=60)

    assert sink.numbers == [1]


def test_a_sink_that_stands_still_holds_the_reading() -> None:
    """A slow sink never grows memory: no more pieces are read than there is credit."""
    sink = Collecting()
    sink.gate.clear()
    groups = [events.insert(n, n) for n in range(1, 201)]
    source = ScriptedSource(lambda _: one_by_one(groups))

    with Pipeline(config(sink, max_batch=1), source=source) as pipeline:
        assert sink.entered.wait(20)
        wait_until(lambda: waits_for_credit(pipeline), what="the credit to be spent")
        assert source.reads <= 1 + capstan.wiring.CREDIT_PIECES
        sink.gate.set()
        assert pipeline.wait_for(upto(200), timeout=30)

    assert sink.numbers == list(range(1, 201))


def test_cuts_while_there_is_no_credit_do_not_use_the_budget_up() -> None:
    """A sink that stands still while the server cuts again and again is no flapping link."""
    sink = Collecting()
    sink.gate.clear()
    cuts = 12

    def script(number: int) -> Iterator[bytes | Exception]:
        if number < cuts:
            sink.gate.clear()
        (asked,) = source.asked[-1].intervals(events.SOURCE) or ((1, 1),)
        yield from one_by_one(events.insert(n, n) for n in range(asked[1], asked[1] + 8))
        if number < cuts:
            yield cut()

    # One counted failure would be the last.
    source = ScriptedSource(script)
    with Pipeline(config(sink, attempts=1, max_batch=1), source=source) as pipeline:
        for dial in range(cuts):
            wait_until(lambda: waits_for_credit(pipeline), what="the credit to be spent")
            sink.gate.set()
            wait_until(lambda d=dial: source.links > d + 1, what="the next dial", timeout=60)
        sink.gate.set()
        # Each dial brings eight, the first of them being the one that was processed last.
        assert pipeline.wait_for(upto(7 * cuts + 8), timeout=30)

    assert sink.numbers == list(range(1, 7 * cuts + 9))


def test_a_flapping_link_without_progress_ends() -> None:
    """The budget refills when the watermark moves, not when a connect succeeds."""
    source = ScriptedSource(lambda _: [*pieces([]), cut()])
    pipeline = Pipeline(config(Collecting()), source=source)

    with pytest.raises(capstan.PipelineHalted) as caught, pipeline:
        pipeline.wait(timeout=60)

    assert caught.value.halt.reason is capstan.HaltReason.COMMAND_RETRIES_EXHAUSTED
    assert source.links == 3


def test_a_hung_sink_stops_the_dialling_too() -> None:
    """Under a hung sink no link is dialled again, whatever breaks: memory stays flat."""
    sink = Collecting()
    sink.gate.clear()
    cuts = iter(range(100))

    def script(_: int) -> Iterator[bytes | Exception]:
        (asked,) = source.asked[-1].intervals(events.SOURCE) or ((1, 1),)
        groups = [events.insert(n, *range(50)) for n in range(asked[1], asked[1] + 40)]
        # Credit is spent behind the fourth piece: a cut right there is met by the fifth read only.
        yield from one_by_one(groups)
        if next(cuts, None) is not None:
            yield cut()

    source = ScriptedSource(script)
    with Pipeline(config(sink, max_batch=1), source=source) as pipeline:
        all_credit = 1 + capstan.wiring.CREDIT_PIECES
        wait_until(lambda: source.reads == all_credit, what="the credit to be spent")
        reads, links = source.reads, source.links
        with pytest.raises(AssertionError, match="in vain"):
            wait_until(lambda: (source.reads, source.links) != (reads, links), what="-", timeout=1)
        sink.gate.set()
        assert pipeline.wait_for(upto(400), timeout=60)

    assert sink.numbers == list(range(1, len(sink.numbers) + 1))


def test_facts_of_another_make_are_refused() -> None:
    """The preflight runs on the stream's own link before anything is asked of it."""
    source = ScriptedSource(lambda _: [], facts=facts_with(binlog_format="STATEMENT"))

    with pytest.raises(capstan.PipelineHalted) as caught:
        Pipeline(config(Collecting()), source=source).start()

    assert caught.value.halt.reason is capstan.HaltReason.BINLOG_FORMAT_NOT_ROW
    assert source.asked == []
