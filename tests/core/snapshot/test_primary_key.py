"""Which keys a backfill accepts, and their text form."""

import pytest
from helpers.changes_builder import shape
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.halts import Halted
from capstan.core.snapshot.primary_key import decode_key, encode_key, key_types, require_key

INTEGERS = [
    "tinyint",
    "smallint unsigned",
    "mediumint",
    "int unsigned",
    "bigint",
    "bigint unsigned",
]
BYTES = ["binary(16)", "varbinary(20)"]
OTHERS = [
    "char(4)",
    "varchar(20)",
    "text",
    "tinytext",
    "decimal(5,2)",
    "float",
    "double",
    "date",
    "datetime",
    "timestamp(6)",
    "time",
    "year",
    "enum",
    "set",
    "bit",
    "json",
    "blob",
    "geometry",
    "vector",
    "uuid",
]

keys = st.lists(st.integers(-(2**63), 2**64 - 1) | st.binary(max_size=20), min_size=1, max_size=4)


@pytest.mark.parametrize("kind", INTEGERS + BYTES)
def test_integers_and_bytes_are_accepted(kind: str) -> None:
    """R140, R141: signed and unsigned integers of every width, BINARY and VARBINARY."""
    require_key(shape("shop.t", f"k {kind}", "v int", key=("k",)))


def test_composites_of_them_are_accepted_in_key_order() -> None:
    """R142, R151: the key's order counts, not the columns'."""
    mixed = shape("shop.t", "b binary(4)", "v text", "a int unsigned", key=("a", "b"))
    require_key(mixed)
    assert key_types(mixed) == (int, bytes)


@pytest.mark.parametrize("kind", OTHERS)
def test_every_other_type_is_refused(kind: str) -> None:
    """R143, R144, R166, D5: no second choice; the halt names table, column and type."""
    refused = shape("shop.t", f"k {kind}", "u int", key=("k",))
    assert key_types(refused) is None
    with pytest.raises(Halted) as caught:
        require_key(refused)
    name = kind.partition("(")[0]
    assert str(caught.value) == f"snapshot_pk_unsupported_type: shop.t: k is {name}"


def test_one_column_of_another_type_spoils_a_composite() -> None:
    """R145: all columns of the key must be accepted."""
    with pytest.raises(Halted, match=r"^snapshot_pk_unsupported_type: shop\.t: b is varchar$"):
        require_key(shape("shop.t", "a int", "b varchar(9)", key=("a", "b")))


def test_a_table_without_a_key_is_refused() -> None:
    """R149, R150: what the server names no key of has none."""
    with pytest.raises(Halted) as caught:
        require_key(shape("shop.t", "a int", "b int"))
    assert str(caught.value) == "snapshot_table_no_primary_key: shop.t"


def test_a_prefix_of_a_column_is_no_key_to_page_by() -> None:
    """D5: a primary key on a prefix does not give the order of the whole values."""
    table = shape("shop.t", "a int", "b varbinary(9)", key=("a", "b"))
    require_key(table, (0, 0))
    with pytest.raises(Halted, match=r"^snapshot_pk_unsupported_type: .* a prefix of b$"):
        require_key(table, (0, 5))


@given(keys)
def test_the_text_form_loses_nothing(values: list[int | bytes]) -> None:
    """R147, R148: both sides of 2^63, empty bytes and trailing zeros come back as they were."""
    assert decode_key(encode_key(tuple(values))) == tuple(values)


@pytest.mark.parametrize("text", ["", "1,", "x1", "xzz", "1.0", "+1", " 1", "1_0", "X00", "x0A"])
def test_other_text_is_refused_without_quoting_it(text: str) -> None:
    """R119, R265: a damaged key is an error whose message holds nothing of it."""
    with pytest.raises(ValueError) as caught:
        decode_key(text)
    assert caught.value.args == ("malformed key",)
    assert caught.value.__cause__ is None
