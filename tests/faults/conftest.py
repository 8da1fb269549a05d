"""A scene for each test, and its end."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.scene import Scene


@pytest.fixture
def scene(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """A scene; a provocation on a real server gets a database on the shared one."""
    with contextlib.closing(Scene(tmp_path, lambda: request.getfixturevalue("database"))) as made:
        yield made
