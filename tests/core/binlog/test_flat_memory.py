"""Decoding holds what is bounded and nothing more, however long the stream is."""

import gc
import random
import tracemalloc
from struct import pack

from helpers import event_builder as build
from helpers.json_bytes import document
from helpers.table_bytes import UTF8MB4, Spec, image, integer, row_event, table_map

from capstan.core.assembly import Fold
from capstan.core.binlog.json_shapes import JsonTexts
from capstan.core.binlog.row_compiler import RowDecoder
from capstan.core.binlog.table_map import parse
from capstan.core.epoch import Epoch
from capstan.core.gtid import GtidSet
from capstan.core.limits import Budget
from capstan.core.tables import CaptureList

ROOM = 256 << 10
"""Bytes by which memory may differ between the middle and the end of a long run."""


def growth(step, rounds):
    """How much more memory is held after all rounds than after half of them."""
    tracemalloc.start()
    try:
        for number in range(rounds // 2):
            step(number)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for number in range(rounds // 2, rounds):
            step(number)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def test_distinct_values_leave_nothing_behind():
    """R266: a row that was handed out is forgotten, whatever its texts and documents were."""
    columns = (
        integer("id", nullable=False),
        Spec("at", 17, b"\0"),
        Spec("price", 246, bytes([12, 2]), unsigned=False),
        Spec("name", 15, (400).to_bytes(2, "little"), collation=UTF8MB4),
        Spec("doc", 245, b"\4"),
    )
    made = RowDecoder(parse(table_map(columns)), 1)
    draw = random.Random(1).randrange

    def step(number):
        rows = []
        for _ in range(50):
            name = b"%d" % draw(1 << 60) * 3
            text = document({f"key{draw(1 << 40)}": "x" * draw(100)})
            values = (
                pack("<i", number),
                pack(">I", 1_700_000_000 + draw(86_400)),
                bytes([0x80]) + pack(">IB", draw(10**9), draw(100)),
                pack("<H", len(name)) + name,
                pack("<I", len(text)) + text,
            )
            rows.append(image(5, values))
        event = row_event(5, rows)
        assert len(made.images(event, 0, len(event), False)) == 50

    assert growth(step, 120) < ROOM


def test_many_shapes_of_documents_leave_a_bounded_memory():
    """R266: neither the samples nor the code of a column grow with its kinds of documents."""
    texts = JsonTexts(sightings=2)

    def step(number):
        raw = document({f"key{number % 3000}": {"a": number, "b": ["x" * (number % 50)]}})
        assert texts.text(raw).startswith("{")

    assert growth(step, 8_000) < ROOM


def test_many_transactions_under_many_table_ids_leave_nothing_behind():
    """R266: a table id means nothing after its statement, a GTID is one number of a range."""
    fold = Fold(CaptureList.parse(None), Budget())
    fold.open(Epoch(start=GtidSet(), server_uuid=build.SOURCE))
    fold.feed(build.packets_of(build.opening()))

    def step(number):
        gtid, begin, _map, _rows, end = build.insert(number + 1, number)
        table, rows = build.table_map(number + 7), build.rows(30, number + 7, [(number, "x")])
        (done,) = fold.feed(build.packets_of([gtid, begin, table, rows, end]))
        assert len(done.changes) == 1

    assert growth(step, 8_000) < ROOM
