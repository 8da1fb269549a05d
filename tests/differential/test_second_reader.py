"""The same live stream through mysql-replication and through capstan: equal but for known faults.

The two value models differ on purpose; `as_there` says how a value of capstan's is written in the
other's. Everything else that differs must stand in `FAULTS`, with the reason, and must differ
still: a fault that was mended has to leave the list.
"""

import contextlib
import json
from collections.abc import Callable
from datetime import datetime
from struct import pack, unpack
from typing import Any

import pytest
from helpers.mysql import Database
from helpers.row_stream import position, rows_since
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

pytestmark = pytest.mark.filterwarnings("ignore:'db' is deprecated:DeprecationWarning")
"""Its reader names a connection's database as older drivers did."""

CAPSTAN_ID, OTHER_ID = 741, 742
"""Of these dumps; no pipeline of another test uses them."""

INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
CASES: dict[str, list[str]] = {}
for name, bits in INTEGERS.items():
    half = 1 << bits - 1
    CASES[name] = [str(v) for v in (-half, -1, 0, 1, half - 1)]
    CASES[f"{name} unsigned"] = [str(v) for v in (0, half - 1, half, 2 * half - 1)]
for precision, scale in ((1, 0), (5, 5), (12, 2), (18, 9), (65, 30)):
    most = "9" * (precision - scale) + (f".{'9' * scale}" if scale else "")
    CASES[f"decimal({precision},{scale})"] = [most, f"-{most}", "0", "-0.00001"]
CASES["double"] = ["0", "-0.0e0", "1.1", "1.7976931348623157e308", "5e-324"]
CASES["float"] = ["0", "1.1", "-1.5", "16777216", "3.4e38"]
CASES["year"] = ["0", "1901", "2155"]
CASES["date"] = ["'1000-01-01'", "'2024-02-29'", "'9999-12-31'", "'0000-00-00'", "'2020-05-00'"]
for fsp in (0, 1, 2, 3, 4, 5, 6):
    part = ".999999"[: fsp + 1] if fsp else ""
    CASES[f"datetime({fsp})"] = [
        f"'1000-01-01 00:00:00{part}'",
        f"'9999-12-31 23:59:59{part}'",
        "'0000-00-00 00:00:00'",
        "'2020-05-00 00:00:00'",
    ]
    CASES[f"time({fsp})"] = [f"'{t}{part}'" for t in ("00:00:00", "-00:00:00", "-100:00:00")]
    CASES[f"time({fsp})"] += ["'838:59:59'", "'-838:59:59'", "'12:34:56'"]
    CASES[f"timestamp({fsp})"] = [f"'2001-09-09 01:46:40{part}'", "'0000-00-00 00:00:00'"]
for kind in ("char(60)", "varchar(60)", "varchar(300)", "char(255)", "tinytext", "longtext"):
    CASES[kind] = ["''", "' lead'", "'trail  '", "'é日😀'", f"'{'x' * 60}'"]
for charset in ("latin1", "ascii", "utf8mb3", "ucs2", "utf16", "utf32", "gbk", "sjis", "koi8r"):
    CASES[f"varchar(60) character set {charset}"] = ["''", "'abc'"]
CASES["varchar(9) character set latin1"] = ["_latin1 x'80e9ff'", "_latin1 x'81'"]
CASES["varchar(9) character set cp932"] = ["_cp932 x'93fa967b'"]
CASES["varchar(9) character set sjis"] = ["_sjis x'815f'"]
for kind in ("binary(4)", "varbinary(4)", "blob"):
    CASES[kind] = ["x''", "x'0102'", "x'01020000'", "x'ff80fe'"]
CASES["enum('a','é','it''s')"] = ["1", "2", "3"]
CASES["set('a','b','c')"] = ["0", "1", "5", "7"]
for bits in (1, 8, 9, 64):
    CASES[f"bit({bits})"] = ["0", "1", str((1 << bits) - 1)]
CASES["json"] = [
    '\'{"a": [1, true, null, "é"]}\'',
    "'[]'",
    "'5'",
    "'1.5'",
    "'18446744073709551615'",
]
CASES["json"] += [
    "cast(cast('1.20' as decimal(9,2)) as json)",
    "json_array(cast('2024-02-29' as date))",
]
CASES["geometry"] = ["st_geomfromtext('point(1 2)')"]


def text_of_bits(kind: str) -> Callable[[int], str]:
    """Zeros and ones, as many as the column has."""
    return lambda value: format(value, f"0{kind[4:-1]}b")


def as_there(kind: str, value: Any) -> Any:
    """How the other reader writes a value of capstan's."""
    if value is None:
        return None
    if kind.startswith("bit"):
        return text_of_bits(kind)(value)
    if kind.startswith("set"):
        return set(value.split(",")) if value else set()
    if kind == "float":
        return unpack("<f", pack("<f", value))[0]
    if kind.startswith("timestamp") and isinstance(value, datetime):
        return value.astimezone().replace(tzinfo=None)
    if kind == "json":
        return json.loads(value, parse_float=float)
    return value


def plain(value: Any) -> Any:
    """The other's documents hold bytes where text is meant."""
    if isinstance(value, dict):
        return {plain(key): plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value


def there(database: Database, start: tuple[str, int]) -> list[dict[str, Any]]:
    """The rows that the other reader sees from a position on."""
    server = database.server
    reader = BinLogStreamReader(
        connection_settings={
            "host": server.host,
            "port": server.port,
            "user": server.user,
            "password": server.password,
        },
        server_id=OTHER_ID,
        log_file=start[0],
        log_pos=start[1],
        resume_stream=True,
        only_schemas=[database.name],
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        enable_logging=False,
    )
    with contextlib.closing(reader):
        return [row for event in reader for row in event.rows]


def differences(kind: str, mine: list[Any], others: list[Any]) -> dict[str, str]:
    """Which values differ, by literal, and how: types and values only of this test's own."""
    found = {}
    for literal, value, other in zip(CASES[kind], mine, others, strict=True):
        expected = as_there(kind, value)
        theirs = plain(other) if kind == "json" else other
        if (type(expected), repr(expected)) != (type(theirs), repr(theirs)):
            found[literal] = f"{expected!r} there {theirs!r}"
    return found


NO_DATE = "a date with a zero in it becomes NULL, and so is lost"
NO_TIMESTAMP = "the zero timestamp becomes the beginning of 1970, in the zone of the process"
NEGATIVE = "the fraction of a negative time is added instead of subtracted"
BIG_ENDIAN = "wide characters are read in the other byte order, or not at all"
EMPTY = "an empty value of bytes becomes a text"

FAULTS: dict[str, dict[str, str]] = {
    "year": {"0": "the year 0 becomes 1900"},
    "date": dict.fromkeys(["'0000-00-00'", "'2020-05-00'"], NO_DATE),
    "varchar(60) character set ucs2": {"'abc'": BIG_ENDIAN},
    "varchar(60) character set utf16": {"'abc'": BIG_ENDIAN},
    "varchar(9) character set sjis": {
        "_sjis x'815f'": "Python's codec has another character there than the server"
    },
    "binary(4)": dict.fromkeys(
        CASES["binary(4)"], "the zeros that an image leaves out at the end are not put back"
    ),
    "varbinary(4)": {"x''": EMPTY},
    "blob": {"x''": EMPTY},
    "set('a','b','c')": {"0": "the empty set becomes NULL"},
    "json": dict.fromkeys(
        CASES["json"][-2:], "a decimal or a date in a document becomes what JSON text has not"
    ),
}
"""By type and literal, what the other reader gets wrong and how."""
for fsp in range(7):
    zero, part = "'0000-00-00 00:00:00'", ".999999"[: fsp + 1] if fsp else ""
    FAULTS[f"datetime({fsp})"] = dict.fromkeys([zero, "'2020-05-00 00:00:00'"], NO_DATE)
    FAULTS[f"timestamp({fsp})"] = {zero: NO_TIMESTAMP}
    if fsp:
        negative = [f"'{clock}{part}'" for clock in ("-00:00:00", "-100:00:00")]
        FAULTS[f"time({fsp})"] = dict.fromkeys(negative, NEGATIVE)

UNREADABLE = {
    "varchar(60) character set utf32": BIG_ENDIAN,
    "varchar(9) character set latin1": "the server's latin1 has characters that Python's lacks",
}
"""Types where it raises an exception of its codec's instead of giving any row."""


@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_the_other_reader_cannot_read_is_read_here(database: Database, kind: str) -> None:
    """R266, D27: each exception is named with its reason; the values are compared elsewhere."""
    database.execute(f"CREATE TABLE t (id INT PRIMARY KEY, v {kind} NULL)")
    start = position(database)
    rows = ",".join(f"({place},{text})" for place, text in enumerate(CASES[kind]))
    database.execute(f"INSERT INTO t VALUES {rows}")
    with pytest.raises(UnicodeDecodeError):
        there(database, start)
    (event,) = rows_since(database, start, CAPSTAN_ID)
    assert event.images == list(database.execute("SELECT id, v FROM t ORDER BY id"))


@pytest.mark.parametrize("kind", [kind for kind in CASES if kind not in UNREADABLE])
def test_two_readers_differ_only_by_known_faults(database: Database, kind: str) -> None:
    """R266: insert and delete images, value by value; each exception is named with its reason."""
    database.execute("SET SESSION sql_mode = '', time_zone = '+00:00'")
    database.execute(f"CREATE TABLE t (id INT PRIMARY KEY, v {kind} NULL)")
    start = position(database)
    rows = ",".join(f"({place},{text})" for place, text in enumerate([*CASES[kind], "NULL"]))
    database.execute(f"INSERT INTO t VALUES {rows}")
    database.execute("UPDATE t SET id = id + 1000")
    database.execute("DELETE FROM t")
    events = rows_since(database, start, CAPSTAN_ID)
    found = there(database, start)
    mine = [image for event in events for image in event.images]
    count = len(CASES[kind]) + 1
    others = [row["values"] for row in found[:count]]
    for row in found[count : 2 * count]:
        others += row["before_values"], row["after_values"]
    others += [row["values"] for row in found[2 * count :]]
    assert [image[0] for image in mine] == [other["id"] for other in others]
    inserted = [image[1] for image in mine[:count]]
    assert inserted[-1] is None
    assert others[count - 1]["v"] is None
    known = FAULTS.get(kind, {})
    for images in (slice(0, count - 1), slice(-count, -1)):
        seen = differences(
            kind, [image[1] for image in mine[images]], [other["v"] for other in others[images]]
        )
        assert seen.keys() == known.keys(), seen
