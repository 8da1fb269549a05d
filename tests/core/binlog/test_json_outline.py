"""Documents taken apart: every byte has a role, or there is no outline."""

import pytest
from helpers.json_bytes import Opaque, document

from capstan.core.binlog.json_outline import Role, outline_of

SAMPLES = [
    {"a": 1, "b": "text", "c": [1.5, None, {"d": True}]},
    [],
    {},
    ["x" * 200, Opaque(15, b"\xff")],
    {"k": {"k": {"k": {"k": [1]}}}},
]


@pytest.mark.parametrize("value", SAMPLES)
def test_the_fields_are_all_the_bytes_in_order(value):
    """R266: nothing of the document is left out or taken twice."""
    raw = document(value)
    outline = outline_of(raw)
    assert b"".join(field.raw for field in outline.fields) == raw
    places = [field.at for field in outline.fields]
    assert places == sorted(places)


def test_documents_of_one_kind_differ_in_values_and_lengths_only():
    """R266: other keys, other types and other nesting are another kind."""
    base = {"a": 1, "b": "text", "c": [1.5]}

    def kind(value):
        return outline_of(document(value)).kind

    assert kind(base) == kind({"a": 9, "b": "", "c": [2.5]})
    for other in ({"b": "x" * 200}, {"b": 1}, {"a": 70000}, {"c": [1.5, 1]}, {"c": {"d": 1.5}}):
        assert kind(base) != kind(base | other)
    assert kind(base) != kind({"a": 1, "x": "text", "c": [1.5]})


def test_lengths_are_those_of_texts():
    """R266: numbers and keys have none that could vary."""
    outline = outline_of(document({"a": "xy", "b": 1.5, "c": ["", "z" * 130]}))
    assert sorted(map(len, outline.texts.values())) == [0, 2, 130]
    assert all(outline.fields[index].role is Role.TEXT for index in outline.texts)


@pytest.mark.parametrize(
    "raw",
    [
        document("text"),
        document(5),
        document({"a": 1}, large=True),
        document([1] * 65),
        document({"k" * 1025: 1}),
        document([[[[[[[[[1]]]]]]]]]),
        document([1, 2]) + b"\0",
        document(["ab"])[:-1],
        b"\2\1\0\x0a\0\x0c\x08\0\0\1x",
    ],
)
def test_documents_not_as_expected_have_no_outline(raw):
    """R266: scalars, the large form, too much of anything, holes, and bytes behind the end."""
    assert outline_of(raw) is None
