"""Halts as values: the closed list, what one carries, how it travels."""

import copy
import pickle

import pytest

from capstan.core.halts import Fault, Halt, Halted, HaltReason, halted
from capstan.errors import PipelineHalted

CLOSED_LIST = """
config_invalid server_not_supported binlog_disabled binlog_format_not_row binlog_row_image_not_full
binlog_row_metadata_not_full gtid_mode_not_on replica_updates_not_logged binlog_filtered
cascades_not_logged privilege_missing capture_config_drifted precondition_query_failed

data_gap source_identity_mismatch source_history_changed sink_position_lost watermark_regressed

server_id_conflict checksum_negotiation_failed unrecognized_dump_error dump_failed auth_failed
tls_failed command_retries_exhausted stream_stalled unexpected_stream_packet

event_corrupt event_unknown event_order_invalid table_map_missing unsupported_column_type
undecodable_text row_image_not_full unsupported_transaction_shape statement_based_change
anonymous_gtid source_incident transaction_too_large spool_failed

sink_failed sink_stalled mirror_rows_stale mirror_drifted mirror_name_conflict store_failed
store_locked

restarts_exhausted child_would_not_stop stopped_from_outside

snapshot_table_no_primary_key snapshot_pk_unsupported_type snapshot_engine_unsupported
snapshot_privilege_missing snapshot_lock_unavailable snapshot_schema_drifted
snapshot_chunk_read_failed snapshot_source_mismatch snapshot_config_drifted snapshot_gate_stalled
"""


def test_the_list_of_reasons_is_closed() -> None:
    """R54: operators match on these texts, so none changes, goes or comes without this test."""
    assert [reason.value for reason in HaltReason] == CLOSED_LIST.split()


def test_a_reason_is_its_text() -> None:
    """R54: a host application may compare with the plain text and print it as such."""
    assert HaltReason.DATA_GAP == "data_gap"
    assert f"{HaltReason.DATA_GAP}" == "data_gap"
    assert HaltReason("data_gap") is HaltReason.DATA_GAP


def test_an_unknown_text_is_no_reason() -> None:
    """What is not on the list is refused, never filed under a neighbour."""
    with pytest.raises(ValueError, match="data_gaps"):
        HaltReason("data_gaps")


def test_faults_are_places_to_look() -> None:
    """Every row of the catalogue sends the reader to one of six places."""
    places = ["source", "configuration", "sink", "store", "host application", "capstan"]
    assert [fault.value for fault in Fault] == places


@pytest.mark.parametrize(
    ("halt", "text"),
    [
        (Halt(HaltReason.SINK_FAILED, "KeyError"), "sink_failed: KeyError"),
        (Halt(HaltReason.SOURCE_INCIDENT), "source_incident"),
    ],
)
def test_a_halt_prints_reason_and_detail(halt: Halt, text: str) -> None:
    """R54: one line says it, without a colon when there is nothing to add."""
    assert str(halt) == text
    assert str(Halted(halt)) == text
    assert str(PipelineHalted(halt)) == text


def test_a_halt_is_a_value() -> None:
    """Halts are frozen, comparable and hashable, so that a verdict can be passed on as it is."""
    halt = Halt(HaltReason.DATA_GAP, "x", also=(Halt(HaltReason.BINLOG_DISABLED),))

    assert halt == Halt(HaltReason.DATA_GAP, "x", also=(Halt(HaltReason.BINLOG_DISABLED),))
    assert halt != Halt(HaltReason.DATA_GAP, "x")
    assert len({halt, copy.deepcopy(halt)}) == 1
    with pytest.raises(AttributeError):
        halt.detail = "y"  # type: ignore[misc]


@pytest.mark.parametrize("kind", [Halted, PipelineHalted])
def test_an_exception_keeps_its_halt_through_pickle_and_copy(
    kind: type[Halted] | type[PipelineHalted],
) -> None:
    """R54: the halt survives the way to another process."""
    raised = kind(Halt(HaltReason.DATA_GAP, "uuid:5", also=(Halt(HaltReason.SINK_FAILED),)))

    for arrived in (pickle.loads(pickle.dumps(raised)), copy.copy(raised)):
        assert type(arrived) is kind
        assert arrived.halt == raised.halt


def test_halted_builds_the_exception_for_one_halt() -> None:
    """The short form is the long form."""
    assert halted(HaltReason.EVENT_UNKNOWN, "type 99").halt == Halt(
        HaltReason.EVENT_UNKNOWN, "type 99"
    )
    assert halted(HaltReason.EVENT_UNKNOWN).halt.detail == ""


def test_a_halt_is_no_error_that_a_host_catches_by_accident() -> None:
    """`Halted` is none of the built-in families that code expects and swallows."""
    assert Halted.__mro__[1] is Exception
    assert PipelineHalted.__mro__[1] is Exception
