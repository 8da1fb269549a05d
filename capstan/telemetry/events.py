"""What observers are told: a closed list of value-free events.

House rules: an event carries names, codes, counts, seconds and GTIDs; never a row or key value,
statement text, server message or secret. `name` is stable; observers may match on it.
"""

from typing import ClassVar

import attrs

from capstan.core.gtid import Gtid


@attrs.frozen(kw_only=True)
class ConnectionEstablished:
    """The stream is open.

    Attributes:
        server_version: As the server names it.
        server_uuid: The server at the other end.
        tls: Whether the link is encrypted.
        seconds: From the dial to the dump.
    """

    name: ClassVar[str] = "connection.established"
    server_version: str
    server_uuid: str
    tls: bool
    seconds: float


@attrs.frozen(kw_only=True)
class ConnectionLost:
    """A link failed in a way that a later dial may cure.

    Attributes:
        stage: `connect`, `query`, `dump`, `read` or `liveness`.
        code: The error code, if there was one.
        retry_in: Seconds until the next dial.
    """

    name: ClassVar[str] = "connection.lost"
    stage: str
    code: int | None
    retry_in: float


@attrs.frozen(kw_only=True)
class BatchSettled:
    """A batch is delivered and its watermark is on disk.

    Attributes:
        transactions: Delivered to the sink.
        changes: Row changes in them.
        filtered: Transactions without captured changes: they only advance.
        skipped: Transactions that were processed before.
        schema_changes: Delivered schema changes.
        sink_seconds: Time inside the sink.
        lag_seconds: From the commit of the last one to its delivery.
    """

    name: ClassVar[str] = "batch.settled"
    transactions: int
    changes: int
    filtered: int
    skipped: int
    schema_changes: int
    sink_seconds: float
    lag_seconds: float


@attrs.frozen(kw_only=True)
class SchemaChangeDelivered:
    """A DDL statement reached the sink.

    Attributes:
        gtid: Its identity.
        schema: The database named.
        table: The table named, if any.
        kind: One word of the closed list of kinds.
    """

    name: ClassVar[str] = "schema_change.delivered"
    gtid: Gtid
    schema: str | None
    table: str | None
    kind: str


@attrs.frozen(kw_only=True)
class ChunkDelivered:
    """A chunk of a backfill reached the sink.

    Attributes:
        schema: The database name.
        table: The table name.
        sequence: Number of the chunk, from 0.
        rows: Rows in it.
        final: Whether it is the table's last one.
        sink_seconds: Time inside the sink.
    """

    name: ClassVar[str] = "snapshot.chunk_delivered"
    schema: str
    table: str
    sequence: int
    rows: int
    final: bool
    sink_seconds: float


@attrs.frozen(kw_only=True)
class CaptureRetried:
    """A view could not be taken, for want of a lock as a rule; nothing is held meanwhile.

    Attributes:
        schema: The database name.
        table: The table name.
        code: The error code, if there was one.
        retry_in: Seconds until the next attempt.
    """

    name: ClassVar[str] = "snapshot.capture_retried"
    schema: str
    table: str
    code: int | None
    retry_in: float


@attrs.frozen(kw_only=True)
class ChildRestarted:
    """An actor crashed and was started again.

    Attributes:
        child: Its id in the tree.
        exception_class: What it died of.
        place: File and line.
    """

    name: ClassVar[str] = "child.restarted"
    child: str
    exception_class: str
    place: str


@attrs.frozen(kw_only=True)
class PipelineEnded:
    """The pipeline is over.

    Attributes:
        reason: The halt's reason; None after `stop()`.
        detail: The halt's value-free detail.
    """

    name: ClassVar[str] = "pipeline.ended"
    reason: str | None
    detail: str


Event = (
    ConnectionEstablished
    | ConnectionLost
    | BatchSettled
    | SchemaChangeDelivered
    | ChunkDelivered
    | CaptureRetried
    | ChildRestarted
    | PipelineEnded
)
