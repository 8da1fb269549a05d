"""Folds that take the short cut and folds that do not, which must agree on every stream."""

import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from capstan.core import one_statement
from capstan.core.assembly import Fold
from capstan.core.binlog.framing import Packets
from capstan.core.changes import Item, Transaction
from capstan.core.epoch import Epoch
from capstan.core.gtid import GtidSet
from capstan.core.limits import Budget
from capstan.core.tables import CaptureList
from capstan.core.watermark import Anchor


@attrs.frozen
class Outcome:
    """What a fold made of a stream.

    Attributes:
        items: Transactions as plain values, schema changes as they are.
        halt: The verdict's reason and detail; None without one.
        taken: Transactions that went the short way; no part of the comparison.
    """

    items: list[Any]
    halt: tuple[str, str] | None
    taken: int = attrs.field(eq=False)


def placed(raws: Iterable[bytes], offset: int = 400) -> list[bytes]:
    """Events with sizes and positions as in a file where they lie side by side from `offset` on."""
    out = []
    for raw in raws:
        offset += len(raw)
        out.append(summed(raw[:9] + struct.pack("<II", len(raw), offset) + raw[17:-4]))
    return out


def summed(raw: bytes) -> bytes:
    """An event's bytes with their checksum behind them."""
    return raw + struct.pack("<I", zlib.crc32(raw))


def fold_of(
    pieces: Sequence[Packets],
    *,
    short: bool,
    start: str = "",
    anchor: Anchor | None = None,
    budget: Budget | None = None,
    capture: Sequence[str] = ("shop.*",),
    before: Sequence[Packets] = (),
) -> Outcome:
    """Fold a stream, the first piece of which describes the format.

    `before` is a stream that the same fold has read in an epoch of its own.
    """
    fold = Fold(CaptureList.parse(capture), budget or Budget())
    taken = 0
    take: Callable[..., tuple[int, int]] = fold._short_cut.take

    def counted(packets: Packets, place: int, offset: int, *rest: Any) -> tuple[int, int]:
        nonlocal taken
        if not short:
            return place, offset
        stop, after = take(packets, place, offset, *rest)
        taken += stop - place
        assert len(fold._short_cut._openings) <= one_statement._MOST_OPENINGS
        return stop, after

    fold._short_cut.take = counted  # type: ignore[method-assign]
    fold.open(Epoch(start=GtidSet(), server_uuid="", checksums=False))
    for piece in before:
        fold.feed(piece)
    assert fold.halt is None
    fold.open(Epoch(start=GtidSet.parse(start), server_uuid="", anchor=anchor, checksums=False))
    taken = 0
    items: list[Item] = []
    for piece in pieces:
        items += fold.feed(piece)
        if fold.halt is not None:
            break
    halt = None if fold.halt is None else (fold.halt.reason.value, fold.halt.detail)
    return Outcome([_plain(item) for item in items], halt, taken // 5)


def both_ways(pieces: Sequence[Packets], **options: Any) -> Outcome:
    """Fold a stream with the short cut and without it; both must agree."""
    short = fold_of(pieces, short=True, **options)
    assert short == fold_of(pieces, short=False, **options)
    return short


def _plain(item: Item) -> object:
    if not isinstance(item, Transaction):
        return item
    changes = [(c.op, c.schema, c.table, c.values, c.old_values, c.key) for c in item.changes]
    chunks = [len(chunk) for chunk in item.changes.chunks]
    return item.committed, str(item.position), changes, chunks, len(item.changes)
