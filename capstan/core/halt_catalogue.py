"""What each halt means to the person on call: meaning, whose fault, remedy, where to read on.

House rules: one row for each reason of `halts.HaltReason`, in the groups and order of that list; a
test holds the two together. A row says what may have happened and what to type, in words that need
no knowledge of capstan's inside. Rows are texts about every occurrence; what belongs to one
occurrence is in its `Halt.detail`. `docs/halts.md` is written from these rows and never by hand.

`FILE.toml` in a remedy stands for the configuration in use, `GTID` and `GTIDSET` for a transaction
and a set of them, `'repl'@'%'` for capstan's account, `shop.orders` for the table in question.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import attrs

from capstan.core.halts import Fault, Halt, HaltReason

PAGE: Final = "docs/halts.md"
FIRST_VERSION: Final = "0.1.0"


@attrs.frozen(kw_only=True)
class Entry:
    """One row of the catalogue.

    Attributes:
        meaning: What happened, in one to three sentences.
        fault: Where whoever mends it has to look.
        remedy: What to do, with the exact command, statement or option in backquotes.
        document: Page and anchor where this reason is described.
        since: The version that first raised it; None when the reason is reserved and no version
            raises it yet.
    """

    meaning: str
    fault: Fault
    remedy: str
    document: str
    since: str | None


def _row(
    reason: HaltReason,
    fault: Fault,
    meaning: str,
    remedy: str,
    *,
    since: str | None = FIRST_VERSION,
) -> tuple[HaltReason, Entry]:
    document = f"{PAGE}#{reason.value}"
    return reason, Entry(
        meaning=meaning, fault=fault, remedy=remedy, document=document, since=since
    )


_START: Final = dict(
    (
        _row(
            HaltReason.CONFIG_INVALID,
            Fault.CONFIGURATION,
            "An option cannot be right as it stands, or the server contradicts it: a captured "
            "table that does not exist, a `server_id` that is the source's own.",
            "Correct the option that the detail names, then ask `capstan check FILE.toml` until it "
            "finds nothing.",
        ),
        _row(
            HaltReason.SERVER_NOT_SUPPORTED,
            Fault.SOURCE,
            "The server is not MySQL 8.0.22 or newer. MariaDB and older servers write binary logs "
            "in ways that capstan does not read, so it does not try.",
            "Point `host` and `port` in `[source]` at a supported server, or upgrade this one "
            "(`SELECT VERSION()` tells what it is). A proxy can also answer in a server's place.",
        ),
        _row(
            HaltReason.BINLOG_DISABLED,
            Fault.SOURCE,
            "The server keeps no binary log, so there is nothing to stream.",
            "Put `log_bin = binlog` into `[mysqld]` of the server's option file, take out "
            "`skip-log-bin` and `disable-log-bin`, and restart the server: this cannot be changed "
            "while it runs.",
        ),
        _row(
            HaltReason.BINLOG_FORMAT_NOT_ROW,
            Fault.SOURCE,
            "The server would log statements instead of the rows that they changed.",
            "Run `SET PERSIST binlog_format = 'ROW'`. Sessions that are already open keep the old "
            "value: let the applications connect again before capstan starts.",
        ),
        _row(
            HaltReason.BINLOG_ROW_IMAGE_NOT_FULL,
            Fault.SOURCE,
            "The server would log only some columns of a changed row, and the others cannot be "
            "guessed.",
            "Run `SET PERSIST binlog_row_image = 'FULL'`. Sessions that are already open keep the "
            "old value: let the applications connect again before capstan starts.",
        ),
        _row(
            HaltReason.BINLOG_ROW_METADATA_NOT_FULL,
            Fault.SOURCE,
            "The server logs rows without column names, signs, keys and character sets (its "
            "default, MINIMAL, does). Without them a row cannot be read for certain.",
            "Run `SET PERSIST binlog_row_metadata = 'FULL'`. What is already logged stays without: "
            "if the stream halts for this reason again, it has met such a transaction, and "
            "`capstan checkpoint set FILE.toml --current` starts behind it (what lies before is "
            "not delivered).",
        ),
        _row(
            HaltReason.GTID_MODE_NOT_ON,
            Fault.SOURCE,
            "Not every transaction of the server has a GTID. capstan keeps its place by GTIDs and "
            "by nothing else.",
            "One after the other: `SET PERSIST enforce_gtid_consistency = 'ON'`, "
            "`SET PERSIST gtid_mode = 'OFF_PERMISSIVE'`, "
            "`SET PERSIST gtid_mode = 'ON_PERMISSIVE'`; wait until "
            "`SHOW STATUS LIKE 'Ongoing_anonymous_transaction_count'` says 0; then "
            "`SET PERSIST gtid_mode = 'ON'`.",
        ),
        _row(
            HaltReason.REPLICA_UPDATES_NOT_LOGGED,
            Fault.SOURCE,
            "The server is a replica that does not log what it replicates: its rows change without "
            "an event.",
            "Put `log_replica_updates = ON` (`log_slave_updates` before 8.0.26) into the server's "
            "option file and restart it, or read from its source instead.",
        ),
        _row(
            HaltReason.BINLOG_FILTERED,
            Fault.SOURCE,
            "The server leaves schemas out of its binary log that the capture list covers, or the "
            "account may not see whether it does.",
            "Take `binlog_do_db` and `binlog_ignore_db` out of the server's option file and "
            "restart it, or narrow `tables`. If they could not be read: "
            "`GRANT REPLICATION CLIENT ON *.* TO 'repl'@'%'`.",
        ),
        _row(
            HaltReason.CASCADES_NOT_LOGGED,
            Fault.SOURCE,
            "A captured table has a foreign key with CASCADE, SET NULL or SET DEFAULT, and this "
            "server changes its rows without logging them (before 9.6, or with "
            "`innodb_native_foreign_keys=ON`).",
            "On 9.6 and newer start the server with `innodb_native_foreign_keys = OFF`. Elsewhere "
            "let the application change the child rows itself, or accept that such changes are "
            'missing, table by table: `accept_unlogged_cascades = ["shop.orders"]` in `[source]`.',
        ),
        _row(
            HaltReason.PRIVILEGE_MISSING,
            Fault.SOURCE,
            "The account lacks a right that streaming needs.",
            "Run `GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'repl'@'%'` and, for each "
            "captured schema, `GRANT SELECT ON shop.* TO 'repl'@'%'`.",
        ),
        _row(
            HaltReason.CAPTURE_CONFIG_DRIFTED,
            Fault.CONFIGURATION,
            "The capture list names more than it did in the run before. What happened to the new "
            "tables until now was passed over and will not come.",
            "If their past may be missing, run `capstan checkpoint accept-tables FILE.toml`; else "
            "name them in `[snapshot]` and run `capstan snapshot redo FILE.toml` (where a backfill "
            "has begun), set `tables` back, or start anew with an empty store and an empty sink.",
        ),
        _row(
            HaltReason.PRECONDITION_QUERY_FAILED,
            Fault.SOURCE,
            "A question that capstan asks before it streams was answered with an error or in an "
            "unexpected form.",
            "Ask `capstan check FILE.toml` against the server itself, not through a proxy, and "
            "look up the code in the detail (`perror CODE` explains it).",
        ),
    )
)

_POSITION: Final = dict(
    (
        _row(
            HaltReason.DATA_GAP,
            Fault.SOURCE,
            "The source has purged binary logs that capstan has not processed yet, or there is no "
            "position yet and the logs no longer reach back to the beginning. Going on would leave "
            "changes out.",
            "Without a position yet: `capstan checkpoint set FILE.toml --current` starts from now. "
            "Otherwise let `[source]` point at a server that still has those logs, or fill the "
            "sink anew and then start from now in the same way. "
            "`SET PERSIST binlog_expire_logs_seconds = 1209600` keeps logs for two weeks.",
        ),
        _row(
            HaltReason.SOURCE_IDENTITY_MISMATCH,
            Fault.SOURCE,
            "capstan has processed transactions that this server never executed: it is another "
            "server, an older copy, a replica that was behind when it took over, or its logs were "
            "reset. Or its server_uuid is not in `allowed_sources`.",
            "Compare `SELECT @@GLOBAL.gtid_executed` with `capstan checkpoint show FILE.toml`. "
            "Wrong server: correct `[source]`. Right server that took over: add its server_uuid to "
            "`allowed_sources`. Right server with a lost past: fill the sink anew and run "
            "`capstan checkpoint set FILE.toml --current`.",
        ),
        _row(
            HaltReason.SOURCE_HISTORY_CHANGED,
            Fault.SOURCE,
            "The source shows another transaction under a GTID that capstan knows, or sends one "
            "that was not asked for. Somebody ran `RESET BINARY LOGS AND GTIDS` (RESET MASTER), or "
            "the server was restored and written to again.",
            "What the sink holds and what the source holds have parted: fill the sink anew, then "
            "run `capstan checkpoint set FILE.toml --current`.",
        ),
        _row(
            HaltReason.SINK_POSITION_LOST,
            Fault.SINK,
            "The sink keeps its own position and reports less than it had reported before: its "
            "data was deleted, restored from an older copy, or exchanged.",
            "Put the right data back. To go on from where the sink stands now, move the store's "
            "file away: with an empty store the sink's own position counts (the source must still "
            "have the logs). To start with an empty sink from now: "
            "`capstan checkpoint set FILE.toml --current`.",
        ),
        _row(
            HaltReason.WATERMARK_REGRESSED,
            Fault.CAPSTAN,
            "capstan was about to store a position that lacks transactions already processed. The "
            "write was refused; the stored position is untouched.",
            "Start again: the run goes on from the stored position. If it happens again, report it "
            "with the detail and the output of `capstan checkpoint show FILE.toml`.",
        ),
    )
)

_CONNECTION: Final = dict(
    (
        _row(
            HaltReason.SERVER_ID_CONFLICT,
            Fault.CONFIGURATION,
            "Another reader with the same `server_id` took over the stream. capstan does not dial "
            "again, because the two would drive each other out for ever.",
            "Look at `SHOW REPLICAS` on the source and give this pipeline a `server_id` in "
            "`[source]` that no replica and no other pipeline has.",
        ),
        _row(
            HaltReason.CHECKSUM_NEGOTIATION_FAILED,
            Fault.SOURCE,
            "The server says that this reader cannot take its checksums, although capstan "
            "announces that it can. Something between the two drops session variables.",
            "Connect to the server itself instead of through a proxy or a connection pool. If "
            "there is none, report it with `SELECT VERSION(), @@GLOBAL.binlog_checksum`.",
        ),
        _row(
            HaltReason.UNRECOGNIZED_DUMP_ERROR,
            Fault.SOURCE,
            "The server ended the stream with error 1236 in words that capstan does not know. It "
            "is not guessed which of the many causes of 1236 it was.",
            "Read the server's error log at that minute. Did somebody run "
            "`RESET BINARY LOGS AND GTIDS` (`RESET MASTER` before 8.4)? Then the past is gone: "
            "fill the sink anew and run `capstan checkpoint set FILE.toml --current`. Otherwise "
            "check the log files with `mysqlbinlog --verify-binlog-checksum` and start again: "
            "nothing was skipped.",
        ),
        _row(
            HaltReason.DUMP_FAILED,
            Fault.SOURCE,
            "The server refused the stream, or ended it, with an error that does not pass by "
            "itself.",
            "Look up the code in the detail (`perror CODE` explains it) and read the server's "
            "error log; then start again. Nothing was skipped.",
        ),
        _row(
            HaltReason.AUTH_FAILED,
            Fault.CONFIGURATION,
            "The server does not let the account in, or asks for a way to log in that capstan does "
            "not go along with.",
            "Check `user` and `password` in `[source]` and the account on the server: "
            "`SHOW CREATE USER 'repl'@'%'` shows its plugin, lock and expiry; "
            "`ALTER USER 'repl'@'%' ACCOUNT UNLOCK` unlocks it. An account of "
            "`caching_sha2_password` is the tested kind.",
        ),
        _row(
            HaltReason.TLS_FAILED,
            Fault.CONFIGURATION,
            "No encrypted connection of the configured kind could be made: the server has none, or "
            "its certificate is not one to trust.",
            "Name the authority that signed the server's certificate with `tls_ca` in `[source]`, "
            "and use the host name that stands in the certificate. `tls` says how much is "
            "demanded: `verify_identity`, `verify_ca`, `required`, `preferred`, `disabled`.",
        ),
        _row(
            HaltReason.COMMAND_RETRIES_EXHAUSTED,
            Fault.SOURCE,
            "The server could not be reached, or broke the connection, more often in a row than "
            "`reconnect_attempts` allows.",
            "See that the server runs and that this machine reaches it (`capstan check FILE.toml` "
            "tries once), then start again: the run goes on from the stored position. For longer "
            "outages raise `reconnect_attempts` in `[source]`.",
        ),
        _row(
            HaltReason.STREAM_STALLED,
            Fault.SOURCE,
            "The connection stood, but for `liveness_timeout` seconds not even a heartbeat came, "
            "and dialling again did not help.",
            "Look for a frozen server or a firewall that drops quiet connections. "
            "`liveness_timeout` in `[source]` must be well above `heartbeat`. Then start again.",
        ),
        _row(
            HaltReason.UNEXPECTED_STREAM_PACKET,
            Fault.SOURCE,
            "Something came over the connection that is no packet of a replication stream, or a "
            "packet is missing.",
            "Let `host` and `port` in `[source]` mean the server itself, not a proxy, and start "
            "again. If it happens again, report it with the detail.",
        ),
    )
)

_STREAM: Final = dict(
    (
        _row(
            HaltReason.EVENT_CORRUPT,
            Fault.SOURCE,
            "An event of the binary log is damaged: its checksum is wrong, or its content does not "
            "fit its own lengths.",
            "Start again: damage on the way does not come twice. If it does, check the file on the "
            "server with `mysqlbinlog --verify-binlog-checksum` and read from a server whose log "
            "is whole.",
        ),
        _row(
            HaltReason.EVENT_UNKNOWN,
            Fault.CAPSTAN,
            "The server sent an event type that this version of capstan does not know and that is "
            "not marked as one to pass over.",
            "Look whether a newer capstan knows the type in the detail; else report it with "
            "`SELECT VERSION()`.",
        ),
        _row(
            HaltReason.EVENT_ORDER_INVALID,
            Fault.CAPSTAN,
            "An event came where the grammar of the stream has no place for it, or with a gap "
            "before it. The transaction under way was thrown away.",
            "Start again. If it happens at the same place, keep the binary log file and report the "
            "detail; `docs/states.md` shows the grammar.",
        ),
        _row(
            HaltReason.TABLE_MAP_MISSING,
            Fault.SOURCE,
            "Rows came without the table map that must stand before them, so nobody can say which "
            "table they belong to.",
            "Start again. If it happens at the same place, check the file on the server with "
            "`mysqlbinlog --verify-binlog-checksum` and report it.",
        ),
        _row(
            HaltReason.UNSUPPORTED_COLUMN_TYPE,
            Fault.CAPSTAN,
            "A captured table has a column of a type that this version cannot read exactly.",
            "Take the table that the detail names out of `tables`, or give the column another type "
            "with `ALTER TABLE shop.orders MODIFY …`, and start again.",
        ),
        _row(
            HaltReason.UNDECODABLE_TEXT,
            Fault.SOURCE,
            "A text, or a name, holds bytes that are no characters of its character set. A "
            "replacement character would be a guess.",
            "Repair the rows on the source. The damaged row stays in the log: to pass it, put its "
            "transaction into the sink by your own means and run "
            "`capstan checkpoint add FILE.toml GTID`, or take the table out of `tables`.",
        ),
        _row(
            HaltReason.ROW_IMAGE_NOT_FULL,
            Fault.SOURCE,
            "A session logged a captured row without all its columns: it has a "
            "`binlog_row_image` of its own.",
            "Let that application use `binlog_row_image=FULL`. The logged transaction stays as it "
            "is: put it into the sink by your own means and run "
            "`capstan checkpoint add FILE.toml GTID`.",
        ),
        _row(
            HaltReason.UNSUPPORTED_TRANSACTION_SHAPE,
            Fault.SOURCE,
            "A transaction has a form that cannot be delivered exactly: an XA transaction, a "
            "rolled-back block that holds rows, or one compressed in an unknown way.",
            "Let the application commit without XA. The logged transaction stays as it is: put its "
            "outcome into the sink by your own means and run "
            "`capstan checkpoint add FILE.toml GTID`.",
        ),
        _row(
            HaltReason.STATEMENT_BASED_CHANGE,
            Fault.SOURCE,
            "A session logged a change as a statement, without the rows it changed. Any account "
            "that may set `binlog_format` for itself can do that, whatever the server's setting.",
            "Find that session and let it use `binlog_format=ROW`; "
            "`REVOKE SESSION_VARIABLES_ADMIN ON *.* FROM …` takes the right away. The logged "
            "transaction stays as it is: put its outcome into the sink by your own means and run "
            "`capstan checkpoint add FILE.toml GTID`.",
        ),
        _row(
            HaltReason.ANONYMOUS_GTID,
            Fault.SOURCE,
            "The stream holds a transaction without a GTID, from a time when `gtid_mode` was not "
            "ON. It has no place in a position.",
            "Let `SELECT @@GLOBAL.gtid_mode` say ON for good, then start behind such transactions: "
            "`capstan checkpoint set FILE.toml --current` (what lies before is not delivered).",
        ),
        _row(
            HaltReason.SOURCE_INCIDENT,
            Fault.SOURCE,
            "The server itself put a note into its log that changes may be missing from it.",
            "Read the server's error log for the cause. The stream alone can no longer be trusted: "
            "fill the sink anew and run `capstan checkpoint set FILE.toml --current`.",
        ),
        _row(
            HaltReason.TRANSACTION_TOO_LARGE,
            Fault.CONFIGURATION,
            "One transaction has more row events than `transaction_bytes` of `[limits]` allows. "
            "Nothing of it was delivered.",
            "Raise `transaction_bytes` above the size in the detail, or take it out, and start "
            "again. The transaction comes again whole.",
        ),
        _row(
            HaltReason.SPOOL_FAILED,
            Fault.HOST,
            "A transaction larger than `transaction_memory` of `[limits]` could not be written to "
            "disk, or read back from it. It does not count as delivered.",
            "See to free space and rights in `spool_dir` of `[limits]` (by default the system's "
            "folder for temporary files): it needs room for the largest transaction. Start again; "
            "the transaction comes again whole.",
        ),
    )
)

_DELIVERY: Final = dict(
    (
        _row(
            HaltReason.SINK_FAILED,
            Fault.SINK,
            "The sink refused something: its file cannot be used, or it raised an exception, of "
            "which the detail names the class only, because the text may hold values. What was "
            "accepted before is stored; the refused item is not.",
            "Look into the sink's own log, mend it and start again with `capstan run FILE.toml`: "
            "the refused item comes first.",
        ),
        _row(
            HaltReason.SINK_STALLED,
            Fault.SINK,
            "A call of the sink has not come back for `sink_timeout` seconds. Nothing of that call "
            "counts as delivered, even if it returns later.",
            "Find out what the sink waits for. If it may take that long, raise `sink_timeout` in "
            "`[delivery]`; smaller calls come with a lower `max_batch`. End the old process before "
            "a new start: it holds the store until then.",
        ),
        _row(
            HaltReason.MIRROR_ROWS_STALE,
            Fault.SINK,
            "A DDL statement may have changed rows that the mirror already holds. The server gave "
            "those rows their new values itself, and the binary log does not have them.",
            "Read the old rows again: name the table in `[snapshot]` (`tables`) and start again, "
            "or, where it is named there already, run `capstan snapshot redo FILE.toml "
            'SCHEMA.TABLE` first. `on_alter = "backfill"` in `[snapshot]` does so by itself.',
        ),
        _row(
            HaltReason.MIRROR_DRIFTED,
            Fault.SINK,
            "An update or delete found no row in a mirrored table that should have it. Somebody "
            "wrote into the mirror, or it is not the mirror of this source.",
            "Let nobody else write into the mirror. Put back a copy of its file from before that "
            "(with the file that `path` in `[store]` names moved away, the run starts where the "
            "copy stands), or begin a new mirror.",
        ),
        _row(
            HaltReason.MIRROR_NAME_CONFLICT,
            Fault.CONFIGURATION,
            "SQLite takes letters of either case for the same: two captured tables, or two columns "
            "of one, would be one there. Or a table's columns use up every name that SQLite has "
            "for its row number.",
            "Take one of the two tables out of `tables`, or mirror it with a second pipeline "
            "(`server_id`, store and mirror of its own); such columns need a new name, or the "
            "table a primary key.",
        ),
        _row(
            HaltReason.STORE_FAILED,
            Fault.STORE,
            "The store that keeps the position could not be read or written. Nothing is created "
            "anew in silence.",
            "See to free space, rights and the disk of `path` in `[store]` and start again; the "
            "files with `-wal` and `-shm` behind its name belong to it and need the same rights. A "
            "damaged file can be replaced by an older copy of it: what was delivered since comes "
            "again.",
        ),
        _row(
            HaltReason.STORE_LOCKED,
            Fault.HOST,
            "Another process, or another pipeline of this one, holds the store or the sink's file.",
            "Stop the other one, or give this pipeline its own `path` in `[store]` and its own "
            "`path` in `[sink]`. A process whose sink hangs holds both until it has ended.",
        ),
    )
)

_TREE: Final = dict(
    (
        _row(
            HaltReason.RESTARTS_EXHAUSTED,
            Fault.CAPSTAN,
            "A part of the pipeline crashed again and again. The detail names the part, and the "
            "class and place of its last exception.",
            "Start again with `capstan run FILE.toml`: the run goes on from the stored position. "
            "If it ends in the same way, report the detail: a crash without a name of its own is a "
            "bug.",
        ),
        _row(
            HaltReason.CHILD_WOULD_NOT_STOP,
            Fault.HOST,
            "A part of the pipeline did not end when it was asked to and did not end when it was "
            "interrupted. It is not replaced while it may still run.",
            "The detail names the part: `coordinator` waits for the sink, `checkpoint` for the "
            "store, `connection` for the network. Let the process end, look there, start again.",
        ),
        _row(
            HaltReason.STOPPED_FROM_OUTSIDE,
            Fault.HOST,
            "Somebody in the same process stopped one of the pipeline's actors; pykka's "
            "`ActorRegistry.stop_all()` does that to everybody's.",
            "Stop your own actors one by one and end a pipeline with `pipeline.stop()`.",
        ),
    )
)

_SNAPSHOT: Final = dict(
    (
        _row(
            HaltReason.SNAPSHOT_TABLE_NO_PRIMARY_KEY,
            Fault.SOURCE,
            "A table to be backfilled has no primary key and no unique key without NULLs, so its "
            "rows cannot be read in portions that fit together.",
            "Run `ALTER TABLE shop.orders ADD PRIMARY KEY (…)`, or take the table out of `tables` "
            "in `[snapshot]`.",
        ),
        _row(
            HaltReason.SNAPSHOT_PK_UNSUPPORTED_TYPE,
            Fault.CONFIGURATION,
            "The key of a table to be backfilled has a column that is neither an integer nor "
            "BINARY or VARBINARY. Whether a row lies before or behind another could then differ "
            "between capstan and the server.",
            "Take the table out of `tables` in `[snapshot]`, or give it a key of integers or "
            "binary strings.",
        ),
        _row(
            HaltReason.SNAPSHOT_ENGINE_UNSUPPORTED,
            Fault.SOURCE,
            "A table to be backfilled is no InnoDB base table; a view, a temporary table or "
            "another engine has no consistent picture of itself.",
            "Run `ALTER TABLE shop.orders ENGINE = InnoDB`, or take the table out of `tables` in "
            "`[snapshot]`.",
        ),
        _row(
            HaltReason.SNAPSHOT_PRIVILEGE_MISSING,
            Fault.SOURCE,
            "The account may not read or briefly lock a table that is to be backfilled.",
            "Run `GRANT SELECT, LOCK TABLES ON shop.* TO 'repl'@'%'`: LOCK TABLES cannot be "
            "granted on a single table.",
        ),
        _row(
            HaltReason.SNAPSHOT_LOCK_UNAVAILABLE,
            Fault.SOURCE,
            "The short read lock on a table was not to be had within its bound, each time it was "
            "tried: something holds the table for long.",
            "Look at `SELECT * FROM sys.schema_table_lock_waits` for a long transaction, a DDL "
            "or a backup, let it end, and start again: the backfill goes on where it stood.",
        ),
        _row(
            HaltReason.SNAPSHOT_SCHEMA_DRIFTED,
            Fault.SOURCE,
            "A DDL statement changed a table while it was being backfilled; the portions before "
            "and after would not fit together.",
            "Run `capstan snapshot redo FILE.toml shop.orders` and start again: the table is read "
            "from its beginning.",
        ),
        _row(
            HaltReason.SNAPSHOT_CHUNK_READ_FAILED,
            Fault.SOURCE,
            "A portion of a table could not be read, for a reason that does not pass by itself.",
            "Look up the code in the detail (`perror CODE` explains it), mend the cause and start "
            "again: the backfill goes on behind the last stored key.",
        ),
        _row(
            HaltReason.SNAPSHOT_SOURCE_MISMATCH,
            Fault.SOURCE,
            "The connection that reads the tables reached another server than the stream. A shared "
            "or moving address does that.",
            "Give `[source]` an address that always means one server, and start again.",
        ),
        _row(
            HaltReason.SNAPSHOT_CONFIG_DRIFTED,
            Fault.CONFIGURATION,
            "The tables to be backfilled are not those with which the backfill began.",
            "Set `tables` in `[snapshot]` back, or begin afresh with "
            "`capstan snapshot redo FILE.toml`.",
        ),
        _row(
            HaltReason.SNAPSHOT_GATE_STALLED,
            Fault.SOURCE,
            "A portion that was read waits for transactions that the stream does not bring, "
            "although it is alive.",
            "Compare `SELECT @@GLOBAL.gtid_executed` with `capstan checkpoint show FILE.toml`: "
            "GTIDs that were put into gtid_purged by hand never come. Add them with "
            "`capstan checkpoint add FILE.toml GTIDSET`, or raise `gate_timeout` in `[snapshot]`.",
        ),
    )
)

GROUPS: Final[Mapping[str, Mapping[HaltReason, Entry]]] = MappingProxyType(
    {
        "Configuration and start": _START,
        "Position": _POSITION,
        "Connection": _CONNECTION,
        "Stream": _STREAM,
        "Delivery": _DELIVERY,
        "Supervision": _TREE,
        "Backfill": _SNAPSHOT,
    }
)
"""The rows under headings, in the order in which a pipeline can meet them."""

CATALOGUE: Final[Mapping[HaltReason, Entry]] = MappingProxyType(
    {reason: entry for group in GROUPS.values() for reason, entry in group.items()}
)
"""Every reason's row."""


def describe(halt: Halt) -> dict[str, Any]:
    """A halt and its row as plain data, ready for JSON.

    Returns:
        The texts `reason`, `detail`, `meaning`, `fault`, `remedy` and `document`, and under `also`
        a list of the further findings in the same form.
    """
    entry = CATALOGUE[halt.reason]
    return {
        "reason": halt.reason.value,
        "detail": halt.detail,
        "meaning": entry.meaning,
        "fault": entry.fault.value,
        "remedy": entry.remedy,
        "document": entry.document,
        "also": [describe(further) for further in halt.also],
    }
