"""Views of single tables at exactly known positions: the heart of the snapshot (D1-D4).

House rules: the order of a capture is the argument of its exactness and is written in one place,
`_capture`. Two connections: the locker holds the table for a moment and knows the position, the
reader has the view. Between LOCK and UNLOCK nothing happens but position, view and touch, each with
a deadline; whatever goes wrong, the lock goes first. While something is held the server itself ends
a session that falls silent, so that a frozen capstan frees the table. Nothing is written.

Why so: starting a transaction gives up the session's own locks before its view is made, so one
connection cannot do both; and a view alone pins rows, not the table: the touch keeps a DDL out
until the rows are read.
"""

import time
from typing import Any, Final

import attrs

from capstan import config
from capstan.core.gtid import GtidSet
from capstan.core.halts import Halt, Halted, HaltReason, halted
from capstan.core.server_errors import Stage, is_denied, is_transient
from capstan.core.tables import CaptureList, TableName
from capstan.sources import table_facts
from capstan.sources.base import (
    CaptureMissed,
    Chunk,
    LinkLost,
    Pinned,
    TableFacts,
    View,
    ViewSource,
)
from capstan.sources.key_pages import KeyPages
from capstan.sources.row_parser import RowParser
from capstan.sources.sql_session import StatementFailed
from capstan.sources.sql_text import lock, touch
from capstan.sources.view_sessions import STEP, Role, ViewSessions

_FIRST_GUESS: Final = 256
"""Rows asked for at first when nothing is known of their length."""
_GONE: Final = frozenset({1146, 1049})
"""No such table, no such database."""
_DEFINITION_CHANGED: Final = 1412
_LOCK_WAIT_TIMEOUT: Final = 1205


class ExactViewSource(ViewSource):
    """Makes views of the configured server."""

    def __init__(
        self,
        source: config.Source,
        snapshot: config.Snapshot,
        capture: CaptureList,
        patterns: CaptureList,
    ) -> None:
        """Remember what to connect to; no socket yet.

        Args:
            source: The server and how to log in.
            snapshot: The bounds.
            capture: The capture list.
            patterns: Which of its tables are to be backfilled (`Config.snapshot_tables`).
        """
        self._source = source
        self._snapshot = snapshot
        self._capture = capture
        self._patterns = patterns

    def view(self) -> "ExactView":
        """A new view, not yet open."""
        sessions = ViewSessions(self._source, self._snapshot.lock_wait)
        return ExactView(sessions, self._capture, self._patterns)


@attrs.define
class _Known:
    """What is remembered of a table between captures.

    Attributes:
        definition: The text of its definition.
        pages: How it is read.
        average: Bytes of a row, as far as seen; 0 before.
    """

    definition: str
    pages: KeyPages
    average: float = 0.0


class ExactView(View):
    """Two connections to one server, one of which may hold a view."""

    def __init__(self, sessions: ViewSessions, capture: CaptureList, patterns: CaptureList) -> None:
        self._sessions = sessions
        self._capture_list = capture
        self._patterns = patterns
        self._known: dict[TableName, _Known] = {}
        self._pinned: TableName | None = None

    def open(self) -> str:
        """Connect and set the sessions up."""
        return self._sessions.open()

    def close(self) -> None:
        """Close the sockets; safe to call twice."""
        self._pinned = None
        self._sessions.close()

    def interrupt(self) -> None:
        """From any thread: make a blocked call return at once, and every later one."""
        self._sessions.interrupt()

    def tables(self) -> tuple[TableName, ...]:
        """What the configured patterns name now, sorted."""
        found = self._names()
        for table in self._unseen(found):
            try:
                self._sessions.ask(Role.LOCKER, touch(table))
            except StatementFailed as failed:
                if is_denied(failed.code):
                    raise self._denied(table) from None
        return found

    def findings(self) -> tuple[Halt, ...]:
        """Everything that stands against a backfill, the rights proven by trying."""
        found: dict[Halt, None] = {}
        names = self._names()
        for table in sorted({*names, *self._unseen(names)}, key=str):
            try:
                self._prove(table)
            except Halted as verdict:
                found[verdict.halt] = None
        if not names and not found:
            found[Halt(HaltReason.CONFIG_INVALID, "snapshot.tables: names no table")] = None
        return tuple(found)

    def describe(self, table: TableName) -> TableFacts:
        """What a table is now, outside any view."""
        try:
            shape = table_facts.read_table(self._sessions.locker_ask, table).shape
        except StatementFailed as failed:
            raise self._broken(table, failed.code) from None
        RowParser(shape)
        return TableFacts(shape)

    def estimate(self, table: TableName) -> int:
        """The server's guess of how many rows a table has."""
        try:
            return table_facts.estimated_rows(self._sessions.locker_ask, table)
        except StatementFailed as failed:
            raise self._broken(table, failed.code) from None

    def purged(self) -> GtidSet:
        """gtid_purged as it is now."""
        try:
            ((text,),) = self._sessions.ask(Role.LOCKER, "SELECT @@GLOBAL.gtid_purged")
        except StatementFailed as failed:
            raise LinkLost(Stage.QUERY, failed.code) from None
        return GtidSet.parse(text)

    def pin(self, table: TableName) -> Pinned:
        """Capture a view of a table and its position."""
        self.release()
        self._sessions.prepare()
        try:
            text, held = self._capture(table)
        except StatementFailed as failed:
            self._sessions.rest()
            raise self._missed(table, failed.code) from None
        try:
            self._sessions.relax(Role.LOCKER)
            known = self._current(table)
            position = GtidSet.parse(text)
        except StatementFailed as failed:
            self._sessions.end_view()
            raise self._missed(table, failed.code) from None
        except BaseException:
            self._sessions.end_view()
            raise
        self._pinned = table
        facts = TableFacts(known.pages.shape)
        return Pinned(facts=facts, position=position, lock_seconds=held)

    def _capture(self, table: TableName) -> tuple[str, float]:
        """The text of G, and how long the table was locked; the reader has the view then.

        The capture counts because UNLOCK is answered after the touch, on the connection that took
        the lock: so the lock was there all the time (D3).
        """
        sessions = self._sessions
        sessions.ask(Role.LOCKER, lock(table), sessions.lock_wait + STEP)
        begun = time.monotonic()
        try:
            ((text,),) = sessions.ask(Role.LOCKER, "SELECT @@GLOBAL.gtid_executed", STEP)
            sessions.ask(Role.READER, "START TRANSACTION WITH CONSISTENT SNAPSHOT", STEP)
            sessions.ask(Role.READER, touch(table), STEP)
        except BaseException:
            sessions.unlock()
            sessions.end_view()
            raise
        try:
            sessions.ask(Role.LOCKER, "UNLOCK TABLES", STEP)
        except BaseException:
            sessions.end_view()
            raise
        return text, time.monotonic() - begun

    def _current(self, table: TableName) -> _Known:
        """How to read the pinned table; its definition cannot change while it is pinned."""
        ask = self._sessions.locker_ask
        definition = table_facts.definition(ask, table)
        known = self._known.get(table)
        if known is None or known.definition != definition:
            known = _Known(definition, KeyPages(table_facts.read_table(ask, table)))
            self._known[table] = known
        return known

    def rows(self, after: tuple[Any, ...] | None, limit: int, max_bytes: int) -> Chunk:
        """Read a portion of the pinned view, which is over with it."""
        table = self._pinned
        if table is None:
            raise RuntimeError("rows() without a pinned view")
        known = self._known[table]
        try:
            packets, size, more = self._fetch(known, after, limit, max_bytes)
        except StatementFailed as failed:
            raise self._broken(table, failed.code) from None
        finally:
            # Before anything is parsed: the view keeps a DDL waiting.
            self.release()
        return Chunk(rows=known.pages.parser.rows(packets), more=more, size=size)

    def release(self) -> None:
        """Give a pinned view up unread."""
        if self._pinned is not None:
            self._pinned = None
            self._sessions.end_view()

    def _fetch(
        self, known: _Known, after: tuple[Any, ...] | None, limit: int, max_bytes: int
    ) -> tuple[list[bytes], int, bool]:
        """The rows of one chunk as packets, their bytes, and whether more follow.

        One SELECT when the rows' lengths are known to fit; else several in the same view, so that
        the server is never asked for many times what is kept.
        """
        packets: list[bytes] = []
        size = 0
        while True:
            room = max_bytes - size
            guess = room // max(1, round(known.average)) if known.average else _FIRST_GUESS
            wanted = min(limit + 1 - len(packets), max(1, guess))
            page = self._sessions.page(
                known.pages.statement(after, wanted), room, always_one=not packets
            )
            packets += page.packets
            size += page.size
            known.average = size / len(packets) if packets else 0.0
            if page.cut:
                return packets, size, True
            if page.sent < wanted:
                return packets, size, False
            if len(packets) > limit:
                extra = packets.pop()
                return packets, size - len(extra), True
            after = self._key_of_last(known, packets)

    @staticmethod
    def _key_of_last(known: _Known, packets: list[bytes]) -> tuple[Any, ...] | None:
        (row,) = known.pages.parser.rows(packets[-1:])
        return known.pages.shape.key_of(row)

    def _names(self) -> tuple[TableName, ...]:
        try:
            return table_facts.read_names(
                self._sessions.locker_ask, self._patterns, self._capture_list
            )
        except StatementFailed as failed:
            raise LinkLost(Stage.QUERY, failed.code) from None

    def _unseen(self, found: tuple[TableName, ...]) -> list[TableName]:
        """The tables that are named without wildcards and were not found."""
        named = (pattern for pattern in self._patterns.patterns if pattern.literal)
        tables = (TableName(*pattern.text.split(".", 1)) for pattern in named)
        return [table for table in tables if table not in found]

    def _prove(self, table: TableName) -> None:
        """Try what a backfill of this table needs."""
        try:
            self._try(touch(table))
            self.describe(table)
            # As in a capture: should capstan freeze now, the server itself frees the table.
            self._sessions.prepare()
            if self._try(lock(table)):
                self._sessions.unlock()
            self._sessions.rest()
        except StatementFailed as failed:
            if failed.code in _GONE:
                detail = f"snapshot.tables: {table} names no table that the account can see"
                raise halted(HaltReason.CONFIG_INVALID, detail) from None
            raise self._broken(table, failed.code) from None

    def _try(self, statement: str) -> bool:
        """Whether a statement got its lock; its rights it has proven in either case."""
        try:
            self._sessions.ask(Role.LOCKER, statement, self._sessions.lock_wait + STEP)
        except StatementFailed as failed:
            if failed.code != _LOCK_WAIT_TIMEOUT:
                raise
            return False
        return True

    def _denied(self, table: TableName) -> Halted:
        grant = self._sessions.grant(table.schema)
        return halted(HaltReason.SNAPSHOT_PRIVILEGE_MISSING, f"{table.schema}; run: {grant}")

    def _missed(self, table: TableName, code: int) -> Exception:
        """What a failed step of a capture means."""
        if self._sessions.interrupted:
            return LinkLost(Stage.QUERY, code)
        if is_transient(code) or code == _DEFINITION_CHANGED:
            return CaptureMissed(table, code)
        return self._broken(table, code)

    def _broken(self, table: TableName, code: int) -> Exception:
        """What a failed question about a table means."""
        if is_transient(code):
            return LinkLost(Stage.QUERY, code)
        if is_denied(code):
            return self._denied(table)
        if code in _GONE:
            return table_facts.gone(table)
        return halted(HaltReason.SNAPSHOT_CHUNK_READ_FAILED, f"{table}: code {code}")
