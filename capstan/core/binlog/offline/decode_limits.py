"""How much one transaction, one event and one row may be offline.

House rules: every bound is a positive number of 64 bits. The bytes counted are those of whole
events as they lie in the file: a measure of what is read, not a limit of the heap, since decoded
values and their objects take a multiple of it.
"""

from typing import Final, Self

import attrs

U64_MAX: Final = (1 << 64) - 1
"""Nothing is counted beyond this."""

MIB: Final = 1 << 20


def _checked(_owner: object, field: "attrs.Attribute[int]", value: int) -> None:
    if not 1 <= value <= U64_MAX:
        raise ValueError(f"{field.name} must be from 1 to 2^64 - 1")


def _bound(default: int) -> int:
    bound: int = attrs.field(default=default, validator=_checked)
    return bound


@attrs.frozen(kw_only=True)
class TransactionLimits:
    """What a decoder accepts; more is `limit_exceeded`.

    The defaults suit transactions of an application. A server's own file can hold larger ones: its
    row events have up to some thousand rows each, its transactions have no bound at all.

    Attributes:
        events: Events of a transaction, its BEGIN, table maps and closing event included.
        row_changes: Row changes of a transaction; an update's two images are one.
        encoded_bytes: Bytes of all events of a transaction.
        event_bytes: Bytes of one event.
        event_row_changes: Row changes in one row event.
        image_bytes: Bytes of one row image.
        table_maps: Tables of one statement.

    Raises:
        ValueError: For a bound below 1 or above 2^64 - 1.
    """

    events: int = _bound(4096)
    row_changes: int = _bound(10_000)
    encoded_bytes: int = _bound(64 * MIB)
    event_bytes: int = _bound(16 * MIB)
    event_row_changes: int = _bound(1024)
    image_bytes: int = _bound(16 * MIB)
    table_maps: int = _bound(4096)

    @classmethod
    def unbounded(cls) -> Self:
        """No bounds but those of 64 bits, and of the tables that one statement can name."""
        return cls(
            events=U64_MAX,
            row_changes=U64_MAX,
            encoded_bytes=U64_MAX,
            event_bytes=U64_MAX,
            event_row_changes=U64_MAX,
            image_bytes=U64_MAX,
        )
