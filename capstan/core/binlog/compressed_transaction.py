"""Decodes the transaction inside one compressed payload.

House rules: a payload holds one whole transaction and nothing else; it is opened within a bound and
fed to a strict decoder of its own, whose offsets are those inside the payload and whose errors are
told as errors of the payload event. Inside nothing has a checksum: the payload event has one.
"""

from typing import Final

from capstan.core.binlog.header import SIZE, EventType
from capstan.core.binlog.offline.decode_errors import DecodeError, DecodeErrorKind, from_halt
from capstan.core.binlog.offline.decode_limits import TransactionLimits
from capstan.core.binlog.offline.format_description import FormatDescription
from capstan.core.binlog.offline.outcomes import CommittedTransaction, RolledBack
from capstan.core.binlog.offline.transactions import TransactionDecoder
from capstan.core.binlog.payload import open_payload
from capstan.core.binlog.table_signs import TableSigns
from capstan.core.halts import Halted

MOST_INFLATED: Final = 1 << 30
"""Bytes inside one payload at most: the server's own bound of an event."""

_TYPE: Final = int(EventType.TRANSACTION_PAYLOAD)


class PayloadDecoder:
    """Decodes the payloads of one file.

    Args:
        description: The file's format description.
        limits: What a transaction may be.
        keep_rows: False to count only.
        signs: What is known of signs.
    """

    def __init__(
        self,
        description: FormatDescription,
        limits: TransactionLimits,
        *,
        keep_rows: bool,
        signs: TableSigns,
    ) -> None:
        self._limits = limits
        self._signs = signs
        self._decoder = TransactionDecoder(
            description.without_checksums(), limits, keep_rows=keep_rows
        )

    def decode(self, raw: bytes, end: int, offset: int) -> CommittedTransaction | RolledBack:
        """The transaction inside.

        Args:
            raw: The payload event from its header on.
            end: Where its body ends in `raw`.
            offset: Where the event lies in its file, for errors.

        Raises:
            DecodeError: Of type TRANSACTION_PAYLOAD and at `offset`; the detail says where inside.
        """
        inside, starts = self._inflated(raw, end, offset)
        outcome = None
        for start in starts:
            if outcome is not None:
                raise _misshapen("more than one transaction", offset)
            try:
                flags = self._signs.at(inside, start, checksums=False)
                outcome = self._decoder.feed(inside, start, flags).outcome
            except DecodeError as error:
                detail = f"inside the payload: {error}"
                raise _refused(error.kind, offset, detail) from None
        if outcome is None:
            self._decoder.finish()
            raise _misshapen("no whole transaction", offset)
        return outcome

    def _inflated(self, raw: bytes, end: int, offset: int) -> tuple[bytes, list[int]]:
        """What is inside, whole, since a decoder wants offsets of one buffer; where events begin.

        The event's own limits hold for it before it is opened, these while it is.
        """
        limit = min(self._limits.encoded_bytes, MOST_INFLATED)
        inside = bytearray()
        starts: list[int] = []
        try:
            for piece in open_payload(raw, SIZE, end):
                starts += [len(inside) + start for start in piece.bounds[:-1]]
                inside += memoryview(piece.data)[: piece.bounds[-1]]
                if len(inside) > limit:
                    kind = DecodeErrorKind.LIMIT_EXCEEDED
                    raise _refused(kind, offset, f"more than {limit} bytes inside the payload")
        except Halted as verdict:
            raise from_halt(verdict.halt, offset=offset, event_type=_TYPE) from None
        return bytes(inside), starts


def _misshapen(what: str, offset: int) -> DecodeError:
    return _refused(DecodeErrorKind.ORDER_INVALID, offset, f"{what} inside the payload")


def _refused(kind: DecodeErrorKind, offset: int, detail: str) -> DecodeError:
    return DecodeError(kind, offset=offset, event_type=_TYPE, detail=detail)
