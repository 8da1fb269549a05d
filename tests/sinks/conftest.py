"""A mirror that is open, and where it is."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from capstan.sinks.sqlite_mirror import SqliteMirror


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mirror.db"


@pytest.fixture
def mirror(path: Path) -> Iterator[SqliteMirror]:
    with closing(SqliteMirror(path)) as made:
        made.open()
        yield made
