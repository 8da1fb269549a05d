"""One real MySQL server of our own: started, stopped, killed and restarted here.

Owns: the server's process, configuration, port, socket and log, and the promise that it does not
outlive this process. Refuses to know: where its programs came from, what is stored in it. It is
for demonstration and tests only: it trades durability for speed.
"""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pymysql
from pymysql.connections import Connection

from capstan.demo.mysql_access import connect_to, identity_of
from capstan.demo.mysql_install import MysqlPrograms
from capstan.demo.mysql_template import MysqlServerError, last_lines, server_user, template

LOOPBACK = "127.0.0.1"

_START_SECONDS = 120.0
_STOP_SECONDS = 60.0
_POLL_SECONDS = 0.02
_PORT_ATTEMPTS = 5
_LOWEST_PORT = 15000
# sun_path holds 108 bytes with the final zero.
_LONGEST_SOCKET_PATH = 106
_PORT_TAKEN = "Bind on TCP/IP port"

Option = str | int | None

_OPTIONS: Mapping[str, Option] = {
    "bind_address": LOOPBACK,
    "mysqlx": "OFF",
    "log_bin": "binlog",
    "gtid_mode": "ON",
    "enforce_gtid_consistency": "ON",
    "binlog_row_metadata": "FULL",
    "sync_binlog": 0,
    "innodb_flush_log_at_trx_commit": 2,
    "innodb_buffer_pool_size": "64M",
    # The kernel's aio slots are few and shared by every server on the machine.
    "innodb_use_native_aio": "OFF",
}


class MysqlServer:
    """A private server below ``directory``, reachable on loopback and on its Unix socket.

    ``options`` are server options by name, over the defaults above (a value of None takes a
    default away); :attr:`options` may be changed between a stop and the next start. ``port`` and
    ``server_uuid`` are known after the first start and then stay the same. As a context manager
    it starts the server and stops it; the directory is the caller's to remove.
    """

    host = LOOPBACK
    user = "root"

    def __init__(
        self,
        programs: MysqlPrograms,
        directory: Path,
        *,
        server_id: int = 1,
        options: Mapping[str, Option] | None = None,
    ) -> None:
        self.programs = programs
        self.directory = directory.absolute()
        self.options: dict[str, Option] = {
            **_OPTIONS,
            "server_id": server_id,
            **(options or {}),
        }
        self.port = 0
        self.server_uuid = ""
        self.version = programs.version
        self.password = ""
        self.log = self.directory / "error.log"
        self.data = self.directory / "data"
        self.files = self.directory / "files"
        self.socket = self._socket_path()
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """True while the server's process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The server's process id.

        Raises:
            MysqlServerError: it is not running.
        """
        if self._process is None or self._process.poll() is not None:
            raise MysqlServerError("the server is not running")
        return self._process.pid

    def start(self) -> None:
        """Start and return once the server answers; the first start initialises its data.

        Raises:
            MysqlServerError: it ended or did not answer in time; its last log lines are included.
        """
        if self.running:
            raise MysqlServerError("the server is already running")
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.files.mkdir(exist_ok=True)
        prepared = template(self.programs)
        self.password = prepared.password
        if not self.data.is_dir():
            prepared.copy_to(self.data)
        first = self.port == 0
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            if first:
                self.port = free_port()
            try:
                self._start_once()
            except MysqlServerError as error:
                # Another program may take the port between the choice and the bind.
                if attempt == _PORT_ATTEMPTS or _PORT_TAKEN not in str(error):
                    raise
            else:
                return

    def stop(self) -> None:
        """Shut down in good order; nothing happens when it is not running.

        Raises:
            MysqlServerError: it had to be killed.
        """
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise MysqlServerError(f"the server would not stop:\n{last_lines(self.log)}") from None
        self._forget_process()

    def kill(self) -> None:
        """SIGKILL, as a power cut would; the data directory stays for the next start."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._forget_process()

    def restart(self) -> None:
        """Stop in good order and start again on the same port, data and server_uuid."""
        self.stop()
        self.start()

    def connect(self, **overrides: Any) -> "Connection[Any]":
        """A connection as root in autocommit mode; ``overrides`` are PyMySQL's own arguments."""
        # In clear on this machine: the driver would read every authority of the system each time.
        return connect_to(self, {"ssl_disabled": True} | overrides)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _start_once(self) -> None:
        settings = self._write_configuration()
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own argument list, no shell
                [*self.programs.mysqld, f"--defaults-file={settings}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # A Ctrl-C is this process's to answer; the server is stopped afterwards.
                start_new_session=True,
            )
        self._watchdog = _watch(self._process.pid)
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.kill()
            raise

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not _listening(self.socket):
            if not self.running:
                raise MysqlServerError(f"mysqld did not start:\n{last_lines(self.log)}")
            if time.monotonic() > deadline:
                raise MysqlServerError(f"mysqld did not answer:\n{last_lines(self.log)}")
            time.sleep(_POLL_SECONDS)
        # Through the socket: whoever else may hold the TCP port cannot answer here.
        try:
            with contextlib.closing(self.connect(unix_socket=str(self.socket))) as connection:
                self.server_uuid, self.version = identity_of(connection)
        except pymysql.err.MySQLError as error:
            raise MysqlServerError(
                f"mysqld answered with error {error.args[0]}:\n{last_lines(self.log)}"
            ) from None

    def _write_configuration(self) -> Path:
        settings: dict[str, Option] = {
            **self.programs.options,
            **server_user(),
            "datadir": str(self.data),
            "socket": str(self.socket),
            "pid_file": str(self.directory / "mysqld.pid"),
            "secure_file_priv": str(self.files),
            "port": self.port,
            **self.options,
        }
        lines = [f'{name} = "{value}"' for name, value in settings.items() if value is not None]
        path = self.directory / "my.cnf"
        path.write_text("\n".join(["[mysqld]", *lines, ""]), encoding="utf-8")
        return path

    def _forget_process(self) -> None:
        self._process = None
        if self._watchdog is not None:
            self._watchdog.communicate(b"gone\n")
            self._watchdog = None

    def _socket_path(self) -> Path:
        path = self.directory / "mysql.sock"
        if len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH:
            return path
        folder = tempfile.mkdtemp(prefix="capstan-", dir="/tmp")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder) / "mysql.sock"


def _listening(path: Path) -> bool:
    """True when something accepts at the Unix socket; PyMySQL's own refused dials leak theirs."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(os.fsencode(path)) == 0


def _watch(pid: int) -> subprocess.Popen[bytes]:
    """A shell that kills ``pid`` when our end of its pipe closes without a word.

    The kernel's own parent-death signal is bound to the thread that started the child, not to the
    process, so it would kill servers whose starter thread has merely finished.
    """
    return subprocess.Popen(  # noqa: S603 - a fixed script and a number
        ["/bin/sh", "-c", 'read -r word || kill -KILL "$1"', "capstan-watchdog", str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def free_port() -> int:
    """A port nothing listens on, below the range the kernel gives to outgoing connections.

    Inside that range another program's connection could take the port while the server is down,
    and a client that dials a dead port there can even meet itself.
    """
    ports = range(_LOWEST_PORT, _first_outgoing_port())
    for _ in range(200):
        port = secrets.choice(ports)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((LOOPBACK, port))
                return port
    raise MysqlServerError("no free TCP port was found")


def _first_outgoing_port() -> int:
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii")
        return max(int(text.split()[0]), _LOWEST_PORT + 1000)
    except (OSError, ValueError, IndexError):
        return 32768
