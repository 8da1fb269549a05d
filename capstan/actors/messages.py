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
from capstan.core.halts import HaltReason
from capstan.core.snapshot.primary_key import Key
from capstan.core.snapshot.progress import SnapshotState
from capstan.core.tables import TableName, TableShape
from capstan.core.watermark import Position
from capstan.runtime import Address


@attrs.frozen
class SinkOpened:
    """Coordinator → Checkpoint: the sink is open and reports this position (None: keeps none)."""

    reply_to: Address
    position: GtidSet | None


@attrs.frozen
class PositionWanted:
    """Connection → Assembler → Coordinator → Checkpoint: where do we stand?

    It takes the stream's own way, and the coordinator keeps it until nothing is under way: another
    server may have committed in another order, and what is read from it must not begin before
    something that is still to be settled.
    """

    reply_to: Address


@attrs.frozen
class PositionIs:
    """Checkpoint → Coordinator, Connection: the durable position, behind every earlier `Processed`.

    The answer to `SinkOpened`, and to `PositionWanted` once the sink's own position has been
    reconciled with the store's (D12); the coordinator hears it first.

    Attributes:
        position: Where the stream starts.
        seed_wanted: Nothing is stored yet and a backfill is configured: the stream starts at what
            the server has executed by now, and that is seeded first (R62-R64).
    """

    position: Position
    seed_wanted: bool = False


@attrs.frozen
class SeedWanted:
    """Connection → Checkpoint: persist this as the first position (P0); never replaces one (R67).

    Answered by `PositionIs`, which the coordinator hears too.
    """

    reply_to: Address
    executed: GtidSet


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


@attrs.frozen
class StreamOn:
    """Assembler → Coordinator: what is assembled from now on comes from this server (D3)."""

    server_uuid: str


@attrs.frozen
class StreamLost:
    """Connection → Assembler: nothing more of this dump will come; let the half-built go now."""

    number: tuple[int, int]


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


# -- the backfill ----------------------------------------------------------------------------------
#
# A reader's messages carry its incarnation; those about a chunk also the ticket of the order. What
# an older reader or order still sends is dropped by `core.snapshot.snapshot_desk`.


@attrs.frozen
class SnapshotIs:
    """Checkpoint → Coordinator: the durable state of the backfill, ahead of the first position."""

    state: SnapshotState | None


@attrs.frozen
class SaveSnapshot:
    """Coordinator → Checkpoint: persist this state of the backfill."""

    reply_to: Address
    state: SnapshotState


@attrs.frozen
class SnapshotSaved:
    """Checkpoint → Coordinator: the state is on disk."""

    state: SnapshotState


@attrs.frozen
class ReaderReady:
    """ChunkReader → Coordinator: a new incarnation can read; sent once, before anything else."""

    reply_to: Address
    incarnation: int


@attrs.frozen
class TablesWanted:
    """Coordinator → ChunkReader: once, at P0: which tables are there to backfill (D11)?"""


@attrs.frozen
class TablesResolved:
    """ChunkReader → Coordinator: these; each of them can be backfilled."""

    incarnation: int
    server_uuid: str
    tables: tuple[TableName, ...]


@attrs.frozen(repr=False)
class ChunkWanted:
    """Coordinator → ChunkReader: read the next chunk of a table; replaces the order before.

    Attributes:
        ticket: To be named in everything that is said about this chunk.
        table: Which table.
        after: The key that the chunk begins behind; None for the table's beginning.
        for_comparison: Whether it is a range of a verification: what is refused is told then, and
            halts nothing.
    """

    ticket: int
    table: TableName
    after: Key | None
    for_comparison: bool = False


@attrs.frozen
class PinAsked:
    """ChunkReader → Coordinator: may the view be taken now? Asked before every attempt."""

    incarnation: int
    ticket: int
    server_uuid: str


@attrs.frozen
class PinGranted:
    """Coordinator → ChunkReader: yes; from now on changes of the table are held."""

    ticket: int


@attrs.frozen
class PinMissed:
    """ChunkReader → Coordinator: the attempt failed; nothing needs to be held for it."""

    incarnation: int
    ticket: int


@attrs.frozen
class ViewPinned:
    """ChunkReader → Coordinator: the view shows exactly this set (G)."""

    incarnation: int
    ticket: int
    position: GtidSet


@attrs.frozen(repr=False)
class ChunkRead:
    """ChunkReader → Coordinator: the rows of the view.

    Attributes:
        shape: The table as it was pinned.
        rows: In key order, without the row that only tells that more follow.
        final: No row follows.
    """

    incarnation: int
    ticket: int
    shape: TableShape
    rows: list[tuple[object, ...]]
    final: bool


@attrs.frozen
class LookAtGate:
    """Coordinator → itself: look whether a chunk has waited too long (D6)."""


@attrs.frozen
class PinTakesLong:
    """Coordinator → itself: a capture has had its moment of quiet; the sink may be called again."""

    ticket: int


@attrs.frozen
class PurgedWanted:
    """Coordinator → ChunkReader: which transactions has the server purged?"""


@attrs.frozen
class PurgedIs:
    """ChunkReader → Coordinator: gtid_purged, read afresh."""

    incarnation: int
    purged: GtidSet


# -- a verification -------------------------------------------------------------------------------


@attrs.frozen
class VerifyWanted:
    """Whoever asks → Coordinator: compare source and sink; the outcome goes to the board.

    Attributes:
        number: Names this verification there; one that runs already is given up.
    """

    number: int


@attrs.frozen
class SurveyWanted:
    """Coordinator → ChunkReader: which tables are there, and which cannot be read exactly?"""


@attrs.frozen
class SurveyMade:
    """ChunkReader → Coordinator: each table, and why not (None: it can)."""

    incarnation: int
    tables: tuple[tuple[TableName, HaltReason | None], ...]


@attrs.frozen
class CaptureRefused:
    """ChunkReader → Coordinator: a range that is to be compared cannot be read."""

    incarnation: int
    ticket: int
    reason: HaltReason
