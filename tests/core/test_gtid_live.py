"""GTID sets against the server's own arithmetic, text and bytes."""

import contextlib
from pathlib import Path
from struct import unpack_from
from typing import Any

import pytest
from helpers.mysql import PrivateServers, execute, gtid_executed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymysql.err import MySQLError

from capstan.core.gtid import MAX_NUMBER, Gtid, GtidSet
from capstan.demo.mysql_access import SqlServer

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "00000000-0000-0000-0000-000000000001"

sets = st.builds(
    GtidSet.of,
    st.frozensets(
        st.builds(
            Gtid,
            st.sampled_from([A, B]),
            st.sampled_from(["", "", "_9", "blue"]),
            st.integers(1, 9) | st.integers(MAX_NUMBER - 2, MAX_NUMBER),
        ),
        max_size=24,
    ),
)

PREVIOUS_GTIDS = 35


def one_line(text: str) -> str:
    return text.replace("\n", "")


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(pairs=st.lists(st.tuples(sets, sets), min_size=40, max_size=40))
def test_the_algebra_is_the_servers(
    mysql_server: SqlServer, pairs: list[tuple[GtidSet, GtidSet]]
) -> None:
    """R43, R108, D22: subset, difference, union and printed form, tags and highest numbers too."""
    row = (
        "SELECT GTID_SUBSET(%s, %s), GTID_SUBTRACT(%s, %s), GTID_SUBTRACT(CONCAT(%s, ',', %s), '')"
    )
    texts = [(str(a).upper(), str(b)) for a, b in pairs]
    with contextlib.closing(mysql_server.connect()) as connection:
        rows = execute(
            connection,
            " UNION ALL ".join([row] * len(pairs)),
            *(text for pair in texts for text in pair * 3),
        )
    found = [(bool(subset), one_line(rest), one_line(both)) for subset, rest, both in rows]
    assert found == [(a <= b, str(a - b), str(a | b)) for a, b in pairs]


def server_takes(connection: Any, text: str) -> bool:
    try:
        execute(connection, "SELECT GTID_SUBTRACT(%s, '')", text)
    except MySQLError:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "server"),
    [
        (f"{A}:{MAX_NUMBER}", True),
        (f"{A}:{MAX_NUMBER + 1}", False),
        (f"{A}:{'t' * 32}:1", True),
        (f"{A}:{'t' * 33}:1", False),
        (f"{A}:1:", False),
        (f"{A}:", False),
        (f"{A}:3-2", True),
        (f"{A}:01", True),
        (f"{A}: 1 - 3", True),
        (f",{A}:1,,", True),
        (f"{A}:a:b:1", True),
        (A, True),
    ],
)
def test_nothing_is_read_that_the_server_refuses(
    mysql_server: SqlServer, text: str, server: bool
) -> None:
    """R44: read is what the server prints; what it merely tolerates is refused, not coerced."""
    with contextlib.closing(mysql_server.connect()) as connection:
        assert server_takes(connection, text) is server
    printed = text in (f"{A}:{MAX_NUMBER}", f"{A}:{'t' * 32}:1")
    if printed:
        assert str(GtidSet.parse(text)) == text
    else:
        with pytest.raises(ValueError):
            GtidSet.parse(text)


def previous_gtids(log: Path) -> bytes:
    """The body of the PREVIOUS_GTIDS event near the head of a binlog file."""
    data, position = log.read_bytes(), 4
    while data[position + 4] != PREVIOUS_GTIDS:
        position += unpack_from("<I", data, position + 9)[0]
    size = unpack_from("<I", data, position + 9)[0]
    return data[position + 19 : position + size - 4]


def test_both_wire_layouts_are_what_the_server_writes(new_server: PrivateServers) -> None:
    """R43, D22: PREVIOUS_GTIDS without and with tags decodes to the server's set, and back."""
    server = new_server()
    with contextlib.closing(server.connect()) as connection:
        for sql in ("create database d", "create table d.t (a int)", "flush logs"):
            execute(connection, sql)
        plain = GtidSet.parse(gtid_executed(connection))
        plain_body = previous_gtids(max(server.data.glob("binlog.0*")))
        for tag in ("blue", "_a1", "blue"):
            execute(connection, f"set gtid_next='automatic:{tag}'")
            execute(connection, "insert into d.t values (1)")
        execute(connection, f"set gtid_next='{B}:9'")
        execute(connection, "insert into d.t values (2)")
        execute(connection, "set gtid_next='automatic'")
        execute(connection, "flush logs")
        text = gtid_executed(connection)
    body = previous_gtids(max(server.data.glob("binlog.0*")))
    tagged = GtidSet.parse(text)
    assert (str(tagged), tagged.count()) == (text, plain.count() + 4)
    assert (GtidSet.decode(body), tagged.encode()) == (tagged, body)
    assert (GtidSet.decode(plain_body), plain.encode()) == (plain, plain_body)
