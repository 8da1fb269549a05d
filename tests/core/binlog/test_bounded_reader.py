"""Step-by-step reading that never leaves its bytes."""

import pytest

from capstan.core.binlog.bounded_reader import BoundedReader
from capstan.core.halts import Halted, HaltReason


@pytest.mark.parametrize(
    ("raw", "number"),
    [
        (b"\0", 0),
        (b"\xfa", 250),
        (b"\xfc\xfb\0", 251),
        (b"\xfd\0\0\1", 65536),
        (b"\xfe\0\0\0\0\0\0\0\x80", 1 << 63),
    ],
)
def test_packed_integers_of_every_width(raw, number):
    """R266: one byte below 251, else 2, 3 or 8 more."""
    reader = BoundedReader(raw, "a thing")
    assert reader.packed() == number
    assert reader.left == 0


@pytest.mark.parametrize("raw", [b"", b"\xfb", b"\xff", b"\xfc\0", b"\xfd\0\0", b"\xfe\0\0\0"])
def test_an_impossible_or_cut_off_length_halts(raw):
    """R266: the halt names what was being read."""
    with pytest.raises(Halted) as caught:
        BoundedReader(raw, "a thing").packed()
    assert caught.value.halt.reason is HaltReason.EVENT_CORRUPT
    assert caught.value.halt.detail.startswith("a thing")


def test_reading_stops_at_the_given_end():
    """R266: bytes behind the end belong to something else."""
    reader = BoundedReader(b"abcdef", "a thing", 1, 3)
    assert reader.take(2) == b"bc"
    with pytest.raises(Halted):
        reader.take(1)


def test_counted_bytes_of_an_absurd_length_halt_without_allocating():
    """R266: 2^63 bytes are never asked for."""
    with pytest.raises(Halted):
        BoundedReader(b"\xfe\0\0\0\0\0\0\0\x80abc", "a thing").counted()


def test_names_must_be_utf8():
    """R266: a name that cannot be told is no name."""
    assert BoundedReader(b"\4" + "éé".encode(), "a thing").text() == "éé"
    with pytest.raises(Halted, match="UTF-8"):
        BoundedReader(b"\1\xff", "a thing").text()
