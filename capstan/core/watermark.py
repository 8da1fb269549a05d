"""The processed watermark and what belongs to it: anchor, sink position, the rules of a restart.

House rules: a watermark is a true set, never a maximum; it only grows (D15). The anchor names the
last processed transaction so that a changed history under the same numbers is seen (D13). Which
position wins at a start is decided here and nowhere else (D12). No store, no sink, no clock.
"""

import attrs

from capstan.core.gtid import Gtid, GtidSet
from capstan.core.halts import HaltReason, halted


@attrs.frozen(kw_only=True)
class Anchor:
    """The last processed transaction, as the server it was read from showed it (D13).

    Attributes:
        gtid: Its identity.
        commit_micros: Original commit timestamp, microseconds since 1970.
        arrived_micros: Immediate commit timestamp on that server, microseconds since 1970.
        server_uuid: The server it was read from.
    """

    gtid: Gtid
    commit_micros: int
    arrived_micros: int
    server_uuid: str


@attrs.frozen(kw_only=True)
class Position:
    """Where a stream starts, as the store keeps it in one write.

    Attributes:
        watermark: Every processed GTID.
        anchor: The last processed transaction; None after a seed or a hand-set checkpoint.
        sink_position: What the sink was last seen to report; None for sinks without position.
    """

    watermark: GtidSet
    anchor: Anchor | None = None
    sink_position: GtidSet | None = None


def reconcile(stored: Position | None, reported: GtidSet | None) -> Position:
    """Decide where to start from what the store holds and what the sink reports (D12).

    Args:
        stored: The store's position; None for an empty store.
        reported: The sink's own position; None for a sink without one.

    Raises:
        Halted: `sink_position_lost` when the sink has less than it was last seen to have.
    """
    if stored is None:
        return Position(watermark=reported or GtidSet(), sink_position=reported)
    if reported is None:
        if stored.sink_position:
            raise halted(
                HaltReason.SINK_POSITION_LOST,
                "the sink reports no position; "
                f"it was last seen with {stored.sink_position.count()} GTIDs",
            )
        return attrs.evolve(stored, sink_position=None)
    if stored.sink_position is not None and not stored.sink_position <= reported:
        missing = stored.sink_position - reported
        raise halted(HaltReason.SINK_POSITION_LOST, f"the sink lacks {missing}")
    return attrs.evolve(stored, watermark=stored.watermark | reported, sink_position=reported)


def advanced(current: Position, told: Position) -> Position:
    """The position to persist next: the union of what is held and what is told (D15).

    Raises:
        Halted: `watermark_regressed` when the told set lacks something already processed.
    """
    if not current.watermark <= told.watermark:
        lost = current.watermark - told.watermark
        raise halted(HaltReason.WATERMARK_REGRESSED, f"the next watermark lacks {lost}")
    return told
