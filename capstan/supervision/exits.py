"""The one exit triage: restart kind by exit kind -> what the supervisor does.

House rules: the table is complete and is the only place that decides. It judges an end that nobody
asked for; a child that was told to stop is not judged, except that a halt is a verdict at any time.
A halt ends the tree whatever the child: it is deliberate, and nothing restarts it.
"""

from enum import StrEnum
from typing import Final

from capstan.runtime import ExitKind


class Restart(StrEnum):
    """What a child is for."""

    PERMANENT = "permanent"
    """Has no end of its own: started again after any."""

    TRANSIENT = "transient"
    """Has a task: started again until it has ended normally."""

    TEMPORARY = "temporary"
    """One try: never started again, not even when a sibling's failure stopped it."""


class Action(StrEnum):
    """What follows an exit."""

    FORGET = "forget"
    RESTART = "restart"
    END_TREE = "end_tree"


_TRIAGE: Final = {
    (Restart.PERMANENT, ExitKind.NORMAL): Action.RESTART,
    (Restart.PERMANENT, ExitKind.HALTED): Action.END_TREE,
    (Restart.PERMANENT, ExitKind.CRASHED): Action.RESTART,
    (Restart.PERMANENT, ExitKind.NEVER_STARTED): Action.RESTART,
    (Restart.TRANSIENT, ExitKind.NORMAL): Action.FORGET,
    (Restart.TRANSIENT, ExitKind.HALTED): Action.END_TREE,
    (Restart.TRANSIENT, ExitKind.CRASHED): Action.RESTART,
    (Restart.TRANSIENT, ExitKind.NEVER_STARTED): Action.RESTART,
    (Restart.TEMPORARY, ExitKind.NORMAL): Action.FORGET,
    (Restart.TEMPORARY, ExitKind.HALTED): Action.END_TREE,
    (Restart.TEMPORARY, ExitKind.CRASHED): Action.FORGET,
    (Restart.TEMPORARY, ExitKind.NEVER_STARTED): Action.FORGET,
}


def triage(restart: Restart, kind: ExitKind) -> Action:
    """Judge the end of a child that was not told to stop."""
    return _TRIAGE[restart, kind]
