"""Counts the rows of one table's row events without reading a value.

House rules: a row is walked by its lengths, so no name, sign, collation or label is needed: the
types of the table map are enough. What is counted is exact: images must be full, rows must end
where their event ends, and anything else is a halt. Whether the values inside are what they should
be is not known here; that is `row_compiler`'s.

Like the row compiler this generates code: a straight line for each null bitmap that occurs, a
bounded number of them, and a loop over the columns for every other one.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from capstan.core.binlog.bounded_reader import BoundedReader, corrupt
from capstan.core.binlog.columns import WireColumn, read_facts, readable, type_name
from capstan.core.binlog.field_codecs import codec_for
from capstan.core.binlog.table_map import MAX_COLUMNS
from capstan.core.halts import HaltReason, halted

_MOST_VARIANTS: Final = 8
_MOST_LINES: Final = 2048
_WHAT: Final = "a table map"
_HEADS_KEPT: Final = 16

Extent = tuple[int, bool]
"""Bytes of a column's fixed part, and whether those are the length of what follows."""

Head = tuple[int, set[bytes]]


class RowCounter:
    """Counts the row events of one table map.

    Attributes:
        name: The database and the table.
        heads: For inserts and deletes, and for updates: how many bytes stand before the rows of an
            event without extra data, behind table id and flags, and those that were found good.
        count: Walks the rows of `data[p:end]`; how many images, and where they end. It raises
            `IndexError` when it runs out of data, and judges nothing.
    """

    __slots__ = ("_extents", "_masks", "_room", "count", "heads", "name")

    def __init__(self, name: tuple[str, str], extents: tuple[Extent, ...]) -> None:
        self.name = name
        bitmap = (len(extents) + 7) // 8
        before = 2 + (1 if len(extents) < 251 else 3)
        self.heads: tuple[Head, Head] = (before + bitmap, set()), (before + 2 * bitmap, set())
        self._extents = extents
        self._masks: list[bytes] = []
        self._room = min(_MOST_VARIANTS, _MOST_LINES // len(extents))
        self.count: Callable[[bytes, int, int], tuple[int, int]]
        self._compile()

    @classmethod
    def of(cls, body: bytes) -> "RowCounter":
        """The counter for a TABLE_MAP body.

        Args:
            body: The event's bytes behind the 8 bytes of table id and flags, without checksum.

        Raises:
            Halted: `event_corrupt` for a malformed body; `unsupported_column_type` for a type of
                unknown width, named by its place.
        """
        reader = BoundedReader(body, _WHAT)
        names: list[str] = []
        for _ in range(2):
            names.append(reader.text())
            if reader.uint(1):
                raise corrupt("a name in a table map is not ended")
        count = reader.packed()
        if not 1 <= count <= MAX_COLUMNS:
            raise corrupt(f"a table map with {count} columns")
        numbers = reader.take(count)
        metadata = BoundedReader(reader.counted(), _WHAT)
        where = ".".join(names)
        extents = tuple(
            _extent(number, metadata, f"@{place}", where)
            for place, number in enumerate(numbers, start=1)
        )
        if metadata.left:
            raise corrupt("a table map with more metadata than columns")
        return cls((names[0], names[1]), extents)

    def changes(self, raw: bytes, start: int, end: int, *, pairs: bool) -> int:
        """How many changes one row event of version 2 holds.

        Args:
            raw: The bytes that hold the event.
            start: Where its extra data's length stands, right behind table id and flags.
            end: Where its rows end, before any checksum.
            pairs: True for an update: two images are one change.

        Raises:
            Halted: `row_image_not_full`, `event_corrupt`.
        """
        position = self._rows_begin(raw, start, end, pairs)
        try:
            images, position = self.count(raw, position, end)
        except IndexError:
            position = -1
            images = 0
        if position != end or (pairs and images & 1):
            raise corrupt(f"a row event of {self._where} does not end with a row")
        return images >> pairs

    @property
    def _where(self) -> str:
        return ".".join(self.name)

    def _rows_begin(self, raw: bytes, start: int, end: int, pairs: bool) -> int:
        """Judge what stands before the rows."""
        plain, known = self.heads[pairs]
        if raw[start : start + plain] in known:
            return start + plain
        reader = BoundedReader(raw, f"a row event of {self._where}", start, end)
        extra = reader.uint(2)
        if extra < 2:
            raise corrupt(f"a row event of {self._where} with extra data of {extra} bytes")
        reader.take(extra - 2)
        columns = len(self._extents)
        if reader.packed() != columns:
            raise corrupt(f"a row event of {self._where} with another number of columns")
        for _ in range(1 + pairs):
            if ~reader.uint((columns + 7) // 8) & (1 << columns) - 1:
                raise halted(HaltReason.ROW_IMAGE_NOT_FULL, self._where)
        if extra == 2 and len(known) < _HEADS_KEPT:
            known.add(raw[start : start + plain])
        return reader.position

    def _compile(self) -> None:
        namespace: dict[str, Any] = {"rare": self._rare}
        # The text is made of numbers and of the lines below only.
        exec(compile("\n".join(self._source()), "<row counter>", "exec"), namespace)  # noqa: S102
        self.count = namespace["count"]

    def _source(self) -> Iterator[str]:
        size = (len(self._extents) + 7) // 8
        yield "def count(data, p, end):"
        yield "    n = 0"
        yield "    while p < end:"
        yield "        n += 1"
        yield f"        mask = data[p{'' if size == 1 else f':p + {size}'}]"
        for place, mask in enumerate(self._masks):
            literal = mask[0] if size == 1 else mask
            yield f"        {'elif' if place else 'if'} mask == {literal!r}:"
            yield from (f"            {line}" for line in self._steps(mask))
        yield "        else:" if self._masks else "        if True:"
        yield f"            p = rare(data, p, data[p:p + {size}])"
        yield "    return n, p"

    def _steps(self, mask: bytes) -> Iterator[str]:
        """The way over one row whose nulls are known."""
        offset = len(mask)
        for width, prefixed in self._present(mask):
            if prefixed:
                length = " + ".join(
                    f"(data[p + {offset + byte}] << {8 * byte})" if byte else f"data[p + {offset}]"
                    for byte in range(width)
                )
                yield f"p += {offset + width} + {length}"
                offset = 0
            else:
                offset += width
        if offset:
            yield f"p += {offset}"

    def _present(self, mask: bytes) -> Iterator[Extent]:
        for place, extent in enumerate(self._extents):
            if not mask[place >> 3] & 1 << (place & 7):
                yield extent

    def _rare(self, data: bytes, position: int, mask: bytes) -> int:
        """Go over one row step by step; its bitmap gets code of its own when there is room."""
        start = position + len(mask)
        if len(mask) != (len(self._extents) + 7) // 8:
            raise IndexError
        for width, prefixed in self._present(mask):
            stop = start + width
            if prefixed:
                if stop > len(data):
                    raise IndexError
                stop += int.from_bytes(data[start:stop], "little")
            start = stop
        if len(self._masks) < self._room and mask not in self._masks:
            self._masks.append(mask)
            self._compile()
        return start


def _extent(number: int, metadata: BoundedReader, name: str, where: str) -> Extent:
    if not readable(number):
        detail = f"{where}.{name}: {type_name(number)}"
        raise halted(HaltReason.UNSUPPORTED_COLUMN_TYPE, detail)
    fact = read_facts(number, metadata)
    # Bytes are as wide as text of any character set: only the lengths matter here.
    column = WireColumn(
        name=name,
        type=fact.type,
        size=fact.size,
        precision=fact.precision,
        scale=fact.scale,
        fsp=fact.fsp,
        charset="binary",
    )
    codec = codec_for(column, where)
    return codec.width, codec.prefixed
