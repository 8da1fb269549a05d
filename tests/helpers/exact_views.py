"""Exact views of a real server, for tests: made, opened, closed, and tampered with."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from capstan import config
from capstan.core.tables import CaptureList, TableName
from capstan.demo.mysql_access import SqlServer
from capstan.sources.exact_view import ExactView, ExactViewSource
from capstan.sources.view_sessions import Role
from helpers.mysql import Database
from helpers.pipelines import source_for

ROOMY = 1 << 30
"""More bytes than any chunk of a test has."""

Rows = list[tuple[Any, ...]]


def view_for(
    server: SqlServer,
    tables: list[str],
    source: dict[str, Any] | None = None,
    kind: type[ExactView] = ExactView,
    **snapshot: Any,
) -> ExactView:
    """A view of this server's tables, not yet open; `source` holds options of the source."""
    patterns = CaptureList.parse(tables)
    section = config.Snapshot(tables=patterns, **snapshot)
    where = source_for(server, **(source or {}))
    made = ExactViewSource(where, section, CaptureList.parse(None), patterns).view()
    made.__class__ = kind
    return made


@contextlib.contextmanager
def opened(view: ExactView) -> Iterator[ExactView]:
    """The view, open inside the block."""
    with contextlib.closing(view):
        view.open()
        yield view


@contextlib.contextmanager
def view_of(database: Database, **options: Any) -> Iterator[ExactView]:
    """An open view of all tables of a database."""
    with opened(view_for(database.server, [f"{database.name}.*"], **options)) as view:
        yield view


def name_in(database: Database, table: str = "t") -> TableName:
    """A table of this database."""
    return TableName(database.name, table)


def before(view: ExactView, statement: str, action: Callable[[], object]) -> list[str]:
    """Have `action` run once, before the first statement that begins so.

    Returns:
        The statements that the view has run since, in order.
    """
    sessions = view._sessions
    ask, due = sessions.ask, [action]
    seen: list[str] = []

    def hooked(role: Role, text: str, deadline: float | None = None) -> Any:
        if due and text.startswith(statement):
            due.pop()()
        seen.append(f"{role}: {text}")
        return ask(role, text, deadline)

    sessions.ask = hooked  # type: ignore[method-assign]
    return seen


def without(view: ExactView, statement: str) -> None:
    """Have the view leave out the statements that begin so, to show what they are good for."""
    sessions = view._sessions
    ask = sessions.ask

    def hooked(role: Role, text: str, deadline: float | None = None) -> Any:
        return () if text.startswith(statement) else ask(role, text, deadline)

    sessions.ask = hooked  # type: ignore[method-assign]


def page_statements(view: ExactView) -> list[str]:
    """The SELECTs of rows that the view runs from now on."""
    sessions = view._sessions
    page, seen = sessions.page, []

    def hooked(text: str, room: int, *, always_one: bool) -> Any:
        seen.append(text)
        return page(text, room, always_one=always_one)

    sessions.page = hooked  # type: ignore[method-assign]
    return seen


def paged(view: ExactView, table: TableName, limit: int, max_bytes: int = ROOMY) -> list[Rows]:
    """The whole table in chunks."""
    chunks: list[Rows] = []
    after = None
    while True:
        pinned = view.pin(table)
        chunk = view.rows(after, limit, max_bytes)
        chunks.append(chunk.rows)
        if not chunk.more:
            return chunks
        after = pinned.facts.shape.key_of(chunk.rows[-1])
