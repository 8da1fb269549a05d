"""What a MySQL error code means."""

import pytest

from capstan.core.halts import HaltReason
from capstan.core.server_errors import Stage, classify_dump_error, classify_error, is_transient

TAIL = (
    "; the first event '{0}' at 4, the last event read from './{0}' at 127, the last byte read "
    "from './{0}' at 127."
)
PLACE = TAIL.format("binlog.000014")

CONFLICT = (
    "A slave with the same server_uuid/server_id as this slave has connected to the master",
    "A replica with the same server_uuid/server_id as this replica has connected to the source",
    "A slave with the same server_uuid as this slave has connected to the master",
)
PURGED = (
    (
        "Cannot replicate because the master purged required binary logs. Replicate the missing"
        " transactions from elsewhere, or provision a new slave from backup. Consider "
        "increasing the master's binary log expiration period. The GTID set sent by the slave "
        "is '7caa9a48-b325-11ed-8541-fab81f64ee00:1-16333', and the missing transactions are "
        "'0511eeb3-fad6-11ed-9a0f-fab81f64ee00:1-178'"
    ),
    (
        "Cannot replicate because the source purged required binary logs. Replicate the missing"
        " transactions from elsewhere, or provision a new replica from backup. Consider "
        "increasing the source's binary log expiration period. The GTID set sent by the replica"
        " is '', and the missing transactions are '0511eeb3-fad6-11ed-9a0f-fab81f64ee00:1-178'"
    ),
    (
        "The slave is connecting using CHANGE MASTER TO MASTER_AUTO_POSITION = 1, but the "
        "master has purged binary logs containing GTIDs that the slave requires."
    ),
)
CHECKSUM = (
    "Slave can not handle replication events with the checksum that master is configured to log",
    "Replica can not handle replication events with the checksum that source is configured to log",
)
AHEAD = (
    (
        "Slave has more GTIDs than the master has, using the master's SERVER_UUID. This may "
        "indicate that the end of the binary log was truncated or that the last binary log file"
        " was lost"
    ),
    (
        "Replica has more GTIDs than the source has, using the source's SERVER_UUID. This may "
        "indicate that the end of the binary log was truncated or that the last binary log file"
        " was lost"
    ),
)
OTHERS = (
    "Could not find first log file name in binary log index file",
    "Client requested source to start replication from position > file size",
    "Client requested master to start replication from impossible position",
    "binlog truncated in the middle of event; consider out of disk space on source",
    "I/O error reading log event",
    "bogus data in log event",
    "event read from binlog did not pass crc check",
    "log event entry exceeded max_allowed_packet; Increase max_allowed_packet on source",
    "could not find next log",
    "Binary log is not open",
    "Misconfigured source - source server_id is 0",
    (
        "a problem with getting info on being purged %s; consider examining correspondence of "
        "your binlog index file to the actual binlog files"
    ),
    "server_uuid purged checksum",
)


@pytest.mark.parametrize("text", CONFLICT)
def test_the_texts_about_a_duplicate_reader_are_a_server_id_conflict(text: str) -> None:
    """R45, D24: both wordings, with and without the place in the log behind them."""
    assert classify_dump_error(1236, text) is HaltReason.SERVER_ID_CONFLICT
    assert classify_dump_error(1236, (text + PLACE).encode()) is HaltReason.SERVER_ID_CONFLICT


@pytest.mark.parametrize("text", PURGED)
def test_the_texts_about_purged_logs_are_a_data_gap(text: str) -> None:
    """R46, D24: all three generations of the text."""
    assert classify_dump_error(1236, text) is HaltReason.DATA_GAP


@pytest.mark.parametrize("text", CHECKSUM)
def test_the_texts_about_checksum_negotiation_have_a_reason_of_their_own(text: str) -> None:
    """R47, D24: both wordings."""
    found = classify_dump_error(1236, text + PLACE)
    assert found is HaltReason.CHECKSUM_NEGOTIATION_FAILED


@pytest.mark.parametrize("text", AHEAD)
def test_a_reader_with_more_than_the_source_is_an_identity_mismatch(text: str) -> None:
    """D24: the text holds SERVER_UUID, and is no server_id conflict."""
    assert classify_dump_error(1236, text) is HaltReason.SOURCE_IDENTITY_MISMATCH


@pytest.mark.parametrize("text", OTHERS)
def test_every_other_text_is_unrecognised(text: str) -> None:
    """R48, R49: never a data gap, never the nearest known reason."""
    assert classify_dump_error(1236, text) is HaltReason.UNRECOGNIZED_DUMP_ERROR
    assert classify_dump_error(1236, text + PLACE) is HaltReason.UNRECOGNIZED_DUMP_ERROR


@pytest.mark.parametrize(
    "name",
    [
        "purged binary logs",
        "same server_uuid",
        "can not handle replication events with the checksum",
        "o'purged binary logs",
    ],
)
def test_names_that_the_operator_chose_decide_nothing(name: str) -> None:
    """R49: a log file's name is not what the server says."""
    text = "I/O error reading log event" + TAIL.format(name)
    assert classify_dump_error(1236, text) is HaltReason.UNRECOGNIZED_DUMP_ERROR
    text = f"could not open '{name}' here"
    assert classify_dump_error(1236, text) is HaltReason.UNRECOGNIZED_DUMP_ERROR


def test_a_tag_called_checksum_in_the_missing_set_changes_nothing() -> None:
    """R46: what the server quotes of the reader's own set decides nothing."""
    text = PURGED[1].replace("is ''", "is 'uuid:checksum:1:same server_uuid:2'")
    assert classify_dump_error(1236, text) is HaltReason.DATA_GAP


@pytest.mark.parametrize(
    "text", ["", b"", "\u00fcberzählig purged binary logs", b"\xff\xfe purged binary logs"]
)
def test_an_empty_or_non_ascii_text_is_unrecognised(text: str | bytes) -> None:
    """R50: no wording known here, and no exception."""
    assert classify_dump_error(1236, text) is HaltReason.UNRECOGNIZED_DUMP_ERROR


@pytest.mark.parametrize("code", [1, 1235, 1237, 1773, 1105, 13117, 65535])
@pytest.mark.parametrize("text", [CONFLICT[0], PURGED[0], CHECKSUM[0], AHEAD[0]])
def test_another_code_never_has_a_reason_of_1236(code: int, text: str) -> None:
    """R51: whatever its text."""
    assert classify_dump_error(code, text) is HaltReason.DUMP_FAILED


def test_a_missing_right_at_the_dump_is_named_so() -> None:
    """R51: 1227 is what a dump without REPLICATION SLAVE gets."""
    assert classify_dump_error(1227, "Access denied") is HaltReason.PRIVILEGE_MISSING


@pytest.mark.parametrize("code", [1040, 1053, 1203, 1317, 2006, 2013, 3032, 3169, 4031])
def test_what_may_pass_by_itself_is_transient_at_every_stage(code: int) -> None:
    """R52: the server going down, full or closing a session is a reason to dial again."""
    assert is_transient(code)
    assert {classify_error(stage, code) for stage in Stage} == {None}


@pytest.mark.parametrize("code", [1045, 1130, 1227, 1236, 1773, 3159, 2026])
def test_what_will_not_pass_is_not_transient(code: int) -> None:
    """R52: 1236 in particular never leads to another dial."""
    assert not is_transient(code)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (1044, HaltReason.PRIVILEGE_MISSING),
        (1130, HaltReason.AUTH_FAILED),
        (1227, HaltReason.PRIVILEGE_MISSING),
        (1862, HaltReason.AUTH_FAILED),
        (2026, HaltReason.TLS_FAILED),
        (2059, HaltReason.AUTH_FAILED),
        (3118, HaltReason.AUTH_FAILED),
        (3159, HaltReason.TLS_FAILED),
    ],
)
def test_codes_that_need_a_person_halt_at_every_stage(code: int, reason: HaltReason) -> None:
    """R54: each with the reason that says where to look."""
    assert {classify_error(stage, code) for stage in Stage} == {reason}


def test_access_denied_is_a_password_while_connecting_and_a_right_afterwards() -> None:
    """R54: registering without REPLICATION SLAVE gets the code of a wrong password (seen)."""
    assert classify_error(Stage.CONNECT, 1045) is HaltReason.AUTH_FAILED
    assert classify_error(Stage.DUMP, 1045) is HaltReason.PRIVILEGE_MISSING
    assert classify_error(Stage.QUERY, 1045) is HaltReason.PRIVILEGE_MISSING
    assert classify_dump_error(1045, "Access denied") is HaltReason.PRIVILEGE_MISSING


def test_an_unknown_code_means_what_was_being_done() -> None:
    """R48: a refused question or dump is named as such; a refused connect is tried again."""
    assert classify_error(Stage.QUERY, 1193) is HaltReason.PRECONDITION_QUERY_FAILED
    assert classify_error(Stage.DUMP, 1773) is HaltReason.DUMP_FAILED
    assert classify_error(Stage.CONNECT, 9999) is None
    assert classify_error(Stage.READ, 9999) is None
