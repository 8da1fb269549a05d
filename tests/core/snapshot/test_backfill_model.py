"""The whole backfill against an executable model, and the model against rules that are broken."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from helpers.backfill_model import BackfillModel, Rules, Trouble, Violation

from capstan.core.changes import Op
from capstan.core.snapshot import chunk_capture, key_gate, progress, snapshot_desk
from capstan.core.snapshot.chunk_capture import Stage
from capstan.core.snapshot.key_gate import Marks
from capstan.core.snapshot.progress import ChunkMark, TableProgress
from capstan.core.snapshot.snapshot_desk import SnapshotDesk

RUNS = 60
BOUND = 1_000
TROUBLES = {
    "nothing happens": Trouble(),
    "crashes": Trouble(crashes=3),
    "tables are done again": Trouble(redos=2),
    "both": Trouble(crashes=3, redos=2),
    "chunks shrink": Trouble(crashes=1, shrinks=True),
}

Patch = pytest.MonkeyPatch
Sabotage = Callable[[Patch], object]


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_any_order_of_steps_ends_with_the_source(trouble: Trouble) -> None:
    """R61, R80, R84, R120-R122, R127, R130, R169, D6-D8, D10: no gap, no phantom, no row twice."""
    assert _run_all(RUNS, trouble, Rules()) > RUNS


def deletes_gated_on_the_cursor(patch: Patch) -> None:
    patch.setattr(
        snapshot_desk, "Marks", lambda columns, cursor, _delivered: Marks(columns, cursor, cursor)
    )


def mark_goes_back(patch: Patch) -> None:
    patch.setattr(progress, "_higher", lambda old, new: old if new is None else new)


def mark_written_with_the_cursor(patch: Patch) -> None:
    moved = TableProgress.moved
    patch.setattr(progress, "_higher", lambda old, _new: old)

    def both(self: TableProgress, mark: ChunkMark) -> TableProgress:
        after = moved(self, mark)
        return attrs.evolve(after, delivered=after.cursor)

    patch.setattr(TableProgress, "moved", both)


def cursor_written_before_the_sink(patch: Patch) -> None:
    marked = TableProgress.marked

    def early(self: TableProgress, mark: ChunkMark) -> TableProgress:
        after = marked(self, mark)
        return attrs.evolve(after, cursor=after.delivered)

    patch.setattr(TableProgress, "marked", early)


def gate_dropped(patch: Patch) -> None:
    patch.setattr(SnapshotDesk, "judged", lambda _self, item: item)


def key_changes_not_split(patch: Patch) -> None:
    def whole(chunk: Any, key_of: Any, cursor: Any, _delivered: Any) -> Any:
        pairs = list(zip(chunk.images[::2], chunk.images[1::2], strict=True))
        passed = [pair for pair in pairs if cursor is not None and key_of(pair[1]) <= cursor]
        rows = key_gate.RowsChunk(Op.UPDATE, chunk.shape, [row for pair in passed for row in pair])
        return ([rows] if passed else []), len(pairs) - len(passed)

    patch.setattr(key_gate, "_judge_updates", whole)


def nothing_held_while_pinning(patch: Patch) -> None:
    patch.setattr(
        snapshot_desk,
        "holders",
        lambda captures, gtid: chunk_capture.holders([c for c in captures if c.position], gtid),
    )


def held_inside_the_position_too(patch: Patch) -> None:
    held = {Stage.PINNING, Stage.PINNED, Stage.READ}
    patch.setattr(
        snapshot_desk,
        "holders",
        lambda captures, _gtid: [c.table for c in captures if c.stage in held],
    )


def as_it_is(_patch: Patch) -> None:
    """The rule that is broken is one of the model's own."""


NOTHING, CRASHES, SHRINKS = Trouble(), Trouble(crashes=3), Trouble(crashes=1, shrinks=True)
REDOS = Trouble(redos=2)


@pytest.mark.parametrize(
    ("sabotage", "trouble", "rules"),
    [
        pytest.param(as_it_is, NOTHING, Rules(holds=False), id="D6: hold dropped"),
        pytest.param(nothing_held_while_pinning, NOTHING, Rules(), id="D6: not while pinning"),
        pytest.param(held_inside_the_position_too, NOTHING, Rules(), id="D6: held inside G too"),
        pytest.param(as_it_is, NOTHING, Rules(locks=False), id="R85: bare read of G"),
        pytest.param(as_it_is, NOTHING, Rules(waits=False), id="R104: emitted before G"),
        pytest.param(gate_dropped, NOTHING, Rules(), id="R91: gate dropped"),
        pytest.param(key_changes_not_split, NOTHING, Rules(), id="D10: no split"),
        pytest.param(as_it_is, REDOS, Rules(empties=False), id="D8: nothing emptied"),
        pytest.param(deletes_gated_on_the_cursor, CRASHES, Rules(), id="R125: cursor only"),
        pytest.param(mark_written_with_the_cursor, CRASHES, Rules(), id="R123: mark too late"),
        pytest.param(cursor_written_before_the_sink, CRASHES, Rules(), id="R124: cursor early"),
        pytest.param(mark_goes_back, SHRINKS, Rules(), id="D7: mark goes back"),
    ],
)
def test_the_model_sees_each_broken_rule(
    sabotage: Sabotage, trouble: Trouble, rules: Rules, monkeypatch: Patch
) -> None:
    """R85, R104, R123-R126, D6-D8, D10: with one rule broken some run of few ends wrong."""
    sabotage(monkeypatch)
    with pytest.raises(Violation):
        _run_all(BOUND, trouble, rules)


def _run_all(runs: int, trouble: Trouble, rules: Rules) -> int:
    """How many changes were suppressed in these runs together."""
    suppressed = 0
    for seed in range(runs):
        model = BackfillModel(seed, trouble, rules)
        model.run()
        suppressed += model.suppressed
    return suppressed
