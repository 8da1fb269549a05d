"""What a source must do: give the Connection actor bytes, and the ChunkReader exact views.

House rules: bytes, rows and facts come out, judgement stays in `core`. A `Link` or a `View` belongs
to one thread; only `interrupt()` may come from another. What may pass by itself is `LinkLost` or
`CaptureMissed`; what will not is a `Halted`. None carries a server's message text or a secret.
"""

from abc import ABC, abstractmethod
from typing import Any

import attrs

from capstan.core.gtid import GtidSet
from capstan.core.halts import Halt
from capstan.core.preflight import ServerFacts
from capstan.core.tables import TableName, TableShape


class LinkLost(Exception):  # noqa: N818 - an event in the life of a link
    """The link failed in a way that a later dial may cure.

    Attributes:
        stage: `connect`, `query`, `dump` or `read`.
        code: The server's or client library's error code, or None.
    """

    def __init__(self, stage: str, code: int | None = None) -> None:
        super().__init__(stage if code is None else f"{stage}, code {code}")
        self.stage = stage
        self.code = code


class Link(ABC):
    """One connection to the server, from dial to close."""

    tls: bool
    """Whether the link is encrypted; known after `open()`."""

    @abstractmethod
    def open(self) -> ServerFacts:
        """Connect, authenticate, set the session up and read the facts.

        Once, and followed by `close()` in any case.

        Raises:
            LinkLost: What a later dial may cure.
            Halted: `auth_failed`, `tls_failed`, `precondition_query_failed`, …
        """

    @abstractmethod
    def executed(self) -> GtidSet:
        """gtid_executed, read afresh (before `dump()` only).

        Raises:
            LinkLost: When the connection breaks.
            Halted: `precondition_query_failed`.
        """

    @abstractmethod
    def dump(self, gtid_set: GtidSet) -> None:
        """Register as a replica and ask for everything outside `gtid_set`.

        A refusal by the server arrives as an error packet of the stream.

        Raises:
            LinkLost: When the connection breaks.
            Halted: `privilege_missing` or `dump_failed` when registering is refused.
        """

    @abstractmethod
    def read(self, timeout: float) -> bytes | None:
        """The next piece of the stream (up to about 128 KiB), as it comes off the wire.

        Returns:
            The bytes; b"" when the server closed; None when nothing came within `timeout`
            seconds or the link is interrupted.

        Raises:
            LinkLost: When the connection broke.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the socket; safe to call twice."""

    @abstractmethod
    def interrupt(self) -> None:
        """From any thread: make a blocked call of this link return at once, and every later one.

        It is final: `read()` gives None from then on, the calls before the stream raise
        `LinkLost`. Safe to call twice, and after `close()`.
        """


class Source(ABC):
    """Makes links to one configured server."""

    @abstractmethod
    def link(self) -> Link:
        """A new link, not yet open."""


class CaptureMissed(Exception):  # noqa: N818 - an event in the life of a view
    """A table could not be pinned this time; nothing is locked and nothing is open.

    Ask again after a back-off of at least ten times the lock wait (D2).

    Attributes:
        table: Which one.
        code: The server's or client library's error code, or None.
    """

    def __init__(self, table: TableName, code: int | None = None) -> None:
        super().__init__(str(table) if code is None else f"{table}, code {code}")
        self.table = table
        self.code = code


@attrs.frozen
class TableFacts:
    """A table that can be backfilled.

    Attributes:
        shape: Its columns and key, equal to those of the stream's shape (D5).
    """

    shape: TableShape

    @property
    def name(self) -> TableName:
        """Its name."""
        return TableName(self.shape.schema, self.shape.table)


@attrs.frozen(kw_only=True)
class Pinned:
    """A view of one table at one position, exact to the transaction.

    Attributes:
        facts: The table as it is in the view.
        position: G: the view shows every change of the table inside it and none outside.
        lock_seconds: For how long the table was locked.
    """

    facts: TableFacts
    position: GtidSet
    lock_seconds: float


@attrs.frozen(kw_only=True)
class Chunk:
    """A portion of a table's rows.

    Attributes:
        rows: In key order, values as the stream gives them, in the order of the shape.
        more: Whether rows follow.
        size: Bytes as the server sent them.
    """

    rows: list[tuple[Any, ...]] = attrs.field(repr=False)
    more: bool
    size: int


class View(ABC):
    """A reader of tables at exact positions, from dial to close.

    After a `LinkLost` it is closed and another one opened, whose server_uuid is compared with the
    stream's again (R154).
    """

    @abstractmethod
    def open(self) -> str:
        """Connect and set the sessions up; once, and followed by `close()` in any case.

        Returns:
            The server's uuid, in lower case.

        Raises:
            LinkLost: What a later dial may cure.
            Halted: `auth_failed`, `tls_failed`, `snapshot_source_mismatch`, …
        """

    @abstractmethod
    def tables(self) -> tuple[TableName, ...]:
        """What the configured patterns name now, sorted (D11).

        Wildcards name base tables only; an entry without them also names a view, so that it is
        refused and not passed over.

        Raises:
            LinkLost: When a connection breaks.
            Halted: `snapshot_privilege_missing` for a named table that may not be read.
        """

    @abstractmethod
    def findings(self) -> tuple[Halt, ...]:
        """Everything that stands against a backfill, the rights proven by trying (R152).

        Each table is locked for a moment, within the bounded wait.

        Raises:
            LinkLost: When a connection breaks.
        """

    @abstractmethod
    def describe(self, table: TableName) -> TableFacts:
        """What a table is now, outside any view.

        Raises:
            LinkLost: When a connection breaks.
            Halted: `snapshot_engine_unsupported`, `snapshot_table_no_primary_key`,
                `snapshot_pk_unsupported_type`, `unsupported_column_type`; for a table that is gone
                `snapshot_schema_drifted`.
        """

    @abstractmethod
    def estimate(self, table: TableName) -> int:
        """The server's guess of how many rows a table has; 0 for one that is gone.

        Raises:
            LinkLost: When a connection breaks.
        """

    @abstractmethod
    def purged(self) -> GtidSet:
        """gtid_purged as it is now (D6).

        Raises:
            LinkLost: When a connection breaks.
        """

    @abstractmethod
    def pin(self, table: TableName) -> Pinned:
        """Capture a view of a table and its position (D1-D4); one pinned before is given up.

        Raises:
            CaptureMissed: When the lock was not to be had, or a step was late.
            LinkLost: When a connection cannot be made.
            Halted: `snapshot_privilege_missing`, `snapshot_source_mismatch`, or what `describe`
                refuses.
        """

    @abstractmethod
    def rows(self, after: tuple[Any, ...] | None, limit: int, max_bytes: int) -> Chunk:
        """Read a portion of the pinned view, which is over with it.

        Args:
            after: Key values in key order: only rows behind them; None for the table's beginning.
            limit: Rows at most.
            max_bytes: Bytes at most; the first row comes whatever its length.

        Raises:
            LinkLost: When the connection breaks: the view and its position are worth nothing then.
            Halted: `snapshot_chunk_read_failed`, `undecodable_text`.
        """

    @abstractmethod
    def release(self) -> None:
        """Give a pinned view up unread; safe when there is none."""

    @abstractmethod
    def close(self) -> None:
        """Close the sockets; safe to call twice."""

    @abstractmethod
    def interrupt(self) -> None:
        """From any thread: make a blocked call return at once with `LinkLost`, and every later one.

        Safe to call twice, and after `close()`.
        """


class ViewSource(ABC):
    """Makes views of one configured server."""

    @abstractmethod
    def view(self) -> View:
        """A new view, not yet open."""
