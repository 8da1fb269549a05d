"""Finds MySQL's programs on this machine, or has them fetched into the user's own cache.

Owns: the order of search (an installed server first), which versions and flavours will do, the
cache's place and its lock. Refuses to know: how packages are fetched, how a server is run.
"""

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import attrs

from capstan.demo import mysql_download

MINIMUM_VERSION = (8, 0, 22)
CACHE_VARIABLE = "CAPSTAN_CACHE"

_SYSTEM_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec")
_PROFILED = Path("/usr/sbin/mysqld")
_APPARMOR_ENABLED = Path("/sys/module/apparmor/parameters/enabled")
_APPARMOR_PROFILE = Path("/etc/apparmor.d/usr.sbin.mysqld")
_VERSION = re.compile(r"Ver (?P<text>(\d+)\.(\d+)\.(\d+)\S*)")
_PROBE_SECONDS = 60.0

Announce = Callable[[str], None]


class NoMysqlServer(Exception):  # noqa: N818 - a finding about the machine, told as one sentence
    """No MySQL server can be had here; the message is one sentence with the remedies."""


@attrs.frozen(kw_only=True)
class MysqlPrograms:
    """MySQL's programs, each as the beginning of an argument list.

    ``options`` are the server options that tell mysqld where its own files are; ``origin`` says
    in words where the programs came from; ``cache`` is where servers may keep what they share.
    """

    mysqld: tuple[str, ...]
    mysql: tuple[str, ...]
    mysqlbinlog: tuple[str, ...]
    version: str
    plugin_dir: Path
    share_dir: Path
    options: dict[str, str]
    origin: str
    cache: Path


class _UnusableError(Exception):
    """One place did not give usable programs; the message is one clause."""


def silent(_line: str) -> None:
    """Announce to nobody."""


def find_programs(cache: Path | None = None, announce: Announce = silent) -> MysqlPrograms:
    """Find MySQL 8.0.22 or newer: installed, else from the cache, else downloaded into the cache.

    Calls side by side are safe, from threads or processes: one downloads, the others wait.

    Args:
        cache: the folder to keep programs in; ``$CAPSTAN_CACHE/mysql`` or
            ``~/.cache/capstan/mysql`` when not given.
        announce: told in plain words what was found, and what was passed over and why.

    Raises:
        NoMysqlServer: none can be had.
    """
    where = default_cache() if cache is None else cache
    try:
        where.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        _give_up(f"the cache {where} cannot be made: {error.strerror}")
    try:
        programs = _installed(where)
    except _UnusableError as refused:
        announce(f"{refused}: looking for a copy of our own")
        programs = _cached_or_downloaded(where, announce, refused)
    announce(f"MySQL {programs.version}, {programs.origin}")
    return programs


def default_cache() -> Path:
    """The per-user folder for programs and prepared data directories."""
    named = os.environ.get(CACHE_VARIABLE)
    return (Path(named) if named else Path.home() / ".cache" / "capstan").absolute() / "mysql"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``path`` (created when missing) against threads and processes."""
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _installed(cache: Path) -> MysqlPrograms:
    mysqld = _which("mysqld")
    number, version = _version_of((mysqld,))
    if number < MINIMUM_VERSION:
        raise _UnusableError(f"{mysqld} is MySQL {version}, older than 8.0.22")
    if Path(mysqld).resolve() == _PROFILED and _confined():
        raise _UnusableError(f"AppArmor confines {mysqld} to its own data directory")
    places = _compiled_in_folders(mysqld)
    return MysqlPrograms(
        mysqld=(mysqld,),
        mysql=(_which("mysql"),),
        mysqlbinlog=(_which("mysqlbinlog"),),
        version=version,
        plugin_dir=places["plugin-dir"],
        share_dir=places["lc-messages-dir"],
        options={},
        origin=f"installed as {mysqld}",
        cache=cache,
    )


def _cached_or_downloaded(
    cache: Path, announce: Announce, refused: _UnusableError
) -> MysqlPrograms:
    root = cache / "programs"
    # An incomplete copy never carries this name, so the common case needs no lock.
    if not root.is_dir():
        with locked(cache / "programs.lock"):
            if not root.is_dir():
                for stale in cache.glob("fetching-*"):
                    shutil.rmtree(stale, ignore_errors=True)
                try:
                    mysql_download.download(root, announce)
                except mysql_download.DownloadError as error:
                    _give_up(f"{refused}; the download failed: {error}")
    try:
        return _unpacked(root, cache)
    except _UnusableError as error:
        _give_up(f"{refused}; {error}, delete {root} to fetch it anew")


def _give_up(reasons: str) -> NoReturn:
    raise NoMysqlServer(
        f"no MySQL server can be had here ({reasons}): install mysqld 8.0.22 or newer, or name a"
        " running server in CAPSTAN_MYSQL_DSN (mysql://user:password@host:port)"
    ) from None


def _unpacked(root: Path, cache: Path) -> MysqlPrograms:
    usr = root / "usr"
    start = _loader_prefix(root)
    mysqld = (*start, str(usr / "sbin/mysqld"))
    number, version = _version_of(mysqld)
    if number < MINIMUM_VERSION:
        raise _UnusableError(f"the download is MySQL {version}, older than 8.0.22")
    share = usr / "share/mysql"
    plugins = usr / "lib/mysql/plugin"
    return MysqlPrograms(
        mysqld=mysqld,
        mysql=(*start, str(usr / "bin/mysql")),
        mysqlbinlog=(*start, str(usr / "bin/mysqlbinlog")),
        version=version,
        plugin_dir=plugins,
        share_dir=share,
        options={
            "basedir": str(usr),
            "lc_messages_dir": str(share),
            "character_sets_dir": str(share / "charsets"),
            "plugin_dir": str(plugins),
        },
        origin=f"unpacked in {root}",
        cache=cache,
    )


def _loader_prefix(root: Path) -> tuple[str, ...]:
    """Start a program by its own loader: its libc may be newer than the machine's."""
    for triplet in mysql_download.TRIPLETS.values():
        folders = [f for f in (root / "usr/lib" / triplet, root / "lib" / triplet) if f.is_dir()]
        for loader in (found for folder in folders for found in folder.glob("ld-linux-*.so.*")):
            return str(loader), "--library-path", ":".join(map(str, folders))
    raise _UnusableError("the unpacked copy has no loader")


def _version_of(mysqld: tuple[str, ...]) -> tuple[tuple[int, int, int], str]:
    printed = _output([*mysqld, "--no-defaults", "--version"])
    found = _VERSION.search(printed)
    if found is None:
        raise _UnusableError(f"{mysqld[-1]} does not say its version")
    text = found["text"]
    if "mariadb" in printed.lower():
        raise _UnusableError(f"{mysqld[-1]} is MariaDB ({text}), not MySQL")
    return (int(found[2]), int(found[3]), int(found[4])), text


def _compiled_in_folders(mysqld: str) -> dict[str, Path]:
    user = ["--user=root"] if os.geteuid() == 0 else []
    lines = _output([mysqld, "--no-defaults", *user, "--verbose", "--help"]).splitlines()
    pairs = (line.split(maxsplit=1) for line in lines)
    places = {pair[0]: Path(pair[1]) for pair in pairs if len(pair) == 2}
    if not {"plugin-dir", "lc-messages-dir"} <= places.keys():
        raise _UnusableError(f"{mysqld} does not say where its files are")
    return places


def _which(name: str) -> str:
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS))
    found = shutil.which(name, path=path)
    if found is None:
        raise _UnusableError(f"{name} is not installed")
    return found


def _confined() -> bool:
    """True when Ubuntu's profile for mysqld is on this machine and AppArmor is on."""
    disabled = _APPARMOR_PROFILE.parent / "disable" / _APPARMOR_PROFILE.name
    if not _APPARMOR_PROFILE.exists() or disabled.exists():
        return False
    return _APPARMOR_ENABLED.is_file() and _APPARMOR_ENABLED.read_text("ascii").startswith("Y")


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(  # noqa: S603 - our own argument list, no shell
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_SECONDS,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise _UnusableError(f"{command[0]} does not run ({type(error).__name__})") from error
