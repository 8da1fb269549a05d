"""The command line over one configuration file: in this process, or in one of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import click.testing

from capstan.cli import main
from capstan.demo.mysql_access import SqlServer
from helpers.mysql import execute
from helpers.waiting import wait_until

PASSWORD_VARIABLE = "CAPSTAN_TEST_PASSWORD"
PROGRAM = (str(Path(sysconfig.get_path("scripts"), "capstan")),)
"""The installed program."""
MIRROR = 'kind = "sqlite"\npath = "mirror.db"'
STANDARD_OUTPUT = 'kind = "jsonl"\npath = "-"'


class Process:
    """One command in a process of its own."""

    def __init__(self, arguments: list[str]) -> None:
        # Unbuffered streams have no lock for a hung thread to hold: not what a user has.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
        self._process = subprocess.Popen(
            arguments,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def has_ended(self) -> bool:
        """Whether it has."""
        return self._process.poll() is not None

    def ended(self, timeout: float = 40) -> tuple[int, str, str]:
        """Wait for its end: exit code, standard output, standard error."""
        output, errors = self._process.communicate(timeout=timeout)
        return self._process.returncode, output, errors

    def ended_unread(self, timeout: float = 40) -> tuple[int, str]:
        """Wait for its end, its standard output full or closed: exit code, standard error."""
        code = self._process.wait(timeout)
        assert self._process.stderr is not None
        return code, self._process.stderr.read()

    def read_line(self) -> str:
        """The next line of its standard output."""
        assert self._process.stdout is not None
        return str(self._process.stdout.readline())

    def close_output(self) -> None:
        """Stop reading its standard output for good."""
        assert self._process.stdout is not None
        self._process.stdout.close()

    def close(self) -> None:
        """Kill it, when it has not ended, and let go of what is left."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


@attrs.frozen(kw_only=True)
class Shop:
    """A configuration file over a server.

    Attributes:
        file: The configuration.
        server_id: The reader's id in it.
    """

    file: Path
    server_id: int = attrs.field(factory=lambda: 100_000 + os.getpid())
    _processes: list[Process] = attrs.field(factory=list)

    def write(
        self,
        server: SqlServer,
        *tables: str,
        sink: str = MIRROR,
        source: str = "",
        more: str = "",
    ) -> "Shop":
        """Write the configuration; `source` and `more` are lines of TOML."""
        self.file.write_text(
            f"tables = {json.dumps(tables)}\n"
            f'[source]\nhost = "{server.host}"\nport = {server.port}\nuser = "{server.user}"\n'
            f'password = {{ env = "{PASSWORD_VARIABLE}" }}\nserver_id = {self.server_id}\n'
            f'{source}\n[store]\nkind = "sqlite"\npath = "state.db"\n[sink]\n{sink}\n{more}\n',
            encoding="utf-8",
        )
        return self

    @property
    def mirror(self) -> Path:
        """The mirror's file."""
        return self.file.with_name("mirror.db")

    @property
    def state(self) -> Path:
        """The store's file."""
        return self.file.with_name("state.db")

    def files(self) -> set[str]:
        """What lies beside the configuration."""
        return {path.name for path in self.file.parent.iterdir()} - {self.file.name}

    def start(self, command: str, *arguments: str, program: Sequence[str] = PROGRAM) -> Process:
        """Start a command in a process of its own."""
        process = Process([*program, *command.split(), str(self.file), *arguments])
        self._processes.append(process)
        return process

    def stream(self, server: SqlServer, *arguments: str) -> Process:
        """Start a run, and wait until the server knows it as a reader."""
        process = self.start("run", *arguments)
        with contextlib.closing(server.connect()) as connection:
            wait_until(
                lambda: process.has_ended() or self._is_reader(connection),
                what="a run that streams",
            )
        return process

    def _is_reader(self, connection: Any) -> bool:
        return self.server_id in {row[0] for row in execute(connection, "SHOW REPLICAS")}

    def start_from_now(self) -> None:
        """Set the position to the server's present one, in store and sink."""
        result = self.invoke("checkpoint set", "--current")
        assert result.exit_code == 0, result.output

    def invoke(self, command: str, *arguments: str) -> click.testing.Result:
        """Run a command in this process."""
        return invoke(*command.split(), str(self.file), *arguments)

    def shown(self) -> dict[str, Any]:
        """What `checkpoint show` shows."""
        return dict(json.loads(self.invoke("checkpoint show").stdout))

    def close(self) -> None:
        """End every process."""
        for process in self._processes:
            process.close()


def invoke(*arguments: str) -> click.testing.Result:
    """Run the program in this process."""
    return click.testing.CliRunner().invoke(main, list(arguments))


def halt_in(errors: str) -> dict[str, Any]:
    """The halt on standard error, where nothing else may stand."""
    (line,) = errors.splitlines()
    return dict(json.loads(line))
