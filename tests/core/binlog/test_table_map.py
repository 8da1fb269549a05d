"""Table maps: names, types, keys, metadata, and everything a malformed one must not do."""

import pytest
from helpers.table_bytes import (
    BINARY,
    LATIN1,
    UTF8MB4,
    Spec,
    counted,
    field,
    full_metadata,
    integer,
    packed,
    table_map,
    varchar,
)
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.binlog.columns import FieldType
from capstan.core.binlog.table_map import parse, peek_name
from capstan.core.halts import Halted, HaltReason
from capstan.core.tables import Column

EVERYTHING = (
    Spec("tiny", 1, unsigned=True, nullable=False),
    Spec("price", 246, bytes([10, 2]), unsigned=False),
    varchar("name", 400, nullable=False),
    Spec("raw", 15, (20).to_bytes(2, "little"), collation=BINARY),
    Spec("long char", 254, bytes([0xEE, 0xFC]), collation=UTF8MB4),
    Spec("note", 252, b"\2", collation=LATIN1),
    Spec("blob", 252, b"\4", collation=BINARY),
    Spec("status", 254, bytes([0xF7, 1]), collation=UTF8MB4, labels=(b"new", b"old")),
    Spec("tags", 254, bytes([0xF8, 1]), collation=LATIN1, labels=(b"\xe9",)),
    Spec("flags", 16, bytes([3, 1])),
    Spec("at", 18, b"\6", visible=False),
    Spec("year", 13, unsigned=True),
    Spec("doc", 245, b"\4"),
    Spec("place", 255, b"\4", geometry=1),
    Spec("embedding", 242, b"\4", collation=BINARY),
    Spec("ratio", 4, b"\4", unsigned=False),
)


def reason(body: bytes) -> tuple[HaltReason, str]:
    with pytest.raises(Halted) as caught:
        parse(body)
    return caught.value.halt.reason, caught.value.halt.detail


def outcome(body: bytes) -> HaltReason | None:
    """Why it halts, or None when it parses."""
    try:
        parse(body)
    except Halted as halted:
        return halted.halt.reason
    return None


def test_a_full_table_map_gives_every_columns_description():
    """D5: names, types, lengths, signs, character sets, NULL, visibility as the map says."""
    table = parse(table_map(EVERYTHING))
    assert (table.shape.schema, table.shape.table) == ("shop", "orders")
    assert table.shape.columns == (
        Column(name="tiny", type="tinyint", unsigned=True, nullable=False),
        Column(name="price", type="decimal", precision=10, scale=2),
        Column(name="name", type="varchar", length=100, charset="utf8mb4", nullable=False),
        Column(name="raw", type="varbinary", length=20, charset="binary"),
        Column(name="long char", type="char", length=127, charset="utf8mb4"),
        Column(name="note", type="text", charset="latin1"),
        Column(name="blob", type="longblob", charset="binary"),
        Column(name="status", type="enum", charset="utf8mb4"),
        Column(name="tags", type="set", charset="latin1"),
        Column(name="flags", type="bit", length=11),
        Column(name="at", type="datetime", fsp=6, visible=False),
        Column(name="year", type="year"),
        Column(name="doc", type="json"),
        Column(name="place", type="point"),
        Column(name="embedding", type="vector"),
        Column(name="ratio", type="float"),
    )
    assert table.wire[7].labels == (b"new", b"old")
    assert table.wire[8].labels == (b"\xe9",)


def test_a_simple_key_gives_positions_in_key_order():
    """D5: the key's columns are those the server names, in its order."""
    columns = [integer("a", nullable=False), integer("b"), integer("c", nullable=False)]
    table = parse(table_map(columns, key=bytes([2, 0])))
    assert table.shape.key == (2, 0)
    assert [column.key_position for column in table.shape.columns] == [1, None, 0]
    assert table.key_prefixes == (0, 0)


def test_a_key_with_prefixes_keeps_its_columns_and_tells_the_prefixes():
    """D5: whole values are unique where their prefixes are, so the key stays the key."""
    columns = [integer("a", nullable=False), varchar("t", nullable=False)]
    fields = full_metadata(columns) | {9: bytes([1, 10, 0, 0])}
    table = parse(table_map(columns, fields=fields))
    assert table.shape.key == (1, 0)
    assert table.key_prefixes == (10, 0)


def test_a_table_without_a_key_has_none():
    """D5: nothing is chosen where the server names nothing."""
    assert parse(table_map([integer("a")])).shape.key == ()


@pytest.mark.parametrize(
    "key", [bytes([1]), bytes([0, 0]), bytes([252, 0, 1])], ids=["outside", "twice", "far outside"]
)
def test_an_impossible_key_halts(key):
    """R266: a key over columns that are not there is corruption."""
    assert reason(table_map([integer("a")], key=key))[0] is HaltReason.EVENT_CORRUPT


def test_default_collations_apply_to_all_but_the_named_columns():
    """The short form names one collation and the exceptions by place among text columns."""
    columns = [varchar("a"), integer("n"), varchar("b"), varchar("c")]
    fields = full_metadata(columns)
    del fields[3]
    fields[2] = packed(UTF8MB4) + bytes([1, LATIN1])
    shape = parse(table_map(columns, fields=fields)).shape
    assert [column.charset for column in shape.columns] == ["utf8mb4", None, "latin1", "utf8mb4"]


def test_enum_and_set_have_collations_of_their_own():
    """Their default form counts ENUM and SET columns only."""
    columns = [
        varchar("a"),
        Spec("e", 254, bytes([0xF7, 1]), collation=UTF8MB4, labels=(b"x",)),
        Spec("s", 254, bytes([0xF8, 1]), collation=UTF8MB4, labels=(b"y",)),
    ]
    fields = full_metadata(columns)
    del fields[11]
    fields[10] = bytes([LATIN1, 1, 33])
    shape = parse(table_map(columns, fields=fields)).shape
    assert [column.charset for column in shape.columns] == ["utf8mb4", "latin1", "utf8mb3"]


def test_a_default_collation_for_a_column_that_is_not_there_halts():
    """R266: an exception for a place beyond the text columns is corruption."""
    fields = full_metadata([varchar("a")])
    del fields[3]
    fields[2] = packed(UTF8MB4) + bytes([1, LATIN1])
    assert reason(table_map([varchar("a")], fields=fields))[0] is HaltReason.EVENT_CORRUPT


@pytest.mark.parametrize(
    ("missing", "word"),
    [
        (1, "signs"),
        (3, "collations"),
        (4, "column names"),
        (5, "set labels"),
        (6, "enum labels"),
        (7, "geometry types"),
        (11, "collations"),
    ],
)
def test_metadata_that_is_not_full_halts_naming_the_table(missing, word):
    """R266: with binlog_row_metadata=MINIMAL nothing is guessed."""
    fields = full_metadata(EVERYTHING)
    del fields[missing]
    found = reason(table_map(EVERYTHING, fields=fields))
    assert found == (HaltReason.BINLOG_ROW_METADATA_NOT_FULL, f"shop.orders: no {word}")


def test_a_server_without_visibility_has_only_visible_columns():
    """Servers before 8.0.23 have neither the field nor invisible columns."""
    columns = [integer("a")]
    fields = full_metadata(columns)
    del fields[12]
    assert parse(table_map(columns, fields=fields)).shape.columns[0].visible


def test_unknown_fields_are_passed_over_by_their_length():
    """D22: newer servers add fields; vector dimensions (13) are one of them."""
    tail = field(13, b"\3") + field(200, bytes(70_000))
    assert parse(table_map([integer("a")], tail=tail)).shape.names == ("a",)


@pytest.mark.parametrize("number", [0, 6, 14, 20, 21, 100, 243, 244, 247, 249, 253])
def test_a_type_without_known_metadata_halts_naming_the_column(number):
    """R266: a map with such a type cannot be read past it, so it is refused whole."""
    columns = [integer("a"), Spec("odd", number)]
    found = reason(table_map(columns))
    name = FieldType(number).name if number not in (21, 100) else f"type {number}"
    assert found == (HaltReason.UNSUPPORTED_COLUMN_TYPE, f"shop.orders.odd: {name}")


def test_an_unknown_collation_halts_naming_the_column():
    """D27: a collation of a newer server is no guess."""
    found = reason(table_map([varchar("a", collation=2047)]))
    assert found[0] is HaltReason.UNSUPPORTED_COLUMN_TYPE
    assert found[1] == "shop.orders.a: unknown collation 2047"


@pytest.mark.parametrize(
    "column",
    [
        Spec("a", 246, bytes([66, 0]), unsigned=False),
        Spec("a", 246, bytes([10, 11]), unsigned=False),
        Spec("a", 246, bytes([0, 0]), unsigned=False),
        Spec("a", 246, bytes([65, 31]), unsigned=False),
        Spec("a", 16, bytes([8, 1])),
        Spec("a", 16, bytes([0, 0])),
        Spec("a", 16, bytes([1, 8])),
        Spec("a", 17, b"\7"),
        Spec("a", 18, b"\7"),
        Spec("a", 19, b"\xff"),
        Spec("a", 252, b"\0", collation=UTF8MB4),
        Spec("a", 252, b"\5", collation=UTF8MB4),
        Spec("a", 245, b"\0"),
        Spec("a", 254, bytes([0xF7, 3]), collation=UTF8MB4, labels=(b"x",)),
        Spec("a", 254, bytes([0xF8, 5]), collation=UTF8MB4, labels=(b"x",)),
        Spec("a", 254, bytes([0x01, 5]), collation=UTF8MB4),
        Spec("a", 255, b"\4", geometry=8),
    ],
    ids=str,
)
def test_metadata_that_no_server_writes_halts(column):
    """R266: impossible precisions, widths and real types are corruption."""
    assert reason(table_map([column]))[0] is HaltReason.EVENT_CORRUPT


@pytest.mark.parametrize(
    "fields",
    [
        {4: counted(b"a") + counted(b"b")},
        {4: b"\5ab"},
        {4: b"\xfb"},
        {4: counted(b"\xff")},
        {4: counted(b"a"), 1: b""},
        {4: counted(b"a"), 1: b"\0\0"},
        {4: counted(b"a"), 1: b"\0", 12: b"\0\0"},
        {4: counted(b"a"), 1: b"\0", 9: b"\0"},
        {4: counted(b"a"), 1: b"\0", 6: b"\1\1x"},
        {4: counted(b"a"), 1: b"\0", 6: b"\xfa"},
    ],
    ids=str,
)
def test_fields_that_do_not_fit_the_columns_halt(fields):
    """R266: too many, too few or cut off values are corruption, never a best effort."""
    columns = [integer("a")]
    if 6 in fields:
        columns = [*columns, Spec("e", 254, bytes([0xF7, 1]), collation=UTF8MB4, labels=(b"x",))]
        fields = full_metadata(columns) | {6: fields[6] + b"\1\1y"}
    assert reason(table_map(columns, fields=fields))[0] is HaltReason.EVENT_CORRUPT


def test_a_field_that_stands_there_twice_halts():
    """R266: which of the two holds would be a guess."""
    tail = field(4, counted(b"b"))
    assert reason(table_map([integer("a")], tail=tail))[0] is HaltReason.EVENT_CORRUPT


def test_names_may_hold_any_character():
    """Names are data, whatever is in them."""
    names = ["", "a.b", "`", '"', "'", "\\", "\n", "%s", "é", "日", "{0}", "a" * 300]
    shape = parse(table_map([integer(name) for name in names])).shape
    assert list(shape.names) == names


def test_4096_columns_with_long_names_are_read():
    """The server's own limit, and a map of over 64 KiB."""
    body = table_map([integer(f"c{place:04d}{'é' * 30}") for place in range(4096)])
    assert len(body) > 1 << 16
    assert len(parse(body).shape.columns) == 4096


@pytest.mark.parametrize("count", [0, 4097])
def test_a_column_count_beyond_the_servers_limits_halts(count):
    """R266: no table has none or over 4096 columns."""
    columns = [integer("a")] * count
    assert reason(table_map(columns))[0] is HaltReason.EVENT_CORRUPT


def test_peeking_reads_the_name_and_nothing_else():
    """A filtered table costs only its names, even when the rest is broken."""
    body = table_map([integer("a")], schema="é".encode(), table=b"t" * 64)
    cut = body[: 1 + 2 + 1 + 1 + 64 + 1]
    assert peek_name(body) == peek_name(cut) == ("é", "t" * 64)


@pytest.mark.parametrize("body", [b"", b"\1", b"\1a", b"\1a\0", b"\1a\0\1b", b"\1a\1\1b\0"])
def test_peeking_into_cut_off_names_halts(body):
    """R266: names that are not there or not ended are corruption."""
    with pytest.raises(Halted) as caught:
        peek_name(body)
    assert caught.value.halt.reason is HaltReason.EVENT_CORRUPT


def test_every_truncation_halts():
    """R266: a body cut anywhere never parses and never raises anything else."""
    fields = full_metadata(EVERYTHING)
    body = table_map(EVERYTHING, fields=fields)
    # A body cut between two fields is whole but not full; visibility, the last one, may be absent.
    optional = sum(len(field(number, value)) for number, value in fields.items())
    starts = {len(body) - optional}
    for number in sorted(fields):
        starts.add(max(starts) + len(field(number, fields[number])))
    starts -= {len(body), len(body) - len(field(12, fields[12]))}
    for cut in range(len(body) - len(field(12, fields[12]))):
        found = outcome(body[:cut])
        assert found is HaltReason.EVENT_CORRUPT or (cut in starts and found is not None)


@given(st.data())
def test_mutated_table_maps_parse_or_halt(data):
    """R266: whatever the bytes, only Halted leaves."""
    body = bytearray(table_map(EVERYTHING, key=b"\0"))
    for _ in range(data.draw(st.integers(1, 6))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        table = parse(bytes(body))
    except Halted:
        return
    assert len(table.shape.columns) == len(table.wire)


@given(st.binary(max_size=300))
def test_random_bytes_parse_or_halt(body):
    """R266: also bytes that never were a table map."""
    assert outcome(body) is None or outcome(body) in HaltReason
