"""Claims about the tree as data."""

import json

from capstan.core.halts import Halt, HaltReason
from capstan.runtime import NORMAL_EXIT, Address, Crash, Exit, ExitKind
from capstan.supervision.report import Board, BoardRow, ChildReport, ChildState

HALTED = Exit(
    ExitKind.HALTED, Halt(HaltReason.SINK_FAILED, "OSError"), Crash("KeyError", "jsonl.py:7")
)


def test_a_report_is_plain_data() -> None:
    """It goes through JSON and comes back the same, exits and depth included."""
    leaf = ChildReport(
        id="leaf", state=ChildState.ENDED, incarnation=2, restarts=1, exit=HALTED, interrupted=True
    )
    top = ChildReport(id="top", state=ChildState.RUNNING, incarnation=1, children=(leaf,))

    plain = top.as_dict()

    assert json.loads(json.dumps(plain)) == plain
    assert plain == {
        "id": "top",
        "state": "running",
        "incarnation": 1,
        "restarts": 0,
        "exit": None,
        "interrupted": False,
        "would_not_stop": False,
        "children": [
            {
                "id": "leaf",
                "state": "ended",
                "incarnation": 2,
                "restarts": 1,
                "exit": {
                    "kind": "halted",
                    "reason": "sink_failed",
                    "detail": "OSError",
                    "crash": "KeyError at jsonl.py:7",
                },
                "interrupted": True,
                "would_not_stop": False,
                "children": [],
            }
        ],
    }


def test_an_exit_without_halt_or_crash_has_empty_places() -> None:
    """A normal end names no reason."""
    report = ChildReport(id="a", state=ChildState.ENDED, exit=NORMAL_EXIT)

    assert report.as_dict()["exit"] == {
        "kind": "normal",
        "reason": None,
        "detail": None,
        "crash": None,
    }


def test_a_board_shows_what_is_below_it() -> None:
    """Reports and addresses of every depth, the lower board read when the upper one is."""
    top, below, address = Board(), Board(), Address("leaf", 1)
    stream = ChildReport(id="stream", state=ChildState.RUNNING)
    leaf = ChildReport(id="leaf", state=ChildState.RUNNING)
    top.show((BoardRow(stream, None, below),))
    below.show((BoardRow(leaf, address, Board()),))

    (shown,) = top.reports()

    assert shown.children == (leaf,)
    assert list(top.addresses()) == [(("stream",), None), (("stream", "leaf"), address)]


def test_alive_is_whatever_still_has_a_thread_to_end() -> None:
    """What was given up is nobody's any more, and what waits is not yet."""
    assert {state.value for state in ChildState if state.alive} == {
        "starting",
        "running",
        "stopping",
        "interrupted",
    }
