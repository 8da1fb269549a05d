"""Reading the machine's own package sources and choosing where MySQL comes from."""

from pathlib import Path

import pytest

from capstan.demo.apt_sources import (
    AptSource,
    AptSourcesError,
    parse_deb822_style,
    parse_one_line_style,
    plan,
    read_os_release,
    read_sources,
)

DEBIAN = {"ID": "debian", "VERSION_CODENAME": "bookworm"}
UBUNTU = {"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_CODENAME": "noble"}


def source(uri: str, suite: str, *components: str) -> AptSource:
    return AptSource(uri=uri, suite=suite, components=components)


def test_one_line_sources_are_read_with_and_without_options() -> None:
    """Comments, source packages, flat repositories and discs are passed over."""
    text = """
# deb http://old.example/debian bookworm main
deb http://a.example/debian bookworm main contrib  # the mirror
deb [ arch=amd64 signed-by=/k.gpg ] https://b.example/debian sid main
deb-src http://a.example/debian bookworm main
deb http://flat.example/ ./
deb cdrom:[Debian GNU/Linux 12]/ bookworm main
"""
    assert list(parse_one_line_style(text)) == [
        source("http://a.example/debian", "bookworm", "main", "contrib"),
        source("https://b.example/debian", "sid", "main"),
    ]


def test_deb822_sources_give_every_address_and_suite() -> None:
    """Stanzas multiply addresses by suites; folded fields, comments and embedded keys are read."""
    text = """Types: deb deb-src
# the mirrors
URIs: http://a.example/debian
 http://b.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 key: value
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
URIs: http://off.example/debian
Suites: sid
Components: main
Enabled: no

types: deb
uris: mirror+file:///etc/apt/mirrors/debian.list
suites: bookworm-security
components: main
"""
    assert list(parse_deb822_style(text)) == [
        source("http://a.example/debian", "bookworm", "main"),
        source("http://a.example/debian", "bookworm-updates", "main"),
        source("http://b.example/debian", "bookworm", "main"),
        source("http://b.example/debian", "bookworm-updates", "main"),
        source("mirror+file:///etc/apt/mirrors/debian.list", "bookworm-security", "main"),
    ]


def test_both_formats_are_read_from_their_usual_places(tmp_path: Path) -> None:
    """sources.list comes first, then the parts by name; files of other kinds are not sources."""
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text("deb http://a.example/debian sid main\n")
    (parts / "b.list").write_text("deb http://b.example/debian sid main\n")
    (parts / "c.sources").write_text(
        "Types: deb\nURIs: http://c.example/debian\nSuites: sid\nComponents: main\n"
    )
    (parts / "d.list.disabled").write_text("deb http://d.example/debian sid main\n")
    uris = [found.uri for found in read_sources(tmp_path)]
    assert uris == ["http://a.example/debian", "http://b.example/debian", "http://c.example/debian"]
    assert read_sources(tmp_path / "nothing-here") == ()


def test_debian_takes_sid_from_its_own_mirror() -> None:
    """Every mirror of the release is an attempt, the ones that look like Debian's own first."""
    chosen = plan(
        DEBIAN,
        [
            source("http://sury.example/php", "bookworm", "main"),
            source("http://a.example/debian/", "bookworm", "main"),
            source("http://a.example/debian/", "bookworm-updates", "main"),
            source("http://a.example/debian-security", "bookworm-security", "main"),
            source("http://docker.example/linux/debian", "bookworm", "stable"),
        ],
    )
    assert chosen.keyring == "debian-archive-keyring"
    assert chosen.attempts == (
        (source("http://a.example/debian/", "sid", "main"),),
        (source("http://sury.example/php", "sid", "main"),),
    )


def test_ubuntu_takes_its_own_current_suites() -> None:
    """Release and updates of one address go together; components of several lines are joined."""
    chosen = plan(
        UBUNTU,
        [
            source("http://ppa.example/tool/ppa", "noble", "main"),
            source("http://a.example/ubuntu/", "noble", "main", "restricted"),
            source("http://a.example/ubuntu/", "noble", "universe"),
            source("http://a.example/ubuntu/", "noble-updates", "main", "universe"),
            source("http://a.example/ubuntu/", "noble-backports", "main", "universe"),
            source("http://security.example/ubuntu/", "noble-security", "main"),
        ],
    )
    assert chosen.keyring == "ubuntu-archive-keyring"
    assert chosen.attempts == (
        (
            source("http://a.example/ubuntu/", "noble", "main", "universe"),
            source("http://a.example/ubuntu/", "noble-updates", "main", "universe"),
        ),
        (source("http://ppa.example/tool/ppa", "noble", "main"),),
    )


def test_a_derivative_of_ubuntu_uses_the_ubuntu_release_under_it() -> None:
    """UBUNTU_CODENAME names the suites where the system's own codename does not."""
    mint = {
        "ID": "linuxmint",
        "ID_LIKE": "ubuntu debian",
        "VERSION_CODENAME": "wilma",
        "UBUNTU_CODENAME": "noble",
    }
    chosen = plan(
        mint,
        [
            source("http://a.example/mint", "wilma", "main"),
            source("http://a.example/ubuntu", "noble", "main"),
        ],
    )
    assert chosen.attempts == ((source("http://a.example/ubuntu", "noble", "main"),),)


@pytest.mark.parametrize(
    ("system", "sources", "why"),
    [
        ({"ID": "fedora"}, [source("http://a.example/debian", "sid", "main")], "neither"),
        ({}, [], "neither"),
        (DEBIAN, [], "no archive"),
        (DEBIAN, [source("http://a.example/pgdg", "bookworm-pgdg", "main")], "no archive"),
        (UBUNTU, [source("http://a.example/ubuntu", "noble-security", "main")], "no archive"),
    ],
)
def test_a_machine_without_a_usable_archive_is_told_so(
    system: dict[str, str], sources: list[AptSource], why: str
) -> None:
    """Other systems, and Debian or Ubuntu without their own archive, end in one clause."""
    with pytest.raises(AptSourcesError, match=why):
        plan(system, sources)


def test_os_release_values_lose_their_quotes(tmp_path: Path) -> None:
    """The file is read as a shell would; a machine without one has no names."""
    path = tmp_path / "os-release"
    path.write_text("# system\nID=ubuntu\nPRETTY_NAME=\"Ubuntu 24.04\"\nID_LIKE='debian'\n")
    assert read_os_release(path) == {
        "ID": "ubuntu",
        "PRETTY_NAME": "Ubuntu 24.04",
        "ID_LIKE": "debian",
    }
    assert read_os_release(tmp_path / "none") == {}
