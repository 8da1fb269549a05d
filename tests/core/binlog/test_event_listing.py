"""Every event is listed with its place, its owner, its table and its rows; troubles are told."""

import pytest
from helpers.binlog_files import a_file, ddl, group, heartbeat, inside_of_one, payload, rotate
from helpers.binlog_stream import (
    ANONYMOUS,
    COLUMNS,
    DELETE,
    UPDATE,
    WRITE,
    Stream,
    begin,
    event,
    gtid,
    mapped,
    query,
    row,
    rows,
    xid,
)
from helpers.event_builder import SOURCE

from capstan.core.binlog.event_listing import EventLister, FileEvent
from capstan.core.binlog.offline.decode_errors import DecodeError, DecodeErrorKind
from capstan.core.binlog.table_signs import Schemas
from capstan.core.changes import Op


def listed(file: Stream, *, rows: bool = False, schema: Schemas | None = None) -> list[FileEvent]:
    """Every event of a file."""
    lister = EventLister(rows=rows, signs=schema)
    return [each for offset in file.offsets for each in lister.feed(file.data, offset)]


def test_an_event_tells_its_place_owner_table_and_rows() -> None:
    """R260: offset, type, size, GTID, table, row counts, and no values."""
    file = a_file(
        gtid(7), begin(), mapped(),
        rows(WRITE, [row(1), row(2)], last=False),
        rows(UPDATE, [row(1), row(1, None)], last=False),
        rows(DELETE, [row(2)]), xid(), rotate("binlog.000002"),
    )  # fmt: skip
    found = listed(file)
    assert [each.offset for each in found] == list(file.offsets)
    assert [each.header.event_size for each in found[:-1]] == [
        after - before for before, after in zip(file.offsets, file.offsets[1:], strict=False)
    ]
    assert [(each.op, each.row_changes) for each in found[5:8]] == [
        (Op.INSERT, 2), (Op.UPDATE, 1), (Op.DELETE, 1),
    ]  # fmt: skip
    assert {(each.schema, each.table) for each in found[4:8]} == {("shop", "items")}
    assert {str(each.gtid) for each in found[2:9]} == {f"{SOURCE}:7"}
    assert [each.gtid for each in (*found[:2], found[-1])] == [None, None, None]
    assert all(each.rows is None and each.trouble is None for each in found)


def test_rows_come_when_they_are_asked_for() -> None:
    """R264: values with their names."""
    found = listed(a_file(*group(1, 5)), rows=True)
    (change,) = found[5].rows or ()
    assert change.values == (5, "n")
    assert found[5].names == ("id", "name")
    assert "5" not in repr(change)
    assert "rows=" not in repr(found[5])


def test_anything_a_server_logs_is_listed() -> None:
    """R260: a listing does not judge: XA, statements, unknown events, any order."""
    file = a_file(
        xid(), query(b"XA START X'61',X'',1"), query(b"INSERT INTO t VALUES (1)"),
        event(29, b"\x01x"), event(38, b"\x00"), event(26, b"\x01\x00\x00"), event(200, b"?"),
        heartbeat(), gtid(0, kind=ANONYMOUS), ddl(),
    )  # fmt: skip
    found = listed(file)
    assert len(found) == len(file.offsets)
    assert all(each.trouble is None for each in found)
    assert found[8].header.type_name == "type 200"


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        ([rows(WRITE, [row(1)])], DecodeErrorKind.TABLE_MAP_MISSING),
        ([mapped(), rows(WRITE, [row(1)[:-1]])], DecodeErrorKind.MALFORMED),
        ([mapped(), event(39, (80).to_bytes(6, "little") + b"\x01\x00" + b"x")],
         DecodeErrorKind.EVENT_NOT_ACCEPTED),
        ([mapped(), event(24, (80).to_bytes(6, "little") + b"\x01\x00" + b"x")],
         DecodeErrorKind.EVENT_NOT_ACCEPTED),
        ([mapped(fields={}), rows(WRITE, [row(1)])], DecodeErrorKind.SIGNEDNESS_MISSING),
        ([event(19, b"\x00" * 8 + b"\x04sh")], DecodeErrorKind.MALFORMED),
        ([event(33, b"\x00" * 5)], DecodeErrorKind.MALFORMED),
        ([mapped(), rows(WRITE, [row(1, "x")[:-1] + b"\xff"])], DecodeErrorKind.UNDECODABLE_TEXT),
    ],
)  # fmt: skip
def test_what_cannot_be_read_of_an_event_is_its_trouble(
    raw: list[bytes], kind: DecodeErrorKind
) -> None:
    """R219, R266: the listing goes on, and nothing is made up."""
    file = a_file(*raw, xid())
    found = listed(file, rows=True)
    troubled = found[-2]
    assert troubled.trouble is not None
    assert troubled.trouble.kind is kind
    assert troubled.trouble.offset == file.offsets[-2]
    assert troubled.rows is None
    assert found[-1].header.type_name == "XID"


def test_a_schema_lends_signs_and_names() -> None:
    """R258: for files whose table maps have neither."""
    file = a_file(gtid(1), begin(), mapped(fields={}), rows(WRITE, [row(2**32 - 1)]), xid())
    schema = Schemas.read({"shop.items": [{"name": "number", "unsigned": True}, "label"]})
    found = listed(file, rows=True, schema=schema)[5]
    assert found.names == ("number", "label")
    assert found.rows is not None
    assert found.rows.images == [(2**32 - 1, b"n")]


def test_a_schema_that_contradicts_the_file_ends_the_listing() -> None:
    """R258: nothing is decoded by a schema that is wrong."""
    schema = Schemas.read({"shop.items": ["id", "name"]})
    with pytest.raises(DecodeError) as caught:
        listed(a_file(*group(1)), rows=True, schema=schema)
    assert caught.value.kind is DecodeErrorKind.SIGNEDNESS_CONFLICT


def test_events_inside_a_payload_follow_it() -> None:
    """R251, R260: with their offsets inside it and the payload's own."""
    inside = inside_of_one(1, 2)
    file = a_file(gtid(1), payload(inside), xid())
    found = listed(file, rows=True)
    outer = [each for each in found if each.inside is None]
    assert [each.offset for each in outer] == list(file.offsets)
    within = [each for each in found if each.inside is not None]
    assert [each.inside for each in within] == [sum(map(len, inside[:place])) for place in range(4)]
    assert {each.offset for each in within} == {file.offsets[3]}
    assert [each.row_changes for each in within] == [None, None, 2, None]
    assert {str(each.gtid) for each in within} == {f"{SOURCE}:1"}


def test_a_payload_that_cannot_be_opened_ends_the_listing() -> None:
    """R251: what is inside cannot be told from what is not."""
    broken = event(40, b"\x02\x01\x00\x03\x01\x05\x01\x01\x03\x00xyz")
    with pytest.raises(DecodeError) as caught:
        listed(a_file(gtid(1), broken))
    assert caught.value.event_type == 40


def test_a_damaged_event_ends_the_listing() -> None:
    """R173: nothing behind a wrong size or checksum is where it seems."""
    file = a_file(*group(1))
    damaged = bytearray(file.data)
    damaged[file.offsets[4] + 30] ^= 1
    with pytest.raises(DecodeError) as caught:
        listed(Stream(bytes(damaged), file.offsets))
    assert caught.value.kind is DecodeErrorKind.CHECKSUM_MISMATCH
    assert caught.value.offset == file.offsets[4]


def test_the_columns_of_these_tests_are_two() -> None:
    """R262: the builder's table has the shape that the tests above speak of."""
    assert [column.name for column in COLUMNS] == ["id", "name"]
