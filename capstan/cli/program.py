"""The program `capstan`: its commands under one name.

House rules: what nobody expected ends here, without its text (`console.value_free`). A command's
file is imported when the command is called for: who looks into a file pays for no driver.
"""

import sys
from importlib import import_module
from typing import Final

import click

from capstan.cli.console import value_free
from capstan.version import __version__

_HOMES: Final = {
    "run": "capstan.cli.run_command",
    "check": "capstan.cli.check_command",
    "checkpoint": "capstan.cli.position_commands",
    "snapshot": "capstan.cli.snapshot_commands",
    "verify": "capstan.cli.verify_command",
    "inspect": "capstan.cli.inspect_command",
}


class _Program(click.Group):
    """The group of all commands, with a value-free way out for crashes."""

    def invoke(self, ctx: click.Context) -> object:
        """Carry the command out."""
        with value_free():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order in which they are needed."""
        return [*_HOMES, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command, imported now if it lives in a file of its own."""
        home = _HOMES.get(cmd_name)
        if home is None:
            return super().get_command(ctx, cmd_name)
        command = getattr(import_module(home), cmd_name)
        assert isinstance(command, click.Command)
        return command


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
