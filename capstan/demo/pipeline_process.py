"""The demonstration's pipeline, in a process of its own that may be killed at any moment.

Owns: the process: its signals, its end when its parent is gone, its exit codes (0 stopped,
2 refused configuration, 3 halted with the halt as one JSON line on standard error). It is an
ordinary program; the demonstration adds only a log around the sink.

    python -m capstan.demo.pipeline_process CONFIG.toml LOG
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import attrs

from capstan.config import Config
from capstan.core.halt_catalogue import describe
from capstan.demo.delivery_log import LoggedSink
from capstan.errors import ConfigError, PipelineHalted
from capstan.pipeline import Pipeline

EXIT_STOPPED = 0
EXIT_CONFIG = 2
EXIT_HALTED = 3

_LOOK_SECONDS = 0.5


def main(config_file: str, log: str) -> int:
    """Stream until told to stop, halted, or left alone; the exit code."""
    parent = os.getppid()
    try:
        config = Config.from_toml(config_file)
        pipeline = Pipeline(attrs.evolve(config, sink=LoggedSink(config.sink, Path(log))))
        told = _stop_on_signal(pipeline)
        with pipeline:
            while not (told.is_set() or pipeline.wait(_LOOK_SECONDS)):
                if os.getppid() != parent:
                    break
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_CONFIG
    except PipelineHalted as verdict:
        sys.stderr.write(json.dumps(describe(verdict.halt)) + "\n")
        return EXIT_HALTED
    return EXIT_STOPPED


def _stop_on_signal(pipeline: Pipeline) -> threading.Event:
    """Drain at SIGTERM; the event is for a signal that comes before there is anything to drain."""
    told = threading.Event()

    def drain(_number: int, _frame: FrameType | None) -> None:
        told.set()
        pipeline.request_stop()

    signal.signal(signal.SIGTERM, drain)
    # A Ctrl-C is the parent's to answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return told


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
