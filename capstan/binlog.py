"""Binlog files without a server: their events and their transactions.

House rules: the public door, nothing else: names from `core.binlog` and two functions that put a
file before them. Nothing is written, nothing is sent, and no delivery is promised.

`read_transactions` refuses whatever is not a whole, row-based, explicit transaction inside the
envelope that `docs/offline.md` states; `read_events` lists whatever is there.
"""

from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path

from capstan.core.binlog.envelope import FileTransaction, SelfCommitting
from capstan.core.binlog.event_listing import FileEvent
from capstan.core.binlog.offline.boundary import TransactionAction, TransactionBoundary
from capstan.core.binlog.offline.decode_errors import DecodeError, DecodeErrorKind
from capstan.core.binlog.offline.decode_limits import TransactionLimits
from capstan.core.binlog.offline.format_description import FormatDescription
from capstan.core.binlog.offline.gtid_transactions import (
    GtidOutcome,
    GtidPrefix,
    GtidStep,
    GtidTransactionDecoder,
)
from capstan.core.binlog.offline.outcomes import (
    CommittedTransaction,
    IncompleteTransaction,
    RolledBack,
    RowEvent,
    TableTotals,
    TransactionStep,
)
from capstan.core.binlog.offline.raw_event import EventHeader
from capstan.core.binlog.offline.transactions import TransactionDecoder
from capstan.core.binlog.table_signs import SchemaError, Schemas
from capstan.sources.binlog_events import EventReader
from capstan.sources.binlog_file import BinlogFileError, FileErrorKind
from capstan.sources.binlog_transactions import TransactionReader

__all__ = [
    "BinlogFileError",
    "CommittedTransaction",
    "DecodeError",
    "DecodeErrorKind",
    "EventHeader",
    "FileErrorKind",
    "FileEvent",
    "FileTransaction",
    "FormatDescription",
    "GtidOutcome",
    "GtidPrefix",
    "GtidStep",
    "GtidTransactionDecoder",
    "IncompleteTransaction",
    "RolledBack",
    "RowEvent",
    "SchemaError",
    "Schemas",
    "SelfCommitting",
    "TableTotals",
    "TransactionAction",
    "TransactionBoundary",
    "TransactionDecoder",
    "TransactionLimits",
    "TransactionStep",
    "read_events",
    "read_transactions",
]

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]
"""One file, or several that follow one another."""


def read_events(
    path: Paths, *, rows: bool = False, schema: Schemas | None = None
) -> Iterator[FileEvent]:
    """List the events of one file, or of several that follow one another.

    Args:
        path: The file, or the files in order.
        rows: Whether to decode rows.
        schema: Names and signs of columns, for files whose table maps lack them.

    Yields:
        Each event in order; the events inside a compressed payload follow it. What could not be
        read of one is its `trouble`.

    Raises:
        BinlogFileError: For a file that is none, is encrypted or is not the next one.
        DecodeError: For an event that is cut off or damaged, and for a schema that contradicts a
            table map.
    """
    return iter(EventReader(_paths(path), rows=rows, signs=schema))


def read_transactions(
    path: Paths,
    *,
    limits: TransactionLimits | None = None,
    schema: Schemas | None = None,
) -> Iterator[FileTransaction]:
    """Read the transactions of one file, or of several that follow one another.

    Args:
        path: The file, or the files in order.
        limits: What a transaction may be; without bounds by default, since the decoders' own
            defaults are narrower than what servers write. A transaction's rows are in memory.
        schema: Signs of integer columns, for files whose table maps lack them.

    Yields:
        Each transaction in order: committed ones with their rows, those that were rolled back, and
        statements that commit themselves. One that the files end in comes last, without rows.

    Raises:
        BinlogFileError: For a file that is none, is encrypted or is not the next one.
        DecodeError: For whatever is outside the envelope or not as it must be.
    """
    bounds = TransactionLimits.unbounded() if limits is None else limits
    return iter(TransactionReader(_paths(path), limits=bounds, signs=schema))


def _paths(path: Paths) -> list[Path]:
    several = [path] if isinstance(path, str | PathLike) else path
    paths = list(map(Path, several))
    if not paths:
        raise ValueError("no file")
    return paths
