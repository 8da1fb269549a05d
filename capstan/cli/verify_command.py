"""`capstan verify`: source and sink beside each other, at exact positions, while writers write.

House rules: the command streams as a run would, so that the sink stands exactly where each range
was read; it ends when every table was looked at. Printed are names, numbers of ranges and counts.
"""

import json
import sys
from pathlib import Path
from typing import Final

import click

from capstan.cli.console import config_file, end_halted, load, refuse
from capstan.cli.stop_signals import StopSignals, end_by
from capstan.core.verification import TableVerdict, Verification
from capstan.errors import ConfigError, PipelineHalted
from capstan.pipeline import Pipeline

EXIT_DIFFERS: Final = 4


@click.command()
@config_file
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
def verify(file: Path, *, as_json: bool) -> None:
    """Compare every captured table of the source with the sink.

    Streams meanwhile, as `capstan run` does; a backfill that has begun is ended first. Ends with 0
    when all is identical, with 4 when it is not, or when a table could not be compared.
    """
    config = load(file)
    pipeline = Pipeline(config, verifies=True)
    outcome = None
    with StopSignals(pipeline.request_stop) as signals:
        try:
            with pipeline:
                outcome = pipeline.verify()
        except (ConfigError, ValueError) as error:
            refuse(str(error))
        except PipelineHalted as verdict:
            end_halted(verdict.halt)
    if outcome is None:
        click.echo("capstan: stopped before every table was compared", err=True)
        if signals.received is not None:
            end_by(signals.received)
        return
    click.echo(json.dumps(_as_json(outcome)) if as_json else _as_lines(outcome))
    sys.exit(0 if outcome.identical else EXIT_DIFFERS)


def _as_json(outcome: Verification) -> dict[str, object]:
    return {"identical": outcome.identical, "tables": list(map(_table_as_json, outcome.tables))}


def _table_as_json(table: TableVerdict) -> dict[str, object]:
    return {
        "table": str(table.name),
        "rows": table.rows,
        "ranges": table.ranges,
        "refused": table.refused and table.refused.value,
        "findings": [
            {
                "range": finding.number,
                "missing": finding.differences.missing,
                "extra": finding.differences.extra,
                "differing": finding.differences.differing,
            }
            for finding in table.findings
        ],
    }


def _as_lines(outcome: Verification) -> str:
    lines = [_line(table) for table in outcome.tables]
    return "\n".join([*lines, f"identical: {'yes' if outcome.identical else 'no'}"])


def _line(table: TableVerdict) -> str:
    if table.refused is not None:
        return f"{table.name}: not compared to its end: {table.refused.value}"
    if not table.findings:
        return f"{table.name}: {table.rows} rows, identical"
    counts = table.differences
    ranges = ", ".join(str(finding.number) for finding in table.findings)
    return (
        f"{table.name}: {counts.missing} missing, {counts.extra} extra, "
        f"{counts.differing} differing of {table.rows} rows, in range {ranges} of {table.ranges}"
    )
