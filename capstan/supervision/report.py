"""The tree as data: what a supervisor shows of its children, and what it tells its observer.

House rules: everything here is frozen, value-free and safe to read from any thread. A report is the
past as soon as it is read.
"""

from collections.abc import Iterator
from enum import StrEnum

import attrs

from capstan.runtime import Address, Exit


class ChildState(StrEnum):
    """Where a child stands."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    INTERRUPTED = "interrupted"
    WOULD_NOT_STOP = "would_not_stop"
    ENDED = "ended"

    @property
    def alive(self) -> bool:
        """Whether its supervisor still has to do with its thread."""
        return self in _ALIVE


_ALIVE = frozenset(
    {ChildState.STARTING, ChildState.RUNNING, ChildState.STOPPING, ChildState.INTERRUPTED}
)


@attrs.frozen(kw_only=True)
class ChildReport:
    """One child, with what is below it.

    Attributes:
        id: Its id in the spec.
        state: Where it stands.
        incarnation: Which life this is, from 1; 0 before the first.
        restarts: How many lives went before this one, failed starts included.
        exit: How its last ended life ended; None before the first end.
        interrupted: True when this life was interrupted, so that it may not have drained.
        would_not_stop: True when it was given up: its thread may still run.
        children: In start order; empty for an actor.
    """

    id: str
    state: ChildState
    incarnation: int = 0
    restarts: int = 0
    exit: Exit | None = None
    interrupted: bool = False
    would_not_stop: bool = False
    children: tuple["ChildReport", ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Give the same as plain dicts, lists and scalars."""
        plain = attrs.asdict(self, recurse=False)
        plain["state"] = self.state.value
        plain["exit"] = None if self.exit is None else _exit_as_dict(self.exit)
        plain["children"] = [child.as_dict() for child in self.children]
        return plain


def _exit_as_dict(exit_: Exit) -> dict[str, str | None]:
    return {
        "kind": exit_.kind.value,
        "reason": None if exit_.halt is None else exit_.halt.reason.value,
        "detail": None if exit_.halt is None else exit_.halt.detail,
        "crash": None if exit_.crash is None else str(exit_.crash),
    }


@attrs.frozen
class BoardRow:
    """One child on its supervisor's board.

    Attributes:
        report: The child, without what is below it.
        address: Where to send to while it is alive, else None.
        below: The child's own board; stays empty when it is an actor.
    """

    report: ChildReport
    address: Address | None
    below: "Board"


class Board:
    """What one supervisor shows; replaced whole by its thread, read from any."""

    def __init__(self) -> None:
        self._rows: tuple[BoardRow, ...] = ()

    def show(self, rows: tuple[BoardRow, ...]) -> None:
        """Replace what is shown."""
        self._rows = rows

    def reports(self) -> tuple[ChildReport, ...]:
        """Give all children in start order, each with what is below it."""
        return tuple(attrs.evolve(row.report, children=row.below.reports()) for row in self._rows)

    def addresses(
        self, above: tuple[str, ...] = ()
    ) -> Iterator[tuple[tuple[str, ...], Address | None]]:
        """Give each child at any depth: its path of ids, and its address while it is alive."""
        for row in self._rows:
            path = (*above, row.report.id)
            yield path, row.address
            yield from row.below.addresses(path)


class Context(StrEnum):
    """What a supervisor tells about."""

    CHILD_STARTED = "child_started"
    CHILD_EXITED = "child_exited"
    CHILD_RESTARTING = "child_restarting"
    CHILD_OVER_LIMIT = "child_over_limit"
    CHILD_WOULD_NOT_STOP = "child_would_not_stop"
    SUPERVISOR_ENDING = "supervisor_ending"


@attrs.frozen
class SupervisorReport:
    """One event in a tree, for an observer.

    Attributes:
        supervisor: The id of the supervisor that tells it.
        context: What happened.
        child: The id of the child concerned; None when it is the supervisor itself.
        incarnation: Which life of the child; 0 when it is the supervisor itself.
        exit: The exit concerned, if any; of an ending supervisor the one it ends with.
    """

    supervisor: str
    context: Context
    child: str | None = None
    incarnation: int = 0
    exit: Exit | None = None
