"""Every halt, provoked end to end: its reason, what was delivered, and that it stays a halt."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from faults import other_process
from faults.provocations import PROVOCATIONS
from faults.scene import Provocation, Scene, upto
from helpers.pipelines import Recording
from helpers.sentinels import assert_clean

from capstan import GtidSet, HaltReason, PipelineHalted, SqliteStore
from capstan.core.halt_catalogue import CATALOGUE
from capstan.telemetry.events import ChildRestarted, PipelineEnded

RAISED = {reason for reason, entry in CATALOGUE.items() if entry.since is not None}
ELSEWHERE = GtidSet.parse("00000000-0000-0000-0000-000000000000:1")
INTERRUPTED = {HaltReason.SINK_STALLED, HaltReason.STOPPED_FROM_OUTSIDE}
"""The reasons for which those who hold transactions get no time to hand them on."""


def test_every_raised_reason_is_provoked() -> None:
    """R54, R266: no halt is left to be met for the first time by a user."""
    assert {provocation.reason for provocation in PROVOCATIONS} == RAISED


def test_provocations_have_names_of_their_own() -> None:
    """A failure names one way into a halt."""
    assert len({str(provocation) for provocation in PROVOCATIONS}) == len(PROVOCATIONS)


@pytest.mark.parametrize("provocation", PROVOCATIONS, ids=str)
def test_it_ends_in_its_halt_and_stays_there(provocation: Provocation, scene: Scene) -> None:
    """R14, R15, R42, R54, R266, R267: the reason, told once; nothing half-done; no way back."""
    provocation.play(scene)
    assert scene.error.halt.reason is provocation.reason, scene.error
    calls = dict(scene.calls)

    assert_told_once(scene)
    assert_nothing_half_done(scene)
    assert_nobody_was_waited_for(scene)
    assert_no_way_back(scene)
    scene.wait_until_still()
    assert dict(scene.calls) == calls
    assert scene.stored() == scene.expected


def assert_told_once(scene: Scene) -> None:
    """The observers heard of the end, once and last, in the words of the verdict."""
    ends = [event for event in scene.told if isinstance(event, PipelineEnded)]
    halt = scene.error.halt
    assert ends == [PipelineEnded(reason=halt.reason.value, detail=halt.detail)]
    assert scene.told[-1] is ends[0]


def assert_nothing_half_done(scene: Scene) -> None:
    """What came before the halt is delivered and stored; what brought it is neither."""
    delivered, expected = scene.delivered(), scene.expected or GtidSet()
    assert scene.stored() == scene.expected
    assert delivered <= expected | scene.window
    if scene.all_delivered:
        assert delivered == expected - (scene.started_at or GtidSet())
    if isinstance(scene.sink, Recording):
        transactions = scene.sink.transactions
        assert len({gtid for gtid, _ in transactions}) == len(transactions)
        assert all(len(changes) == 1 for _, changes in transactions)


def assert_nobody_was_waited_for(scene: Scene) -> None:
    """Those who hand things on to sink and store ended by themselves, without their deadline."""
    tree = {child["id"]: child for child in scene.pipeline.status().tree}
    late = [id_ for id_ in ("checkpoint", "coordinator") if tree[id_]["interrupted"]]
    assert late == [] or scene.error.halt.reason in INTERRUPTED


def assert_no_way_back(scene: Scene) -> None:
    """Whatever the host asks of it, it stays halted for the same reason."""
    pipeline, halt = scene.pipeline, scene.error.halt
    with pytest.raises(RuntimeError, match="started once"):
        pipeline.start()
    with pytest.raises(PipelineHalted) as waited:
        pipeline.wait()
    with pytest.raises(PipelineHalted) as waited_for:
        pipeline.wait_for(ELSEWHERE)
    pipeline.stop()
    assert waited.value.halt == waited_for.value.halt == pipeline.halt == halt
    assert pipeline.status().state == "halted"


def test_a_nameless_crash_is_told_by_class_and_place(scene: Scene) -> None:
    """R265, R266: the fifth restart is the last; what the exception said is not repeated."""
    play(HaltReason.RESTARTS_EXHAUSTED, "a bug at every dial", scene)

    told = [event for event in scene.told if isinstance(event, ChildRestarted)]
    assert [(event.child, event.exception_class) for event in told] == [
        ("connection", "RuntimeError")
    ] * 5
    assert re.fullmatch(
        r"connection: over 5 restarts in 120 s, last RuntimeError at connection\.py:\d+",
        scene.error.halt.detail,
    )


@pytest.mark.parametrize(
    ("reason", "how", "drained"),
    [
        (HaltReason.SERVER_ID_CONFLICT, "another reader under the same id", True),
        (HaltReason.SINK_FAILED, "an exception", False),
        (HaltReason.SINK_STALLED, "a call that does not come back", False),
        (HaltReason.STORE_FAILED, "a disk that is full", False),
    ],
)
def test_the_status_says_whether_all_was_handed_on(
    scene: Scene, reason: HaltReason, how: str, drained: bool
) -> None:
    """R41, R42: what was assembled and is not stored is not called drained."""
    play(reason, how, scene)
    assert scene.pipeline.status().drained is drained


def play(reason: HaltReason, how: str, scene: Scene) -> None:
    """Play one provocation by its name."""
    (found,) = (each for each in PROVOCATIONS if (each.reason, each.how) == (reason, how))
    found.play(scene)


# --- with another process -------------------------------------------------------------------------


def start(*arguments: str | Path) -> "subprocess.Popen[str]":
    """Start the other process."""
    places = [path for path in sys.path if path]
    return subprocess.Popen(
        [sys.executable, other_process.__file__, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
    )


def test_a_store_that_another_process_holds_is_locked(scene: Scene) -> None:
    """R267: the second pipeline does not dial; when the first has gone, the store can be had."""
    file = scene.folder / "state.db"
    with start("hold", file) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        scene.store = SqliteStore(file)
        scene.refused()
        assert other.communicate() == ("", "")

    assert scene.error.halt.reason is HaltReason.STORE_LOCKED
    assert scene.calls["link"] == 0
    scene.store.hold()


def test_a_full_disk_halts_behind_what_was_written(tmp_path: Path) -> None:
    """R42, R265: the stored position is the last one that could be written, one batch behind."""
    with start("fill", tmp_path / "state.db") as other:
        out, err = other.communicate()
    outcome = json.loads(out)

    assert outcome["reason"] == HaltReason.STORE_FAILED
    stored = GtidSet.parse(outcome["stored"]).count()
    assert GtidSet.parse(outcome["stored"]) == upto(stored)
    assert 0 < stored < other_process.TRANSACTIONS
    assert int(outcome["delivered"]) == stored + 1
    assert err == ""
    assert_clean(("standard output", out))
