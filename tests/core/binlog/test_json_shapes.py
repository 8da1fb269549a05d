"""Generated code for JSON documents: it saves work and never changes a text."""

import pytest
from helpers.json_bytes import Opaque, document
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.binlog.json_shapes import JsonTexts
from capstan.core.binlog.json_value import json_text

ORDER = {
    "id": 5,
    "on": True,
    "qty": 60000,
    "sku": "A-1",
    "big": 1 << 40,
    "wide": -70000,
    "price": 12.5,
    "ratio": 4000000000,
    "total": (1 << 64) - 1,
    "inner": {"x": "é", "deep": {"y": None, "empty": {}}},
    "tags": ["a", 1, {"b": 2}],
    "odd": Opaque(15, b"\xff"),
}
VARIANTS = [
    ORDER,
    ORDER | {"id": -5, "on": None, "sku": 'q"\n', "price": 1e300},
    ORDER | {"id": 1 << 33, "on": "yes", "qty": 1.5, "sku": {"now": "object"}},
    ORDER | {"sku": "x" * 127},
    ORDER | {"sku": "x" * 128, "tags": []},
    ORDER | {"inner": {"other": 1}},
    ORDER | {"inner": "text", "price": [1], "big": True},
]


def learned(value, times=200):
    texts = JsonTexts(sightings=1)
    for _ in range(times):
        texts.text(document(value))
    return texts


@pytest.mark.parametrize("value", VARIANTS, ids=range(len(VARIANTS)))
def test_compiled_text_equals_the_judges_text(value):
    """R266: the types of the document that was learned are hints, never demands."""
    for base in VARIANTS:
        assert learned(base).text(document(value)) == json_text(document(value))


def test_other_keys_of_the_same_lengths_are_told_apart():
    """R266: the keys themselves are compared, not only their places."""
    texts = learned({"aa": 1, "bb": 2})
    assert texts.text(document({"aa": 1, "bc": 2})) == '{"aa": 1, "bc": 2}'
    assert texts.text(document({"aaa": 1, "b": 2})) == '{"aaa": 1, "b": 2}'


@pytest.mark.parametrize(
    "value", ["text", 5, None, {"k" * 2000: 1}, ["x"] * 65, {"s": "x" * 20000}]
)
def test_documents_without_an_outline_are_read_all_the_same(value):
    """R266: scalars, huge keys, many values and long texts have no code of their own."""
    texts = learned(value)
    assert texts._shapes == ()
    assert texts.text(document(value)) == json_text(document(value))


@pytest.mark.parametrize("value", [[1], {}, [], [[], {}, [{}]], {"": ""}, ["x" * 127, "x" * 128]])
def test_small_containers_of_every_kind_get_code(value):
    """R266: arrays, empty containers and texts with two bytes of length too."""
    texts = learned(value)
    assert len(texts._shapes) == 1
    assert texts._shapes[0](document(value)) == json_text(document(value))


def test_a_length_that_was_always_the_same_may_change():
    """R266: code that expected a length is written anew and reads it from the document."""
    texts = JsonTexts(sightings=4)
    for number in range(400):
        value = {"a": "x" * (5 if number < 200 else number % 100), "b": ["y" * 130, number]}
        assert texts.text(document(value)) == json_text(document(value))
    assert len(texts._shapes) == 1
    for size in (0, 1, 127):
        raw = document({"a": "x" * size, "b": ["y" * 130, 1]})
        assert texts._shapes[0](raw) == json_text(raw)
    assert texts._shapes[0](document({"a": "x" * 128, "b": ["y" * 130, 1]})) is None


def test_a_text_that_was_always_the_same_may_change():
    """R266: code that expected a text is written anew and reads it from the document."""
    texts = JsonTexts(sightings=4)
    for number in range(400):
        value = {"kind": "order" if number < 200 else f"kind{number % 9}", "n": number}
        assert texts.text(document(value)) == json_text(document(value))
    assert len(texts._shapes) == 1
    raw = document({"kind": "other", "n": 1})
    assert texts._shapes[0](raw) == json_text(raw)


def test_long_texts_are_not_kept():
    """R266: a text of over 64 bytes is read from the document, however often it is the same."""
    value = {"kind": "k" * 64, "page": "p" * 65}
    texts = learned(value)
    (samples,) = texts._samples.values()
    assert sorted(samples._texts.values(), key=str) == [65, b"k" * 64]
    other = document({"kind": "k" * 64, "page": "q" * 65})
    assert texts._shapes[0](other) == json_text(other)


@pytest.mark.parametrize("text", ["{0}", '"', "\\", "é", "", "{x1}"])
def test_a_text_that_is_always_the_same_is_printed_like_any_other(text):
    """R266: escapes and braces in a constant text are characters, not code."""
    value = {"kind": text, "n": 1}
    texts = learned(value)
    assert len(texts._shapes) == 1
    assert texts._shapes[0](document(value)) == json_text(document(value))
    assert texts._shapes[0](document({"kind": "x" * len(text.encode()), "n": 1})) in (
        None,
        json_text(document({"kind": "x" * len(text.encode()), "n": 1})),
    )


def test_large_documents_are_read_all_the_same():
    """R266: code is written for the small form only."""
    texts = JsonTexts(sightings=1)
    raw = document(ORDER, large=True)
    assert {texts.text(raw) for _ in range(50)} == {json_text(raw)}


def test_rare_keys_get_no_code_and_a_column_gets_a_bounded_number():
    """R266: code is written for keys that come often, six kinds of them at most."""
    texts = JsonTexts()
    for number in range(3000):
        texts.text(document({f"key{number}": 1}))
    assert texts._shapes == ()
    for kind in range(8):
        for _ in range(1000):
            texts.text(document({f"kind{kind}": 1}))
    assert len(texts._shapes) == 6
    assert texts.text(document({"kind7": 1})) == '{"kind7": 1}'


def test_counted_keys_take_bounded_memory():
    """R266: a column whose documents share no keys must not be remembered."""
    texts = JsonTexts()
    for number in range(5000):
        texts.text(document({f"key{number}": 1}))
    assert len(texts._samples) <= 260


def test_keys_never_become_code():
    """R266: a key is a constant of the generated function."""
    value = {'"+exit()+"': 1, "{0}": "{x0}", "\n    raise": 2, "\\": 3}
    assert learned(value).text(document(value)) == json_text(document(value))


SHAPES = [learned(value) for value in VARIANTS]
DOCUMENTS = [document(value) for value in VARIANTS]


@given(st.data())
def test_mutated_documents_get_the_judges_answer(data):
    """R266: for any bytes the code gives the judge's text or the judge's failure."""
    raw = bytearray(data.draw(st.sampled_from(DOCUMENTS)))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place] = data.draw(st.one_of(st.integers(0, 255), st.sampled_from([0, 2, 4, 5, 12])))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))]) if data.draw(st.booleans()) else raw
    expected = outcome(json_text, bytes(cut))
    for texts in SHAPES:
        assert outcome(texts.text, bytes(cut)) == expected


def outcome(read, raw):
    """The text, or the kind of failure."""
    try:
        return read(raw)
    except Exception as error:  # noqa: BLE001 - the kinds are compared
        return type(error)
