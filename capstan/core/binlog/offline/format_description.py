"""The first event of a file, read strictly: which layouts and which checksums follow.

House rules: format version 4 as MySQL has written it since 5.6.1, when checksums came; anything
older and any other family of servers is refused by name, never read by likeness. The description
has a CRC32 of its own whatever its file's events have.
"""

import re
from typing import Final
from zlib import crc32

import attrs

from capstan.core.binlog import log_events
from capstan.core.binlog.checksum import RESIDUE
from capstan.core.binlog.header import SIZE, EventType
from capstan.core.binlog.offline.decode_errors import DecodeError, DecodeErrorKind
from capstan.core.binlog.offline.raw_event import CHECKSUM_SIZE, Buffer, whole_event
from capstan.core.halts import Halted

MAGIC_SIZE: Final = 4
"""Bytes in front of the first event of a file."""

_FIXED: Final = 57
_VERSION: Final = slice(SIZE + 2, SIZE + 52)
_FLAGS: Final = 17
_IN_USE: Final = 1
_VERSION_TEXT: Final = re.compile(rb"(\d{1,4})\.(\d{1,4})\.(\d{1,4})")
_FIRST_WITH_CHECKSUMS: Final = (5, 6, 1)
_OTHER_FAMILY: Final = b"mariadb"


@attrs.frozen
class FormatDescription:
    """How the events of one file are laid out.

    Attributes:
        server_version: As the server writes it.
        checksums: Whether the file's events end in a CRC32.
        post_header_lengths: Bytes of each type's fixed part, type 1 first.
    """

    server_version: str
    checksums: bool
    post_header_lengths: bytes = attrs.field(repr=False)

    @classmethod
    def parse(cls, data: Buffer, offset: int = MAGIC_SIZE) -> "FormatDescription":
        """Read a FORMAT_DESCRIPTION.

        Args:
            data: The file's bytes, or a part of them.
            offset: Where the event begins in `data`; behind the file's magic by default.

        Raises:
            DecodeError: `event_not_accepted` for another event; `format_unsupported` for another
                format version, family or age of server, or checksum algorithm;
                `checksum_mismatch`, `truncated`, `size_invalid`, `malformed`.
        """
        header, raw, size = whole_event(data, offset, checksums=False)

        def refused(kind: DecodeErrorKind, detail: str) -> DecodeError:
            return DecodeError(kind, offset=offset, event_type=header.event_type, detail=detail)

        if header.event_type != EventType.FORMAT_DESCRIPTION:
            raise refused(DecodeErrorKind.EVENT_NOT_ACCEPTED, "a format description is due")
        if size < SIZE + _FIXED:
            raise refused(DecodeErrorKind.MALFORMED, "shorter than its fixed part")
        if (reason := _unsupported_server(raw)) is not None:
            raise refused(DecodeErrorKind.FORMAT_UNSUPPORTED, reason)
        end = size - CHECKSUM_SIZE
        if end < SIZE + _FIXED + 1:
            raise refused(DecodeErrorKind.MALFORMED, "no checksum algorithm in it")
        if not _intact(raw):
            raise refused(DecodeErrorKind.CHECKSUM_MISMATCH, "")
        try:
            shared = log_events.read_format_description(raw, SIZE, end)
        except Halted as verdict:
            raise refused(DecodeErrorKind.FORMAT_UNSUPPORTED, verdict.halt.detail) from None
        return cls(shared.server_version, shared.checksums, raw[SIZE + _FIXED : end - 1])

    def post_header_length(self, event_type: int) -> int | None:
        """Bytes of a type's fixed part; None for a type that the server does not know."""
        known = 1 <= event_type <= len(self.post_header_lengths)
        return self.post_header_lengths[event_type - 1] if known else None

    def without_checksums(self) -> "FormatDescription":
        """The same layouts without a CRC32, as events lie inside a compressed payload."""
        return attrs.evolve(self, checksums=False)


def _unsupported_server(raw: bytes) -> str | None:
    """Why files of this server are not read; None when they are."""
    version = raw[_VERSION].partition(b"\0")[0]
    if _OTHER_FAMILY in version.lower():
        return "a MariaDB server's file"
    match = _VERSION_TEXT.match(version)
    if match is None:
        return "a server version without a number"
    number = tuple(map(int, match.groups()))
    if number < _FIRST_WITH_CHECKSUMS:
        return f"server {match[0].decode('ascii')} is older than 5.6.1"
    return None


def _intact(raw: bytes) -> bool:
    """Whether the CRC32 fits; the mark of a file in use is set and cleared without a new one."""
    flags = raw[_FLAGS] & ~_IN_USE
    return crc32(raw[_FLAGS + 1 :], crc32(bytes([flags]), crc32(raw[:_FLAGS]))) == RESIDUE
