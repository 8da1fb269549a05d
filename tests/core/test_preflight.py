"""The look before the stream, on facts made by hand."""

from typing import Any

import attrs
import pytest

from capstan.core.gtid import Gtid, GtidSet
from capstan.core.halts import HaltReason
from capstan.core.preflight import (
    BinlogFilters,
    Flavour,
    Privilege,
    ServerFacts,
    findings,
    position_verdict,
)
from capstan.core.tables import CaptureList, TableName
from capstan.core.watermark import Anchor

UUID = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
OTHER = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb"
SERVER = "cccccccc-cccc-cccc-cccc-cccccccccccc"

GOOD = ServerFacts(
    version_text="9.7.4",
    version=(9, 7, 4),
    flavour=Flavour.MYSQL,
    account="'repl'@'%'",
    server_uuid=SERVER,
    server_id=7,
    log_bin=True,
    binlog_format="ROW",
    binlog_row_image="FULL",
    binlog_row_metadata="FULL",
    binlog_checksum="CRC32",
    gtid_mode="ON",
    log_replica_updates=True,
    is_replica=False,
    filters=BinlogFilters(),
)
SHOP = CaptureList.parse(["shop.*"])


def found(
    facts: ServerFacts = GOOD, capture: CaptureList = SHOP, **options: Any
) -> list[tuple[HaltReason, str]]:
    halts = findings(facts, capture, **{"server_id": 4242, **options})
    return [(halt.reason, halt.detail) for halt in halts]


def test_a_server_as_it_should_be_has_no_findings() -> None:
    """D26: nothing stands against it."""
    assert found() == []
    assert found(attrs.evolve(GOOD, version_text="8.0.22", version=(8, 0, 22))) == []


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        ({"log_bin": False}, HaltReason.BINLOG_DISABLED, "log_bin=OFF"),
        (
            {"binlog_format": "STATEMENT"},
            HaltReason.BINLOG_FORMAT_NOT_ROW,
            "binlog_format=STATEMENT; needed is ROW",
        ),
        (
            {"binlog_row_image": "MINIMAL"},
            HaltReason.BINLOG_ROW_IMAGE_NOT_FULL,
            "binlog_row_image=MINIMAL; needed is FULL",
        ),
        (
            {"binlog_row_metadata": "MINIMAL"},
            HaltReason.BINLOG_ROW_METADATA_NOT_FULL,
            "binlog_row_metadata=MINIMAL; needed is FULL",
        ),
        (
            {"gtid_mode": "ON_PERMISSIVE"},
            HaltReason.GTID_MODE_NOT_ON,
            "gtid_mode=ON_PERMISSIVE; needed is ON",
        ),
        (
            {"log_replica_updates": False, "is_replica": True},
            HaltReason.REPLICA_UPDATES_NOT_LOGGED,
            "log_replica_updates=OFF",
        ),
        ({"filters": None}, HaltReason.BINLOG_FILTERED, "cannot be read"),
        ({"missing_tables": ("shop.t",)}, HaltReason.CONFIG_INVALID, "shop.t"),
        ({"server_id": 4242}, HaltReason.CONFIG_INVALID, "server_id: 4242"),
        (
            {"denied": (Privilege.REPLICATION_SLAVE,)},
            HaltReason.PRIVILEGE_MISSING,
            "GRANT REPLICATION SLAVE ON *.* TO 'repl'@'%'",
        ),
    ],
)
def test_each_thing_wrong_is_one_finding_that_names_it(
    change: dict[str, Any], reason: HaltReason, words: str
) -> None:
    """D16, D26: its own reason; variable, value and what is needed in the detail."""
    ((seen, detail),) = found(attrs.evolve(GOOD, **change))
    assert seen is reason
    assert words in detail


def test_all_findings_come_at_once() -> None:
    """D26: nobody mends one setting after the other by trial."""
    facts = attrs.evolve(
        GOOD,
        binlog_format="MIXED",
        binlog_row_image="NOBLOB",
        binlog_row_metadata="MINIMAL",
        gtid_mode="OFF",
        log_replica_updates=False,
        is_replica=None,
        filters=None,
        denied=(Privilege.REPLICATION_SLAVE, Privilege.REPLICATION_CLIENT),
        missing_tables=("shop.a", "shop.b"),
        server_id=4242,
        version=(8, 4, 0),
        cascade_children=(TableName("shop", "child"),),
    )
    assert [reason for reason, _ in found(facts)] == [
        HaltReason.PRIVILEGE_MISSING,
        HaltReason.PRIVILEGE_MISSING,
        HaltReason.BINLOG_FORMAT_NOT_ROW,
        HaltReason.BINLOG_ROW_IMAGE_NOT_FULL,
        HaltReason.BINLOG_ROW_METADATA_NOT_FULL,
        HaltReason.GTID_MODE_NOT_ON,
        HaltReason.REPLICA_UPDATES_NOT_LOGGED,
        HaltReason.BINLOG_FILTERED,
        HaltReason.CONFIG_INVALID,
        HaltReason.CONFIG_INVALID,
        HaltReason.CASCADES_NOT_LOGGED,
    ]


def test_a_server_without_a_log_is_not_blamed_for_what_follows_from_it() -> None:
    """D26: no log means no replica updates and no filters, and one finding says so."""
    facts = attrs.evolve(
        GOOD, log_bin=False, log_replica_updates=False, is_replica=True, filters=None
    )
    assert [reason for reason, _ in found(facts)] == [HaltReason.BINLOG_DISABLED]


def test_a_source_that_replicates_from_nobody_may_leave_replica_updates_out() -> None:
    """D26: the setting only matters on a replica; not knowing counts as one."""
    plain = attrs.evolve(GOOD, log_replica_updates=False)
    assert found(plain) == []
    unknown = attrs.evolve(plain, is_replica=None)
    assert [reason for reason, _ in found(unknown)] == [HaltReason.REPLICA_UPDATES_NOT_LOGGED]


@pytest.mark.parametrize(
    ("flavour", "text", "version"),
    [
        (Flavour.MARIADB, "10.11.6-MariaDB-0+deb12u1", (10, 11, 6)),
        (Flavour.MYSQL, "8.0.21", (8, 0, 21)),
        (Flavour.MYSQL, "5.7.44-log", (5, 7, 44)),
        (Flavour.MYSQL, "unreadable", (0, 0, 0)),
    ],
)
def test_a_server_that_is_not_supported_is_the_only_finding(
    flavour: Flavour, text: str, version: tuple[int, int, int]
) -> None:
    """D26: MariaDB and servers before 8.0.22 are refused, and nothing else is judged of them."""
    facts = ServerFacts(version_text=text, version=version, flavour=flavour)
    ((reason, detail),) = found(facts)
    assert reason is HaltReason.SERVER_NOT_SUPPORTED
    assert detail == f"{flavour.value} {text}; needed is MySQL 8.0.22"


@pytest.mark.parametrize(
    ("filters", "capture", "filtered"),
    [
        (BinlogFilters(ignore=("other",)), ["shop.*"], False),
        (BinlogFilters(ignore=("other", "shop")), ["shop.*"], True),
        (BinlogFilters(ignore=("SHOP",)), ["shop.*"], True),
        (BinlogFilters(ignore=("shop_2",)), ["shop_?.orders"], True),
        (BinlogFilters(ignore=("mysql",)), None, False),
        (BinlogFilters(ignore=("any",)), None, True),
        (BinlogFilters(ignore=("a", "b")), ["a,b.*"], True),
        (BinlogFilters(do=("shop",)), ["shop.*"], True),
        (BinlogFilters(do=("other",)), ["shop.*"], True),
    ],
)
def test_a_filter_counts_when_it_can_cut_a_captured_schema(
    filters: BinlogFilters, capture: list[str] | None, filtered: bool
) -> None:
    """D26: wildcards, letter case and commas in names included; a do-filter always can."""
    seen = found(attrs.evolve(GOOD, filters=filters), CaptureList.parse(capture))
    assert [reason for reason, _ in seen] == [HaltReason.BINLOG_FILTERED] * filtered


CHILDREN = (TableName("shop", "lines"), TableName("shop", "notes"))


@pytest.mark.parametrize(
    ("version", "native", "unlogged"),
    [
        ((8, 4, 5), False, True),
        ((9, 5, 9), False, True),
        ((9, 6, 0), False, False),
        ((9, 6, 0), True, True),
        ((9, 7, 4), True, True),
    ],
)
def test_cascades_are_refused_where_the_server_does_not_log_them(
    version: tuple[int, int, int], native: bool, unlogged: bool
) -> None:
    """D26: before 9.6, and with InnoDB's own foreign keys."""
    facts = attrs.evolve(
        GOOD, version=version, native_foreign_keys=native, cascade_children=CHILDREN
    )
    expected = [HaltReason.CASCADES_NOT_LOGGED] * unlogged
    assert [reason for reason, _ in found(facts)] == expected


def test_cascades_can_be_accepted_by_name() -> None:
    """D26: each table by itself."""
    facts = attrs.evolve(GOOD, native_foreign_keys=True, cascade_children=CHILDREN)
    ((_, detail),) = found(facts, accepted_cascades=["shop.lines"])
    assert "shop.notes" in detail
    assert "shop.lines" not in detail
    assert found(facts, accepted_cascades=["shop.lines", "shop.notes"]) == []


def test_a_long_list_in_a_detail_is_cut_and_counted() -> None:
    """D16: a thousand missing tables make one readable line."""
    facts = attrs.evolve(GOOD, missing_tables=tuple(f"shop.t{n}" for n in range(1000)))
    ((_, detail),) = found(facts)
    assert "shop.t9 and 990 more" in detail
    assert len(detail) < 300


def test_a_server_outside_the_allowed_sources_is_refused_first() -> None:
    """D14, D26: named by its uuid, in front of everything else that is wrong with it."""
    facts = attrs.evolve(GOOD, gtid_mode="OFF")
    assert found(GOOD, allowed_sources=[OTHER, GOOD.server_uuid]) == []
    reasons = [reason for reason, _ in found(facts, allowed_sources=[OTHER])]
    assert reasons == [HaltReason.SOURCE_IDENTITY_MISMATCH, HaltReason.GTID_MODE_NOT_ON]
    detail = found(GOOD, allowed_sources=[OTHER])[0][1]
    assert detail == f"server {GOOD.server_uuid} answered; it is not in allowed_sources"


def verdict(
    executed: str, watermark: str | None, *, purged: str = "", anchor: Anchor | None = None
) -> tuple[HaltReason | None, bool, str]:
    facts = attrs.evolve(
        GOOD, gtid_executed=GtidSet.parse(executed), gtid_purged=GtidSet.parse(purged)
    )
    processed = None if watermark is None else GtidSet.parse(watermark)
    result = position_verdict(facts, processed, anchor)
    if result.halt is None:
        return None, result.may_settle, ""
    return result.halt.reason, result.may_settle, result.halt.detail


def anchor(number: int, *, uuid: str = UUID, server: str = SERVER) -> Anchor:
    return Anchor(
        gtid=Gtid(uuid, "", number), commit_micros=1, arrived_micros=2, server_uuid=server
    )


@pytest.mark.parametrize("watermark", [None, "", f"{UUID}:1-5", f"{UUID}:1-10"])
def test_a_watermark_within_an_unpurged_history_may_stream(watermark: str | None) -> None:
    """D14: from the beginning, from the middle and from the end."""
    assert verdict(f"{UUID}:1-10", watermark) == (None, False, "")


def test_purged_transactions_that_were_processed_are_no_gap() -> None:
    """D14: what is gone from the logs is not missed."""
    purged = f"{UUID}:1-5"
    assert verdict(f"{UUID}:1-10", f"{UUID}:1-5", purged=purged) == (None, False, "")
    assert verdict(f"{UUID}:1-10", f"{UUID}:1-7", purged=purged) == (None, False, "")


def test_a_purged_transaction_that_was_not_processed_is_a_data_gap() -> None:
    """D14: the detail names what is missing and how much."""
    reason, settle, detail = verdict(f"{UUID}:1-10", f"{UUID}:1-3", purged=f"{UUID}:1-5")
    assert (reason, settle) == (HaltReason.DATA_GAP, False)
    assert f"{UUID}:4-5 (2 transactions)" in detail


@pytest.mark.parametrize("watermark", [None, ""])
def test_no_position_on_a_server_with_purged_logs_names_the_command(watermark: str | None) -> None:
    """D14: nothing was lost, so nothing says lost."""
    reason, settle, detail = verdict(f"{UUID}:1-10", watermark, purged=f"{UUID}:1-5")
    assert (reason, settle) == (HaltReason.DATA_GAP, False)
    assert "no position yet" in detail
    assert "capstan checkpoint set FILE --current" in detail
    assert "lost" not in detail


@pytest.mark.parametrize(
    "watermark",
    [f"{UUID}:1-10,{OTHER}:1-5", f"{UUID}:1-11", f"{UUID}:1-10:99", f"{UUID}:1-10:tag:1"],
)
def test_a_watermark_with_more_than_the_server_has_is_an_identity_mismatch(watermark: str) -> None:
    """D14: a foreign uuid, a higher number, a hole, a tag; without an anchor at once."""
    reason, settle, detail = verdict(f"{UUID}:1-10", watermark)
    assert (reason, settle) == (HaltReason.SOURCE_IDENTITY_MISMATCH, False)
    assert "never executed" in detail


def test_the_newest_transactions_of_the_anchored_source_may_settle() -> None:
    """D14: under semi-sync they are sent before gtid_executed has them."""
    reason, settle, _ = verdict(f"{UUID}:1-10", f"{UUID}:1-12", anchor=anchor(12))
    assert (reason, settle) == (HaltReason.SOURCE_IDENTITY_MISMATCH, True)


@pytest.mark.parametrize(
    ("watermark", "seen"),
    [
        (f"{UUID}:1-12", anchor(12, server=OTHER)),
        (f"{UUID}:1-10,{OTHER}:1", anchor(10)),
        (f"{UUID}:1-12,{OTHER}:1", anchor(12)),
        (f"{UUID}:1-10,{OTHER}:1", anchor(10, uuid=UUID)),
    ],
)
def test_any_other_excess_does_not_settle(watermark: str, seen: Anchor) -> None:
    """D14: another server, or a source that the anchor is not of."""
    assert verdict(f"{UUID}:1-10", watermark, anchor=seen)[:2] == (
        HaltReason.SOURCE_IDENTITY_MISMATCH,
        False,
    )


def test_an_excess_below_the_top_does_not_settle() -> None:
    """D14: numbers that the server jumped over are not its newest."""
    reason, settle, _ = verdict(f"{UUID}:1-5:9-10", f"{UUID}:1-10", anchor=anchor(10))
    assert (reason, settle) == (HaltReason.SOURCE_IDENTITY_MISMATCH, False)


def test_an_identity_mismatch_outweighs_a_gap() -> None:
    """D14: the wrong server's purged logs are nobody's gap."""
    reason, _, _ = verdict(f"{OTHER}:1-10", f"{UUID}:1-10", purged=f"{OTHER}:1-5")
    assert reason is HaltReason.SOURCE_IDENTITY_MISMATCH


def test_a_long_set_in_a_detail_is_cut_and_counted() -> None:
    """D14: a thousand holes make one readable line."""
    holes = ":".join(str(number) for number in range(1, 2000, 2))
    _, _, detail = verdict(f"{OTHER}:1", f"{UUID}:{holes}")
    assert "… (1000 transactions)" in detail
    assert len(detail) < 350


def test_a_pattern_that_can_never_match_is_refused() -> None:
    """D16: where the server keeps names in lower case, a pattern with capitals names nothing."""
    facts = attrs.evolve(GOOD, folds_names=True)

    found = findings(facts, CaptureList.parse(["Shop.*", "shop.b"]), server_id=9)

    assert [halt.reason for halt in found] == [HaltReason.CONFIG_INVALID]
    assert "Shop.*" in found[0].detail
    assert findings(GOOD, CaptureList.parse(["Shop.*"]), server_id=9) == ()
