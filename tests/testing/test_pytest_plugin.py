"""The kit as a plug-in: found by every pytest beside which capstan is installed, and no burden."""

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

FIXTURES = ("capstan_source", "capstan_proxy", "capstan_sinks", "capstan_points", "capstan_clock")
_USERS_TEST = """
import sys

def test_nothing_of_capstan_is_there_before_it_is_asked_for():
    assert "capstan_pytest" in sys.modules
    assert "capstan" not in sys.modules

def test_fixtures_are_there(capstan_source, capstan_proxy, capstan_sinks, capstan_clock):
    assert capstan_source.port != capstan_proxy.port

def test_points_are_there(capstan_points):
    assert not capstan_points.passed
"""


def test_the_entry_point_names_the_plug_in() -> None:
    """Installing capstan is all that it takes."""
    (found,) = (
        point
        for point in importlib.metadata.entry_points(group="pytest11")
        if point.value.startswith("capstan")
    )
    assert (found.name, found.value) == ("capstan", "capstan_pytest")


def test_a_users_test_finds_the_fixtures(tmp_path: Path) -> None:
    """In a project of their own, without a line of configuration."""
    (tmp_path / "test_users.py").write_text(_USERS_TEST, encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if "PYTEST" not in key}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", str(tmp_path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


@pytest.mark.parametrize("name", FIXTURES)
def test_every_fixture_has_its_word_in_the_list(name: str, pytestconfig: pytest.Config) -> None:
    """`pytest --fixtures` shows what it is for."""
    plugin = pytestconfig.pluginmanager.get_plugin("capstan")
    assert getattr(plugin, name).__doc__
