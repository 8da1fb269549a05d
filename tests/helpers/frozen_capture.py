"""A process that stops itself between LOCK and touch of a capture, as if the machine had frozen.

Run as a program: host, port, user, password, table. When it goes on it says what became of the
capture, and whether the next one succeeds.
"""

import contextlib
import os
import signal
import sys

from capstan import config
from capstan.core.tables import CaptureList, TableName
from capstan.sources.base import CaptureMissed
from capstan.sources.exact_view import ExactViewSource
from helpers.exact_views import before


def say(word: str) -> None:
    """Tell the test."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def main(host: str, port: str, user: str, password: str, table: str) -> None:
    """Capture and freeze."""
    patterns = CaptureList.parse([table])
    source = config.Source(host=host, port=int(port), user=user, password=password, server_id=9)
    made = ExactViewSource(source, config.Snapshot(tables=patterns), patterns, patterns)
    with contextlib.closing(made.view()) as view:
        view.open()
        before(view, "SELECT 1 FROM", lambda: os.kill(os.getpid(), signal.SIGSTOP))
        name = TableName(*table.split("."))
        try:
            view.pin(name)
            say("captured")
        except CaptureMissed:
            say("missed")
        view.pin(name)
        say("captured")


if __name__ == "__main__":
    main(*sys.argv[1:])
