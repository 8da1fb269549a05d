"""Reads a configuration from TOML; the one place that knows kinds of sinks and stores by name.

House rules: an unknown key is refused by name. A secret is `{ env = "NAME" }` or
`{ file = "PATH" }`, or a plain text for those who know what they do. Relative paths start at the
configuration file's folder. Nothing is opened here but the configuration file and the files of
secrets. A refusal names options, lines and columns, never a value.
"""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar

import attrs

from capstan.config import ALL, Config, Delivery, Limits, Snapshot, Source
from capstan.errors import ConfigError
from capstan.sinks.base import Sink
from capstan.sinks.jsonl import JsonLinesSink
from capstan.sinks.sqlite_mirror import SqliteMirror
from capstan.stores.base import Store
from capstan.stores.sqlite import SqliteStore

Section = TypeVar("Section", Source, Delivery, Limits, Snapshot)
Edge = TypeVar("Edge")

STANDARD_OUTPUT: Final = "-"
"""The `path` that means standard output instead of a file."""

_TOP: Final = frozenset({"tables", "source", "store", "sink", "delivery", "limits", "snapshot"})
_PATHS: Final = frozenset({"unix_socket", "tls_ca", "tls_cert", "tls_key", "spool_dir"})
_PLACE: Final = re.compile(r"\(at (line \d+, column \d+|end of document)\)")
_STDOUT_DESCRIPTOR: Final = 1


def load(path: Path) -> Config:
    """Read `path`; relative paths inside it are taken from its folder.

    Raises:
        ConfigError: When it cannot be read, or holds something that is refused.
    """
    try:
        return _config(path)
    except ConfigError as refusal:
        # `from None` only hides a codec's exception, which holds the whole text it was given.
        refusal.__context__ = None
        raise


def _config(path: Path) -> Config:
    content = _content(path)
    _refuse_unknown("", content, _TOP)
    folder = path.absolute().parent
    store, sink = _table(content, "store"), _table(content, "sink")
    _refuse_shared_file(store, sink, folder)
    return Config(
        source=_source(_table(content, "source"), folder),
        tables=_tables(content),
        sink=_sink(sink, folder),
        store=_store(store, folder),
        delivery=_section("delivery", Delivery, content.get("delivery", {}), folder),
        limits=_section("limits", Limits, content.get("limits", {}), folder),
        snapshot=_snapshot(content, folder),
    )


def _content(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"the configuration cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError("the configuration is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        # The rest of the message can hold what stands at that place.
        place = _PLACE.search(str(error))
        where = f": {place[1]}" if place else ""
        raise ConfigError(f"the configuration is not valid TOML{where}") from None


def _table(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    if name not in content:
        raise ConfigError(f"[{name}] is missing")
    return _as_table(name, content[name])


def _as_table(name: str, table: object) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ConfigError(f"{name}: must be a table, [{name}]")
    return table


def _refuse_unknown(section: str, table: Mapping[str, Any], known: frozenset[str]) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"{section}{'.' if section else ''}{key}: no such option")


def _section(name: str, kind: type[Section], table: object, folder: Path) -> Section:
    options = dict(_as_table(name, table))
    fields = attrs.fields_dict(kind)
    _refuse_unknown(name, options, frozenset(fields))
    for key, field in fields.items():
        if field.default is attrs.NOTHING and key not in options:
            raise ConfigError(f"{name}.{key}: is missing")
    for key in _PATHS & options.keys():
        # What is no text, or an empty one, is for the section to refuse.
        if isinstance(options[key], str) and options[key]:
            options[key] = str(folder / options[key])
    try:
        return kind(**options)
    except ConfigError as error:
        raise ConfigError(f"{name}.{error}") from None


def _source(table: dict[str, Any], folder: Path) -> Source:
    for key in ("host", "port"):
        if "unix_socket" in table and key in table:
            raise ConfigError(f"source.{key}: is of no use beside unix_socket")
    if "password" in table:
        secret = _secret("source.password", table["password"], folder)
        table = {**table, "password": secret}
    return _section("source", Source, table, folder)


def _secret(option: str, value: object, folder: Path) -> str:
    match value:
        case str():
            return value
        case {"env": str(name), **rest} if not rest:
            secret = os.environ.get(name)
            if secret is None:
                raise ConfigError(f"{option}: the environment variable is not set")
            return secret
        case {"file": str(name), **rest} if not rest:
            try:
                return (folder / name).read_text(encoding="utf-8").rstrip("\r\n")
            except (OSError, ValueError):
                raise ConfigError(f"{option}: the file cannot be read") from None
    raise ConfigError(f'{option}: must be a text, {{ env = "NAME" }} or {{ file = "PATH" }}')


def _tables(content: Mapping[str, Any]) -> object:
    if "tables" not in content:
        raise ConfigError("tables: is missing")
    return ALL if content["tables"] == "ALL" else content["tables"]


def _snapshot(content: Mapping[str, Any], folder: Path) -> Snapshot | None:
    """The backfill's section; an empty one is enough to ask for it, none asks for none."""
    if "snapshot" not in content:
        return None
    return _section("snapshot", Snapshot, content["snapshot"], folder)


def _store(table: dict[str, Any], folder: Path) -> Store:
    def sqlite(path: str) -> Store:
        return SqliteStore(_file("store", folder, path))

    return _by_kind("store", table, {"sqlite": sqlite})


def _sink(table: dict[str, Any], folder: Path) -> Sink:
    def jsonl(path: str) -> Sink:
        standard = path == STANDARD_OUTPUT
        return JsonLinesSink(_standard_output() if standard else _file("sink", folder, path))

    def sqlite(path: str) -> Sink:
        return SqliteMirror(_file("sink", folder, path))

    return _by_kind("sink", table, {"jsonl": jsonl, "sqlite": sqlite})


def _by_kind(name: str, table: dict[str, Any], kinds: Mapping[str, Callable[[str], Edge]]) -> Edge:
    _refuse_unknown(name, table, frozenset({"kind", "path"}))
    kind, path = table.get("kind"), table.get("path")
    make = kinds.get(kind) if isinstance(kind, str) else None
    if make is None:
        raise ConfigError(f"{name}.kind: must be one of {', '.join(kinds)}")
    if not isinstance(path, str) or not path or "\0" in path:
        raise ConfigError(f"{name}.path: must be a non-empty text without NUL")
    return make(path)


def _file(name: str, folder: Path, path: str) -> Path:
    """The file of a store or a sink, which need not exist; its folder must."""
    file = folder / path
    with suppress(OSError):  # a folder that may not be looked into is as good as none
        if file.is_dir():
            raise ConfigError(f"{name}.path: is a folder")
        if file.parent.is_dir():
            return file
    raise ConfigError(f"{name}.path: its folder does not exist")


def _refuse_shared_file(store: dict[str, Any], sink: dict[str, Any], folder: Path) -> None:
    paths = [table.get("path") for table in (store, sink)]
    if all(isinstance(path, str) and "\0" not in path for path in paths):
        one, other = (os.path.realpath(folder / str(path)) for path in paths)
        if one == other:
            raise ConfigError("sink.path: is the store's file")


def _standard_output() -> TextIO:
    """Standard output as JSON lines want it: UTF-8 whatever the locale says.

    It is not `sys.stdout`: a thread that hangs in a write would hold that one's lock, and the
    interpreter could not end.
    """
    try:
        return open(_STDOUT_DESCRIPTOR, "w", encoding="utf-8", newline="\n", closefd=False)
    except OSError:
        raise ConfigError("sink.path: standard output is closed") from None
