"""A bench for single actors."""

import contextlib
from collections.abc import Iterator

import pytest
from helpers.mailboxes import Bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Where actors are spawned; all end with the test."""
    with contextlib.closing(Bench()) as it:
        yield it
