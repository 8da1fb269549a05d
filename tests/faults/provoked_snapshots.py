"""Halts of a backfill, each on the real server: what is there to read, and what goes wrong."""

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import attrs
from faults.scene import ITEMS, Provocation, Scene, account, insert
from helpers import sentinels
from helpers.backfills import Upserting
from helpers.mysql import Database, execute
from helpers.pipelines import executed, source_for
from helpers.views import Altered, AlteredSource

from capstan import Config, GtidSet, HaltReason, MemoryStore, Snapshot
from capstan.core.snapshot.progress import resolved
from capstan.core.tables import TableName
from capstan.sources.base import LinkLost, Pinned, ViewSource
from capstan.wiring import live_source, view_source

RIGHTS = "REPLICATION SLAVE, REPLICATION CLIENT, SELECT, LOCK TABLES"
FOREIGN = GtidSet.parse("00000000-0000-0000-0000-000000000001:7")
WIDE_KEY = f"CREATE TABLE more (k VARCHAR(60) DEFAULT '{sentinels.ROW_TEXT}' PRIMARY KEY)"


def backfill(
    scene: Scene,
    *statements: str,
    grant: str = RIGHTS,
    altered: type[Altered] | None = None,
    before: Callable[[Database], object] = lambda _: None,
    seeded: bool = True,
    **snapshot: Any,
) -> None:
    """Run a backfill of two rows into its halt.

    Args:
        scene: Where.
        statements: Run in front of it, behind the rows.
        grant: The account's rights.
        altered: Views that lie or fail in one way.
        before: What else is done in front of it.
        seeded: Whether it gets as far as to its first position.
        snapshot: The section's options.
    """
    database = scene._database()
    for statement in (ITEMS, insert(1), insert(2), *statements):
        database.execute(statement)
        scene.planted.append(statement.encode())
    scene.sink = Upserting()
    before(database)
    with account(database, grant) as user:
        section = source_for(
            database.server, user=user, password=sentinels.PASSWORD, reconnect_attempts=1
        )
        options = {"chunk_size": 1, "lock_wait": 1, "retries": 1, "gate_timeout": 0.5} | snapshot
        config = scene.configured(
            section, tables=[f"{database.name}.*"], snapshot=Snapshot(**options)
        )
        # The statements above are behind it, and nothing is executed while it runs.
        scene.expected = executed(database.server) if seeded else scene.store.load_watermark()
        scene.run(config, live_source(config), views=views_for(config, altered))


def views_for(config: Config, altered: type[Altered] | None) -> ViewSource:
    """The real views, or ones around them."""
    assert config.snapshot is not None
    real = view_source(config, config.snapshot)
    return real if altered is None else AlteredSource(real, altered)


def _no_key(scene: Scene) -> None:
    backfill(scene, "CREATE TABLE more (a INT, UNIQUE (a))")


def _wide_key(scene: Scene) -> None:
    backfill(scene, WIDE_KEY, "INSERT INTO more VALUES ()")


def _another_engine(scene: Scene) -> None:
    backfill(scene, "CREATE TABLE more (a INT PRIMARY KEY) ENGINE = MyISAM")


def _no_right_to_lock(scene: Scene) -> None:
    backfill(scene, grant=RIGHTS.removesuffix(", LOCK TABLES"))


def _a_lock_that_is_not_to_be_had(scene: Scene) -> None:
    with contextlib.ExitStack() as held:

        def hold(database: Database) -> None:
            session = held.enter_context(contextlib.closing(database.connect()))
            execute(session, "BEGIN")
            execute(session, insert(3))

        backfill(scene, before=hold)


def _altered_between_chunks(scene: Scene) -> None:
    database, pins = scene._database(), itertools.count(1)

    class Alters(Altered):
        def pin(self, table: TableName) -> Pinned:
            if next(pins) == 2:
                database.execute("ALTER TABLE items ADD COLUMN more INT")
            return super().pin(table)

    backfill(scene, altered=Alters)


class _Unreachable(Altered):
    """Its links break at every capture."""

    def pin(self, table: TableName) -> Pinned:
        raise LinkLost("query", 2013)


class _Elsewhere(Altered):
    """Says that it is on another server."""

    def open(self) -> str:
        super().open()
        return "00000000-0000-0000-0000-000000000001"


class _Ahead(Altered):
    """Tells of a transaction that never comes."""

    def pin(self, table: TableName) -> Pinned:
        pinned = super().pin(table)
        return attrs.evolve(pinned, position=pinned.position | FOREIGN)


def _another_list(scene: Scene) -> None:
    database = scene._database()
    store = MemoryStore()
    state = resolved([f"{database.name}.gone"], [TableName(database.name, "gone")])
    store.save_snapshot(state)
    store.save_watermark(executed(database.server))
    scene.store = store
    backfill(scene, seeded=False)


def _unreachable(scene: Scene) -> None:
    backfill(scene, altered=_Unreachable)


def _moved(scene: Scene) -> None:
    backfill(scene, altered=_Elsewhere)


def _stalled(scene: Scene) -> None:
    backfill(scene, altered=_Ahead)


SNAPSHOTS = [
    Provocation(HaltReason.SNAPSHOT_TABLE_NO_PRIMARY_KEY, "a key with NULLs", _no_key),
    Provocation(HaltReason.SNAPSHOT_PK_UNSUPPORTED_TYPE, "a key of text", _wide_key),
    Provocation(HaltReason.SNAPSHOT_ENGINE_UNSUPPORTED, "another engine", _another_engine),
    Provocation(HaltReason.SNAPSHOT_PRIVILEGE_MISSING, "no LOCK TABLES", _no_right_to_lock),
    Provocation(
        HaltReason.SNAPSHOT_LOCK_UNAVAILABLE, "a long transaction", _a_lock_that_is_not_to_be_had
    ),
    Provocation(
        HaltReason.SNAPSHOT_SCHEMA_DRIFTED, "an ALTER between chunks", _altered_between_chunks
    ),
    Provocation(HaltReason.SNAPSHOT_CHUNK_READ_FAILED, "links that break", _unreachable),
    Provocation(HaltReason.SNAPSHOT_SOURCE_MISMATCH, "an address that moved", _moved),
    Provocation(HaltReason.SNAPSHOT_CONFIG_DRIFTED, "another list", _another_list),
    Provocation(HaltReason.SNAPSHOT_GATE_STALLED, "a view ahead of the stream", _stalled),
]
