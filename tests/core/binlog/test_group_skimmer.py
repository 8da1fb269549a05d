"""Skimming finds what the decoder finds, and stops in front of everything that is new or odd."""

import random
from pathlib import Path

import pytest
from helpers.binlog_files import a_file, ddl, group, inside_of_one, payload, written
from helpers.binlog_stream import (
    ANONYMOUS,
    DELETE,
    UPDATE,
    WRITE,
    Stream,
    begin,
    committed,
    format_event,
    gtid,
    mapped,
    query,
    row,
    rows,
    stream,
    xid,
)
from helpers.event_builder import OTHER

from capstan.core.binlog.file_tally import FileTally
from capstan.core.binlog.group_skimmer import GroupSkimmer
from capstan.core.binlog.offline.decode_errors import DecodeError
from capstan.core.binlog.offline.decode_limits import TransactionLimits
from capstan.core.binlog.offline.format_description import FormatDescription
from capstan.sources.binlog_transactions import TransactionReader

UNBOUNDED = TransactionLimits.unbounded()


def skimmed(file: Stream, known: int, *, prefixed: bool = True) -> tuple[FileTally, int, int]:
    """Learn the first `known` events behind the format's two, then skim the rest."""
    tally = FileTally()
    skimmer = GroupSkimmer(tally)
    first = 2 if prefixed else 1
    begins, ends = file.offsets[first], file.offsets[first + known]
    skimmer.learn(file.data, begins, ends, FormatDescription.parse(file.data))
    end, events = skimmer.skim(file.data, ends, prefixed=prefixed)
    return tally, file.offsets.index(end) if end < len(file.data) else len(file.offsets), events


def reader(path: Path) -> TransactionReader:
    """A reader that counts."""
    return TransactionReader([path], limits=UNBOUNDED, count_only=True)


def numbers(tally: FileTally) -> dict[str, object]:
    """Everything that a tally counts."""
    return {
        "ends": (tally.transactions, tally.rolled_back, tally.incomplete, tally.ddl),
        "gtids": str(tally.gtids),
        "tables": {name: repr(count) for name, count in tally.tables.items()},
    }


def test_transactions_like_the_first_are_counted() -> None:
    """R258: changes, bytes and GTIDs of all that are alike."""
    file = a_file(*group(1), *group(2, 7, 8), *group(3, source=OTHER))
    tally, stopped, events = skimmed(file, 5)
    assert (stopped, events) == (len(file.offsets), 10)
    assert tally.transactions == 2
    count = tally.tables["shop", "items"]
    assert (count.inserts, count.updates, count.deletes) == (3, 0, 0)
    assert count.wire_bytes == sum(
        file.offsets[place + 1] - file.offsets[place] for place in (10, 15)
    )
    assert tally.gtids.count() == 2


@pytest.mark.parametrize(
    "odd",
    [
        [gtid(2), begin(), mapped(table=b"others"), rows(WRITE, [row(1)]), xid()],
        [gtid(2), query(b"begin"), mapped(), rows(WRITE, [row(1)]), xid()],
        [gtid(2), query(b"BEGIN", database=b"other"), mapped(), rows(WRITE, [row(1)]), xid()],
        [gtid(2), query(b"BEGIN", error=3), mapped(), rows(WRITE, [row(1)]), xid()],
        [gtid(2), begin(), mapped(), rows(DELETE, [row(1)]), xid()],
        [gtid(2), begin(), mapped(), rows(WRITE, [row(1)]), query(b"COMMIT")],
        [gtid(2), begin(), mapped(), rows(WRITE, [row(1)], table_id=81), xid()],
        [gtid(2), begin(), mapped(), rows(WRITE, [row(1)]), rows(WRITE, [row(2)]), xid()],
        [gtid(2), begin(), mapped(), rows(WRITE, [row(1)[:-1]]), xid()],
        [gtid(2), begin(), mapped(), rows(WRITE, [row(1)], columns=3), xid()],
        [gtid(2), begin(), mapped(), rows(WRITE, [row(1)])],
        [gtid(2), begin(), begin(), xid()],
        [gtid(2), ddl()],
        [gtid(2), gtid(3)],
        [gtid(2, kind=ANONYMOUS), begin(), mapped(), rows(WRITE, [row(1)]), xid()],
        [begin(), mapped(), rows(WRITE, [row(1)]), xid()],
        [gtid(2), payload(inside_of_one(1))],
    ],
)
def test_what_is_new_or_odd_is_left_to_the_decoder(odd: list[bytes]) -> None:
    """R204 to R222: the skimming stops in front of the transaction, which it counts no part of."""
    file = a_file(*group(1), *group(9), *odd, *group(10))
    tally, stopped, events = skimmed(file, 5)
    assert (stopped, events) == (12, 5)
    assert tally.transactions == 1
    assert tally.tables["shop", "items"].row_changes == 1


def test_a_wrong_checksum_is_not_skimmed_over() -> None:
    """R173: each event's CRC32 is verified."""
    file = a_file(*group(1), *group(2))
    for place in range(7, 12):
        damaged = bytearray(file.data)
        damaged[file.offsets[place] + 21] ^= 4
        tally, stopped, _ = skimmed(Stream(bytes(damaged), file.offsets), 5)
        assert (stopped, tally.transactions) == (7, 0)


def test_a_cut_transaction_is_not_counted() -> None:
    """R218, R259: at every byte."""
    file = a_file(*group(1), *group(2))
    for end in range(file.offsets[7], len(file.data)):
        tally, stopped, _ = skimmed(Stream(file.data[:end], file.offsets), 5)
        assert tally.transactions == 0
        assert stopped == 7 or end == file.offsets[7]


def test_a_file_without_gtids_is_skimmed() -> None:
    """R260: transactions that begin with their BEGIN."""
    file = stream([format_event(), *committed(), *committed(), *committed(row(1), row(2))])
    tally, stopped, events = skimmed(file, 4, prefixed=False)
    assert (stopped, events) == (len(file.offsets), 8)
    assert tally.tables["shop", "items"].inserts == 3
    assert str(tally.gtids) == ""


def test_anonymous_transactions_are_skimmed() -> None:
    """R255: anonymous prefixes of the form that was seen, and no other."""
    one = [gtid(0, kind=ANONYMOUS), *committed()]
    short = [gtid(0, kind=ANONYMOUS, short=True), *committed()]
    tally, stopped, _ = skimmed(a_file(*one, *one, *short), 5)
    assert (stopped, tally.transactions) == (12, 1)


def test_another_layout_is_not_taken_for_the_same() -> None:
    """R199: what was learned of a file with checksums says nothing of one without."""
    tally = FileTally()
    skimmer = GroupSkimmer(tally)
    file = a_file(*group(1), *group(2))
    skimmer.learn(file.data, file.offsets[2], file.offsets[7], FormatDescription.parse(file.data))
    head = b"\xfebin" + format_event(checksums=False)
    bare = stream([raw[:-4] for raw in committed()], checksum=False, base=head)
    skimmer.learn(bare.data, bare.offsets[0], bare.offsets[0], FormatDescription.parse(bare.data))
    assert skimmer.skim(file.data, file.offsets[7], prefixed=True).events == 0
    assert skimmer.skim(bare.data, bare.offsets[0], prefixed=False).events == 0


def test_what_is_remembered_is_bounded() -> None:
    """R247: thousands of different forms do not pile up, and all are counted."""
    groups = [
        [gtid(1 + n), query(b"BEGIN", database=b"d%d" % n), mapped(), rows(WRITE, [row(1)]), xid()]
        for n in range(5000)
    ]
    file = a_file(*(raw for events in groups for raw in events))
    tally = FileTally()
    skimmer = GroupSkimmer(tally)
    description = FormatDescription.parse(file.data)
    for number in range(5000):
        place = 2 + 5 * number
        end = file.offsets[place + 5] if place + 5 < len(file.offsets) else len(file.data)
        skimmer.learn(file.data, file.offsets[place], end, description)
    assert len(skimmer._begins) <= 4097


@pytest.mark.parametrize("seed", range(12))
def test_counting_is_the_same_with_and_without_skimming(seed: int, tmp_path: Path) -> None:
    """R219, R235, R258: random files, whole or broken: the same counts and the same error."""
    chance = random.Random(seed)
    kinds = [
        lambda n: group(n, *range(chance.randint(1, 4))),
        lambda n: group(n, closing=query(b"COMMIT")),
        lambda n: group(n, closing=query(b"ROLLBACK")),
        lambda n: [gtid(n), begin(), mapped(), rows(UPDATE, [row(1), row(1, None)]), xid()],
        lambda n: [
            gtid(n), begin(),
            mapped(), mapped(81, table=b"others"),
            rows(WRITE, [row(1)], last=False), rows(DELETE, [row(2)], table_id=81), xid(),
        ],
        lambda n: [gtid(n), ddl()],
        lambda n: [gtid(n), payload(inside_of_one(1, 2))],
        lambda n: [gtid(n), begin(), xid()],
    ]  # fmt: skip
    events = [raw for n in range(1, 200) for raw in chance.choice(kinds)(n)]
    path = written(tmp_path / "binlog.000001", *events)
    if seed % 3 == 1:
        whole = path.read_bytes()
        path.write_bytes(whole[: chance.randrange(len(whole) // 2, len(whole))])
    elif seed % 3 == 2:
        damaged = bytearray(path.read_bytes())
        damaged[chance.randrange(300, len(damaged))] ^= 1 << chance.randrange(8)
        path.write_bytes(bytes(damaged))
    answers = []
    for way in ("__iter__", "count"):
        read = reader(path)
        error = None
        try:
            for _ in getattr(read, way)():
                pass
        except DecodeError as raised:
            error = str(raised)
        answers.append((numbers(read.tally), read.events, read.size, error))
    assert answers[0] == answers[1]
    assert (answers[0][3] is None) == (seed % 3 == 0)
