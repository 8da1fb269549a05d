"""The search for sentinels: it finds them in every disguise, and only them."""

import base64
import logging
import pickle
from collections.abc import Callable

import attrs
import pytest
from helpers import sentinels
from helpers.sentinels import assert_clean, held, logged, raised, shown, variables

from capstan import GtidSet

TEXT = sentinels.ROW_TEXT
DISGUISES: dict[str, Callable[[str], str | bytes]] = {
    "a text": str,
    "a part of a text": lambda text: f"1 of {text[: len(sentinels.STEM)]}…",
    "capitals": str.upper,
    "bytes": str.encode,
    "a repr of bytes": lambda text: repr(text.encode()),
    "UTF-16": lambda text: text.encode("utf-16"),
    "hexadecimal": lambda text: text.encode().hex(),
    "capital hexadecimal": lambda text: text.encode().hex().upper(),
    "base64": lambda text: base64.b64encode(text.encode()),
    "base64, one byte on": lambda text: base64.b64encode(b"-" + text.encode()),
    "base64, two bytes on": lambda text: base64.b64encode(b"--" + text.encode() + b"-").decode(),
    "a pickle": pickle.dumps,
    "a key": lambda _: f"id={sentinels.KEY + 7}",
    "a packed key": lambda _: (sentinels.KEY + 7).to_bytes(4, "little"),
    "a packed key in base 16": lambda _: (sentinels.KEY + 7).to_bytes(4, "big").hex(),
    "a number": lambda _: str(sentinels.BIG),
    "a decimal": lambda _: f"Decimal('{sentinels.DECIMAL}')",
    "a double": lambda _: repr([sentinels.DOUBLE]),
    "a date": lambda _: "datetime.date(1987, 6, 5)",
    "a time": lambda _: sentinels.TIME,
}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_the_search_sees_through_disguises(disguise: str) -> None:
    """R265: what comes out in another form has come out."""
    with pytest.raises(AssertionError, match="somewhere"):
        assert_clean(("elsewhere", "nothing"), ("somewhere", DISGUISES[disguise](TEXT)))


def test_the_search_is_not_satisfied_with_nothing() -> None:
    """R265: an empty list of channels is a mistake of the test, and clean ones are clean."""
    with pytest.raises(AssertionError, match="nothing was looked through"):
        assert_clean()
    assert_clean(("a text", "shop.orders"), ("bytes", bytes(range(256))))


@attrs.frozen(repr=False)
class _Closed:
    secret: str


def _failed(error: Exception, by: Exception | None = None) -> Exception:
    with pytest.raises(type(error)) as caught:
        raise error from by
    return caught.value


def test_the_search_follows_an_exception_to_its_roots() -> None:
    """R265: causes, hidden contexts, arguments, attributes and notes count."""
    hidden = ValueError("harmless")
    hidden.__context__ = KeyError(TEXT)
    hidden.__suppress_context__ = True
    noted, attributed = ValueError("harmless"), ValueError("harmless")
    noted.add_note(TEXT)
    attributed.row = TEXT  # type: ignore[attr-defined]
    for error in (hidden, noted, attributed, ValueError(TEXT), _failed(OSError(), OSError(TEXT))):
        with pytest.raises(AssertionError):
            assert_clean(*raised("it", error))
    assert_clean(*raised("it", _failed(ValueError("harmless"))))
    assert_clean(*shown("it", _Closed(TEXT)))
    with pytest.raises(AssertionError, match=r"dict of it.*pickle of it|pickle of it.*dict of it"):
        assert_clean(*held("it", _Closed(TEXT)))


def test_the_search_looks_into_frames_and_log_records() -> None:
    """R265: what a debugger shows of capstan's own frames counts, and a record's arguments do."""
    with pytest.raises(ValueError, match="malformed") as caught:
        GtidSet.parse(TEXT)
    with pytest.raises(AssertionError):
        assert_clean(*variables("it", caught.value))
    record = logging.LogRecord("x", logging.DEBUG, "", 0, "%s", (TEXT,), None)
    with pytest.raises(AssertionError):
        assert_clean(*logged([record]))
