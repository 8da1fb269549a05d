"""`capstan checkpoint …`: the stored position, shown and set by hand.

House rules: what is written is checked against the server first, and only while nobody streams: the
store is held. The sink's own position is written before the store's: where the store is missing a
restart halts, where the sink is missing it would go on in silence (D12). A position that a person
set has no anchor (D13).
"""

import json
from pathlib import Path
from typing import Final

import click

from capstan.cli.console import config_file, gtid_set, load, refuse
from capstan.cli.held_edges import halts_told, held
from capstan.cli.server_look import judged, linked, stored_position
from capstan.config import Config
from capstan.core.gtid import GtidSet
from capstan.core.halts import Halted, HaltReason
from capstan.core.preflight import ServerFacts, findings
from capstan.core.watermark import Position, reconcile

_NO_POSITION_THERE: Final = frozenset(
    {HaltReason.SERVER_NOT_SUPPORTED, HaltReason.GTID_MODE_NOT_ON}
)
"""Findings of a server whose GTIDs mean nothing."""


@click.group()
def checkpoint() -> None:
    """Show the stored position, or set it by hand."""


@checkpoint.command()
@config_file
def show(file: Path) -> None:
    """Print what is stored, as JSON.

    May be used beside a running pipeline. Everything is null when nothing is stored yet.
    """
    store = load(file).store
    with halts_told():
        try:
            position, tables = stored_position(store), store.load_tables()
        finally:
            store.close()
    click.echo(json.dumps(_shown(position, tables), indent=2))


def _shown(position: Position | None, tables: tuple[str, ...] | None) -> dict[str, object]:
    anchor = None if position is None else position.anchor
    sink_position = None if position is None else position.sink_position
    return {
        "watermark": None if position is None else str(position.watermark),
        "anchor": None if anchor is None else str(anchor.gtid),
        "sink_position": None if sink_position is None else str(sink_position),
        "tables": tables,
    }


@checkpoint.command(name="set")
@config_file
@click.argument("text", required=False, metavar="[GTIDSET]")
@click.option("--current", is_flag=True, help="Start from now: the server's gtid_executed.")
def set_position(file: Path, text: str | None, *, current: bool) -> None:
    """Start behind a set of transactions, or from now.

    Everything in GTIDSET counts as processed, everything else does not: what a run has not
    delivered of it is passed over, what it has delivered beyond it comes again.
    """
    if (text is None) == (not current):
        refuse("give either GTIDSET or --current")
    given = None if text is None else gtid_set(text)
    with held(load(file)) as config:
        wanted = _accepted(config, given)
        _write(config, wanted)


@checkpoint.command()
@config_file
@click.argument("text", metavar="GTIDSET")
def add(file: Path, text: str) -> None:
    """Pass over some transactions.

    What is in GTIDSET counts as processed from now on, beside what is stored already.
    """
    more = gtid_set(text)
    with held(load(file)) as config:
        position = reconcile(stored_position(config.store), config.sink.position())
        wanted = _accepted(config, position.watermark | more)
        _write(config, wanted)


@checkpoint.command(name="accept-tables")
@config_file
def accept_tables(file: Path) -> None:
    """Accept a longer list of captured tables.

    The past of the new tables, up to the stored position, stays missing.
    """
    with held(load(file)) as config:
        config.store.save_tables(config.tables.texts)
    click.echo(f"tables: {', '.join(config.tables.texts)}")


def _accepted(config: Config, wanted: GtidSet | None) -> GtidSet:
    """A position that a run could start from; None stands for the server's present one."""
    with linked(config) as (link, facts):
        _refuse_useless(config, facts)
        position = Position(watermark=facts.gtid_executed if wanted is None else wanted)
        halt = judged(config, link, facts, position)
    if halt is not None:
        raise Halted(halt)
    return position.watermark


def _refuse_useless(config: Config, facts: ServerFacts) -> None:
    for halt in findings(facts, config.tables, server_id=config.source.server_id):
        if halt.reason in _NO_POSITION_THERE:
            raise Halted(halt)


def _write(config: Config, wanted: GtidSet) -> None:
    store, sink = config.store, config.sink
    sink_position = None
    if sink.position() is not None:
        sink.open()
        sink.set_position(wanted)
        sink_position = wanted
    store.save_watermark(wanted, None, sink_position)
    click.echo(f"position: {wanted or 'the beginning'}")
