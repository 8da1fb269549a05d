"""A backfill's desk with everything around it played by hand, for tests of its judgement."""

from collections.abc import Iterable

from capstan.core.changes import Transaction
from capstan.core.gtid import GtidSet
from capstan.core.snapshot.orders import EmitChunk, Order, SaveState, WantChunk
from capstan.core.snapshot.progress import SnapshotState
from capstan.core.snapshot.snapshot_desk import SnapshotDesk
from capstan.core.tables import TableName, TableShape
from helpers.changes_builder import inserted, shape, transaction, up_to

HERE, THERE = "aaaaaaaa-0000-0000-0000-000000000001", "aaaaaaaa-0000-0000-0000-000000000002"
T, U = TableName("shop", "t"), TableName("shop", "u")
PATTERNS = ("shop.t", "shop.u")
SHAPES = {name: shape(str(name), "id int", "v int", key=("id",)) for name in (T, U)}
OTHER = shape("shop.o", "id int", key=("id",))


class DeskTable:
    """A desk with everything around it played by hand; the store answers at once.

    Attributes:
        orders: What it ordered, but for writes.
        saved: What it had saved.
        processed: The durable watermark.
    """

    def __init__(self, patterns: Iterable[str] = PATTERNS, *, resolves: bool = True) -> None:
        self.desk = SnapshotDesk(patterns, None)
        self.orders: list[Order] = []
        self.saved: list[SnapshotState] = []
        self.processed = GtidSet()
        self.desk.stream_on(HERE)
        self.desk.reader_ready(1)
        if resolves:
            self.pump()
            self.desk.tables_resolved(1, HERE, [T, U])
            self.pump()
            self.orders.clear()
            self.saved.clear()
            self.want = self.pump_again()

    def pump_again(self) -> WantChunk:
        """A new reader is asked for the first chunk."""
        self.desk.reader_ready(2)
        self.pump()
        return self.wanted()

    def pump(self, *, settled: bool = True) -> None:
        while (order := self.desk.next_order(self.processed, settled=settled)) is not None:
            if isinstance(order, SaveState):
                self.saved.append(order.state)
                self.desk.state_saved(order.state)
            else:
                self.orders.append(order)

    def wanted(self) -> WantChunk:
        """The newest order for a chunk."""
        return [order for order in self.orders if isinstance(order, WantChunk)][-1]

    def emitted(self) -> list[EmitChunk]:
        return [order for order in self.orders if isinstance(order, EmitChunk)]

    def ask_pin(self) -> WantChunk:
        want = self.wanted()
        self.desk.pin_asked(2, want.ticket, HERE)
        self.pump()
        return want

    def pin(self, position: int) -> WantChunk:
        want = self.ask_pin()
        self.desk.view_pinned(2, want.ticket, up_to(position))
        self.pump()
        return want

    def read(self, position: int, *keys: int, final: bool = False) -> None:
        """The chunk that is wanted, captured at this G."""
        want = self.pin(position)
        rows = [(key, 0) for key in keys]
        self.desk.chunk_read(2, want.ticket, SHAPES[want.table], rows, final=final)
        self.pump()

    def emit(self, processed: int) -> EmitChunk:
        """The chunk in the gate, through all its steps."""
        self.processed = up_to(processed)
        self.pump()
        emitted = self.emitted()[-1]
        self.desk.chunk_emitted()
        self.pump()
        return emitted


def changing(number: int, table: TableShape, key: int = 1) -> Transaction:
    return transaction(number, inserted(table, (key, 0)[: len(table.columns)]))
