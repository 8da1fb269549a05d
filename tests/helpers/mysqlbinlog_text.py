"""What MySQL's own mysqlbinlog prints (`-vv --base64-output=DECODE-ROWS`), and our values likewise.

House rules: the tool's text is read with patterns, never with a decoder of ours. Bytes are compared
as they stand: the tool prints a text's bytes whatever its character set, so both sides are read as
one byte a character.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs

from capstan.core.tables import Column
from capstan.core.values import text_of

_OPS = {"INSERT INTO": "inserts", "UPDATE": "updates", "DELETE FROM": "deletes"}
_CODECS = {"utf8mb4": "utf-8", "utf8mb3": "utf-8", "ucs2": "utf-16-be", "utf16": "utf-16-be"}
_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_ESCAPES = str.maketrans(
    {"\\": "\\\\", "'": "\\'", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\b": "\\b"}
)
_CONTROLS = {number: f"\\x{number:02x}" for number in range(32)}
_COMPRESSED = re.compile("# Start of compressed events.*?# End of compressed events", re.DOTALL)
_CHANGE = re.compile(r"^### (INSERT INTO|UPDATE|DELETE FROM) (`.*`)$", re.MULTILINE)
_MICROSECOND = timedelta(microseconds=1)


@attrs.frozen
class Said:
    """What the tool says of one file.

    Attributes:
        events: How many events lie in the file; those inside payloads apart.
        begins: How many transactions it opens.
        gtids: Every GTID, as printed.
        tables: `schema.table` → counts of inserts, updates and deletes.
        values: Every value of every image, as `@place=value`.
        offsets: Where each event begins.
    """

    events: int
    begins: int
    gtids: list[str]
    tables: dict[str, dict[str, int]]
    values: list[str]
    offsets: list[int]


def read(text: bytes) -> Said:
    """Read the tool's text."""
    lines = text.decode("latin-1")
    outside = re.sub(
        r"# Start of compressed events.*?# End of compressed events", "", lines, flags=re.DOTALL
    )
    offsets = [int(number) for number in re.findall(r"^# at (\d+)$", outside, re.MULTILINE)]
    counted: Counter[tuple[str, str]] = Counter()
    for op, name in re.findall(
        r"^### (INSERT INTO|UPDATE|DELETE FROM) (`.*`)$", lines, re.MULTILINE
    ):
        counted[name[1:-1].replace("`.`", "."), _OPS[op]] += 1
    tables: dict[str, dict[str, int]] = {}
    for (name, op), count in counted.items():
        tables.setdefault(name, dict.fromkeys(_OPS.values(), 0))[op] = count
    found = re.findall(r"^###   (@\d+=.*?)\s*/\* [A-Z]", lines, re.MULTILINE | re.DOTALL)
    return Said(
        events=len(offsets),
        begins=len(re.findall(r"^BEGIN\n/\*!\*/;$", lines, re.MULTILINE)),
        gtids=re.findall(r"^SET @@SESSION.GTID_NEXT= '([0-9a-f-]{36}:[^']*)'", lines, re.MULTILINE),
        tables=tables,
        # A negative number comes with its unsigned reading in brackets.
        values=[re.sub(r"^(@\d+=-\d+) \(\d+\)$", r"\1", value) for value in found],
        offsets=offsets,
    )


def printed(image: tuple[Any, ...], columns: tuple[Column, ...]) -> Iterator[str]:
    """An image of ours as the tool prints it."""
    for place, (value, column) in enumerate(zip(image, columns, strict=True), 1):
        yield f"@{place}={_text(value, column)}"


def _text(value: Any, column: Column) -> str:
    if value is None:
        return "NULL"
    if column.type in _BITS:
        bits = _BITS[column.type]
        return str(value - (1 << bits) if value >= 1 << (bits - 1) else value)
    form = _FORMS.get(column.type)
    if form is not None:
        return form(value, column)
    if isinstance(value, str):
        value = value.encode(_CODECS.get(column.charset or "", "latin-1"))
    # A BINARY lies in its image without the zeros at its end.
    raw = value.rstrip(b"\0") if column.type == "binary" else value
    return f"'{raw.decode('latin-1').translate(_ESCAPES).translate(_CONTROLS)}'"


def _timestamp(value: Any, column: Column) -> str:
    if isinstance(value, str):
        return "0" + ("." + "0" * column.fsp if column.fsp else "")
    seconds, micros = divmod((value - datetime.fromtimestamp(0, UTC)) // _MICROSECOND, 10**6)
    return f"{seconds}.{micros:06}"[: (column.fsp or 0) - 6 or None] if column.fsp else str(seconds)


def _quoted(value: Any, column: Column) -> str:
    return f"'{value if isinstance(value, str) else text_of(value, column)}'"


_FORMS: dict[str, Callable[[Any, Column], str]] = {
    "bit": lambda value, column: f"b'{value:0{column.length}b}'",
    "float": lambda value, _: f"{value:g}",
    "double": lambda value, _: f"{value:.20g}",
    "decimal": lambda value, _: format(value, "f"),
    "date": lambda value, column: _quoted(value, column).replace("-", ":"),
    "datetime": _quoted,
    "time": _quoted,
    "timestamp": _timestamp,
    "year": lambda value, _: str(value),
    "enum": lambda value, _: str(value),
    "set": lambda value, _: f"b'{value:08b}'",
    "json": lambda value, _: f"'{value.encode().decode('latin-1')}'",
}
