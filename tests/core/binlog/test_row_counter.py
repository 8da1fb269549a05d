"""Rows are counted by their lengths, exactly as the row decoder finds them, or not at all."""

from pathlib import Path
from struct import unpack_from

import pytest
from helpers.binlog_stream import COLUMNS, row
from helpers.table_bytes import (
    Spec,
    integer,
    packed,
    row_event,
    table_map,
    varchar,
)

from capstan.core.binlog.offline.mapped_table import MappedTable
from capstan.core.binlog.row_counter import RowCounter
from capstan.core.halts import Halted, HaltReason

FOLDER = Path(__file__).parents[2] / "data" / "binlogs"
PARTIAL = "partial-images-9.7.4"


def recorded(name: str) -> list[tuple[int, bytes, bytes]]:
    """Type, table map's body and row event of each row event; all files have checksums."""
    data = (FOLDER / f"{name}.binlog").read_bytes()
    position, found = 4, []
    bodies: dict[bytes, bytes] = {}
    while position < len(data):
        (size,) = unpack_from("<I", data, position + 9)
        raw, kind = data[position : position + size - 4], data[position + 4]
        if kind == 19:
            bodies[raw[19:25]] = raw[27:]
        elif kind in (30, 31, 32):
            found.append((kind, bodies[raw[19:25]], raw))
        position += size
    return found


def counted(counter: RowCounter, images: list[bytes], *, pairs: bool = False) -> int:
    """What it counts in a row event of `COLUMNS`."""
    body = row_event(2, images, bitmaps=1 + pairs)
    return counter.changes(body, 0, len(body), pairs=pairs)


@pytest.mark.parametrize(
    "name",
    [
        "go-mysql-5.6.16",
        "zalora-timestamps-5.6.35",
        "mysqlcdc-5.7.23",
        "binlogviz-5.7.44",
        "maxwell-8.0.29",
        "mysql-cdc-rs-8.2.0",
        "partitions-9.7.4",
        "sets-9.7.4",
        "temporals-9.7.4",
    ],
)
def test_recorded_rows_are_counted_as_they_are_decoded(name: str) -> None:
    """R229, R264: as many changes as the row decoder finds, without a sign or a name."""
    found = recorded(name)
    assert found
    for kind, body, raw in found:
        table = MappedTable(body)
        decoder = table.rows(None if table.signs_known else (False,) * table.integers)
        pairs = kind == 31
        images = decoder.images(raw, 27, len(raw), pairs)
        assert RowCounter.of(body).changes(raw, 27, len(raw), pairs=pairs) == len(images) >> pairs


@pytest.mark.parametrize("name", ["partitions-9.7.4", "joined-tables-9.7.4", "escapes-9.7.4"])
def test_a_recorded_event_that_is_cut_is_never_counted(name: str) -> None:
    """R198, R266: at every place; what is left never happens to look whole."""
    for kind, body, raw in recorded(name)[:12]:
        counter = RowCounter.of(body)
        whole = counter.changes(raw, 27, len(raw), pairs=kind == 31)
        counts = [counted_or_refused(counter, raw, end, kind) for end in range(27, len(raw))]
        assert all(count is None or count < whole for count in counts)
        assert None in counts


def counted_or_refused(counter: RowCounter, raw: bytes, end: int, kind: int) -> int | None:
    """What it counts up to an end; None when it refuses."""
    try:
        return counter.changes(raw, 27, end, pairs=kind == 31)
    except Halted as verdict:
        if verdict.halt.reason is not HaltReason.EVENT_CORRUPT:
            raise
        return None


def test_images_that_lack_columns_are_not_counted() -> None:
    """R266: a part of a row is no row."""
    kind, body, raw = recorded(PARTIAL)[-1]
    counter = RowCounter.of(body)
    with pytest.raises(Halted) as caught:
        counter.changes(raw, 27, len(raw), pairs=kind == 31)
    assert caught.value.halt.reason is HaltReason.ROW_IMAGE_NOT_FULL
    assert caught.value.halt.detail == "test.t1"


def test_an_updates_two_images_are_one_change() -> None:
    """R229: pairs."""
    counter = RowCounter.of(table_map(COLUMNS))
    assert counted(counter, [row(1), row(1, None), row(2), row(2, "other")], pairs=True) == 2
    with pytest.raises(Halted):
        counted(counter, [row(1), row(2), row(3)], pairs=True)


def test_every_null_bitmap_is_counted_whether_it_has_code_or_not() -> None:
    """R229: more bitmaps than get code of their own, in one event and again."""
    columns = [varchar(f"c{place}", 300) for place in range(9)]
    counter = RowCounter.of(table_map(columns))
    images = []
    for nulls in range(1 << 9):
        mask = nulls.to_bytes(2, "little")
        held = sum(not nulls >> place & 1 for place in range(9))
        images.append(mask + b"\x02\x00ab" * held)
    body = row_event(9, images)
    for _ in range(3):
        assert counter.changes(body, 0, len(body), pairs=False) == 512


def test_no_more_is_needed_than_types() -> None:
    """R258: a table map without signs, names and collations is counted."""
    columns: list[Spec] = [integer("id"), varchar("name", 200)]
    bare = table_map(columns, fields={})
    counter = RowCounter.of(bare)
    assert counter.name == ("shop", "orders")
    assert counted(counter, [row(1), row(2)]) == 2


def test_extra_row_information_is_passed_over() -> None:
    """R264: partition numbers stand in front of the rows of partitioned tables."""
    counter = RowCounter.of(table_map(COLUMNS))
    plain = row_event(2, [row(1)])
    extra = b"\x07\x00abcde" + plain[2:]
    assert counter.changes(extra, 0, len(extra), pairs=False) == 1
    assert counter.changes(plain, 0, len(plain), pairs=False) == 1
    for wrong in (b"\x01\x00" + plain[2:], b"\xff\xff" + plain[2:]):
        with pytest.raises(Halted):
            counter.changes(wrong, 0, len(wrong), pairs=False)


@pytest.mark.parametrize("columns", [0, 5000])
def test_an_impossible_number_of_columns_is_refused(columns: int) -> None:
    """R266: no table map has none, or more than a table can have."""
    head = b"\x04shop\x00\x05items\x00"
    with pytest.raises(Halted) as caught:
        RowCounter.of(head + packed(columns) + b"\x03" * columns + b"\x00")
    assert caught.value.halt.reason is HaltReason.EVENT_CORRUPT


def test_a_type_of_unknown_width_is_refused_by_its_place() -> None:
    """R266: nothing is counted past a value of unknown length."""
    body = b"\x04shop\x00\x05items\x00" + b"\x02\x03\xf3" + b"\x00" + b"\x00"
    with pytest.raises(Halted) as caught:
        RowCounter.of(body)
    assert caught.value.halt.reason is HaltReason.UNSUPPORTED_COLUMN_TYPE
    assert caught.value.halt.detail.startswith("shop.items.@2: ")


@pytest.mark.parametrize(
    "body",
    [
        b"\x04shop\x01\x05items\x00\x01\x03\x00\x00",
        b"\x04shop\x00\x05items\x00\x01\x03\x02\x00\x00\x00",
        b"\x04sh",
    ],
)
def test_a_malformed_table_map_is_refused(body: bytes) -> None:
    """R266: names without their end, metadata that no column has, a cut map."""
    with pytest.raises(Halted) as caught:
        RowCounter.of(body)
    assert caught.value.halt.reason is HaltReason.EVENT_CORRUPT


def test_another_number_of_columns_is_refused() -> None:
    """R266: a row event of another table."""
    counter = RowCounter.of(table_map(COLUMNS))
    body = row_event(3, [b"\x00" * 8])
    with pytest.raises(Halted) as caught:
        counter.changes(body, 0, len(body), pairs=False)
    assert caught.value.halt.reason is HaltReason.EVENT_CORRUPT
