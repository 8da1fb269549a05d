"""The assembler: what it hands on, what it gives back, whose account the credit is."""

from helpers import event_builder as events
from helpers.mailboxes import Bench, Mailbox
from hypothesis import given, settings
from hypothesis import strategies as st

from capstan.actors.assembler import Assembler
from capstan.actors.messages import (
    Assembled,
    ConnectionReady,
    CreditGranted,
    PacketsRead,
    Settled,
    StreamOpened,
)
from capstan.core.assembly import Fold
from capstan.core.binlog.framing import Packets
from capstan.core.epoch import Epoch
from capstan.core.gtid import GtidSet
from capstan.core.halts import HaltReason
from capstan.core.limits import Budget
from capstan.core.tables import CaptureList
from capstan.runtime import ExitKind, Running

CREDIT = 4
SERVER = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"


class Stage:
    """One assembler, with a coordinator and one connection after the other."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.coordinator = bench.mailbox("coordinator")
        self.connections: list[Mailbox] = []
        fold = Fold(CaptureList.parse(["shop.*"]), Budget())
        self.running: Running = bench.spawn(
            lambda: Assembler(fold, self.coordinator.address, CREDIT), name="assembler"
        )
        self.number = (0, 0)
        self._next = 1

    def tell(self, message: object) -> None:
        assert self.running.address.send(message)

    def connect(self) -> Mailbox:
        """Let a new incarnation of the connection ask for credit."""
        connection = self.bench.mailbox(f"connection-{len(self.connections)}")
        self.connections.append(connection)
        self.number = (len(self.connections), 0)
        self.tell(ConnectionReady(connection.address))
        return connection

    def dial(self) -> None:
        """Begin a new epoch, and hand over what every dump begins with."""
        self.number = (self.number[0], self.number[1] + 1)
        self.tell(StreamOpened(self.number, Epoch(start=GtidSet(), server_uuid=SERVER)))
        self._next = 1
        self.read(events.opening())

    def read(self, raws: list[bytes], number: tuple[int, int] | None = None) -> None:
        self.tell(PacketsRead(number or self.number, (packed(raws),)))

    def read_transaction(self) -> None:
        self.read(events.insert(self._next, self._next))
        self._next += 1

    def granted(self) -> int:
        """What the last connection was granted so far."""
        return sum(grant.pieces for grant in self.connections[-1].of(CreditGranted))


def packed(raws: list[bytes]) -> Packets:
    return events.packets_of(raws)


def numbers(coordinator: Mailbox) -> list[int]:
    return [item.gtid.number for message in coordinator.of(Assembled) for item in message.items]


def test_a_ready_connection_gets_the_whole_credit(bench: Bench) -> None:
    """Nothing lies downstream yet."""
    stage = Stage(bench)
    connection = stage.connect()

    assert connection.wait_for(CreditGranted).pieces == CREDIT


def test_a_piece_that_finishes_nothing_gives_its_credit_back_at_once(bench: Bench) -> None:
    """Heartbeats and half a transaction wait for nobody."""
    stage = Stage(bench)
    stage.connect()
    stage.dial()
    stage.read([events.heartbeat()])
    stage.read(events.insert(1, 1)[:3])
    bench.end(stage.running)

    assert stage.granted() == CREDIT + 3
    assert stage.coordinator.of(Assembled) == []


def test_a_piece_that_finishes_something_gives_it_back_when_settled(bench: Bench) -> None:
    """Credit comes back behind the disk, not before."""
    stage = Stage(bench)
    connection = stage.connect()
    stage.dial()
    stage.read_transaction()
    stage.coordinator.wait_for(Assembled)
    assert stage.granted() == CREDIT + 1

    stage.tell(Settled(1))

    assert connection.wait_for(CreditGranted, 3).pieces == 1


def test_what_lies_downstream_stays_counted_when_the_connection_starts_again(bench: Bench) -> None:
    """The account is the assembler's: a new connection gets what is left of it, and no more."""
    stage = Stage(bench)
    stage.connect()
    stage.dial()
    for _ in range(3):
        stage.read_transaction()
    second = stage.connect()
    assert second.wait_for(CreditGranted).pieces == CREDIT - 3

    stage.tell(Settled(2))

    assert second.wait_for(CreditGranted, 2).pieces == 2


def test_a_connection_without_any_credit_left_hears_nothing(bench: Bench) -> None:
    """It rests until something is settled."""
    stage = Stage(bench)
    stage.connect()
    stage.dial()
    for _ in range(CREDIT):
        stage.read_transaction()
    second = stage.connect()
    bench.end(stage.running)

    assert second.heard == []


def test_a_piece_of_an_older_epoch_is_not_folded_and_costs_nothing(bench: Bench) -> None:
    """What an older dial still sends changes no state and keeps no credit."""
    stage = Stage(bench)
    stage.connect()
    stage.dial()
    old = stage.number
    stage.read(events.insert(1, 1)[:3])
    stage.dial()
    stage.read(events.insert(1, 1)[3:], old)
    stage.read_transaction()
    bench.end(stage.running)

    assert numbers(stage.coordinator) == [1]
    assert stage.granted() == CREDIT + 4


def test_a_new_epoch_throws_the_half_built_away(bench: Bench) -> None:
    """R10, R12: rows read before the cut never leave with what comes after it."""
    stage = Stage(bench)
    stage.connect()
    stage.dial()
    stage.read(events.insert(1, 1, 2, 3)[:4])
    stage.dial()
    stage.read(events.insert(1, 7))
    bench.end(stage.running)

    ((transaction,),) = [message.items for message in stage.coordinator.of(Assembled)]
    assert [change.values for change in transaction.changes] == [(7, "n7")]


def test_a_halt_hands_on_what_was_finished_before_it(bench: Bench) -> None:
    """R11, R14: earlier transactions of the same piece leave, the failing one never does."""
    stage = Stage(bench)
    stage.connect()
    stage.dial()
    incident = events.event(26, b"\x01\x00\x00")
    stage.read([*events.insert(1, 1), *events.insert(2, 2)[:4], incident, events.xid(2)])
    exit_ = bench.exit_of(stage.running)

    assert numbers(stage.coordinator) == [1]
    assert exit_.halt is not None
    assert exit_.halt.reason is HaltReason.SOURCE_INCIDENT


def test_a_halt_in_one_buffer_leaves_the_next_ones_alone(bench: Bench) -> None:
    """R13: a piece can hold several buffers; what stands behind a halt is not looked at."""
    stage = Stage(bench)
    stage.connect()
    stage.dial()
    broken = [*events.insert(1, 1), events.event(26, b"")]
    buffers = (packed(broken), packed(events.insert(2, 2)))
    stage.tell(PacketsRead(stage.number, buffers))
    exit_ = bench.exit_of(stage.running)

    assert exit_.kind is ExitKind.HALTED
    assert numbers(stage.coordinator) == [1]


def test_assembled_tells_the_server_and_whom_to_give_the_credit_back(bench: Bench) -> None:
    """D13: an anchor needs the server; the address is that of this life and no other."""
    stage = Stage(bench)
    stage.connect()
    stage.dial()
    stage.read_transaction()
    message = stage.coordinator.wait_for(Assembled)

    assert message.server_uuid == SERVER
    assert message.reply_to == stage.running.address
    bench.end(stage.running)
    assert not message.reply_to.send(Settled(1))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(["transaction", "heartbeat", "settle", "cut", "restart"]), max_size=60)
)
def test_credit_is_never_more_than_its_limit_and_never_leaks(steps: list[str]) -> None:
    """Whatever happens in which order: what may be read and what is unsettled make the limit."""
    bench = Bench()
    try:
        check_the_account(Stage(bench), steps)
    finally:
        bench.close()


def check_the_account(stage: Stage, steps: list[str]) -> None:
    stage.connect()
    stage.dial()
    spent, unsettled = 1, 0
    for step in steps:
        if step == "settle" and unsettled:
            unsettled -= 1
            stage.tell(Settled(1))
        elif step == "cut":
            stage.dial()
            spent += 1
        elif step == "restart":
            stage.connect()
            stage.dial()
            spent = 1
        elif step == "heartbeat":
            stage.read([events.heartbeat()])
            spent += 1
        elif step == "transaction" and unsettled < CREDIT:
            stage.read_transaction()
            spent += 1
            unsettled += 1
    stage.bench.end(stage.running)

    assert stage.granted() - spent == CREDIT - unsettled
