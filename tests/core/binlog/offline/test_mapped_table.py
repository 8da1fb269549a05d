"""Tables of files that say much about them, or little."""

import struct
from collections.abc import Sequence
from typing import Any

import pytest
from helpers.row_decoding import short
from helpers.table_bytes import (
    Spec,
    full_metadata,
    image,
    integer,
    row_event,
    table_map,
    varchar,
)

from capstan.core.binlog import row_compiler
from capstan.core.binlog import table_map as shared
from capstan.core.binlog.offline.decode_errors import DecodeErrorKind
from capstan.core.binlog.offline.mapped_table import MappedTable, SignednessError
from capstan.core.halts import Halted, HaltReason

TINY, SHORT, DOUBLE, LONGLONG, INT24, YEAR, BLOB, STRING, GEOMETRY = (
    1,
    2,
    5,
    8,
    9,
    13,
    252,
    254,
    255,
)

MIXED = (
    Spec("t", TINY, unsigned=True),
    Spec("f", DOUBLE, b"\x08", unsigned=False),
    Spec("m", INT24, unsigned=False),
    Spec("y", YEAR, unsigned=True),
    Spec("d", 246, b"\x05\x02", unsigned=True),
    Spec("b", LONGLONG, unsigned=True),
    varchar("v"),
)
"""Integers between other columns that have a sign."""
MINIMAL = (1, 2, 3, 7)
"""The fields that binlog_row_metadata=MINIMAL sends."""


def mapped(columns: Sequence[Spec], *fields: int) -> MappedTable:
    """A table of which only these fields of the optional metadata are known."""
    full = full_metadata(columns)
    return MappedTable(table_map(columns, fields={n: full[n] for n in fields if n in full}))


def decoded(
    table: MappedTable, values: Sequence[bytes | None], flags: Sequence[bool] | None = None
) -> tuple[Any, ...]:
    """One row of a table."""
    event = row_event(len(values), [image(len(values), values)])
    (row,) = table.rows(flags).images(event, 0, len(event), False)
    return row


@pytest.mark.parametrize("columns", [MIXED, (integer("a"),), (varchar("a"), varchar("b"))])
def test_a_table_of_which_all_is_known_is_that_of_the_online_path(columns: Sequence[Spec]) -> None:
    """R214, R224: with full metadata shape and decoder are what the shared parser makes."""
    body = table_map(columns)
    table = MappedTable(body)
    online = row_compiler.compile_rows(shared.parse(body))
    assert table.names_known
    assert table.signs_known
    assert table.rows().shape.columns == online.shape.columns
    assert table.rows().source == online.source
    assert table.rows() is table.rows()
    assert (table.schema, table.table, table.column_count) == ("shop", "orders", len(columns))


def test_columns_without_names_are_called_by_their_place() -> None:
    """R214: where the map has no names, columns are "@1", "@2", …, and this is said."""
    table = mapped(MIXED, *MINIMAL)
    assert not table.names_known
    assert table.rows().shape.names == ("@1", "@2", "@3", "@4", "@5", "@6", "@7")
    assert table.signs_known
    many = [integer(f"c{place}") for place in range(300)]
    assert mapped(many, 1).rows().shape.names[-1] == "@300"


def test_the_signs_of_integers_are_told_apart_from_other_signs() -> None:
    """R202: flags are one for each integer column, whatever other columns have a sign."""
    assert mapped(MIXED, *MINIMAL).unsigned == (True, False, True)
    assert mapped(MIXED).unsigned is None
    assert mapped(MIXED).integers == 3


@pytest.mark.parametrize("flags", [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)])
def test_integers_are_read_as_the_caller_says(flags: tuple[bool, ...]) -> None:
    """R202: where the map has no signs, each flag decides about its integer column."""
    table = mapped(MIXED)
    values = [b"\xff", struct.pack("<d", 1.5), b"\xff" * 3, b"\x64", b"\x80\x01\x05"]
    row = decoded(table, [*values, b"\xff" * 8, b"\x02\x00ab"], flags)
    expected = [
        (1 << bits) - 1 if flag else -1 for bits, flag in zip((8, 24, 64), flags, strict=True)
    ]
    assert [row[0], row[2], row[5]] == expected
    assert (row[1], row[3], str(row[4]), row[6]) == (1.5, 2000, "1.05", b"ab")
    assert [c.unsigned for c in table.rows(flags).shape.columns if "int" in c.type] == [
        bool(flag) for flag in flags
    ]


def test_decoders_are_kept_by_their_flags() -> None:
    """R202: the same flags give the same decoder; a caller that errs on and on costs no memory."""
    table = mapped((integer("a"),))
    assert table.rows([True]) is table.rows((True,))
    assert table.rows([True]) is not table.rows([False])
    assert table.rows(values=False) is table.rows([False])
    many = mapped([integer(f"c{place}") for place in range(6)])
    first = many.rows([False] * 6)
    for number in range(1, 64):
        many.rows([bool(number >> place & 1) for place in range(6)])
    assert many.rows([False] * 6) is not first


@pytest.mark.parametrize(
    ("fields", "flags", "kind"),
    [
        ((), None, DecodeErrorKind.SIGNEDNESS_MISSING),
        ((), (), DecodeErrorKind.SIGNEDNESS_CONFLICT),
        ((), (True,) * 7, DecodeErrorKind.SIGNEDNESS_CONFLICT),
        (MINIMAL, (True, True, True), DecodeErrorKind.SIGNEDNESS_CONFLICT),
        (MINIMAL, (True, False), DecodeErrorKind.SIGNEDNESS_CONFLICT),
    ],
)
def test_signs_are_given_once_and_agree(
    fields: tuple[int, ...], flags: tuple[bool, ...] | None, kind: DecodeErrorKind
) -> None:
    """R202: none, too few, too many and contradicting flags are refused, naming the table."""
    with pytest.raises(SignednessError) as caught:
        mapped(MIXED, *fields).rows(flags)
    assert caught.value.kind is kind
    assert caught.value.detail.startswith("shop.orders has ")


def test_a_table_without_integers_needs_no_signs() -> None:
    """R202: no flag is asked for where there is nothing to decide; an empty answer is right."""
    table = mapped((varchar("a"), Spec("d", 246, b"\x05\x02", unsigned=True)))
    assert table.signs_known
    assert table.rows(()) is table.rows()
    assert mapped(MIXED, *MINIMAL).rows((True, False, True)).shape.columns[0].unsigned


def test_text_of_an_unknown_character_set_is_bytes() -> None:
    """R214: without collations texts are their bytes, nothing padded, and no charset is named."""
    columns = (
        varchar("v", 300),
        Spec("c", STRING, b"\xfe\x08", collation=63),
        Spec("t", BLOB, b"\x02", collation=255),
    )
    table = mapped(columns)
    row = decoded(table, [b"\x02\x00\xff\xfe", short(b"ab"), b"\x03\x00\xe4\xf6\xfc"])
    assert row == (b"\xff\xfe", b"ab", b"\xe4\xf6\xfc")
    shown = [(c.type, c.charset, c.length) for c in table.rows().shape.columns]
    assert shown == [("varchar", None, None), ("char", None, None), ("text", None, None)]
    known = mapped(columns, 3)
    assert decoded(known, [b"\x02\x00ab", short(b"ab"), b"\x02\x00ab"])[1] == b"ab" + bytes(6)


@pytest.mark.parametrize("size", [1, 2])
def test_an_enum_without_labels_is_its_number(size: int) -> None:
    """R214: where labels are unknown, an ENUM is the number of its label."""
    enum = Spec("e", STRING, bytes([247, size]), collation=255, labels=(b"a", b"b"))
    table = mapped((enum,))
    value = (200).to_bytes(size, "little")
    assert decoded(table, [value]) == (200,)
    (column,) = table.rows().shape.columns
    assert (column.type, column.charset, column.unsigned) == ("enum", None, False)
    assert decoded(mapped((enum,), 6, 11), [b"\x02\0"[:size]]) == ("b",)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
def test_a_set_without_labels_is_its_bits(size: int) -> None:
    """R214: where labels are unknown, a SET is the mask of its members."""
    members = Spec("s", STRING, bytes([248, size]), collation=255, labels=(b"a", b"b"))
    value = b"\xff" * size
    assert decoded(mapped((members,)), [value]) == ((1 << 8 * size) - 1,)
    assert decoded(mapped((members,), 5, 11), [b"\x03" + bytes(size - 1)]) == ("a,b",)


def test_a_geometry_of_unknown_type_is_a_geometry() -> None:
    """R214: its value needs no type."""
    table = mapped((Spec("g", GEOMETRY, b"\x04", geometry=1),))
    assert decoded(table, [struct.pack("<I", 3) + b"abc"]) == (b"abc",)
    assert table.rows().shape.columns[0].type == "geometry"


def test_the_key_is_kept_where_the_map_names_it() -> None:
    """R224: what the map does say stays, also when other fields are missing."""
    full = full_metadata(MIXED)
    body = table_map(MIXED, fields={1: full[1], 8: b"\x05\x00"})
    shape = MappedTable(body).rows().shape
    assert shape.key_columns == ("@6", "@1")
    assert [column.key_position for column in shape.columns] == [1, None, None, None, None, 0, None]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (table_map((Spec("a", 14),)), HaltReason.UNSUPPORTED_COLUMN_TYPE),
        (table_map((Spec("a", 14),), fields={}), HaltReason.UNSUPPORTED_COLUMN_TYPE),
        (table_map((integer("a"),), fields={1: b""}), HaltReason.EVENT_CORRUPT),
        (table_map((integer("a"),), fields={1: b"\0\0"}), HaltReason.EVENT_CORRUPT),
        (table_map((integer("a"),), tail=b"\x01"), HaltReason.EVENT_CORRUPT),
        (table_map((), fields={}), HaltReason.EVENT_CORRUPT),
        (b"", HaltReason.EVENT_CORRUPT),
    ],
)
def test_a_map_that_does_not_add_up_is_refused(body: bytes, reason: HaltReason) -> None:
    """R219: completing a map makes no bad one good."""
    with pytest.raises(Halted) as caught:
        MappedTable(body)
    assert caught.value.halt.reason is reason


@pytest.mark.parametrize("fields", [None, {}])
def test_every_cut_of_a_map_is_refused_or_says_less(fields: dict[int, bytes] | None) -> None:
    """R198, R219: a map that ends early is corrupt, or one with fewer optional fields."""
    body = table_map(MIXED, fields=fields)
    fixed = len(table_map(MIXED, fields={}))
    for end in range(len(body)):
        try:
            table = MappedTable(body[:end])
        except Halted as verdict:
            assert verdict.halt.reason is HaltReason.EVENT_CORRUPT  # noqa: PT017 - or no error
        else:
            assert end >= fixed
            assert table.column_count == len(MIXED)


def test_a_table_prints_its_name_only() -> None:
    """R217: no label and no bytes of the map in its repr."""
    assert repr(mapped(MIXED)) == "<MappedTable shop.orders, 7 columns>"
