"""Halts behind the stream: sinks and stores that refuse, hang, are held or have changed."""

import io
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any

from faults.scene import OPENED, Provocation, Scene, upto
from helpers import event_builder as events
from helpers import sentinels
from helpers.pipelines import Recording
from helpers.scripted_source import ScriptedSource

from capstan import (
    Config,
    Delivery,
    HaltReason,
    JsonLinesSink,
    MemoryStore,
    Pipeline,
    Source,
    SqliteMirror,
    SqliteStore,
    Transaction,
)

# --- sinks ----------------------------------------------------------------------------------------


class _Refusing(Recording):
    """Accepts one transaction; the second one's values end up in what it raises."""

    def __init__(self, kind: type[BaseException]) -> None:
        super().__init__()
        self._kind = kind

    def handle_transaction(self, transaction: Transaction) -> None:
        if self.transactions:
            raise self._kind([change.values for change in transaction.changes])
        super().handle_transaction(transaction)


def _refusal(kind: type[BaseException]) -> Callable[[Scene], None]:
    def play(scene: Scene) -> None:
        scene.sink = _Refusing(kind)
        scene.after_two(expected=upto(1))

    return play


class _Closed(Recording):
    """Cannot be opened."""

    def open(self) -> None:
        raise PermissionError(13, sentinels.EXCEPTION_TEXT, sentinels.EXCEPTION_TEXT)


def _no_opening(scene: Scene) -> None:
    scene.sink = _Closed()
    scene.refused()


class _BadEnd(Recording):
    """Cannot be closed."""

    def close(self) -> None:
        raise RuntimeError(sentinels.EXCEPTION_TEXT)


def _no_closing(scene: Scene) -> None:
    scene.sink = _BadEnd()
    scene.after_two(act=_drained)


def _drained(pipeline: Pipeline) -> None:
    assert pipeline.wait_for(upto(2), timeout=30)
    pipeline.stop()


class _Deaf(io.StringIO):
    """A stream that cannot encode what it is given."""

    def writelines(self, lines: Iterable[Any]) -> None:
        raise UnicodeEncodeError("ascii", "".join(lines), 0, 1, sentinels.EXCEPTION_TEXT)


def _deaf_stream(scene: Scene) -> None:
    scene.sink = JsonLinesSink(_Deaf())
    scene.play([events.packets(OPENED)])


def _foreign_lines(scene: Scene) -> None:
    file = scene.folder / "lines.jsonl"
    file.write_text(sentinels.ROW_TEXT, encoding="utf-8")
    scene.sink = JsonLinesSink(file)
    scene.refused()


def _foreign_mirror(scene: Scene) -> None:
    file = scene.folder / "mirror.db"
    file.write_text(sentinels.ROW_TEXT * 100, encoding="utf-8")
    scene.sink = SqliteMirror(file)
    scene.refused()


class _Hanging(Recording):
    """Comes back from a call when the scene is over."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self._release = scene.release

    def handle_transaction(self, transaction: Transaction) -> None:
        self._release.wait(60)


def _hanging(scene: Scene) -> None:
    scene.sink = _Hanging(scene)
    scene.play([events.packets(OPENED)], delivery=Delivery(sink_timeout=0.5))


# --- the mirror -----------------------------------------------------------------------------------


def _mirrored(scene: Scene, *bad: str, meddle: str | None = None, **options: Any) -> None:
    """A real server into a mirror; `meddle` is a statement that somebody runs on the mirror."""
    file = scene.folder / "mirror.db"

    def by_somebody() -> None:
        if meddle is not None:
            with closing(sqlite3.connect(file)) as connection, connection:
                ((name,),) = connection.execute(
                    "SELECT name FROM sqlite_master WHERE name LIKE '%.own'"
                )
                connection.execute(meddle.format(name))

    scene.sink = SqliteMirror(file)
    scene.live(*bad, meddle=by_somebody, before=_OWN, **options)


_OWN = [
    f"CREATE TABLE own (id INT UNSIGNED KEY, v VARCHAR(60) DEFAULT '{sentinels.ROW_TEXT}')",
    f"INSERT INTO own (id) VALUES ({sentinels.KEY})",
]
"""A table that the mirror has followed from its creation, with one row."""

_TRIGGER = (
    'CREATE TRIGGER no BEFORE INSERT ON "{}" '
    f"BEGIN SELECT RAISE(ABORT, '{sentinels.EXCEPTION_TEXT}'); END"
)

SINKS = [
    Provocation(HaltReason.SINK_FAILED, "an exception", _refusal(ValueError)),
    Provocation(HaltReason.SINK_FAILED, "a wish to end the process", _refusal(SystemExit)),
    Provocation(HaltReason.SINK_FAILED, "a sink that cannot be opened", _no_opening),
    Provocation(HaltReason.SINK_FAILED, "a sink that cannot be closed", _no_closing),
    Provocation(HaltReason.SINK_FAILED, "a stream that cannot encode", _deaf_stream),
    Provocation(HaltReason.SINK_FAILED, "a file of somebody else's lines", _foreign_lines),
    Provocation(HaltReason.SINK_FAILED, "a mirror that is no database", _foreign_mirror),
    Provocation(
        HaltReason.SINK_FAILED,
        "a constraint that somebody put on the mirror",
        lambda scene: _mirrored(scene, "INSERT INTO own (id) VALUES (2)", meddle=_TRIGGER),
    ),
    Provocation(HaltReason.SINK_STALLED, "a call that does not come back", _hanging),
    Provocation(
        HaltReason.MIRROR_ROWS_STALE,
        "a new column with a default",
        lambda scene: _mirrored(
            scene, f"ALTER TABLE own ADD w VARCHAR(60) DEFAULT '{sentinels.DDL_LITERAL}'"
        ),
    ),
    Provocation(
        HaltReason.MIRROR_DRIFTED,
        "a row that somebody deleted from the mirror",
        lambda scene: _mirrored(
            scene, f"UPDATE own SET v = '{sentinels.DML}'", meddle='DELETE FROM "{}"'
        ),
    ),
    Provocation(
        HaltReason.MIRROR_NAME_CONFLICT,
        "two tables that differ in letter case",
        lambda scene: _mirrored(
            scene,
            f"CREATE TABLE OWN (id INT KEY, v VARCHAR(60) DEFAULT '{sentinels.DDL_LITERAL}')",
        ),
    ),
]

# --- stores ---------------------------------------------------------------------------------------


class _Full(MemoryStore):
    """A store that cannot write and says too much about it."""

    def save_watermark(self, *_: object) -> None:
        raise OSError(28, sentinels.EXCEPTION_TEXT)


class _Away(MemoryStore):
    """A store that cannot be reached."""

    def hold(self) -> None:
        raise ConnectionError(sentinels.EXCEPTION_TEXT)


def _full(scene: Scene) -> None:
    scene.store, scene.window = _Full(), upto(2)
    scene.play([events.packets(OPENED)])


def _away(scene: Scene) -> None:
    scene.store = _Away()
    scene.refused()


def _in_use(scene: Scene) -> None:
    """A second pipeline on the store of a first one that runs."""
    file = scene.folder / "state.db"
    scene.store = SqliteStore(file)
    section = Source(user="u", password=sentinels.PASSWORD, server_id=8)
    config = Config(source=section, tables=["shop.*"], sink=Recording(), store=SqliteStore(file))
    source = ScriptedSource(lambda _: [events.packets(OPENED)])
    with Pipeline(config, source=source) as first:
        assert first.wait_for(upto(2), timeout=30)
        scene.refused()


def _mirror_in_use(scene: Scene) -> None:
    """A second pipeline on the mirror that somebody holds."""
    file = scene.folder / "mirror.db"
    with closing(SqliteMirror(file)) as first:
        first.open()
        scene.sink = SqliteMirror(file)
        scene.refused()


STORES = [
    Provocation(HaltReason.STORE_FAILED, "a disk that is full", _full),
    Provocation(HaltReason.STORE_FAILED, "a store that cannot be reached", _away),
    Provocation(HaltReason.STORE_LOCKED, "two pipelines on one store", _in_use),
    Provocation(HaltReason.STORE_LOCKED, "two pipelines on one mirror", _mirror_in_use),
]

DELIVERIES = [*SINKS, *STORES]
