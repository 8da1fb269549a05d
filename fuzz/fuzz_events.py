"""Coverage-guided fuzzing of everything that reads bytes or texts from outside.

House rules: whatever the bytes, a reader gives a value or raises what its contract names; any other
exception ends the run with the input that caused it. The first byte of an input chooses the reader,
so that one corpus serves all of them.

    python fuzz/fuzz_events.py [corpus folder] [libFuzzer options]
"""

import struct
import sys
from collections.abc import Callable
from typing import Final

import atheris

with atheris.instrument_imports(include=["capstan.core"]):
    from capstan.core.assembly import Fold
    from capstan.core.binlog import log_events, payload, table_map
    from capstan.core.binlog.framing import PacketCutter, Packets
    from capstan.core.binlog.json_shapes import JsonTexts
    from capstan.core.binlog.json_value import json_text
    from capstan.core.binlog.row_compiler import compile_rows
    from capstan.core.epoch import Epoch
    from capstan.core.gtid import GtidSet
    from capstan.core.halts import Halted
    from capstan.core.limits import Budget
    from capstan.core.tables import CaptureList

_MOST_HELD: Final = 1 << 20
_SIZE_AT: Final = 9
_HEADER: Final = 19


def stream(data: bytes) -> None:
    """Events of a file without checksums, through the fold: whole transactions or a halt."""
    fold = Fold(CaptureList.parse(None), Budget(memory=_MOST_HELD, total=_MOST_HELD))
    fold.open(Epoch(start=GtidSet(), server_uuid="", checksums=False))
    bounds, position = [0], 0
    while position + _HEADER <= len(data):
        (size,) = struct.unpack_from("<I", data, position + _SIZE_AT)
        position = min(position + max(size, 1), len(data))
        bounds.append(position)
    for item in fold.feed(Packets(data, bounds, gap=0)):
        repr(item)


def packets(data: bytes) -> None:
    """Packets off a socket, cut in two places."""
    cutter = PacketCutter()
    third = len(data) // 3
    for piece in (data[:third], data[third : 2 * third], data[2 * third :]):
        cutter.feed(piece)


def rows(data: bytes) -> None:
    """A table map, and a row event for it, of the length that the first byte says."""
    if data:
        body, event = data[1 : 1 + data[0]], data[1 + data[0] :]
        decoder = compile_rows(table_map.parse(body))
        for pairs in (False, True):
            decoder.images(event, 0, len(event), pairs)


def document(data: bytes) -> None:
    """A JSON document: the code written for its shape agrees with the judge."""
    try:
        expected = json_text(data)
    except (ValueError, IndexError, struct.error):
        return
    texts = JsonTexts(sightings=1)
    for _ in range(20):
        if texts.text(data) != expected:
            raise AssertionError("two readers of one document disagree")


def compressed(data: bytes) -> None:
    """The body of a TRANSACTION_PAYLOAD, opened piece by piece up to a bound."""
    held = 0
    for piece in payload.open_payload(data, 0, len(data)):
        held += len(piece.data)
        if held > _MOST_HELD:
            return


def control(data: bytes) -> None:
    """The bodies of control events."""
    for read in (
        log_events.read_gtid,
        log_events.read_tagged_gtid,
        log_events.read_query,
        log_events.read_format_description,
        log_events.read_previous_gtids,
        log_events.read_rotate,
    ):
        try:
            read(data, 0, len(data))
        except Halted:
            continue


def gtid_text(data: bytes) -> None:
    """A GTID set as text: what is read prints to what reads to the same set."""
    found = GtidSet.parse(data.decode("latin-1"))
    if GtidSet.parse(str(found)) != found:
        raise AssertionError("a GTID set does not survive its own text")


def gtid_wire(data: bytes) -> None:
    """A GTID set as the protocol has it: likewise."""
    found = GtidSet.decode(data)
    if GtidSet.decode(found.encode()) != found:
        raise AssertionError("a GTID set does not survive its own bytes")


READERS: Final[tuple[tuple[Callable[[bytes], None], tuple[type[Exception], ...]], ...]] = (
    (stream, ()),
    (packets, (Halted,)),
    (rows, (Halted,)),
    (document, ()),
    (compressed, (Halted,)),
    (control, ()),
    (gtid_text, (ValueError,)),
    (gtid_wire, (ValueError,)),
)
"""Each reader, and the exceptions that its contract names."""


def one_input(data: bytes) -> None:
    """Give one input to the reader that its first byte chooses."""
    if not data:
        return
    reader, contract = READERS[data[0] % len(READERS)]
    try:
        reader(data[1:])
    except contract:
        return


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
