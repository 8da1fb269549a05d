"""What `capstan inspect` prints: JSON lines of events and transactions, and a table for people.

House rules: one line an event or transaction, in ASCII; a field that has nothing to say is left
out. Values only where they were asked for. Decimals, dates and times are written as a SELECT prints
them, bytes as base64, JSON documents as strings, so that nothing is lost on the way.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from capstan.core.binlog.envelope import FileTransaction, SelfCommitting
from capstan.core.binlog.event_listing import FileEvent
from capstan.core.binlog.file_tally import FileTally
from capstan.core.binlog.group_listing import GtidGroup
from capstan.core.binlog.memo import Memo
from capstan.core.binlog.offline.outcomes import CommittedTransaction, RolledBack
from capstan.core.changes import Change, Row
from capstan.core.gtid import Gtid
from capstan.core.tables import Column
from capstan.core.values import TEXT_TYPES, text_of

_encode: Final = json.JSONEncoder(separators=(", ", ": ")).encode
_NUMBERS: Final = ("inserts", "updates", "deletes", "rows", "bytes")


def event_line(event: FileEvent, file: Path | None) -> str:
    """One event; `file` is told where there are several."""
    header = event.header
    table = None if event.table is None else f"{event.schema}.{event.table}"
    trouble = event.trouble
    return _line(
        file=None if file is None else file.name,
        offset=event.offset,
        inside=event.inside,
        type=header.type_name,
        size=header.event_size,
        time=_moment(header.timestamp),
        gtid=_gtid(event.gtid),
        table=table,
        op=None if event.op is None else event.op.value,
        rows=event.row_changes,
        changes=None if event.rows is None else list(_changes(event)),
        undecoded=None if trouble is None else _reason(trouble.kind.value, trouble.detail),
    )


def _reason(kind: str, detail: str) -> str:
    return f"{kind}: {detail}" if detail else kind


def _changes(event: FileEvent) -> Iterator[dict[str, Any]]:
    assert event.rows is not None
    names = event.names or event.rows.shape.names
    columns = event.rows.shape.columns
    for change in event.rows:
        yield _images(change, names, columns)


def _images(change: Change, names: Sequence[str], columns: Sequence[Column]) -> dict[str, Any]:
    images = {"old_record": change.old_values, "record": change.values}
    return {
        key: _record(image, names, columns) for key, image in images.items() if image is not None
    }


def _record(row: Row, names: Sequence[str], columns: Sequence[Column]) -> dict[str, Any]:
    return {
        name: _value(value, column) for name, value, column in zip(names, row, columns, strict=True)
    }


def _value(value: Any, column: Column) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if value is None or column.type not in TEXT_TYPES:
        return value
    return text_of(value, column)


def transaction_line(transaction: FileTransaction, file: Path | None) -> str:
    """One transaction with its counts."""
    outcome = transaction.outcome
    facts: dict[str, Any] = {}
    if isinstance(outcome, CommittedTransaction):
        kind = "committed"
        facts = {
            "xid": outcome.xid,
            "rows": outcome.row_changes,
            "tables": {
                f"{each.schema}.{each.table}": {
                    "inserts": each.inserts,
                    "updates": each.updates,
                    "deletes": each.deletes,
                    "rows": each.row_changes,
                    "bytes": each.wire_bytes,
                }
                for each in outcome.tables
            },
        }
    elif isinstance(outcome, RolledBack):
        kind, facts = "rolled_back", {"discarded": outcome.discarded}
    else:
        kind = "ddl" if isinstance(outcome, SelfCommitting) else "incomplete"
    prefix = transaction.prefix
    return _line(
        file=None if file is None else file.name,
        offset=transaction.start_offset,
        end=transaction.end_offset,
        time=_moment(transaction.timestamp),
        gtid=None if prefix is None else _gtid(prefix.gtid),
        outcome=kind,
        events=transaction.event_count,
        bytes=transaction.end_offset - transaction.start_offset,
        compressed=True if transaction.payload_offset is not None else None,
        **facts,
    )


def group_line(group: GtidGroup, file: Path) -> str:
    """Where one GTID's events lie."""
    return _line(
        file=file.name,
        gtid=str(group.gtid),
        offset=group.start_offset,
        end=group.end_offset,
        time=_moment(group.timestamp),
        events=group.event_count,
        bytes=group.end_offset - group.start_offset,
    )


def summary_line(tally: FileTally, events: int, size: int) -> str:
    """Everything in one object."""
    return _encode(
        {
            "transactions": tally.transactions,
            "rolled_back": tally.rolled_back,
            "incomplete": tally.incomplete,
            "ddl": tally.ddl,
            "events": events,
            "bytes": size,
            "gtids": str(tally.gtids),
            "tables": {
                f"{schema}.{table}": {
                    "inserts": count.inserts,
                    "updates": count.updates,
                    "deletes": count.deletes,
                }
                for (schema, table), count in sorted(tally.tables.items())
            },
        }
    )


def summary_table(tally: FileTally, events: int, size: int) -> str:
    """Everything as a table for people."""
    rows: list[tuple[str, ...]] = [("table", *_NUMBERS)]
    for (schema, table), count in sorted(tally.tables.items()):
        numbers = (
            count.inserts,
            count.updates,
            count.deletes,
            count.row_changes,
            count.wire_bytes,
        )
        rows.append((_printable(f"{schema}.{table}"), *(f"{number:,}" for number in numbers)))
    gtids = str(tally.gtids)
    ends = (
        f"{tally.transactions:,} committed, {tally.rolled_back:,} rolled back, "
        f"{tally.incomplete:,} incomplete, {tally.ddl:,} self-committing statements (DDL)"
    )
    return "\n".join(
        [
            *(_aligned(rows) if tally.tables else ["no row changes"]),
            "",
            ends,
            f"{events:,} events, {size:,} bytes",
            f"GTIDs: {gtids}" if gtids else "no GTIDs",
        ]
    )


def _printable(name: str) -> str:
    """A name from a file must not steer somebody's terminal."""
    return name if name.isprintable() else ascii(name)[1:-1]


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *numbers in rows:
        cells = [name.ljust(widths[0])]
        cells += [number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True)]
        yield "  ".join(cells)


def _line(**fields: Any) -> str:
    return _encode({key: value for key, value in fields.items() if value is not None})


def _moment(timestamp: int) -> str | None:
    return _MOMENTS[timestamp] if timestamp else None


def _utc(timestamp: int) -> str:
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_MOMENTS: Final[Memo[int, str]] = Memo(_utc, 4096)


def _gtid(gtid: Gtid | None) -> str | None:
    return None if gtid is None else str(gtid)
