"""Claims about one child's ladder, with the time in the test's own hand."""

from collections.abc import Callable, Iterator

import pytest
from helpers.puppets import DEADLINE, Order, Puppet, Stage

from capstan.core.halts import Halt, HaltReason
from capstan.runtime import NORMAL_EXIT, Address, Crash, Exit, ExitKind
from capstan.supervision.child import ChildSpec, Watch
from capstan.supervision.report import ChildReport, ChildState
from capstan.supervision.ward import Ward

NOW = 100.0
NOBODY = Address("nobody", 0)
STALLED = Halt(HaltReason.SINK_STALLED)
MakeWard = Callable[..., Ward]


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def make_ward(stage: Stage) -> Iterator[MakeWard]:
    """Wards whose child was started at `NOW`: 10 s to start, 30 s to drain, 5 s of grace."""
    wards: list[Ward] = []

    def make(
        order: Order = Order.HAPPY, *, shutdown: float = 30.0, watches: tuple[Watch, ...] = ()
    ) -> Ward:
        spec = ChildSpec(
            id="a",
            start=lambda _: Puppet(stage, "a", at_start=order),
            shutdown=shutdown,
            grace=5.0,
            start_within=10.0,
            watches=watches,
        )
        ward = Ward(spec)
        wards.append(ward)
        ward.start(lambda: Puppet(stage, "a", at_start=order), 1, NOW, NOBODY)
        stage.wait_for("a#1 starting")
        return ward

    yield make
    stage.release.set()
    for ward in wards:
        ward.running.interrupt()
        assert ward.running.wait_ended(DEADLINE)


def shown(ward: Ward) -> ChildReport:
    return ward.row().report


def test_a_ward_that_has_not_begun_shows_nothing_alive() -> None:
    """Before the first life there is no address, no exit and nothing to stop."""
    ward = Ward(ChildSpec(id="a", start=lambda _: Puppet(Stage(), "a")))
    ward.stop(NOW)
    ward.interrupt(NOW)

    assert ward.row().address is None
    assert shown(ward) == ChildReport(id="a", state=ChildState.WAITING)


def test_a_start_has_its_time_and_not_more(make_ward: MakeWard) -> None:
    """At the deadline it is interrupted, not before; after its grace it is given up."""
    ward = make_ward(Order.HANG)

    rungs = []
    for seconds in (9.9, 10.0, 14.9, 15.0):
        given_up = ward.lose_patience(NOW + seconds)
        rungs.append((shown(ward).state, given_up))

    assert rungs == [
        (ChildState.STARTING, False),
        (ChildState.INTERRUPTED, False),
        (ChildState.INTERRUPTED, False),
        (ChildState.WOULD_NOT_STOP, True),
    ]


def test_a_child_that_has_started_has_all_the_time_there_is(make_ward: MakeWard) -> None:
    """Running has no deadline."""
    ward = make_ward()
    ward.has_started()

    assert not ward.lose_patience(NOW + 1e9)
    assert ward.state is ChildState.RUNNING


def test_a_stop_asks_once_and_an_interrupt_comes_once(make_ward: MakeWard) -> None:
    """Neither said twice moves a deadline, and neither goes back up the ladder."""
    ward = make_ward(Order.HANG)
    ward.stop(NOW)
    ward.stop(NOW + 7.0)
    assert (ward.state, ward.deadline) == (ChildState.STOPPING, NOW + 30.0)

    ward.interrupt(NOW + 8.0)
    ward.interrupt(NOW + 9.0)
    ward.stop(NOW + 10.0)
    assert (ward.state, ward.deadline) == (ChildState.INTERRUPTED, NOW + 13.0)


def test_nothing_to_drain_means_an_interrupt_at_once(make_ward: MakeWard) -> None:
    """A shutdown of 0 skips a rung."""
    ward = make_ward(shutdown=0.0)
    ward.stop(NOW)

    assert (ward.state, ward.deadline) == (ChildState.INTERRUPTED, NOW + 5.0)


@pytest.mark.parametrize(
    ("exit_", "counts_as"),
    [
        (NORMAL_EXIT, Exit(ExitKind.NEVER_STARTED, crash=Crash("TimeoutError", "started()"))),
        (
            Exit(ExitKind.CRASHED, crash=Crash("OSError", "live.py:7")),
            Exit(ExitKind.NEVER_STARTED, crash=Crash("OSError", "live.py:7")),
        ),
        (Exit(ExitKind.HALTED, STALLED), Exit(ExitKind.HALTED, STALLED)),
    ],
)
def test_a_start_that_took_too_long_has_failed_however_it_ended(
    make_ward: MakeWard, exit_: Exit, counts_as: Exit
) -> None:
    """R266: only a halt is more than a start that failed."""
    ward = make_ward(Order.HANG)
    ward.lose_patience(NOW + 10.0)

    assert ward.has_ended(exit_) == counts_as
    assert shown(ward).exit == counts_as


def test_an_exit_after_a_start_in_time_counts_as_it_is(make_ward: MakeWard) -> None:
    """An interrupt alone makes no failed start."""
    ward = make_ward()
    ward.has_started()
    ward.interrupt(NOW)

    assert ward.has_ended(NORMAL_EXIT) == NORMAL_EXIT
    assert (shown(ward).interrupted, shown(ward).state) == (True, ChildState.ENDED)


def test_a_child_that_ends_after_it_was_given_up_is_still_shown_as_such(
    make_ward: MakeWard,
) -> None:
    """The thread is gone now, but the tree had to do without it."""
    ward = make_ward(Order.HANG)
    ward.give_up()
    ward.has_ended(NORMAL_EXIT)

    assert (shown(ward).would_not_stop, shown(ward).state) == (True, ChildState.ENDED)


def test_a_watch_is_passed_only_beyond_its_limit(make_ward: MakeWard, stage: Stage) -> None:
    """Busy for exactly the limit is within it; busy with another thing does not count."""
    ward = make_ward(watches=(Watch("play", 1.0, STALLED), Watch("work", 30.0, STALLED)))
    ward.running.address.send(Order.BLOCK)
    stage.wait_for("a#1 block")
    ward.running.busy._since["work"] = NOW

    assert ward.over_limit(NOW + 30.0) is None
    assert ward.over_limit(NOW + 30.1) == STALLED
    ward.interrupt(NOW + 31.0)
    assert ward.over_limit(NOW + 32.0) is None
