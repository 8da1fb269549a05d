"""Which MySQL is taken: installed, kept from before, or fetched; and the refusals."""

import shlex
import threading
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from helpers.mysql import execute

from capstan.demo import mysql_download, mysql_install
from capstan.demo.mysql_download import DownloadError
from capstan.demo.mysql_install import MysqlPrograms, NoMysqlServer, default_cache, find_programs
from capstan.demo.mysql_server import MysqlServer


@attrs.define
class Machine:
    """A machine made of one folder on PATH and a cache; what it announces is kept."""

    bin: Path
    cache: Path
    said: list[str] = attrs.field(factory=list)

    def install(self, name: str, script: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def find(self) -> MysqlPrograms:
        return find_programs(self.cache, self.said.append)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Nothing is installed, and a download fails, unless the test says otherwise."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(mysql_install, "_SYSTEM_FOLDERS", ())
    monkeypatch.setattr(mysql_install, "_confined", lambda: False)
    monkeypatch.setattr(mysql_download, "download", no_download)
    return Machine(bin=folder, cache=tmp_path / "cache")


def no_download(root: Path, announce: Callable[[str], None]) -> None:
    raise DownloadError("the network is down")


def fake_download(root: Path, announce: Callable[[str], None]) -> None:
    """A copy whose loader answers for every program, as the real one starts every program."""
    announce("fetching")
    folder = root.with_name("fetching-fake") / "usr/lib/x86_64-linux-gnu"
    folder.mkdir(parents=True)
    loader = folder / "ld-linux-x86-64.so.2"
    loader.write_text("#!/bin/sh\necho 'mysqld  Ver 8.4.1 for Linux on x86_64'\n")
    loader.chmod(0o755)
    root.with_name("fetching-fake").rename(root)


def test_mariadb_is_refused_by_name(machine: Machine) -> None:
    """Debian's own mysqld is MariaDB: the refusal names it, and it is never started."""
    machine.install("mysqld", "echo 'mysqld  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu'")
    with pytest.raises(NoMysqlServer, match=r"is MariaDB \(10\.11\.6-MariaDB\S*\), not MySQL"):
        machine.find()
    assert "MariaDB" in machine.said[0]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'mysqld  Ver 8.0.21 for Linux on x86_64'", "MySQL 8.0.21, older than 8.0.22"),
        ("echo 'mysqld  Ver 5.7.44-log for Linux'", "older than 8.0.22"),
        ("echo hello", "does not say its version"),
        ("exit 1", "does not run"),
        ("[ $# = 2 ] && echo 'mysqld  Ver 8.4.0 for Linux'", "does not run"),
        ("echo 'mysqld  Ver 8.4.0 for Linux'", "does not say where its files are"),
    ],
)
def test_an_installed_server_that_will_not_do_is_passed_over_with_its_reason(
    machine: Machine, script: str, why: str
) -> None:
    """Too old, mute or broken: the one sentence says which, and names both remedies."""
    machine.install("mysqld", script)
    with pytest.raises(NoMysqlServer, match=why) as refused:
        machine.find()
    sentence = str(refused.value)
    assert "the network is down" in sentence
    assert "install mysqld 8.0.22 or newer" in sentence
    assert "CAPSTAN_MYSQL_DSN" in sentence
    assert "\n" not in sentence


def test_an_installed_server_without_its_tools_is_passed_over(machine: Machine) -> None:
    """The client and mysqlbinlog belong to what is needed: half an installation is none."""
    folders = "plugin-dir /p\nlc-messages-dir /s"
    machine.install("mysqld", f"echo 'mysqld  Ver 8.4.0 for Linux'; echo '{folders}'")
    machine.install("mysql", "exit 0")
    with pytest.raises(NoMysqlServer, match="mysqlbinlog is not installed"):
        machine.find()


def test_a_server_that_apparmor_confines_is_passed_over(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ubuntu's profile belongs to /usr/sbin/mysqld only; a copy elsewhere is free."""
    machine.install("mysqld", "echo 'mysqld  Ver 8.4.0 for Linux'; echo 'plugin-dir /p'")
    monkeypatch.setattr(mysql_install, "_confined", lambda: True)
    monkeypatch.setattr(mysql_install, "_PROFILED", machine.bin / "mysqld")
    with pytest.raises(NoMysqlServer, match="AppArmor confines"):
        machine.find()


@pytest.mark.parametrize(
    ("profile", "disabled", "enabled", "confined"),
    [
        (True, False, "Y\n", True),
        (True, False, "N\n", False),
        (True, False, None, False),
        (True, True, "Y\n", False),
        (False, False, "Y\n", False),
    ],
)
def test_apparmor_confines_when_on_with_a_profile(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    profile: bool,
    disabled: bool,
    enabled: str | None,
    confined: bool,
) -> None:
    """The profile must be there, not disabled, and AppArmor itself on."""
    (tmp_path / "disable").mkdir()
    path = tmp_path / "usr.sbin.mysqld"
    if profile:
        path.touch()
    if disabled:
        (tmp_path / "disable/usr.sbin.mysqld").touch()
    if enabled is not None:
        (tmp_path / "enabled").write_text(enabled)
    monkeypatch.setattr(mysql_install, "_APPARMOR_PROFILE", path)
    monkeypatch.setattr(mysql_install, "_APPARMOR_ENABLED", tmp_path / "enabled")
    assert mysql_install._confined() is confined


def test_an_installed_server_is_used_and_serves(
    machine: Machine, mysql_programs: MysqlPrograms, tmp_path: Path
) -> None:
    """A mysqld on PATH comes first; its own folders are asked from it; it starts as it is."""
    told = [f"--{name}={value}" for name, value in mysql_programs.options.items()]
    for name, start in (
        ("mysqld", (*mysql_programs.mysqld, '"$@"', *told)),
        ("mysql", (*mysql_programs.mysql, '"$@"')),
        ("mysqlbinlog", (*mysql_programs.mysqlbinlog, '"$@"')),
    ):
        words = (word if word == '"$@"' else shlex.quote(word) for word in start)
        machine.install(name, f"exec {' '.join(words)}")
    found = machine.find()
    assert found.mysqld == (str(machine.bin / "mysqld"),)
    assert found.version == mysql_programs.version
    assert found.plugin_dir == mysql_programs.plugin_dir
    assert found.share_dir == mysql_programs.share_dir
    assert machine.said == [
        f"MySQL {found.version}, installed as {machine.bin / 'mysqld'}",
    ]
    with MysqlServer(found, tmp_path / "server", server_id=5) as server:
        connection = server.connect()
        assert execute(connection, "SELECT @@server_id") == [(5,)]
        connection.close()


def test_a_download_happens_once_however_many_ask(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls side by side share one download; later ones find the copy; rubbish is cleared away."""
    monkeypatch.setenv("PATH", f"{machine.bin}:/usr/bin:/bin")
    monkeypatch.setattr(mysql_install, "_which", not_installed)
    monkeypatch.setattr(mysql_download, "download", fake_download)
    (machine.cache / "fetching-broken-off").mkdir(parents=True)
    found: list[MysqlPrograms] = []
    callers = [threading.Thread(target=lambda: found.append(machine.find())) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert [programs.version for programs in found] == ["8.4.1"] * 4
    assert machine.said.count("fetching") == 1
    assert sorted(path.name for path in machine.cache.iterdir()) == ["programs", "programs.lock"]
    monkeypatch.setattr(mysql_download, "download", no_download)
    assert machine.find() == found[0]
    assert machine.said[-1] == f"MySQL 8.4.1, unpacked in {machine.cache / 'programs'}"


def not_installed(name: str) -> str:
    raise mysql_install._UnusableError(f"{name} is not installed")


def test_a_damaged_copy_says_how_to_repair_it(machine: Machine) -> None:
    """A cache that lost its loader is named with its path, never half used."""
    (machine.cache / "programs").mkdir(parents=True)
    with pytest.raises(NoMysqlServer, match=r"no loader, delete .*programs to fetch it anew"):
        machine.find()


def test_a_cache_that_cannot_be_made_is_one_clear_sentence(machine: Machine) -> None:
    """A place that is no folder is named, with the system's reason."""
    machine.cache.write_text("a file")
    with pytest.raises(NoMysqlServer, match="cannot be made: File exists"):
        machine.find()


def test_the_cache_is_the_users_own_unless_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """CAPSTAN_CACHE moves the cache; without it, it lies in the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CAPSTAN_CACHE", raising=False)
    assert default_cache() == tmp_path / ".cache/capstan/mysql"
    monkeypatch.setenv("CAPSTAN_CACHE", str(tmp_path / "elsewhere"))
    assert default_cache() == tmp_path / "elsewhere/mysql"
