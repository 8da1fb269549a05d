"""Binlog files of many servers and tools, against what MySQL's own mysqlbinlog says of them."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import invoke
from helpers.mysqlbinlog_text import Said, printed, read

from capstan.binlog import read_events
from capstan.core.binlog.event_listing import FileEvent
from capstan.core.binlog.offline.mapped_table import MappedTable
from capstan.core.gtid import GtidSet
from capstan.sources.binlog_events import EventReader

FOLDER = Path(__file__).parents[1] / "data" / "recorded"
NAMES = sorted(
    path.name.removesuffix(".gz")
    for path in FOLDER.glob("*.gz")
    if not path.name.endswith(".decoded.txt.gz")
)
NOT_READ = {
    "canal--mysql-bin.000001": "server 5.1.34 is older than 5.6.1",
    "canal--mysql-bin.000002": "server 5.1.34 is older than 5.6.1",
    "ybinlogp--mysql-bin.default-path": "server 5.0.91 is older than 5.6.1",
    "ybinlogp--mysql-bin.delayed-event": "server 5.0.91 is older than 5.6.1",
    "zalora--mysql-bin.07": "a MariaDB server's file",
    "myflash--binlog_output_base.flashback": "checksum_mismatch at offset 120",
    "myflash--hist1__binlog_output_base.flashback": "checksum_mismatch at offset 123",
    "myflash--hist__binlog_output_base.flashback.000001": "checksum_mismatch at offset 123",
}
"""Files that are not read at all, and why."""
NO_TRANSACTIONS = {
    "apecloud--mysql-bin.000057": "payload: event_not_accepted at offset 68 (ROWS_QUERY)",
    "boxercrab--05_intvar__log.bin": "event_not_accepted at offset 736 (INTVAR)",
    "boxercrab--13_rand__log.bin": "event_not_accepted at offset 736 (RAND)",
    "boxercrab--14_user_var__log.bin": "event_not_accepted at offset 869 (INTVAR)",
    "boxercrab--17_18_load__log.bin": "event_not_accepted at offset 304 (BEGIN_LOAD_QUERY)",
    "boxercrab--29_row_query__log.bin": "event_not_accepted at offset 802 (ROWS_QUERY)",
    "boxercrab--30_write_rows_v2__log.bin": "event_not_accepted at offset 802 (ROWS_QUERY)",
    "boxercrab--32_delete_rows_v2__log.bin": "event_not_accepted at offset 802 (ROWS_QUERY)",
    "boxercrab--33_35_gtid_prev_gtid__log.bin": "event_not_accepted at offset 802 (ROWS_QUERY)",
    "boxercrab--34_anonymous_gtid__log.bin": "event_not_accepted at offset 802 (ROWS_QUERY)",
    "gh-ost--mysql-bin.000066": "row_image_not_full at offset 583 (WRITE_ROWS): test.samplet",
    "mtr--binlog.binlog_incident.1": "event_not_accepted at offset 1635 (INCIDENT)",
    "mtr--binlog.binlog_row_mysqlbinlog_verbose.1": "offset 22461 (ROWS_QUERY)",
    "mtr--binlog.binlog_xid_xa_nullbyte.1": "not_a_boundary at offset 424 (QUERY)",
    "mtr--binlog.binlog_xid_xa_nullbyte.2": "not_a_boundary at offset 275 (QUERY)",
    "mtr--rpl.rpl_row_generated_invisible_primary_key.1": "not_a_boundary at offset 942 (QUERY)",
    "mtr--rpl.rpl_row_img_misc.1": "row_image_not_full at offset 1195 (WRITE_ROWS): test.t1",
    "mtr--rpl.rpl_row_jsondiff_basic_nokey.1": "offset 372 (PARTIAL_UPDATE_ROWS)",
    "mtr--rpl.rpl_row_jsondiff_basic_pk.1": "offset 372 (PARTIAL_UPDATE_ROWS)",
    "mtr--rpl.rpl_row_jsondiff_generated_col.1": "row_image_not_full at offset 656 (WRITE_ROWS)",
    "osheroff--mysql-bin.aurora-padding": "event_not_accepted at offset 281 (type 100)",
}
"""Files with something that no explicit row-based transaction has, and what that is."""
READ = sorted(set(NAMES) - set(NOT_READ))
WHOLE = sorted(set(READ) - set(NO_TRANSACTIONS))
CUT_IMAGES = frozenset({"row_image_not_full", "event_not_accepted"})


@pytest.fixture
def file(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The file named by the test's parameter, as it was found."""
    path = tmp_path / request.param
    path.write_bytes(gzip.decompress((FOLDER / f"{request.param}.gz").read_bytes()))
    return path


def said(path: Path) -> Said:
    """What mysqlbinlog says of a file."""
    return read(gzip.decompress((FOLDER / f"{path.name}.decoded.txt.gz").read_bytes()))


class AllSigned:
    """mysqlbinlog prints integers as signed ones."""

    def of(self, table: MappedTable) -> Sequence[bool] | None:
        return None if table.signs_known else (False,) * table.integers

    def names(self, _table: MappedTable) -> None:
        return None


def summary(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, summary and standard error of `inspect --transactions`."""
    done = invoke("inspect", "--transactions", "--format", "json", *arguments)
    return done.exit_code, dict(json.loads(done.stdout)), done.stderr


@pytest.mark.parametrize("file", WHOLE, indirect=True)
def test_transactions_of_recorded_files_are_as_the_official_tool_counts_them(file: Path) -> None:
    """R258, R264: transactions, changes of each table, events, bytes and GTIDs."""
    code, found, errors = summary(str(file))
    theirs = said(file)
    assert (code, errors) == (0, "")
    assert found["transactions"] + found["rolled_back"] == theirs.begins
    assert found["incomplete"] == 0
    assert found["tables"] == theirs.tables
    assert found["events"] == theirs.events
    assert found["bytes"] == file.stat().st_size - 4
    assert GtidSet.parse(found["gtids"]) == GtidSet.parse(",".join(theirs.gtids))


@pytest.mark.parametrize("file", sorted(NO_TRANSACTIONS), indirect=True)
def test_a_recorded_file_with_something_else_in_it_is_refused_by_name(file: Path) -> None:
    """R204, R250, R253, R259: one line that says where and what; counted is what lies before."""
    code, found, errors = summary(str(file))
    assert code == 1
    assert NO_TRANSACTIONS[file.name] in errors
    assert len(errors.splitlines()) == 1
    theirs = said(file).tables
    for table, counts in found["tables"].items():
        assert all(counts[op] <= theirs[table][op] for op in counts)


@pytest.mark.parametrize("file", sorted(NOT_READ), indirect=True)
def test_a_recorded_file_that_is_not_read_says_why(file: Path) -> None:
    """R173, R260: other servers, older ones, and tools that leave wrong checksums behind."""
    for mode in ([], ["--transactions"]):
        done = invoke("inspect", *mode, str(file))
        assert done.exit_code == 1
        assert NOT_READ[file.name] in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("file", READ, indirect=True)
def test_every_event_of_recorded_files_is_listed_where_the_official_tool_sees_it(
    file: Path,
) -> None:
    """R264: offsets of all events, and rows of each table as far as they can be counted."""
    events = list(read_events(file))
    theirs = said(file)
    assert [event.offset for event in events if event.inside is None] == theirs.offsets
    if any(event.trouble for event in events):
        return
    assert counted(events) == theirs.tables


def counted(events: list[FileEvent]) -> dict[str, dict[str, int]]:
    """The changes of each table."""
    tables: dict[str, dict[str, int]] = {}
    for event in events:
        if event.op is not None and event.row_changes:
            counts = tables.setdefault(
                f"{event.schema}.{event.table}", {"inserts": 0, "updates": 0, "deletes": 0}
            )
            counts[f"{event.op.value}s"] += event.row_changes
    return tables


@pytest.mark.parametrize("file", READ, indirect=True)
def test_values_of_recorded_files_are_as_the_official_tool_prints_them(file: Path) -> None:
    """R264: every value of every image, but for images that lack columns and partial documents."""
    found: list[str] = []
    events = list(EventReader([file], rows=True, signs=AllSigned()))
    for event in events:
        if event.rows is not None:
            for image in event.rows.images:
                found += printed(image, event.rows.shape.columns)
    troubles = {event.trouble.kind.value for event in events if event.trouble}
    if troubles:
        assert troubles <= CUT_IMAGES
        assert file.name in NO_TRANSACTIONS
        return
    assert found == said(file).values


def test_the_recorded_files_are_many() -> None:
    """R264: servers from 5.0 to 9.7, with and without checksums, GTIDs and compression."""
    assert len(NAMES) == 86
    assert len(WHOLE) > 50
