"""The whole conversation between the actors, in order of flow.

House rules: messages are frozen and carry batches, one message for a piece of the stream. Each
docstring says from whom to whom, and what the sender promises. Addresses of actors further up the
stream travel in the messages (`reply_to`), so that a restarted one is never written to by mistake.
"""

import attrs

from capstan.core.binlog.framing import Packets
from capstan.core.changes import SchemaChangeGroup, Transaction
from capstan.core.epoch import Epoch
from capstan.core.gtid import GtidSet
from capstan.core.watermark import Position
from capstan.runtime import Address


@attrs.frozen
class SinkOpened:
    """Coordinator → Checkpoint: the sink is open and reports this position (None: keeps none)."""

    reply_to: Address
    position: GtidSet | None


@attrs.frozen
class PositionWanted:
    """Connection → Checkpoint: where do we stand?"""

    reply_to: Address


@attrs.frozen
class PositionIs:
    """Checkpoint → Coordinator, Connection: the durable position, behind every earlier `Processed`.

    The answer to `SinkOpened`, and to `PositionWanted` once the sink's own position has been
    reconciled with the store's (D12); the coordinator hears it first.
    """

    position: Position


@attrs.frozen
class ConnectionReady:
    """Connection → Assembler: a new incarnation can read; sent once, before anything else."""

    reply_to: Address


@attrs.frozen
class CreditGranted:
    """Assembler → Connection: this many more pieces may be read."""

    pieces: int


@attrs.frozen
class StreamOpened:
    """Connection → Assembler: a dump begins; whatever was half-built is to be thrown away."""

    number: tuple[int, int]
    epoch: Epoch


@attrs.frozen(repr=False)
class PacketsRead:
    """Connection → Assembler: one piece of whole events; never more than the credit granted."""

    number: tuple[int, int]
    packets: tuple[Packets, ...]


@attrs.frozen(repr=False)
class Assembled:
    """Assembler → Coordinator: what one piece finished, in stream order; never empty."""

    reply_to: Address
    server_uuid: str
    items: tuple[Transaction | SchemaChangeGroup, ...]


@attrs.frozen
class Processed:
    """Coordinator → Checkpoint: the sink has accepted everything up to here; persist it."""

    reply_to: Address
    position: Position


@attrs.frozen
class WatermarkMoved:
    """Checkpoint → Coordinator: the position is on disk."""

    position: Position


@attrs.frozen
class Settled:
    """Coordinator → Assembler: this many pieces are delivered and persisted."""

    pieces: int


@attrs.frozen
class CheckpointEnded:
    """Checkpoint → Coordinator: nothing will be persisted any more, and no answer will come."""


@attrs.frozen
class ReadOn:
    """Connection → itself: read the next piece of this epoch."""

    number: tuple[int, int]
