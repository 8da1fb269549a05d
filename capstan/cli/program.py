"""The program `capstan`: its commands under one name.

House rules: what nobody expected ends here, without its text (`console.value_free`).
"""

import sys

import click

from capstan.cli.check_command import check
from capstan.cli.console import value_free
from capstan.cli.inspect_command import inspect
from capstan.cli.position_commands import checkpoint
from capstan.cli.run_command import run
from capstan.cli.snapshot_commands import snapshot
from capstan.cli.verify_command import verify
from capstan.version import __version__


class _Program(click.Group):
    """The group of all commands, with a value-free way out for crashes."""

    def invoke(self, ctx: click.Context) -> object:
        """Carry the command out."""
        with value_free():
            return super().invoke(ctx)


@click.group(
    cls=_Program,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 2 usage or configuration, 3 halted (the halt as one JSON line on "
    "standard error), 4 not identical (verify), 1 a crash.",
)
@click.version_option(__version__, prog_name="capstan")
def main() -> None:
    """Change data capture for MySQL that would rather stop than be wrong."""


@main.command()
@click.option(
    "--seconds",
    default=20.0,
    show_default=True,
    type=click.FloatRange(min=1),
    help="How long the workload runs.",
)
@click.option("--seed", type=int, help="Seed of the workload; random by default.")
@click.option("--keep", is_flag=True, help="Leave the folder with mirror and logs behind.")
def demo(seconds: float, seed: int | None, *, keep: bool) -> None:
    """Stream, kill, restart and compare, on a throw-away server.

    Ends with 0 only when mirror and source are identical and nothing was delivered twice.
    """
    from capstan.demo.run import main as run_demo  # noqa: PLC0415 - only the demo needs it

    sys.exit(run_demo(seconds=seconds, seed=seed, keep=keep))


main.add_command(run)
main.add_command(check)
main.add_command(checkpoint)
main.add_command(snapshot)
main.add_command(verify)
main.add_command(inspect)
