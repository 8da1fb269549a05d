"""Boundaries against control events built byte by byte."""

import struct
from collections.abc import Callable

import attrs
import pytest
from helpers.binlog_stream import (
    DELETE,
    QUERY,
    WRITE,
    XID,
    event,
    format_event,
    gtid,
    mapped,
    post_headers,
    query,
    row,
    rows,
    sealed,
    xid,
)

from capstan.core.binlog.offline.boundary import TransactionAction, TransactionBoundary
from capstan.core.binlog.offline.decode_errors import DecodeError, DecodeErrorKind
from capstan.core.binlog.offline.format_description import FormatDescription

CRC32 = FormatDescription.parse(format_event(), 0)
OFF = FormatDescription.parse(format_event(checksums=False), 0)

BEGIN, COMMIT, ROLLBACK = (
    TransactionAction.BEGIN,
    TransactionAction.COMMIT,
    TransactionAction.ROLLBACK,
)


def parsed(raw: bytes, description: FormatDescription = CRC32) -> TransactionBoundary:
    """The boundary at the beginning of these bytes."""
    return TransactionBoundary.parse(raw, 0, description)


def refusal(raw: bytes, description: FormatDescription = CRC32) -> DecodeErrorKind:
    """Why these bytes are no boundary."""
    with pytest.raises(DecodeError) as caught:
        parsed(raw, description)
    assert caught.value.offset == 0
    return caught.value.kind


ACCEPTED: dict[str, tuple[Callable[[bool], bytes], TransactionAction]] = {
    **{
        f"{text!r}": (lambda crc, text=text: query(text, checksum=crc), action)  # type: ignore[misc]
        for text, action in {
            b"BEGIN": BEGIN,
            b"begin": BEGIN,
            b"BeGiN": BEGIN,
            b" BEGIN": BEGIN,
            b"BEGIN\t\r\n\v\f ": BEGIN,
            b"BEGIN;": BEGIN,
            b"\n begin ; ": BEGIN,
            b"COMMIT": COMMIT,
            b"commit": COMMIT,
            b"\tCommit ": COMMIT,
            b"COMMIT;": COMMIT,
            b"ROLLBACK": ROLLBACK,
            b"rollback": ROLLBACK,
            b"\fRollBack\v": ROLLBACK,
            b"rollback;\n": ROLLBACK,
        }.items()
    },
    **{
        f"xid {number:#x}": (
            lambda crc, number=number: xid(number, checksum=crc),  # type: ignore[misc]
            TransactionAction.XID,
        )
        for number in (0, 1, 1 << 63)
    },
}
"""18 control events, each with and without a CRC32: 36."""


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("name", ACCEPTED)
def test_every_control_event_gives_its_action(name: str, checksum: bool) -> None:
    """R262, R180, R181, R182: 36 control events, built apart from the decoder, are recognised."""
    make, action = ACCEPTED[name]
    raw = make(checksum)
    boundary = parsed(raw + b"more", CRC32 if checksum else OFF)
    assert boundary.action is action
    assert boundary.header.event_size == len(raw)


@pytest.mark.parametrize("name", ACCEPTED)
def test_every_cut_of_every_control_event_is_truncated(name: str) -> None:
    """R198: input that ends anywhere inside a control event is `truncated`."""
    make, _ = ACCEPTED[name]
    for checksum, description in ((True, CRC32), (False, OFF)):
        raw = make(checksum)
        for end in range(len(raw)):
            assert refusal(raw[:end], description) is DecodeErrorKind.TRUNCATED


@pytest.mark.parametrize("name", ACCEPTED)
def test_every_shortened_control_event_is_refused_or_the_same(name: str) -> None:
    """R198: a control event written shorter is an error, or a boundary that the rest spells."""
    make, action = ACCEPTED[name]
    code, body = make(False)[4], make(False)[19:]
    for end in range(len(body)):
        for checksum, description in ((True, CRC32), (False, OFF)):
            raw = event(code, body[:end], checksum=checksum)
            # White space and a semicolon at the end may be missing.
            whole = code == QUERY and body[:end].strip().upper().endswith(action.name.encode())
            if whole or body[:end].rstrip().endswith(b";"):
                assert parsed(raw, description).action is action
            else:
                assert refusal(raw, description) in {
                    DecodeErrorKind.MALFORMED,
                    DecodeErrorKind.NOT_A_BOUNDARY,
                }


def test_a_wrong_checksum_is_an_error_only_where_there_are_checksums() -> None:
    """R173: with CRC32 a wrong checksum is refused; with OFF no trailer is expected."""
    raw = bytearray(query(b"BEGIN"))
    raw[-1] ^= 1
    assert refusal(bytes(raw)) is DecodeErrorKind.CHECKSUM_MISMATCH
    assert parsed(query(b"BEGIN", checksum=False), OFF).action is BEGIN
    # With OFF the trailer of another file's event is part of its statement.
    assert refusal(query(b"BEGIN"), OFF) is DecodeErrorKind.NOT_A_BOUNDARY
    assert refusal(query(b"BEGIN", checksum=False)) is DecodeErrorKind.CHECKSUM_MISMATCH


@pytest.mark.parametrize("length", [0, 11, 12, 14])
def test_a_query_has_a_post_header_of_thirteen_bytes(length: int) -> None:
    """R174: another length of a QUERY's fixed part is an error."""
    other = attrs.evolve(CRC32, post_header_lengths=post_headers(t2=length))
    assert refusal(query(b"BEGIN"), other) is DecodeErrorKind.POST_HEADER_INVALID
    assert parsed(xid(), other).action is TransactionAction.XID


def test_a_type_that_the_description_does_not_list_has_no_post_header() -> None:
    """R174, R192: a description that is too short for a type is an error for that type."""
    short = attrs.evolve(CRC32, post_header_lengths=post_headers()[:1])
    assert refusal(query(b"BEGIN"), short) is DecodeErrorKind.POST_HEADER_INVALID
    assert refusal(xid(), short) is DecodeErrorKind.POST_HEADER_INVALID


@pytest.mark.parametrize(
    ("database_size", "status_size"), [(0, 0xFFFF), (0xFF, 0), (11, 0), (5, 6), (4, 13)]
)
def test_lengths_stay_inside_the_event(database_size: int, status_size: int) -> None:
    """R175: status variables or a database name that overrun the event are an error."""
    head = struct.pack("<IIBHH", 1, 0, database_size, 0, status_size)
    body = head + b"\0" * 5 + b"shop\0"
    assert refusal(event(QUERY, body)) is DecodeErrorKind.MALFORMED


def test_the_checksum_is_no_room_for_the_statement() -> None:
    """R175: lengths that reach into the checksum are beyond the event."""
    head = struct.pack("<IIBHH", 1, 0, 4, 0, 0)
    assert refusal(event(QUERY, head + b"shop")) is DecodeErrorKind.MALFORMED


def test_a_database_name_ends_in_nul() -> None:
    """R176: a database name without its terminator is an error."""
    head = struct.pack("<IIBHH", 1, 0, 4, 0, 0)
    assert refusal(event(QUERY, head + b"shop BEGIN")) is DecodeErrorKind.MALFORMED


@pytest.mark.parametrize("error", [1, 1062, 0xFFFF])
def test_a_failed_statement_is_an_error(error: int) -> None:
    """R177: an error code other than 0 is refused, whatever the statement."""
    assert refusal(query(b"BEGIN", error=error)) is DecodeErrorKind.STATEMENT_FAILED


@pytest.mark.parametrize("status", [b"", b"\xff" * 300, bytes(range(256)), b"\x01"])
def test_status_variables_may_hold_anything(status: bytes) -> None:
    """R178: what status variables say is not interpreted."""
    assert parsed(query(b"COMMIT", status=status)).action is COMMIT


@pytest.mark.parametrize("database", [b"", b"shop", b"\xff\xfe\x80", "größe".encode("latin-1")])
def test_the_database_name_stays_bytes(database: bytes) -> None:
    """R179: the database name is kept as it is, UTF-8 or not."""
    assert parsed(query(b"BEGIN", database=database)).database == database


@pytest.mark.parametrize(
    "text",
    [b"BEGIN;;", b"BEGIN; ;", b"; BEGIN", b";", b";;", b"", b"  ", b"COMMIT;;", b"ROLLBACK;\t;"],
)
def test_one_semicolon_at_the_end_is_the_most(text: bytes) -> None:
    """R182, R183: a second semicolon, or one elsewhere, makes it no boundary."""
    assert refusal(query(text)) is DecodeErrorKind.NOT_A_BOUNDARY


@pytest.mark.parametrize(
    "text",
    [
        b"UPDATE notes SET text = 'COMMIT'",
        b"INSERT INTO t VALUES ('BEGIN')",
        b"COMMITS",
        b"BEGINNING",
        b"XCOMMIT",
        b"CALL ROLLBACK()",
    ],
)
def test_a_statement_with_a_keyword_in_it_is_no_boundary(text: bytes) -> None:
    """R184, R197: a business statement is an explicit error, whatever words it holds."""
    assert refusal(query(text)) is DecodeErrorKind.NOT_A_BOUNDARY


@pytest.mark.parametrize("text", [b"BEGIN; COMMIT", b"BEGIN;COMMIT;", b"COMMIT; SELECT 1"])
def test_several_statements_are_no_boundary(text: bytes) -> None:
    """R185: several statements in one QUERY are an error."""
    assert refusal(query(text)) is DecodeErrorKind.NOT_A_BOUNDARY


@pytest.mark.parametrize(
    "text",
    [b"/* x */ BEGIN", b"BEGIN /* x */", b"BEGIN -- x", b"# x\nBEGIN", b"BE/**/GIN", b"/*!BEGIN*/"],
)
def test_comments_are_no_part_of_a_boundary(text: bytes) -> None:
    """R186: a comment around or inside the keyword is an error."""
    assert refusal(query(text)) is DecodeErrorKind.NOT_A_BOUNDARY


@pytest.mark.parametrize("text", [b"BEGIN WORK", b"COMMIT WORK", b"ROLLBACK WORK", b"begin work;"])
def test_work_is_not_accepted(text: bytes) -> None:
    """R187: the forms with WORK are errors."""
    assert refusal(query(text)) is DecodeErrorKind.NOT_A_BOUNDARY


@pytest.mark.parametrize(
    "text",
    [
        b"COMMIT AND CHAIN",
        b"COMMIT AND NO CHAIN",
        b"ROLLBACK AND CHAIN",
        b"COMMIT RELEASE",
        b"ROLLBACK NO RELEASE",
    ],
)
def test_chains_are_not_accepted(text: bytes) -> None:
    """R188: COMMIT AND CHAIN and its like are errors."""
    assert refusal(query(text)) is DecodeErrorKind.NOT_A_BOUNDARY


@pytest.mark.parametrize("text", [b"START TRANSACTION", b"START TRANSACTION READ ONLY"])
def test_start_transaction_is_not_accepted(text: bytes) -> None:
    """R189: START TRANSACTION is an error."""
    assert refusal(query(text)) is DecodeErrorKind.NOT_A_BOUNDARY


@pytest.mark.parametrize("text", [b"SAVEPOINT a", b"ROLLBACK TO a", b"RELEASE SAVEPOINT a"])
def test_savepoints_are_not_accepted(text: bytes) -> None:
    """R190: SAVEPOINT and what goes with it are errors."""
    assert refusal(query(text)) is DecodeErrorKind.NOT_A_BOUNDARY


@pytest.mark.parametrize(
    "text",
    [
        "BEGIN\u00a0".encode(),
        "\u3000BEGIN".encode(),
        "\uff22\uff25\uff27\uff29\uff2e".encode(),
        "\ufeffCOMMIT".encode(),
        b"BEGIN\xa0",
        b"BEGIN\x85",
        b"BEGIN\0",
        b"\x1cBEGIN",
    ],
)
def test_only_ascii_is_white_space_and_letters(text: bytes) -> None:
    """R191: other white space and full-width letters are errors."""
    assert refusal(query(text)) is DecodeErrorKind.NOT_A_BOUNDARY


@pytest.mark.parametrize("length", [1, 8])
def test_an_xid_has_no_post_header(length: int) -> None:
    """R192: a fixed part of an XID is an error."""
    other = attrs.evolve(CRC32, post_header_lengths=post_headers(t16=length))
    assert refusal(xid(), other) is DecodeErrorKind.POST_HEADER_INVALID


@pytest.mark.parametrize("size", [0, 7, 9, 16])
def test_an_xid_has_eight_bytes(size: int) -> None:
    """R193: a body of any other size is an error."""
    assert refusal(event(XID, bytes(size))) is DecodeErrorKind.MALFORMED


@pytest.mark.parametrize("number", [0, 1, 0x0102030405060708, 1 << 63, (1 << 64) - 1])
def test_an_xid_is_an_unsigned_number(number: int) -> None:
    """R194: the XID is little-endian, of 64 bits, without a sign; 0 stays 0."""
    boundary = parsed(event(XID, number.to_bytes(8, "little")))
    assert boundary.xid == number


def test_an_xid_is_no_gtid() -> None:
    """R195: the number stands under `xid` alone; nothing of a boundary is called a GTID."""
    boundary = parsed(xid(5))
    assert [name for name in boundary._fields if "id" in name] == ["xid"]
    assert not hasattr(boundary, "gtid")


def test_a_boundary_depends_on_its_event_alone() -> None:
    """R196: header and action are the result, and one call leaves nothing for the next."""
    raw = query(b"COMMIT")
    first, _, second = parsed(raw), parsed(xid()), parsed(raw)
    assert first == second
    assert first.header.event_type == QUERY
    assert (first.action, first.xid) == (COMMIT, None)


@pytest.mark.parametrize(
    "raw", [mapped(), rows(WRITE, [row(1)]), rows(DELETE, [row(1)]), gtid(1), event(3, b"")]
)
def test_only_control_events_are_boundaries(raw: bytes) -> None:
    """R197: any other event is refused by its type."""
    assert refusal(raw) is DecodeErrorKind.EVENT_NOT_ACCEPTED


def test_a_boundary_is_read_where_it_lies() -> None:
    """R196: the offset is the event's place in the buffer, and the place that errors name."""
    raw = b"front" + query(b"ROLLBACK")
    assert TransactionBoundary.parse(raw, 5, CRC32).action is ROLLBACK
    with pytest.raises(DecodeError, match="offset 6"):
        TransactionBoundary.parse(raw, 6, CRC32)


def test_a_statement_never_gets_into_an_error() -> None:
    """R197: an error says what it is, not what the statement says."""
    with pytest.raises(DecodeError) as caught:
        parsed(query(b"UPDATE t SET secret = 'hunter2'"))
    assert "hunter2" not in f"{caught.value} {caught.value!r} {caught.value.args}"


def test_a_header_smaller_than_itself_is_refused() -> None:
    """R198: sizes that cannot hold a header, or a header and a checksum, are `size_invalid`."""
    for size in (0, 1, 18):
        assert refusal(event(QUERY, b"", size=size)) is DecodeErrorKind.SIZE_INVALID
    assert refusal(sealed(event(QUERY, b"", checksum=False, size=22))[:22]) is (
        DecodeErrorKind.SIZE_INVALID
    )
