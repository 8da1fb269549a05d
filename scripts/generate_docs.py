"""Write the pages that are made from code: docs/{halts,states,requirements,faults}.md.

Usage: python scripts/generate_docs.py [halts | states | requirements | faults] …   (default: all)

House rules: a page is a pure function of the code it is made from, so that a test can say whether
it is current. Nothing of these pages is written by hand; what they say wrong is mended in its
source: `core/halt_catalogue.py`, `core/shapes.py`, `core/dialling.py`, the docstrings of tests, and
for docs/faults.md `tests/faults/faults_page.py`.
"""

import ast
import importlib
import inspect
import itertools
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from capstan.core.assembly import Fold
from capstan.core.binlog.header import type_name
from capstan.core.dialling import TRANSITIONS, Phase
from capstan.core.halt_catalogue import GROUPS, Entry
from capstan.core.halts import HaltReason
from capstan.core.shapes import SHAPES, TABLE, Shape, State

ROOT: Final = Path(__file__).parent.parent
_NOTE: Final = "<!-- Written by scripts/generate_docs.py; `make docs` writes it anew. -->"


# --- docs/halts.md --------------------------------------------------------------------------------

_HALTS: Final = f"""# Halts

{_NOTE}

capstan stops when going on could lose, invent or reorder a change. It then says why with one of the
reasons below. A stopped pipeline stays stopped: mend the cause, then start it again; it goes on
from the position that is stored. Nothing half-done was delivered, and nothing that was not
delivered counts as processed.

`capstan run` prints a halt as one JSON line on standard error and exits with status 3. In Python it
is `PipelineHalted.halt`, with `reason` and `detail`. The detail holds names, codes, counts and
GTIDs, never a value of a row.

In the remedies `FILE.toml` is the configuration in use, `GTID` and `GTIDSET` are a transaction and
a set of them, `'repl'@'%'` is capstan's account, and `shop.orders` the table in question.
"""


def halts_page() -> str:
    """Every halt reason with its row of the catalogue."""
    groups = (_group(title, rows) for title, rows in GROUPS.items())
    return "\n".join([_HALTS, *_contents(), *itertools.chain.from_iterable(groups)])


def _contents() -> Iterator[str]:
    for title, rows in GROUPS.items():
        yield f"**{title}**: " + ", ".join(f"[`{r.value}`](#{r.value})" for r in rows) + "\n"


def _group(title: str, rows: Mapping[HaltReason, Entry]) -> Iterator[str]:
    yield f"## {title}\n"
    for reason, entry in rows.items():
        yield f"### {reason.value}\n"
        yield f"{entry.meaning}\n"
        yield f"- **Where to look**: {entry.fault.value}"
        yield f"- **Remedy**: {entry.remedy}"
        yield f"- **Since**: {entry.since or 'reserved; no version raises it yet'}\n"


# --- docs/states.md -------------------------------------------------------------------------------


_FOLD: Final = f"""# States

{_NOTE}

Two parts of capstan are machines whose whole behaviour is a table in the code: these tables.

## The fold: from events to transactions

`core/assembly.py` takes the events of the binary log one by one. What an event means depends on the
state the fold is in. **Every shape that a state does not list halts `event_order_invalid`**: what
has no place in the grammar is never passed over. An action can also refuse an event for what it
holds, which ends in HALTED too, and beginning a group leads to SKIPPING when it is the one that was
processed last before the dial. The picture leaves the moves to HALTED out.
"""

_LIFE: Final = """## The connection: dialling, reading, waiting

`core/dialling.py` says what the connection does next. An event that a phase does not list cannot
happen in it.
"""


def states_page() -> str:
    """The two machines of the stream as tables: the fold and the connection's life."""
    states = (_fold_state(state) for state in State)
    phases = (_life_phase(phase) for phase in Phase)
    return "\n".join(
        [
            _FOLD,
            *_event_types(),
            *_diagram(_fold_edges()),
            *itertools.chain.from_iterable(states),
            _LIFE,
            *_diagram(_life_edges()),
            *itertools.chain.from_iterable(phases),
        ]
    )


def _event_types() -> Iterator[str]:
    """All 256 codes by the shape they have; those without one in one row."""
    yield "| Event type code | Shape |\n|---|---|"
    for code, shape in sorted(SHAPES.items()):
        text = "QUERY: one of the QUERY shapes, by its statement"
        yield f"| {code} {type_name(code)} | {text if shape is Shape.QUERY else shape.value} |"
    yield (
        "| every other, 0 to 255 | ignorable event when its writer flagged it so,"
        " else halt `event_unknown` |\n"
    )


def _fold_edges() -> Iterator[tuple[str, str, str]]:
    for state, row in TABLE.items():
        for shape, cell in row.items():
            if cell.state not in (state, State.HALTED):
                yield state.name, cell.state.name, shape.name


def _life_edges() -> Iterator[tuple[str, str, str]]:
    for phase, row in TRANSITIONS.items():
        for event, (target, _) in row.items():
            if target is not phase:
                yield phase.name, target.name, event.name


def _diagram(edges: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """A picture of the moves from one state to another; what stays is in the tables only."""
    labels: dict[tuple[str, str], list[str]] = defaultdict(list)
    for start, end, label in edges:
        labels[start, end].append(label.replace("_", " ").lower())
    yield "```mermaid\nstateDiagram-v2"
    for (start, end), texts in labels.items():
        yield f"    {start} --> {end}: {', '.join(texts)}"
    yield "```\n"


def _fold_state(state: State) -> Iterator[str]:
    yield f"### {state.name}: {state.value}\n"
    row = TABLE[state]
    if not row:
        yield "Takes no event: only a new epoch, opened by the next dial, leaves this state.\n"
        return
    yield "| Shape | Next state | What is done |\n|---|---|---|"
    for shape in Shape:
        if shape in row:
            target, action = row[shape]
            yield f"| {shape.value} | {target.name} | `{action}`{_sentence(action)} |"
    yield ""


def _sentence(action: str) -> str:
    """The first line of an action's docstring, where its name does not say it all."""
    text = inspect.getdoc(getattr(Fold, f"_{action}"))
    return f": {text.splitlines()[0]}" if text else ""


def _life_phase(phase: Phase) -> Iterator[str]:
    yield f"### {phase.name}: {phase.value}\n"
    yield "| Event | Next phase | Step |\n|---|---|---|"
    for event, (target, step) in TRANSITIONS[phase].items():
        yield f"| {event.name} | {target.name} | {step.name} |"
    yield ""


# --- docs/requirements.md -------------------------------------------------------------------------

SECTIONS: Final = (
    ("D", 1, 5, "Decisions: capturing a portion of a table"),
    ("D", 6, 11, "Decisions: the gate between backfill and stream"),
    ("D", 12, 16, "Decisions: positions and restarts"),
    ("D", 17, 25, "Decisions: the grammar of the stream"),
    ("D", 26, 29, "Decisions: the source, values, names"),
    ("R", 1, 18, "From events to transactions"),
    ("R", 19, 30, "XA transactions are refused"),
    ("R", 31, 44, "The processed watermark"),
    ("R", 45, 56, "Errors that end a dump"),
    ("R", 57, 69, "Backfill: who owns the position, where it begins"),
    ("R", 70, 89, "Backfill: reading a portion under a short lock"),
    ("R", 90, 111, "Backfill: which streamed changes go through"),
    ("R", 112, 119, "Backfill: what a sink sees"),
    ("R", 120, 131, "Backfill: crashes and what comes twice"),
    ("R", 132, 139, "Backfill: who hears that the watermark moved"),
    ("R", 140, 166, "Backfill: what must hold before it begins"),
    ("R", 167, 172, "Backfill: proofs and documents"),
    ("R", 173, 198, "Offline: the boundaries of transactions"),
    ("R", 199, 225, "Offline: the streaming decoder"),
    ("R", 226, 237, "Offline: commits and the end of input"),
    ("R", 238, 248, "Offline: limits"),
    ("R", 249, 264, "Offline: scope, command line, verification"),
    ("R", 265, 268, "Common to all parts"),
)
"""Letter, first and last number, and what they are about."""

_NUMBER: Final = re.compile(r"\b([RD])(\d{1,3})(?:\s*(?:[-\u2013]|to)\s*\1?(\d{1,3}))?\b")
_KNOWN: Final = {
    (letter, number) for letter, first, last, _ in SECTIONS for number in range(first, last + 1)
}

Number = tuple[str, int]


class UnknownNumberError(ValueError):
    """A docstring names a requirement that does not exist."""


def numbers_in(text: str) -> Iterator[Number]:
    """Every R- and D-number that a docstring names; a range names each of its numbers.

    Raises:
        UnknownNumberError: For a number that does not exist, or a range that runs backwards.
    """
    for letter, first, last in _NUMBER.findall(text):
        named = [(letter, number) for number in range(int(first), int(last or first) + 1)]
        if not named or not _KNOWN.issuperset(named):
            raise UnknownNumberError(f"{letter}{first}{'-' if last else ''}{last}")
        yield from named


def proofs(tests: Path) -> dict[Number, list[str]]:
    """Which tests name which number.

    Args:
        tests: The folder of tests; every `test_*.py` below it is read, none is imported.

    Returns:
        For each number that is named the tests, as `file::test`, in order.
    """
    found: dict[Number, list[str]] = defaultdict(list)
    for file in sorted(tests.rglob("test_*.py")):
        place = file.relative_to(tests.parent).as_posix()
        for name, docstring in _tests_in(ast.parse(file.read_text(encoding="utf-8")).body):
            for number in dict.fromkeys(numbers_in(docstring)):
                found[number].append(f"{place}::{name}")
    return dict(found)


def _tests_in(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Name and docstring of each test function, inside classes too."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _tests_in(node.body, f"{prefix}{node.name}::")
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield f"{prefix}{node.name}", ast.get_docstring(node) or ""


_REQUIREMENTS: Final = f"""# Requirements and the tests that prove them

{_NOTE}

What capstan must do is a numbered list: R1 to R268, and the decisions D1 to D29 that amend it. A
test names what it proves in its docstring; this page turns that round. Where a decision and a
requirement differ, the decision holds.
"""


def requirements_page() -> str:
    """Every requirement with the tests that name it."""
    found = proofs(ROOT / "tests")
    sections = (_section(found, *row) for row in SECTIONS)
    return "\n".join([_REQUIREMENTS, *_summary(found), *itertools.chain.from_iterable(sections)])


def _summary(found: Mapping[Number, list[str]]) -> Iterator[str]:
    yield "## Not named by any test yet\n"
    for letter, what in (("D", "decisions"), ("R", "requirements")):
        every = sorted(number for known, number in _KNOWN if known == letter)
        missing = [number for number in every if (letter, number) not in found]
        listed = ", ".join(_ranges(letter, missing)) or "none"
        yield f"- {len(missing)} of {len(every)} {what}: {listed}"
    yield ""


def _ranges(letter: str, numbers: list[int]) -> Iterator[str]:
    """1, 2, 3, 7 as R1-R3, R7."""
    for _, run in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        ends = [number for _, number in run]
        first, last = ends[0], ends[-1]
        yield f"{letter}{first}" if first == last else f"{letter}{first}-{letter}{last}"


def _section(
    found: Mapping[Number, list[str]], letter: str, first: int, last: int, title: str
) -> Iterator[str]:
    yield f"## {letter}{first} to {letter}{last}. {title}\n"
    for number in range(first, last + 1):
        tests = found.get((letter, number), [])
        yield f"- **{letter}{number}**" + ("" if tests else " no test names it yet")
        for test in tests:
            yield f"  - `{test}`"
    yield ""


# --- docs/faults.md -------------------------------------------------------------------------------


def faults_page() -> str:
    """Every fault with its outcome, from the tables of the tests."""
    tests = str(ROOT / "tests")
    if tests not in sys.path:
        sys.path.append(tests)
    page: str = importlib.import_module("faults.faults_page").faults_page(_NOTE)
    return page


# --- writing --------------------------------------------------------------------------------------

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "halts": halts_page,
    "states": states_page,
    "requirements": requirements_page,
    "faults": faults_page,
}
"""Name of the page in docs/ → what writes its text."""


def page_path(name: str) -> Path:
    """Where a page lies."""
    return ROOT / "docs" / f"{name}.md"


def main(names: list[str]) -> None:
    """Write the named pages, or all."""
    for name in names or PAGES:
        if name not in PAGES:
            sys.exit(f"no such page: {name}; there are {', '.join(PAGES)}")
        page_path(name).write_text(PAGES[name](), encoding="utf-8")
        print(page_path(name).relative_to(ROOT))


if __name__ == "__main__":
    main(sys.argv[1:])
