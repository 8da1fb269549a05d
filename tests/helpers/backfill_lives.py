"""A backfill into a mirror that lives many lives: all but the last end with SIGKILL at a point.

Run as a program: host port user password schema folder chunk_size, then the points, each as
`point*hit`. Each life is a process of its own. The last one has no such point: it says `complete`
when the backfill is, reads from its standard input up to which position it has to stream, does so
and stops. Each chunk that reaches the mirror is logged in the folder: table, number, life.
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from capstan import (
    Change,
    Config,
    Pipeline,
    Snapshot,
    SnapshotMeta,
    Source,
    SqliteMirror,
    SqliteStore,
)
from capstan.testing import CrashPoints, kill_process

PATIENCE: Final = 120.0
SERVER_ID: Final = 60_001
LOG: Final = "chunks.log"


class LoggingMirror(SqliteMirror):
    """Logs each chunk before it is written."""

    def __init__(self, folder: Path, life: int) -> None:
        super().__init__(folder / "mirror.db")
        self._log = folder / LOG
        self._life = life

    def handle_snapshot(self, changes: Sequence[Change], meta: SnapshotMeta) -> None:
        """Log, then write."""
        with self._log.open("a", encoding="ascii") as log:
            log.write(f"{meta.table} {meta.sequence} {self._life}\n")
        super().handle_snapshot(changes, meta)


def live(config: Config, point: str) -> int:
    """One life that is to end at a point; it comes back only when it never got there."""
    name, _, hit = point.rpartition("*")
    with CrashPoints() as points:
        points.at(name, kill_process, hit=int(hit))
        with Pipeline(points.wrap(config)) as pipeline:
            pipeline.wait(PATIENCE)
    return 1


def live_on(config: Config) -> int:
    """The last life."""
    with Pipeline(config) as pipeline:
        if not pipeline.wait_snapshot(PATIENCE):
            return 2
        sys.stdout.write("complete\n")
        sys.stdout.flush()
        return 0 if pipeline.wait_for(sys.stdin.readline().strip(), PATIENCE) else 3


def main() -> int:
    """All lives, one after another; each is forked, so that nothing is imported again."""
    host, port, user, password, schema, folder, chunk_size, *points = sys.argv[1:]

    def config(life: int) -> Config:
        return Config(
            source=Source(
                host=host, port=int(port), user=user, password=password, server_id=SERVER_ID
            ),
            tables=[f"{schema}.*"],
            snapshot=Snapshot(chunk_size=int(chunk_size)),
            sink=LoggingMirror(Path(folder), life),
            store=SqliteStore(Path(folder) / "state.db"),
        )

    for life, point in enumerate(points):
        child = os.fork()
        if not child:
            os._exit(live(config(life), point))
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
            sys.stderr.write(f"life {life} never came to: {point}\n")
            return 4
    return live_on(config(len(points)))


if __name__ == "__main__":
    sys.exit(main())
