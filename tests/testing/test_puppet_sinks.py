"""The puppets do what they are told, at the call they are told, and give way when let go."""

import threading
from typing import Any

import pytest
from helpers.changes_builder import inserted, shape, transaction

from capstan.testing import RecordingSink
from capstan.testing.puppet_sinks import PuppetSinks

ORDERS = shape("shop.orders", "id int", "state varchar(20)", key=["id"])


def one(number: int) -> Any:
    return transaction(number, inserted(ORDERS, (number, "new")))


def test_a_recording_keeps_what_it_accepted(capstan_sinks: PuppetSinks) -> None:
    """Transactions, changes, openings and closings; a wait ends when so many are there."""
    sink = capstan_sinks.recording()
    sink.open()
    sink.handle_transaction(one(1))
    sink.close()
    assert sink.wait_for(1)
    assert not sink.wait_for(2, timeout=0.01)
    (change,) = sink.changes
    assert (change.op, change.table, change.values, change.old_values) == (
        "insert",
        "shop.orders",
        (1, "new"),
        None,
    )
    assert (sink.opened, sink.closed) == (1, 1)
    assert sink.gtids == [change.gtid]


def test_a_raising_sink_raises_from_its_call_on(capstan_sinks: PuppetSinks) -> None:
    """What it raises holds the row, so that a leak would show."""
    sink = capstan_sinks.raising(2, KeyError)
    sink.handle_transaction(one(1))
    for number in (2, 3):
        with pytest.raises(KeyError, match="new"):
            sink.handle_transaction(one(number))
    assert len(sink.gtids) == 1


def test_a_sink_that_refuses_once_accepts_the_next_time(capstan_sinks: PuppetSinks) -> None:
    """The refused transaction may come again."""
    sink = capstan_sinks.refusing_once(1)
    with pytest.raises(ConnectionError):
        sink.handle_transaction(one(1))
    sink.handle_transaction(one(1))
    assert len(sink.gtids) == 1


@pytest.mark.parametrize("kind", ["hanging", "slow"])
def test_what_hangs_or_dawdles_is_let_go(capstan_sinks: PuppetSinks, kind: str) -> None:
    """The call returns and has accepted; later ones are not held."""
    sink: RecordingSink = (
        capstan_sinks.hanging() if kind == "hanging" else capstan_sinks.slow(3600.0)
    )
    thread = threading.Thread(target=sink.handle_transaction, args=(one(1),))
    thread.start()
    assert not sink.wait_for(1, timeout=0.01)
    capstan_sinks.release()
    assert sink.wait_for(1)
    thread.join()
    sink.handle_transaction(one(2))
    assert len(sink.gtids) == 2
