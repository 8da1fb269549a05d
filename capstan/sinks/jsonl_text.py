"""JSON texts of changes for the JSON lines sink. Pure.

House rules: nothing is lost between a value and its line. Integers and floats are JSON numbers,
written with all their digits; decimals, dates and times are strings as a SELECT prints them; bytes
are base64; NULL is null. A line holds no line break but its own.

A JSON column is embedded as it stands when a reader with exact integers and double-precision floats
gets all of it: every number with a point or an exponent must be its double's shortest form. Else (a
decimal such as 105.0000000000 or 0.12345678901234567890) the whole document is written as a string.
"""

import json
import math
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, Final

from capstan.core.changes import Change, Row, SchemaChange, SnapshotMeta, Transaction
from capstan.core.tables import Column, TableShape
from capstan.core.values import TEXT_TYPES, text_of

_MAX_SHAPES: Final = 4096

encode: Final[Callable[[object], str]] = json.JSONEncoder(ensure_ascii=False).encode


class Lines:
    """Writes lines; remembers how rows of each shape are written."""

    def __init__(self) -> None:
        self._shapes: dict[TableShape, _ShapeText] = {}

    def transaction(self, transaction: Transaction) -> Iterator[str]:
        """The lines of one transaction, one at a time."""
        changes = transaction.changes
        facts = {"gtid": str(transaction.gtid), "commit_time": _instant(transaction.commit_time)}
        return self._rows(changes, len(changes), facts)

    def snapshot(self, changes: Sequence[Change], meta: SnapshotMeta) -> Iterator[str]:
        """The lines of one chunk of a backfill, one at a time."""
        facts = {"position": str(meta.position), "sequence": meta.sequence, "final": meta.final}
        return self._rows(changes, len(changes), facts)

    def _rows(self, changes: Iterable[Change], count: int, facts: dict[str, Any]) -> Iterator[str]:
        head = encode(facts)[:-1]
        for index, change in enumerate(changes):
            yield f'{head}, "index": {index}, "count": {count}, {self._change(change)}}}\n'

    def _change(self, change: Change) -> str:
        shape = self._shapes.get(change.shape)
        if shape is None:
            if len(self._shapes) >= _MAX_SHAPES:
                self._shapes.clear()
            shape = self._shapes[change.shape] = _ShapeText(change.shape)
        return f'"op": "{change.op.value}", {shape.images(change.values, change.old_values)}'


def schema_changes(changes: Sequence[SchemaChange]) -> Iterator[str]:
    """The lines of the schema changes of one GTID."""
    for index, change in enumerate(changes):
        line = encode(
            {
                "gtid": str(change.gtid),
                "commit_time": _instant(change.commit_time),
                "index": index,
                "count": len(changes),
                "op": "schema",
                "kind": change.kind,
                "schema": change.schema,
                "table": change.table,
                "new_schema": change.new_schema,
                "new_table": change.new_table,
                "rows_may_change": change.rows_may_change,
            }
        )
        yield line + "\n"


def _instant(moment: datetime) -> str:
    """A moment in UTC with microseconds and Z."""
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


class _ShapeText:
    """How rows of one shape are written."""

    def __init__(self, shape: TableShape) -> None:
        fields = ", ".join(f"{encode(name).replace('%', '%%')}: %s" for name in shape.names)
        self._names = f'"schema": {encode(shape.schema)}, "table": {encode(shape.table)}'
        self._record = f"{{{fields}}}"
        self._columns = tuple(_column_text(column) for column in shape.columns)
        self._key = shape.key

    def images(self, new: Row | None, old: Row | None) -> str:
        """The names, the key and both images of one change."""
        old_texts = None if old is None else self._texts(old)
        texts = old_texts if new is None else self._texts(new)
        assert texts is not None
        key = f"[{', '.join([texts[place] for place in self._key])}]" if self._key else "null"
        record = "null" if new is None else self._record % texts
        old_record = "null" if old_texts is None else self._record % old_texts
        return f'{self._names}, "key": {key}, "record": {record}, "old_record": {old_record}'

    def _texts(self, row: Row) -> tuple[str, ...]:
        values = zip(self._columns, row, strict=True)
        return tuple(["null" if v is None else text(v) for text, v in values])


def _column_text(column: Column) -> Callable[[Any], str]:
    if column.type == "json":
        return _document
    if column.type in TEXT_TYPES:
        return lambda value: encode(text_of(value, column))
    return _plain


def _plain(value: Any) -> str:
    """The JSON text of an int, float, str or bytes.

    Raises:
        TypeError, ValueError: For anything else; no value is named.
    """
    text = _TEXTS.get(type(value))
    if text is None:
        raise TypeError(f"no JSON form for {type(value).__name__}")
    return text(value)


def _float(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError("a float that JSON cannot write")
    return repr(value)


def _bytes(value: bytes) -> str:
    return f'"{b64encode(value).decode()}"'


_TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    int: str,
    float: _float,
    str: encode_basestring,
    bytes: _bytes,
}


def _document(text: str) -> str:
    return text if _embeddable(text) else encode(text)


def _embeddable(text: str) -> bool:
    if "\n" in text or "\r" in text:
        return False
    try:
        json.loads(text, parse_float=_exact_float, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _exact_float(token: str) -> float:
    """The double of a number token.

    Raises:
        ValueError: When a double does not keep all of it.
    """
    number, written = float(token), Decimal(token)
    _, digits, exponent = written.as_tuple()
    padded = isinstance(exponent, int) and exponent < -1 and digits[-1] == 0
    if padded or not math.isfinite(number) or written != Decimal(repr(number)):
        raise ValueError("more than a double holds")
    return number


def _refuse(_token: str) -> float:
    raise ValueError("not JSON")
