"""The error of the offline decoders."""

import pickle

import pytest

from capstan.core.binlog.offline.decode_errors import DecodeError, DecodeErrorKind, from_halt
from capstan.core.halts import Halt, HaltReason


def test_an_error_says_kind_offset_and_event() -> None:
    """R219: kind, offset and event type are attributes, and its text says them in one line."""
    error = DecodeError(DecodeErrorKind.MALFORMED, offset=120, event_type=16, detail="of 7 bytes")
    assert (error.kind, error.offset, error.event_type) == ("malformed", 120, 16)
    assert str(error) == "malformed at offset 120 (XID): of 7 bytes"
    bare = DecodeError(DecodeErrorKind.TRUNCATED, offset=4)
    assert str(bare) == "truncated at offset 4"
    assert bare.event_type is None


def test_an_error_can_be_sent_elsewhere() -> None:
    """R219: an error survives pickling, as errors of worker processes must."""
    error = DecodeError(DecodeErrorKind.ORDER_INVALID, offset=1, event_type=2, detail="x")
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, DecodeError)
    assert again.args == error.args
    assert str(again) == str(error)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (HaltReason.EVENT_CORRUPT, DecodeErrorKind.MALFORMED),
        (HaltReason.ROW_IMAGE_NOT_FULL, DecodeErrorKind.ROW_IMAGE_NOT_FULL),
        (HaltReason.UNSUPPORTED_COLUMN_TYPE, DecodeErrorKind.UNSUPPORTED_COLUMN_TYPE),
        (HaltReason.UNDECODABLE_TEXT, DecodeErrorKind.UNDECODABLE_TEXT),
        (HaltReason.UNSUPPORTED_TRANSACTION_SHAPE, DecodeErrorKind.FORMAT_UNSUPPORTED),
    ],
)
def test_halts_of_shared_decoders_become_errors(reason: HaltReason, kind: DecodeErrorKind) -> None:
    """R219: what the shared decoders refuse is refused here, with their words."""
    error = from_halt(Halt(reason, "shop.items"), offset=7, event_type=30)
    assert (error.kind, error.offset, error.event_type) == (kind, 7, 30)
    assert error.detail == "shop.items"
