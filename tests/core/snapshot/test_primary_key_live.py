"""The order of accepted keys against the server's own."""

import random

import pytest
from helpers.mysql import Database
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

INTEGER_COLUMNS = {
    "tinyint": (-(2**7), 2**7 - 1),
    "smallint unsigned": (0, 2**16 - 1),
    "mediumint": (-(2**23), 2**23 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
    "bigint unsigned": (0, 2**64 - 1),
}


def values_of(kind: str) -> st.SearchStrategy[int | bytes]:
    if kind in INTEGER_COLUMNS:
        low, high = INTEGER_COLUMNS[kind]
        middle = (low + high + 1) // 2
        near = st.sampled_from([low, low + 1, middle - 1, middle, middle + 1, high - 1, high])
        return near | st.integers(low, high)
    few = st.lists(st.sampled_from([0, 1, 32, 97, 127, 128, 255]), max_size=4).map(bytes)
    return few.map(lambda value: value.ljust(4, b"\0")) if kind == "binary(4)" else few


@pytest.mark.parametrize(
    "columns",
    [
        ("tinyint",),
        ("bigint",),
        ("bigint unsigned",),
        ("binary(4)",),
        ("varbinary(4)",),
        ("mediumint", "varbinary(4)"),
        ("binary(4)", "smallint unsigned", "int"),
    ],
    ids=" ".join,
)
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_tuples_stand_in_the_servers_order(
    database: Database, columns: tuple[str, ...], data: st.DataObject
) -> None:
    """R146, R147: ORDER BY key, and `key >` each of them, are Python's, on both sides of 2^63."""
    some = st.tuples(*(values_of(kind) for kind in columns))
    keys = list(data.draw(st.sets(some, min_size=2, max_size=40)))
    random.Random(0).shuffle(keys)
    names = [f"k{place}" for place in range(len(columns))]
    key = ", ".join(names)
    definitions = ", ".join(f"{n} {kind} NOT NULL" for n, kind in zip(names, columns, strict=True))
    database.execute("DROP TABLE IF EXISTS ordered")
    database.execute(f"CREATE TABLE ordered ({definitions}, PRIMARY KEY ({key}))")
    marks = ", ".join(["%s"] * len(columns))
    for one in keys:
        database.execute(f"INSERT INTO ordered VALUES ({marks})", *one)
    assert database.execute(f"SELECT {key} FROM ordered ORDER BY {key}") == sorted(keys)
    behind = database.execute(f"SELECT {key} FROM ordered WHERE ({key}) > ({marks})", *keys[0])
    assert sorted(behind) == sorted(one for one in keys if one > keys[0])
