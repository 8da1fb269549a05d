"""CRC32 of events.

House rules: an event is checked with its stored checksum included, which gives one known constant;
so the stored value need not be cut out. Large events are checked in steps: zlib lets go of the
interpreter lock for buffers over 5 KB, and handing it over for every event costs more than the sum.
"""

from zlib import crc32

RESIDUE = 0x2144DF1C
"""CRC32 of any bytes followed by their own little-endian CRC32."""

STEP = 5000


def intact(data: bytes, start: int, end: int) -> bool:
    """Whether the event `data[start:end]`, its last four bytes being its CRC32, is as written."""
    if end - start <= STEP:
        return crc32(data[start:end]) == RESIDUE
    value = 0
    for position in range(start, end, STEP):
        value = crc32(data[position : min(position + STEP, end)], value)
    return value == RESIDUE
