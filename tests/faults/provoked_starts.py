"""Halts before the first row: configuration, preflight, position, login, connection."""

import struct

import pymysql
from faults.scene import OPENED, SERVER_ID, Provocation, Scene, sown, upto
from helpers import event_builder as events
from helpers import sentinels
from helpers.scripted_source import ScriptedLink, ScriptedSource, cut

from capstan import GtidSet, HaltReason, SqliteMirror
from capstan.actors.messages import Processed
from capstan.core.preflight import BinlogFilters, ServerFacts
from capstan.core.server_errors import Stage
from capstan.core.tables import TableName
from capstan.core.watermark import Position
from capstan.demo.mysql_server import free_port
from capstan.pipeline import Pipeline
from capstan.runtime import Address
from capstan.sources.faults import translated


def _server_says(code: int, text: str) -> bytes:
    """An error packet behind the good transactions, with more words than anybody expects."""
    return events.error_packet(code, f"{text} {sentinels.SERVER_WORDS}", len(OPENED) + 1)


def _foreign_packet() -> bytes:
    payload = b"\x07" + sentinels.ROW_TEXT.encode()
    return struct.pack("<I", len(payload) | len(OPENED) + 1 << 24) + payload


# --- configuration and preflight ------------------------------------------------------------------


def _widened_capture_list(scene: Scene) -> None:
    scene.store.save_watermark(upto(2))
    scene.store.save_tables(["shop.items"])
    scene.refused()


class _BadAnswers(ScriptedSource):
    """A server that answers the questions before the stream with an error of no known meaning."""

    def link(self) -> ScriptedLink:
        return _BadLink(self, iter(()))


class _BadLink(ScriptedLink):
    def open(self) -> ServerFacts:
        with translated(Stage.QUERY):
            raise pymysql.ProgrammingError(1193, sentinels.SERVER_WORDS)


def _bad_answers(scene: Scene) -> None:
    scene.refused(source=_BadAnswers(lambda _: ()))


_CASCADING = {"native_foreign_keys": True, "cascade_children": (TableName("shop", "items"),)}

PREFLIGHT = [
    Provocation(
        HaltReason.CONFIG_INVALID,
        "a captured table that does not exist",
        lambda scene: scene.live(tables=["nowhere.nothing"]),
    ),
    Provocation(
        HaltReason.CONFIG_INVALID,
        "the source's own server_id",
        lambda scene: scene.refused(facts={"server_id": SERVER_ID}),
    ),
    Provocation(
        HaltReason.SERVER_NOT_SUPPORTED,
        "a server of long ago",
        lambda scene: scene.refused(facts={"version_text": "5.7.44", "version": (5, 7, 44)}),
    ),
    Provocation(
        HaltReason.BINLOG_DISABLED,
        "no binary log",
        lambda scene: scene.refused(facts={"log_bin": False}),
    ),
    Provocation(
        HaltReason.BINLOG_FORMAT_NOT_ROW,
        "statements are logged",
        lambda scene: scene.refused(facts={"binlog_format": "STATEMENT"}),
    ),
    Provocation(
        HaltReason.BINLOG_ROW_IMAGE_NOT_FULL,
        "columns are left out",
        lambda scene: scene.refused(facts={"binlog_row_image": "MINIMAL"}),
    ),
    Provocation(
        HaltReason.BINLOG_ROW_METADATA_NOT_FULL,
        "names are left out",
        lambda scene: scene.refused(facts={"binlog_row_metadata": "MINIMAL"}),
    ),
    Provocation(
        HaltReason.GTID_MODE_NOT_ON,
        "transactions without GTID, and more that is wrong",
        lambda scene: scene.refused(facts={"gtid_mode": "OFF", **_CASCADING}),
    ),
    Provocation(
        HaltReason.REPLICA_UPDATES_NOT_LOGGED,
        "a replica that keeps to itself what it replicates",
        lambda scene: scene.refused(facts={"log_replica_updates": False, "is_replica": True}),
    ),
    Provocation(
        HaltReason.BINLOG_FILTERED,
        "a schema that is not logged",
        lambda scene: scene.refused(facts={"filters": BinlogFilters(ignore=("shop",))}),
    ),
    Provocation(
        HaltReason.CASCADES_NOT_LOGGED,
        "foreign keys that change rows unseen",
        lambda scene: scene.refused(facts=_CASCADING),
    ),
    Provocation(
        HaltReason.PRIVILEGE_MISSING,
        "an account that may not replicate",
        lambda scene: scene.live(grant="REPLICATION CLIENT, SELECT"),
    ),
    Provocation(HaltReason.CAPTURE_CONFIG_DRIFTED, "a widened capture list", _widened_capture_list),
    Provocation(
        HaltReason.PRECONDITION_QUERY_FAILED, "a question that the server refuses", _bad_answers
    ),
]


# --- position -------------------------------------------------------------------------------------


def _another_server(scene: Scene) -> None:
    scene.store.save_watermark(GtidSet.parse(f"{events.OTHER}:1-5"))
    scene.refused()


def _lost_mirror(scene: Scene) -> None:
    scene.sink = SqliteMirror(scene.folder / "mirror.db")
    scene.store.save_watermark(upto(2), None, upto(2))
    scene.refused()


def _regression(pipeline: Pipeline) -> None:
    """What a bug would do: a position that lacks what is stored is told to the checkpoint."""
    assert pipeline.wait_for(upto(2), timeout=30)
    tree = pipeline._tree
    assert tree is not None
    checkpoint = tree.address_of("checkpoint")
    assert checkpoint is not None
    checkpoint.send(Processed(Address("nobody", 0), Position(watermark=upto(1))))


POSITION = [
    Provocation(
        HaltReason.DATA_GAP,
        "logs that were purged before the start",
        lambda scene: scene.refused(facts={"gtid_purged": upto(1)}),
    ),
    Provocation(
        HaltReason.DATA_GAP,
        "logs that were purged under the stream",
        lambda scene: scene.after_two(
            _server_says(1236, "The source has purged binary logs containing GTIDs that")
        ),
    ),
    Provocation(
        HaltReason.SOURCE_IDENTITY_MISMATCH,
        "a position that the server never executed",
        _another_server,
    ),
    Provocation(
        HaltReason.SOURCE_IDENTITY_MISMATCH,
        "a server that says it has less",
        lambda scene: scene.after_two(
            _server_says(1236, "Replica has more GTIDs than the source has")
        ),
    ),
    Provocation(
        HaltReason.SOURCE_HISTORY_CHANGED,
        "a GTID that comes twice",
        lambda scene: scene.stream(*sown(2)),
    ),
    Provocation(HaltReason.SINK_POSITION_LOST, "a mirror that was deleted", _lost_mirror),
    Provocation(
        HaltReason.WATERMARK_REGRESSED,
        "a checkpoint that is told less than it has",
        lambda scene: scene.after_two(act=_regression),
    ),
]


# --- connection -----------------------------------------------------------------------------------


def _silence(scene: Scene) -> None:
    scene.after_two(link={"heartbeat": 0.1, "liveness_timeout": 0.3, "reconnect_attempts": 1})


def _nobody_answers(scene: Scene) -> None:
    scene.live(link={"port": free_port(), "reconnect_attempts": 2})


CONNECTION = [
    Provocation(
        HaltReason.SERVER_ID_CONFLICT,
        "another reader under the same id",
        lambda scene: scene.after_two(
            _server_says(1236, "A replica with the same server_uuid/server_id as this one")
        ),
    ),
    Provocation(
        HaltReason.CHECKSUM_NEGOTIATION_FAILED,
        "checksums that the server does not trust us with",
        lambda scene: scene.after_two(
            _server_says(
                1236,
                "Replica can not handle replication events with the checksum that source is "
                "configured to log;",
            )
        ),
    ),
    Provocation(
        HaltReason.UNRECOGNIZED_DUMP_ERROR,
        "words that nobody knows",
        lambda scene: scene.after_two(_server_says(1236, "")),
    ),
    Provocation(
        HaltReason.DUMP_FAILED,
        "a code that is final",
        lambda scene: scene.after_two(_server_says(1105, "")),
    ),
    Provocation(
        HaltReason.PRIVILEGE_MISSING,
        "a right that is taken away under the stream",
        lambda scene: scene.after_two(_server_says(1227, "")),
    ),
    Provocation(
        HaltReason.AUTH_FAILED,
        "a wrong password",
        lambda scene: scene.live(link={"password": f"{sentinels.PASSWORD} wrong"}),
    ),
    Provocation(
        HaltReason.AUTH_FAILED,
        "a password that cannot be encoded",
        lambda scene: scene.live(link={"password": f"{sentinels.PASSWORD}\udc80"}),
    ),
    Provocation(
        HaltReason.TLS_FAILED,
        "a certificate that the server signed itself",
        lambda scene: scene.live(link={"tls": "verify_ca"}),
    ),
    Provocation(
        HaltReason.COMMAND_RETRIES_EXHAUSTED, "a port where nobody answers", _nobody_answers
    ),
    Provocation(
        HaltReason.COMMAND_RETRIES_EXHAUSTED,
        "a link that is cut",
        lambda scene: scene.after_two(cut(), link={"reconnect_attempts": 1}),
    ),
    Provocation(HaltReason.STREAM_STALLED, "silence", _silence),
    Provocation(
        HaltReason.UNEXPECTED_STREAM_PACKET,
        "a packet that is missing",
        lambda scene: scene.after_two(events.packets(sown(3), len(OPENED) + 2)),
    ),
    Provocation(
        HaltReason.UNEXPECTED_STREAM_PACKET,
        "a packet of another protocol",
        lambda scene: scene.after_two(_foreign_packet()),
    ),
]

STARTS = [*PREFLIGHT, *POSITION, *CONNECTION]
