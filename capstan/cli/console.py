"""What all commands share: the file they read, their exit codes, their last words.

House rules: every way out is here, each with its exit code. Nothing printed holds a value, a
statement or a secret: of an exception that nobody expected only its class and lines of code.
"""

import json
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

import click

from capstan.config import Config
from capstan.core.gtid import GtidSet
from capstan.core.halt_catalogue import describe
from capstan.core.halts import Halt
from capstan.errors import ConfigError
from capstan.runtime import Crash

EXIT_CRASHED: Final = 1
EXIT_REFUSED: Final = 2
EXIT_HALTED: Final = 3
EXIT_INTERRUPTED: Final = 130

config_file = click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE.toml"
)
"""The argument that nearly every command has."""


def load(file: Path) -> Config:
    """Read the configuration, or end the command."""
    try:
        return Config.from_toml(file)
    except ConfigError as error:
        refuse(str(error))


def gtid_set(text: str) -> GtidSet:
    """Read a set that was typed, or end the command."""
    try:
        return GtidSet.parse(text)
    except ValueError as error:
        refuse(str(error))


def refuse(why: str) -> NoReturn:
    """End the command: it cannot be carried out as it was asked for."""
    click.echo(f"capstan: {why}", err=True)
    sys.exit(EXIT_REFUSED)


def tell_halt(halt: Halt) -> None:
    """Print a halt as one JSON line on standard error, in ASCII: right in any locale."""
    click.echo(json.dumps(describe(halt)), err=True)


def end_halted(halt: Halt) -> NoReturn:
    """End the command with a halt."""
    tell_halt(halt)
    sys.exit(EXIT_HALTED)


@contextmanager
def value_free() -> Iterator[None]:
    """Let what nobody expected leave without its text, which may hold values, and with exit 1.

    Other threads, and objects that are collected, print their exceptions in the same way.
    """
    hooks = threading.excepthook, sys.unraisablehook
    threading.excepthook = lambda raised: _tell_crash(raised.exc_value)
    sys.unraisablehook = lambda raised: _tell_crash(raised.exc_value)
    try:
        yield
    except (click.ClickException, click.exceptions.Exit):
        raise
    except (KeyboardInterrupt, click.Abort):
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:  # who read our output has gone; click knows what to do
        raise
    except Exception as error:  # noqa: BLE001 - the last stop: nothing goes on behind it
        _tell_crash(error)
        sys.exit(EXIT_CRASHED)
    finally:
        threading.excepthook, sys.unraisablehook = hooks


def _tell_crash(error: BaseException | None) -> None:
    if error is None or isinstance(error, SystemExit):
        return
    if error.__traceback__ is None:
        click.echo(f"capstan: crashed: {type(error).__name__}", err=True)
        return
    click.echo(f"capstan: crashed: {Crash.of(error)}; this is a bug, please report it", err=True)
    frames = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__))
    click.echo("".join(frames.format()), err=True, nl=False)
