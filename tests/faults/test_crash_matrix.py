"""A crash at every persist, send and sink call: nothing is lost, what comes twice is counted."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults import crash_kills
from faults.crash_kills import again
from faults.crash_lives import Life
from faults.crash_matrix import ACTORS, MATRIX, UNSENT, Again, Kind, Strike, strikes
from faults.crash_world import LAST, World, rows_at
from helpers.histories import up_to

from capstan import HaltReason, PipelineHalted
from capstan.actors import messages
from capstan.testing import CrashPoints, crash

SINKS = ("journal", "mirror")
CRASHES = [(strike, sink) for sink in SINKS for strike in strikes(sink=sink)]


def passed(sink: str, folder: Path) -> dict[str, int]:
    """How often each point is passed when nothing crashes."""
    with CrashPoints() as points:
        Life(folder, sink).live(points, World())
    return dict(points.passed)


@pytest.mark.parametrize("sink", SINKS)
def test_the_matrix_has_every_call_that_is_made(sink: str, tmp_path: Path) -> None:
    """R122, R266: no persist, no send and no call of the sink is left out; each hit happens."""
    made = {
        point.removeprefix("before "): count
        for point, count in passed(sink, tmp_path).items()
        if point.startswith("before ") and " receive " not in point
    }
    named = {f"{c.actor} {c.name}": max(c.hits) for c in MATRIX if sink in c.sinks}
    named |= {f"{actor} start": 1 for actor in ACTORS}
    assert made.keys() == named.keys()
    assert {call for call, hit in named.items() if made[call] < hit} == set()


def test_the_matrix_has_every_message_that_moves_anything() -> None:
    """R266: a new message joins the matrix, or says why not."""
    written = {
        name
        for name, value in vars(messages).items()
        if isinstance(value, type) and value.__module__ == messages.__name__
    }
    sent = {call.name.removeprefix("send ") for call in MATRIX if call.kind is Kind.SEND}
    assert written == sent | UNSENT.keys()
    assert not sent & UNSENT.keys()


def ends_as_if_nothing_had_happened(life: Life) -> None:
    """All that the source has is in the sink, and the position says so."""
    assert life.rows() == rows_at(LAST)
    assert life.stored() == up_to(LAST)


@contextlib.contextmanager
def refusal() -> Iterator[None]:
    """What is raised in a call of the sink ends the pipeline; in the last one nobody is left."""
    with pytest.raises(PipelineHalted) as caught:
        yield
    assert str(caught.value) == f"{HaltReason.SINK_FAILED.value}: PlannedCrash"


def counted(seen: list[list[int]]) -> Again:
    """What a list of repeated transactions and one of repeated chunks amount to."""
    return {(0, 0): Again.NOTHING, (1, 0): Again.BATCH, (0, 1): Again.CHUNK}[
        len(seen[0]), len(seen[1])
    ]


@pytest.mark.parametrize(("strike", "sink"), CRASHES, ids=[f"{s}-{sink}" for s, sink in CRASHES])
def test_an_actor_that_crashes_costs_what_the_matrix_says(
    strike: Strike, sink: str, tmp_path: Path
) -> None:
    """R40, R121, R122, R130, R168, D15, R268: restarted, or a refusal of the sink's; counted."""
    life = Life(tmp_path, sink)
    refused = strike.call.kind is Kind.SINK and strike.call.name != "close"
    with CrashPoints() as points:
        points.at(strike.point, crash, hit=strike.hit)
        with refusal() if refused else contextlib.nullcontext():
            life.live(points, World())
        assert points.passed[strike.point] >= strike.hit
    if refused:
        with CrashPoints() as points:
            life.live(points, life.world())

    ends_as_if_nothing_had_happened(life)
    if sink == "journal":
        assert counted(again(life)) is strike.again(killed=False)


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("actor", ACTORS)
def test_a_process_that_is_killed_costs_what_the_matrix_says(
    actor: str, sink: str, tmp_path: Path
) -> None:
    """R42, R121, R122, R130, R168, D12, D15, R268: SIGKILL at each of its calls; counted."""
    wanted = {str(strike): strike for strike in strikes(actor, sink)}
    seen = [json.loads(line) for line in kills(actor, sink, tmp_path).splitlines()]

    assert [each["strike"] for each in seen] == list(wanted)
    for each in seen:
        told = each["strike"]
        assert each["struck"], told
        assert dict(each["rows"]) == rows_at(LAST), told
        assert each["stored"] == str(up_to(LAST)), told
        if sink == "journal":
            assert each["again"] == each["window"], told
            expected, found = wanted[told].again(killed=True), counted(each["again"])
            assert expected in {found, Again.WINDOW}, told


def kills(actor: str, sink: str, folder: Path) -> str:
    """Run them all in another process, which is forked for each life."""
    places = os.pathsep.join(path for path in sys.path if path)
    run = subprocess.run(
        [sys.executable, crash_kills.__file__, actor, sink, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": places},
    )
    assert run.returncode == 0, run.stderr
    return run.stdout
