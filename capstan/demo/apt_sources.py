"""Which package sources this machine already trusts, and which of them carry a MySQL server.

Owns: the two formats apt keeps its sources in, and the choice per distribution. Debian itself
ships MariaDB only, so there MySQL comes from suite ``sid`` of the mirror the machine already
uses; Ubuntu's own suites carry MySQL. Refuses to know: how packages are fetched or unpacked. No
mirror is named here: every address comes from the machine.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs

_DEBIAN_SUITES = frozenset({"oldoldstable", "oldstable", "stable", "testing", "unstable", "sid"})
_UBUNTU_POCKETS = ("", "-updates", "-security")
_UBUNTU_COMPONENTS = ("main", "universe")


class AptSourcesError(Exception):
    """This machine's apt sources cannot give a MySQL server; the message says why."""


@attrs.frozen(kw_only=True)
class AptSource:
    """One binary package source: an address, one suite of it, and the components wanted."""

    uri: str
    suite: str
    components: tuple[str, ...]


@attrs.frozen(kw_only=True)
class AptPlan:
    """Where to look for MySQL: the first attempt that works wins, all signed by ``keyring``."""

    keyring: str
    attempts: tuple[tuple[AptSource, ...], ...]


def plan(os_release: Mapping[str, str], sources: Iterable[AptSource]) -> AptPlan:
    """Choose the sources to fetch MySQL from.

    Raises:
        AptSourcesError: neither Debian nor Ubuntu, or no usable source is configured.
    """
    family = (os_release.get("ID", ""), *os_release.get("ID_LIKE", "").split())
    codename = os_release.get("VERSION_CODENAME", "")
    if "ubuntu" in family:
        name = "ubuntu"
        attempts = _ubuntu_attempts(os_release.get("UBUNTU_CODENAME", codename), sources)
    elif family[0] == "debian":
        name = "debian"
        attempts = _debian_attempts(codename, sources)
    else:
        raise AptSourcesError("this system is neither Debian nor Ubuntu")
    if not attempts:
        raise AptSourcesError("apt names no archive of this distribution here")
    # Third-party archives reuse the suite names. The signature check refuses them; looking first
    # where the archive's usual folder name stands saves the wasted attempts.
    attempts.sort(key=lambda attempt: not attempt[0].uri.rstrip("/").endswith(f"/{name}"))
    return AptPlan(keyring=f"{name}-archive-keyring", attempts=tuple(attempts))


def _debian_attempts(codename: str, sources: Iterable[AptSource]) -> list[tuple[AptSource, ...]]:
    suites = _DEBIAN_SUITES | {codename}
    own = (s.uri for s in sources if s.suite in suites and "main" in s.components)
    return [(AptSource(uri=u, suite="sid", components=("main",)),) for u in dict.fromkeys(own)]


def _ubuntu_attempts(codename: str, sources: Iterable[AptSource]) -> list[tuple[AptSource, ...]]:
    by_uri: dict[str, dict[str, AptSource]] = {}
    for source in sources:
        components = tuple(c for c in _UBUNTU_COMPONENTS if c in source.components)
        if components and source.suite.removeprefix(codename) in _UBUNTU_POCKETS:
            suites = by_uri.setdefault(source.uri, {})
            earlier = suites.get(source.suite, source).components
            both = tuple(c for c in _UBUNTU_COMPONENTS if c in {*earlier, *components})
            suites[source.suite] = attrs.evolve(source, components=both)
    # An address without the release itself (the security archive) cannot satisfy dependencies.
    return [tuple(suites.values()) for suites in by_uri.values() if codename in suites]


def read_os_release(path: Path = Path("/etc/os-release")) -> dict[str, str]:
    """The machine's os-release as a mapping; empty when there is none."""
    if not path.is_file():
        return {}
    words = shlex.split(path.read_text(encoding="utf-8"), comments=True)
    return dict(word.split("=", 1) for word in words if "=" in word)


def read_sources(etc: Path = Path("/etc/apt")) -> tuple[AptSource, ...]:
    """Every enabled binary source apt knows here, in apt's own order of files."""
    found: list[AptSource] = []
    main = etc / "sources.list"
    parts = sorted((etc / "sources.list.d").glob("*"))
    for path in ([main] if main.is_file() else []) + parts:
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix == ".list":
            found += parse_one_line_style(text)
        elif path.suffix == ".sources":
            found += parse_deb822_style(text)
    return tuple(found)


def parse_one_line_style(text: str) -> Iterator[AptSource]:
    """``deb [option=value] URI SUITE COMPONENT...`` lines; flat repositories are passed over."""
    for raw in text.splitlines():
        line = raw.partition("#")[0].strip()
        kind, _, rest = line.partition(" ")
        if kind != "deb":
            continue
        if rest.lstrip().startswith("["):
            rest = rest.partition("]")[2]
        words = rest.split()
        if len(words) > 2 and _fetchable(words[0]):
            yield AptSource(uri=words[0], suite=words[1], components=tuple(words[2:]))


def parse_deb822_style(text: str) -> Iterator[AptSource]:
    """Stanzas of ``Field: value``; a value goes on over lines that begin with a space."""
    for stanza in _stanzas(text):
        types = stanza.get("types", "").split()
        if "deb" not in types or stanza.get("enabled", "yes").strip().lower() in {"no", "false"}:
            continue
        components = tuple(stanza.get("components", "").split())
        for uri in filter(_fetchable, stanza.get("uris", "").split()):
            for suite in stanza.get("suites", "").split():
                yield AptSource(uri=uri, suite=suite, components=components)


def _stanzas(text: str) -> Iterator[dict[str, str]]:
    fields: dict[str, str] = {}
    last = ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if fields:
                yield fields
            fields = {}
        elif line[0].isspace():
            fields[last] = f"{fields.get(last, '')} {line.strip()}"
        else:
            name, _, value = line.partition(":")
            last = name.strip().lower()
            fields[last] = value.strip()


def _fetchable(uri: str) -> bool:
    return uri.partition(":")[0] not in {"cdrom", "file", "copy"}
