"""The crash matrix: every persist, send and sink call of the five actors, and what a crash costs.

House rules: data only. `test_crash_matrix` proves that nothing is missing and that each strike
costs what is said here, and docs/faults.md is made from it. The window is one batch or one chunk,
and here a batch is one transaction.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Final

import attrs


class Kind(Enum):
    """What a call does."""

    PERSIST = "store"
    SEND = "message"
    SINK = "sink"


class Again(Enum):
    """What a sink without a position gets a second time."""

    NOTHING = "nothing"
    BATCH = "the batch"
    CHUNK = "the chunk"
    WINDOW = "the batch or chunk under way, if any"


@attrs.frozen(kw_only=True)
class Strike:
    """One place and moment to strike at.

    Attributes:
        call: The call.
        when: `before` or `after` it.
        hit: At which time it is passed.
    """

    call: "Call"
    when: str
    hit: int

    @property
    def point(self) -> str:
        """The crash point's name."""
        return f"{self.when} {self.call.actor} {self.call.name}"

    def __str__(self) -> str:
        return f"{self.point} {self.hit}"

    def again(self, *, killed: bool) -> Again:
        """What comes again when the actor crashes there, or the process is killed."""
        call = self.call
        if self.hit not in call.in_window:
            upstream = call.actor not in {"coordinator", "checkpoint"}
            return Again.WINDOW if killed and upstream else Again.NOTHING
        if self.when == "before":
            return call.before
        # What was sent is handled behind a crash; a kill may come before that.
        return Again.WINDOW if killed and call.kind is Kind.SEND else call.after


@attrs.frozen(kw_only=True)
class Call:
    """One call of an actor.

    Attributes:
        actor: Whose.
        name: A method of store or sink, or `send Message`.
        kind: What it does.
        hits: At which times of being passed it is struck.
        in_window: Those of them between the sink's acceptance and the disk.
        before: What comes again when it is struck before it, within the window.
        after: And behind it.
        sinks: With which sinks it is made.
    """

    actor: str
    name: str
    kind: Kind
    hits: tuple[int, ...] = (1,)
    in_window: tuple[int, ...] = ()
    before: Again = Again.NOTHING
    after: Again = Again.NOTHING
    sinks: tuple[str, ...] = ("journal", "mirror")

    def strikes(self) -> Iterator[Strike]:
        """All of them."""
        for hit in self.hits:
            yield Strike(call=self, when="before", hit=hit)
            yield Strike(call=self, when="after", hit=hit)


def _sends(actor: str, *messages: str, hits: tuple[int, ...] = (1,)) -> list[Call]:
    return [Call(actor=actor, name=f"send {m}", kind=Kind.SEND, hits=hits) for m in messages]


def _stored(*names: str) -> list[Call]:
    return [Call(actor="checkpoint", name=name, kind=Kind.PERSIST) for name in names]


def _sunk(*names: str, sinks: tuple[str, ...] = ("journal", "mirror")) -> list[Call]:
    return [Call(actor="coordinator", name=name, kind=Kind.SINK, sinks=sinks) for name in names]


_LATE: Final = (6,)
_WRITES: Final = (1, 2, 3, 4, 5)
"""The table list; mark and cursor of the first chunk; mark and cursor of the second."""
_CURSORS: Final = (3, 5)

CHECKPOINT: Final = [
    *_stored("hold", "load_watermark", "load_tables", "load_snapshot", "save_tables"),
    Call(
        actor="checkpoint",
        name="save_watermark",
        kind=Kind.PERSIST,
        hits=(1, *_LATE),
        in_window=_LATE,
        before=Again.BATCH,
    ),
    Call(
        actor="checkpoint",
        name="save_snapshot",
        kind=Kind.PERSIST,
        hits=_WRITES,
        in_window=_CURSORS,
        before=Again.CHUNK,
    ),
    *_stored("close"),
    *_sends("checkpoint", "SnapshotIs", "CheckpointEnded"),
    *_sends("checkpoint", "PositionIs", hits=(1, 3)),
    *_sends("checkpoint", "WatermarkMoved", hits=_LATE),
    *_sends("checkpoint", "SnapshotSaved", hits=(3,)),
]
COORDINATOR: Final = [
    *_sunk("open"),
    Call(
        actor="coordinator",
        name="position",
        kind=Kind.SINK,
        hits=(1, *_LATE),
        in_window=_LATE,
        before=Again.BATCH,
        after=Again.BATCH,
    ),
    *(
        Call(
            actor="coordinator",
            name=name,
            kind=Kind.SINK,
            hits=hits,
            in_window=hits,
            after=again,
            sinks=sinks,
        )
        for name, hits, again, sinks in (
            ("handle_transaction", _LATE, Again.BATCH, ("journal",)),
            ("handle_schema_changes", (1,), Again.BATCH, ("journal",)),
            ("handle_batch", _LATE, Again.BATCH, ("mirror",)),
            ("handle_snapshot", (2,), Again.CHUNK, ("journal", "mirror")),
        )
    ),
    *_sunk("await_backfill", sinks=("mirror",)),
    *_sunk("close"),
    *_sends("coordinator", "SinkOpened", "PositionWanted", "TablesWanted"),
    *_sends("coordinator", "Settled", hits=_LATE),
    *_sends("coordinator", "ChunkWanted", hits=(2,)),
    *_sends("coordinator", "PinGranted", hits=(2,)),
    Call(
        actor="coordinator",
        name="send Processed",
        kind=Kind.SEND,
        hits=_LATE,
        in_window=_LATE,
        before=Again.BATCH,
    ),
    Call(
        actor="coordinator",
        name="send SaveSnapshot",
        kind=Kind.SEND,
        hits=_WRITES,
        in_window=_CURSORS,
        before=Again.CHUNK,
    ),
]
ASSEMBLER: Final = [
    *_sends("assembler", "StreamOn", "PositionWanted", hits=(2,)),
    *_sends("assembler", "CreditGranted", "Assembled", hits=_LATE),
]
CONNECTION: Final = [
    *_sends("connection", "ConnectionReady", "SeedWanted", "StreamLost"),
    *_sends("connection", "PositionWanted", "StreamOpened", hits=(2,)),
    *_sends("connection", "PacketsRead", "ReadOn", hits=_LATE),
]
CHUNK_READER: Final = [
    *_sends("chunk_reader", "ReaderReady", "TablesResolved", "PinMissed"),
    *_sends("chunk_reader", "PinAsked", "ViewPinned", "ChunkRead", hits=(2,)),
]

MATRIX: Final[tuple[Call, ...]] = (
    *(*CHECKPOINT, *COORDINATOR),
    *(*ASSEMBLER, *CONNECTION, *CHUNK_READER),
)
ACTORS: Final = ("checkpoint", "coordinator", "assembler", "connection", "chunk_reader")
UNSENT: Final = {
    "LookAtGate": "a clock of the coordinator's own",
    "PinTakesLong": "a clock of the coordinator's own; a chunk would only wait for its view",
    "PurgedWanted": "asked when a chunk waited for minutes; nothing moves by it",
    "PurgedIs": "its answer",
    "VerifyWanted": "a verification only reads",
    "SurveyWanted": "a verification only reads",
    "SurveyMade": "a verification only reads",
    "CaptureRefused": "a verification only reads",
}
"""The messages that the matrix does without, and why."""


def strikes(actor: str | None = None, sink: str | None = None) -> list[Strike]:
    """All strikes, of one actor, and with one sink."""
    return [
        strike
        for call in MATRIX
        if actor in {None, call.actor} and (sink is None or sink in call.sinks)
        for strike in call.strikes()
    ]
