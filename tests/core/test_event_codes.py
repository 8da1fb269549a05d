"""Every event type code in every place of the stream: exactly one outcome, written down by hand.

House rules: the table below was not made from `shapes`; it says again, in words of its own, what
each code must come to. A code that it leaves out is unknown, and unknown is a halt.
"""

import itertools
from collections.abc import Iterator

import pytest
from helpers import event_builder as e
from helpers.histories import up_to
from helpers.pipelines import Recording
from helpers.scripted_source import ScriptedSource, pieces

from capstan import Config, HaltReason, MemoryStore, Pipeline, PipelineHalted, Source
from capstan.core.assembly import Fold
from capstan.core.epoch import Epoch
from capstan.core.gtid import GtidSet
from capstan.core.limits import Budget
from capstan.core.tables import CaptureList

IGNORABLE = 0x80
PASSES = "passes"
RELEASES = "releases"
ORDER = HaltReason.EVENT_ORDER_INVALID.value
UNKNOWN = HaltReason.EVENT_UNKNOWN.value
STATEMENT = HaltReason.STATEMENT_BASED_CHANGE.value
XA = HaltReason.UNSUPPORTED_TRANSACTION_SHAPE.value
ANONYMOUS = HaltReason.ANONYMOUS_GTID.value
INCIDENT = HaltReason.SOURCE_INCIDENT.value

OUTSIDE, BEHIND_GTID, IN_BLOCK = "outside", "behind a GTID", "in a block"
PLACES = {
    OUTSIDE: e.insert(1, 1),
    BEHIND_GTID: [*e.insert(1, 1), e.gtid(2)],
    IN_BLOCK: [
        *e.insert(1, 1),
        e.gtid(2),
        e.query(b"BEGIN"),
        e.table_map(80),
        e.rows(30, 80, [(2, "b")], last=False),
    ],
}
"""What stands before the event that is tried; one whole transaction always comes first."""

ANYWHERE = (PASSES, PASSES, PASSES)
OUTCOMES: dict[int, tuple[str, str, str]] = {
    2: (ORDER, PASSES, ORDER),  # QUERY (here: BEGIN)
    3: (PASSES, ORDER, ORDER),  # STOP
    4: (PASSES, ORDER, ORDER),  # ROTATE
    5: (ORDER, STATEMENT, STATEMENT),  # INTVAR
    9: (ORDER, STATEMENT, STATEMENT),  # APPEND_BLOCK
    11: (ORDER, STATEMENT, STATEMENT),  # DELETE_FILE
    13: (ORDER, STATEMENT, STATEMENT),  # RAND
    14: (ORDER, STATEMENT, STATEMENT),  # USER_VAR
    15: (PASSES, ORDER, ORDER),  # FORMAT_DESCRIPTION
    16: (ORDER, ORDER, RELEASES),  # XID
    17: (ORDER, STATEMENT, STATEMENT),  # BEGIN_LOAD_QUERY
    18: (ORDER, STATEMENT, STATEMENT),  # EXECUTE_LOAD_QUERY
    19: (ORDER, ORDER, PASSES),  # TABLE_MAP
    23: (ORDER, ORDER, PASSES),  # WRITE_ROWS, version 1
    24: (ORDER, ORDER, PASSES),  # UPDATE_ROWS, version 1
    25: (ORDER, ORDER, PASSES),  # DELETE_ROWS, version 1
    26: (INCIDENT, INCIDENT, INCIDENT),
    27: ANYWHERE,  # HEARTBEAT
    28: ANYWHERE,  # IGNORABLE_LOG
    29: (ORDER, ORDER, PASSES),  # ROWS_QUERY
    30: (ORDER, ORDER, PASSES),  # WRITE_ROWS
    31: (ORDER, ORDER, PASSES),  # UPDATE_ROWS
    32: (ORDER, ORDER, PASSES),  # DELETE_ROWS
    33: (PASSES, ORDER, ORDER),  # GTID
    34: (ANONYMOUS, ANONYMOUS, ANONYMOUS),
    35: (PASSES, ORDER, ORDER),  # PREVIOUS_GTIDS
    36: ANYWHERE,  # TRANSACTION_CONTEXT
    37: ANYWHERE,  # VIEW_CHANGE
    38: (XA, XA, XA),  # XA_PREPARE
    39: (ORDER, ORDER, PASSES),  # PARTIAL_UPDATE_ROWS
    40: (ORDER, RELEASES, ORDER),  # TRANSACTION_PAYLOAD
    41: ANYWHERE,  # HEARTBEAT_V2
    42: (PASSES, ORDER, ORDER),  # GTID_TAGGED
}


def version_1(kind: int, images: list[tuple[int, str | None]]) -> bytes:
    """A row event of the older layout: the same without its extra-data length."""
    raw = e.rows(kind + 7, 80, images)[19:-4]
    return e.event(kind, raw[:8] + raw[10:])


def partial_update() -> bytes:
    """A PARTIAL_UPDATE_ROWS of a table without JSON columns: its value options are none."""
    raw = e.rows(31, 80, [(2, "b"), (2, "c")])[19:-4]
    columns, images = raw[:13], raw[13:]
    before = images[: len(images) // 2]
    return e.event(39, columns + before + b"\x00" + images[len(before) :])


def payload() -> bytes:
    """A TRANSACTION_PAYLOAD that holds BEGIN, a row and XID, not compressed."""
    inner = b"".join(
        raw[:9] + (len(raw) - 4).to_bytes(4, "little") + raw[13:-4]
        for raw in (e.query(b"BEGIN"), e.table_map(80), e.rows(30, 80, [(2, "b")]), e.xid(2))
    )
    size = len(inner).to_bytes(2, "little")
    fields = b"\x02\x03\xfc\xff\x00" + b"\x03\x03\xfc" + size + b"\x01\x03\xfc" + size + b"\x00"
    return e.event(40, fields + inner)


SAMPLES: dict[int, bytes] = {
    2: e.query(b"BEGIN"),
    4: e.rotate(),
    15: e.format_description(),
    16: e.xid(2),
    19: e.table_map(80),
    23: version_1(23, [(3, "c")]),
    24: version_1(24, [(2, "b"), (2, "c")]),
    25: version_1(25, [(3, "c")]),
    27: e.heartbeat(),
    29: e.event(29, b"\x01x"),
    30: e.rows(30, 80, [(3, None)]),
    31: e.rows(31, 80, [(2, "b"), (2, None)]),
    32: e.rows(32, 80, [(2, "b")]),
    33: e.gtid(2),
    35: e.previous_gtids(),
    39: partial_update(),
    40: payload(),
    42: e.tagged_gtid(2, "blue"),
}
"""A well-formed event of each type whose body is read; the others get eight zero bytes."""


def sample(code: int, *, ignorable: bool = False) -> bytes:
    return SAMPLES.get(code) or e.event(code, bytes(8), flags=IGNORABLE if ignorable else 0)


def expected(code: int, place: str) -> str:
    return OUTCOMES.get(code, (UNKNOWN,) * 3)[list(PLACES).index(place)]


def outcome_of(*raws: bytes) -> str:
    """What the last of these events comes to, after the others passed."""
    fold = Fold(CaptureList.parse(["shop.*"]), Budget())
    fold.open(Epoch(start=GtidSet(), server_uuid="x"))
    assert len(fold.feed(e.packets_of([*e.opening(), *raws[:-1]]))) == 1
    assert fold.halt is None
    finished = fold.feed(e.packets_of(raws[-1:]))
    if fold.halt is not None:
        assert finished == [], "a halt let something of its transaction out"
        return fold.halt.reason.value
    return RELEASES if finished else PASSES


def every_code_and_place() -> Iterator[tuple[int, str]]:
    return itertools.product(range(256), PLACES)


def test_every_code_comes_to_what_the_table_says() -> None:
    """D22: all 256 codes, between transactions, behind a GTID and inside a block."""
    found = {
        (code, place): outcome_of(*PLACES[place], sample(code))
        for code, place in every_code_and_place()
    }

    assert found == {(code, place): expected(code, place) for code, place in every_code_and_place()}


def test_only_unknown_codes_are_passed_over_for_their_flag() -> None:
    """An ignorable flag excuses what is unknown; it never changes what a known event means."""
    for code, place in every_code_and_place():
        if code in SAMPLES:
            continue
        wanted = expected(code, place)
        assert outcome_of(*PLACES[place], sample(code, ignorable=True)) == (
            PASSES if wanted == UNKNOWN else wanted
        ), (code, place)


def streamed(place: str, code: int) -> tuple[str, list[str], str]:
    """The same through a whole pipeline: outcome, what the sink got, what is on disk."""
    sink, store = Recording(), MemoryStore()
    source = ScriptedSource(lambda _: pieces([*PLACES[place], sample(code)]))
    config = Config(
        source=Source(host="127.0.0.1", user="u", password="p", server_id=7),
        tables=["shop.*"],
        sink=sink,
        store=store,
    )
    halt = ""
    try:
        with Pipeline(config, source=source) as pipeline:
            pipeline.wait_for(up_to(1), 20)
            pipeline.wait_for(up_to(2), 0 if expected(code, place) == PASSES else 20)
    except PipelineHalted as verdict:
        halt = verdict.halt.reason.value
    return halt, sink.gtids, str(store.load_watermark() or "")


@pytest.mark.parametrize("place", PLACES)
def test_a_scripted_source_gets_the_same_answers(place: str) -> None:
    """D22, R11, R14, R15: a halt keeps what came before and nothing of what it broke."""
    for code in range(256):
        wanted = expected(code, place)
        halt, gtids, watermark = streamed(place, code)
        count = 2 if wanted == RELEASES else 1
        assert halt == ("" if wanted in (PASSES, RELEASES) else wanted), (code, place)
        assert gtids == [f"{e.SOURCE}:{n}" for n in range(1, count + 1)], (code, place)
        assert watermark == str(up_to(count)), (code, place)
