"""What a backfill needs and does not offer: the stream's own preconditions, and the page."""

import re
from pathlib import Path

import pytest
from helpers.backfills import Upserting
from helpers.scripted_source import ScriptedSource, facts_with

from capstan import Config, HaltReason, MemoryStore, Pipeline, PipelineHalted, Snapshot, Source
from capstan.sources.base import View, ViewSource

PAGE = Path(__file__).parents[2] / "docs" / "snapshot.md"


class NoViews(ViewSource):
    """Nobody is to read anything."""

    def view(self) -> View:
        raise AssertionError("a view was made")


@pytest.mark.parametrize(
    ("fact", "value", "reason"),
    [
        ("gtid_mode", "OFF", HaltReason.GTID_MODE_NOT_ON),
        ("binlog_row_image", "MINIMAL", HaltReason.BINLOG_ROW_IMAGE_NOT_FULL),
        ("binlog_row_metadata", "MINIMAL", HaltReason.BINLOG_ROW_METADATA_NOT_FULL),
    ],
)
def test_the_preconditions_of_the_stream_still_apply(
    fact: str, value: str, reason: HaltReason
) -> None:
    """R63, R165: a server that cannot be streamed is not read from; nothing is seeded either."""
    sink, store = Upserting(), MemoryStore()
    config = Config(
        source=Source(user="u", password="p", server_id=9),
        tables=["shop.*"],
        sink=sink,
        store=store,
        snapshot=Snapshot(),
    )
    source = ScriptedSource(lambda _: [], facts_with(**{fact: value}))
    with pytest.raises(PipelineHalted) as caught:
        Pipeline(config, source=source, views=NoViews()).start()

    assert caught.value.halt.reason is reason
    assert store.load_watermark() is None
    assert store.load_snapshot() is None


def test_the_page_says_what_is_refused_and_what_it_costs() -> None:
    """R117, R171, R172: rights, duty of the sink, cost of the lock, and the two limits."""
    text = re.sub(r"\s+", " ", PAGE.read_text(encoding="utf-8"))
    for words in (
        "Upsert by key.",
        "GRANT SELECT, LOCK TABLES ON shop.*",
        "replication lags by as much",
        "`chunk_size`** is the trade",
        "| keys of text,",
        "| every schema at once (`*.*`, `capstan.ALL`)",
    ):
        assert words in text
