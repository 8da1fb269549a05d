"""One event cut out of a buffer."""

import pytest
from helpers.binlog_stream import begin, event, query, xid

from capstan.core.binlog.offline.decode_errors import DecodeError, DecodeErrorKind
from capstan.core.binlog.offline.raw_event import EventHeader, whole_event


def test_a_header_is_read_as_it_lies() -> None:
    """R196, R200: the fields of the 19 bytes, at any place."""
    raw = event(16, bytes(8), flags=0x81, next_position=1 << 31)
    header = EventHeader.parse(b"abc" + raw, 3)
    assert header == EventHeader(1_700_000_000, 16, 7, 31, 1 << 31, 0x81)
    assert header.type_name == "XID"
    assert header._replace(event_type=200).type_name == "type 200"
    assert EventHeader.parse(raw, 100, base=100) == header


@pytest.mark.parametrize("size", [0, 18])
def test_a_size_below_the_header_is_refused(size: int) -> None:
    """R198: no event is smaller than its own header."""
    with pytest.raises(DecodeError) as caught:
        EventHeader.parse(event(2, b"", size=size), 0)
    assert caught.value.kind is DecodeErrorKind.SIZE_INVALID


def test_an_event_is_cut_out_whole() -> None:
    """R201: its bytes, and where its body ends, with and without a checksum."""
    for checksum in (True, False):
        raw = query(b"BEGIN", checksum=checksum)
        header, cut, end = whole_event(b"." + raw + b"more", 1, checksums=checksum)
        assert cut == raw
        assert header.event_size == len(raw)
        assert cut[:end].endswith(b"BEGIN")


def test_every_flipped_bit_behind_the_header_is_seen() -> None:
    """R173: a CRC32 finds any single bit, in the body and in itself."""
    raw = xid()
    for bit in range(19 * 8, len(raw) * 8):
        broken = bytearray(raw)
        broken[bit >> 3] ^= 1 << (bit & 7)
        with pytest.raises(DecodeError) as caught:
            whole_event(bytes(broken), 0, checksums=True)
        assert caught.value.kind is DecodeErrorKind.CHECKSUM_MISMATCH


def test_an_error_names_the_place_in_the_file() -> None:
    """R219: with a base, errors tell the offset in the file and not in the buffer."""
    with pytest.raises(DecodeError) as caught:
        whole_event(begin()[:30], 5000, checksums=True, base=5000)
    assert (caught.value.kind, caught.value.offset) == (DecodeErrorKind.TRUNCATED, 5000)
    assert caught.value.event_type == 2
