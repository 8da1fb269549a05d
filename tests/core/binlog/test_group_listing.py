"""GTIDs and where their events lie, without a look into rows."""

import pytest
from helpers.binlog_files import (
    a_file,
    ddl,
    group,
    heartbeat,
    inside_of_one,
    payload,
    rotate,
    stop,
)
from helpers.binlog_stream import ANONYMOUS, Stream, begin, committed, event, gtid, query, xid
from helpers.event_builder import SOURCE

from capstan.core.binlog.group_listing import GroupLister, GtidGroup
from capstan.core.binlog.offline.decode_errors import DecodeError


def found(file: Stream) -> tuple[GroupLister, list[GtidGroup]]:
    """The groups of a file."""
    lister = GroupLister()
    groups = [lister.feed(file.data, offset) for offset in file.offsets]
    groups.append(lister.finish(file.data))
    return lister, [each for each in groups if each is not None]


def test_each_group_reaches_from_its_gtid_to_the_next() -> None:
    """R260: start, end, number of events."""
    file = a_file(*group(4), gtid(5), ddl(), heartbeat(), *group(6), rotate("x.2"))
    lister, groups = found(file)
    assert [str(each.gtid) for each in groups] == [f"{SOURCE}:{n}" for n in (4, 5, 6)]
    assert [(each.start_offset, each.end_offset, each.event_count) for each in groups] == [
        (file.offsets[2], file.offsets[7], 5),
        (file.offsets[7], file.offsets[9], 2),
        (file.offsets[10], file.offsets[15], 5),
    ]
    assert lister.next_file == "x.2"
    assert lister.unfinished is None


@pytest.mark.parametrize(
    "events",
    [
        [begin(), xid()],
        [begin(), query(b"COMMIT")],
        [begin(), query(b"ROLLBACK")],
        [ddl()],
        [payload(inside_of_one(1))],
        [query(b"XA COMMIT X'61',X'',1")],
        [query(b"XA START X'61',X'',1"), query(b"XA END X'61',X'',1"), event(38, b"\0")],
    ],
)
def test_a_last_group_that_is_closed_counts(events: list[bytes]) -> None:
    """R260: at the end of a file that is still in use."""
    lister, groups = found(a_file(gtid(1), *events))
    assert len(groups) == 1
    assert groups[0].event_count == 1 + len(events)
    assert lister.unfinished is None


@pytest.mark.parametrize(
    "events",
    [
        [],
        [begin()],
        committed()[:-1],
        [query(b"XA START X'61',X'',1")],
        [begin(), query(b"SAVEPOINT a")],
        [begin(), query(b"CREATE TABLE `")],
    ],
)
def test_a_last_group_that_is_open_does_not_count(events: list[bytes]) -> None:
    """R231, R259: whose events the file does not close is told apart."""
    lister, groups = found(a_file(*group(1), gtid(2), *events))
    assert [each.gtid.number for each in groups] == [1]
    assert lister.unfinished is not None
    assert lister.unfinished.number == 2


def test_anonymous_transactions_have_no_gtid() -> None:
    """R255: they are passed over."""
    _, groups = found(a_file(gtid(0, kind=ANONYMOUS), *committed(), *group(3), stop()))
    assert [each.gtid.number for each in groups] == [3]


def test_a_gtid_that_cannot_be_read_is_an_error() -> None:
    """R266: no GTID is made up."""
    with pytest.raises(DecodeError):
        found(a_file(event(33, b"\0" * 9)))
