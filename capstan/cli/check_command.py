"""`capstan check`: everything that stands in the way of a run, at once.

House rules: a look, nothing else. It writes nothing and makes no file, beside a running pipeline
too. That a pipeline holds the store is told, but is no finding: whoever checks a running pipeline
wants to know what a start after it would meet.
"""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import attrs
import click

from capstan.cli.console import EXIT_HALTED, config_file, load, tell_halt
from capstan.cli.server_look import judged, linked, stored_position, viewed
from capstan.config import Config
from capstan.core.halt_catalogue import CATALOGUE
from capstan.core.halts import Halt, Halted, HaltReason
from capstan.core.preflight import findings
from capstan.core.snapshot.progress import check_drift
from capstan.core.tables import widened
from capstan.core.watermark import Position, reconcile
from capstan.stores.base import Store


@click.command()
@config_file
def check(file: Path) -> None:
    """Tell everything that stands in the way of a run.

    Looks at the server, the store and the sink, changes nothing, and may be used beside a running
    pipeline. Each finding comes with its remedy. Ends with 0 only when a run would start, else with
    3; then standard error, unless it is a terminal, gets the findings as one JSON line.
    """
    look = _Look(load(file))
    look.at_edges()
    look.at_server()
    look.at_tables()
    if look.held:
        click.echo("note: a pipeline holds the store; a run can start when that one has ended")
    if not look.found:
        click.echo(f"ready: a run would start {look.place}")
        return
    _report(look.found)
    sys.exit(EXIT_HALTED)


def _report(found: list[Halt]) -> None:
    for halt in found:
        entry = CATALOGUE[halt.reason]
        click.echo(f"{halt}\n  {entry.meaning}\n  remedy: {entry.remedy}")
        click.echo(f"  more: {entry.document}\n")
    click.echo(f"{len(found)} finding{'s' if len(found) > 1 else ''}: a run would not start")
    if not sys.stderr.isatty():
        tell_halt(attrs.evolve(found[0], also=tuple(found[1:])))


class _Look:
    """One look at everything.

    Attributes:
        found: What stands in the way, in the order in which a run would meet it.
        held: Whether a pipeline holds the store.
    """

    def __init__(self, config: Config) -> None:
        self.found: list[Halt] = []
        self.held = False
        self._config = config
        self._position: Position | None = None

    @property
    def place(self) -> str:
        """Where a run would start, in words."""
        if self._seeds:
            return "where the source stands then, and read the rows of before"
        if self._position is None or not self._position.watermark:
            return "at the first transaction of the source"
        return f"behind {self._position.watermark}"

    @property
    def _seeds(self) -> bool:
        """Whether a run would begin at the server's present position, with a backfill."""
        empty = self._position is not None and not self._position.watermark
        return self._config.snapshot is not None and empty

    def at_edges(self) -> None:
        """What a run would meet before it dials (D12, D16)."""
        stored, readable = None, False
        with self._finding(), closing(self._config.store) as store:
            stored, readable = self._at_store(store), True
        with self._finding(), closing(self._config.sink) as sink:
            reported = sink.position()
            if readable:
                self._position = reconcile(stored, reported)

    def _at_store(self, store: Store) -> Position | None:
        stored, accepted = stored_position(store), store.load_tables()
        if stored is not None or accepted is not None:
            self.held = _is_held(store)
        patterns = self._config.snapshot_tables.texts
        state = None if self._config.snapshot is None else store.load_snapshot()
        if stored is not None and accepted is not None:
            new = widened(accepted, self._config.tables.texts)
            will_be_read = bool(patterns) and state is None and not widened(patterns, new)
            if new and not will_be_read:
                drift = Halt(HaltReason.CAPTURE_CONFIG_DRIFTED, f"new: {', '.join(new)}")
                self.found.append(drift)
        if state is not None:
            with self._finding():
                check_drift(state, patterns)
        return stored

    def at_server(self) -> None:
        """What a run would meet when it dials (D14, D26)."""
        source = self._config.source
        with self._finding(), linked(self._config) as (link, facts):
            self.found += findings(
                facts,
                self._config.tables,
                server_id=source.server_id,
                accepted_cascades=source.accept_unlogged_cascades,
                allowed_sources=source.allowed_sources,
            )
            if facts.supported and self._position is not None and not self._seeds:
                halt = judged(self._config, link, facts, self._position)
                self.found += [] if halt is None else [halt]

    def at_tables(self) -> None:
        """What a backfill would meet: rights, engines, keys (D4, D5)."""
        if self._config.snapshot is None or self.found:
            return
        with self._finding(), viewed(self._config, self._config.snapshot) as view:
            self.found += view.findings()

    @contextmanager
    def _finding(self) -> Iterator[None]:
        """What ends the block is a finding, not the end."""
        try:
            yield
        except Halted as verdict:
            self.found.append(verdict.halt)


def _is_held(store: Store) -> bool:
    """Whether somebody else holds the store, which exists: where it does not, nothing is made."""
    try:
        store.hold()
    except Halted as verdict:
        if verdict.halt.reason is not HaltReason.STORE_LOCKED:
            raise
        return True
    finally:
        store.close()
    return False
