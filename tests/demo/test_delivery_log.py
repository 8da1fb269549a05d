"""The delivery log: what was given to a mirror is counted exactly, kills included."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.changes_builder import (
    COMMIT_MICROS,
    UUID,
    created,
    group,
    inserted,
    schema_change,
    shape,
    transaction,
    up_to,
)

from capstan.core.changes import Item, Transaction
from capstan.core.gtid import GtidSet
from capstan.demo.delivery_log import Deliveries, DeliveryLog, LoggedSink
from capstan.sinks.base import Sink

TABLE = shape("shop.orders", "id int", key=["id"])


class Remembering(Sink):
    """Accepts items and remembers their GTIDs as its position."""

    def __init__(self) -> None:
        self.batches: list[Sequence[Item]] = []
        self.executed = GtidSet()
        self.refuses = False

    def position(self) -> GtidSet:
        return self.executed

    def handle_batch(self, items: Sequence[Item]) -> None:
        if self.refuses:
            raise ValueError("refused")
        self.batches.append(items)
        self.executed = self.executed.add_all(item.gtid for item in items)


def order(number: int) -> Transaction:
    return transaction(number, inserted(TABLE, (number,)))


def opened(number: int) -> dict[str, Any]:
    return {"open": str(up_to(number)), "at": 0}


def call(*numbers: int, committed: int = COMMIT_MICROS) -> dict[str, Any]:
    return {"call": [[f"{UUID}:{number}", committed, 1] for number in numbers]}


def done(at: int = COMMIT_MICROS) -> dict[str, Any]:
    return {"done": at}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deliveries.log"


def read(path: Path, *lines: dict[str, Any], end: int) -> Deliveries:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="ascii")
    with DeliveryLog(path) as log:
        return log.settle(up_to(end))


def test_everything_is_handed_on_and_counted(path: Path) -> None:
    """Transactions, definitions and row changes that the other sink accepted are in the log."""
    inner = Remembering()
    sink = LoggedSink(inner, path)
    sink.open()
    sink.handle_batch([created(1, "shop.orders"), order(2)])
    sink.handle_transaction(order(3))
    assert sink.position() == up_to(3)
    sink.close()
    assert [len(batch) for batch in inner.batches] == [2, 1]
    with DeliveryLog(path) as log:
        deliveries = log.settle(up_to(3))
    assert (deliveries.opened, deliveries.transactions, deliveries.rows) == (1, 3, 2)
    assert (deliveries.duplicates, deliveries.interrupted, deliveries.torn) == (0, 0, 0)
    assert deliveries.newest == COMMIT_MICROS
    assert len(deliveries.latencies) == 3


def test_the_rows_of_a_create_select_are_no_duplicate_of_its_definition(path: Path) -> None:
    """D20: both carry one GTID, and only the second counts."""
    sink = LoggedSink(Remembering(), path)
    sink.open()
    definition = group(schema_change(1, "create_table", "shop.orders"), rows_follow=True)
    sink.handle_batch([definition])
    sink.handle_batch([order(1)])
    sink.close()
    with DeliveryLog(path) as log:
        deliveries = log.settle(up_to(1))
    assert (deliveries.transactions, deliveries.duplicates) == (1, 0)


def test_a_refused_call_is_not_counted(path: Path) -> None:
    """What the other sink raised goes through, and its transactions are not in the mirror."""
    inner = Remembering()
    sink = LoggedSink(inner, path)
    sink.open()
    inner.refuses = True
    with pytest.raises(ValueError, match="refused"):
        sink.handle_batch([order(1)])
    sink.close()
    with DeliveryLog(path) as log:
        assert log.settle(GtidSet()).transactions == 0


def test_a_transaction_given_twice_is_a_duplicate(path: Path) -> None:
    """It counts whether the second call is answered or not."""
    answered = read(path, opened(0), call(1, 2), done(), call(2, 3), done(), end=3)
    assert answered.duplicates == 1
    unanswered = read(path, opened(0), call(1, 2), done(), call(1, 2), opened(2), end=2)
    assert unanswered.duplicates == 2


def test_a_call_cut_short_before_the_commit_comes_again_without_being_a_duplicate(
    path: Path,
) -> None:
    """The mirror's position at its next opening says that nothing of it was committed."""
    deliveries = read(path, opened(0), call(1, 2), opened(0), call(1, 2), done(), end=2)
    assert (deliveries.interrupted, deliveries.recovered, deliveries.duplicates) == (1, 0, 0)
    assert deliveries.transactions == 2


def test_a_call_cut_short_after_the_commit_must_not_come_again(path: Path) -> None:
    """The position says that it was committed: it counts, and coming again is a duplicate."""
    once = read(path, opened(0), call(1, 2), opened(2), call(3), done(), end=3)
    assert (once.interrupted, once.recovered, once.transactions) == (1, 1, 3)
    assert once.duplicates == 0
    twice = read(path, opened(0), call(1, 2), opened(2), call(1, 2), done(), end=2)
    assert twice.duplicates == 2


def test_the_last_call_is_settled_by_the_final_position(path: Path) -> None:
    """A pipeline that is killed for the last time leaves its last call to the mirror's position."""
    assert read(path, opened(0), call(1), end=1).transactions == 1
    assert read(path, opened(0), call(1), end=0).transactions == 0


def test_half_a_call_in_the_mirror_is_an_error_of_its_own(path: Path) -> None:
    """A mirror that committed a part of a batch broke its promise."""
    assert read(path, opened(0), call(1, 2), opened(1), end=1).torn == 1


def test_a_line_cut_short_tells_nothing(path: Path) -> None:
    """A kill in the middle of a write leaves half a line, and the next opening a new one."""
    path.write_text(json.dumps(opened(0)) + "\n" + json.dumps(call(1))[:20], encoding="ascii")
    sink = LoggedSink(Remembering(), path)
    sink.open()
    sink.handle_batch([order(1)])
    sink.close()
    with DeliveryLog(path) as log:
        deliveries = log.settle(up_to(1))
    assert (deliveries.opened, deliveries.transactions, deliveries.interrupted) == (2, 1, 0)


def test_the_log_is_read_while_it_grows(path: Path) -> None:
    """Only whole lines are taken, each once."""
    with DeliveryLog(path) as log, path.open("w", encoding="ascii") as file:
        assert log.read().opened == 0
        text = json.dumps(call(1)) + "\n" + json.dumps(done())
        file.write(text[:10])
        file.flush()
        assert log.read().transactions == 0
        file.write(text[10:] + "\n")
        file.flush()
        assert log.read().transactions == 1
        assert log.read().transactions == 1


def test_the_backlog_of_a_restart_is_told_apart(path: Path) -> None:
    """Latency while streaming leaves out what was committed before the first call returned."""
    start = COMMIT_MICROS
    deliveries = read(
        path,
        opened(0),
        call(1, committed=start),
        done(start + 5_000),
        call(2, committed=start + 4_000),
        done(start + 6_000),
        call(3, committed=start + 7_000),
        done(start + 7_500),
        opened(3),
        call(4, committed=start + 8_000),
        done(start + 2_000_000),
        end=4,
    )
    assert deliveries.latencies == [5_000, 2_000, 500, 1_992_000]
    assert deliveries.undisturbed == [500]
