"""The short cut: it takes what the event loop would have let through, and gives the same."""

import struct
from collections.abc import Sequence
from itertools import pairwise

import pytest
from helpers import event_builder as e
from helpers.short_cuts import both_ways, placed, summed
from hypothesis import given
from hypothesis import strategies as st

from capstan.core import one_statement
from capstan.core.binlog.framing import PacketCutter, Packets
from capstan.core.gtid import Gtid
from capstan.core.limits import Budget
from capstan.core.watermark import Anchor

FIRST = 400
"""Where the stream's transactions begin in their file."""
HEAD = [e.rotate(checksum=False), e.format_description(), e.previous_gtids()]


def side_by_side(raws: Sequence[bytes]) -> Packets:
    """Events as they lie in a file."""
    bounds = [0]
    for raw in raws:
        bounds.append(bounds[-1] + len(raw))
    return Packets(b"".join(raws), bounds, gap=0)


def in_packets(raws: Sequence[bytes], sequence: int = 1) -> Packets:
    """Events as they lie in the packets of a dump."""
    (packets,) = PacketCutter(sequence).feed(e.packets(raws, sequence)).packets
    return packets


def stream(raws: Sequence[bytes]) -> list[Packets]:
    return [in_packets(HEAD), in_packets(placed(raws, FIRST), len(HEAD) + 1)]


def transaction(
    number: int,
    images: Sequence[tuple[int, str | None]] = ((1, "one"),),
    kind: int = 30,
    table: bytes = b"items",
) -> list[bytes]:
    return [
        e.gtid(number),
        e.query(b"BEGIN"),
        e.table_map(80, table=table),
        e.rows(kind, 80, images),
        e.xid(number),
    ]


def transactions(count: int, first: int = 1) -> list[bytes]:
    return [raw for number in range(first, first + count) for raw in transaction(number)]


USUAL = transactions(4)
"""Two to learn from, of which one may be broken; two that follow."""


@pytest.mark.parametrize("lay", [side_by_side, in_packets])
def test_transactions_of_one_statement_are_taken_whole(lay):
    """R1, R10: all but the first, from which head and null bitmap are learned."""
    outcome = both_ways([lay(HEAD), lay(placed(transactions(20), FIRST))])
    assert outcome.taken == 19
    assert outcome.halt is None
    assert len(outcome.items) == 20


@pytest.mark.parametrize("kind", [30, 31, 32])
def test_every_kind_of_row_event_is_taken(kind):
    """R1, D5: inserts, updates and deletes, of one row and of several."""
    images = [(1, "old"), (1, "new"), (2, None), (2, "two")]
    raws = [raw for number in range(1, 6) for raw in transaction(number, images, kind)]
    outcome = both_ways(stream(raws))
    assert outcome.taken == 4
    assert [len(changes) for _, _, changes, *_ in outcome.items] == [2 if kind == 31 else 4] * 5


def test_texts_of_every_length_are_taken():
    """R1: sizes are those of the opening; rows may be as long as they like."""
    raws = []
    for number in range(1, 60):
        raws += transaction(number, [(number, "x" * (number % 50) if number % 7 else None)])
    assert both_ways(stream(raws)).taken == 58


def test_packet_numbers_that_go_round_are_no_matter():
    """R1: the numbers are part of the sums, which are learned for each of them."""
    outcome = both_ways(stream(transactions(120)))
    assert outcome.taken == 119


def test_tables_and_statements_take_turns():
    """R1: an opening is known by its sizes and its table map."""
    raws = []
    for number in range(1, 31):
        raws += transaction(number, table=(b"items", b"orders", b"log")[number % 3])
    assert both_ways(stream(raws)).taken == 27


def test_a_table_that_is_not_captured_is_passed_over_unread():
    """R33, R34: its rows may be anything; the transaction advances."""
    raws = []
    for number in range(1, 9):
        rows = e.event(30, (80).to_bytes(6, "little") + b"\1\0" + b"no rows")
        raws += [e.gtid(number), e.query(b"BEGIN"), e.table_map(80, b"other"), rows, e.xid()]
    outcome = both_ways(stream(raws))
    assert outcome.taken == 7
    assert [changes for _, _, changes, *_ in outcome.items] == [[]] * 8


def test_sources_may_change_from_transaction_to_transaction():
    """R44: each GTID goes into its own source's set."""
    raws = []
    for number in range(1, 10):
        for source in (e.SOURCE, e.OTHER):
            raws += [e.gtid(number, source=source), *transaction(number)[1:]]
    outcome = both_ways(stream(raws))
    assert outcome.taken == 17
    assert outcome.items[-1][1] == f"{e.SOURCE}:1-9,{e.OTHER}:1-9"


def test_a_transaction_that_came_before_halts():
    """R39: history is not written twice; the event loop says so."""
    outcome = both_ways(stream([*transactions(3), *transactions(1, first=2)]))
    assert outcome.halt is not None
    assert outcome.halt[0] == "source_history_changed"
    assert len(outcome.items) == 3


def test_a_hole_in_the_numbers_is_kept():
    """R44: numbers need not follow each other."""
    outcome = both_ways(stream([*transactions(3), *transactions(3, first=7)]))
    assert outcome.items[-1][1] == f"{e.SOURCE}:1-3:7-9"


@pytest.mark.parametrize("first", [2, 3])
def test_an_anchor_is_met_before_anything_is_taken(first):
    """D13: the anchored transaction must come by, and nothing passes in its place."""
    anchor = Anchor(
        gtid=Gtid(e.SOURCE, "", 2),
        commit_micros=1_700_000_000_000_001,
        arrived_micros=1_700_000_000_000_001,
        server_uuid="",
    )
    outcome = both_ways(
        [in_packets(HEAD), in_packets(placed(transactions(6, first=first), 0), len(HEAD) + 1)],
        start=f"{e.SOURCE}:1-2",
        anchor=anchor,
        before=stream(transactions(9, first=100)),
    )
    assert (outcome.halt is None) == (first == 2)
    assert len(outcome.items) == (5 if first == 2 else 0)


@pytest.mark.parametrize("budget", [Budget(memory=6000), Budget(total=400)])
def test_a_budget_that_small_events_can_break_is_kept(budget):
    """D25: the short cut does not count, so it takes nothing where counting could matter."""
    raws = [*transactions(4), *transaction(5, [(1, "x" * 50)] * 40)]
    outcome = both_ways(stream(raws), budget=budget)
    assert outcome.taken == 0
    assert len(outcome.items) == 4
    assert outcome.halt is not None


def test_large_events_go_the_long_way():
    """D25: from 5,000 bytes on an event is looked at by the loop, which counts and spools."""
    outcome = both_ways(stream([*transactions(3), *transaction(4, [(1, "x" * 50)] * 100)]))
    assert outcome.taken == 2
    assert len(outcome.items) == 4


KNOWN = [
    *transactions(70),
    *transaction(71, [(1, "a"), (1, "b")], 31),
    *transaction(72, [(1, "a"), (1, "b")], 31),
    *transaction(73, [(1, None)] * 70),
]
"""What makes every part of the short cut known, and gives rows code of their own."""


def unusual() -> dict[str, list[bytes]]:
    """Transactions, or what stands in their place, that are different in one thing."""
    gtid, begin, mapping, rows, xid = transaction(80)
    update = e.rows(31, 80, [(1, "a"), (1, "b")])
    short_gtid = e.event(33, gtid[19:44])
    nulls = e.rows(30, 80, [(1, None)])
    flagged = summed(gtid[:67] + bytes([gtid[67] | 0x80]) + gtid[68:-4])
    return {
        "usual": [gtid, begin, mapping, rows, xid],
        "commit": [gtid, begin, mapping, rows, e.query(b"COMMIT")],
        "two statements": [gtid, begin, mapping, rows, mapping, rows, xid],
        "two events": [gtid, begin, mapping, e.rows(30, 80, [(1, "a")], last=False), rows, xid],
        "a note": [gtid, begin, e.event(29, b"\x05note!"), mapping, rows, xid],
        "a heartbeat": [gtid, begin, e.heartbeat(), mapping, rows, xid],
        "empty": [gtid, begin, xid],
        "no rows": [gtid, begin, mapping, e.rows(30, 80, []), xid],
        "a cut row": [gtid, begin, mapping, summed(rows[:-5]), xid],
        "a cut number": [gtid, begin, mapping, summed(nulls[:-5]), xid],
        "half a row": [gtid, begin, mapping, summed(rows[:-8]), xid],
        "a byte behind the rows": [gtid, begin, mapping, summed(rows[:-4] + b"\0"), xid],
        "two times": [e.gtid(80, original=7), begin, mapping, rows, xid],
        "two times in the place of one": [flagged, begin, mapping, rows, xid],
        "no original time": [e.gtid(80, original=0), begin, mapping, rows, xid],
        "no time": [e.gtid(80, commit=0), begin, mapping, rows, xid],
        "an old server's": [short_gtid, begin, mapping, rows, xid],
        "number 0": [summed(gtid[:36] + bytes(8) + gtid[44:-4]), begin, mapping, rows, xid],
        "highest number": [e.gtid((1 << 63) - 1), begin, mapping, rows, xid],
        "a tag": [e.tagged_gtid(80, "tag"), begin, mapping, rows, xid],
        "anonymous": [e.event(34, gtid[19:-4]), begin, mapping, rows, xid],
        "another statement": [gtid, e.query(b"ALTER"), mapping, rows, xid],
        "XA START": [gtid, e.query(b"XA START X'61',X'',1"), mapping, rows, xid],
        "a savepoint": [gtid, begin, e.query(b"SAVEPOINT `a`"), mapping, rows, xid],
        "another table id": [gtid, begin, mapping, e.rows(30, 81, [(1, "one")]), xid],
        "delete from another table id": [gtid, begin, mapping, e.rows(32, 81, [(1, "a")]), xid],
        "another map": [gtid, begin, e.table_map(80, table=b"other"), rows, xid],
        "half a pair": [gtid, begin, mapping, e.rows(31, 80, [(1, "one")]), xid],
        "partial update": [gtid, begin, mapping, e.event(39, update[19:-4]), xid],
        "version 1": [gtid, begin, mapping, e.event(23, rows[19:27] + rows[29:-4]), xid],
        "version 1 like version 2": [gtid, begin, mapping, e.event(23, rows[19:-4]), xid],
        "not every column": [gtid, begin, mapping, summed(rows[:30] + b"\xfd" + rows[31:-4]), xid],
        "flags": [gtid, begin, mapping, summed(rows[:25] + b"\3\0" + rows[27:-4]), xid],
        "statement goes on": [gtid, begin, mapping, e.rows(32, 80, [(1, "a")], last=False), xid],
        "prepared": [gtid, begin, mapping, rows, e.event(38, b"\1" + bytes(20))],
        "long xid": [gtid, begin, mapping, rows, e.event(16, bytes(9))],
        "cut": [gtid, begin, mapping, rows],
        "no text": [gtid, begin, mapping, summed(rows[:-7] + b"\xff" + rows[-6:-4]), xid],
    }


@pytest.mark.parametrize("known", [transactions(2), KNOWN], ids=["little", "all"])
@pytest.mark.parametrize("what", unusual())
def test_what_is_unusual_is_left_to_the_event_loop(what, known):
    """R1, R2, R23, R266, D17-D22: the same transactions and the same verdict, whatever it is."""
    raws = [*known, *unusual()[what], *transactions(3, first=90)]
    outcome = both_ways(stream(raws))
    assert outcome.taken >= len(known) // 5 - 2


def test_transactions_of_another_server_have_two_times():
    """R1: a replica's log has the time of the original commit and its own."""
    raws = []
    for number in range(1, 9):
        _, *rest = transaction(number)
        raws += [e.gtid(number, original=1_600_000_000_000_000 + number), *rest]
    outcome = both_ways(stream(raws))
    assert outcome.taken == 7
    assert outcome.items[5][0].commit_micros == 1_600_000_000_000_006
    assert outcome.items[5][0].arrived_micros == 1_700_000_000_000_001


def test_old_servers_have_no_times_and_are_read_all_the_same():
    """R1: the header's second stands for the commit."""
    raws = []
    for number in range(1, 6):
        gtid, *rest = transaction(number)
        raws += [e.event(33, gtid[19:44]), *rest]
    assert len(both_ways(stream(raws)).items) == 5


@pytest.mark.parametrize("event", range(5))
@pytest.mark.parametrize("byte", [0, 4, 6, 9, 13, 17, 21, 27, -5, -1])
def test_a_bit_that_flips_anywhere_is_found(event, byte):
    """R266: the sum over several events misses nothing that the sum of each would find."""
    raws = placed(USUAL, FIRST)
    broken = bytearray(raws[10 + event])
    broken[byte] ^= 4
    raws[10 + event] = bytes(broken)
    outcome = both_ways([in_packets(HEAD), side_by_side_in(raws)])
    assert outcome.halt is not None
    assert outcome.halt[0] == "event_corrupt"
    assert len(outcome.items) == 2


def side_by_side_in(raws: Sequence[bytes]) -> Packets:
    """Events in packets that were cut by what they are, whatever their headers say."""
    return in_packets(raws, len(HEAD) + 1)


@pytest.mark.parametrize("event", range(5))
@pytest.mark.parametrize("jump", [-1, 1, 100, -400])
def test_a_gap_in_the_file_is_judged_by_the_event_loop(event, jump):
    """R9: inside a group it is a halt; in front of one a dump may have left some out."""
    raws = placed(USUAL[:10], FIRST)
    after = FIRST + sum(map(len, raws))
    raws += placed(USUAL[10 : 10 + event], after)
    raws += placed(USUAL[10 + event :], after + sum(map(len, USUAL[10 : 10 + event])) + jump)
    outcome = both_ways([in_packets(HEAD), in_packets(raws, len(HEAD) + 1)])
    assert (outcome.halt is None) == (event == 0)


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 50])
def test_pieces_may_end_anywhere(pieces):
    """R11: transactions go on from piece to piece."""
    raws = placed(transactions(12), FIRST)
    cuts = [len(raws) * place // pieces for place in range(pieces + 1)]
    parts = [raws[first:last] for first, last in pairwise(cuts)]
    packets = [in_packets(HEAD)]
    sequence = len(HEAD) + 1
    for part in parts:
        packets.append(in_packets(part, sequence & 0xFF))
        sequence += len(part)
    outcome = both_ways(packets)
    assert len(outcome.items) == 12


@given(
    st.integers(0, 4),
    st.integers(0, 200),
    st.integers(1, 255),
    st.booleans(),
)
def test_any_byte_may_be_another(event, byte, mask, repaired):
    """R266: with its checksum mended or not, both ways come to the same."""
    raws = placed(USUAL, FIRST)
    raw = bytearray(raws[10 + event])
    raw[byte % (len(raw) - 4)] ^= mask
    raws[10 + event] = summed(bytes(raw[:-4])) if repaired else bytes(raw)
    both_ways([in_packets(HEAD), in_packets(raws, len(HEAD) + 1)])


@given(st.data())
def test_events_may_be_missing_doubled_or_swapped(data):
    """R266: whatever follows whatever, both ways come to the same."""
    raws = list(USUAL)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(raws) - 1))
        match data.draw(st.sampled_from(["drop", "double", "swap"])):
            case "drop":
                del raws[place]
            case "double":
                raws.insert(place, raws[place])
            case "swap":
                other = data.draw(st.integers(0, len(raws) - 1))
                raws[place], raws[other] = raws[other], raws[place]
    both_ways(stream(raws))


def test_openings_are_kept_for_a_bounded_number_of_tables(monkeypatch):
    """R266: table ids without end take neither memory nor time without end."""
    monkeypatch.setattr(one_statement, "_MOST_OPENINGS", 4)
    raws = []
    for number in range(1, 101):
        gtid, begin, _, _, xid = transaction(number)
        table = number % 5 if number < 50 else 99
        raws += [gtid, begin, e.table_map(table), e.rows(30, table, [(1, "one")]), xid]
    pieces = stream(raws)
    outcome = both_ways(pieces)
    # Four of the five are known at first, and nothing else until the last has come 64 times.
    assert 35 <= outcome.taken <= 40
    raws = [*raws, *transactions(80, first=200)]
    assert both_ways(stream(raws)).taken > outcome.taken + 40


def test_positions_from_nothing_are_a_gap():
    """R9: an event without a position leaves the one before it standing."""
    gtid, *rest = transaction(5)
    raws = [*placed(transactions(4), FIRST), gtid, *placed(rest, 0)]
    outcome = both_ways([in_packets(HEAD), in_packets(raws, len(HEAD) + 1)])
    assert outcome.halt is not None
    assert outcome.halt[0] == "event_order_invalid"


def test_a_position_of_zero_is_no_place_in_a_file():
    """R9: events that a server makes up have none; their transactions go the long way."""
    outcome = both_ways([in_packets(HEAD), in_packets(USUAL, len(HEAD) + 1)])
    assert outcome.taken == 0
    assert outcome.halt is None
    assert struct.unpack_from("<I", USUAL[0], 13) == (0,)
