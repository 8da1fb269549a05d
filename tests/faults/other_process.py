"""What has to happen in a process of its own: a store that is held, a disk that is full.

Run as a script: `hold FILE` claims a store until its input ends; `fill FILE` streams into a store
whose file may grow no more, and prints the outcome as JSON.
"""

import json
import resource
import sys
from pathlib import Path

from faults.scene import sown
from helpers import sentinels
from helpers.pipelines import Recording
from helpers.scripted_source import ScriptedSource, one_by_one

from capstan import Config, Delivery, Pipeline, PipelineHalted, Source, SqliteStore

TRANSACTIONS = 500
_SMALL = 100_000
"""Bytes a file may have: room for a new store and for the log of a few writes to it."""


def hold(file: Path) -> None:
    """Claim the store."""
    store = SqliteStore(file)
    store.hold()
    sys.stdout.write("held\n")
    sys.stdout.flush()
    sys.stdin.read()
    store.close()


def fill(file: Path) -> None:
    """Stream until the store cannot write any more."""
    sink = Recording()
    config = Config(
        source=Source(user="u", password=sentinels.PASSWORD, server_id=9),
        tables=["shop.*"],
        sink=sink,
        store=SqliteStore(file),
        delivery=Delivery(max_batch=1),
    )
    groups = [sown(number) for number in range(1, TRANSACTIONS + 1)]
    pipeline = Pipeline(config, source=ScriptedSource(lambda _: one_by_one(groups)))
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_SMALL, most))
    try:
        pipeline.start()
        pipeline.wait(60)
    except PipelineHalted as verdict:
        outcome = {"reason": verdict.halt.reason.value, "detail": verdict.halt.detail}
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    outcome |= {
        "stored": str(SqliteStore(file).load_watermark()),
        "delivered": str(len(sink.gtids)),
    }
    sys.stdout.write(json.dumps(outcome))


if __name__ == "__main__":
    {"hold": hold, "fill": fill}[sys.argv[1]](Path(sys.argv[2]))
