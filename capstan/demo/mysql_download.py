"""Fetches MySQL's programs as distribution packages into a folder of their own.

Owns: a private apt state (no root needed, nothing of the system touched, signatures checked with
the distribution's keyring), unpacking, and dropping what a server does not need. Refuses to know:
what is installed, how programs are started.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from capstan.demo import apt_sources

TRIPLETS: Mapping[str, str] = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
_KEYRINGS = Path("/usr/share/keyrings")
# The programs need neither: packages of these names are dependencies of helper scripts only.
_UNWANTED = ("perl", "libperl", "libc-gconv", "libdb5", "libgdbm")
_COMMAND_SECONDS = 900.0

# The machine's own apt configuration (proxies, certificates) stays in force; only places and
# hooks are replaced. Files given with -c are read after it, so that clearing works.
_CONFIGURATION = """
Dir::Etc::sourcelist "{home}/sources.list";
Dir::Etc::sourceparts "{home}/empty";
Dir::Etc::preferences "{home}/preferences";
Dir::Etc::preferencesparts "{home}/empty";
Dir::State "{home}";
Dir::State::Lists "{home}/lists";
Dir::State::status "{home}/status";
Dir::Cache "{home}";
Dir::Cache::archives "{home}/archives";
Dir::Log "{home}";
Debug::NoLocking "1";
APT::Sandbox::User "root";
APT::Get::AllowUnauthenticated "0";
Acquire::AllowInsecureRepositories "0";
Acquire::Languages "none";
Acquire::Retries "2";
APT::Update::Error-Mode "any";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Install-Pkgs;
"""


class DownloadError(Exception):
    """The programs could not be fetched; the message is one clause that says why."""


def download(root: Path, announce: Callable[[str], None]) -> None:
    """Put MySQL's programs and the libraries they need under ``root`` (which must not exist).

    ``root`` appears whole or not at all. About 80 MB travel, about 200 MB stay.

    Raises:
        DownloadError: not a Debian or Ubuntu machine, no network, no package, a bad signature.
    """
    for tool in ("apt-get", "apt-cache", "dpkg", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise DownloadError(f"{tool} is not on this machine")
    architecture = _run(["dpkg", "--print-architecture"]).strip()
    if architecture not in TRIPLETS:
        raise DownloadError(f"there is no download for architecture {architecture}")
    try:
        plan = apt_sources.plan(apt_sources.read_os_release(), apt_sources.read_sources())
    except apt_sources.AptSourcesError as error:
        raise DownloadError(str(error)) from None
    keyring = _keyring(plan.keyring)
    with tempfile.TemporaryDirectory(dir=root.parent, prefix="fetching-") as folder:
        home = Path(folder)
        apt = _PrivateApt(home, architecture, keyring)
        apt.refresh(plan.attempts)
        announce("fetching MySQL with apt (about 80 MB, once)")
        _unpack(apt.fetch(), home / "all")
        _keep_what_runs(home / "all", home / "root", TRIPLETS[architecture])
        (home / "root").rename(root)


class _PrivateApt:
    """apt with sources, lists, status and archives of its own, all below one folder."""

    def __init__(self, home: Path, architecture: str, keyring: Path) -> None:
        self._home = home
        self._options = f"[arch={architecture} target=Packages signed-by={keyring}]"
        for name in ("lists/partial", "archives/partial", "empty"):
            (home / name).mkdir(parents=True)
        (home / "status").touch()
        (home / "apt.conf").write_text(_CONFIGURATION.format(home=home), encoding="utf-8")

    def refresh(self, attempts: Sequence[Sequence[apt_sources.AptSource]]) -> None:
        """Read the package lists of the first attempt whose sources all answer."""
        failure = DownloadError("no source was tried")
        for sources in attempts:
            lines = [
                f"deb {self._options} {source.uri} {source.suite} {' '.join(source.components)}\n"
                for source in sources
            ]
            (self._home / "sources.list").write_text("".join(lines), encoding="utf-8")
            try:
                self._apt("apt-get", "-q", "update")
            except DownloadError as error:
                failure = error
            else:
                return
        raise failure

    def fetch(self) -> list[Path]:
        """Download the newest server, its client, its plugins, and what the programs link to."""
        names = self._apt("apt-cache", "pkgnames", "mysql-server-core").split()
        suffixes = [name.removeprefix("mysql-server-core") for name in names]
        if not suffixes:
            raise DownloadError("the package source has no mysql-server-core")
        suffix = max(suffixes, key=_version_key)
        wanted = [f"mysql-{part}{suffix}" for part in ("server-core", "client-core")]
        install = ("install", "-y", "-q", "--download-only", "--no-install-recommends")
        self._apt("apt-get", *install, *wanted)
        # Of this package only the plugins are wanted; its dependencies are the service's.
        self._apt("apt-get", "-q", "download", f"mysql-server{suffix}")
        archives = [*(self._home / "archives").glob("*.deb"), *self._home.glob("*.deb")]
        return [path for path in sorted(archives) if not path.name.startswith(_UNWANTED)]

    def _apt(self, program: str, *arguments: str) -> str:
        command = [program, "-c", str(self._home / "apt.conf"), *arguments]
        return _run(command, directory=self._home)


def _version_key(suffix: str) -> tuple[int, ...]:
    return tuple(int(part) for part in suffix.lstrip("-").split(".") if part.isdigit())


def _keyring(name: str) -> Path:
    for suffix in (".gpg", ".pgp"):
        path = _KEYRINGS / f"{name}{suffix}"
        if path.is_file():
            return path
    raise DownloadError(f"the keyring {name} is not on this machine")


def _unpack(archives: Sequence[Path], into: Path) -> None:
    for archive in archives:
        _run(["dpkg-deb", "-x", str(archive), str(into)])


def _keep_what_runs(unpacked: Path, root: Path, triplet: str) -> None:
    """Move the programs, plugins, messages and shared libraries; the rest goes with its folder."""
    kept = [
        "usr/sbin/mysqld",
        "usr/bin/mysql",
        "usr/bin/mysqlbinlog",
        "usr/lib/mysql",
        "usr/share/mysql",
        f"usr/lib/{triplet}",
        f"lib/{triplet}",
    ]
    for name in kept:
        if (unpacked / name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (unpacked / name).rename(root / name)
    for name in ("gconv", "perl", "perl-base"):
        shutil.rmtree(root / "usr/lib" / triplet / name, ignore_errors=True)


def _run(command: Sequence[str], *, directory: Path | None = None) -> str:
    """Run a command quietly and return what it printed; on failure its own words say why."""
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(  # noqa: S603 - the argument list is built here, no shell
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMMAND_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DownloadError(f"{command[0]} failed with {type(error).__name__}") from error
    if done.returncode != 0:
        lines = done.stderr.splitlines()
        errors = [line.removeprefix("E: ") for line in lines if line.startswith("E: ")]
        reason = (*errors[:1], *lines[-1:], f"exit status {done.returncode}")[0]
        raise DownloadError(f"{command[0]} said: {reason}")
    return done.stdout
