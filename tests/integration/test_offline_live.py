"""The live server's own binlog files, against MySQL's own mysqlbinlog run here and now."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from helpers.binlog_files import a_file, group
from helpers.binlog_stream import WRITE, begin, gtid, mapped, row, rows, xid
from helpers.command_line import PROGRAM, invoke
from helpers.mysql import PrivateServers, execute, gtid_executed, programs_or_fail
from helpers.mysqlbinlog_text import Said, printed, read

from capstan.binlog import CommittedTransaction, RolledBack, read_events, read_transactions
from capstan.core.gtid import GtidSet
from capstan.demo.mysql_install import MysqlPrograms
from capstan.demo.mysql_server import MysqlServer

MIB = 1 << 20
SCHEMA_QUERY = """SELECT CONCAT('{', GROUP_CONCAT(columns SEPARATOR ', '), '}') FROM (
    SELECT CONCAT(JSON_QUOTE(CONCAT(table_schema, '.', table_name)), ': [',
        GROUP_CONCAT(
            JSON_OBJECT('name', column_name, 'unsigned', column_type LIKE '%unsigned%')
            ORDER BY ordinal_position
        ), ']') AS columns
    FROM information_schema.columns WHERE table_schema = 'shop' GROUP BY table_schema, table_name
) AS tables"""


@attrs.frozen
class Logs:
    """A server's binlog files and the tool that reads them.

    Attributes:
        server: The server, running.
        programs: MySQL's programs.
    """

    server: MysqlServer
    programs: MysqlPrograms

    def files(self) -> list[Path]:
        """Every file, in order."""
        index = self.server.data / "binlog.index"
        names = index.read_text(encoding="utf-8").split()
        return [self.server.data / Path(name).name for name in names]

    def said(self, *files: Path) -> Said:
        """What the official tool says of files."""
        options = ("--no-defaults", "-vv", "--base64-output=DECODE-ROWS")
        done = subprocess.run(
            [*self.programs.mysqlbinlog, *options, *map(str, files)],
            capture_output=True,
            check=True,
            env={**os.environ, "TZ": "UTC"},
        )
        return read(done.stdout)


STATEMENTS = [
    "CREATE DATABASE shop",
    """CREATE TABLE shop.wide (
        id INT UNSIGNED PRIMARY KEY, t TINYINT, m MEDIUMINT UNSIGNED, b BIGINT UNSIGNED,
        d DECIMAL(20, 4), f FLOAT, g DOUBLE, s VARCHAR(40), c CHAR(90) CHARACTER SET latin1,
        raw VARBINARY(20), day DATE, at DATETIME(3), stamp TIMESTAMP(6) NULL, span TIME(2),
        bits BIT(12), large TEXT, number YEAR
    ) CHARACTER SET utf8mb4""",
    "CREATE TABLE shop.old (id INT PRIMARY KEY, s VARCHAR(10)) ENGINE=MyISAM",
    "CREATE TABLE shop.parent (id INT PRIMARY KEY)",
    """CREATE TABLE shop.child (id INT PRIMARY KEY, parent INT,
        FOREIGN KEY (parent) REFERENCES shop.parent (id) ON DELETE CASCADE)""",
    """INSERT INTO shop.wide VALUES
        (1, -1, 16777215, 18446744073709551615, -1.5, 1.25, 1e300, 'ß€😀', 'é', x'00ff',
         '2024-02-29', '2024-02-29 23:59:59.123', '2024-03-31 01:30:00.654321', '-838:59:59.00',
         b'101', REPEAT('x', 3000), 2024),
        (4294967295, 127, 0, 0, 99999, -0.5, 0, '', NULL, '', '1000-01-01',
         '9999-12-31 23:59:59.999', NULL, '00:00:00', b'111111111111', NULL, 1901)""",
    "UPDATE shop.wide SET s = NULL, b = b - 1 WHERE id = 1",
    "INSERT INTO shop.old VALUES (1, 'a'), (2, 'b')",
    "INSERT INTO shop.parent VALUES (1), (2)",
    "INSERT INTO shop.child VALUES (1, 1), (2, 1), (3, 2)",
    "DELETE FROM shop.parent WHERE id = 1",
    "SET binlog_transaction_compression = ON",
    "INSERT INTO shop.wide (id, large) SELECT 100 + id, REPEAT('y', 9000) FROM shop.child",
    "UPDATE shop.wide SET t = 5 WHERE id >= 100",
    "SET binlog_transaction_compression = OFF",
    "FLUSH BINARY LOGS",
    "SET gtid_next = 'automatic:blue'",
    "INSERT INTO shop.parent VALUES (9)",
    "SET gtid_next = 'automatic'",
    "ALTER TABLE shop.parent ADD COLUMN note VARCHAR(20)",
    "CREATE USER somebody",
    "TRUNCATE TABLE shop.old",
    "SET GLOBAL binlog_checksum = NONE",
    "INSERT INTO shop.parent VALUES (10, 'plain')",
    "DELETE FROM shop.wide",
    "SET GLOBAL binlog_checksum = CRC32",
]
TAGS_FROM = (8, 3)


@pytest.fixture(scope="module", params=["FULL", "MINIMAL"])
def logs(request: pytest.FixtureRequest) -> Iterator[Logs]:
    """A server that has written a bit of everything."""
    programs = programs_or_fail()
    with contextlib.closing(PrivateServers(programs)) as servers:
        server = servers(options={"binlog_row_metadata": request.param})
        version = tuple(map(int, server.version.split("-")[0].split(".")[:2]))
        with contextlib.closing(server.connect()) as connection:
            for statement in STATEMENTS:
                if "blue" not in statement or version >= TAGS_FROM:
                    execute(connection, statement)
            execute(connection, "BEGIN")
            execute(connection, "INSERT INTO shop.child VALUES (20, NULL)")
            execute(connection, "UPDATE shop.child SET parent = 2 WHERE id = 20")
            execute(connection, "COMMIT")
        yield Logs(server, programs)


def test_a_servers_own_files_are_counted_as_its_own_tool_counts_them(logs: Logs) -> None:
    """R258, R264: every file in a row: transactions, tables, events, bytes, GTIDs."""
    files = logs.files()
    assert len(files) >= 4
    done = invoke("inspect", "--transactions", "--format", "json", *map(str, files))
    assert (done.exit_code, done.stderr) == (0, "")
    found = dict(json.loads(done.stdout))
    theirs = logs.said(*files)
    assert found["tables"] == theirs.tables
    assert found["transactions"] == theirs.begins
    assert found["events"] == theirs.events
    assert found["bytes"] == sum(file.stat().st_size - 4 for file in files)
    with contextlib.closing(logs.server.connect()) as connection:
        executed = GtidSet.parse(gtid_executed(connection))
    assert GtidSet.parse(found["gtids"]) == executed == GtidSet.parse(",".join(theirs.gtids))
    gtids = invoke("inspect", "--gtids", *map(str, files))
    assert GtidSet.parse(gtids.stdout) == executed


def test_values_of_a_servers_own_files_are_as_its_own_tool_prints_them(logs: Logs) -> None:
    """R264: with all metadata and with the server's default."""
    for file in logs.files():
        ours = [
            value
            for event in read_events(file, rows=True)
            if event.rows is not None
            for image in event.rows.images
            for value in printed(image, event.rows.shape.columns)
        ]
        assert ours == logs.said(file).values


def test_each_transaction_of_a_live_file_is_where_its_tool_says(logs: Logs) -> None:
    """R226, R230, R255: offsets of transactions are offsets of events."""
    for file in logs.files():
        offsets = {*logs.said(file).offsets, file.stat().st_size}
        for each in read_transactions(file):
            assert {each.start_offset, each.end_offset} <= offsets
            assert not isinstance(each.outcome, RolledBack)
            if isinstance(each.outcome, CommittedTransaction):
                outcome = each.outcome
                assert outcome.end_offset - outcome.start_offset == outcome.wire_bytes


def test_a_schema_can_be_taken_from_the_server(logs: Logs, tmp_path: Path) -> None:
    """R258: the documented query; its answer agrees with the files."""
    with contextlib.closing(logs.server.connect()) as connection:
        execute(connection, "SET group_concat_max_len = 1000000")
        ((document,),) = execute(connection, SCHEMA_QUERY)
    schema = tmp_path / "schema.json"
    schema.write_text(document, encoding="utf-8")
    last = logs.files()[-1]
    done = invoke("inspect", "--rows", "--schema", str(schema), str(last))
    assert (done.exit_code, done.stderr) == (0, "")
    changes = [
        change
        for line in done.stdout.splitlines()
        for change in json.loads(line).get("changes", [])
    ]
    assert {"record": {"id": 20, "parent": None}} in changes


def test_the_documented_schema_query_is_the_tested_one() -> None:
    """R164: what the page shows works."""
    page = (Path(__file__).parents[2] / "docs" / "offline.md").read_text(encoding="utf-8")
    assert SCHEMA_QUERY in page


def test_a_file_that_is_being_written_is_read_up_to_a_transactions_end(logs: Logs) -> None:
    """R259, R260: nothing of a transaction that is under way is in the file."""
    with contextlib.closing(logs.server.connect()) as writer:
        execute(writer, "BEGIN")
        execute(writer, "INSERT INTO shop.parent VALUES (77, 'not yet')")
        last = logs.files()[-1]
        before = invoke("inspect", "--transactions", "--format", "json", str(last))
        execute(writer, "COMMIT")
    after = invoke("inspect", "--transactions", "--format", "json", str(last))
    assert before.exit_code == after.exit_code == 0
    counts = [json.loads(done.stdout)["transactions"] for done in (before, after)]
    assert counts[1] == counts[0] + 1


# --- memory ---------------------------------------------------------------------------------------


def large_file(path: Path, size: int) -> Path:
    """Two transactions of about half a size each, made of one statement again and again."""
    images = [row(number, "x" * 60) for number in range(110)]
    statement = mapped() + rows(WRITE, images)
    times = size // 2 // len(statement)
    with path.open("wb") as out:
        out.write(a_file(*group(1)).data)
        for number in (2, 3):
            out.write(gtid(number) + begin())
            for _ in range(times // 1000 + 1):
                out.write(statement * 1000)
            out.write(xid())
    return path


def peak_kib(*arguments: str) -> tuple[int, dict[str, Any]]:
    """The most memory that a command held, and its last line."""
    code = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
        "sys.stdout.buffer.write(done.stdout.splitlines()[-1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    peak, last = done.stdout.split("\n", 1)
    return int(peak), json.loads(last)


def held(tmp_path: Path, size: int, *mode: str) -> Iterator[int]:
    """The peaks for a small file and for a large one, in KiB."""
    for name, bytes_ in (("small", MIB), ("large", size)):
        path = large_file(tmp_path / name, bytes_)
        peak, last = peak_kib(*PROGRAM, "inspect", *mode, str(path))
        if "transactions" in last:
            assert last["transactions"] == 3
            assert last["bytes"] == path.stat().st_size - 4
        path.unlink()
        yield peak


COUNT = ("--transactions", "--format", "json")


@pytest.mark.parametrize("mode", [COUNT, (*COUNT, "--max-events", "99999999"), ()])
def test_memory_does_not_grow_with_a_file(tmp_path: Path, mode: tuple[str, ...]) -> None:
    """R260: 40 MiB in two transactions, counted, decoded, listed: as little as for 1 MiB."""
    small, large = held(tmp_path, 40 * MIB, *mode)
    assert large - small < 24 << 10


@pytest.mark.long
def test_memory_does_not_grow_with_a_file_of_2_gib(tmp_path: Path) -> None:
    """R260: the long form."""
    small, large = held(tmp_path, 2048 * MIB, *COUNT)
    assert large - small < 24 << 10
