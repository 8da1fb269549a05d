"""Fixtures of the supervision tests."""

from collections.abc import Iterator

import pytest
from helpers.puppets import Stage, Theatre


@pytest.fixture
def theatre() -> Iterator[Theatre]:
    """Trees of puppets that all end with the test."""
    theatre = Theatre()
    yield theatre
    theatre.close()


@pytest.fixture
def stage(theatre: Theatre) -> Stage:
    """The theatre's stage."""
    return theatre.stage
