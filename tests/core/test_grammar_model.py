"""The fold against a tiny reference model: any stream, legal or not, cut anywhere.

House rules: the model knows nothing of bytes, tables of shapes or decoders; it is the grammar said
once more in the shortest words. Events are built byte by byte by the test's own builder.
"""

import itertools

import attrs
from helpers import event_builder as e
from helpers.histories import up_to
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from capstan.core.assembly import Fold
from capstan.core.changes import Item, Transaction
from capstan.core.epoch import Epoch
from capstan.core.gtid import GtidSet
from capstan.core.halts import Halted
from capstan.core.limits import Budget
from capstan.core.tables import CaptureList

CONTROL_TEXTS = {
    "begin": b"BEGIN",
    "commit": b"COMMIT",
    "rollback": b"ROLLBACK",
    "savepoint": b"SAVEPOINT `s`",
    "release": b"RELEASE SAVEPOINT `s`",
    "roll back to": b"ROLLBACK TO `s`",
    "xa start": b"XA START X'61',X'',1",
    "xa end": b"XA END X'61',X'',1",
    "xa commit": b"XA COMMIT X'61',X'',1",
    "ddl": b"ALTER TABLE `items` ADD INDEX (name)",
    "dml": b"INSERT INTO items VALUES (1, 'a')",
}
RAW_EVENTS = {
    "xid": e.xid(1),
    "xa prepare": e.event(38, bytes(9)),
    "incident": e.event(26, b"\x01\x00\x00"),
    "anonymous": e.event(34, bytes(42)),
    "unknown": e.event(99, b""),
    "rows query": e.event(29, b"\x01x"),
    "heartbeat": e.heartbeat(),
    "stop": e.event(3, b""),
    "rotate": e.rotate(),
    "previous gtids": e.previous_gtids(),
    "format": e.format_description(),
}
WORDS = [*CONTROL_TEXTS, *RAW_EVENTS, "gtid", "rows", "filtered rows", "broken rows"]
FILES = {"stop", "rotate", "previous gtids", "format"}
STAY_IN_BLOCK = {"savepoint", "release", "xa start", "xa end", "rows query", "filtered rows"}


@attrs.define
class Model:
    """The grammar in few words.

    Attributes:
        place: "outside", "group" (behind a GTID), "block" or "xa".
        out: What has left: ("rows", number, how many) or ("ddl", number).
        halted: Whether a halt ended it.
    """

    place: str = "outside"
    number: int = 0
    rows: int = 0
    saved: int | None = None
    halted: bool = False
    out: list[tuple[object, ...]] = attrs.field(factory=list)

    def take(self, word: str) -> None:
        """One event."""
        if word == "heartbeat":
            return
        step = {"outside": self._outside, "group": self._group}.get(self.place, self._block)
        if not step(word):
            self.halted = True

    def _outside(self, word: str) -> bool:
        if word == "gtid":
            self.place, self.rows, self.saved = "group", 0, None
            self.number += 1
        return word == "gtid" or word in FILES

    def _group(self, word: str) -> bool:
        if word == "ddl":
            self.out.append(("ddl", self.number))
            self.place = "outside"
        elif word in ("begin", "xa start"):
            self.place = "block" if word == "begin" else "xa"
        else:
            return False
        return True

    def _block(self, word: str) -> bool:
        if word == "rows":
            self.rows += 2
        elif word == "savepoint":
            self.saved = self.rows
        elif word == "roll back to":
            return self.saved == self.rows
        elif self.place == "block" and (
            word in ("xid", "commit") or (word == "rollback" and not self.rows)
        ):
            self.out.append(("rows", self.number, self.rows))
            self.place = "outside"
        return word in STAY_IN_BLOCK | {"rows"} or self.place == "outside"


class Grammar(RuleBasedStateMachine):
    """Feeds the fold one word after another, several at a time."""

    @initialize()
    def begin(self) -> None:
        self.model = Model()
        self.fold = Fold(CaptureList.parse(["shop.*"]), Budget())
        self.fold.open(Epoch(start=GtidSet(), server_uuid="x"))
        self.table_ids = itertools.count(80)
        self.got: list[Item] = []
        self.feed(e.opening())

    def feed(self, raws: list[bytes]) -> None:
        self.got += self.fold.feed(e.packets_of(raws))

    def events_of(self, word: str) -> list[bytes]:
        if word in CONTROL_TEXTS:
            return [e.query(CONTROL_TEXTS[word])]
        if word == "gtid":
            return [e.gtid(self.model.number + 1)]
        if word not in RAW_EVENTS:
            return self.row_events(word)
        return [RAW_EVENTS[word]]

    def row_events(self, word: str) -> list[bytes]:
        table_id = next(self.table_ids)
        table_map = e.table_map(table_id, schema=b"other" if word == "filtered rows" else b"shop")
        rows = e.rows(30, table_id, [(1, "a"), (2, None)])
        if word == "broken rows":
            rows = rows[:-1] + bytes([rows[-1] ^ 1])
        return [table_map, rows]

    @precondition(lambda self: not self.fold.halt)
    @rule(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
    def anything(self, words: list[str]) -> None:
        """Mostly illegal."""
        self.play(words)

    @precondition(lambda self: not self.fold.halt and self.model.place == "outside")
    @rule(
        inside=st.lists(st.sampled_from([*sorted(STAY_IN_BLOCK), "rows"]), max_size=4),
        end=st.sampled_from(["xid", "commit", "rollback", "nothing"]),
    )
    def a_block(self, inside: list[str], end: str) -> None:
        """A whole block, or one whose end is still to come."""
        self.play(["gtid", "begin", *inside, *([] if end == "nothing" else [end])])

    @precondition(lambda self: not self.fold.halt and self.model.place == "outside")
    @rule()
    def a_ddl(self) -> None:
        """A self-committing statement."""
        self.play(["gtid", "ddl"])

    def play(self, words: list[str]) -> None:
        """Feed the words in one piece; the model stops where it halts."""
        raws: list[bytes] = []
        for word in words:
            raws += self.events_of(word)
            if not self.model.halted:
                self.model.take(word)
        self.feed(raws)

    @precondition(lambda self: self.fold.halt)
    @rule(word=st.sampled_from(WORDS))
    def after_a_halt(self, word: str) -> None:
        """R12, R13: nothing more, whatever comes."""
        try:
            self.feed(self.events_of(word))
        except Halted:
            return
        raise AssertionError("a halted fold took an event")

    @invariant()
    def what_left_is_what_the_model_says(self) -> None:
        """R1, R5, R10, R11: nothing before a terminator, and then all of it."""
        left = [
            ("rows", item.gtid.number, len(item.changes))
            if isinstance(item, Transaction)
            else ("ddl", item.gtid.number)
            for item in self.got
        ]
        assert left == self.model.out
        assert (self.fold.halt is not None) == self.model.halted

    @invariant()
    def the_position_is_what_left(self) -> None:
        """R6, R15, R18: exactly the terminated GTIDs."""
        if self.got:
            last = self.got[-1]
            position = last.position if isinstance(last, Transaction) else last.changes[0].position
            assert position == up_to(len(self.got))


Grammar.TestCase.settings = settings(max_examples=150, stateful_step_count=12, deadline=None)
TestGrammar = Grammar.TestCase
