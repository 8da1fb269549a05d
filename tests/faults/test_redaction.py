"""Rule one: no value, no statement and no secret leaves by any way but the sink.

Each way into a halt is gone with sentinels in rows, keys, statements, server texts, exception texts
and the password, and everything that anybody could keep of the run is searched for them. Then the
same without a halt: things that hold rows, schema changes, configurations, the command line.
"""

import copy
import io
import logging
import pickle
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faults.provocations import PROVOCATIONS
from faults.scene import ITEMS, Provocation, Scene, account, insert
from helpers import sentinels
from helpers.command_line import PASSWORD_VARIABLE, STANDARD_OUTPUT, Shop, halt_in
from helpers.mysql import Database, execute
from helpers.pipelines import Recording, catch_up, config_for, start_from_now
from helpers.sentinels import (
    Channel,
    assert_clean,
    held,
    leaks,
    logged,
    raised,
    shown,
    variables,
)

from capstan import (
    Config,
    ConfigError,
    JsonLinesSink,
    MemoryStore,
    Pipeline,
    SchemaChange,
    SnapshotMeta,
    Source,
    SqliteMirror,
    SqliteStore,
    Transaction,
)
from capstan.actors.messages import Assembled, PacketsRead
from capstan.core.delivery import Desk, Piece
from capstan.core.gtid import GtidSet
from capstan.core.halt_catalogue import describe
from capstan.core.watermark import Position
from capstan.errors import PipelineHalted
from capstan.runtime import Address

LOGGERS = ("", "capstan", "pykka", "pymysql", "tenacity", "concurrent.futures")


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What all loggers say at their lowest level."""
    for name in LOGGERS:
        caplog.set_level(logging.DEBUG, logger=name or None)
    return caplog


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every message that an actor is sent."""
    sent: list[Any] = []
    send = Address.send

    def spied(address: Address, message: object) -> bool:
        sent.append(message)
        return send(address, message)

    monkeypatch.setattr(Address, "send", spied)
    return sent


# --- every halt -----------------------------------------------------------------------------------


@pytest.mark.parametrize("provocation", PROVOCATIONS, ids=str)
def test_a_halt_lets_nothing_out(
    provocation: Provocation,
    scene: Scene,
    log: pytest.LogCaptureFixture,
    messages: list[Any],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """R7, R8, R55, R265: reason, exception, logs, telemetry, status, reprs, messages, streams."""
    provocation.play(scene)
    scene.wait_until_still()
    out, err = capfd.readouterr()

    assert scene.error.halt.reason is provocation.reason, scene.error
    assert leaks(b"".join(scene.planted))
    assert leaks(scene.config.source.password)
    assert log.records
    assert messages
    assert_clean(
        ("standard output", out),
        ("standard error", err),
        *of_the_halt(scene.error),
        *of_the_pipeline(scene),
        *logged(log.records),
        *(channel for event in scene.told for channel in held("a telemetry event", event)),
        *(channel for sent in messages for channel in shown("a message", sent)),
    )


def of_the_halt(error: PipelineHalted) -> Iterator[Channel]:
    """The verdict as exception, value and JSON."""
    yield from raised("the verdict", error)
    yield from variables("the verdict", error)
    yield "JSON of the halt", repr(describe(error.halt))
    for halt in (error.halt, *error.halt.also):
        yield from held("the halt", halt)


def of_the_pipeline(scene: Scene) -> Iterator[Channel]:
    """What a host can look at afterwards."""
    yield from held("the status", scene.pipeline.status())
    for name, thing in {
        "the pipeline": scene.pipeline,
        "the configuration": scene.config,
        "the source": scene.config.source,
        "the sink": scene.sink,
        "the store": scene.store,
    }.items():
        yield from shown(name, thing)


# --- without a halt -------------------------------------------------------------------------------


class Keeping(Recording):
    """Keeps the very things that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Transaction] = []

    def handle_transaction(self, transaction: Transaction) -> None:
        """Keep it."""
        self.kept.append(transaction)


def streamed(database: Database, config: Config, *statements: str) -> None:
    """Run a pipeline while these statements are run, until all has arrived."""
    with Pipeline(config) as pipeline, closing(database.connect()) as session:
        for statement in ("SET binlog_rows_query_log_events = ON", *statements):
            execute(session, statement)
        catch_up(pipeline, database.server)


def test_things_that_hold_rows_do_not_show_them(
    database: Database, messages: list[Any], log: pytest.LogCaptureFixture
) -> None:
    """R119, R265: every value of every type arrives, and no repr on the way has one."""
    sink = Keeping()
    database.execute(ITEMS)
    config = config_for(
        database.server,
        sink,
        [f"{database.name}.*"],
        start_from_now(MemoryStore(), database.server),
    )
    update = f"UPDATE items SET id = {sentinels.KEY + 2}"
    streamed(database, config, insert(1), update, "DELETE FROM items")

    rows = [row for t in sink.kept for c in t.changes for row in (c.values, c.old_values) if row]
    assert [len(leaks(repr(row))) for row in rows] == [len(leaks(ALL_OF_A_ROW))] * 4
    pieces = [packets for m in messages if isinstance(m, PacketsRead) for packets in m.packets]
    assert leaks(b"".join(packets.data for packets in pieces))
    assert_clean(
        *(
            channel
            for thing in holders(sink.kept)
            for channel in shown(type(thing).__name__, thing)
        ),
        *(channel for sent in messages for channel in shown("a message", sent)),
        *(channel for thing in inside(messages) for channel in shown(type(thing).__name__, thing)),
        *logged(log.records),
    )


ALL_OF_A_ROW = " ".join(
    (
        str(sentinels.KEY),
        sentinels.ROW_TEXT,
        str(sentinels.BIG),
        sentinels.DECIMAL,
        str(sentinels.DOUBLE),
        "1987, 6, 5",
        "days=1, seconds=11908",
    )
)


def holders(transactions: list[Transaction]) -> Iterator[object]:
    """Everything that a sink can get hold of and that leads to a row."""
    for transaction in transactions:
        changes = transaction.changes
        yield from (transaction, changes, changes[:], changes[0], list(changes), changes.chunks)
        for change in changes:
            yield from (change.shape, change.columns, change.record, change.old_record)
            yield iter(change.record or change.old_record or ())
        yield from changes.chunks
        yield SnapshotMeta(
            schema="s", table="t", sequence=0, position=transaction.position, final=True
        )


def inside(messages: list[Any]) -> Iterator[object]:
    """What actors keep of the messages that carry rows or bytes."""
    desk: Desk[str] = Desk(Position(watermark=GtidSet()), 1000)
    for message in messages:
        match message:
            case PacketsRead(packets=packets):
                yield from packets
            case Assembled(items=items, server_uuid=server_uuid):
                piece = Piece(items, server_uuid, "sender")
                desk.arrive(piece)
                yield from (piece, *items)
    batch = desk.next_batch()
    assert batch is not None
    yield from (desk, batch, batch.entries, batch.calls)


_DDL = [
    f"""CREATE TABLE t (
        id INT KEY, v VARCHAR(60) DEFAULT '{sentinels.DDL_LITERAL}' COMMENT
        '{sentinels.DDL_COMMENT}', g VARCHAR(90) AS (CONCAT(v, '{sentinels.DDL_LITERAL}')) STORED,
        e ENUM('{sentinels.DDL_LITERAL}') DEFAULT '{sentinels.DDL_LITERAL}',
        CHECK (v <> '{sentinels.DDL_LITERAL}')) COMMENT '{sentinels.DDL_COMMENT}'""",
    f"ALTER TABLE t ADD w INT COMMENT '{sentinels.DDL_COMMENT}' /* {sentinels.DDL_COMMENT} */",
    f"ALTER TABLE t ALTER v SET DEFAULT '{sentinels.DDL_LITERAL}x'",
    f"ALTER TABLE t ADD x BIGINT DEFAULT {sentinels.BIG}",
    f"CREATE VIEW seen AS SELECT * FROM t WHERE v = '{sentinels.DDL_LITERAL}'",
    f"""CREATE TABLE p (v VARCHAR(60) KEY) PARTITION BY LIST COLUMNS (v)
        (PARTITION a VALUES IN ('{sentinels.DDL_LITERAL}'))""",
    f"ALTER TABLE p ADD PARTITION (PARTITION b VALUES IN ('{sentinels.DDL_LITERAL}b'))",
    f"CREATE PROCEDURE told() SELECT '{sentinels.DDL_LITERAL}'",
    f"CREATE TRIGGER early BEFORE INSERT ON t FOR EACH ROW SET NEW.v = '{sentinels.DDL_LITERAL}'",
    f"TRUNCATE TABLE p /* {sentinels.DDL_COMMENT} */",
    f"/* {sentinels.DDL_COMMENT} */ RENAME TABLE p TO q",
    f"DROP TABLE q /* {sentinels.DDL_COMMENT} */",
]


def test_a_schema_change_holds_no_statement(
    database: Database, tmp_path: Path, messages: list[Any], log: pytest.LogCaptureFixture
) -> None:
    """R7, R8: literals, comments and definitions come out by no way, not even through a sink."""
    told: list[Any] = []
    sink = Recording()
    store = start_from_now(SqliteStore(tmp_path / "state.db"), database.server)
    tables = [f"{database.name}.*"]
    config = config_for(database.server, sink, tables, store, observers=(told.append,))
    streamed(database, config, *_DDL)
    lines = io.StringIO()
    groups = [item for m in messages if isinstance(m, Assembled) for item in m.items]
    with closing(SqliteMirror(tmp_path / "mirror.db")) as mirror:
        mirror.open()
        for target in (JsonLinesSink(lines), mirror):
            target.handle_batch(groups)

    kinds = [change.kind for change in sink.schema_changes]
    assert len(kinds) >= len(_DDL) - 2
    assert {"create_table", "alter_table", "create_view", "rename_table"} <= set(kinds)
    assert lines.getvalue().count("\n") >= len(kinds)
    assert_clean(
        *(channel for change in sink.schema_changes for channel in held("a change", change)),
        *(channel for change in sink.schema_changes for channel in attributes(change)),
        *(channel for event in told for channel in held("an event", event)),
        *(channel for sent in messages for channel in shown("a message", sent)),
        *((f"the file {file.name}", file.read_bytes()) for file in tmp_path.iterdir()),
        ("JSON lines", lines.getvalue()),
        *logged(log.records),
    )


def attributes(change: SchemaChange) -> Iterator[Channel]:
    """Whatever can be reached by name."""
    for name in dir(change):
        yield f"SchemaChange.{name}", repr(getattr(change, name))


# --- configurations -------------------------------------------------------------------------------


def test_a_source_is_neither_pickled_nor_copied() -> None:
    """R265: a pickle would carry the password to wherever it is kept."""
    source = Source(user="u", password=sentinels.PASSWORD, server_id=9)
    config = Config(source=source, tables=["a.b"], sink=Recording(), store=MemoryStore())
    for refused in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="holds a secret") as caught:
            refused(source)
        assert_clean(*raised("the refusal", caught.value))
    with pytest.raises(TypeError, match="holds a secret"):
        pickle.dumps(config)
    assert_clean(*shown("the source", source), *shown("the configuration", config))


@pytest.mark.parametrize(
    "options",
    [
        {"password": sentinels.PASSWORD.encode()},
        {"password": sentinels.PASSWORD, "port": 0},
        {"password": sentinels.PASSWORD, "tls": sentinels.PASSWORD},
        {"password": sentinels.PASSWORD, "heartbeat": sentinels.PASSWORD},
        {"password": sentinels.PASSWORD, "liveness_timeout": 1},
    ],
    ids=lambda options: next(reversed(options)),
)
def test_a_refused_section_shows_no_value(options: dict[str, Any]) -> None:
    """R265: the option and its rule are named, what was given is not."""
    with pytest.raises(ConfigError) as caught:
        Source(user="u", server_id=9, **options)
    assert_clean(*raised("the refusal", caught.value))


_REST = """
[store]
kind = "sqlite"
path = "state.db"
[sink]
kind = "sqlite"
path = "mirror.db"
"""
_REFUSED_FILES = {
    "no TOML": f'tables = ["a.b"]\n[source]\npassword = "{sentinels.PASSWORD}" "more"\n'.encode(),
    "no UTF-8": f'tables = ["a.b"]\n[source]\npassword = "{sentinels.PASSWORD}\udc80"\n'.encode(
        "utf-8", "surrogateescape"
    ),
    "no such option": f'tables = ["a.b"]\n[source]\nuser = "u"\nserver_id = 9\n'
    f'pasword = "{sentinels.PASSWORD}"{_REST}'.encode(),
    "a secret that is a list": f'tables = ["a.b"]\n[source]\nuser = "u"\nserver_id = 9\n'
    f'password = ["{sentinels.PASSWORD}"]{_REST}'.encode(),
    "a secret whose file is no text": b'tables = ["a.b"]\n[source]\nuser = "u"\nserver_id = 9\n'
    b'password = { file = "secret" }' + _REST.encode(),
}


@pytest.mark.parametrize("what", _REFUSED_FILES)
def test_a_refused_file_shows_no_value(what: str, tmp_path: Path) -> None:
    """R265: neither the file's text nor a secret hangs on the refusal, hidden or not."""
    file = tmp_path / "capstan.toml"
    file.write_bytes(_REFUSED_FILES[what])
    (tmp_path / "secret").write_bytes(sentinels.PASSWORD.encode() + b"\x80")
    with pytest.raises(ConfigError) as caught:
        Config.from_toml(file)
    assert_clean(*raised("the refusal", caught.value))


# --- the command line -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("password", "reason"),
    [
        (sentinels.PASSWORD, "statement_based_change"),
        (f"{sentinels.PASSWORD} wrong", "auth_failed"),
    ],
)
def test_the_command_line_tells_a_halt_in_one_clean_line(
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    password: str,
    reason: str,
) -> None:
    """R54, R265: one JSON line on standard error, nothing of values, statements and passwords."""
    monkeypatch.setenv(PASSWORD_VARIABLE, password)
    shop = Shop(file=tmp_path / "capstan.toml")
    store = start_from_now(SqliteStore(shop.state), database.server)
    store.close()
    database.execute(ITEMS)
    with account(database) as user, closing(database.connect()) as session:
        server = SimpleNamespace(host=database.server.host, port=database.server.port, user=user)
        shop.write(server, f"{database.name}.*", sink=STANDARD_OUTPUT)
        for statement in ("SET binlog_format = STATEMENT", insert(1)):
            execute(session, statement)
        with closing(shop.start("run")) as process:
            code, out, err = process.ended()

    assert code == 3
    assert halt_in(err)["reason"] == reason
    assert_clean(("standard output", out), ("standard error", err))
