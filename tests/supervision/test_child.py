"""Claims about specifications: each rule alone and in combination, each with its own sentence."""

import math
from typing import Any

import pytest
from helpers.puppets import Stage, puppet, tree_of

from capstan.core.halts import Halt, HaltReason
from capstan.supervision.child import ChildSpec, SupervisorSpec, Watch, validate
from capstan.supervision.exits import Restart
from capstan.supervision.strategy import Strategy

STALLED = Halt(HaltReason.SINK_STALLED)


def child(id_: str = "a", **spec: Any) -> ChildSpec:
    return puppet(Stage(), id_, **spec)


def test_a_sound_tree_is_accepted() -> None:
    """Every strategy and restart kind, a supervisor as a child, watches, an interrupt at once."""
    stream = tree_of(child("assembler"), child("connection", shutdown=0.0), id_="stream")
    reader = child("reader", restart=Restart.TRANSIENT)
    probe = child("probe", restart=Restart.TEMPORARY)
    desk = child("desk", watches=(Watch("sink", 30.0, STALLED), Watch("store", 5.0, STALLED)))

    for strategy in Strategy:
        last = () if strategy is Strategy.ONE_FOR_ALL else (probe,)
        validate(tree_of(desk, stream, reader, *last, strategy=strategy))


def test_a_lone_temporary_child_fits_every_strategy() -> None:
    """Nobody else can miss it."""
    for strategy in Strategy:
        validate(tree_of(child(restart=Restart.TEMPORARY), strategy=strategy))


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (tree_of(child("")), "child id '': must not be empty"),
        (tree_of(child("a/b")), "child id 'a/b': must not be empty and must not contain '/'"),
        (tree_of(child(), id_=""), "child id '': must not be empty"),
        (tree_of(), "supervisor 'tree': has no children"),
        (tree_of(child(), restarts=-1), "'tree': intensity.restarts must not be negative"),
        (tree_of(child(), seconds=0.0), "'tree': intensity.seconds must be more than zero"),
        (tree_of(child(), seconds=math.nan), "'tree': intensity.seconds must be more than zero"),
        (tree_of(child(shutdown=-1.0)), "child 'a': shutdown must be zero or more seconds"),
        (tree_of(child(shutdown=math.inf)), "child 'a': shutdown must be zero or more seconds"),
        (tree_of(child(grace=0.0)), "child 'a': grace must be more than zero seconds"),
        (tree_of(child(grace=-0.5)), "child 'a': grace must be more than zero seconds"),
        (tree_of(child(start_within=0.0)), "child 'a': start_within must be more than zero"),
        (
            tree_of(child(watches=(Watch("", 1.0, STALLED),))),
            "child 'a': a watch has an empty label",
        ),
        (
            tree_of(child(watches=(Watch("sink", 0.0, STALLED),))),
            "child 'a': the limit of watch 'sink' must be more than zero seconds",
        ),
    ],
)
def test_each_field_is_checked_alone(spec: SupervisorSpec, sentence: str) -> None:
    """A refusal names the child and the rule."""
    with pytest.raises(ValueError, match=sentence):
        validate(spec)


TEMPORARY = child("t", restart=Restart.TEMPORARY)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (tree_of(child("a"), child("a")), "child id 'a': used twice in one tree"),
        (tree_of(child("tree")), "child id 'tree': used twice in one tree"),
        (
            tree_of(child("a"), tree_of(child("a"), id_="stream")),
            "child id 'a': used twice in one tree",
        ),
        (
            tree_of(child(watches=(Watch("sink", 1.0, STALLED), Watch("sink", 2.0, STALLED)))),
            "child 'a': two watches have the same label",
        ),
        (
            tree_of(TEMPORARY, child(), strategy=Strategy.REST_FOR_ONE),
            "child 't': is temporary, so that under rest_for_one its siblings would go on",
        ),
        (
            tree_of(child(), TEMPORARY, strategy=Strategy.ONE_FOR_ALL),
            "child 't': is temporary, so that under one_for_all its siblings would go on",
        ),
        (
            tree_of(child(start_within=9.0, grace=1.5), restarts=6, seconds=60.0),
            "child 'a': start_within \\+ grace is 10.5 s: a start that times out would be tried",
        ),
    ],
)
def test_fields_are_checked_in_combination(spec: SupervisorSpec, sentence: str) -> None:
    """What is sound alone can be a contradiction together."""
    with pytest.raises(ValueError, match=sentence):
        validate(spec)


def test_starts_that_time_out_must_be_able_to_exhaust_the_intensity() -> None:
    """Just quick enough is accepted, and a child that is never started again does not matter."""
    validate(tree_of(child(start_within=9.0, grace=1.0), restarts=6, seconds=60.0))
    slow = child(start_within=900.0, restart=Restart.TEMPORARY)
    validate(tree_of(slow, restarts=6, seconds=60.0))


def test_a_fault_at_any_depth_is_found() -> None:
    """The whole tree is checked, not only the top."""
    deep = tree_of(child("a", grace=-1.0), id_="deep")

    with pytest.raises(ValueError, match="child 'a': grace"):
        validate(tree_of(tree_of(deep, id_="middle")))
