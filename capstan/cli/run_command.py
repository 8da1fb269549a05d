"""`capstan run`: one pipeline in the foreground.

House rules: the signals are caught before the pipeline starts, because a start can take as long as
a dial. However the pipeline ends, the process does: a thread that hangs is left behind.
"""

import os
from contextlib import nullcontext
from pathlib import Path

import click

from capstan.cli.console import (
    EXIT_HALTED,
    config_file,
    end_halted,
    gtid_set,
    load,
    refuse,
    tell_halt,
)
from capstan.cli.run_progress import progress
from capstan.cli.stop_signals import StopSignals, end_by
from capstan.config import Config
from capstan.core.gtid import GtidSet
from capstan.errors import ConfigError, PipelineHalted
from capstan.pipeline import Pipeline
from capstan.sinks.jsonl import JsonLinesSink


@click.command()
@config_file
@click.option(
    "--until",
    metavar="GTIDSET",
    help="End when every transaction of this set is processed and the backfill, if any, complete.",
)
def run(file: Path, until: str | None) -> None:
    """Stream into the sink until stopped, halted or done.

    Ctrl-C (SIGINT) and SIGTERM drain: what is assembled is delivered and its position stored, then
    the command ends with 0, or, with --until and before the set was reached, as the signal itself
    would have ended it. A second signal ends it at once; nothing is lost by that. On a terminal,
    standard error shows how it goes, unless the changes themselves go to standard output.
    """
    config = load(file)
    wanted = None if until is None else gtid_set(until)
    pipeline = Pipeline(config)
    with StopSignals(pipeline.request_stop) as signals:
        try:
            with nullcontext() if _prints(config) else progress(pipeline):
                done = _stream(pipeline, wanted, backfills=config.snapshot is not None)
        except ConfigError as error:
            refuse(str(error))
        except PipelineHalted as verdict:
            if _left_behind(pipeline):
                # The interpreter's own way out would wait for what the stuck thread holds.
                tell_halt(verdict.halt)
                os._exit(EXIT_HALTED)
            end_halted(verdict.halt)
    if not done and signals.received is not None:
        click.echo("capstan: stopped before everything of --until was processed", err=True)
        end_by(signals.received)


def _stream(pipeline: Pipeline, wanted: GtidSet | None, *, backfills: bool) -> bool:
    with pipeline:
        if wanted is None:
            return pipeline.wait()
        return (not backfills or pipeline.wait_snapshot()) and pipeline.wait_for(wanted)


def _prints(config: Config) -> bool:
    return isinstance(config.sink, JsonLinesSink)


def _left_behind(pipeline: Pipeline) -> bool:
    """Whether a thread of the pipeline did not end, in a sink that hangs most likely."""
    waiting = list(pipeline.status().tree)
    while waiting:
        child = waiting.pop()
        if child["would_not_stop"]:
            return True
        below = child["children"]
        assert isinstance(below, list)
        waiting += below
    return False
