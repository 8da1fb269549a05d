"""Faults that users of other tools met, as workloads: values, columns and row images.

Each case of `tests/data/cases` is played on the real server through a real pipeline, and what the
sink gets is compared by type and value. One pipeline serves all cases; a case that halts it is
followed by a new one.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from struct import pack, unpack
from typing import Any

import attrs
import pytest
from helpers.mysql import Database, PrivateServers, execute, fresh_database
from helpers.pipelines import catch_up, config_for, executed, halt_of, start_from_now

from capstan import (
    Change,
    GtidSet,
    Halt,
    HaltReason,
    MemoryStore,
    Pipeline,
    PipelineHalted,
    Sink,
    Transaction,
)
from capstan.demo.mysql_access import SqlServer

FOLDER = Path(__file__).parents[1] / "data" / "cases"
Spec = dict[str, Any]
"""One expected value, as a case file notes it."""


@attrs.frozen(kw_only=True)
class Case:
    """One workload and the changes it must give; None when it must halt."""

    name: str
    session: dict[str, str]
    setup: list[str]
    workload: list[str]
    changes: list[Spec] | None


def read(path: Path) -> Case:
    """A case file."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return Case(
        name=path.stem,
        session=data["session_vars"],
        setup=data["setup"],
        workload=data["workload"],
        changes=data["expect"].get("changes"),
    )


def integer(value: int | None) -> Spec:
    """An expected integer or NULL."""
    return {"type": "null"} if value is None else {"type": "int", "value": str(value)}


def widest() -> Case:
    """The server's limit of 4096 columns, NULL in every second, ended by COMMIT instead of XID."""
    row = [place % 128 if place % 2 else None for place in range(4096)]
    columns = ",".join(f"c{place:04} tinyint" for place in range(4096))
    values = ",".join("null" if value is None else str(value) for value in row)
    after = {f"c{place:04}": integer(value) for place, value in enumerate(row)}
    return Case(
        name="050-columns-4096-myisam",
        session={},
        setup=[f"create table w4096 ({columns}) engine=myisam"],
        workload=[f"insert into w4096 values ({values})"],
        changes=[{"op": "insert", "table": "w4096", "before": None, "after": after}],
    )


def longest_names() -> Case:
    """1017 columns with names of 123 bytes: a table map of more than 64 KiB."""
    names = [f"n{place:04}{'é' * 59}" for place in range(1017)]
    first, *others = names
    columns = ",".join(f"`{name}` tinyint" for name in others)
    after = {name: integer(None) for name in names} | {first: integer(1), others[-1]: integer(7)}
    return Case(
        name="165-table-map-over-64-kib",
        session={},
        setup=[f"create table tmx (`{first}` int not null,{columns},primary key (`{first}`))"],
        workload=[f"insert into tmx (`{first}`,`{others[-1]}`) values (1,7)"],
        changes=[{"op": "insert", "table": "tmx", "before": None, "after": after}],
    )


def in_diffs(name: str) -> Case:
    """A case of JSON updates, written as diffs instead of whole documents."""
    case = read(FOLDER / f"{name}.json")
    return attrs.evolve(
        case,
        name=f"{name}-as-diffs",
        session={"binlog_row_value_options": "PARTIAL_JSON"},
        setup=["drop table if exists j8", *case.setup],
    )


JSON_IN_PLACE = "040-json-holes-after-in-place-update"
MADE = [widest(), longest_names(), in_diffs(JSON_IN_PLACE)]
CASES = {case.name: case for case in [*map(read, sorted(FOLDER.glob("*.json"))), *MADE]}
HALTS = {
    "055-row-image-minimal-in-one-session": HaltReason.ROW_IMAGE_NOT_FULL,
    "056-row-image-noblob-in-one-session": HaltReason.ROW_IMAGE_NOT_FULL,
    "058-statement-format-rows-in-one-session": HaltReason.STATEMENT_BASED_CHANGE,
}
DELIVERED = [name for name in CASES if name not in HALTS]
ZONED = [
    "014-datetime-before-1970-and-fsp",
    "015-timestamp-limits-and-session-zone",
    "016-timestamp-dst-repeated-hour",
]


class Keeping(Sink):
    """Keeps the changes it is given."""

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def handle_transaction(self, transaction: Transaction) -> None:
        """Keep its changes."""
        self.changes.extend(transaction.changes)


@attrs.frozen(kw_only=True)
class Outcome:
    """What became of a workload.

    Attributes:
        changes: What the sink got of it.
        halt: Why the pipeline ended, None when it did not.
        before: What the server had before the workload.
        watermark: What the store had after it.
    """

    changes: list[Change]
    halt: Halt | None
    before: GtidSet
    watermark: GtidSet


class Stage:
    """A database, and a pipeline over it that is replaced when it has halted."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pipeline: Pipeline | None = None

    def play(self, case: Case) -> Outcome:
        """Run a case in a session of its own."""
        server = self._database.server
        with closing(self._database.connect()) as session:
            for name, value in {"time_zone": "+00:00", **case.session}.items():
                execute(session, f"SET SESSION {name} = %s", value)
            for statement in case.setup:
                execute(session, statement)
            pipeline = self._caught_up()
            before, halt = executed(server), None
            self._sink.changes.clear()
            for statement in case.workload:
                execute(session, statement)
        try:
            catch_up(pipeline, server)
        except PipelineHalted as verdict:
            halt = verdict.halt
            self.close()
        return Outcome(
            changes=list(self._sink.changes),
            halt=halt,
            before=before,
            watermark=self._store.load_watermark() or GtidSet(),
        )

    def close(self) -> None:
        """End the pipeline."""
        if self._pipeline is not None:
            self._pipeline.stop()
            self._pipeline = None

    def _caught_up(self) -> Pipeline:
        server = self._database.server
        if self._pipeline is None:
            self._sink = Keeping()
            self._store = start_from_now(MemoryStore(), server)
            tables = [f"{self._database.name}.*"]
            self._pipeline = Pipeline(config_for(server, self._sink, tables, self._store))
            self._pipeline.start()
        catch_up(self._pipeline, server)
        return self._pipeline


@pytest.fixture(scope="module")
def outcomes(mysql_server: SqlServer) -> dict[str, Outcome]:
    """Every case, played."""
    with fresh_database(mysql_server) as database, closing(Stage(database)) as stage:
        return {name: stage.play(case) for name, case in CASES.items()}


def text(spec: Spec) -> Any:
    """The text as it stands."""
    return spec["value"]


def number(spec: Spec) -> Any:
    """An int."""
    return int(spec["value"])


def raw(spec: Spec) -> Any:
    """Bytes."""
    return bytes.fromhex(spec["hex"])


def double(spec: Spec) -> Any:
    """A float, to the last bit."""
    return float.fromhex(spec["hex"])


def instant(spec: Spec) -> Any:
    """An aware datetime in UTC."""
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=int(spec["epoch_us"]))


def document(spec: Spec) -> Any:
    """The text of a JSON document, or its length and digest."""
    return spec["text"] if "text" in spec else (spec["text_len"], spec["sha256_text"])


EXPECTED: dict[str, Callable[[Spec], Any]] = {
    "null": lambda _spec: None,
    "int": number,
    "bit": number,
    "year": number,
    "decimal": lambda spec: Decimal(spec["value"]),
    "float32": double,
    "float64": double,
    "str": text,
    "enum": text,
    "set": text,
    "no_python_value": lambda spec: spec["mysql_text"],
    "bytes": raw,
    "vector": raw,
    "geometry": lambda spec: pack("<I", spec["srid"]) + bytes.fromhex(spec["wkb_hex"]),
    "date": lambda spec: date.fromisoformat(spec["value"]),
    "datetime_naive": lambda spec: datetime.fromisoformat(spec["value"]),
    "timestamp_utc": instant,
    "json": document,
}


def comparable(found: Any, spec: Spec) -> Any:
    """A delivered value in the form of the expected one."""
    if spec["type"] == "float32" and isinstance(found, float):
        return unpack("<f", pack("<f", found))[0]
    if "sha256_text" in spec and isinstance(found, str):
        return len(found), sha256(found.encode()).hexdigest()
    return found


def differing(found: Any, expected: Spec | None) -> list[str]:
    """The columns of an image that are not as expected; `repr` tells types and -0.0 apart."""
    if found is None or expected is None:
        return [] if found is expected else ["the image itself"]
    if list(found) != list(expected):
        return ["the names"]
    return [
        name
        for name, spec in expected.items()
        if repr(comparable(found[name], spec)) != repr(EXPECTED[spec["type"]](spec))
    ]


def assert_delivered(outcome: Outcome, case: Case) -> None:
    """The sink got the expected changes, in order, by type and value."""
    assert outcome.halt is None
    assert case.changes
    found = [(change.op.value, change.table) for change in outcome.changes]
    assert found == [(spec["op"], spec["table"]) for spec in case.changes]
    for change, spec in zip(outcome.changes, case.changes, strict=True):
        assert differing(change.old_record, spec["before"]) == []
        assert differing(change.record, spec["after"]) == []


@pytest.mark.parametrize("name", DELIVERED)
def test_the_changes_of_a_case_arrive_by_type_and_value(
    outcomes: dict[str, Outcome], name: str
) -> None:
    """R266, R147, D27: nothing shifts, wraps, is cut, rounded, renamed or made NULL."""
    assert_delivered(outcomes[name], CASES[name])


@pytest.fixture
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process, in the time zone that the parameter names."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"], indirect=True)
@pytest.mark.usefixtures("zone")
def test_the_time_zone_of_the_process_moves_no_value(database: Database) -> None:
    """R266: TIMESTAMP is an instant and DATETIME a wall clock, wherever the reader lives."""
    with closing(Stage(database)) as stage:
        for name in ZONED:
            assert_delivered(stage.play(CASES[name]), CASES[name])


@pytest.mark.parametrize("name", HALTS)
def test_a_case_that_cannot_be_delivered_halts_with_nothing_of_it(
    outcomes: dict[str, Outcome], name: str
) -> None:
    """R266, D22: no image is completed by guessing, and the watermark stays in front of it."""
    outcome = outcomes[name]

    assert outcome.halt is not None
    assert outcome.halt.reason is HALTS[name]
    assert outcome.changes == []
    assert outcome.watermark <= outcome.before


def test_a_row_written_without_column_names_halts(new_server: PrivateServers) -> None:
    """R266: names missing behind a connect-time gate that saw FULL are not looked up (case 122)."""
    server, sink = new_server(), Keeping()
    with fresh_database(server) as database:
        database.execute(
            "create table mm (id int unsigned not null primary key, e enum('a','b'),"
            " s set('x','y'), t text, b blob, c varchar(9) character set latin1)"
        )
        store = start_from_now(MemoryStore(), server)
        before = executed(server)
        database.execute("SET GLOBAL binlog_row_metadata = MINIMAL")
        database.execute("insert into mm values (4000000000,'b','x,y','t',x'ff','é')")
        database.execute("SET GLOBAL binlog_row_metadata = FULL")
        config = config_for(server, sink, [f"{database.name}.*"], store)

        assert halt_of(config) is HaltReason.BINLOG_ROW_METADATA_NOT_FULL
        assert sink.changes == []
        assert store.load_watermark() == before
