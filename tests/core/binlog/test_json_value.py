"""Binary JSON to text: every type, both forms, and documents that no server writes."""

import json
import struct
from struct import pack

import pytest
from helpers.json_bytes import Int, Opaque, document, length
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.binlog.json_value import MAX_DEPTH, json_text

FAILURES = (ValueError, IndexError, struct.error)


def packed_time(hours, minutes, seconds, micros):
    return (hours << 12 | minutes << 6 | seconds) << 24 | micros


def packed_day(year, month, day):
    return ((year * 13 + month) << 5 | day) << 41


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-1, "-1"),
        (-32768, "-32768"),
        (32767, "32767"),
        (65535, "65535"),
        (-(1 << 31), "-2147483648"),
        ((1 << 31) - 1, "2147483647"),
        ((1 << 32) - 1, "4294967295"),
        (-(1 << 63), "-9223372036854775808"),
        ((1 << 64) - 1, "18446744073709551615"),
        (1.0, "1.0"),
        ("", '""'),
        ("é😀", '"é😀"'),
        ('"\\/\b\f\n\r\t\0\x1f\x7f', '"\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f"'),
        ("a" * 127, '"' + "a" * 127 + '"'),
        ("a" * 128, '"' + "a" * 128 + '"'),
        ("a" * 16384, '"' + "a" * 16384 + '"'),
        (Opaque(246, bytes([4, 2]) + b"\x8c\x22"), "12.34"),
        (Opaque(246, bytes([31, 30]) + b"\x80" + bytes(14)), "0." + "0" * 30),
        (Opaque(10, pack("<q", packed_day(2024, 2, 29))), '"2024-02-29"'),
        (
            Opaque(12, pack("<q", packed_day(2024, 2, 29) + packed_time(23, 59, 58, 7))),
            '"2024-02-29 23:59:58.000007"',
        ),
        (Opaque(7, pack("<q", packed_day(0, 0, 0))), '"0000-00-00 00:00:00.000000"'),
        (Opaque(11, pack("<q", -packed_time(838, 59, 59, 0))), '"-838:59:59.000000"'),
        (Opaque(11, pack("<q", packed_time(1, 2, 3, 999_999))), '"01:02:03.999999"'),
        (Opaque(15, b"\0\xff\x10"), '"base64:type15:AP8Q"'),
        (Opaque(16, b""), '"base64:type16:"'),
        (Opaque(15, bytes(57)), '"base64:type15:' + "A" * 76 + '"'),
        (Opaque(15, bytes(58)), '"base64:type15:' + "A" * 76 + '\\nAA=="'),
    ],
    ids=repr,
)
def test_each_value_has_its_text_alone_in_an_array_and_under_a_key(value, text, large):
    """R266: the text is what SELECT prints, wherever the value stands."""
    assert json_text(document(value, large=large)) == text
    assert json_text(document([value, 1], large=large)) == f"[{text}, 1]"
    assert json_text(document({"k": value, "l": 1}, large=large)) == f'{{"k": {text}, "l": 1}}'


def test_an_empty_value_is_the_null_that_the_server_prints():
    """R266: INSERT IGNORE leaves no bytes in place of NULL in a NOT NULL column."""
    assert json_text(b"") == "null"


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_empty_containers_have_nothing_between_their_brackets(large):
    """R266: `{}` and `[]`, also inside others."""
    assert json_text(document([{}, []], large=large)) == "[{}, []]"
    assert json_text(document({}, large=large)) == "{}"


def test_keys_are_escaped_and_keep_the_servers_order():
    """R266: order is by length, then bytes, as the server stored it; nothing is sorted again."""
    value = {"": 1, "b": 2, "a\n": 3, '"': 4, "é": 5}
    assert json_text(document(value)) == '{"": 1, "b": 2, "a\\n": 3, "\\"": 4, "é": 5}'


def test_a_key_of_65535_bytes_is_read():
    """R266: a key's length has two bytes in both forms."""
    key = "k" * 65535
    assert json_text(document({key: 1}, large=True)) == f'{{"{key}": 1}}'


def test_documents_with_holes_and_values_out_of_order_are_read():
    """R266: in-place updates leave gaps and move values to where they fit."""
    raw = document({"a": "xxxx", "b": "yyyy"})
    first, second = raw.index(b"\4xxxx"), raw.index(b"\4yyyy")
    swapped = bytearray(raw)
    entries = 1 + 4 + 2 * 4
    swapped[entries + 1 : entries + 3] = pack("<H", second - 1)
    swapped[entries + 4 : entries + 6] = pack("<H", first - 1)
    swapped[second : second + 5] = b"\2zz\0\0"
    assert json_text(bytes(swapped)) == '{"a": "zz", "b": "xxxx"}'


def test_integers_wider_than_they_need_to_be_are_read():
    """R266: a value is read by its type byte, not by what would have been enough."""
    values = [Int(9, "q", 5), Int(10, "Q", 5), Int(7, "i", -5), Int(6, "H", 5)]
    assert json_text(document(values)) == "[5, 5, -5, 5]"


def test_documents_are_read_down_to_the_servers_depth_and_no_deeper():
    """R266: the server refuses the 101st level, so nobody can have stored it."""

    def nested(levels):
        value = 1
        for _ in range(levels):
            value = [value]
        return document(value)

    assert json_text(nested(MAX_DEPTH)) == "[" * 100 + "1" + "]" * 100
    with pytest.raises(ValueError, match="deeply"):
        json_text(nested(MAX_DEPTH + 1))


def test_entries_that_share_a_value_are_refused():
    """R266: otherwise a few kilobytes could print as gigabytes."""
    width = 60
    level = document(["x" * 50])
    raw = level[1:]
    for _ in range(8):
        head = 4 + 3 * width
        raw = pack("<HH", width, head + len(raw)) + pack("<BH", 2, head) * width + raw
    with pytest.raises(ValueError, match="lie on each other"):
        json_text(b"\2" + raw)


def test_shared_strings_are_refused():
    """R266: strings count by their bytes too."""
    width = 1000
    head = 4 + 3 * width
    body = length(5000) + b"x" * 5000
    raw = pack("<HH", width, head + len(body)) + pack("<BH", 12, head) * width + body
    with pytest.raises(ValueError, match="lie on each other"):
        json_text(b"\2" + raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"\x0d",
        b"\x0e\0",
        b"\xff",
        b"\4\3",
        b"\4",
        b"\5\1",
        b"\x0b" + pack("<d", float("inf")),
        b"\x0b" + pack("<d", float("nan")),
        b"\x0c\x05abc",
        b"\x0c\xff\xff\xff\xff\xff\x01a",
        b"\x0c\x80",
        b"\x0f",
        b"\x0f\xf6\x02\x42\x00",
        b"\x0f\xf6\x02\x04\x05",
        b"\x0f\xf6\x03\x04\x02\x8c",
        b"\x0f\xf6\x00",
        b"\x0f\x0a\x07" + bytes(7),
        b"\x0f\x0b\x08" + pack("<q", packed_time(839, 0, 0, 0)),
        b"\x0f\x0b\x08" + pack("<q", packed_time(0, 60, 0, 0)),
        b"\x0f\x0c\x08" + pack("<q", packed_time(24, 0, 0, 0)),
        b"\x0f\x0c\x08" + pack("<q", -1),
        b"\x0f\x0a\x08" + pack("<q", packed_day(10000, 1, 1)),
        b"\0\1\0",
        b"\0\1\0\x05\0",
        b"\2\1\0\x08\0\5\1\0",
        b"\2\1\0\7\0\x0c\0\0",
        b"\2\1\0\7\0\x0c\6\0",
        b"\0\1\0\x0c\0\x0b\0\2\0\5\1\0k",
        b"\0\1\0\x0c\0\0\0\1\0\5\1\0k",
        b"\1\xff\xff\xff\xff\xff\xff\xff\xff",
    ],
    ids=bytes.hex,
)
def test_documents_that_no_server_writes_are_refused(raw):
    """R266: a wrong type, length, offset or number is never read as something else."""
    with pytest.raises(FAILURES):
        json_text(raw)


def test_text_that_is_not_utf8_is_refused_as_text():
    """D27: the caller tells undecodable text from corruption by the exception."""
    with pytest.raises(UnicodeDecodeError):
        json_text(b"\x0c\1\xff")


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), inner)
    ),
    max_leaves=12,
)


@given(JSON_VALUES, st.booleans())
def test_the_text_reads_back_to_the_same_value(value, large):
    """R266: Python's own parser agrees, in both forms."""
    found = json.loads(json_text(document(value, large=large)))
    assert found == value
    assert json.dumps(found) == json.dumps(value)


@given(st.data())
def test_mutated_documents_give_text_or_a_named_failure(data):
    """R266: no other exception, no endless loop, no growth beyond the bytes that are there."""
    value = {"a": [1, "two", 3.0, None], "b": {"c": "d" * 40, "e": -70000}, "f": Opaque(15, b"x")}
    raw = bytearray(document(value, large=data.draw(st.booleans())))
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place] = data.draw(st.one_of(st.integers(0, 255), st.sampled_from([0, 1, 2, 3, 15])))
    size = data.draw(st.integers(0, len(raw)))
    try:
        text = json_text(bytes(raw[:size]))
    except FAILURES:
        return
    # A control character of one byte prints as six; keys and values bring their punctuation.
    assert len(text) <= 8 * len(raw) + 64
