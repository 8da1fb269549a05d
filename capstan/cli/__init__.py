"""The command line: run, check, checkpoint, demo.

House rules: a command reads a configuration, calls what the library offers and prints; it decides
nothing. Exit codes: 0 done, 2 usage or configuration, 3 halted (the halt as one JSON line on
standard error), 1 left to crashes, so that a service manager can restart crashes and leave halts
alone. Only `capstan.cli` knows click.
"""

import sys

try:
    import click  # noqa: F401 - looked for here, once, before the commands import it
except ImportError:  # the base install has no command line
    sys.stderr.write("The command line needs its extra: pip install 'capstan[cli]'\n")
    sys.exit(2)

from capstan.cli.program import main

__all__ = ["main"]
