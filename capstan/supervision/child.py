"""Child and supervisor specifications: validated data, checked before the first child starts.

House rules: a spec says everything a supervisor needs and does nothing. `validate` checks each
field alone and in combination; a refusal is a `ValueError` that names the child and the rule.
"""

import math
from collections.abc import Callable, Iterator
from typing import ClassVar

import attrs

from capstan.core.halts import Halt
from capstan.runtime import Actor
from capstan.supervision.exits import Restart
from capstan.supervision.intensity import Intensity
from capstan.supervision.roster import Roster
from capstan.supervision.strategy import Strategy


@attrs.frozen
class Watch:
    """A limit on how long a child may be busy with one thing.

    Attributes:
        label: What the child calls it (`busy.doing(label)`).
        limit_seconds: Busy for longer ends the tree.
        halt: With this verdict.
    """

    label: str
    limit_seconds: float
    halt: Halt


@attrs.frozen(kw_only=True)
class ChildSpec:
    """One supervised actor.

    Attributes:
        id: Its name, unique in the whole tree; also its thread's name.
        start: Makes a new actor; called on the supervisor's thread for each life, must not block.
        restart: What follows its end.
        shutdown: Seconds to drain after a stop request; 0 interrupts at once.
        grace: Seconds to end after the interrupt; then it is given up.
        start_within: Seconds for its `started()`; then it is interrupted, and the start has failed.
        watches: What it may not be busy with for too long.
    """

    id: str
    start: Callable[[Roster], Actor]
    restart: Restart = Restart.PERMANENT
    shutdown: float = 5.0
    grace: float = 2.0
    start_within: float = 10.0
    watches: tuple[Watch, ...] = ()


@attrs.frozen(kw_only=True)
class SupervisorSpec:
    """One supervisor with its children; may itself be a child.

    As a child it is permanent and has no deadlines of its own: each of its children has, so it
    always comes to an end. Its halt, `restarts_exhausted` too, is its supervisor's halt.

    Attributes:
        id: Its name, unique in the whole tree.
        strategy: Who shares a failed child's fate.
        intensity: How many restarts within which time, all children together.
        children: In start order: each may depend on those in front of it.
    """

    id: str
    strategy: Strategy
    intensity: Intensity
    children: tuple["ChildSpec | SupervisorSpec", ...]

    restart: ClassVar[Restart] = Restart.PERMANENT
    shutdown: ClassVar[float] = math.inf
    grace: ClassVar[float] = math.inf
    start_within: ClassVar[float] = math.inf
    watches: ClassVar[tuple[Watch, ...]] = ()


def validate(spec: SupervisorSpec) -> None:
    """Check a whole tree, each field alone and in combination.

    Raises:
        ValueError: For the first rule that is broken.
    """
    _check_ids(spec)
    for supervisor in _supervisors(spec):
        _check_supervisor(supervisor)
        for child in supervisor.children:
            if isinstance(child, ChildSpec):
                _check_child(child)
                _check_failing_starts_end(supervisor, child)


def _supervisors(spec: SupervisorSpec) -> Iterator[SupervisorSpec]:
    yield spec
    for child in spec.children:
        if isinstance(child, SupervisorSpec):
            yield from _supervisors(child)


def _check_ids(spec: SupervisorSpec) -> None:
    ids = [spec.id, *(child.id for above in _supervisors(spec) for child in above.children)]
    for position, id_ in enumerate(ids):
        if not id_ or "/" in id_:
            raise ValueError(f"child id {id_!r}: must not be empty and must not contain '/'")
        if id_ in ids[:position]:
            raise ValueError(f"child id {id_!r}: used twice in one tree")


def _check_supervisor(spec: SupervisorSpec) -> None:
    if not spec.children:
        raise ValueError(f"supervisor {spec.id!r}: has no children")
    if spec.intensity.restarts < 0:
        raise ValueError(f"supervisor {spec.id!r}: intensity.restarts must not be negative")
    _check_seconds(f"supervisor {spec.id!r}: intensity.seconds", spec.intensity.seconds)
    for position, child in enumerate(spec.children):
        if child.restart is Restart.TEMPORARY and _would_be_missed(spec, position):
            raise ValueError(
                f"child {child.id!r}: is temporary, so that under {spec.strategy.value} its"
                " siblings would go on without it; place it last under rest_for_one, or use"
                " one_for_one"
            )


def _would_be_missed(spec: SupervisorSpec, position: int) -> bool:
    """Whether, by the strategy's own words, others depend on the child at this position."""
    match spec.strategy:
        case Strategy.ONE_FOR_ONE:
            return False
        case Strategy.REST_FOR_ONE:
            return position < len(spec.children) - 1
        case Strategy.ONE_FOR_ALL:
            return len(spec.children) > 1


def _check_child(spec: ChildSpec) -> None:
    name = f"child {spec.id!r}"
    _check_seconds(f"{name}: shutdown", spec.shutdown, zero=True)
    _check_seconds(f"{name}: grace", spec.grace)
    _check_seconds(f"{name}: start_within", spec.start_within)
    labels = [watch.label for watch in spec.watches]
    if "" in labels:
        raise ValueError(f"{name}: a watch has an empty label")
    if len(set(labels)) < len(labels):
        raise ValueError(f"{name}: two watches have the same label")
    for watch in spec.watches:
        _check_seconds(f"{name}: the limit of watch {watch.label!r}", watch.limit_seconds)


def _check_seconds(what: str, seconds: float, *, zero: bool = False) -> None:
    if not (math.isfinite(seconds) and (seconds > 0 or (zero and seconds == 0))):
        raise ValueError(f"{what} must be {'zero or more' if zero else 'more than zero'} seconds")


def _check_failing_starts_end(above: SupervisorSpec, child: ChildSpec) -> None:
    """Refuse a child whose starts could time out for ever without exhausting the intensity."""
    each = child.start_within + child.grace
    slowest = above.intensity.restarts * each
    if child.restart is not Restart.TEMPORARY and slowest > above.intensity.seconds:
        raise ValueError(
            f"child {child.id!r}: start_within + grace is {each:g} s: a start that times out would"
            f" be tried for ever, as {above.id!r} allows {above.intensity.restarts} restarts"
            f" within {above.intensity.seconds:g} s"
        )
