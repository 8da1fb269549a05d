"""Keep the tables of one database in a SQLite file, transaction by transaction, exactly once.

Usage: PASSWORD=… python examples/mirror_to_sqlite.py HOST PORT USER 'shop.*' shop.mirror

Ctrl-C or SIGTERM drains and ends it with status 0. When it halts it says why and ends with status
3: mend the cause, then start it again. It may be killed at any moment: the position stands in the
mirror itself, beside the rows.
"""

import os
import signal
import sys
from types import FrameType
from typing import Any

import capstan


def report(event: Any) -> None:
    """Print what happens to the pipeline; telemetry never holds values of rows."""
    print(event, file=sys.stderr, flush=True)


def configure(arguments: list[str]) -> capstan.Config:
    """The pipeline that the command line asks for."""
    host, port, user, pattern, mirror = arguments
    return capstan.Config(
        source=capstan.Source(
            host=host,
            port=int(port),
            user=user,
            password=os.environ["PASSWORD"],
            server_id=4243,
        ),
        tables=[pattern],
        sink=capstan.SqliteMirror(mirror),
        store=capstan.SqliteStore(f"{mirror}.state"),
        observers=[report],
    )


def main() -> int:
    """Run until asked to stop; the exit status."""
    pipeline = capstan.Pipeline(configure(sys.argv[1:]))

    def stop(_number: int, _frame: FrameType | None) -> None:
        pipeline.request_stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        with pipeline:
            pipeline.wait()
    except capstan.PipelineHalted as verdict:
        halt = verdict.halt
        print(f"{halt}; what to do: docs/halts.md#{halt.reason}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
