"""Halts over a real socket: every misbehaviour of the fault kit that a pipeline must not bear."""

from collections.abc import Mapping
from typing import Any, Final

from faults.scene import Provocation
from helpers import sentinels

from capstan import HaltReason
from capstan.testing import Misbehaviour, misbehaviours

IMPATIENT: Final[Mapping[str, Any]] = {"heartbeat": 0.1, "liveness_timeout": 0.4}
"""Notices silence at once."""


def _misled(
    reason: HaltReason,
    how: Misbehaviour,
    *,
    words: str = "",
    good: int = 2,
    link: Mapping[str, Any] | None = None,
) -> Provocation:
    name = f"over a socket, {how}{words and f' ({words})'}"
    return Provocation(
        reason, name, lambda scene: scene.misled(how, good=good, link=dict(link or {}))
    )


def _says(reason: HaltReason, code: int, words: str) -> Provocation:
    """An error packet in the stream, with more words than anybody expects."""
    text = f"{words} {sentinels.SERVER_WORDS}"
    return _misled(reason, misbehaviours.error_packet(code, text), words=words)


DAMAGE = [
    _misled(HaltReason.EVENT_CORRUPT, misbehaviours.wrong_checksum()),
    _misled(HaltReason.EVENT_CORRUPT, misbehaviours.absurd_event_size()),
    _misled(HaltReason.EVENT_CORRUPT, misbehaviours.absurd_column_count()),
    _misled(HaltReason.EVENT_CORRUPT, misbehaviours.decompression_bomb()),
    _misled(HaltReason.EVENT_CORRUPT, misbehaviours.absurd_inflated_size()),
    _misled(HaltReason.UNEXPECTED_STREAM_PACKET, misbehaviours.out_of_sequence()),
    _misled(HaltReason.SOURCE_HISTORY_CHANGED, misbehaviours.repeated_gtid(), good=3),
    _misled(HaltReason.TABLE_MAP_MISSING, misbehaviours.rows_without_map()),
    _misled(HaltReason.EVENT_ORDER_INVALID, misbehaviours.changed_map()),
    _misled(HaltReason.EVENT_UNKNOWN, misbehaviours.unknown_event()),
    _misled(HaltReason.SOURCE_INCIDENT, misbehaviours.incident()),
]

CUTS = [
    _misled(HaltReason.COMMAND_RETRIES_EXHAUSTED, misbehaviours.cut_in_header()),
    _misled(HaltReason.COMMAND_RETRIES_EXHAUSTED, misbehaviours.cut_in_event()),
    _misled(HaltReason.COMMAND_RETRIES_EXHAUSTED, misbehaviours.cut_in_transaction()),
    _misled(HaltReason.COMMAND_RETRIES_EXHAUSTED, misbehaviours.cut_in_large_packet()),
    _misled(HaltReason.STREAM_STALLED, misbehaviours.silence(), link=IMPATIENT),
    _misled(
        HaltReason.SOURCE_IDENTITY_MISMATCH,
        misbehaviours.another_server(executed=f"{misbehaviours.OTHER_UUID}:1-99"),
        link={"reconnect_attempts": 2},
    ),
]

WORDS = [
    _says(HaltReason.DATA_GAP, 1236, "Cannot replicate because the source purged binary logs"),
    _says(HaltReason.SOURCE_IDENTITY_MISMATCH, 1236, "Replica has more GTIDs than the source has"),
    _says(
        HaltReason.SERVER_ID_CONFLICT,
        1236,
        "A replica with the same server_uuid/server_id as this replica has connected",
    ),
    _says(
        HaltReason.CHECKSUM_NEGOTIATION_FAILED,
        1236,
        "Replica can not handle replication events with the checksum that source is",
    ),
    _says(HaltReason.UNRECOGNIZED_DUMP_ERROR, 1236, "Something that nobody has seen"),
    _says(HaltReason.PRIVILEGE_MISSING, 1227, "Access denied"),
    _says(HaltReason.DUMP_FAILED, 1105, "Unknown error"),
    _says(HaltReason.COMMAND_RETRIES_EXHAUSTED, 1053, "Server shutdown in progress"),
    _misled(
        HaltReason.PRIVILEGE_MISSING,
        misbehaviours.refused_dump(1227, f"Access denied {sentinels.SERVER_WORDS}"),
    ),
]

HANDSHAKES = [
    _misled(HaltReason.COMMAND_RETRIES_EXHAUSTED, misbehaviours.garbage_greeting()),
    _misled(HaltReason.COMMAND_RETRIES_EXHAUSTED, misbehaviours.endless_greeting()),
    _misled(
        HaltReason.COMMAND_RETRIES_EXHAUSTED, misbehaviours.mute(), link={"connect_timeout": 0.2}
    ),
    _misled(HaltReason.AUTH_FAILED, misbehaviours.asks_for_clear_password()),
    _misled(HaltReason.AUTH_FAILED, misbehaviours.asks_for_plugin("dialog")),
    _misled(HaltReason.AUTH_FAILED, misbehaviours.asks_for_plugin("mysql_old_password")),
    _misled(HaltReason.PRECONDITION_QUERY_FAILED, misbehaviours.asks_for_file(__file__)),
    _misled(HaltReason.PRECONDITION_QUERY_FAILED, misbehaviours.absurd_name()),
    _misled(HaltReason.PRECONDITION_QUERY_FAILED, misbehaviours.endless_answer()),
    _misled(HaltReason.PRECONDITION_QUERY_FAILED, misbehaviours.endless_rows()),
    _misled(HaltReason.COMMAND_RETRIES_EXHAUSTED, misbehaviours.absurd_answer()),
]

WIRES = [*DAMAGE, *CUTS, *WORDS, *HANDSHAKES]
