"""One dial after another: what is still under way, what must come by again, which server it is."""

from collections.abc import Iterator

import pytest
from helpers import event_builder as events
from helpers.histories import (
    Group,
    HistorySource,
    Keeping,
    Positioned,
    configured,
    create_select,
    filtered,
    gtid,
    insert,
    up_to,
)
from helpers.scripted_source import SERVER_UUID, ScriptedSource, cut, facts_with, one_by_one
from helpers.waiting import wait_until

from capstan import GtidSet, HaltReason, MemoryStore, Pipeline, PipelineHalted, Transaction
from capstan.core.dialling import Phase
from capstan.core.preflight import ServerFacts
from capstan.core.watermark import Anchor

COMMIT = 1_700_000_000_000_001
OTHER_SERVER = "bbbbbbbb-bbbb-cccc-dddd-eeeeeeeeeeee"
DEADLINE = 30.0


def anchor(number: int, commit: int = COMMIT, server: str = SERVER_UUID) -> Anchor:
    return Anchor(
        gtid=gtid(number), commit_micros=commit, arrived_micros=commit, server_uuid=server
    )


def stored(number: int, **changes: object) -> MemoryStore:
    """A store that stands at `number`, with the anchor that the history shows."""
    store = MemoryStore()
    store.save_watermark(up_to(number), anchor(number, **changes), None)  # type: ignore[arg-type]
    return store


def rewritten(number: int) -> Group:
    """Another transaction under the same GTID."""
    return [events.gtid(number, commit=COMMIT + 5), *insert(number)[1:]]


def halt_of(pipeline: Pipeline) -> HaltReason:
    try:
        pipeline.start()
        pipeline.wait(DEADLINE)
    except PipelineHalted as verdict:
        return verdict.halt.reason
    raise AssertionError(f"no halt: {pipeline.status()}")


def test_nothing_is_asked_for_again_while_it_is_still_under_way() -> None:
    """R39, D13, D15: a dial waits until all is settled that was read; nothing comes twice."""
    sink = Keeping()
    sink.gate.clear()
    store = stored(3)
    source = HistorySource([insert(n) for n in range(1, 30)], cuts=[4])
    config = configured(sink, store=store, max_batch=1)
    with Pipeline(config, source=source) as pipeline:
        assert sink.entered.wait(DEADLINE)
        wait_until(lambda: waits_for_its_position(pipeline), what="the end of the first dial")
        assert source.links == 1
        sink.gate.set()
        assert pipeline.wait_for(up_to(29), DEADLINE)
        counters = pipeline.status().counters

    assert sink.numbers == list(range(4, 30))
    assert source.asked == [up_to(2), up_to(4)]
    assert counters["transactions"] == 26
    assert counters["skipped"] == 0


def waits_for_its_position(pipeline: Pipeline) -> bool:
    return pipeline.status().connection == Phase.ASKING.value


def test_an_older_epochs_statement_with_rows_is_not_doubled() -> None:
    """R39, D20: a cut behind it, while it is still under way."""
    sink = Keeping()
    sink.gate.clear()
    history = [insert(1), create_select(2), insert(3)]
    source = HistorySource(history, cuts=[3])
    with Pipeline(configured(sink), source=source) as pipeline:
        assert sink.entered.wait(DEADLINE)
        wait_until(lambda: waits_for_its_position(pipeline), what="the end of the first dial")
        sink.gate.set()
        assert pipeline.wait_for(up_to(3), DEADLINE)

    assert sink.calls == [[1], [2], [2], [3]]


def test_a_sink_ahead_of_the_store_is_not_asked_twice_and_the_anchor_still_comes_by() -> None:
    """D12, D13: what is asked for is the union without the anchor."""
    sink = Positioned()
    sink.processed = up_to(5)
    source = HistorySource([insert(n) for n in range(1, 9)])
    store = stored(3)
    store.save_watermark(up_to(3), anchor(3), up_to(3))
    with Pipeline(configured(sink, store=store), source=source) as pipeline:
        assert pipeline.wait_for(up_to(8), DEADLINE)

    assert source.asked[0] == up_to(5).without(gtid(3))
    assert sink.numbers == [6, 7, 8]
    assert store.load_anchor() == anchor(8)


@pytest.mark.parametrize("behind", [[], [insert(4)]], ids=["alone", "with more"])
def test_a_history_rewritten_before_a_start_is_seen(behind: list[Group]) -> None:
    """D13: every set test passes; the anchor tells, and nothing of the new history leaves."""
    sink, store = Keeping(), stored(3)
    source = HistorySource([insert(1), insert(2), rewritten(3), *behind])

    reason = halt_of(Pipeline(configured(sink, store=store), source=source))

    assert reason is HaltReason.SOURCE_HISTORY_CHANGED
    assert sink.numbers == []
    assert store.load_watermark() == up_to(3)


def test_a_history_rewritten_between_two_dials_is_seen() -> None:
    """D13: at every dial, not only at the first."""
    sink, store = Keeping(), MemoryStore()

    def script(dial: int) -> Iterator[bytes | Exception]:
        if dial == 0:
            yield from one_by_one([insert(1), insert(2)])
            wait_until(lambda: store.load_watermark() == up_to(2), what="both on disk")
            yield cut()
        yield from one_by_one([rewritten(2), insert(3)])

    pipeline = Pipeline(configured(sink, store=store), source=ScriptedSource(script))

    assert halt_of(pipeline) is HaltReason.SOURCE_HISTORY_CHANGED
    assert sink.numbers == [1, 2]


def test_a_purged_anchor_does_not_stop_the_stream() -> None:
    """D13: the server has it no more; the stream goes on behind it, with a new anchor."""
    sink, store = Keeping(), stored(3)
    facts = facts_with(gtid_purged=up_to(3))
    source = HistorySource([insert(n) for n in range(1, 6)], facts=facts)
    with Pipeline(configured(sink, store=store), source=source) as pipeline:
        assert pipeline.wait_for(up_to(5), DEADLINE)

    assert source.asked == [up_to(3)]
    assert sink.numbers == [4, 5]
    assert store.load_anchor() == anchor(5)


def test_a_seed_without_an_anchor_is_believed_once() -> None:
    """D13: the first processed transaction sets the anchor, a filtered one too."""
    sink, store = Keeping(), MemoryStore()
    store.save_watermark(up_to(3))
    history = [insert(1), insert(2), rewritten(3), filtered(4)]
    with Pipeline(configured(sink, store=store), source=HistorySource(history)) as pipeline:
        assert pipeline.wait_for(up_to(4), DEADLINE)

    assert sink.numbers == []
    assert store.load_anchor() == anchor(4)


class Growing(Keeping):
    """Looks at the position of each transaction, as a sink does that keeps it with the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = GtidSet()

    def handle_transaction(self, transaction: Transaction) -> None:
        super().handle_transaction(transaction)
        assert self.reached <= transaction.position
        self.reached = transaction.position


class TwoServers(ScriptedSource):
    """Another server at each dial; the second one logged its transactions in another order."""

    def __init__(self, orders: list[list[int]], first_pieces: int) -> None:
        super().__init__(self._play)
        self._orders, self._first = orders, first_pieces

    def link(self):  # type: ignore[no-untyped-def]
        server = [SERVER_UUID, OTHER_SERVER][min(self.links, 1)]
        self.facts: ServerFacts = facts_with(server_uuid=server)
        return super().link()

    def _play(self, dial: int) -> Iterator[bytes | Exception]:
        asked = self.asked[-1]
        order = self._orders[min(dial, 1)]
        groups = (
            [events.gtid(n, commit=COMMIT + dial, original=COMMIT), *insert(n)[1:]]
            for n in order
            if gtid(n) not in asked
        )
        for place, piece in enumerate(one_by_one(groups)):
            if dial == 0 and place > self._first:
                yield cut()
            yield piece


@pytest.mark.parametrize("gated", [False, True], ids=["settled", "still under way"])
@pytest.mark.parametrize(
    "order", [[2, 1, 4, 3, 6, 5], [1, 4, 2, 5, 3, 6]], ids=["swapped", "mixed"]
)
def test_another_server_in_another_order_brings_each_transaction_once(
    gated: bool, order: list[int]
) -> None:
    """D13, D15, R38: membership and never a maximum; no position lacks what the one before had."""
    sink, store = Growing(), MemoryStore()
    if gated:
        sink.gate.clear()
    source = TwoServers([[1, 2, 3, 4, 5, 6], order], first_pieces=3)
    config = configured(sink, store=store, max_batch=1)
    with Pipeline(config, source=source) as pipeline:
        if gated:
            wait_until(lambda: waits_for_its_position(pipeline), what="the end of the first dial")
            sink.gate.set()
        assert pipeline.wait_for(up_to(6), DEADLINE)

    assert sink.numbers[:3] == [1, 2, 3]
    assert sorted(sink.numbers) == [1, 2, 3, 4, 5, 6]
    assert sink.reached == up_to(6)
    assert store.load_watermark() == up_to(6)
    last = store.load_anchor()
    assert last is not None
    assert (last.server_uuid, last.commit_micros) == (OTHER_SERVER, COMMIT)
