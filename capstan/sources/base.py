"""What a source must do for the Connection actor: dial, tell facts, dump, hand over bytes.

House rules: bytes and facts come out, judgement stays in `core`. A `Link` belongs to one thread;
only `interrupt()` may come from another. What may pass by itself is `LinkLost`; what will not is a
`Halted`. Neither carries a server's message text or a secret.
"""

from abc import ABC, abstractmethod

from capstan.core.gtid import GtidSet
from capstan.core.preflight import ServerFacts


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
