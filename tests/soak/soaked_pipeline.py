"""One pipeline of the soak, in a process of its own: actors crash, and its sink dawdles.

Run as a script: `soaked_pipeline.py CONFIG.toml LOG CRASHES SEED`. Each actor that was started
again leaves one byte in CRASHES. It ends like the demonstration's: 0 when
it was told to stop, 3 with the halt as one JSON line on standard error.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

import attrs

from capstan import Config, Pipeline, PipelineHalted, Sink
from capstan.core.changes import Item
from capstan.core.halt_catalogue import describe
from capstan.demo.delivery_log import LoggedSink
from capstan.demo.pipeline_process import EXIT_HALTED, EXIT_STOPPED
from capstan.telemetry.events import ChildRestarted
from capstan.testing import CrashPoints, crash

_LOOK: Final = 0.5
_BETWEEN_CRASHES: Final = (30.0, 45.0)
"""Seconds; five restarts in two minutes would be one too many."""
_FIRST_CRASH: Final = (4.0, 12.0)
_SLOW: Final = 0.02
"""How many of the sink's calls are slow ones."""
_LONGEST: Final = 1.5
POINTS: Final = (
    "before checkpoint save_watermark",
    "after checkpoint save_watermark",
    "before checkpoint send WatermarkMoved",
    "before coordinator receive Assembled",
    "before coordinator send Processed",
    "after coordinator send Processed",
    "before assembler send Assembled",
    "after assembler receive PacketsRead",
    "before connection send PacketsRead",
    "after connection receive ReadOn",
)


class SlowNowAndThen(LoggedSink):
    """Takes its time before some of its calls."""

    def __init__(self, sink: Sink, log: Path, random: Random) -> None:
        super().__init__(sink, log)
        self._random = random
        self._never = threading.Event()

    def handle_batch(self, items: Sequence[Item]) -> None:
        """Dawdle, or not."""
        if self._random.random() < _SLOW:
            self._never.wait(self._random.uniform(0.1, _LONGEST))
        super().handle_batch(items)


def crash_now_and_then(points: CrashPoints, random: Random, over: threading.Event) -> None:
    """Crash an actor, again and again, until it is over."""
    wait = random.uniform(*_FIRST_CRASH)
    while not over.wait(wait):
        point = random.choice(POINTS)
        points.at(point, crash, hit=points.passed[point] + 1)
        wait = random.uniform(*_BETWEEN_CRASHES)


def noting(file: Path) -> Callable[[object], None]:
    """An observer that counts restarts in a file."""

    def note(event: object) -> None:
        if isinstance(event, ChildRestarted):
            with file.open("ab") as crashes:
                crashes.write(b".")

    return note


def main(config_file: str, log: str, crashes: str, seed: int) -> int:
    """Stream until told to stop, halted, or left alone; the exit code."""
    parent, random, over = os.getppid(), Random(seed), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    config = Config.from_toml(config_file)
    config = attrs.evolve(
        config,
        sink=SlowNowAndThen(config.sink, Path(log), Random(seed + 1)),
        observers=[noting(Path(crashes))],
    )
    with CrashPoints() as points:
        crasher = threading.Thread(target=crash_now_and_then, args=(points, random, over))
        crasher.start()
        try:
            with Pipeline(points.wrap(config)) as pipeline:
                while not (over.is_set() or pipeline.wait(_LOOK)):
                    if os.getppid() != parent:
                        break
        except PipelineHalted as verdict:
            sys.stderr.write(json.dumps(describe(verdict.halt)) + "\n")
            return EXIT_HALTED
        finally:
            over.set()
            crasher.join()
    return EXIT_STOPPED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
