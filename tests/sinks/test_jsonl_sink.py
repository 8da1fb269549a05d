"""Where lines go: flushed, on disk, whole, one writer at a time."""

import io
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from helpers.changes_builder import (
    chunk,
    chunk_facts,
    created,
    group,
    inserted,
    schema_change,
    shape,
    transaction,
)

from capstan.core.changes import ChunkedChanges
from capstan.core.halts import Halted
from capstan.sinks.jsonl import JsonLinesSink

ORDERS = shape("shop.orders", "id int", "note varchar(99999)", key=("id",))
SENTINEL = "s3ntinel-value"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "changes.jsonl"


@pytest.fixture
def sink(path: Path) -> Iterator[JsonLinesSink]:
    with closing(JsonLinesSink(path)) as made:
        made.open()
        yield made


def read(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_batch_is_in_the_file_when_the_call_returns(sink: JsonLinesSink, path: Path) -> None:
    """R31: transactions and schema changes in stream order, without waiting for the close."""
    sink.handle_batch(
        [
            transaction(1, inserted(ORDERS, (1, "a"), (2, "b"))),
            group(schema_change(2, "truncate_table", "shop.orders")),
            transaction(3, inserted(ORDERS, (3, "é"))),
        ]
    )
    assert [(line["op"], line["gtid"][-1]) for line in read(path)] == [
        ("insert", "1"),
        ("insert", "1"),
        ("schema", "2"),
        ("insert", "3"),
    ]


def test_single_calls_write_too(sink: JsonLinesSink, path: Path) -> None:
    """Each of the sink's methods writes at once."""
    sink.handle_transaction(transaction(1, inserted(ORDERS, (1, "a"))))
    sink.handle_schema_changes(created(2, "shop.new").changes)
    sink.handle_snapshot(chunk(ORDERS, (2, "b")), chunk_facts("shop.orders"))
    sink.handle_snapshot(ChunkedChanges(), chunk_facts("shop.orders", 1, final=True))
    assert [line["op"] for line in read(path)] == ["insert", "schema", "snapshot"]
    assert sink.position() is None


def test_a_file_is_private_and_appended_to(sink: JsonLinesSink, path: Path) -> None:
    """A second run goes on where the first ended; nobody else may read rows."""
    sink.handle_transaction(transaction(1, inserted(ORDERS, (1, "a"))))
    sink.close()
    sink.open()
    sink.handle_transaction(transaction(2, inserted(ORDERS, (2, "b"))))
    assert [line["key"] for line in read(path)] == [[1], [2]]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("length", [1, 20, 70_000])
def test_an_incomplete_last_line_is_cut_off(sink: JsonLinesSink, path: Path, length: int) -> None:
    """R122: what a crash left half-written is gone before anything is appended; the rest stays."""
    sink.handle_transaction(transaction(1, inserted(ORDERS, (1, "a"))))
    sink.close()
    whole = path.read_bytes()
    sink.open()
    sink.handle_transaction(transaction(2, inserted(ORDERS, (2, "x" * 99_999))))
    sink.close()
    os.truncate(path, len(whole) + length)
    sink.open()
    assert path.read_bytes() == whole
    sink.handle_transaction(transaction(2, inserted(ORDERS, (2, "b"))))
    assert [line["record"]["note"] for line in read(path)] == ["a", "b"]


def test_a_file_that_is_nothing_but_an_incomplete_line_is_emptied(path: Path) -> None:
    """R122: the very first line can be the broken one."""
    path.write_bytes(b'{"posit')
    with closing(JsonLinesSink(path)) as sink:
        sink.open()
        assert path.read_bytes() == b""


@pytest.mark.parametrize("content", [b"precious notes", b'line\n{"other": "program"', b"\x00" * 9])
def test_a_file_of_somebody_else_is_left_alone(path: Path, content: bytes) -> None:
    """R266: a tail that no line of this sink could begin with is refused, not cut off."""
    path.write_bytes(content)
    sink = JsonLinesSink(path)
    with pytest.raises(Halted, match=r"^sink_failed: file .* does not end in a line of capstan"):
        sink.open()
    sink.close()
    assert path.read_bytes() == content


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """What cannot be appended to is named by the system's code."""
    with pytest.raises(Halted, match=r"^sink_failed: file .*: IsADirectoryError EISDIR$"):
        JsonLinesSink(tmp_path).open()


def test_a_second_writer_is_refused(sink: JsonLinesSink, path: Path) -> None:
    """`store_locked`: two pipelines cannot append to one file."""
    with closing(JsonLinesSink(path)) as second:
        with pytest.raises(Halted, match=r"^store_locked: "):
            second.open()
        sink.close()
        second.open()


def test_a_failed_call_takes_back_what_it_wrote(sink: JsonLinesSink, path: Path) -> None:
    """R41: nothing of a refused batch stays, however much of it was on disk already."""
    sink.handle_transaction(transaction(1, inserted(ORDERS, (1, "a"))))
    before = path.read_bytes()
    big = transaction(2, inserted(ORDERS, (2, "x" * 99_999), (3, "y" * 99_999)))
    bad = transaction(3, inserted(ORDERS, (4, object())))
    with pytest.raises(Halted, match=r"^sink_failed: file .*: TypeError$"):
        sink.handle_batch([big, bad])
    assert path.read_bytes() == before
    sink.handle_transaction(big)
    assert [line["key"] for line in read(path)] == [[1], [2], [3]]


def test_no_exception_holds_a_value(sink: JsonLinesSink) -> None:
    """R265: neither the halt nor what it was raised from leads to a row."""
    with pytest.raises(Halted) as caught:
        sink.handle_transaction(transaction(1, inserted(ORDERS, (1, SENTINEL + "\ud800"))))
    assert str(caught.value).endswith(": UnicodeEncodeError")
    assert SENTINEL not in repr(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


class Flushed(io.StringIO):
    """A stream that remembers what had been written at each flush."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def flush(self) -> None:
        self.seen.append(self.getvalue().count("\n"))


def test_a_stream_is_flushed_once_a_batch_and_stays_open() -> None:
    """R31: returning means flushed; the stream is the host's to close."""
    stream = Flushed()
    sink = JsonLinesSink(stream)
    sink.open()
    sink.handle_batch([transaction(n, inserted(ORDERS, (n, "a"))) for n in (1, 2)])
    sink.handle_transaction(transaction(3, inserted(ORDERS, (3, "a"))))
    sink.close()
    assert stream.seen == [2, 3]
    assert not stream.closed
    assert repr(sink) == "JsonLinesSink(a stream)"


def test_standard_output_is_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    """Lines can go to the terminal or a pipe."""
    JsonLinesSink(sys.stdout).handle_transaction(transaction(1, inserted(ORDERS, (1, "a"))))
    assert json.loads(capsys.readouterr().out)["key"] == [1]


def test_a_stream_that_fails_is_a_halt_without_its_text() -> None:
    """R41, R265: a broken pipe is named by class and code."""

    class Broken(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError(32, SENTINEL)

    with pytest.raises(Halted) as caught:
        JsonLinesSink(Broken()).handle_transaction(transaction(1, inserted(ORDERS, (1, "a"))))
    assert str(caught.value) == "sink_failed: a stream: BrokenPipeError EPIPE"


def test_a_device_is_no_file() -> None:
    """R41: what cannot be cut, locked and synced is refused when it is opened."""
    with pytest.raises(Halted, match=r"^sink_failed: file /dev/full is not a regular file$"):
        JsonLinesSink("/dev/full").open()
