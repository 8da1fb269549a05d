"""Large transactions: their row events wait outside memory and are decoded again at delivery (D25).

House rules: what leaves this file is exactly what went in, or a halt; blocks are told apart from
what a disk gives back by their checksums, which stay in memory. Where the bytes lie is not known
here: a `Spool` is a port, whose I/O errors come as `Halted`. One decoded event and one block are in
memory at a time, whatever the transaction's size. Decoders grow while they work, so the thread that
delivers gets its own.

How it works: records (code, table, count of images, size; then the event's body behind table id and
flags) are gathered into blocks of about a mebibyte. A block's place and checksum and what it begins
with are kept, so that any change is found by one search, one read and a walk over record heads.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from operator import attrgetter
from struct import Struct
from typing import ClassVar, Final, NamedTuple, Protocol, overload
from zlib import crc32

from capstan.core.binlog.header import EventType
from capstan.core.binlog.row_compiler import RowDecoder, compile_rows
from capstan.core.binlog.table_map import parse, peek_name
from capstan.core.changes import Change, ChunkedChanges, Op, RowsChunk
from capstan.core.halts import Halt, Halted, HaltReason, halted

OPS: Final[dict[int, Op]] = {
    EventType.WRITE_ROWS: Op.INSERT,
    EventType.UPDATE_ROWS: Op.UPDATE,
    EventType.DELETE_ROWS: Op.DELETE,
    EventType.WRITE_ROWS_V1: Op.INSERT,
    EventType.UPDATE_ROWS_V1: Op.UPDATE,
    EventType.DELETE_ROWS_V1: Op.DELETE,
    EventType.PARTIAL_UPDATE_ROWS: Op.UPDATE,
}
"""Row event type → what it says happened."""

_BLOCK: Final = 1 << 20
_MAX_DECODERS: Final = 4096
_RECORD: Final = Struct("<BIII")
_Record = tuple[bytes, int, int, int, int]
"""The bytes that hold it, its code, its table's number, where it begins and ends."""


class Spool(Protocol):
    """A private place for bytes; every I/O error is a `Halted` with `spool_failed`."""

    def write(self, data: bytes) -> None:
        """Append."""

    def read(self, offset: int, size: int) -> bytes:
        """Exactly these bytes.

        Raises:
            RuntimeError: After `close()`.
        """

    def close(self) -> None:
        """Let go of everything; a second call does nothing. From any thread."""


OpenSpool = Callable[[], Spool]


def nowhere() -> Spool:
    """What a fold without a place for large transactions has instead.

    Raises:
        Halted: `transaction_too_large`.
    """
    raise halted(
        HaltReason.TRANSACTION_TOO_LARGE, "more rows than may be held, and nowhere to spool them"
    )


class Block(NamedTuple):
    """Records that are written and read together.

    Attributes:
        offset: Where it begins in the spool.
        size: Its bytes.
        checksum: Their CRC32.
        chunks: How many records lie before it.
        changes: How many changes lie before it, those that stayed in memory included.
    """

    offset: int
    size: int
    checksum: int
    chunks: int
    changes: int


class SpoolWriter:
    """The row events of one unfinished transaction from where memory ended.

    Args:
        spool: Where they go; owned from now on.
        changes: How many changes stayed in memory.
    """

    def __init__(self, spool: Spool, changes: int) -> None:
        self._spool = spool
        self._tables: dict[bytes, int] = {}
        self._blocks: list[Block] = []
        self._gathered = bytearray()
        self._offset = 0
        self._chunks, self._changes = 0, changes
        self._begins = (0, changes)

    def add(self, code: int, table: bytes, body: bytes, images: int) -> None:
        """Keep one event.

        Args:
            code: Its type.
            table: The body of its table map.
            body: What stands behind its table id and flags.
            images: How many images it was decoded to, at least one.
        """
        number = self._tables.setdefault(table, len(self._tables))
        self._gathered += _RECORD.pack(code, number, images, len(body))
        self._gathered += body
        self._chunks += 1
        self._changes += images >> (OPS[code] is Op.UPDATE)
        if len(self._gathered) >= _BLOCK:
            self._write()

    def finish(self, held: Sequence[RowsChunk]) -> "SpooledChanges":
        """All changes of the transaction; they own the spool.

        Args:
            held: What stayed in memory, the beginning.
        """
        if self._gathered:
            self._write()
        tables = tuple(self._tables)
        chunks = SpooledChunks(held, self._spool, self._blocks, tables, self._chunks)
        return SpooledChanges(chunks, self._changes)

    def close(self) -> None:
        """Throw everything away."""
        self._spool.close()

    def _write(self) -> None:
        block = bytes(self._gathered)
        self._spool.write(block)
        self._blocks.append(Block(self._offset, len(block), crc32(block), *self._begins))
        self._offset += len(block)
        self._gathered.clear()
        self._begins = (self._chunks, self._changes)


class SpooledChunks(Sequence[RowsChunk]):
    """The rows of a spooled transaction by event: sized, indexable, re-iterable, decoded on demand.

    Attributes:
        on_read: Called for each event that is decoded.
        fault: Why reading back failed, once it has.
    """

    def __init__(
        self,
        held: Sequence[RowsChunk],
        spool: Spool,
        blocks: Sequence[Block],
        tables: Sequence[bytes],
        count: int,
    ) -> None:
        self.on_read: Callable[[], object] = _nothing
        self.fault: Halt | None = None
        self._held, self._blocks = held, blocks
        self._spool, self._tables = spool, tables
        self._count = len(held) + count
        self._open = True
        self._decoders: dict[int, RowDecoder] = {}
        self._block_read: tuple[Block | None, bytes] = (None, b"")
        self._found: tuple[int, RowsChunk | None] = (0, None)

    @cached_property
    def tables(self) -> frozenset[tuple[str, str]]:
        """Schema and name of each table with changes; nothing is read back for that."""
        held = {(chunk.shape.schema, chunk.shape.table) for chunk in self._held}
        return frozenset(held.union(map(peek_name, self._tables)))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[RowsChunk]:
        for chunk in self._held:
            self._check_open()
            yield chunk
        for block in self._blocks:
            for _, record in self._records(block):
                yield self._decode(*record)

    @overload
    def __getitem__(self, index: int) -> RowsChunk: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RowsChunk]: ...
    def __getitem__(self, index: int | slice) -> RowsChunk | Sequence[RowsChunk]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(self._count)))
        self._check_open()
        if index < 0:
            index += self._count
        if not 0 <= index < self._count:
            raise IndexError("chunk index out of range")
        if index < len(self._held):
            return self._held[index]
        index -= len(self._held)
        block = self._blocks[bisect_right(self._blocks, index, key=attrgetter("chunks")) - 1]
        for place, (_, record) in enumerate(self._records(block), block.chunks):
            if place == index:
                return self._decode(*record)
        raise IndexError("chunk index out of range")

    def change(self, index: int) -> Change:
        """The change at `index` (0 ≤ index < how many there are)."""
        self._check_open()
        first, chunk = self._found
        if chunk is None or not first <= index < first + len(chunk):
            first, chunk = self._found = self._chunk_with(index)
        return chunk.change(index - first)

    def _chunk_with(self, index: int) -> tuple[int, RowsChunk]:
        """The chunk that holds a change, and the place of its first one."""
        first = 0
        if index < self._blocks[0].changes:
            for chunk in self._held:
                if index < first + len(chunk):
                    return first, chunk
                first += len(chunk)
        block = self._blocks[bisect_right(self._blocks, index, key=attrgetter("changes")) - 1]
        first = block.changes
        for changes, record in self._records(block):
            if index < first + changes:
                return first, self._decode(*record)
            first += changes
        raise IndexError("change index out of range")

    def release(self) -> None:
        """Let go of the spool; whoever looks from now on gets a RuntimeError."""
        self._open = False
        self.on_read = _nothing
        self._spool.close()
        self._held, self._block_read, self._found = (), (None, b""), (0, None)
        self._decoders.clear()

    def _check_open(self) -> None:
        if not self._open:
            raise RuntimeError("changes of a spooled transaction are gone once the sink returned")

    def _records(self, block: Block) -> Iterator[tuple[int, _Record]]:
        """Each record's count of changes, and the record."""
        data, position = self._read(block), 0
        while position < block.size:
            code, table, images, size = _RECORD.unpack_from(data, position)
            start = position + _RECORD.size
            position = start + size
            yield images >> (OPS[code] is Op.UPDATE), (data, code, table, start, position)

    def _read(self, block: Block) -> bytes:
        self._check_open()
        known, data = self._block_read
        if known is not block:
            try:
                data = self._spool.read(block.offset, block.size)
                if crc32(data) != block.checksum:
                    raise halted(HaltReason.SPOOL_FAILED, "what was read back is not what was kept")
            except Halted as verdict:
                self.fault = verdict.halt
                raise
            self._block_read = (block, data)
        return data

    def _decode(self, data: bytes, code: int, table: int, start: int, end: int) -> RowsChunk:
        self._check_open()
        self.on_read()
        decoder = self._decoders.get(table)
        if decoder is None:
            if len(self._decoders) >= _MAX_DECODERS:
                self._decoders.clear()
            decoder = self._decoders[table] = compile_rows(parse(self._tables[table]))
        return RowsChunk(OPS[code], decoder.shape, images_of(decoder, code, data, start, end))


def images_of(
    decoder: RowDecoder, code: int, data: bytes, start: int, end: int
) -> list[tuple[object, ...]]:
    """Decode one row event, whichever type it has.

    Args:
        decoder: Of its table.
        code: Its type.
        data: The bytes that hold it.
        start: Where its body goes on behind table id and flags.
        end: Where its rows end.
    """
    if code == EventType.PARTIAL_UPDATE_ROWS:
        return decoder.partial_images(data, start, end)
    version1 = code < EventType.WRITE_ROWS
    return decoder.images(data, start, end, OPS[code] is Op.UPDATE, version1)


class SpooledChanges(ChunkedChanges):
    """The changes of a spooled transaction; good until `release()`."""

    __slots__ = ("_spooled",)
    spooled: ClassVar[bool] = True

    def __init__(self, chunks: SpooledChunks, length: int) -> None:
        super().__init__(chunks, length)
        self._spooled = chunks

    def on_read(self, call: Callable[[], object]) -> None:
        """Have this called for each event that is decoded, until `release()`."""
        self._spooled.on_read = call

    def release(self) -> None:
        """Let go of the spool; whoever looks from now on gets a RuntimeError."""
        self._spooled.release()

    def conclude(self) -> None:
        """Let go of the spool behind a reader that was content.

        Raises:
            Halted: When something could not be read back, whatever the reader made of it.
        """
        self.release()
        if self._spooled.fault is not None:
            raise Halted(self._spooled.fault)

    def change(self, index: int) -> Change:
        """The change at `index` (0 ≤ index < len)."""
        return self._spooled.change(index)


def _nothing() -> None:
    """Nobody is told."""
