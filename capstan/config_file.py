"""Reads a configuration from TOML; the one place that knows kinds of sinks and stores by name.

House rules: an unknown key is refused by name. A secret is `{ env = "NAME" }` or
`{ file = "PATH" }`, or a plain text for those who know what they do. Nothing is opened here but the
configuration file and the files of secrets.
"""

import os
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs

from capstan.config import ALL, Config, Delivery, Limits, Source
from capstan.errors import ConfigError
from capstan.sinks.base import Sink
from capstan.sinks.jsonl import JsonLinesSink
from capstan.sinks.sqlite_mirror import SqliteMirror
from capstan.stores.base import Store
from capstan.stores.sqlite import SqliteStore

Section = TypeVar("Section", Source, Delivery, Limits)

_TOP: Final = frozenset({"tables", "source", "store", "sink", "delivery", "limits"})


def load(path: Path) -> Config:
    """Read `path`; relative paths inside it are taken from its folder.

    Raises:
        ConfigError: When it cannot be read, or holds something that is refused.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"the configuration cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise ConfigError("the configuration is not valid TOML") from None
    _refuse_unknown("", content, _TOP)
    folder = path.parent
    return Config(
        source=_source(_table(content, "source"), folder),
        tables=_tables(content),
        sink=_sink(_table(content, "sink"), folder),
        store=_store(_table(content, "store"), folder),
        delivery=_section("delivery", Delivery, content.get("delivery", {})),
        limits=_section("limits", Limits, content.get("limits", {})),
    )


def _table(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = content.get(name)
    if not isinstance(table, dict):
        raise ConfigError(f"[{name}] is missing")
    return table


def _refuse_unknown(section: str, table: Mapping[str, Any], known: frozenset[str]) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"{section}{'.' if section else ''}{key}: no such option")


def _section(name: str, kind: type[Section], table: object) -> Section:
    if not isinstance(table, dict):
        raise ConfigError(f"{name}: must be a table")
    fields = attrs.fields_dict(kind)
    _refuse_unknown(name, table, frozenset(fields))
    for key, field in fields.items():
        if field.default is attrs.NOTHING and key not in table:
            raise ConfigError(f"{name}.{key}: is missing")
    try:
        return kind(**table)
    except ConfigError as error:
        raise ConfigError(f"{name}.{error}") from None


def _source(table: dict[str, Any], folder: Path) -> Source:
    table = dict(table)
    if "password" in table:
        table["password"] = _secret("source.password", table["password"], folder)
    for key in ("tls_ca", "tls_cert", "tls_key"):
        if isinstance(table.get(key), str):
            table[key] = str(folder / table[key])
    return _section("source", Source, table)


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
            except (OSError, UnicodeDecodeError):
                raise ConfigError(f"{option}: the file cannot be read") from None
    raise ConfigError(f'{option}: must be a text, {{ env = "NAME" }} or {{ file = "PATH" }}')


def _tables(content: Mapping[str, Any]) -> object:
    if "tables" not in content:
        raise ConfigError("tables: is missing")
    return ALL if content["tables"] == "ALL" else content["tables"]


def _store(table: dict[str, Any], folder: Path) -> Store:
    return _by_kind("store", table, {"sqlite": lambda path: SqliteStore(folder / path)})


def _sink(table: dict[str, Any], folder: Path) -> Sink:
    return _by_kind(
        "sink",
        table,
        {
            "jsonl": lambda path: JsonLinesSink(sys.stdout if path == "-" else folder / path),
            "sqlite": lambda path: SqliteMirror(folder / path),
        },
    )


Edge = TypeVar("Edge")


def _by_kind(name: str, table: dict[str, Any], kinds: Mapping[str, Callable[[str], Edge]]) -> Edge:
    _refuse_unknown(name, table, frozenset({"kind", "path"}))
    make = kinds.get(table.get("kind", ""))
    if make is None:
        raise ConfigError(f"{name}.kind: must be one of {', '.join(kinds)}")
    path = table.get("path")
    if not isinstance(path, str) or not path:
        raise ConfigError(f"{name}.path: must be a non-empty text")
    return make(path)
