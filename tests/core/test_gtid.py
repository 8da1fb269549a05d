"""GTIDs and sets of them: text, bytes, algebra, growth."""

import pickle
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capstan.core.gtid import MAX_NUMBER, Gtid, GtidAccumulator, GtidSet, uuid_text

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "00000000-0000-0000-0000-000000000001"
C = "ffffffff-ffff-ffff-ffff-fffffffffffe"

members = st.frozensets(
    st.builds(
        Gtid,
        st.sampled_from([A, B, C]),
        st.sampled_from(["", "_", "blue", "blue2", "t" * 32]),
        st.integers(1, 12),
    ),
    max_size=40,
)


# --- one identifier -------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [f"{A}:1", f"{A}:{MAX_NUMBER}", f"{A}:blue_2:77", f"{A}:_:3"])
def test_a_gtid_reads_back_as_it_prints(text: str) -> None:
    """R43: an identifier survives its text form."""
    assert str(Gtid.parse(text)) == text


def test_a_gtid_is_read_without_regard_to_case() -> None:
    """R43: uuid and tag are lower case inside."""
    assert Gtid.parse(f"{A.upper()}:Blue:7") == Gtid(A, "blue", 7)


@pytest.mark.parametrize(
    "text",
    [
        *("", A, f"{A}:", f"{A}:0", f"{A}:01", f"{A}:-1", f"{A}:1-2", f"{A}:1-1", f"{A}:1:2"),
        *(f" {A}:1", f"{A}:1\n", f"{A}:blue", f"{A}:blue:", f"{A}:2b:1", f"{A}:{2**63 - 1}"),
        *(f"{A[1:]}:1", f"{A}:\u0661", f"{A}:\u212aelvin:1", f"{A}:{'t' * 33}:1"),
        f"{A}:1,{B}:1",
    ],
)
def test_what_is_not_one_gtid_is_refused_unquoted(text: str) -> None:
    """R44: nothing is coerced, and the refusal repeats nothing of the text."""
    with pytest.raises(ValueError, match=r"^malformed GTID$"):
        Gtid.parse(text)


def test_gtids_are_ordered_hashable_values() -> None:
    """R43: identifiers sort by uuid, tag (none first) and number, and work in sets."""
    ordered = [Gtid(B, "", 2), Gtid(A, "", 10), Gtid(A, "a", 1), Gtid(A, "a", 9), Gtid(C, "", 1)]
    shuffled = [ordered[place] for place in (3, 0, 4, 2, 1)]
    assert sorted(shuffled) == ordered
    assert len({Gtid(A, "", 1), Gtid(A, "", 1), Gtid(A, "x", 1)}) == 2
    with pytest.raises(AttributeError):
        ordered[0].number = 3  # type: ignore[misc]


def test_a_uuid_prints_lower_case_with_hyphens() -> None:
    """R43: sixteen wire bytes become the canonical text."""
    assert uuid_text(bytes.fromhex(A.replace("-", ""))) == A


# --- text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        (" \n\t", ""),
        (f"{A}:1", f"{A}:1"),
        (f"{A.upper()}:1-1", f"{A}:1"),
        (f"{A}:5-9:1-4", f"{A}:1-9"),
        (f"{A}:1-3:2-7:9", f"{A}:1-7:9"),
        (f"{A}:1-50448:999999", f"{A}:1-50448:999999"),
        (f"{C}:1,\n{B}:2 ,\r\n {A}:3", f"{B}:2,{A}:3,{C}:1"),
        (f"{A}:1,{A}:2", f"{A}:1-2"),
        (f"{A}:1-50428:blue:1", f"{A}:1-50428:blue:1"),
        (f"{A}:1-3:5:tag:1-2:tag2:7", f"{A}:1-3:5:tag:1-2:tag2:7"),
        (f"{A}:Tag:2,{A}:4:tag:1", f"{A}:4:tag:1-2"),
        (f"{A}:zz:1:_a:2:a9:3", f"{A}:_a:2:a9:3:zz:1"),
        (f"{A}:{MAX_NUMBER}", f"{A}:{MAX_NUMBER}"),
    ],
)
def test_text_becomes_canonical(text: str, canonical: str) -> None:
    """R43: sets parse and print canonically, with several sources and tags, merged."""
    assert str(GtidSet.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "kind", "offset"),
    [
        (",", "an empty entry", 0),
        (f"{A}:1,", "an empty entry", 39),
        (f"{A}:1,,{B}:1", "an empty entry", 39),
        (A, "no numbers", 36),
        (f"{A}:", "neither numbers nor a tag", 37),
        (f"{A}:0", "neither numbers nor a tag", 37),
        (f"{A}:00", "neither numbers nor a tag", 37),
        (f"{A}:01", "neither numbers nor a tag", 37),
        (f"{A}:+1", "neither numbers nor a tag", 37),
        (f"{A}:-1", "neither numbers nor a tag", 37),
        (f"{A}:1-", "neither numbers nor a tag", 37),
        (f"{A}:1-2-3", "neither numbers nor a tag", 37),
        (f"{A}:1--3", "neither numbers nor a tag", 37),
        (f"{A}:1:", "neither numbers nor a tag", 39),
        (f"{A}: 1", "neither numbers nor a tag", 37),
        (f"{A}:1 -2", "neither numbers nor a tag", 37),
        (f"{A}:0x1", "neither numbers nor a tag", 37),
        (f"{A}:1e3", "neither numbers nor a tag", 37),
        (f"{A}:3-2", "a descending range", 37),
        (f"{A}:1:9-8", "a descending range", 39),
        (f"{A}:{2**63 - 1}", "a number out of range", 37),
        (f"{A}:{10**19}", "neither numbers nor a tag", 37),
        (f"{A}:blue", "no numbers", 41),
        (f"{A}:blue:1:red", "no numbers", 47),
        (f"{A}:blue:red:1", "neither numbers nor a tag", 42),
        (f"{A}:blue-red:1", "neither numbers nor a tag", 37),
        (f"{A}:{'t' * 33}:1", "neither numbers nor a tag", 37),
        (f"{A}:\u0661", "characters outside ASCII", 0),
        (f"{A}:\u212aelvin:1", "characters outside ASCII", 0),
        (f"{A[:-1]}:1", "no source uuid", 0),
        (f"{A}0:1", "no source uuid", 0),
        (f"{{{A}}}:1", "no source uuid", 0),
        (f"{A.replace('-', '')}:1", "no source uuid", 0),
        (f"{A}:1,  x:1", "no source uuid", 41),
        (f"{A}:1;{B}:1", "neither numbers nor a tag", 37),
        ("hunter2", "no source uuid", 0),
    ],
)
def test_malformed_text_is_refused_with_kind_and_place(text: str, kind: str, offset: int) -> None:
    """R44: malformed text is an error that names kind and offset and quotes nothing."""
    with pytest.raises(ValueError) as refused:
        GtidSet.parse(text)
    assert str(refused.value) == f"malformed GTID set: {kind} at offset {offset}"


@given(members)
def test_text_round_trips(gtids: frozenset[Gtid]) -> None:
    """R43: a set reads back from its own text, with line breaks as the server prints them too."""
    whole = GtidSet.of(gtids)
    assert GtidSet.parse(str(whole)) == whole
    assert GtidSet.parse(str(whole).replace(",", ",\n")) == whole


@given(st.text(alphabet="0123456789abcdefABCDEF-:, \ntu_", max_size=60))
def test_any_text_is_a_set_or_a_value_error(tail: str) -> None:
    """R44: whatever follows a uuid either reads back the same or is refused."""
    try:
        found = GtidSet.parse(f"{A}{tail}")
    except ValueError:
        return
    assert GtidSet.parse(str(found)) == found


# --- algebra --------------------------------------------------------------------------------------


@given(members, members)
def test_the_algebra_is_that_of_sets_of_identifiers(
    left: frozenset[Gtid], right: frozenset[Gtid]
) -> None:
    """R43, R108: every operation agrees with Python sets of single identifiers."""
    a, b = GtidSet.of(left), GtidSet.of(right)
    assert a | b == GtidSet.of(left | right)
    assert a & b == GtidSet.of(left & right)
    assert a - b == GtidSet.of(left - right)
    assert (a <= b, a < b, a == b) == (left <= right, left < right, left == right)
    assert (a >= b, a > b, a != b) == (left >= right, left > right, left != right)
    assert (bool(a), a.count()) == (bool(left), len(left))
    assert [gtid in a for gtid in sorted(left | right)] == [
        gtid in left for gtid in sorted(left | right)
    ]
    assert hash(a | b) == hash(b | a)
    assert len({a, GtidSet.of(left)}) == 1


@given(members, members)
def test_adding_and_removing_leave_the_operand_alone(
    left: frozenset[Gtid], right: frozenset[Gtid]
) -> None:
    """R38: add, add_all and without give new sets."""
    a = GtidSet.of(left)
    before = str(a)
    assert a.add_all(right) == GtidSet.of(left | right)
    for gtid in sorted(right)[:3]:
        assert a.add(gtid) == GtidSet.of(left | {gtid})
        assert a.without(gtid) == GtidSet.of(left - {gtid})
    assert str(a) == before


def test_a_set_tells_its_sources_and_runs() -> None:
    """R43: uuids, sources, runs and the part of one uuid are to be had."""
    whole = GtidSet.parse(f"{A}:1-3:7:blue:2,{B}:red:1")
    assert whole.uuids() == {A, B}
    assert whole.sources() == ((B, "red"), (A, ""), (A, "blue"))
    assert whole.intervals(A) == ((1, 4), (7, 8))
    assert whole.intervals(A, "blue") == ((2, 3),)
    assert whole.intervals(B) == ()
    assert str(whole.restricted_to(A)) == f"{A}:1-3:7:blue:2"
    assert not whole.restricted_to(C)


def test_a_set_is_no_other_thing() -> None:
    """R43: a set differs from its text and survives pickling."""
    whole = GtidSet.parse(f"{A}:1-3")
    assert whole != str(whole)
    assert pickle.loads(pickle.dumps(whole)) == whole
    assert repr(whole) == f"<GtidSet {A}:1-3>"


def test_empty_runs_do_not_make_a_source() -> None:
    """R43: a source without numbers does not exist, so equal sets have equal forms."""
    assert GtidSet({(A, ""): ()}) == GtidSet()
    assert not GtidSet.parse(f"{A}:1") - GtidSet.parse(f"{A}:1-2")


@pytest.mark.parametrize(
    ("mine", "executed", "answer"),
    [
        (f"{A}:1-10", f"{A}:1-10", True),
        (f"{A}:1-9", f"{A}:1-10", True),
        (f"{A}:1-12", f"{A}:1-10", True),
        (f"{A}:1-12,{B}:1-4", f"{A}:1-10,{B}:1-4", True),
        (f"{A}:1-8:11", f"{A}:1-10", True),
        (f"{A}:1-12", f"{A}:1-5:9-10", False),
        (f"{A}:1-12,{B}:1-4", f"{A}:1-10,{B}:2-4", False),
        (f"{A}:1-10:blue:1-3", f"{A}:1-10:blue:1-2", True),
        (f"{A}:1-10:blue:1-3", f"{A}:1-10:blue:2-3", False),
        (f"{A}:1-10,{B}:1", f"{A}:1-10", True),
        ("", "", True),
    ],
)
def test_an_excess_at_the_top_is_told_from_one_below(
    mine: str, executed: str, answer: bool
) -> None:
    """D14: only numbers above all that the server has executed can still be on their way."""
    assert GtidSet.parse(mine).exceeds_only_at_top(GtidSet.parse(executed)) is answer


# --- growth ---------------------------------------------------------------------------------------


@given(members, st.lists(st.tuples(st.sampled_from([A, B]), st.integers(1, 30)), max_size=50))
def test_an_accumulator_grows_like_a_set(
    start: frozenset[Gtid], added: list[tuple[str, int]]
) -> None:
    """R38, R39: an identifier is new exactly once, whatever the order of arrival."""
    accumulator = GtidAccumulator(GtidSet.of(start))
    seen = set(start)
    for uuid, number in added:
        gtid = Gtid(uuid, "blue", number)
        assert accumulator.add(uuid, "blue", number) == (gtid not in seen)
        seen.add(gtid)
    assert accumulator.freeze() == GtidSet.of(seen)


def test_an_accumulator_grows_for_one_source_at_a_time() -> None:
    """R44: `add_to` adds to the same set as `add`, and knows members too."""
    accumulator = GtidAccumulator(GtidSet.parse(f"{A}:1-5"))
    add = accumulator.add_to(A, "")
    assert not add(5)
    assert add(6)
    assert accumulator.add(A, "", 7)
    assert add(8)
    assert str(accumulator.freeze()) == f"{A}:1-8"


def test_a_frozen_accumulator_can_grow_on() -> None:
    """R36: N transactions in a row are one interval, and an earlier position stays what it was."""
    accumulator = GtidAccumulator(GtidSet.parse(f"{A}:1-5"))
    assert str(accumulator.freeze()) == f"{A}:1-5"
    assert accumulator.add(A, "", 6)
    first = accumulator.freeze()
    assert all(accumulator.add(A, "", number) for number in range(7, 1001))
    assert not accumulator.add(A, "", 6)
    assert (str(first), str(accumulator.freeze())) == (f"{A}:1-6", f"{A}:1-1000")


# --- bytes ----------------------------------------------------------------------------------------

RAW_A = bytes.fromhex(A.replace("-", ""))
RAW_B = bytes.fromhex(B.replace("-", ""))
TAGGED = 1 << 56 | 1


def one(count: int, *bounds: int, raw: bytes = RAW_A, tag: bytes = b"") -> bytes:
    return raw + tag + pack(f"<Q{len(bounds)}Q", count, *bounds)


def test_the_plain_layout_is_the_servers() -> None:
    """R43: number of sources; uuid, number of runs, half-open pairs; by hand, sources in order."""
    whole = GtidSet.parse(f"{A}:1-3:7,{B}:5")
    wire = pack("<Q", 2) + one(1, 5, 6, raw=RAW_B) + one(2, 1, 4, 7, 8)
    assert whole.encode() == wire
    assert GtidSet.decode(wire) == whole


def test_the_tagged_layout_is_the_servers() -> None:
    """D22: a marked head; per source a length byte and the tag, a zero byte for no tag."""
    whole = GtidSet.parse(f"{A}:1-3:blue:9")
    wire = pack("<Q", TAGGED | 2 << 8) + one(1, 1, 4, tag=b"\0") + one(1, 9, 10, tag=b"\x08blue")
    assert whole.encode() == wire
    assert GtidSet.decode(wire) == whole


def test_a_tagged_layout_without_tags_is_read() -> None:
    """D22: a server that once had a tag goes on writing the tagged layout, empty or untagged."""
    assert GtidSet.decode(pack("<Q", TAGGED)) == GtidSet()
    wire = pack("<Q", TAGGED | 1 << 8) + one(1, 1, 4, tag=b"\0")
    assert str(GtidSet.decode(wire)) == f"{A}:1-3"


def test_the_empty_set_is_eight_zero_bytes() -> None:
    """R43: no source at all asks for everything the server still has."""
    assert GtidSet().encode() == bytes(8)
    assert GtidSet.decode(bytes(8)) == GtidSet()


@given(members)
def test_bytes_round_trip(gtids: frozenset[Gtid]) -> None:
    """R43, D22: a set reads back from its own bytes, tags or not."""
    whole = GtidSet.of(gtids)
    assert GtidSet.decode(whole.encode()) == whole


@given(members.filter(bool), st.data())
def test_every_cut_and_every_surplus_is_refused(
    gtids: frozenset[Gtid], data: st.DataObject
) -> None:
    """R44: a set is decoded from all of its bytes or not at all."""
    wire = GtidSet.of(gtids).encode()
    cut = data.draw(st.integers(0, len(wire) - 1))
    with pytest.raises(ValueError):
        GtidSet.decode(wire[:cut])
    with pytest.raises(ValueError):
        GtidSet.decode(wire + bytes(data.draw(st.integers(1, 50))))


@given(st.binary(max_size=200), st.sampled_from([b"", pack("<Q", 1), pack("<Q", TAGGED | 1 << 8)]))
def test_any_bytes_are_a_set_or_a_value_error(data: bytes, head: bytes) -> None:
    """R44: bytes from outside read back the same or are refused, never anything else."""
    try:
        found = GtidSet.decode(head + data)
    except ValueError:
        return
    assert GtidSet.decode(found.encode()) == found


TOP = MAX_NUMBER + 1


@pytest.mark.parametrize(
    ("wire", "kind"),
    [
        (b"", "truncated"),
        (bytes(7), "truncated"),
        (bytes(9), "trailing bytes"),
        (pack("<Q", 2**40), "more sources than bytes"),
        (pack("<Q", 2**64 - 1), "more sources than bytes"),
        (pack("<Q", 1 << 56 | 1 << 8), "more sources than bytes"),
        (pack("<Q", 2 << 56 | 1 << 8 | 2) + bytes(40), "more sources than bytes"),
        (pack("<Q", 2) + one(1, 1, 4), "more sources than bytes"),
        (pack("<Q", TAGGED | 2 << 8) + one(3, *range(1, 7), tag=b"\0") + RAW_B, "truncated"),
        (pack("<Q", TAGGED | 1 << 55), "more sources than bytes"),
        (pack("<Q", 1) + one(0) + bytes(16), "a wrong number of intervals"),
        (pack("<Q", 1) + one(2, 1, 2), "a wrong number of intervals"),
        (pack("<Q", 1) + one(2**60, 1, 2), "a wrong number of intervals"),
        (pack("<Q", 1) + one(2**64 - 1, 1, 2), "a wrong number of intervals"),
        (pack("<Q", 1) + one(1, 0, 2), "unordered intervals"),
        (pack("<Q", 1) + one(1, 2, 2), "unordered intervals"),
        (pack("<Q", 1) + one(1, 3, 2), "unordered intervals"),
        (pack("<Q", 1) + one(2, 1, 4, 3, 6), "unordered intervals"),
        (pack("<Q", 1) + one(2, 1, 4, 4, 6), "unordered intervals"),
        (pack("<Q", 1) + one(2, 5, 6, 1, 2), "unordered intervals"),
        (pack("<Q", 1) + one(1, 1, TOP + 1), "unordered intervals"),
        (pack("<Q", 1) + one(1, 1, 2**64 - 1), "unordered intervals"),
        (pack("<Q", 2) + one(1, 1, 2) + one(1, 5, 6), "a source twice"),
        (pack("<Q", TAGGED | 1 << 8) + one(1, 1, 2, tag=b"\x09blue"), "a wrong tag length"),
        (pack("<Q", TAGGED | 1 << 8) + one(1, 1, 2, tag=b"\xfe"), "a wrong tag length"),
        (pack("<Q", TAGGED | 1 << 8) + one(1, 1, 2, tag=b"\x42" + b"t" * 33), "a wrong tag length"),
        (pack("<Q", TAGGED | 1 << 8) + one(1, 1, 2, tag=b"\x08Blue"), "a wrong tag"),
        (pack("<Q", TAGGED | 1 << 8) + one(1, 1, 2, tag=b"\x08b\xffue"), "a wrong tag"),
        (pack("<Q", TAGGED | 1 << 8) + one(1, 1, 2, tag=b"\x022"), "a wrong tag"),
    ],
)
def test_hostile_bytes_are_refused_before_anything_is_made_of_them(wire: bytes, kind: str) -> None:
    """R44: every count is bounded by the bytes at hand, every order and range is checked."""
    with pytest.raises(ValueError, match=f"^malformed GTID set: {kind} at offset \\d+$"):
        GtidSet.decode(wire)


def test_the_highest_number_survives_the_wire() -> None:
    """R43: the last number a server can give out keeps its exclusive end within 63 bits."""
    top = GtidSet.parse(f"{A}:{MAX_NUMBER}")
    assert GtidSet.decode(top.encode()) == top
    assert top.encode()[-8:] == pack("<Q", 2**63 - 1)
