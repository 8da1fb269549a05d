"""What has to happen in a process of its own: without root's rights over files, on a small disk.

Run as a script: `poor_process.py STORE MIRROR LIMIT` streams from the fault kit's server into a
mirror until it halts or all has arrived, and prints the outcome as JSON. The superuser's right to
pass over permissions is given up first, so that a refusal is one. No file may grow over LIMIT bytes
(0: no limit).
"""

import ctypes
import json
import resource
import struct
import sys
from pathlib import Path

from capstan import Delivery, Pipeline, PipelineHalted, SqliteMirror, SqliteStore
from capstan.testing import ScriptedMysql, Table

TRANSACTIONS = 150
_VERSION_3 = 0x20080522
_DAC_OVERRIDE, _DAC_READ_SEARCH = 1, 2


def give_up_rights() -> None:
    """Obey the permissions of files like anybody else."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = ctypes.create_string_buffer(struct.pack("<Ii", _VERSION_3, 0), 8)
    sets = ctypes.create_string_buffer(24)
    assert libc.capget(header, sets) == 0
    low = list(struct.unpack("<6I", sets.raw))
    for place in range(3):
        low[place] &= ~(1 << _DAC_OVERRIDE | 1 << _DAC_READ_SEARCH)
    sets.raw = struct.pack("<6I", *low)
    assert libc.capset(header, sets) == 0


def stream(store: Path, mirror: Path) -> dict[str, str]:
    """Stream into these files until it halts or all has arrived; how it ended."""
    items = Table("shop.items", "id int unsigned", "name varchar(200)", key="id")
    with ScriptedMysql() as source:
        for number in range(1, TRANSACTIONS + 1):
            source.commit(items.insert((number, f"n{number}" * 30)))
        config = source.config(
            SqliteMirror(mirror),
            SqliteStore(store),
            tables=["shop.*"],
            delivery=Delivery(max_batch=10),
        )
        pipeline = Pipeline(config)
        try:
            pipeline.start()
            arrived = pipeline.wait_for(source.executed, timeout=60)
            pipeline.stop()
        except PipelineHalted as verdict:
            pipeline.stop()
            return {"reason": verdict.halt.reason.value, "detail": verdict.halt.detail}
        return {"reason": "", "detail": f"arrived: {arrived}"}


def main(store: Path, mirror: Path, limit: int) -> None:
    """Stream as a poor process, and print how it ended."""
    give_up_rights()
    if limit:
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    sys.stdout.write(json.dumps(stream(store, mirror)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
