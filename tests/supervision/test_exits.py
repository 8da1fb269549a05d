"""Claims about the exit triage: the full matrix, written out a second time."""

from itertools import product

import pytest

from capstan.runtime import ExitKind
from capstan.supervision.exits import Action, Restart, triage

MATRIX = {
    Restart.PERMANENT: "restart end_tree restart restart",
    Restart.TRANSIENT: "forget end_tree restart restart",
    Restart.TEMPORARY: "forget end_tree forget forget",
}
KINDS = [ExitKind.NORMAL, ExitKind.HALTED, ExitKind.CRASHED, ExitKind.NEVER_STARTED]


@pytest.mark.parametrize(("restart", "column"), list(product(Restart, range(4))))
def test_the_triage_is_this_matrix(restart: Restart, column: int) -> None:
    """R267: each kind of child by each kind of exit; a halt ends the tree in every row."""
    expected = Action(MATRIX[restart].split()[column])

    assert triage(restart, KINDS[column]) is expected


def test_the_matrix_covers_every_kind() -> None:
    """A new kind of exit or child has to be decided here."""
    assert list(MATRIX) == list(Restart)
    assert set(KINDS) == set(ExitKind)
