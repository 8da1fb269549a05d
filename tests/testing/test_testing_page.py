"""The page for users of the kit says what is so."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from faults.provoked_wires import WIRES

import capstan_pytest
from capstan import testing
from capstan.core.halts import HaltReason
from capstan.testing import misbehaviours
from capstan.testing.moments import Misbehaviour

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "sink_under_test.py"
ROWS = dict(re.findall(r"^\| `(\w+)\(.*?\)` \| .*? \| (.*?) \|$", PAGE, re.MULTILINE))
BY_TEXT = {"error_packet", "refused_dump"}
"""What becomes of these depends on what they say."""


def made() -> dict[str, Misbehaviour]:
    """Every misbehaviour of the kit by its function's name, made with arguments where needed."""
    given = {"code": 1236, "text": "", "plugin": "dialog", "path": ""}
    found = {}
    for name, function in inspect.getmembers(misbehaviours, inspect.isfunction):
        signature = inspect.signature(function)
        if not name.startswith("_") and signature.return_annotation is Misbehaviour:
            needed = [
                given[parameter.name]
                for parameter in signature.parameters.values()
                if parameter.default is parameter.empty
            ]
            found[name] = function(*needed)
    return found


def test_the_program_is_the_example() -> None:
    """What the page shows is the file that runs below."""
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert program == EXAMPLE.read_text(encoding="utf-8")


def test_the_example_passes() -> None:
    """A user who copies it has tests that run and pass."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLE)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def test_every_misbehaviour_is_on_the_page() -> None:
    """No function of the kit is missing, and none is made up."""
    assert set(ROWS) == set(made())


@pytest.mark.parametrize("name", ROWS)
def test_what_becomes_of_it_is_what_is_shown_to_become_of_it(name: str) -> None:
    """R54: each halt that the page names for a misbehaviour is one that it is shown to provoke."""
    how = made()[name]
    shown = {each.reason.value for each in WIRES if f"over a socket, {how}" in each.how}
    told = {word for word in re.findall(r"`(\w+)`", ROWS[name]) if word in set(HaltReason)}
    if "dialled again" in ROWS[name]:
        shown -= {HaltReason.COMMAND_RETRIES_EXHAUSTED.value}
    assert name in BY_TEXT or told == shown


@pytest.mark.parametrize("name", re.findall(r"^\| `(capstan_\w+)`", PAGE, re.MULTILINE))
def test_every_fixture_of_the_page_exists(name: str) -> None:
    """Under the name that the page gives."""
    assert hasattr(capstan_pytest, name)


def test_all_lists_the_public_names_and_no_others() -> None:
    """What `capstan.testing` offers is what it says it offers."""
    rooms = {
        "moments",
        "made_events",
        "made_tables",
        "manual_clock",
        "puppet_sinks",
        "scripted_mysql",
    }
    rooms |= {"tcp_proxy", "crash_points", "server_answers", "server_wire"}
    public = {name for name in vars(testing) if not name.startswith("_")} - rooms
    assert set(testing.__all__) == public
