"""The command line: run, check, checkpoint, demo.

House rules: a command reads a configuration, calls the public names and prints; it decides nothing.
Exit codes: 0 done, 2 usage or configuration, 3 halted (the halt as one JSON line on standard
error), 1 left to crashes, so that a service manager can restart crashes and leave halts alone.
"""

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

try:
    import click
except ImportError:  # the base install has no command line
    sys.exit("The command line needs its extra: pip install 'capstan[cli]'")

from capstan.config import Config
from capstan.core.gtid import GtidSet
from capstan.core.halt_catalogue import describe
from capstan.core.halts import Halt, Halted, HaltReason
from capstan.core.preflight import ServerFacts, findings, position_verdict
from capstan.core.watermark import Position, reconcile
from capstan.errors import ConfigError, PipelineHalted
from capstan.pipeline import Pipeline, live_source
from capstan.sources.base import LinkLost
from capstan.version import __version__

EXIT_CONFIG = 2
EXIT_HALTED = 3

_config_file = click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE.toml"
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Change data capture for MySQL that would rather stop than be wrong."""


def _load(file: Path) -> Config:
    try:
        return Config.from_toml(file)
    except ConfigError as error:
        _refuse(str(error))


def _refuse(text: str) -> NoReturn:
    click.echo(f"capstan: {text}", err=True)
    sys.exit(EXIT_CONFIG)


def _halted(halt: Halt) -> NoReturn:
    click.echo(json.dumps(describe(halt), ensure_ascii=False), err=True)
    sys.exit(EXIT_HALTED)


def _gtid_set(text: str) -> GtidSet:
    try:
        return GtidSet.parse(text)
    except ValueError as error:
        _refuse(str(error))


@main.command()
@_config_file
@click.option("--until", metavar="GTIDSET", help="End when everything in this set is processed.")
def run(file: Path, until: str | None) -> None:
    """Stream until stopped by a signal, halted, or done (--until)."""
    config = _load(file)
    wanted = None if until is None else _gtid_set(until)
    pipeline = Pipeline(config)
    try:
        with pipeline:
            _stop_on_signals(pipeline)
            if wanted is None:
                pipeline.wait()
            else:
                pipeline.wait_for(wanted)
    except PipelineHalted as verdict:
        _halted(verdict.halt)
    except ConfigError as error:
        _refuse(str(error))


def _stop_on_signals(pipeline: Pipeline) -> None:
    """The first SIGINT or SIGTERM drains, a second one ends the process as usual."""

    def drain(number: int, _frame: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        pipeline.request_stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, drain)


@main.command()
@_config_file
def check(file: Path) -> None:
    """Look at the server and the store: every finding with its remedy; 0 when a run would start."""
    config = _load(file)
    found = _on_link(config, lambda facts: _findings(config, facts))
    if not found:
        click.echo("ready: a run would start")
        return
    for halt in found:
        entry = describe(halt)
        click.echo(f"{halt.reason.value}: {halt.detail}")
        click.echo(f"  {entry['meaning']}")
        click.echo(f"  remedy: {entry['remedy']}")
    sys.exit(EXIT_HALTED)


def _findings(config: Config, facts: ServerFacts) -> list[Halt]:
    found = list(
        findings(
            facts,
            config.tables,
            server_id=config.source.server_id,
            accepted_cascades=config.source.accept_unlogged_cascades,
        )
    )
    if facts.supported:
        try:
            position = _position(config)
        except Halted as verdict:
            found.append(verdict.halt)
        else:
            verdict_now = position_verdict(facts, position.watermark, position.anchor)
            if verdict_now.halt is not None:
                found.append(verdict_now.halt)
    return found


def _position(config: Config) -> Position:
    """Where a run would start, without opening anything for writing."""
    store = config.store
    try:
        watermark = store.load_watermark()
        stored = None
        if watermark is not None:
            stored = Position(
                watermark=watermark,
                anchor=store.load_anchor(),
                sink_position=store.load_sink_position(),
            )
    finally:
        store.close()
    config.sink.open()
    try:
        return reconcile(stored, config.sink.position())
    finally:
        config.sink.close()


def _on_link(config: Config, use: Callable[[ServerFacts], Any]) -> Any:
    """Read the server's facts on a link of their own and use them."""
    link = live_source(config).link()
    try:
        return use(link.open())
    except LinkLost as lost:
        _halted(Halt(HaltReason.COMMAND_RETRIES_EXHAUSTED, f"the server was not reached: {lost}"))
    except Halted as verdict:
        _halted(verdict.halt)
    finally:
        link.close()


@main.group()
def checkpoint() -> None:
    """Show or set where a run starts; never while the pipeline runs."""


@checkpoint.command()
@_config_file
def show(file: Path) -> None:
    """Print the stored position as JSON."""
    store = _load(file).store
    try:
        watermark = store.load_watermark()
        anchor = store.load_anchor()
        sink_position = store.load_sink_position()
        tables = store.load_tables()
    except Halted as verdict:
        _halted(verdict.halt)
    finally:
        store.close()
    shown = {
        "watermark": None if watermark is None else str(watermark),
        "anchor": None if anchor is None else str(anchor.gtid),
        "sink_position": None if sink_position is None else str(sink_position),
        "tables": tables,
    }
    click.echo(json.dumps(shown, indent=2))


@checkpoint.command(name="set")
@_config_file
@click.argument("gtid_set", required=False, metavar="[GTIDSET]")
@click.option("--current", is_flag=True, help="Start from now: the server's gtid_executed.")
def set_position(file: Path, gtid_set: str | None, *, current: bool) -> None:
    """Start from here: everything in GTIDSET counts as processed; what came before is not read."""
    if (gtid_set is None) == (not current):
        _refuse("give either GTIDSET or --current")
    config = _load(file)
    facts: ServerFacts = _on_link(config, lambda facts: facts)
    wanted = facts.gtid_executed if gtid_set is None else _gtid_set(gtid_set)
    _write_position(config, wanted, facts)


@checkpoint.command()
@_config_file
@click.argument("gtid_set", metavar="GTIDSET")
def add(file: Path, gtid_set: str) -> None:
    """Count the transactions in GTIDSET as processed, beside what is stored: they are skipped."""
    config = _load(file)
    more = _gtid_set(gtid_set)
    facts: ServerFacts = _on_link(config, lambda facts: facts)
    try:
        stored = config.store.load_watermark() or GtidSet()
    except Halted as verdict:
        _halted(verdict.halt)
    _write_position(config, stored | more, facts)


@checkpoint.command(name="accept-tables")
@_config_file
def accept_tables(file: Path) -> None:
    """Accept the capture list as it is now; the past of new tables stays missing."""
    config = _load(file)
    try:
        config.store.hold()
        config.store.save_tables(config.tables.texts)
    except Halted as verdict:
        _halted(verdict.halt)
    finally:
        config.store.close()
    click.echo(f"accepted: {', '.join(config.tables.texts)}")


def _write_position(config: Config, wanted: GtidSet, facts: ServerFacts) -> None:
    """Write a position by hand: checked against the server, without an anchor (D13)."""
    verdict = position_verdict(facts, wanted, None)
    if verdict.halt is not None:
        _halted(verdict.halt)
    store, sink = config.store, config.sink
    try:
        store.hold()
        sink.open()
        sink_position = sink.position()
        if sink_position is not None:
            sink.set_position(wanted)
            sink_position = wanted
        store.save_watermark(wanted, None, sink_position)
    except Halted as verdict_of_edge:
        _halted(verdict_of_edge.halt)
    finally:
        sink.close()
        store.close()
    click.echo(f"position: {wanted or 'empty'}")


@main.command()
@click.option("--seconds", default=20.0, show_default=True, help="How long the workload runs.")
@click.option("--seed", type=int, help="Seed of the workload; random by default.")
@click.option("--keep", is_flag=True, help="Keep the demo's folder.")
def demo(seconds: float, seed: int | None, *, keep: bool) -> None:
    """Show the main job on a throw-away server: stream, kill, restart, compare."""
    from capstan.demo.run import main as run_demo  # noqa: PLC0415 - only the demo needs it

    sys.exit(run_demo(seconds=seconds, seed=seed, keep=keep))
