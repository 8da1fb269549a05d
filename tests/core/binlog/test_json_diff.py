"""Diffs of documents: what they do, and that nothing else leaves them."""

import json
import struct
from typing import Any

import pytest
from helpers.json_bytes import Opaque, document
from helpers.table_bytes import counted
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.binlog.bounded_reader import BoundedReader
from capstan.core.binlog.json_diff import apply_diffs
from capstan.core.binlog.json_value import MAX_DEPTH, json_text
from capstan.core.halts import Halted, HaltReason

REPLACE, INSERT, REMOVE = range(3)
BASE: dict[str, Any] = {"a": [1, [2, 3]], "b": {"x": "y"}, "n": -0.0}
FAILURES = (ValueError, IndexError, struct.error, Halted)


def diff(operation: int, path: str | bytes, *value: Any) -> bytes:
    """One diff as the server writes it."""
    raw = path.encode() if isinstance(path, str) else path
    return bytes([operation]) + counted(raw) + b"".join(counted(document(v)) for v in value)


def after(base: Any, *diffs: bytes) -> str:
    """The text of a document after these diffs."""
    return apply_diffs(json_text(document(base)), BoundedReader(b"".join(diffs), "diffs"))


@pytest.mark.parametrize(
    ("diffs", "expected"),
    [
        ([], '{"a": [1, [2, 3]], "b": {"x": "y"}, "n": -0.0}'),
        ([diff(REPLACE, "$.n", 7)], '{"a": [1, [2, 3]], "b": {"x": "y"}, "n": 7}'),
        ([diff(REPLACE, "$.a[1][0]", None)], '{"a": [1, [null, 3]], "b": {"x": "y"}, "n": -0.0}'),
        ([diff(REPLACE, "$.a[last]", {})], '{"a": [1, {}], "b": {"x": "y"}, "n": -0.0}'),
        ([diff(REPLACE, "$.a[last-1]", True)], '{"a": [true, [2, 3]], "b": {"x": "y"}, "n": -0.0}'),
        ([diff(INSERT, "$.a[0]", "i")], '{"a": ["i", 1, [2, 3]], "b": {"x": "y"}, "n": -0.0}'),
        ([diff(INSERT, "$.a[99]", 9)], '{"a": [1, [2, 3], 9], "b": {"x": "y"}, "n": -0.0}'),
        ([diff(INSERT, "$.a[last-2]", 9)], '{"a": [9, 1, [2, 3]], "b": {"x": "y"}, "n": -0.0}'),
        ([diff(INSERT, "$.a[last]", 9)], '{"a": [1, 9, [2, 3]], "b": {"x": "y"}, "n": -0.0}'),
        ([diff(REMOVE, "$.a"), diff(REMOVE, "$.b.x")], '{"b": {}, "n": -0.0}'),
        ([diff(REMOVE, "$.a[1][last]"), diff(REMOVE, "$.b")], '{"a": [1, [2]], "n": -0.0}'),
        (
            [diff(REMOVE, "$.n"), diff(INSERT, "$.n", []), diff(INSERT, "$.n[7]", "q")],
            '{"a": [1, [2, 3]], "b": {"x": "y"}, "n": ["q"]}',
        ),
    ],
)
def test_diffs_change_what_they_name_and_nothing_else(diffs: list[bytes], expected: str) -> None:
    """D22: replaced, inserted, removed; members and cells, also counted from the end."""
    assert after(BASE, *diffs) == expected


def test_new_members_stand_in_the_servers_order() -> None:
    """R266: shorter keys first, then by bytes and not by characters."""
    keys = ["zz", "é", "aaa", "b", "😀", "日b", "B", ""]
    diffs = [diff(INSERT, f"$.{json.dumps(key, ensure_ascii=False)}", 1) for key in keys]
    assert list(json.loads(after({"m": 0}, *diffs))) == [
        *("", "B", "b", "m", "zz", "é", "aaa", "日b", "😀"),
    ]


@pytest.mark.parametrize(
    "key", ["a b", 'q"t', "back\\slash", "d.o.t", "[0]", "$", "*", "\n\0", "😀", "", "é日", "last"]
)
def test_quoted_keys_are_any_text(key: str) -> None:
    """D22: what looks like a part of a path is one only outside of quotes."""
    path = f"$.{json.dumps(key, ensure_ascii=False)}.inner"
    assert after({key: {"inner": 1}}, diff(REPLACE, path, 2)) == json_text(
        document({key: {"inner": 2}})
    )


def test_values_keep_the_spelling_that_the_server_prints() -> None:
    """R266: decimals, days, bytes, big and odd numbers, beside a diff and inside one."""
    odd = [
        *(
            Opaque(246, bytes([4, 2]) + b"\x8c\x22"),
            Opaque(10, bytes(8)),
            Opaque(252, b"\xff" * 80),
        ),
        *((1 << 64) - 1, 1e300, 5e-324, -0.0, 100.0, '"\\\b\f\n\r\t\0/\u2028é😀'),
    ]
    text = json_text(document(odd))
    assert after({"k": odd}, diff(INSERT, "$.l", odd)) == f'{{"k": {text}, "l": {text}}}'


@pytest.mark.parametrize(
    "bad",
    [
        diff(3, "$.a", 1),
        diff(REPLACE, "$", 1),
        diff(REMOVE, "$"),
        diff(REPLACE, "$.none", 1),
        diff(REPLACE, "$.a[2]", 1),
        diff(REPLACE, "$.a[last-2]", 1),
        diff(REPLACE, "$.a.x", 1),
        diff(REPLACE, "$.b[0]", 1),
        diff(REPLACE, "$.n[0]", 1),
        diff(INSERT, "$.a.x", 1),
        diff(INSERT, "$.b[0]", 1),
        diff(INSERT, "$.b.x", 1),
        diff(INSERT, "$.n.x", 1),
        diff(INSERT, "$.none.x", 1),
        diff(REMOVE, "$.none"),
        diff(REMOVE, "$.a[2]"),
        diff(REMOVE, "$.n[0]"),
        diff(REMOVE, "$.a[0]", 1),
        diff(REPLACE, "$.a[0]"),
        diff(REPLACE, "", 1),
        diff(REPLACE, "a", 1),
        diff(REPLACE, "$a", 1),
        diff(REPLACE, "$.", 1),
        diff(REPLACE, "$.a[", 1),
        diff(REPLACE, "$.a[x]", 1),
        diff(REPLACE, "$.a[-1]", 1),
        diff(REPLACE, "$.a[last-]", 1),
        diff(REPLACE, "$.a[99999999999]", 1),
        diff(REPLACE, "$.a[0 to 1]", 1),
        diff(REPLACE, "$.*", 1),
        diff(REPLACE, "$**.x", 1),
        diff(REPLACE, "$.a[*]", 1),
        diff(REPLACE, '$."b', 1),
        diff(REPLACE, '$."\\q"', 1),
        diff(REPLACE, '$."a\nb"', 1),
        diff(REPLACE, b"$.\xff", 1),
        diff(REPLACE, f"${'.b' * (MAX_DEPTH + 1)}", 1),
        bytes([REPLACE]) + counted(b"$.n"),
        bytes([REPLACE]) + counted(b"$.n") + counted(b"\x0c\x05ab"),
        bytes([REPLACE]) + counted(b"$.n") + b"\x05\x04",
        bytes([REPLACE]) + b"\xfb$.n",
        bytes([REPLACE]) + b"\xfe" + b"\xff" * 8,
    ],
)
def test_a_diff_that_does_not_fit_is_refused(bad: bytes) -> None:
    """R266: nothing is passed over, completed or guessed."""
    with pytest.raises(FAILURES):
        after(BASE, bad)


def test_diffs_that_are_cut_off_are_corrupt() -> None:
    """R266: at every byte but those between two diffs."""
    first, second = diff(REPLACE, "$.a[1]", "text"), diff(REMOVE, "$.b")
    whole = first + second
    text = json_text(document(BASE))
    for size in set(range(1, len(whole))) - {len(first)}:
        with pytest.raises(Halted) as caught:
            apply_diffs(text, BoundedReader(whole, "the diffs of a.b.c", 0, size))
        assert caught.value.halt.reason is HaltReason.EVENT_CORRUPT
        assert caught.value.halt.detail == "the diffs of a.b.c ends early"


def test_a_document_never_grows_deeper_than_the_server_lets_it() -> None:
    """R266: diffs that nest into each other end in the same limit as a document."""
    steps = [diff(INSERT, f"${'.k' * depth}", {}) for depth in range(1, MAX_DEPTH)]
    assert after({}, *steps).count("{") == MAX_DEPTH
    with pytest.raises(ValueError, match="deep"):
        after({}, *steps, diff(INSERT, f"${'.k' * MAX_DEPTH}", {}))


def test_a_key_that_comes_twice_is_refused() -> None:
    """R266: no server writes such a document, and no diff could say which one it means."""
    twice = document({"a": 1, "b": 2}).replace(b"b", b"a")
    with pytest.raises(ValueError, match="twice"):
        apply_diffs(json_text(twice), BoundedReader(diff(REPLACE, "$.a", 3), "diffs"))


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 2, 255]), st.text('$.ab[]01last-"\\*', max_size=9)),
        max_size=3,
    ),
    st.binary(max_size=40),
    st.booleans(),
)
def test_any_bytes_are_a_text_or_a_refusal(
    steps: list[tuple[int, str]], tail: bytes, values: bool
) -> None:
    """R266: made-up diffs and bytes that never were one raise what is named, nothing else."""
    made = b"".join(
        diff(operation, f"${path}", *([{"a": 1}] if values and operation != REMOVE else []))
        for operation, path in steps
    )
    try:
        text = after(BASE, made, tail)
    except FAILURES:
        return
    assert json.loads(text) is not None
