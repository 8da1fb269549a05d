"""The halts: every reason capstan stops for, and how a stop is carried up.

House rules: a reason is added here, with its row in `halt_catalogue`, its test and its page, or not
at all. A `Halt` carries names, codes, counts and GTIDs, never a row value, key value, SQL text or
secret. Nothing outside this file invents a reason; what is unknown has a reason of its own and is
never filed under the nearest known one.
"""

from enum import StrEnum

import attrs


class HaltReason(StrEnum):
    """Why the pipeline stopped: a closed list."""

    CONFIG_INVALID = "config_invalid"
    SERVER_NOT_SUPPORTED = "server_not_supported"
    BINLOG_DISABLED = "binlog_disabled"
    BINLOG_FORMAT_NOT_ROW = "binlog_format_not_row"
    BINLOG_ROW_IMAGE_NOT_FULL = "binlog_row_image_not_full"
    BINLOG_ROW_METADATA_NOT_FULL = "binlog_row_metadata_not_full"
    GTID_MODE_NOT_ON = "gtid_mode_not_on"
    REPLICA_UPDATES_NOT_LOGGED = "replica_updates_not_logged"
    BINLOG_FILTERED = "binlog_filtered"
    CASCADES_NOT_LOGGED = "cascades_not_logged"
    PRIVILEGE_MISSING = "privilege_missing"
    CAPTURE_CONFIG_DRIFTED = "capture_config_drifted"
    PRECONDITION_QUERY_FAILED = "precondition_query_failed"

    DATA_GAP = "data_gap"
    SOURCE_IDENTITY_MISMATCH = "source_identity_mismatch"
    SOURCE_HISTORY_CHANGED = "source_history_changed"
    SINK_POSITION_LOST = "sink_position_lost"
    WATERMARK_REGRESSED = "watermark_regressed"

    SERVER_ID_CONFLICT = "server_id_conflict"
    CHECKSUM_NEGOTIATION_FAILED = "checksum_negotiation_failed"
    UNRECOGNIZED_DUMP_ERROR = "unrecognized_dump_error"
    DUMP_FAILED = "dump_failed"
    AUTH_FAILED = "auth_failed"
    TLS_FAILED = "tls_failed"
    COMMAND_RETRIES_EXHAUSTED = "command_retries_exhausted"
    STREAM_STALLED = "stream_stalled"
    UNEXPECTED_STREAM_PACKET = "unexpected_stream_packet"

    EVENT_CORRUPT = "event_corrupt"
    EVENT_UNKNOWN = "event_unknown"
    EVENT_ORDER_INVALID = "event_order_invalid"
    TABLE_MAP_MISSING = "table_map_missing"
    UNSUPPORTED_COLUMN_TYPE = "unsupported_column_type"
    UNDECODABLE_TEXT = "undecodable_text"
    ROW_IMAGE_NOT_FULL = "row_image_not_full"
    UNSUPPORTED_TRANSACTION_SHAPE = "unsupported_transaction_shape"
    STATEMENT_BASED_CHANGE = "statement_based_change"
    ANONYMOUS_GTID = "anonymous_gtid"
    SOURCE_INCIDENT = "source_incident"
    TRANSACTION_TOO_LARGE = "transaction_too_large"
    SPOOL_FAILED = "spool_failed"

    SINK_FAILED = "sink_failed"
    SINK_STALLED = "sink_stalled"
    MIRROR_ROWS_STALE = "mirror_rows_stale"
    MIRROR_DRIFTED = "mirror_drifted"
    MIRROR_NAME_CONFLICT = "mirror_name_conflict"
    STORE_FAILED = "store_failed"
    STORE_LOCKED = "store_locked"

    RESTARTS_EXHAUSTED = "restarts_exhausted"
    CHILD_WOULD_NOT_STOP = "child_would_not_stop"
    STOPPED_FROM_OUTSIDE = "stopped_from_outside"

    SNAPSHOT_TABLE_NO_PRIMARY_KEY = "snapshot_table_no_primary_key"
    SNAPSHOT_PK_UNSUPPORTED_TYPE = "snapshot_pk_unsupported_type"
    SNAPSHOT_ENGINE_UNSUPPORTED = "snapshot_engine_unsupported"
    SNAPSHOT_PRIVILEGE_MISSING = "snapshot_privilege_missing"
    SNAPSHOT_LOCK_UNAVAILABLE = "snapshot_lock_unavailable"
    SNAPSHOT_SCHEMA_DRIFTED = "snapshot_schema_drifted"
    SNAPSHOT_CHUNK_READ_FAILED = "snapshot_chunk_read_failed"
    SNAPSHOT_SOURCE_MISMATCH = "snapshot_source_mismatch"
    SNAPSHOT_CONFIG_DRIFTED = "snapshot_config_drifted"
    SNAPSHOT_GATE_STALLED = "snapshot_gate_stalled"


class Fault(StrEnum):
    """Whose fault a halt is: where the person who mends it has to look."""

    SOURCE = "source"
    CONFIGURATION = "configuration"
    SINK = "sink"
    STORE = "store"
    HOST = "host application"
    CAPSTAN = "capstan"


@attrs.frozen
class Halt:
    """One stop: the reason and the value-free facts of this occurrence.

    Attributes:
        reason: Which row of the catalogue.
        detail: Names, codes, counts, GTIDs in one line; may be empty.
        also: Further findings of the same look (a preflight names all of them at once).
    """

    reason: HaltReason
    detail: str = ""
    also: tuple["Halt", ...] = ()

    def __str__(self) -> str:
        return f"{self.reason.value}: {self.detail}" if self.detail else self.reason.value


class Halted(Exception):  # noqa: N818 - a verdict, not an error: the tree ends on purpose
    """Raised where the judgement is made; carries the halt up to the actor's guard."""

    def __init__(self, halt: Halt) -> None:
        super().__init__(str(halt))
        self.halt = halt

    def __reduce__(self) -> tuple[type["Halted"], tuple[Halt]]:
        return (Halted, (self.halt,))


def halted(reason: HaltReason, detail: str = "") -> Halted:
    """Build the exception that carries one halt, for `raise`."""
    return Halted(Halt(reason, detail))
