"""Format descriptions, read strictly."""

import struct

import pytest
from helpers.binlog_stream import MAGIC, event, format_event, post_headers, query

from capstan.core.binlog.offline.decode_errors import DecodeError, DecodeErrorKind
from capstan.core.binlog.offline.format_description import FormatDescription


def refusal(raw: bytes) -> DecodeError:
    """Why these bytes are no format description."""
    with pytest.raises(DecodeError) as caught:
        FormatDescription.parse(raw, 0)
    return caught.value


@pytest.mark.parametrize("checksums", [True, False])
def test_a_description_says_whether_events_have_checksums(checksums: bool) -> None:
    """R173, D23: the algorithm is read from the description, which has a CRC32 either way."""
    description = FormatDescription.parse(MAGIC + format_event(checksums=checksums))
    assert description.checksums is checksums
    assert description.server_version == "9.7.4"
    broken = bytearray(format_event(checksums=checksums))
    broken[40] ^= 1
    assert refusal(bytes(broken)).kind is DecodeErrorKind.CHECKSUM_MISMATCH


def test_lengths_are_known_by_type() -> None:
    """R174, R192: each type's fixed part, and None for types that the server does not know."""
    description = FormatDescription.parse(format_event(), 0)
    lengths = {kind: description.post_header_length(kind) for kind in (0, 1, 2, 16, 42, 43, 255)}
    assert lengths == {0: None, 1: 56, 2: 13, 16: 0, 42: 0, 43: None, 255: None}


def test_a_file_in_use_has_the_checksum_of_a_closed_one() -> None:
    """R260: the server sets and clears the mark of a file in use without a new checksum."""
    assert FormatDescription.parse(format_event(flags=1), 0).checksums
    broken = bytearray(format_event(flags=1))
    broken[17] |= 2
    assert refusal(bytes(broken)).kind is DecodeErrorKind.CHECKSUM_MISMATCH


@pytest.mark.parametrize(
    "version", [b"5.6.1", b"5.6.16-64.2-56-log", b"5.7.40-log", b"8.0.34", b"9.7.4-2", b"26.7.0"]
)
def test_servers_from_5_6_on_are_read(version: bytes) -> None:
    """R199: what MySQL has written since checksums came is accepted."""
    assert FormatDescription.parse(format_event(version=version), 0).server_version.encode() == (
        version
    )


@pytest.mark.parametrize(
    ("version", "word"),
    [
        (b"5.0.91-log", "5.0.91"),
        (b"5.5.27-log", "5.5.27"),
        (b"5.6.0", "5.6.0"),
        (b"10.11.2-MariaDB-log", "MariaDB"),
        (b"", "version"),
        (b"future", "version"),
    ],
)
def test_other_servers_are_refused_by_name(version: bytes, word: str) -> None:
    """R199: older servers and another family are named, never read by likeness."""
    error = refusal(format_event(version=version))
    assert error.kind is DecodeErrorKind.FORMAT_UNSUPPORTED
    assert word in error.detail


@pytest.mark.parametrize(
    "raw",
    [
        format_event(binlog_version=3),
        format_event(header_size=13),
        format_event(algorithm=2),
        format_event(algorithm=255),
    ],
)
def test_other_formats_are_refused(raw: bytes) -> None:
    """R199: another format version, header size or checksum algorithm is an error."""
    assert refusal(raw).kind is DecodeErrorKind.FORMAT_UNSUPPORTED


def test_another_event_is_no_description() -> None:
    """R199: only event type 15 describes a format."""
    assert refusal(query(b"BEGIN")).kind is DecodeErrorKind.EVENT_NOT_ACCEPTED


def test_every_cut_of_a_description_is_an_error() -> None:
    """R198: a description that ends early, in the input or by its own size, is refused."""
    raw = format_event()
    for end in range(len(raw)):
        assert refusal(raw[:end]).kind is DecodeErrorKind.TRUNCATED
    body = raw[19:-4]
    for end in range(57):
        error = refusal(event(15, body[:end]))
        assert error.kind in {DecodeErrorKind.MALFORMED, DecodeErrorKind.FORMAT_UNSUPPORTED}
    assert refusal(event(15, body[:57])).kind is DecodeErrorKind.MALFORMED
    assert refusal(event(15, body[:57], checksum=False)).kind is DecodeErrorKind.MALFORMED


def test_no_lengths_at_all_are_lengths_of_nothing() -> None:
    """R174: a description without lengths knows no type, so that every event is refused by it."""
    description = FormatDescription.parse(format_event(lengths=b""), 0)
    assert description.post_header_length(2) is None


def test_the_inside_of_a_payload_has_no_checksums() -> None:
    """R251: events inside a payload are laid out as outside, without a CRC32."""
    outside = FormatDescription.parse(format_event(), 0)
    inside = outside.without_checksums()
    assert not inside.checksums
    assert inside.post_header_lengths == outside.post_header_lengths == post_headers()


def test_lengths_stay_out_of_the_repr() -> None:
    """R199: a description prints its version and its checksums."""
    text = repr(FormatDescription.parse(format_event(), 0))
    assert text == "FormatDescription(server_version='9.7.4', checksums=True)"


def test_the_time_of_creation_does_not_matter() -> None:
    """R199: a description that was rewritten at another time reads the same."""
    body = bytearray(format_event()[19:-4])
    body[52:56] = struct.pack("<I", 1)
    assert FormatDescription.parse(event(15, bytes(body)), 0) == FormatDescription.parse(
        format_event(), 0
    )
