"""A model of the whole judgement: fold, desk and checkpoint under any interleaving.

No threads: the machine plays the actors' steps in an order of its choosing, cuts the stream
anywhere in its bytes, and lets crash what can crash. What the sink got is compared with what the
source has.
"""

import itertools
from collections.abc import Callable

from helpers import event_builder as events
from helpers.histories import (
    Group,
    create_select,
    ddl,
    empty,
    filtered,
    gtid,
    insert,
    up_to,
)
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from capstan.core.assembly import Fold
from capstan.core.binlog.framing import PacketCutter
from capstan.core.changes import Item, Transaction
from capstan.core.delivery import Batch, Desk, Piece
from capstan.core.epoch import Epoch
from capstan.core.gtid import GtidSet
from capstan.core.limits import Budget
from capstan.core.tables import CaptureList
from capstan.core.watermark import Position, advanced, reconcile

SERVER = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
KINDS: list[Callable[[int], Group]] = [create_select, insert, filtered, ddl, empty]


class Taking:
    """A sink, with or without a position of its own.

    Attributes:
        got: Kind and number of each item, in order of delivery.
    """

    def __init__(self, *, positioned: bool) -> None:
        self.got: list[tuple[str, int]] = []
        self.positioned = positioned
        self.processed = GtidSet()

    @property
    def position(self) -> GtidSet | None:
        return self.processed if self.positioned else None

    def take(self, item: Item) -> None:
        number = item.gtid.number
        if isinstance(item, Transaction):
            assert item.position == up_to(number), "not the set up to and with this one"
            assert not (self.positioned and item.gtid in self.processed), "came twice"
            self.processed |= item.position
            self.got.append(("rows", number))
        else:
            self.processed |= item.changes[-1].position
            self.got.append(("ddl", number))


class Delivery(RuleBasedStateMachine):
    """The pipeline as one thread that may do any next step."""

    position: Position
    out: Position | None
    desk: Desk[None]

    @initialize(
        kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=10),
        max_batch=st.sampled_from([1, 2, 3, 1000]),
        positioned=st.booleans(),
        crashes=st.integers(0, 3),
    )
    def begin(
        self, kinds: list[Callable[[int], Group]], max_batch: int, positioned: bool, crashes: int
    ) -> None:
        self.kinds = kinds
        self.groups = [kind(number) for number, kind in enumerate(kinds, 1)]
        self.max_batch = max_batch
        self.sink = Taking(positioned=positioned)
        self.stored: Position | None = None
        self.stream: bytes | None = None
        self.fold = new_fold()
        self.crashes, self.crashed = crashes, False
        self.start_desk()

    # -- the stream ----------------------------------------------------------------------------

    def dial(self) -> None:
        anchor = self.position.anchor
        asked = self.position.watermark
        if anchor is not None:
            asked = asked.without(anchor.gtid)
        wanted = [g for n, g in enumerate(self.groups, 1) if gtid(n) not in asked]
        self.stream = events.packets([*events.opening(), *[raw for g in wanted for raw in g]])
        self.cutter = PacketCutter()
        self.fold.open(Epoch(start=self.position.watermark, server_uuid=SERVER, anchor=anchor))

    @rule(size=st.integers(1, 400) | st.just(1 << 20))
    def read(self, size: int) -> None:
        """The next bytes of the stream, which is dialled when there is none."""
        if self.stream is None:
            self.dial()
        assert self.stream is not None
        piece, self.stream = self.stream[:size], self.stream[size:]
        items: list[Item] = []
        for packets in self.cutter.feed(piece).packets:
            items += self.fold.feed(packets)
            assert self.fold.halt is None, self.fold.halt
        if items:
            self.desk.arrive(Piece(items, SERVER, None))

    @rule()
    def cut(self) -> None:
        """The link breaks, or the assembler crashes: the same to everybody else."""
        self.fold, self.stream = new_fold(), None

    # -- the sink and the disk -----------------------------------------------------------------

    @precondition(lambda self: self.out is None)
    @rule()
    def deliver(self) -> None:
        batch = self.desk.next_batch()
        if batch is not None:
            self.hand_over(batch, len(batch.calls))
            self.told(self.desk.accepted(len(batch.entries)))

    def hand_over(self, batch: Batch, calls: int) -> None:
        for _, item in batch.calls[:calls]:
            self.sink.take(item)

    def told(self, position: Position | None) -> None:
        if position is None:
            self.desk.settled()
        else:
            self.out = Position(
                watermark=position.watermark,
                anchor=position.anchor,
                sink_position=self.sink.position,
            )

    @precondition(lambda self: self.out is not None)
    @rule()
    def persist(self) -> None:
        assert self.out is not None
        self.stored = self.position = advanced(self.position, self.out)
        self.out = None
        self.desk.settled()

    # -- crashes -------------------------------------------------------------------------------

    @precondition(lambda self: self.crashes > 0)
    @rule(calls=st.integers(0, 5))
    def crash_before_the_write(self, calls: int) -> None:
        """Of coordinator or checkpoint: idle, between two calls, before the disk has it."""
        batch = self.desk.next_batch()
        if batch is not None:
            self.hand_over(batch, calls)
        self.start_again()

    @precondition(lambda self: self.crashes > 0 and self.out is not None)
    @rule()
    def crash_behind_the_write(self) -> None:
        """The disk has it, and nobody was told."""
        self.persist()
        self.start_again()

    def start_again(self) -> None:
        self.crashes, self.crashed = self.crashes - 1, True
        self.cut()
        self.start_desk()

    def start_desk(self) -> None:
        known = self.stored
        self.position = reconcile(known, self.sink.position)
        if self.position.watermark:
            self.stored = self.position
        self.desk = Desk(self.position, self.max_batch)
        self.out = None

    # -- what must hold ------------------------------------------------------------------------

    @invariant()
    def the_watermark_is_a_run_from_the_start(self) -> None:
        """R36, R38: with one source in order it has no holes and holds what was delivered."""
        watermark = self.stored.watermark if self.stored else GtidSet()
        assert watermark == up_to(watermark.count())

    @invariant()
    def nothing_is_processed_that_was_not_delivered(self) -> None:
        """R40: everything in the watermark that has rows was taken by the sink."""
        count = self.stored.watermark.count() if self.stored else 0
        taken = set(self.sink.got)
        for number, kind in enumerate(self.kinds[:count], 1):
            assert not rows(kind) or ("rows", number) in taken
            assert not statement(kind) or ("ddl", number) in taken

    def teardown(self) -> None:
        """Run on to the end without further trouble; then compare with the source."""
        if not hasattr(self, "groups"):
            return
        self.cut()
        self.read(1 << 20)
        while self.out is not None or not self.desk.idle:
            if self.out is not None:
                self.persist()
            self.deliver()
        expected = [
            pair
            for number, kind in enumerate(self.kinds, 1)
            for pair in [("ddl", number)] * statement(kind) + [("rows", number)] * rows(kind)
        ]
        assert list(dict.fromkeys(self.sink.got)) == expected
        assert self.stored is not None
        assert self.stored.watermark == up_to(len(self.kinds))
        assert self.crashed or self.sink.got == expected, "a cut alone brings nothing twice"
        self.compare_repeats()

    def compare_repeats(self) -> None:
        """R268, D15: a sink with a position gets no row twice; another within one batch."""
        numbers = [number for kind, number in self.sink.got if kind == "rows"]
        if self.sink.positioned:
            assert len(numbers) == len(set(numbers))
        for before, after in itertools.pairwise(numbers):
            assert before - after < self.max_batch


def rows(kind: Callable[[int], Group]) -> bool:
    return kind in {insert, create_select}


def statement(kind: Callable[[int], Group]) -> bool:
    return kind in {ddl, create_select}


def new_fold() -> Fold:
    return Fold(CaptureList.parse(["shop.*"]), Budget())


TestDelivery = Delivery.TestCase
TestDelivery.__doc__ = "R31, R36, R39, R40, D12, D13, D15, R268: under any interleaving."
TestDelivery.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)
