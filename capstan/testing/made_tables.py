"""Small tables and legal changes of their rows, for whoever wants to feed a pipeline by hand.

House rules: a table is what its column texts say, and knows a few types that need no explanation:
whole numbers, DOUBLE, texts and bytes. Values are what a sink will see again. What a server would
refuse to store is refused here with a `ValueError` or `struct.error`.
"""

import itertools
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import attrs

from capstan.testing.made_events import (
    DELETE_ROWS,
    TABLE_MAP,
    UPDATE_ROWS,
    WRITE_ROWS,
    Event,
    counted,
    packed,
)

Row = tuple[Any, ...]
_TABLE_IDS: Final = itertools.count(100)
_UTF8MB4: Final = 255
_BINARY: Final = 63
_STATEMENT_END: Final = 1
_TEXT: Final = re.compile(r"(?P<name>\w+) (?P<type>[a-z]+)(?:\((?P<size>\d+)\))?(?P<u> unsigned)?")
_WHOLE: Final = {"tinyint": (1, 1), "smallint": (2, 2), "mediumint": (9, 3), "int": (3, 4)} | {
    "bigint": (8, 8)
}
"""Type → its code, and the bytes of a value."""
_LONG: Final = {"text": _UTF8MB4, "blob": _BINARY}
_SHORT: Final = {"varchar": (_UTF8MB4, 4), "varbinary": (_BINARY, 1)}
"""Type → its collation, and the bytes of a character."""


@attrs.frozen(kw_only=True)
class MadeColumn:
    """One column: what a table map says of it, and how a value is written.

    Attributes:
        name: Its name.
        code: The type's number.
        metadata: The type's parameters as a table map has them.
        unsigned: For a number, whether it has no sign; None for anything else.
        collation: For text and bytes; None for a number.
        encode: Writes a value that is not None.
    """

    name: str
    code: int
    metadata: bytes = b""
    unsigned: bool | None = None
    collation: int | None = None
    encode: Callable[[Any], bytes] = attrs.field(repr=False)

    @classmethod
    def parse(cls, text: str) -> "MadeColumn":
        """Read `name type`, `name type(size)` or `name type unsigned`.

        Raises:
            ValueError: When it is something else.
        """
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError("a column is written as 'name type', for example 'id int unsigned'")
        name, kind, size = found["name"], found["type"], int(found["size"] or 0)
        if kind in _WHOLE:
            code, width = _WHOLE[kind]
            unsigned = found["u"] is not None
            return cls(name=name, code=code, unsigned=unsigned, encode=_whole(width, unsigned))
        if kind == "double":
            return cls(name=name, code=5, metadata=b"\x08", unsigned=False, encode=_double)
        if kind in _SHORT and size:
            collation, width = _SHORT[kind]
            limit = size * width
            return cls(
                name=name,
                code=15,
                metadata=limit.to_bytes(2, "little"),
                collation=collation,
                encode=_bytes(1 if limit < 256 else 2, limit),
            )
        if kind in _LONG:
            encode = _bytes(4, 2**32 - 1)
            return cls(name=name, code=252, metadata=b"\4", collation=_LONG[kind], encode=encode)
        raise ValueError(
            "a column's type is one of "
            f"{', '.join([*_WHOLE, 'double', *(f'{k}(size)' for k in _SHORT), *_LONG])}"
        )


def _whole(width: int, unsigned: bool) -> Callable[[int], bytes]:
    return lambda value: value.to_bytes(width, "little", signed=not unsigned)


def _double(value: float) -> bytes:
    return struct.pack("<d", value)


def _bytes(prefix: int, limit: int) -> Callable[[str | bytes], bytes]:
    def encode(value: str | bytes) -> bytes:
        raw = value.encode() if isinstance(value, str) else value
        if len(raw) > limit:
            raise ValueError("the value is longer than its column")
        return len(raw).to_bytes(prefix, "little") + raw

    return encode


@attrs.frozen(kw_only=True)
class RowChange:
    """What one statement did to one table: a table map and the rows behind it.

    Attributes:
        table: The table.
        kind: The row event's type code.
        images: Row by row; an UPDATE has two for each, before and after.
    """

    table: "Table"
    kind: int
    images: tuple[Row, ...] = attrs.field(repr=False)

    def events(self, seconds: int) -> list[Event]:
        """The events in their order."""
        return [self.table.map(seconds), self.table.rows(self.kind, self.images, seconds)]


class Table:
    """A table that exists on the scripted server alone.

    `Table("shop.orders", "id int unsigned", "state varchar(20)", key="id")`. Columns outside the
    key may be None.

    Args:
        name: `schema.table`.
        columns: One text each: `name type`; types are tinyint, smallint, mediumint, int, bigint
            (each also `unsigned`), double, varchar(n), varbinary(n), text and blob.
        key: The columns of the primary key in their order; none for a table without a key.

    Raises:
        ValueError: For a text that is no column, or a key that is none.
    """

    def __init__(self, name: str, *columns: str, key: str | Sequence[str] = ()) -> None:
        self.schema, _, self.table = name.partition(".")
        self.columns = tuple(map(MadeColumn.parse, columns))
        names = [column.name for column in self.columns]
        wanted = [key] if isinstance(key, str) else list(key)
        self.key = tuple(names.index(each) for each in wanted)
        self.id = next(_TABLE_IDS)

    def __repr__(self) -> str:
        return f"<Table {self.schema}.{self.table}>"

    def insert(self, *rows: Row) -> RowChange:
        """An INSERT of these rows."""
        return RowChange(table=self, kind=WRITE_ROWS, images=rows)

    def update(self, *pairs: tuple[Row, Row]) -> RowChange:
        """An UPDATE of rows, each as it was and as it is then."""
        return RowChange(
            table=self, kind=UPDATE_ROWS, images=tuple(i for pair in pairs for i in pair)
        )

    def delete(self, *rows: Row) -> RowChange:
        """A DELETE of these rows."""
        return RowChange(table=self, kind=DELETE_ROWS, images=rows)

    def map(self, seconds: int) -> Event:
        """Its table map, with everything that binlog_row_metadata=FULL adds."""
        nullable = sum(1 << place for place in range(len(self.columns)) if place not in self.key)
        metadata = b"".join(column.metadata for column in self.columns)
        body = (
            self.id.to_bytes(6, "little")
            + b"\1\0"
            + bytes([len(self.schema.encode())])
            + self.schema.encode()
            + b"\0"
            + bytes([len(self.table.encode())])
            + self.table.encode()
            + b"\0"
            + packed(len(self.columns))
            + bytes(column.code for column in self.columns)
            + counted(metadata)
            + nullable.to_bytes(self._mask_size, "little")
            + b"".join(bytes([field]) + counted(value) for field, value in self._more() if value)
        )
        return Event(TABLE_MAP, body, seconds)

    def rows(self, kind: int, images: Iterable[Row], seconds: int, *, last: bool = True) -> Event:
        """A row event; `last` says that the statement ends with it."""
        size = self._mask_size
        present = (b"\xff" * size) * (2 if kind == UPDATE_ROWS else 1)
        head = self.id.to_bytes(6, "little") + struct.pack("<HH", _STATEMENT_END if last else 0, 2)
        body = head + packed(len(self.columns)) + present + b"".join(map(self._image, images))
        return Event(kind, body, seconds)

    @property
    def _mask_size(self) -> int:
        return (len(self.columns) + 7) // 8

    def _more(self) -> Iterable[tuple[int, bytes]]:
        signs = [column.unsigned for column in self.columns if column.unsigned is not None]
        yield 1, _bits(signs)
        yield _collations([c.collation for c in self.columns if c.collation is not None])
        yield 4, b"".join(counted(column.name.encode()) for column in self.columns)
        yield 8, b"".join(map(packed, self.key))
        yield 12, _bits([True] * len(self.columns))

    def _image(self, row: Row) -> bytes:
        if len(row) != len(self.columns):
            raise ValueError(f"a row of {self!r} has {len(self.columns)} values")
        nulls = sum(1 << place for place, value in enumerate(row) if value is None)
        values = (c.encode(v) for c, v in zip(self.columns, row, strict=True) if v is not None)
        return nulls.to_bytes(self._mask_size, "little") + b"".join(values)


def _collations(collations: Sequence[int]) -> tuple[int, bytes]:
    """The collations of text and bytes, in the shorter of the two forms, as the server does."""
    one_each = b"".join(map(packed, collations))
    if not collations:
        return 3, one_each
    ((usual, _),) = Counter(collations).most_common(1)
    others = ((place, each) for place, each in enumerate(collations) if each != usual)
    by_default = packed(usual) + b"".join(packed(p) + packed(each) for p, each in others)
    return (2, by_default) if len(by_default) <= len(one_each) else (3, one_each)


def _bits(flags: Sequence[bool]) -> bytes:
    """A bit each, the first one highest."""
    padded = [*flags, *[False] * (-len(flags) % 8)]
    return bytes(
        sum(128 >> place for place in range(8) if padded[start + place])
        for start in range(0, len(padded), 8)
    )
