"""Fetching with apt: refusals that need no network, and the whole way in the long run."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from capstan.demo import apt_sources, mysql_download
from capstan.demo.mysql_download import DownloadError, download
from capstan.demo.mysql_install import find_programs, silent
from capstan.demo.mysql_server import MysqlServer


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> list[tuple[apt_sources.AptSource, ...]]:
    """Attempts that stand for the machine's own sources; empty until the test adds some."""
    attempts: list[tuple[apt_sources.AptSource, ...]] = []

    def planned(*_: object) -> apt_sources.AptPlan:
        return apt_sources.AptPlan(keyring="any", attempts=tuple(attempts))

    monkeypatch.setattr(apt_sources, "plan", planned)
    return attempts


@pytest.fixture
def keyrings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty keyring that stands for the distribution's."""
    folder = tmp_path / "keyrings"
    folder.mkdir()
    (folder / "any.gpg").touch()
    monkeypatch.setattr(mysql_download, "_KEYRINGS", folder)
    return folder


def unsigned_archive(folder: Path) -> apt_sources.AptSource:
    """An archive on this disk that is right in everything but its signature."""
    lists = folder / "dists/sid/main"
    for architecture in mysql_download.TRIPLETS:
        binary = lists / f"binary-{architecture}"
        binary.mkdir(parents=True)
        (binary / "Packages").write_text(
            f"Package: mysql-server-core\nVersion: 99\nArchitecture: {architecture}\n"
            "Filename: x.deb\nSize: 0\n\n"
        )
    packages = sorted((folder / "dists/sid").rglob("Packages"))
    sums = "".join(
        f" {hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_size}"
        f" {path.relative_to(folder / 'dists/sid')}\n"
        for path in packages
    )
    (folder / "dists/sid/Release").write_text(
        "Suite: sid\nCodename: sid\nDate: Sat, 01 Jan 2028 00:00:00 UTC\n"
        f"Architectures: {' '.join(mysql_download.TRIPLETS)}\nComponents: main\nSHA256:\n{sums}"
    )
    return apt_sources.AptSource(uri=f"file:{folder}", suite="sid", components=("main",))


def test_an_archive_without_a_signature_gives_nothing(
    sources: list[tuple[apt_sources.AptSource, ...]], keyrings: Path, tmp_path: Path
) -> None:
    """The signature check stays on: what apt cannot verify is not fetched, nothing is left."""
    sources.append((unsigned_archive(tmp_path / "archive"),))
    cache = tmp_path / "cache"
    cache.mkdir()
    with pytest.raises(DownloadError, match=r"is not signed|is not on this machine"):
        download(cache / "programs", silent)
    assert list(cache.iterdir()) == []


def test_every_attempt_is_tried_and_the_last_reason_is_kept(
    sources: list[tuple[apt_sources.AptSource, ...]], keyrings: Path, tmp_path: Path
) -> None:
    """An archive that does not answer does not hide the next one's answer."""
    sources.extend(
        (apt_sources.AptSource(uri=f"file:/{name}", suite="s", components=("m",)),)
        for name in ("first", "second")
    )
    tried: list[str] = []

    def recorded(command: Sequence[str], *, directory: Path | None = None) -> str:
        if "update" not in command:
            return "amd64\n"
        assert directory is not None
        tried.append((directory / "sources.list").read_text().split("]")[1].split()[0])
        raise DownloadError(f"no {tried[-1]}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mysql_download, "_run", recorded)
        patch.setattr("shutil.which", lambda name: name)
        with pytest.raises(DownloadError, match="no file:/second"):
            download(tmp_path / "programs", silent)
    assert tried == ["file:/first", "file:/second"]


def test_a_machine_without_apt_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No apt, no download: the clause names the missing tool."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DownloadError, match="apt-get is not on this machine"):
        download(tmp_path / "programs", silent)


def test_the_newest_of_several_packaged_series_is_taken() -> None:
    """mysql-server-core-10.1 is newer than -8.4: series compare as numbers."""
    suffixes = ["-8.0", "-10.1", "-8.4"]
    assert max(suffixes, key=mysql_download._version_key) == "-10.1"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_fresh_cache_is_filled_once_and_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Debian and Ubuntu an empty cache ends in a server; the next call needs no network."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("capstan.demo.mysql_install._SYSTEM_FOLDERS", ())
    programs = find_programs(tmp_path / "cache")
    assert "unpacked" in programs.origin
    with MysqlServer(programs, tmp_path / "server") as server:
        assert server.running
    monkeypatch.setattr(mysql_download, "download", lambda *_: pytest.fail("fetched twice"))
    assert find_programs(tmp_path / "cache") == programs
