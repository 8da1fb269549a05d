"""Which keys a backfill may page by, and the text form that a store keeps them in.

House rules: the list of types is positive: a column is accepted only where Python's order of its
values is the server's ORDER BY (ADR-0005). The key is the server's own (D5); when it does not
qualify there is no second choice. A key value is never in a message.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final

from capstan.core.halts import HaltReason, halted
from capstan.core.tables import Column, TableShape

Key = tuple[int | bytes, ...]
"""Key values in key order; tuples compare as the server orders."""

KeyTypes = tuple[type[int] | type[bytes], ...]

_TYPES: Final[dict[str, type[int] | type[bytes]]] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), int),
    **dict.fromkeys(("binary", "varbinary"), bytes),
}
_BYTES_MARK: Final = "x"


def require_key(shape: TableShape, prefixes: Sequence[int] = ()) -> None:
    """See that a table can be backfilled in the order of its key.

    Args:
        shape: The table.
        prefixes: For each column of the key the length of its prefix, 0 for a whole column; empty
            when that is not known.

    Raises:
        Halted: `snapshot_table_no_primary_key`, `snapshot_pk_unsupported_type`.
    """
    name = f"{shape.schema}.{shape.table}"
    if not shape.key:
        raise halted(HaltReason.SNAPSHOT_TABLE_NO_PRIMARY_KEY, name)
    for place, position in enumerate(shape.key):
        column = shape.columns[position]
        if not _accepted(column):
            raise halted(
                HaltReason.SNAPSHOT_PK_UNSUPPORTED_TYPE, f"{name}: {column.name} is {column.type}"
            )
        if place < len(prefixes) and prefixes[place]:
            raise halted(
                HaltReason.SNAPSHOT_PK_UNSUPPORTED_TYPE,
                f"{name}: the key holds only a prefix of {column.name}",
            )


def key_types(shape: TableShape) -> KeyTypes | None:
    """The Python types of the key's values; None when `require_key` would refuse the table."""
    columns = [shape.columns[position] for position in shape.key]
    if not columns or not all(map(_accepted, columns)):
        return None
    return tuple(_TYPES[column.type] for column in columns)


def key_reader(shape: TableShape) -> Callable[[tuple[Any, ...]], Any]:
    """How a row's key is had in the form that is fastest to compare: see `comparable`."""
    return itemgetter(*shape.key)


def comparable(key: Key | None) -> Any:
    """A key in the form that `key_reader` gives: a value alone without its tuple."""
    return key[0] if key is not None and len(key) == 1 else key


def _accepted(column: Column) -> bool:
    return column.type in _TYPES


def encode_key(key: Key) -> str:
    """One line of text without loss: integers in decimal, bytes in hex."""
    return ",".join(
        f"{_BYTES_MARK}{value.hex()}" if isinstance(value, bytes) else str(value) for value in key
    )


def decode_key(text: str) -> Key:
    """Read what `encode_key` wrote.

    Raises:
        ValueError: When the text is anything else; the message holds none of it.
    """
    try:
        key = tuple(map(_decode_value, text.split(",")))
    except ValueError:
        raise ValueError("malformed key") from None
    if encode_key(key) != text:
        raise ValueError("malformed key")
    return key


def _decode_value(text: str) -> int | bytes:
    return bytes.fromhex(text[1:]) if text.startswith(_BYTES_MARK) else int(text)
