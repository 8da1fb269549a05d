"""docs/faults.md, made from the tables that the tests run through; see scripts/generate_docs.py.

House rules: a row of the page is a row of a table that a test is parametrised with, so nothing
stands there that is not proven. The runs of the soak are the lines of
`tests/soak/clean_runs.jsonl`, written by `make soak NOTE=…`.
"""

import ast
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from faults import test_survived_faults as survived
from faults.crash_matrix import ACTORS, MATRIX, Again, Call, Kind, Strike
from faults.provocations import PROVOCATIONS

_TESTS: Final = Path(__file__).parents[1]
RUNS: Final = _TESTS / "soak" / "clean_runs.jsonl"
_NUMBERS: Final = re.compile(r"^[RD]\d+(?:\s*[-\u2013]\s*[RD]?\d+)?(?:, [RD]\d+(?:-[RD]?\d+)?)*: ")

_INTRO: Final = """# Faults and what becomes of them

{note}

Every line of this page is a row of a table that a test runs through. A fault ends in one of three
ways: it passes and costs nothing, it costs a window that is known beforehand, or the pipeline halts
with a reason, behind everything that was good.
"""

_PASSING: Final = """## Faults that pass

Each of these strikes in the middle of a stream over the fault kit's server. Everything arrives,
once, in order, and is stored (`tests/faults/test_survived_faults.py`).

| Fault | Outcome |
|---|---|"""

_HALTING: Final = """## Faults that halt

Each of these is played end to end. The halt is told once, with its reason; what came before it is
delivered and stored, what brought it is not; nothing leads out of it but a new start
(`tests/faults/test_every_halt.py`).

| Fault | Outcome |
|---|---|"""

_CRASHES: Final = """## The crash matrix

Every write of the store, every message and every call of the sink is a place where the actor that
does it is made to crash, and where the process is killed with SIGKILL: before it and behind it,
with a stream, a schema change and a backfill under way (`tests/faults/test_crash_matrix.py`,
`tests/faults/crash_matrix.py`). In the end the sink always has exactly what the source has.

**With `SqliteMirror` no transaction ever comes twice**, wherever the strike; a mirror refuses one
that it has. A chunk of a backfill may come twice, as an upsert.

**With a sink that keeps no position** the tables say what comes a second time: a batch (here of
one transaction) or a chunk, never anything older, and counted exactly. A crash inside a call of the
sink is a refusal: it halts `sink_failed`, and what the table says is what the next start costs.
"If any" stands where a kill meets one actor while another may be delivering: what comes again then
is exactly what the sink had and the store had not.
"""

_MORE: Final = """## Servers, disks and processes

What needs more than a row of a table has a test of its own.
"""
_CLAIMS: Final = {
    "Failover": "integration/test_failover.py",
    "Positions": "integration/test_positions.py",
    "Restarts": "integration/test_resume_live.py",
    "Kills, restarts and cut links together": "integration/test_chaos.py",
    "Crashes of a backfill over a real server": "integration/test_backfill_crashes.py",
    "Storage": "faults/test_storage_faults.py",
    "Hostile servers": "faults/test_hostile_server.py",
    "TLS": "faults/test_tls_end_to_end.py",
}
"""Title → the tests, below `tests/`."""

_SOAK: Final = """## The soak

`make soak SECONDS=600 SEED=…` runs two pipelines over one real server for as long as you like: a
workload of several writers with DDL, a backfill in the first round, and at random moments cut,
refused, half-open, delayed and throttled links, a SIGKILL of one of the two pipelines, crashes of
actors and slow sinks in both, and at the end of each round a SIGKILL of the server straight after
the last commit. Then writers pause, and both mirrors must be identical with the source, row by row;
that happens several times a minute. Memory, threads, file descriptors and temporary files of the
pipeline that lives through it all must be, in the end, what they were halfway.
A minute of it is in the suite (`tests/integration/test_soak.py`).
"""


def faults_page(note: str) -> str:
    """The page.

    Args:
        note: Who writes it.
    """
    return "\n".join(
        [
            _INTRO.format(note=note),
            *_passing(),
            *_halting(),
            *_crashes(),
            *_more(),
            *_soaks(),
        ]
    )


def _passing() -> Iterator[str]:
    yield _PASSING
    for how, _ in survived.PASSING:
        yield f"| {how} | asked for again, arrives once |"
    for how in survived.CONNECTING:
        yield f"| {how}, at one dial | the next dial goes through |"
    for fault in _parameters(survived.test_a_fault_of_the_network_that_passes_costs_nothing):
        yield f"| network: {fault} | arrives once |"
    yield "| heartbeats and nothing else | the link is kept, nothing is written |"
    yield "| another server that has all that was processed | gone on with |\n"


def _parameters(test: Callable[..., Any]) -> Sequence[str]:
    """The values that a test is parametrised with."""
    (mark,) = test.pytestmark  # type: ignore[attr-defined]
    values: Sequence[str] = mark.args[1]
    return values


def _halting() -> Iterator[str]:
    yield _HALTING
    for each in PROVOCATIONS:
        reason = each.reason.value
        yield f"| {each.how} | halts [`{reason}`](halts.md#{reason}) |"
    yield ""


def _crashes() -> Iterator[str]:
    yield _CRASHES
    count = sum(1 for call in MATRIX for _ in call.strikes() for _ in call.sinks)
    yield f"{len(MATRIX)} calls, {count} strikes, each as a crash and as a kill.\n"
    for actor in ACTORS:
        yield f"### {actor}\n"
        yield "| Call | Crash before | Crash behind | Killed before | Killed behind |"
        yield "|---|---|---|---|---|"
        for call in MATRIX:
            if call.actor == actor:
                yield from _row(call)
        yield ""


def _row(call: Call) -> Iterator[str]:
    """A line, or two when some of its hits are inside the window and others are not."""
    inside = [hit for hit in call.hits if hit in call.in_window]
    outside = [hit for hit in call.hits if hit not in call.in_window]
    for hits, what in ((outside, ""), (inside, ", the sink has accepted" if outside else "")):
        if hits:
            cells = [
                _outcome(Strike(call=call, when=when, hit=hits[0]), killed=killed)
                for killed in (False, True)
                for when in ("before", "after")
            ]
            yield f"| {call.name}{what} | {' | '.join(cells)} |"


def _outcome(strike: Strike, *, killed: bool) -> str:
    again = strike.again(killed=killed)
    told = "nothing again" if again is Again.NOTHING else f"{again.value} again"
    refused = strike.call.kind is Kind.SINK and strike.call.name != "close" and not killed
    return f"`sink_failed`; {told}" if refused else told


def _more() -> Iterator[str]:
    """Each test by its name and by what its docstring claims, without the numbers in front."""
    yield _MORE
    for title, file in _CLAIMS.items():
        yield f"### {title}\n\n`tests/{file}`:\n"
        for node in ast.parse((_TESTS / file).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                claim = _NUMBERS.sub("", ast.get_docstring(node) or "").replace("\n", " ")
                yield f"- {node.name.removeprefix('test_').replace('_', ' ')}: {claim}"
        yield ""


def _soaks() -> Iterator[str]:
    yield _SOAK
    yield "| Seconds | Seed | Identical | Transactions | Broken | At first | Halfway | In the end |"
    yield "|---|---|---|---|---|---|---|---|"
    for line in RUNS.read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        broken = ", ".join(f"{count} {name}" for name, count in sorted(run["broken"].items()))
        cells = [run["seconds"], run["seed"], f"{run['verified']} comparisons", run["transactions"]]
        cells += [broken, run["first"], run["middle"], run["last"]]
        yield f"| {' | '.join(map(str, cells))} |"
    yield ""
