"""The one error of the offline decoders: what went wrong, where, with which event.

House rules: an error names a kind, an offset and an event type, and in its detail names, numbers
and sizes. Row values, key values and statements never get here. The shared decoders speak in halts;
`from_halt` is where their words become ours, and what it does not list cannot come out of them.
"""

from enum import StrEnum
from typing import Final

from capstan.core.binlog.header import type_name
from capstan.core.halts import Halt, HaltReason


class DecodeErrorKind(StrEnum):
    """What is wrong: a closed list."""

    TRUNCATED = "truncated"
    SIZE_INVALID = "size_invalid"
    CHECKSUM_MISMATCH = "checksum_mismatch"
    FORMAT_UNSUPPORTED = "format_unsupported"
    POST_HEADER_INVALID = "post_header_invalid"
    MALFORMED = "malformed"

    STATEMENT_FAILED = "statement_failed"
    NOT_A_BOUNDARY = "not_a_boundary"
    EVENT_NOT_ACCEPTED = "event_not_accepted"
    ORDER_INVALID = "order_invalid"
    NOT_CONTIGUOUS = "not_contiguous"

    TABLE_MAP_MISSING = "table_map_missing"
    TABLE_MAP_CONFLICT = "table_map_conflict"
    ROW_IMAGE_NOT_FULL = "row_image_not_full"
    UNSUPPORTED_COLUMN_TYPE = "unsupported_column_type"
    UNDECODABLE_TEXT = "undecodable_text"
    SIGNEDNESS_MISSING = "signedness_missing"
    SIGNEDNESS_CONFLICT = "signedness_conflict"

    LIMIT_EXCEEDED = "limit_exceeded"
    TOTAL_OVERFLOW = "total_overflow"


class DecodeError(Exception):
    """An event that the offline decoders refuse.

    Args:
        kind: What is wrong.
        offset: Where the event begins.
        event_type: Its type's number; None when not even its header could be read.
        detail: Names, numbers and sizes in one line; may be empty.
    """

    def __init__(
        self,
        kind: DecodeErrorKind,
        *,
        offset: int,
        event_type: int | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(kind, offset, event_type, detail)
        self.kind = kind
        self.offset = offset
        self.event_type = event_type
        self.detail = detail

    def __str__(self) -> str:
        event = "" if self.event_type is None else f" ({type_name(self.event_type)})"
        text = f"{self.kind.value} at offset {self.offset}{event}"
        return f"{text}: {self.detail}" if self.detail else text

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuilt, self.args)


def _rebuilt(
    kind: DecodeErrorKind, offset: int, event_type: int | None, detail: str
) -> DecodeError:
    return DecodeError(kind, offset=offset, event_type=event_type, detail=detail)


_KINDS: Final = {
    HaltReason.EVENT_CORRUPT: DecodeErrorKind.MALFORMED,
    HaltReason.ROW_IMAGE_NOT_FULL: DecodeErrorKind.ROW_IMAGE_NOT_FULL,
    HaltReason.UNSUPPORTED_COLUMN_TYPE: DecodeErrorKind.UNSUPPORTED_COLUMN_TYPE,
    HaltReason.UNDECODABLE_TEXT: DecodeErrorKind.UNDECODABLE_TEXT,
    # A payload whose compression is not known.
    HaltReason.UNSUPPORTED_TRANSACTION_SHAPE: DecodeErrorKind.FORMAT_UNSUPPORTED,
}


def from_halt(halt: Halt, *, offset: int, event_type: int) -> DecodeError:
    """The error for a halt of a decoder that is shared with the online path."""
    return DecodeError(
        _KINDS[halt.reason], offset=offset, event_type=event_type, detail=halt.detail
    )
