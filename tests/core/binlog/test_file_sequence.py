"""Files follow one another when names and GTIDs say so, and not when either denies it."""

import pytest
from helpers.event_builder import OTHER, SOURCE

from capstan.core.binlog.file_sequence import FileSequence, SequenceError, successor
from capstan.core.gtid import Gtid, GtidSet


def gtids(text: str) -> GtidSet:
    """A set of the usual source's transactions."""
    return GtidSet.parse(f"{SOURCE}:{text}" if text else "")


def after(
    name: str, *, executed: str = "", found: str = "", rotate: str | None = None
) -> FileSequence:
    """A sequence behind one file."""
    sequence = FileSequence()
    sequence.enter(name)
    sequence.previous_gtids(gtids(executed))
    sequence.leave(rotate, gtids(found))
    return sequence


def test_a_file_that_a_rotate_names_follows() -> None:
    """R260: by its name, whatever folder stands in front of it."""
    after("a.000001", rotate="/var/lib/a.000002").enter("a.000002")


@pytest.mark.parametrize("name", ["a.000003", "a.000001", "b.000002"])
def test_another_file_than_the_named_one_does_not_follow(name: str) -> None:
    """R260: a file that was left out, the same again, one of another server."""
    with pytest.raises(SequenceError, match=r"a\.000001 goes on in a\.000002"):
        after("a.000001", rotate="a.000002").enter(name)


def test_without_a_rotate_numbers_follow() -> None:
    """R260: a server that crashed leaves no name; the next number is the next file."""
    after("a.000009").enter("a.000010")
    after("a.000009").enter("saved-copy")
    with pytest.raises(SequenceError, match=r"a\.000010 would come behind a\.000009"):
        after("a.000009").enter("a.000011")


def test_what_was_executed_must_be_in_the_next_files_previous_gtids() -> None:
    """R260: another history under the same names is noticed."""
    sequence = after("a.1", executed="1-5", found="6-9", rotate="a.2")
    sequence.enter("a.2")
    sequence.previous_gtids(gtids("1-9"))
    other = after("a.1", executed="1-5", found="6-9", rotate="a.2")
    other.enter("a.2")
    with pytest.raises(SequenceError, match="lack 4"):
        other.previous_gtids(gtids("1-5"))


def test_more_in_the_previous_gtids_is_a_gap_unless_a_rotate_named_the_file() -> None:
    """R260: gtid_purged may have been set between two files; else a file is missing."""
    named = after("a.1", executed="1-5", found="6", rotate="a.2")
    named.enter("a.2")
    named.previous_gtids(gtids("1-9"))
    unnamed = after("a.1", executed="1-5", found="6")
    unnamed.enter("a.2")
    with pytest.raises(SequenceError, match="have 3 that are in no file before"):
        unnamed.previous_gtids(gtids("1-9"))


def test_what_all_files_held_counts_from_file_to_file() -> None:
    """R260: three files in a row."""
    sequence = after("a.1", found="1-2", rotate="a.2")
    sequence.enter("a.2")
    sequence.previous_gtids(gtids("1-2"))
    sequence.leave("a.3", gtids("1-4"))
    sequence.enter("a.3")
    sequence.previous_gtids(gtids("1-4"))
    lost = (gtids("1-4") | GtidSet.of([Gtid(OTHER, "", 1)])) - gtids("4")
    again = after("a.1", found="1-4", rotate="a.2")
    again.enter("a.2")
    with pytest.raises(SequenceError):
        again.previous_gtids(lost)


@pytest.mark.parametrize(
    ("name", "following"),
    [("a.000009", "a.000010"), ("a.999999", "a.1000000"), ("a.b.1", "a.b.2"), ("a", None)],
)
def test_the_next_number(name: str, following: str | None) -> None:
    """R260: digits keep their width and grow beyond it."""
    assert successor(name) == following
