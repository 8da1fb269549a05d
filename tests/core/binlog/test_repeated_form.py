"""Runs of one form are counted as long as they are of that form, bit by bit."""

import pytest
from helpers.binlog_files import a_file, ddl, group
from helpers.binlog_stream import (
    ANONYMOUS,
    DELETE,
    UPDATE,
    WRITE,
    Stream,
    begin,
    gtid,
    mapped,
    query,
    row,
    rows,
    xid,
)
from helpers.event_builder import OTHER, SOURCE

from capstan.core.binlog.repeated_form import RepeatedForm, form_of
from capstan.core.binlog.row_counter import RowCounter


def form(file: Stream) -> RepeatedForm | None:
    """The form of a file's first transaction, if it has one."""
    end = file.offsets[7] if len(file.offsets) > 7 else len(file.data)
    table = file.data[file.offsets[4] : file.offsets[5]]
    return form_of(file.data, file.offsets[2], end, {table[27:-4]: RowCounter.of(table[27:-4])})


def of(file: Stream) -> RepeatedForm:
    """The form, which there is."""
    found = form(file)
    assert found is not None
    return found


def test_a_run_tells_who_and_how_many() -> None:
    """R258: rows of any number and size, GTIDs of any source."""
    file = a_file(*group(1), *group(2, 1, 2, 3), *group(9, source=OTHER), gtid(10), ddl())
    run = of(file).run(file.data, file.offsets[7])
    assert run.end == file.offsets[17]
    assert [str(who.gtid) for who in run.committed] == [f"{SOURCE}:2", f"{OTHER}:9"]
    assert run.changes == 4
    assert run.size == sum(file.offsets[n + 1] - file.offsets[n] for n in (10, 15))
    assert of(file).name == ("shop", "items")


def test_a_run_has_an_end_and_goes_on_from_there() -> None:
    """R260: some thousand transactions at a time."""
    file = a_file(*(raw for number in range(1, 5001) for raw in group(number)))
    found = of(file)
    first = found.run(file.data, file.offsets[2])
    second = found.run(file.data, first.end)
    assert len(first.committed) < 5000
    assert len(first.committed) + len(second.committed) == 5000
    assert second.end == len(file.data)


def test_every_flipped_bit_ends_the_run() -> None:
    """R173: the sum of several events sees what each one's own would see."""
    file = a_file(*group(1), *group(2), *group(3))
    found = of(file)
    for place in range(file.offsets[7], file.offsets[12]):
        for bit in range(8):
            damaged = bytearray(file.data)
            damaged[place] ^= 1 << bit
            run = found.run(bytes(damaged), file.offsets[7])
            assert (run.end, run.committed) == (file.offsets[7], [])


def test_every_cut_ends_the_run() -> None:
    """R198: at every byte."""
    file = a_file(*group(1), *group(2))
    found = of(file)
    for end in range(file.offsets[7], len(file.data)):
        assert found.run(file.data[:end], file.offsets[7]).committed == []
    assert len(found.run(file.data, file.offsets[7]).committed) == 1


def test_rows_that_do_not_end_with_their_event_end_the_run() -> None:
    """R219: with a checksum that is right."""
    file = a_file(*group(1), gtid(2), begin(), mapped(), rows(WRITE, [row(1)[:-1]]), xid())
    assert of(file).run(file.data, file.offsets[7]).committed == []


@pytest.mark.parametrize("kind", [WRITE, UPDATE, DELETE])
def test_the_kind_of_rows_is_part_of_the_form(kind: int) -> None:
    """R203: another type of event is the decoder's to judge first."""
    images = [row(1), row(2)]
    another = DELETE if kind == WRITE else WRITE
    one = [gtid(1), begin(), mapped(), rows(kind, images), xid()]
    other = [gtid(2), begin(), mapped(), rows(another, images), xid()]
    file = a_file(*one, *one, *other)
    run = of(file).run(file.data, file.offsets[7])
    assert run.changes == (1 if kind == UPDATE else 2)
    assert run.end == file.offsets[12]


@pytest.mark.parametrize(
    "events",
    [
        [gtid(0, kind=ANONYMOUS), begin(), mapped(), rows(WRITE, [row(1)]), xid()],
        [gtid(1), begin(), mapped(), rows(WRITE, [row(1)]), query(b"COMMIT")],
        [gtid(1), begin(), mapped(), mapped(81), xid()],
        [gtid(1), begin(), mapped(), rows(WRITE, [row(1)], last=False), rows(WRITE, [row(2)])],
    ],
)
def test_other_transactions_have_no_form(events: list[bytes]) -> None:
    """R258: they are counted event by event."""
    assert form(a_file(*events)) is None


def test_a_statement_that_does_not_end_is_no_part_of_a_run() -> None:
    """R220: a row event that leaves its table maps in force."""
    odd = [gtid(2), begin(), mapped(), rows(WRITE, [row(1)], last=False), xid()]
    file = a_file(*group(1), *odd)
    assert of(file).run(file.data, file.offsets[7]).committed == []
