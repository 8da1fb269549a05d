"""A look at the server and at the stored position, without starting anything.

House rules: the same questions and the same judgement as before a stream; nothing is written, and
no file is made. The position is read before the server's, so that a pipeline that runs meanwhile
cannot seem to be ahead of its source.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

from capstan.config import Config, Snapshot
from capstan.core.halts import Halt, Halted, HaltReason, halted
from capstan.core.preflight import ServerFacts, position_verdict
from capstan.core.watermark import Position
from capstan.sources.base import Link, LinkLost, View
from capstan.sources.redial import Settling
from capstan.stores.base import Store
from capstan.wiring import live_source, view_source


def stored_position(store: Store) -> Position | None:
    """What the store holds; None for an empty one.

    Raises:
        Halted: `store_failed`.
    """
    watermark = store.load_watermark()
    while watermark is not None:
        position = Position(
            watermark=watermark,
            anchor=store.load_anchor(),
            sink_position=store.load_sink_position(),
        )
        # A pipeline that runs may have written between the questions.
        read, watermark = watermark, store.load_watermark()
        if watermark == read:
            return position
    return None


@contextmanager
def linked(config: Config) -> Iterator[tuple[Link, ServerFacts]]:
    """A link to the server and what the server says, for the block.

    Raises:
        Halted: What a run would end with, and `command_retries_exhausted` for one failed try.
    """
    link = live_source(config).link()
    try:
        yield link, link.open()
    except LinkLost as lost:
        raise _not_reached(lost) from None
    finally:
        link.close()


@contextmanager
def viewed(config: Config, snapshot: Snapshot) -> Iterator[View]:
    """The server as a backfill sees it, for the block.

    Raises:
        Halted: As `linked`.
    """
    view = view_source(config, snapshot).view()
    try:
        view.open()
        yield view
    except LinkLost as lost:
        raise _not_reached(lost) from None
    finally:
        view.close()


def _not_reached(lost: LinkLost) -> Halted:
    return halted(HaltReason.COMMAND_RETRIES_EXHAUSTED, f"the server was not reached: {lost}")


def judged(config: Config, link: Link, facts: ServerFacts, position: Position) -> Halt | None:
    """Why a run could not start at this position; None when it could (D14).

    Raises:
        LinkLost: When the connection breaks.
    """
    patience = Settling(config.source.settle_timeout)
    while True:
        verdict = position_verdict(facts, position.watermark, position.anchor)
        delay = patience.next_delay() if verdict.may_settle else None
        if delay is None:
            return verdict.halt
        time.sleep(delay)
        facts = attrs.evolve(facts, gtid_executed=link.executed())
