"""`capstan inspect`: what it prints, what it refuses, how it ends."""

import json
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from helpers.binlog_files import a_file, ddl, group, inside_of_one, payload, rotate, stop, written
from helpers.binlog_stream import (
    DELETE,
    UPDATE,
    WRITE,
    begin,
    event,
    gtid,
    mapped,
    query,
    row,
    rows,
    xid,
)
from helpers.command_line import PROGRAM, Process, invoke
from helpers.event_builder import SOURCE
from helpers.waiting import wait_until

SECRET = "a value that nobody may see"


def inspect(*arguments: object) -> Result:
    """Run the command."""
    return invoke("inspect", *map(str, arguments))


def lines(result: Result) -> list[dict[str, Any]]:
    """Its JSON lines."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def summary(result: Result) -> dict[str, Any]:
    """The object that its output ends with."""
    return lines(result)[-1]


def mixed(number: int = 2) -> list[bytes]:
    """A transaction over two tables."""
    return [
        gtid(number), begin(), mapped(), mapped(81, table=b"others"),
        rows(WRITE, [row(1, SECRET), row(2)], last=False),
        rows(UPDATE, [row(1), row(1, None)], table_id=81, last=False),
        rows(DELETE, [row(9)], table_id=81), xid(),
    ]  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a bit of everything."""
    return written(
        tmp_path / "binlog.000001",
        *group(1), *mixed(2), gtid(3), ddl(), *group(4, 5, 6, closing=query(b"ROLLBACK")),
        gtid(5), payload(inside_of_one(1, 2, 3)), *group(6), stop(),
    )  # fmt: skip


# --- events ---------------------------------------------------------------------------------------


def test_each_event_is_one_json_line(file: Path) -> None:
    """R260: offset, type, size, time, GTID, table, rows; no values."""
    result = inspect(file)
    found = lines(result)
    assert result.exit_code == 0
    assert found[0] == {
        "offset": 4,
        "type": "FORMAT_DESCRIPTION",
        "size": 123,
        "time": "2023-11-14T22:13:20Z",
    }
    insert = found[11]
    assert (
        insert.items()
        >= {
            "type": "WRITE_ROWS",
            "gtid": f"{SOURCE}:2",
            "table": "shop.items",
            "op": "insert",
            "rows": 2,
        }.items()
    )
    assert "changes" not in insert
    assert SECRET not in result.output
    assert found[-1]["type"] == "STOP"
    within = [each for each in found if "inside" in each]
    assert [each["type"] for each in within] == ["QUERY", "TABLE_MAP", "WRITE_ROWS", "XID"]


def test_rows_are_printed_when_asked_for(file: Path) -> None:
    """R264: both images of an update, with names."""
    found = {each["offset"]: each for each in lines(inspect("--rows", file))}
    changes = [change for each in found.values() for change in each.get("changes", [])]
    assert {"record": {"id": 1, "name": SECRET}} in changes
    assert {"old_record": {"id": 1, "name": "n"}, "record": {"id": 1, "name": None}} in changes
    assert {"old_record": {"id": 9, "name": "n"}} in changes


def test_what_could_not_be_decoded_is_told_and_ends_with_1(tmp_path: Path) -> None:
    """R259: the listing goes on, and one line says what was left out."""
    path = written(tmp_path / "b.1", begin(), mapped(fields={}), rows(WRITE, [row(1)]), xid())
    assert inspect(path).exit_code == 0
    result = inspect("--rows", path)
    assert result.exit_code == 1
    assert lines(result)[4]["undecoded"] == "signedness_missing: shop.items has no signs"
    assert lines(result)[5]["type"] == "XID"
    (error,) = result.stderr.splitlines()
    assert "signedness_missing at offset" in error
    assert "--schema" in error


def test_a_schema_file_lends_names_and_signs(tmp_path: Path) -> None:
    """R258: for files of servers that write neither."""
    path = written(
        tmp_path / "b.1", begin(), mapped(fields={}), rows(WRITE, [row(2**32 - 1)]), xid()
    )
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"shop.items": [{"name": "a", "unsigned": True}, "b"]}))
    result = inspect("--rows", "--schema", schema, path)
    assert result.exit_code == 0
    (change,) = lines(result)[4]["changes"]
    # No character set is known: the text's bytes.
    assert change == {"record": {"a": 2**32 - 1, "b": "bg=="}}


def test_several_files_are_told_apart(tmp_path: Path) -> None:
    """R260: each line names its file."""
    first = written(tmp_path / "b.1", *group(1), rotate("b.2"))
    second = written(tmp_path / "b.2", *group(2), before={SOURCE: (1, 2)})
    found = lines(inspect(first, second))
    assert {each["file"] for each in found} == {"b.1", "b.2"}
    assert summary(inspect("--transactions", "--format", "json", first, second))["gtids"] == (
        f"{SOURCE}:1-2"
    )
    result = inspect(second, first)
    assert result.exit_code == 1
    assert "not_in_sequence" in result.stderr


# --- transactions ---------------------------------------------------------------------------------

EXPECTED = {
    "transactions": 4,
    "rolled_back": 1,
    "incomplete": 0,
    "ddl": 1,
    "events": 30,
    "gtids": f"{SOURCE}:1-6",
    "tables": {
        "shop.items": {"inserts": 7, "updates": 0, "deletes": 0},
        "shop.others": {"inserts": 0, "updates": 1, "deletes": 1},
    },
}


def test_transactions_are_counted_by_table(file: Path) -> None:
    """R216, R229, R258: exactly these keys; what was rolled back is not counted."""
    result = inspect("--transactions", "--format", "json", file)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert lines(result) == [EXPECTED | {"bytes": file.stat().st_size - 4}]


def test_people_get_a_table(file: Path) -> None:
    """R258: inserts, updates, deletes, changed rows and bytes of each table, and a summary."""
    result = inspect("--transactions", file)
    words = [line.split() for line in result.stdout.splitlines()]
    assert words[0] == ["table", "inserts", "updates", "deletes", "rows", "bytes"]
    assert words[1][:5] == ["shop.items", "7", "0", "0", "7"]
    assert words[2][:5] == ["shop.others", "0", "1", "1", "2"]
    assert "4 committed, 1 rolled back, 0 incomplete, 1 self-committing" in result.stdout
    assert f"GTIDs: {SOURCE}:1-6" in result.stdout
    assert result.exit_code == 0


def test_a_file_without_changes_has_no_table(tmp_path: Path) -> None:
    """R258: nothing is nothing."""
    result = inspect("--transactions", written(tmp_path / "b.1"))
    assert result.stdout.startswith("no row changes\n")
    assert result.stdout.endswith("no GTIDs\n")


def test_each_transaction_has_a_line_when_asked_for(file: Path) -> None:
    """R226, R227, R258: how it ended, where it lies, what it did; then the summary."""
    *each, last = lines(inspect("--transactions", "--each", file))
    assert last["transactions"] == 4
    assert [one["outcome"] for one in each] == [
        "committed", "committed", "ddl", "rolled_back", "committed", "committed",
    ]  # fmt: skip
    assert each[1]["tables"]["shop.others"].items() >= {"updates": 1, "deletes": 1}.items()
    assert each[1]["xid"] == 77
    assert "xid" not in each[3]
    assert each[3]["discarded"] == 2
    assert each[4]["compressed"] is True
    assert [(one["end"] - one["offset"]) == one["bytes"] for one in each] == [True] * 6
    assert SECRET not in json.dumps(each)


def test_the_way_it_is_counted_does_not_change_the_counts(file: Path) -> None:
    """R258: with a line for each, within limits, over a span: the same."""
    plain = summary(inspect("--transactions", "--format", "json", file))
    for more in (["--each"], ["--max-rows", "1000"], ["--max-bytes", "99999", "--each"]):
        assert summary(inspect("--transactions", "--format", "json", *more, file)) == plain


@pytest.mark.parametrize(("option", "just", "over"), [("--max-events", 7, 6), ("--max-rows", 4, 3)])
def test_limits_are_the_users_own(tmp_path: Path, option: str, just: int, over: int) -> None:
    """R241, R243: none by default; at the limit is accepted, beyond it refused."""
    path = written(tmp_path / "b.1", *group(1), *mixed(2))
    assert inspect("--transactions", option, just, path).exit_code == 0
    result = inspect("--transactions", "--format", "json", option, over, path)
    assert result.exit_code == 1
    assert "limit_exceeded" in result.stderr
    assert summary(result)["transactions"] == 1


def test_more_rows_in_an_event_than_a_library_takes_are_counted(tmp_path: Path) -> None:
    """R245, R258: ordinary files have 2,045 rows in an event."""
    path = written(tmp_path / "b.1", *group(1, *range(2045)), *group(2, *range(2045)))
    found = summary(inspect("--transactions", "--format", "json", path))
    assert found["tables"]["shop.items"]["inserts"] == 4090


@pytest.mark.parametrize("kept", range(1, 5))
@pytest.mark.parametrize("cut", [0, 3])
def test_an_unfinished_transaction_ends_with_1_and_is_not_printed(
    tmp_path: Path, kept: int, cut: int
) -> None:
    """R218, R231, R259: whole events or half of one; its GTID and rows are nowhere."""
    whole = a_file(*group(1), *group(2)[:kept]).data
    path = tmp_path / "b.1"
    path.write_bytes(whole[: len(whole) - cut])
    for more in ([], ["--each"]):
        result = inspect("--transactions", "--format", "json", *more, path)
        assert result.exit_code == 1
        found = summary(result)
        assert (found["transactions"], found["gtids"]) == (1, f"{SOURCE}:1")
        assert found["incomplete"] == (0 if kept == 1 and cut else 1)
        assert found["tables"]["shop.items"]["inserts"] == 1
        assert f"{SOURCE}:2" not in result.stdout
        assert len(result.stdout.splitlines()) == 1 + bool(more)
        (error,) = result.stderr.splitlines()
        assert ("truncated at offset" if cut else "is incomplete") in error


def test_a_decoding_error_ends_with_1_and_nothing_of_its_transaction(tmp_path: Path) -> None:
    """R219, R259: one line that says where and what; counted is what lies before."""
    path = written(
        tmp_path / "b.1", *group(1), *mixed(2)[:-1], event(29, b"\x01" + SECRET.encode())
    )
    result = inspect("--transactions", "--format", "json", path)
    assert result.exit_code == 1
    assert summary(result)["tables"] == {"shop.items": {"inserts": 1, "updates": 0, "deletes": 0}}
    (error,) = result.stderr.splitlines()
    assert "event_not_accepted at offset" in error
    assert "ROWS_QUERY" in error
    assert SECRET not in result.output


def test_an_encrypted_file_is_refused_by_name(tmp_path: Path) -> None:
    """R260: what would help is said."""
    path = tmp_path / "b.1"
    path.write_bytes(b"\xfdbin" + bytes(600))
    result = inspect("--transactions", path)
    assert result.exit_code == 1
    assert "encrypted" in result.stderr
    assert "read-from-remote-server" in result.stderr


def test_names_from_a_file_do_not_steer_a_terminal(tmp_path: Path) -> None:
    """R265: a table's name may hold any character."""
    name = b"\x1b[2Jx"
    events = [gtid(1), begin(), mapped(table=name), rows(WRITE, [row(1)]), xid()]
    path = written(tmp_path / "b.1", *events)
    for mode in (["--transactions"], ["--transactions", "--each"], []):
        result = inspect(*mode, path)
        assert result.exit_code == 0
        assert "\x1b" not in result.stdout


# --- spans, GTIDs ---------------------------------------------------------------------------------


def test_a_span_of_offsets_takes_what_begins_in_it(file: Path) -> None:
    """R258: whole transactions, by where they begin; events by where they lie."""
    each = lines(inspect("--transactions", "--each", file))[:-1]
    second, fourth = each[1]["offset"], each[3]["offset"]
    options = ["--since", second, "--until", fourth]
    found = summary(inspect("--transactions", "--format", "json", *options, file))
    assert (found["transactions"], found["ddl"], found["rolled_back"]) == (1, 1, 0)
    assert found["gtids"] == f"{SOURCE}:2-3"
    assert found["events"] == each[1]["events"] + each[2]["events"]
    assert found["bytes"] == fourth - second
    offsets = [one["offset"] for one in lines(inspect(*options, file))]
    assert offsets[0] == second
    assert max(offsets) < fourth


@pytest.mark.parametrize(
    ("since", "until", "count"),
    [
        ("2023-11-14T22:13:20Z", None, 4),
        ("2023-11-14T22:13:20", "2023-11-14 22:13:21", 4),
        ("2023-11-14T22:13:21", None, 0),
        (None, "2023-11-14T22:13:20", 0),
        ("2023-11-15T00:13:20+02:00", None, 4),
    ],
)
def test_a_span_of_time_is_utc_unless_it_says_otherwise(
    file: Path, since: str | None, until: str | None, count: int
) -> None:
    """R258: the beginning is within, the end is not."""
    options = [
        part
        for name, bound in (("--since", since), ("--until", until))
        if bound
        for part in (name, bound)
    ]
    found = summary(inspect("--transactions", "--format", "json", *options, file))
    assert found["transactions"] == count


def test_the_executed_set_of_files(tmp_path: Path) -> None:
    """R260: what the files hold, and what is said to be in those before."""
    path = written(tmp_path / "b.1", *group(8), *group(9), before={SOURCE: (1, 8)})
    assert inspect("--gtids", path).stdout == f"{SOURCE}:8-9\n"
    (found,) = lines(inspect("--gtids", "--format", "json", path))
    assert found == {"previous": f"{SOURCE}:1-7", "gtids": f"{SOURCE}:8-9"}


def test_gtids_of_files_with_anything_in_them(tmp_path: Path) -> None:
    """R260: XA and statements are no transactions that could be decoded, but have their GTIDs."""
    path = written(
        tmp_path / "b.1",
        gtid(1), query(b"XA COMMIT X'61',X'',1"),
        gtid(2), begin(), query(b"INSERT INTO t VALUES (1)"), xid(),
    )  # fmt: skip
    assert inspect("--gtids", path).stdout == f"{SOURCE}:1-2\n"
    assert inspect("--transactions", path).exit_code == 1


def test_an_unfinished_gtid_is_not_in_the_set(tmp_path: Path) -> None:
    """R231, R259: it is told on standard error, and the command ends with 1."""
    whole = a_file(*group(1), *group(2)[:3]).data
    path = tmp_path / "b.1"
    for end in (len(whole), len(whole) - 2):
        path.write_bytes(whole[:end])
        result = inspect("--gtids", path)
        assert result.stdout == f"{SOURCE}:1\n"
        assert result.exit_code == 1
        assert len(result.stderr.splitlines()) == 1


def test_one_gtid_is_found_with_its_offsets(file: Path) -> None:
    """R255: where its events lie."""
    (found,) = lines(inspect("--find", f"{SOURCE}:2", file))
    second = lines(inspect("--transactions", "--each", file))[1]
    assert found == {
        "file": "binlog.000001",
        "gtid": f"{SOURCE}:2",
        "offset": second["offset"],
        "end": second["end"],
        "time": "2023-11-14T22:13:20Z",
        "events": 8,
        "bytes": second["bytes"],
    }
    result = inspect("--find", f"{SOURCE}:99", file)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "is not in this file" in result.stderr


# --- usage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["--transactions", "--gtids"],
        ["--transactions", "--rows"],
        ["--each"],
        ["--format", "json"],
        ["--gtids", "--since", "4"],
        ["--max-rows", "3"],
        ["--find", "nonsense"],
        ["--since", "yesterday"],
        ["--transactions", "--max-rows", "0"],
        ["--transactions", "--max-bytes", str(2**64)],
        ["--transactions", "--format", "xml"],
    ],
)
def test_what_makes_no_sense_is_refused(file: Path, arguments: list[str]) -> None:
    """R239: with status 2, before anything is read."""
    result = inspect(*arguments, file)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_a_file_is_needed(tmp_path: Path) -> None:
    """R258: one that exists."""
    assert inspect().exit_code == 2
    assert inspect(tmp_path / "missing").exit_code == 2


@pytest.mark.parametrize("content", ["", "[]", '{"a.b": 1}', "{", "\xff"])
def test_a_schema_file_of_another_form_is_refused(file: Path, tmp_path: Path, content: str) -> None:
    """R258: nothing is decoded by half a schema."""
    schema = tmp_path / "schema.json"
    schema.write_text(content, encoding="latin-1")
    result = inspect("--transactions", "--schema", schema, file)
    assert result.exit_code == 2
    assert str(schema) in result.stderr


def test_a_schema_that_contradicts_a_file_ends_with_1(file: Path, tmp_path: Path) -> None:
    """R258: the table map is asked too."""
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"shop.items": ["id", "name"]}))
    result = inspect("--transactions", "--schema", schema, file)
    assert result.exit_code == 1
    assert "signedness_conflict" in result.stderr


def test_nothing_is_written(file: Path) -> None:
    """R261: files are read and nothing else."""
    before = file.read_bytes()
    file.chmod(stat.S_IRUSR)
    file.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        for mode in ([], ["--rows"], ["--transactions"], ["--gtids"]):
            assert inspect(*mode, file).exit_code == 0
    finally:
        file.parent.chmod(stat.S_IRWXU)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


# --- following ------------------------------------------------------------------------------------


@pytest.fixture
def following(tmp_path: Path) -> Iterator[tuple[Path, Process]]:
    """A command that follows a file."""
    path = written(tmp_path / "b.000001", *group(1))
    process = Process([*PROGRAM, "inspect", "--transactions", "--each", "--follow", str(path)])
    yield path, process
    process.close()


def test_a_live_file_is_followed_until_a_signal(following: tuple[Path, Process]) -> None:
    """R260: what is committed is printed at once; the first signal ends it with a summary."""
    path, process = following
    assert json.loads(process.read_line())["gtid"] == f"{SOURCE}:1"
    raw = b"".join([*group(2), rotate("b.000002")])
    with path.open("ab") as file:
        for at in range(0, len(raw), 50):
            file.write(raw[at : at + 50])
            file.flush()
    assert json.loads(process.read_line())["gtid"] == f"{SOURCE}:2"
    written(path.with_name("b.000002"), *group(3), gtid(4), before={SOURCE: (1, 3)})
    assert json.loads(process.read_line())["gtid"] == f"{SOURCE}:3"
    process.send(signal.SIGINT)
    code, output, errors = process.ended()
    assert (code, errors) == (0, "")
    assert json.loads(output)["transactions"] == 3


def test_following_does_not_keep_a_processor_busy(following: tuple[Path, Process]) -> None:
    """R260: the process sleeps between two looks."""
    _, process = following
    process.read_line()
    state = Path(f"/proc/{process._process.pid}/stat")
    wait_until(
        lambda: state.read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "S",
        what="a process that sleeps",
    )
    process.send(signal.SIGTERM)
    assert process.ended()[0] == 0
