"""The transaction grammar as a table: what it promises in every state."""

import pytest

from capstan.core.assembly import Fold
from capstan.core.binlog.header import EventType
from capstan.core.binlog.statements import StatementKind
from capstan.core.shapes import SHAPES, STATEMENT_SHAPES, TABLE, Cell, Shape, State

OPEN = [state for state in State if state is not State.HALTED]
BLOCKS = [State.BLOCK, State.XA_BLOCK]
RELEASING = {"release", "release_rolled_back", "take_ddl"}
"""The actions that let something out."""


def cells() -> list[tuple[State, Shape, Cell]]:
    return [(state, shape, cell) for state in State for shape, cell in TABLE[state].items()]


def test_every_state_has_a_row() -> None:
    """A state without one could not even be halted in."""
    assert set(TABLE) == set(State)


def test_every_action_is_a_method_of_the_fold_that_says_what_it_does() -> None:
    """The table names them as text, so that it can be printed."""
    for _, _, cell in cells():
        assert getattr(Fold, f"_{cell.action}").__doc__


def test_every_statement_has_a_shape() -> None:
    """No kind of statement is left to chance."""
    assert set(STATEMENT_SHAPES) == set(StatementKind)


def test_every_shape_has_a_place() -> None:
    """All but a statement that is not looked into, and control not as the server writes it."""
    placed = {shape for state, shape, _ in cells() if state is not State.SKIPPING}

    assert set(Shape) - placed == {Shape.QUERY, Shape.FOREIGN}


def test_event_types_without_a_shape_are_those_of_other_formats() -> None:
    """They are unknown: passed over only when their writer flagged them so."""
    missing = set(EventType) - SHAPES.keys()

    assert missing == {EventType.START_V3, EventType.SLAVE}


def test_nothing_leaves_but_at_a_terminator() -> None:
    """R1, R2, R5, R10: XID, COMMIT, ROLLBACK and a self-committing statement; nothing else."""
    releasing = {(state, shape) for state, shape, cell in cells() if cell.action in RELEASING}

    assert releasing == {
        (State.BLOCK, Shape.XID),
        (State.BLOCK, Shape.COMMIT),
        (State.BLOCK, Shape.ROLLBACK),
        (State.STARTED, Shape.DDL),
    }


def test_what_lets_something_out_ends_the_group() -> None:
    """R1, R6: the next event stands between transactions."""
    assert {cell.state for _, _, cell in cells() if cell.action in RELEASING} == {State.OUTSIDE}


def test_an_xa_block_has_no_way_out() -> None:
    """R22, R23, R24: opened like any other, it can only go on or halt."""
    ways = {cell.state for cell in TABLE[State.XA_BLOCK].values()}

    assert ways == {State.XA_BLOCK, State.HALTED}
    assert TABLE[State.STARTED][Shape.XA_START].state is State.XA_BLOCK


def test_a_halted_fold_knows_no_event() -> None:
    """R12, R13: nothing gets it out but a new epoch."""
    assert TABLE[State.HALTED] == {}


@pytest.mark.parametrize("state", OPEN)
def test_refusals_halt(state: State) -> None:
    """A cell that refuses never leads anywhere else, and no other cell leads there."""
    for shape, cell in TABLE[state].items():
        may_pass = cell.action == "refuse_partial_rows"
        refuses = cell.action.startswith("refuse_") and not may_pass
        assert (cell.state is State.HALTED) == refuses, (state, shape)


@pytest.mark.parametrize("state", [State.OUTSIDE, State.STARTED, *BLOCKS, State.SKIPPING])
def test_what_loses_changes_halts_in_every_state(state: State) -> None:
    """D22, R266: an incident, and a transaction without a GTID, the anchor's group included."""
    assert TABLE[state][Shape.INCIDENT].action == "refuse_incident"
    assert TABLE[state][Shape.ANONYMOUS].action == "refuse_anonymous"


@pytest.mark.parametrize("state", BLOCKS)
def test_statements_inside_a_block_are_control_or_refused(state: State) -> None:
    """D19, D20, D21: no statement inside a block is ever taken for self-committing DDL."""
    control = {Shape.SAVEPOINT, Shape.RELEASE, Shape.ROLLBACK_TO, Shape.XA_START, Shape.XA_END}
    inside = {shape for shape in STATEMENT_SHAPES.values() if shape in TABLE[state]}

    assert all(TABLE[state][shape].state is state for shape in control)
    assert TABLE[state][Shape.DDL].action == "refuse_statement"
    assert TABLE[state][Shape.STATEMENT].action == "refuse_statement"
    assert Shape.BEGIN not in inside
    assert (Shape.CREATE_SELECT in inside) == (state is State.BLOCK)


@pytest.mark.parametrize("state", [State.OUTSIDE, State.STARTED])
def test_rows_stand_inside_a_block_only(state: State) -> None:
    """R9, R10: a row event anywhere else has no place."""
    assert not {Shape.ROWS, Shape.TABLE_MAP, Shape.XID} & TABLE[state].keys()


@pytest.mark.parametrize("state", [State.STARTED, *BLOCKS])
def test_a_group_is_never_interrupted(state: State) -> None:
    """No file ends and no other group begins inside one."""
    others = {Shape.GTID, Shape.TAGGED_GTID, Shape.FORMAT, Shape.ROTATE, Shape.STOP}

    assert not others & TABLE[state].keys()


def test_nothing_is_read_before_the_first_format_description() -> None:
    """D23: until then it is not known what an event ends in."""
    row = TABLE[State.UNOPENED]

    assert set(row) == {Shape.FORMAT, Shape.ROTATE, Shape.HEARTBEAT}
    assert row[Shape.FORMAT].state is State.OUTSIDE


def test_the_anchors_group_is_passed_over_unread() -> None:
    """D13: whatever it is made of, but what cannot be a part of it."""
    row = TABLE[State.SKIPPING]
    passed = {shape for shape, cell in row.items() if cell == Cell(State.SKIPPING, "pass_over")}

    assert set(Shape) - passed == {
        Shape.GTID,
        Shape.TAGGED_GTID,
        Shape.ANONYMOUS,
        Shape.INCIDENT,
        Shape.FORMAT,
        Shape.ROTATE,
        Shape.PREVIOUS_GTIDS,
        Shape.STOP,
    }


@pytest.mark.parametrize("state", OPEN)
def test_a_heartbeat_changes_nothing(state: State) -> None:
    """It can come at any time."""
    assert TABLE[state][Shape.HEARTBEAT] == Cell(state, "pass_over")
