"""Binlog files on disk: magic, growth, order, cut ends, memory."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers.binlog_files import a_file, ddl, group, previous, rotate, stop, written
from helpers.binlog_stream import begin, format_event, gtid, stream
from helpers.event_builder import SOURCE

from capstan.core.binlog.envelope import FileTransaction
from capstan.core.binlog.offline.decode_errors import DecodeError, DecodeErrorKind
from capstan.core.binlog.offline.decode_limits import TransactionLimits
from capstan.core.binlog.offline.outcomes import IncompleteTransaction
from capstan.sources.binlog_events import EventReader
from capstan.sources.binlog_file import BinlogFile, BinlogFileError, FileErrorKind
from capstan.sources.binlog_groups import GroupReader
from capstan.sources.binlog_transactions import TransactionReader

UNBOUNDED = TransactionLimits.unbounded()


class Script:
    """A tail that does one thing each time somebody waits, and then ends the waiting."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self._steps = iter(steps)

    def wait(self) -> bool:
        step = next(self._steps, None)
        if step is None:
            return False
        step()
        return True


def reader(*paths: Path, tail: Script | None = None) -> TransactionReader:
    """A reader of some files."""
    return TransactionReader(paths, limits=UNBOUNDED, tail=tail)


def numbers(found: Iterator[FileTransaction] | TransactionReader) -> list[int]:
    """The transactions' numbers."""
    return [each.prefix.gtid.number for each in found if each.prefix and each.prefix.gtid]


def appended(path: Path, raw: bytes) -> Callable[[], object]:
    """Something that appends to a file."""

    def append() -> None:
        with path.open("ab") as file:
            file.write(raw)

    return append


# --- magic ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\xfdbin" + bytes(600), FileErrorKind.ENCRYPTED),
        (b"\x1f\x8b\x08\x00" + bytes(50), FileErrorKind.NOT_A_BINLOG),
        (b"PK\x03\x04", FileErrorKind.NOT_A_BINLOG),
        (b"\xfeb", FileErrorKind.NOT_A_BINLOG),
        (b"\xfebin", FileErrorKind.NOT_A_BINLOG),
        (b"", FileErrorKind.NOT_A_BINLOG),
    ],
)
def test_a_file_that_is_no_plain_binlog_is_refused_by_name(
    tmp_path: Path, content: bytes, kind: FileErrorKind
) -> None:
    """R260: encrypted, compressed, something else, empty."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(content)
    for read in (reader(path), EventReader([path]), GroupReader([path])):
        with pytest.raises(BinlogFileError) as caught:
            list(read)
        assert caught.value.kind is kind
        assert caught.value.path == path


def test_a_file_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    """R260: in the system's own words."""
    with pytest.raises(BinlogFileError, match="unreadable: No such file"):
        BinlogFile(tmp_path / "missing")


def test_a_file_in_use_is_read_and_known_as_such(tmp_path: Path) -> None:
    """R260: the mark is no part of the format description's checksum."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(stream([format_event(flags=1)]).data[:17] + b"")
    raw = b"\xfebin" + format_event(flags=1) + a_file(*group(1)).data[4 + len(format_event()) :]
    path.write_bytes(raw)
    with BinlogFile(path) as file:
        assert file.in_use
    assert numbers(reader(path)) == [1]
    with BinlogFile(written(tmp_path / "closed", *group(1))) as file:
        assert not file.in_use


# --- cut ends -------------------------------------------------------------------------------------


def test_a_file_that_is_cut_anywhere_is_read_to_there_and_no_further(tmp_path: Path) -> None:
    """R198, R218, R259: at every byte: whole transactions, then one that is told as unfinished."""
    file = a_file(*group(1), gtid(2), ddl(), *group(3))
    path = tmp_path / "binlog.000001"
    for end in range(file.offsets[2], len(file.data)):
        path.write_bytes(file.data[:end])
        whole = [n for n, last in ((1, file.offsets[7]), (2, file.offsets[9])) if last <= end]
        read, found, cut = reader(path), [], None
        try:
            for each in read:
                found.append(each)  # noqa: PERF402 - what came before the error counts
        except DecodeError as error:
            cut = error
        finished = [each for each in found if not isinstance(each.outcome, IncompleteTransaction)]
        assert numbers(iter(finished)) == whole
        at_an_event = end in file.offsets
        assert (cut is None) == at_an_event
        if cut is not None:
            assert cut.kind is DecodeErrorKind.TRUNCATED
            assert cut.offset == max(offset for offset in file.offsets if offset < end)
        begun = end in (file.offsets[2], file.offsets[7], file.offsets[9])
        inside = sum(offset <= end for offset in file.offsets[2:]) and not begun
        assert read.tally.incomplete == len(found) - len(finished) <= bool(inside)


@pytest.mark.parametrize("size", [0, 18])
def test_an_impossible_size_is_an_error_and_no_endless_loop(tmp_path: Path, size: int) -> None:
    """R198: an event shorter than its header."""
    file = a_file(*group(1))
    damaged = bytearray(file.data)
    damaged[file.offsets[3] + 9 : file.offsets[3] + 13] = size.to_bytes(4, "little")
    path = tmp_path / "binlog.000001"
    path.write_bytes(bytes(damaged))
    for read in (reader(path), EventReader([path]), GroupReader([path])):
        with pytest.raises(DecodeError) as caught:
            list(read)
        assert caught.value.kind is DecodeErrorKind.SIZE_INVALID


# --- several files --------------------------------------------------------------------------------


def three(folder: Path) -> list[Path]:
    """Three files in a row; the second one was not closed by its server."""
    return [
        written(folder / "a.000001", *group(1), rotate("a.000002")),
        written(folder / "a.000002", *group(2), *group(3), before={SOURCE: (1, 2)}),
        written(folder / "a.000003", *group(4), stop(), before={SOURCE: (1, 4)}),
    ]


def test_files_in_a_row_are_read_in_order(tmp_path: Path) -> None:
    """R260: a rotate's name, numbers, previous GTIDs."""
    paths = three(tmp_path)
    assert numbers(reader(*paths)) == [1, 2, 3, 4]
    assert len(list(EventReader(paths))) == 28
    groups = GroupReader(paths)
    assert [each.gtid.number for each in groups] == [1, 2, 3, 4]
    assert str(groups.gtids) == f"{SOURCE}:1-4"
    assert str(groups.previous_gtids) == ""


@pytest.mark.parametrize("order", [(0, 2), (1, 0), (0, 0), (2, 1)])
def test_files_that_do_not_follow_are_refused(tmp_path: Path, order: tuple[int, ...]) -> None:
    """R260: one left out, backwards, twice."""
    paths = [three(tmp_path)[place] for place in order]
    for read in (reader(*paths), EventReader(paths), GroupReader(paths)):
        with pytest.raises(BinlogFileError) as caught:
            list(read)
        assert caught.value.kind is FileErrorKind.NOT_IN_SEQUENCE
        assert caught.value.path == paths[1]


def test_another_history_under_the_right_name_is_refused(tmp_path: Path) -> None:
    """R260: previous GTIDs that lack what the file before holds."""
    first = three(tmp_path)[0]
    other = written(tmp_path / "a.000002", *group(9))
    with pytest.raises(BinlogFileError, match="lack 1"):
        list(reader(first, other))


def test_nothing_is_read_behind_an_unfinished_transaction(tmp_path: Path) -> None:
    """R231, R259: what follows it would hide it."""
    paths = three(tmp_path)
    written(paths[1], *group(2), gtid(3), begin(), before={SOURCE: (1, 2)})
    read = reader(*paths)
    assert numbers(read) == [1, 2, 3]
    assert read.path == paths[1]
    assert read.tally.incomplete == 1
    groups = GroupReader(paths)
    assert [each.gtid.number for each in groups] == [1, 2]
    assert groups.unfinished is not None


# --- files that grow ------------------------------------------------------------------------------


def test_a_growing_file_is_followed_event_by_event_and_byte_by_byte(tmp_path: Path) -> None:
    """R260: half an event is waited for; its transaction comes once it is whole."""
    file = a_file(*group(1), *group(2))
    path = tmp_path / "binlog.000001"
    path.write_bytes(file.data[: file.offsets[5]])
    rest = [file.data[at : at + 7] for at in range(file.offsets[5], len(file.data), 7)]
    read = reader(path, tail=Script(*(appended(path, piece) for piece in rest)))
    assert numbers(read) == [1, 2]
    assert read.stopped


def test_the_reading_goes_on_in_later_files(tmp_path: Path) -> None:
    """R260: a rotate's file, and one whose predecessor was never closed, once they exist."""
    paths = [tmp_path / f"a.00000{number}" for number in (1, 2, 3)]
    written(paths[0], *group(1))
    tail = Script(
        appended(paths[0], rotate(paths[1].name)),
        lambda: None,
        lambda: written(paths[1], *group(2), before={SOURCE: (1, 2)}),
        appended(paths[1], b"".join(group(3))),
        lambda: written(paths[2], *group(4), stop(), before={SOURCE: (1, 4)}),
    )
    read = reader(paths[0], tail=tail)
    assert numbers(read) == [1, 2, 3, 4]
    assert read.path == paths[2]


def test_a_file_is_waited_for_from_its_first_byte(tmp_path: Path) -> None:
    """R260: a server makes an empty file first."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(b"")
    raw = a_file(*group(1)).data
    pieces = [raw[:2], raw[2:4], raw[4:30], raw[30:]]
    read = reader(path, tail=Script(*(appended(path, piece) for piece in pieces)))
    assert numbers(read) == [1]


def test_stopping_in_the_middle_of_an_event_is_no_error(tmp_path: Path) -> None:
    """R231: what is not there yet is not there; nothing of it is committed."""
    file = a_file(*group(1), *group(2))
    path = tmp_path / "binlog.000001"
    path.write_bytes(file.data[:-3])
    read = reader(path, tail=Script())
    assert numbers(read) == [1, 2]
    assert read.tally.transactions == 1
    assert read.tally.incomplete == 1
    assert read.stopped


def test_a_cut_event_in_a_file_that_has_a_successor_is_an_error(tmp_path: Path) -> None:
    """R259: its server has gone on without finishing it."""
    file = a_file(*group(1), *group(2))
    path = tmp_path / "a.000001"
    path.write_bytes(file.data[:-3])
    written(tmp_path / "a.000002", before={SOURCE: (1, 2)})
    with pytest.raises(DecodeError) as caught:
        list(reader(path, tail=Script(*itertools.repeat(lambda: None, 9))))
    assert caught.value.kind is DecodeErrorKind.TRUNCATED


# --- memory ---------------------------------------------------------------------------------------


def test_pages_that_were_passed_are_given_back_and_can_be_read_again(tmp_path: Path) -> None:
    """R260: a map's memory does not grow with the file."""
    path = tmp_path / "binlog.000001"
    with path.open("wb") as out:
        out.write(a_file().data)
        out.truncate(64 << 20)
    resident = _resident_of(path)
    with BinlogFile(path) as file:
        for offset in range(0, 64 << 20, 1 << 20):
            assert file.data[offset : offset + 4096]
            sum(file.data[offset : offset + (1 << 20) : 4096])
            file.passed(offset)
            assert resident() <= 20 << 10
        assert file.data[:4] == b"\xfebin"
        file.passed(0)


def _resident_of(path: Path) -> Callable[[], int]:
    """How many KiB of a mapped file are in this process's memory."""

    def resident() -> int:
        lines = iter(Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines())
        for line in lines:
            if line.endswith(str(path)):
                return next(int(each.split()[1]) for each in lines if each.startswith("Rss:"))
        return 0

    return resident


def test_a_file_without_gtids_may_lack_previous_gtids(tmp_path: Path) -> None:
    """R260: files of servers of 5.6 begin with the format description alone."""
    path = tmp_path / "old.000001"
    path.write_bytes(stream([format_event(version=b"5.6.35-log"), ddl(), stop()]).data)
    later = tmp_path / "old.000002"
    later.write_bytes(stream([format_event(version=b"5.6.35-log"), previous(), ddl()]).data)
    read = reader(path, later)
    assert len(list(read)) == 2
    assert (read.events, read.tally.ddl) == (6, 2)
