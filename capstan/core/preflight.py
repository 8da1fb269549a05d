"""The look before the stream: facts about the server and the configuration, turned into findings.

House rules: facts come in as values, every finding goes out at once, each with its own reason
(D26). Details name variables, privileges, accounts, tables and GTIDs. What could not be read is a
finding too, never a pass. `findings` judges the server, `position_verdict` the place in its
history; neither knows a socket, and neither asks a second time.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

import attrs

from capstan.core.gtid import GtidSet
from capstan.core.halts import Halt, HaltReason
from capstan.core.tables import CaptureList, TableName
from capstan.core.watermark import Anchor

OLDEST_SERVER: Final = (8, 0, 22)
CASCADES_LOGGED_SINCE: Final = (9, 6, 0)
_SHOWN: Final = 200
_FEW: Final = 10


class Flavour(StrEnum):
    """Whose server it is."""

    MYSQL = "MySQL"
    MARIADB = "MariaDB"


class Privilege(StrEnum):
    """The rights that a stream needs, as GRANT spells them."""

    REPLICATION_SLAVE = "REPLICATION SLAVE"
    REPLICATION_CLIENT = "REPLICATION CLIENT"


@attrs.frozen
class BinlogFilters:
    """The server's Binlog_Do_DB and Binlog_Ignore_DB.

    Attributes:
        do: Only these schemas are logged; empty for no such filter.
        ignore: These are not.
    """

    do: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class ServerFacts:
    """What one server says of itself and of the captured tables.

    Of a server that is not supported only the version is asked for; the rest has its defaults.

    Attributes:
        version_text: As the server prints it.
        version: Its three numbers.
        flavour: MySQL or MariaDB.
        account: The account in use, quoted for GRANT; empty when unknown.
        server_uuid: The server's uuid, lower case.
        server_id: The server's own id.
        log_bin: Whether the binary log is on.
        binlog_format: ROW, STATEMENT or MIXED.
        binlog_row_image: FULL, NOBLOB or MINIMAL.
        binlog_row_metadata: FULL or MINIMAL.
        binlog_checksum: CRC32 or NONE, for the files to come.
        gtid_mode: ON, ON_PERMISSIVE, OFF_PERMISSIVE or OFF.
        gtid_executed: Every transaction the server has.
        gtid_purged: Those of them that its binary logs no longer hold.
        log_replica_updates: Whether replicated transactions reach its binary log.
        is_replica: Whether it has a replication channel; None when it may not be asked.
        filters: Its binary log filters; None when they could not be read.
        folds_names: Whether names of databases and tables are kept in lower case
            (lower_case_table_names), whatever a statement says.
        native_foreign_keys: Whether InnoDB carries cascades out itself, unlogged.
        denied: Rights the account was found to lack.
        missing_tables: Capture entries without wildcard for which no base table is seen.
        cascade_children: Captured tables whose rows a foreign key may change by itself; only
            asked for where such changes are not logged.
    """

    version_text: str
    version: tuple[int, int, int]
    flavour: Flavour
    account: str = ""
    server_uuid: str = ""
    server_id: int = 0
    log_bin: bool = False
    binlog_format: str = ""
    binlog_row_image: str = ""
    binlog_row_metadata: str = ""
    binlog_checksum: str = ""
    gtid_mode: str = ""
    gtid_executed: GtidSet = attrs.field(factory=GtidSet)
    gtid_purged: GtidSet = attrs.field(factory=GtidSet)
    log_replica_updates: bool = False
    is_replica: bool | None = None
    filters: BinlogFilters | None = None
    folds_names: bool = False
    native_foreign_keys: bool = False
    denied: tuple[Privilege, ...] = ()
    missing_tables: tuple[str, ...] = ()
    cascade_children: tuple[TableName, ...] = ()

    @property
    def supported(self) -> bool:
        """Whether capstan reads this flavour in this version (D26)."""
        return self.flavour is Flavour.MYSQL and self.version >= OLDEST_SERVER

    @property
    def cascades_logged(self) -> bool:
        """Whether rows changed by a foreign key's action reach the binary log."""
        return self.version >= CASCADES_LOGGED_SINCE and not self.native_foreign_keys


def findings(
    facts: ServerFacts,
    capture: CaptureList,
    *,
    server_id: int,
    accepted_cascades: Iterable[str] = (),
    allowed_sources: Iterable[str] = (),
) -> tuple[Halt, ...]:
    """Everything that stands against streaming from this server, in one look (D16, D26).

    Args:
        facts: What the server says.
        capture: The capture list.
        server_id: The id this reader would register with.
        accepted_cascades: Tables, as `schema.table`, whose unlogged cascades are accepted.
        allowed_sources: The server_uuids that may answer, in lower case; empty for any.

    Returns:
        One halt a finding, empty when a run may start. A server that is not supported yields
        that finding alone: nothing else was asked of it.
    """
    if not facts.supported:
        oldest = ".".join(map(str, OLDEST_SERVER))
        detail = f"{facts.flavour.value} {_brief(facts.version_text)}; needed is MySQL {oldest}"
        return (Halt(HaltReason.SERVER_NOT_SUPPORTED, detail),)
    return (
        *_stranger(facts, frozenset(allowed_sources)),
        *_privileges(facts),
        *_settings(facts),
        *_replica(facts),
        *_filters(facts, capture),
        *_tables(facts),
        *_letter_case(facts, capture),
        *_identity(facts, server_id),
        *_cascades(facts, frozenset(accepted_cascades)),
    )


def _stranger(facts: ServerFacts, allowed: frozenset[str]) -> Iterator[Halt]:
    if allowed and facts.server_uuid not in allowed:
        yield Halt(
            HaltReason.SOURCE_IDENTITY_MISMATCH,
            f"server {facts.server_uuid} answered; it is not in allowed_sources",
        )


def _privileges(facts: ServerFacts) -> Iterator[Halt]:
    for privilege in facts.denied:
        grant = f"GRANT {privilege.value} ON *.* TO {facts.account}"
        yield Halt(HaltReason.PRIVILEGE_MISSING, f"{privilege.value}; run: {grant}")


def _settings(facts: ServerFacts) -> Iterator[Halt]:
    if not facts.log_bin:
        yield Halt(HaltReason.BINLOG_DISABLED, "log_bin=OFF; needed is ON")
    for variable, wanted, reason in (
        ("binlog_format", "ROW", HaltReason.BINLOG_FORMAT_NOT_ROW),
        ("binlog_row_image", "FULL", HaltReason.BINLOG_ROW_IMAGE_NOT_FULL),
        ("binlog_row_metadata", "FULL", HaltReason.BINLOG_ROW_METADATA_NOT_FULL),
        ("gtid_mode", "ON", HaltReason.GTID_MODE_NOT_ON),
    ):
        found = getattr(facts, variable)
        if found.upper() != wanted:
            yield Halt(reason, f"{variable}={_brief(found)}; needed is {wanted}")


def _replica(facts: ServerFacts) -> Iterator[Halt]:
    # Without a log at all `binlog_disabled` says it; unknown counts as a replica.
    if facts.log_bin and not facts.log_replica_updates and facts.is_replica is not False:
        yield Halt(
            HaltReason.REPLICA_UPDATES_NOT_LOGGED,
            "log_replica_updates=OFF on a server with a replication channel; needed is ON",
        )


def _filters(facts: ServerFacts, capture: CaptureList) -> Iterator[Halt]:
    if not facts.log_bin:
        return
    if facts.filters is None:
        yield Halt(
            HaltReason.BINLOG_FILTERED,
            "binlog_do_db and binlog_ignore_db cannot be read without "
            f"{Privilege.REPLICATION_CLIENT.value}",
        )
        return
    if facts.filters.do:
        # Even when it lists every captured schema: a TRUNCATE of a captured table that is issued
        # from a default database outside the list is not logged (seen).
        yield Halt(
            HaltReason.BINLOG_FILTERED,
            f"binlog_do_db={_list(facts.filters.do)}: what is issued from any other default "
            "database is not logged; needed is no such filter",
        )
    ignored = [name for name in _readings(facts.filters.ignore) if _touches(capture, name)]
    if ignored:
        yield Halt(
            HaltReason.BINLOG_FILTERED,
            f"binlog_ignore_db leaves out {_list(ignored)}, which the capture list covers",
        )


def _readings(names: tuple[str, ...]) -> Iterator[str]:
    """Every name that a comma-joined list of names can mean: a name may hold commas itself."""
    for start in range(len(names)):
        for end in range(start + 1, len(names) + 1):
            yield ",".join(names[start:end])


def _touches(capture: CaptureList, schema: str) -> bool:
    # Whether case matters in schema names depends on the server's disk: both readings count.
    return capture.touches_schema(schema) or capture.touches_schema(schema.lower())


def _tables(facts: ServerFacts) -> Iterator[Halt]:
    if facts.missing_tables:
        yield Halt(
            HaltReason.CONFIG_INVALID,
            f"tables: {_list(facts.missing_tables)} names no base table that the account can see",
        )


def _letter_case(facts: ServerFacts, capture: CaptureList) -> Iterator[Halt]:
    # Such a pattern could never match: row events carry the names in lower case.
    mixed = [p.text for p in capture.patterns if p.text != p.text.lower()]
    if facts.folds_names and mixed:
        yield Halt(
            HaltReason.CONFIG_INVALID,
            f"tables: {_list(mixed)} must be in lower case on a server with "
            "lower_case_table_names other than 0",
        )


def _identity(facts: ServerFacts, server_id: int) -> Iterator[Halt]:
    # The server itself would stream on.
    if facts.server_id == server_id:
        yield Halt(HaltReason.CONFIG_INVALID, f"server_id: {server_id} is the source's own")


def _cascades(facts: ServerFacts, accepted: frozenset[str]) -> Iterator[Halt]:
    if facts.cascades_logged:
        return
    children = sorted({str(name) for name in facts.cascade_children} - accepted)
    if children:
        yield Halt(
            HaltReason.CASCADES_NOT_LOGGED,
            f"{_list(children)}: rows that a foreign key changes by CASCADE, SET NULL or "
            f"SET DEFAULT; {_why_unlogged(facts)}",
        )


def _why_unlogged(facts: ServerFacts) -> str:
    if facts.version >= CASCADES_LOGGED_SINCE:
        return "innodb_native_foreign_keys=ON; needed is OFF"
    return f"MySQL {_brief(facts.version_text)} does not log them"


@attrs.frozen
class Verdict:
    """Where a watermark stands in a server's history.

    Attributes:
        halt: None when the stream may start; else why not.
        may_settle: Whether looking again later may change the verdict (D14).
    """

    halt: Halt | None = None
    may_settle: bool = False


def position_verdict(
    facts: ServerFacts, watermark: GtidSet | None, anchor: Anchor | None
) -> Verdict:
    """Judge a watermark against what the server has and what it has purged (D14).

    Args:
        facts: gtid_executed and gtid_purged, read just now.
        watermark: What is processed; None or empty without a position.
        anchor: The last processed transaction; None after a seed.

    Returns:
        No halt; or `source_identity_mismatch` (which may settle when only the newest
        transactions of the anchor's source are ahead, on the server they came from); or
        `data_gap`.
    """
    processed = watermark or GtidSet()
    excess = processed - facts.gtid_executed
    if excess:
        halt = Halt(
            HaltReason.SOURCE_IDENTITY_MISMATCH,
            f"the source never executed {_set(excess)} of the watermark",
        )
        return Verdict(halt, may_settle=_may_settle(facts, processed, excess, anchor))
    lost = facts.gtid_purged - processed
    if not lost:
        return Verdict()
    if not processed:
        return Verdict(
            Halt(
                HaltReason.DATA_GAP,
                f"no position yet, and the source has purged {_set(lost)}; to start from now: "
                "capstan checkpoint set FILE --current",
            )
        )
    return Verdict(Halt(HaltReason.DATA_GAP, f"the source has purged {_set(lost)}, unprocessed"))


def _may_settle(
    facts: ServerFacts, processed: GtidSet, excess: GtidSet, anchor: Anchor | None
) -> bool:
    """Under semi-sync a transaction is sent before gtid_executed has it."""
    return (
        anchor is not None
        and anchor.server_uuid == facts.server_uuid
        and excess.uuids() == {anchor.gtid.uuid}
        and processed.exceeds_only_at_top(facts.gtid_executed)
    )


def _set(gtids: GtidSet) -> str:
    """A set for a detail: its text, cut, and its size."""
    count = gtids.count()
    return f"{_brief(str(gtids))} ({count} {'transaction' if count == 1 else 'transactions'})"


def _brief(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _list(names: Iterable[str]) -> str:
    every = list(names)
    shown = ", ".join(_brief(name) for name in every[:_FEW])
    return shown if len(every) <= _FEW else f"{shown} and {len(every) - _FEW} more"
