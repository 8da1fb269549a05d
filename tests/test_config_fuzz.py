"""Configuration files that nobody meant: refused with a sentence, or accepted, and nothing else."""

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capstan import Config, ConfigError

SENTINEL = "sentinel-value"
SECTIONS = ["source", "store", "sink", "snapshot", "delivery", "limits"]
OPTIONS = [
    *("tables", "host", "port", "user", "password", "server_id", "tls", "kind", "path"),
    *("chunk_size", "on_alter", "max_batch", "sink_timeout", "transaction_memory", "spool_dir"),
    *("allowed_sources", "env", "file", "heartbeat", SENTINEL),
]

scalars = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=20),
    st.sampled_from(["sqlite", "jsonl", "shop.*", "*.*", "backfill", "required", SENTINEL]),
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=6)
sections = st.dictionaries(st.sampled_from(OPTIONS), values, max_size=6)


def toml(value: Any) -> str:
    """A value as TOML writes it."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            # Quoted as JSON, which TOML reads the same way but for one character.
            return json.dumps(value).replace("\x7f", "\\u007f")
        case list():
            return f"[{', '.join(map(toml, value))}]"
    return str(value)


def lines(options: dict[str, Any]) -> list[str]:
    """Options as lines."""
    return [f"{json.dumps(name)} = {toml(value)}" for name, value in options.items()]


def refusal(path: Path) -> str | None:
    """Why the file is refused; None when it is accepted."""
    try:
        Config.from_toml(path)
    except ConfigError as error:
        return str(error)
    return None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    top=st.dictionaries(st.sampled_from(["tables", SENTINEL]), values, max_size=2),
    tables=st.dictionaries(st.sampled_from(SECTIONS), sections, max_size=6),
)
def test_any_document_is_accepted_or_refused(
    tmp_path: Path, top: dict[str, Any], tables: dict[str, dict[str, Any]]
) -> None:
    """R266: no value of any type leads to another exception."""
    text = lines(top)
    for name, options in tables.items():
        text += [f"[{name}]", *lines(options)]
    path = tmp_path / "any.toml"
    path.write_text("\n".join(text), encoding="utf-8")

    assert refusal(path) != ""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_refused(tmp_path: Path, data: bytes) -> None:
    """R266: what is no TOML, or no text, is told so."""
    path = tmp_path / "any.toml"
    path.write_bytes(data)

    assert refusal(path)
