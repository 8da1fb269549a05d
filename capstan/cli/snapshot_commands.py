"""`capstan snapshot …`: how far the backfill is, and how to begin it again.

House rules: keys are values, so a cursor is never shown. A redo is written only while nobody
streams; the next run tells the sink of it, ahead of any schema change.
"""

import json
from pathlib import Path

import click

from capstan.cli.console import config_file, load, refuse
from capstan.cli.held_edges import halts_told, held
from capstan.core.snapshot.progress import SnapshotState, TableProgress
from capstan.core.tables import TableName


@click.group()
def snapshot() -> None:
    """Show how far the backfill is, or begin it again."""


@snapshot.command()
@config_file
def show(file: Path) -> None:
    """Print how far each table is, as JSON.

    May be used beside a running pipeline. Null when no backfill has begun.
    """
    store = load(file).store
    with halts_told():
        try:
            state = store.load_snapshot()
        finally:
            store.close()
    click.echo(json.dumps(None if state is None else _shown(state), indent=2))


def _shown(state: SnapshotState) -> dict[str, object]:
    return {
        "complete": state.complete,
        "patterns": state.patterns,
        "tables": {str(table.name): _table_shown(table) for table in state.tables},
    }


def _table_shown(table: TableProgress) -> dict[str, object]:
    return {"rows": table.rows, "chunks": table.sequence, "complete": table.complete}


@snapshot.command()
@config_file
@click.argument("table", required=False, metavar="[SCHEMA.TABLE]")
def redo(file: Path, table: str | None) -> None:
    """Backfill one table again, or all of them.

    The next run begins with the table's first chunk, which empties it in the sink, and streams
    meanwhile. Without SCHEMA.TABLE the list of tables is made afresh, too.
    """
    with held(load(file)) as config:
        if config.snapshot is None:
            refuse("the configuration has no [snapshot] section")
        state = config.store.load_snapshot()
        if state is None:
            refuse("no backfill has begun: the next run begins one")
        again = _named(state, table)
        config.store.clear_snapshot(None if table is None else again[0])
    click.echo(f"to be backfilled again: {', '.join(map(str, again))}")


def _named(state: SnapshotState, table: str | None) -> tuple[TableName, ...]:
    names = tuple(one.name for one in state.tables)
    if table is None:
        return names
    found = tuple(name for name in names if str(name) == table)
    if not found:
        refuse(f"no table of the backfill is called {table!r}")
    return found
