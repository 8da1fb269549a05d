"""One initialised data directory per MySQL version, made once and copied for every server.

Owns: the prepared directory in the cache and the root password that all its copies share. The
cache is private to its user, and so is the password: another user of this machine cannot become
root of a throw-away server through its port. Refuses to know: how a server is run.
"""

import os
import re
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

import attrs

from capstan.demo.mysql_install import MysqlPrograms, locked

_INITIALISE_SECONDS = 300.0
_LAST_LINES = 15


class MysqlServerError(Exception):
    """A server of our own did not do what it was told; the message ends with its last log lines."""


@attrs.frozen(kw_only=True)
class Template:
    """An initialised data directory that no server runs on, and root's password in it."""

    data: Path
    password: str = attrs.field(repr=False)

    def copy_to(self, data: Path) -> None:
        """Give a new server its data; without ``auto.cnf`` it takes a server_uuid of its own."""
        shutil.copytree(self.data, data, ignore=shutil.ignore_patterns("auto.cnf"))


def template(programs: MysqlPrograms) -> Template:
    """The prepared directory for this version, initialised now when there is none yet.

    Raises:
        MysqlServerError: mysqld did not initialise a data directory.
    """
    name = re.sub(r"[^A-Za-z0-9.+-]", "_", programs.version)
    place = programs.cache / f"data-{name}"
    if not place.is_dir():
        with locked(programs.cache / f"data-{name}.lock"):
            if not place.is_dir():
                _initialise(programs, place)
    password = (place / "password").read_text(encoding="ascii")
    return Template(data=place / "data", password=password)


def server_user() -> dict[str, str]:
    """The option without which mysqld refuses to run as root; nothing for anyone else."""
    return {"user": "root"} if os.geteuid() == 0 else {}


def last_lines(log: Path) -> str:
    """The end of a server's log, indented, for an error message."""
    if not log.is_file():
        return "    (it left no log)"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
    return "\n".join(f"    {line}" for line in lines)


def _initialise(programs: MysqlPrograms, place: Path) -> None:
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="initialising-") as folder:
        made = Path(folder) / "made"
        made.mkdir(mode=0o700)
        password = secrets.token_hex(16)
        (made / "password").write_text(password, encoding="ascii")
        statements = Path(folder) / "init.sql"
        statements.write_text(
            f"ALTER USER root@localhost IDENTIFIED BY '{password}';\n", encoding="ascii"
        )
        options = programs.options | server_user()
        command = [
            *programs.mysqld,
            "--no-defaults",
            *(f"--{name}={value}" for name, value in options.items()),
            "--initialize-insecure",
            f"--datadir={made / 'data'}",
            f"--init-file={statements}",
        ]
        log = Path(folder) / "log"
        with log.open("wb") as output:
            try:
                done = subprocess.run(  # noqa: S603 - our own argument list, no shell
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=_INITIALISE_SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise MysqlServerError("mysqld did not finish initialising in time") from None
        if done.returncode != 0:
            raise MysqlServerError(f"mysqld could not initialise:\n{last_lines(log)}")
        made.rename(place)
