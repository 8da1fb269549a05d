"""Names, shapes and the capture list."""

import pytest
from helpers.changes_builder import shape
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.tables import SYSTEM_SCHEMAS, CaptureList, CapturePattern, TableName, widened


def test_a_table_name_prints_as_it_is_written() -> None:
    """Schema, dot, table."""
    assert str(TableName("shop", "orders")) == "shop.orders"


def test_a_shape_knows_places_names_and_key() -> None:
    """D5: the key's columns in key order, wherever they stand in the row."""
    table = shape("shop.t", "c int", "a int", "b int", key=("b", "a"))
    assert table.names == ("c", "a", "b")
    assert table.index == {"c": 0, "a": 1, "b": 2}
    assert table.key == (2, 1)
    assert table.key_columns == ("b", "a")
    assert table.key_of((10, 20, 30)) == (30, 20)
    assert [column.key_position for column in table.columns] == [None, 1, 0]


def test_a_shape_without_a_key_has_no_key_values() -> None:
    """D5: None, so that nobody takes it for an empty key."""
    assert shape("shop.t", "a int").key_of((1,)) is None


def test_shapes_are_known_by_identity() -> None:
    """Two table maps are two shapes, even when they say the same."""
    assert shape("shop.t", "a int") != shape("shop.t", "a int")
    assert len({shape("shop.t", "a int"), shape("shop.t", "a int")}) == 2


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("shop.orders", ["shop.orders"], ["shop.order", "shop.orders2", "Shop.orders"]),
        ("shop.*", ["shop.orders", "shop."], ["shop2.orders", "xshop.orders"]),
        ("shop.order?", ["shop.orders", "shop.order_"], ["shop.order", "shop.orders2"]),
        ("*.orders", ["shop.orders", ".orders"], ["shop.orders2"]),
        ("s?op.*", ["shop.x", "stop.x"], ["sop.x"]),
        ("a.b.c", ["a.b.c"], ["a.bxc"]),
        ("shop.a+b(c)[d]", ["shop.a+b(c)[d]"], ["shop.aab"]),
        ("shop.line\nbreak*", ["shop.line\nbreak\n2"], ["shop.line"]),
    ],
)  # fmt: skip
def test_patterns_match_whole_names(pattern: str, matching: list[str], other: list[str]) -> None:
    """D16: `*` and `?` are the only wildcards, the first dot separates, case counts."""
    parsed = CapturePattern.parse(pattern)
    for name in matching:
        assert parsed.matches(*name.split(".", 1)), name
    for name in other:
        assert not parsed.matches(*name.split(".", 1)), name


@pytest.mark.parametrize("text", ["", "shop", ".", "shop.", ".orders", "*"])
def test_a_pattern_needs_both_parts(text: str) -> None:
    """D16: half a pattern is refused."""
    with pytest.raises(ValueError, match=r"^a capture pattern has the form schema\.table$"):
        CapturePattern.parse(text)


def test_only_a_pattern_without_wildcards_is_literal() -> None:
    """D16: a literal entry has to name an existing table."""
    assert CapturePattern.parse("shop.orders").literal
    assert not CapturePattern.parse("shop.order?").literal
    assert not CapturePattern.parse("s*.orders").literal


def test_a_star_never_reaches_over_the_dot() -> None:
    """D16: the schema part of a pattern says nothing about tables."""
    assert not CapturePattern.parse("a*.c").matches("a", "b.c")


def test_everything_leaves_out_the_servers_own_schemas() -> None:
    """D16: ALL is every table outside mysql, sys, information_schema, performance_schema."""
    everything = CaptureList.parse(None)
    assert everything.texts == ("*",)
    assert everything.covers("shop", "orders")
    for schema in SYSTEM_SCHEMAS:
        assert not everything.covers(schema, "t")
        assert not everything.covers(schema.upper(), "t")
        assert not everything.touches_schema(schema)
    assert everything.touches_schema("shop")


def test_an_empty_capture_list_is_refused() -> None:
    """D16: capturing nothing is a mistake, not a wish."""
    with pytest.raises(ValueError, match=r"^the capture list is empty$"):
        CaptureList.parse([])


def test_a_capture_list_covers_what_any_entry_covers() -> None:
    """D16: entries add up; their canonical form is sorted and without repeats."""
    capture = CaptureList.parse(["shop.*", "crm.people", "shop.*"])
    assert capture.texts == ("crm.people", "shop.*")
    assert capture.covers("shop", "orders")
    assert capture.covers("crm", "people")
    assert not capture.covers("crm", "orders")


def test_a_schema_is_touched_when_a_captured_table_could_lie_in_it() -> None:
    """D20: the test for schema changes of a whole database."""
    capture = CaptureList.parse(["shop_?.*", "crm.people"])
    assert capture.touches_schema("shop_1")
    assert capture.touches_schema("crm")
    assert not capture.touches_schema("shop_")
    assert not capture.touches_schema("crm2")


@pytest.mark.parametrize(
    ("accepted", "configured", "new"),
    [
        (["*"], ["shop.*", "*"], []),
        (["shop.*"], ["shop.*"], []),
        (["shop.*"], ["shop.orders", "shop.o?", "shop.*s"], []),
        (["shop.*"], ["shop.*", "crm.*"], ["crm.*"]),
        (["shop.orders"], ["shop.*"], ["shop.*"]),
        (["shop.*"], ["*"], ["*"]),
        (["*.orders"], ["shop.orders", "*.orders"], []),
        (["s*.*"], ["*.*"], ["*.*"]),
        (["shop.?"], ["shop.*"], ["shop.*"]),
        (["shop.?"], ["shop.??"], ["shop.??"]),
        (["shop.??"], ["shop.a?"], []),
        ([], ["shop.a"], ["shop.a"]),
        (["shop.a", "shop.b"], ["shop.a"], []),
    ],
)
def test_a_widened_list_names_what_is_new(
    accepted: list[str], configured: list[str], new: list[str]
) -> None:
    """D16: what no accepted entry covers whole is a widening; a narrower list is none."""
    assert widened(accepted, configured) == tuple(new)


NAMES = st.text("ab.", min_size=1, max_size=4)
ENTRIES = st.from_regex(r"[ab*?]{1,3}\.[ab*?.]{1,3}", fullmatch=True)


@given(wide=ENTRIES, narrow=ENTRIES, schema=st.text("ab", min_size=1, max_size=3), table=NAMES)
def test_an_entry_that_is_no_widening_adds_no_table(
    wide: str, narrow: str, schema: str, table: str
) -> None:
    """D16: when `widened` is silent, every table of the new entry was captured before."""
    if not widened([wide], [narrow]) and CapturePattern.parse(narrow).matches(schema, table):
        assert CapturePattern.parse(wide).matches(schema, table)
