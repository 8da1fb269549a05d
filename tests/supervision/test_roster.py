"""Claims about the roster: a child finds what is in front of it, and nothing else."""

import pytest

from capstan.runtime import Address
from capstan.supervision.report import Board, BoardRow, ChildReport, ChildState
from capstan.supervision.roster import Roster


def board_of(*addresses: Address, ended: tuple[str, ...] = ()) -> Board:
    board = Board()
    running = [(address.name, address) for address in addresses]
    rows = [*running, *((name, None) for name in ended)]
    board.show(
        tuple(
            BoardRow(ChildReport(id=name, state=ChildState.RUNNING), address, Board())
            for name, address in rows
        )
    )
    return board


CHECKPOINT, COORDINATOR = Address("checkpoint", 1), Address("coordinator", 1)
ASSEMBLER = Address("assembler", 1)


def test_a_child_finds_its_siblings_and_then_its_supervisors_siblings() -> None:
    """The connection reaches its assembler, and the coordinator one level up."""
    above = Roster(board_of(CHECKPOINT, COORDINATOR), frozenset({"checkpoint", "coordinator"}))
    roster = Roster(board_of(ASSEMBLER), frozenset({"assembler"}), above)

    assert roster["assembler"] is ASSEMBLER
    assert roster["coordinator"] is COORDINATOR


def test_what_is_not_in_front_is_not_found_even_when_it_runs() -> None:
    """A lookup against the start order fails at once, not only at the first restart."""
    roster = Roster(board_of(CHECKPOINT, COORDINATOR), frozenset({"checkpoint"}))

    with pytest.raises(KeyError, match="no child 'coordinator' starts before this one"):
        roster["coordinator"]


def test_what_is_in_front_but_does_not_run_is_not_found() -> None:
    """A child that has ended has no address to give."""
    roster = Roster(board_of(ended=("reader",)), frozenset({"reader"}))

    with pytest.raises(KeyError, match="child 'reader' does not run"):
        roster["reader"]
