"""A model of a whole backfill: real desk, gate and progress between a simulated source and a sink.

No threads: one step at a time of writers, reader, stream, sink and store, in an order that a seed
chooses; what can crash may crash between any two of them and loses its memory. What the sink holds
is compared with the source: at every quiet moment up to the cursor, and whole at the end.
"""

from collections import Counter, deque
from collections.abc import Callable
from random import Random

import attrs

from capstan.core.changes import Change, Item, Op, SnapshotMeta, Transaction
from capstan.core.gtid import GtidSet
from capstan.core.snapshot.orders import (
    EmitChunk,
    GrantPin,
    Order,
    SaveState,
    WantChunk,
    WantTables,
)
from capstan.core.snapshot.progress import SnapshotState
from capstan.core.snapshot.snapshot_desk import SnapshotDesk
from capstan.core.tables import TableName
from helpers.backfill_source import SHAPES, Key, Rows, SimulatedSource, Writing, row_of
from helpers.changes_builder import gtid

SERVER = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
TABLES = ("t", "u")
PATTERNS = ("shop.t", "shop.u")
_MAX_STEPS = 4_000


class Violation(AssertionError):  # noqa: N818 - what the model looks for, not an error of it
    """The sink is, or can become, something else than the source."""


@attrs.frozen(kw_only=True)
class Rules:
    """What the model keeps to; each can be broken.

    Attributes:
        empties: The sink empties a table at sequence 0 (D8).
        locks: G and view are taken under the table's lock (D1).
        holds: The stream waits for chunks (D6).
        waits: A chunk waits for its G (R104).
    """

    empties: bool = True
    locks: bool = True
    holds: bool = True
    waits: bool = True


@attrs.frozen(kw_only=True)
class Trouble:
    """What may happen besides.

    Attributes:
        crashes: How often a run may crash.
        redos: How often a table is done again.
        shrinks: Whether chunks are large before the first crash and small behind it.
    """

    crashes: int = 0
    redos: int = 0
    shrinks: bool = False


class ModelSink:
    """Upsert and delete by key, durable, without a position of its own."""

    def __init__(self, *, empties: bool) -> None:
        self._empties = empties
        self.rows: dict[str, Rows] = {table: {} for table in SHAPES}
        self.versions: Counter[tuple[str, Key, int]] = Counter()
        self.chunk_keys: Counter[tuple[str, Key]] = Counter()

    def take(self, change: Change) -> None:
        rows, key = self.rows[change.table], change.key
        assert key is not None
        if change.values is None:
            rows.pop(key, None)
            return
        if change.old_key is not None and change.old_key != key:
            rows.pop(change.old_key, None)
        version = change.values[change.shape.index["v"]]
        self.versions[change.table, key, version] += 1
        rows[key] = version

    def take_chunk(self, changes: list[Change], meta: SnapshotMeta) -> None:
        if meta.sequence == 0 and self._empties:
            self.rows[meta.table].clear()
        for change in changes:
            assert change.op is Op.SNAPSHOT
            assert change.key is not None
            self.take(change)
            self.chunk_keys[meta.table, change.key] += 1


class ModelReader:
    """The chunk reader: one incarnation."""

    def __init__(self, incarnation: int, chunk_size: int) -> None:
        self.incarnation = incarnation
        self.chunk_size = chunk_size
        self.inbox: deque[Order] = deque()
        self.wanted: WantChunk | None = None
        self.asks = False
        self.view: Rows | None = None
        self.pause = 0

    @property
    def able(self) -> bool:
        """Whether it has something to do; it waits a while when it starts, and between chunks."""
        if self.pause:
            self.pause -= 1
            return False
        return bool(self.inbox or self.view is not None or self.asks)


class BackfillModel:
    """One run, decided by a seed."""

    desk: SnapshotDesk
    reader: ModelReader
    processed: GtidSet

    def __init__(self, seed: int, trouble: Trouble, rules: Rules) -> None:
        self.random = Random(seed)
        self.trouble, self.rules = trouble, rules
        self.crashes, self.redos = trouble.crashes, trouble.redos
        self.source = SimulatedSource(self.random, self.random.randint(3, 50))
        self.sink = ModelSink(empties=rules.empties)
        for _ in range(self.random.randint(0, 12)):
            self.source.write()
        self.source.kept = {table: set(rows) for table, rows in self.source.visible.items()}
        self.stored = self.source.executed
        self.state: SnapshotState | None = None
        self.truth = {table: dict(rows) for table, rows in self.source.at_start.items()}
        self.in_truth: set[int] = set()
        for writing in self.source.binlog:
            if gtid(writing.number) in self.stored:
                self.see(writing)
        self.suppressed = 0
        self.window = False
        self.anywhere = self.random.random() < 0.3
        self.incarnation = 0
        self.late: list[ModelReader] = []
        self.start_all()

    # -- starts and crashes --------------------------------------------------------------------

    def start_all(self) -> None:
        self.to_desk: deque[Callable[[SnapshotDesk], None]] = deque()
        self.start_coordinator()

    def start_coordinator(self) -> None:
        """From what is on disk; whatever stands upstream of it starts with it."""
        self.desk = SnapshotDesk(PATTERNS, self.state)
        self.desk.stream_on(SERVER)
        self.processed = self.stored
        self.place = 0
        self.batch: deque[Item] | None = None
        self.saving: SnapshotState | None = None
        self.emitting: EmitChunk | None = None
        self.start_reader()

    def start_reader(self) -> None:
        """What it said before may still arrive, before what it says now."""
        self.incarnation += 1
        incarnation = self.incarnation
        old = getattr(self, "reader", None)
        if old is not None and old.view is not None:
            self.late.append(old)
        sizes: tuple[int, ...] = (1, 2, 3, 6)
        if self.trouble.shrinks:
            sizes = (4,) if incarnation == 1 else (1,)
        self.reader = ModelReader(incarnation, self.random.choice(sizes))
        self.reader.pause = self.random.choice((0, 0, 60))
        self.to_desk.append(lambda desk: desk.reader_ready(incarnation))

    def crash(self) -> None:
        self.crashes -= 1
        self.window = False
        self.suppressed += self.desk.suppressed
        self.desk.suppressed = 0
        self.random.choice((self.start_all, self.start_coordinator, self.start_reader))()

    # -- the run -------------------------------------------------------------------------------

    def run(self) -> None:
        """To the end: writers quiet, everything streamed, everything backfilled.

        Raises:
            Violation: When the sink is not what the source is, or nothing moves any more.
        """
        for _ in range(_MAX_STEPS):
            if self.crashes and self.random.random() < self.crash_chance():
                self.crash()
            if self.redos and self.desk.state and self.random.random() < 0.01:
                self.redos -= 1
                self.desk.redo(TableName("shop", self.random.choice(TABLES)))
            self.step()
            if self.finished:
                self.suppressed += self.desk.suppressed
                self.check_end()
                return
        raise Violation("nothing moves any more")

    def crash_chance(self) -> float:
        """Some runs crash anywhere; most between the sink and the disk, behind the first chunk."""
        if self.anywhere:
            return 0.01
        behind = self.state is not None and any(table.cursor for table in self.state.tables)
        return 0.1 if self.window and behind else 0.0

    @property
    def finished(self) -> bool:
        return (
            self.source.quiet
            and not self.desk.active
            and not self.redos
            and self.batch is None
            and not self.to_desk
            and all(writing.number in self.in_truth for writing in self.source.binlog)
            and self.place == len(self.source.binlog)
        )

    def step(self) -> None:
        """One step of someone who has something to do; the coordinator may always look again."""
        able = [self.step_desk]
        if not self.source.quiet:
            able.append(self.source.write)
        if self.reader.able:
            able.append(self.step_reader)
        if self.to_desk:
            able.append(self.step_mail)
        if self.late and self.random.random() < 0.05:
            able.append(self.step_late)
        if self.batch is not None or self.place < len(self.source.binlog):
            able += (self.step_stream, self.step_stream)
        able[int(self.random.random() * len(able))]()

    # -- the reader ----------------------------------------------------------------------------

    def step_reader(self) -> None:
        reader = self.reader
        if reader.inbox:
            self.hear(reader.inbox.popleft())
        elif reader.view is not None:
            self.read(reader)
        else:
            self.ask()

    def ask(self) -> None:
        incarnation, ticket = self.reader.incarnation, self.wanted.ticket
        self.reader.asks = False
        self.to_desk.append(lambda desk: desk.pin_asked(incarnation, ticket, SERVER))

    @property
    def wanted(self) -> WantChunk:
        assert self.reader.wanted is not None
        return self.reader.wanted

    def hear(self, order: Order) -> None:
        reader, incarnation = self.reader, self.reader.incarnation
        match order:
            case WantTables():
                names = [TableName("shop", table) for table in TABLES]
                self.to_desk.append(lambda desk: desk.tables_resolved(incarnation, SERVER, names))
            case WantChunk():
                reader.wanted, reader.view, reader.asks = order, None, True
            case GrantPin(ticket=ticket) if reader.wanted and reader.wanted.ticket == ticket:
                self.pin(ticket)

    def pin(self, ticket: int) -> None:
        reader, incarnation = self.reader, self.reader.incarnation
        captured = self.source.capture(self.wanted.table.table, locks=self.rules.locks)
        if captured is None:
            reader.asks = True
            self.to_desk.append(lambda desk: desk.pin_missed(incarnation, ticket))
            return
        position, reader.view = captured
        self.to_desk.append(lambda desk: desk.view_pinned(incarnation, ticket, position))

    def step_late(self) -> None:
        """A reader that was given up long ago has its rows at last."""
        self.read(self.late.pop())

    def read(self, reader: ModelReader) -> None:
        """As many rows as their size allows, at least one."""
        incarnation, wanted = reader.incarnation, reader.wanted
        assert reader.view is not None
        assert wanted is not None
        if self.random.random() < 0.05:
            reader.view, reader.asks = None, True
            self.to_desk.append(lambda desk: desk.pin_missed(incarnation, wanted.ticket))
            return
        table, after = wanted.table.table, wanted.after
        keys = sorted(key for key in reader.view if after is None or key > after)
        smallest = reader.chunk_size if self.trouble.shrinks else 1
        page = keys[: self.random.randint(smallest, reader.chunk_size)]
        rows = [row_of(table, key, reader.view[key]) for key in page]
        final = len(page) == len(keys)
        reader.view = reader.wanted = None
        reader.pause = self.random.choice((0, 0, 0, 30, 60))
        self.to_desk.append(
            lambda desk: desk.chunk_read(
                incarnation, wanted.ticket, SHAPES[table], rows, final=final
            )
        )

    # -- the coordinator -----------------------------------------------------------------------

    def step_mail(self) -> None:
        if self.to_desk:
            self.to_desk.popleft()(self.desk)

    def step_desk(self) -> None:
        """One order, or one step of the one that is under way."""
        if self.emitting is not None:
            self.sink.take_chunk(self.emitting.changes, self.emitting.meta)
            self.emitting, self.window = None, True
            self.desk.chunk_emitted()
        elif self.saving is not None:
            self.persist_state(self.saving)
        else:
            everything = self.source.executed if not self.rules.waits else self.stored
            order = self.desk.next_order(everything, settled=self.batch is None)
            match order:
                case SaveState(state=state):
                    self.saving = state
                case EmitChunk():
                    self.emitting = order
                case WantTables() | WantChunk() | GrantPin():
                    self.reader.inbox.append(order)

    def persist_state(self, state: SnapshotState) -> None:
        """On disk at once, known to the desk later, or never."""
        if self.state != state:
            self.state, self.window = state, False
            return
        self.saving = None
        self.desk.state_saved(state)
        self.check_quiet()

    # -- the stream ----------------------------------------------------------------------------

    def step_stream(self) -> None:
        """A batch begins, one of its items reaches the sink, or its end reaches the disk."""
        if self.batch is None:
            if not self.desk.exclusive:
                self.form_batch()
        elif self.batch:
            self.deliver(self.batch.popleft())
        else:
            self.batch = None
            self.stored = self.processed
            self.check_quiet()

    def form_batch(self) -> None:
        taken: list[Item] = []
        wanted = self.random.randint(1, 4)
        while len(taken) < wanted and self.place < len(self.source.binlog):
            writing = self.source.binlog[self.place]
            item = writing.item()
            if item.gtid not in self.processed:
                if self.rules.holds and self.desk.holds(item):
                    break
                taken.append(self.desk.judged(item))
                self.processed = self.processed.add(item.gtid)
                self.see(writing)
            self.place += 1
        if taken:
            self.batch = deque(taken)

    def see(self, writing: Writing) -> None:
        if writing.number not in self.in_truth:
            self.in_truth.add(writing.number)
            for write in writing.writes:
                write.apply(self.truth)

    def deliver(self, item: Item) -> None:
        if isinstance(item, Transaction):
            for change in item.changes:
                self.sink.take(change)

    # -- what must hold ------------------------------------------------------------------------

    def check_quiet(self) -> None:
        """Without a crash or a redo the sink is the source up to the cursor, always."""
        if self.trouble != Trouble() or self.batch is not None or self.desk.exclusive:
            return
        assert self.desk.state is not None
        for progress in self.desk.state.tables:
            expected = {
                key: version
                for key, version in self.truth[progress.table].items()
                if progress.complete or (progress.cursor is not None and key <= progress.cursor)
            }
            if self.sink.rows[progress.table] != expected:
                raise Violation(f"{progress.table} differs up to the cursor")

    def check_end(self) -> None:
        for table in TABLES:
            if self.source.visible[table] != self.truth[table]:
                raise AssertionError("the model itself is wrong")
            held, there = self.sink.rows[table], self.source.visible[table]
            if held.keys() - there.keys():
                raise Violation(f"{table} has phantoms")
            if there.keys() - held.keys():
                raise Violation(f"{table} has gaps")
            if held != there:
                raise Violation(f"{table} has old rows")
        if self.trouble == Trouble():
            self.check_once()

    def check_once(self) -> None:
        """No version of a row came twice, and every row that was there before came in a chunk."""
        if any(count > 1 for count in self.sink.versions.values()):
            raise Violation("a row came twice")
        if any(count > 1 for count in self.sink.chunk_keys.values()):
            raise Violation("a key came in two chunks")
        for table in TABLES:
            for key in self.source.kept[table]:
                if self.sink.chunk_keys[table, key] != 1:
                    raise Violation("a row that was there before did not come in a chunk")
