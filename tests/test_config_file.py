"""The configuration from a file: TOML in, a `Config` out, or one sentence that names the option."""

import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest

from capstan import (
    ALL,
    Config,
    ConfigError,
    Delivery,
    JsonLinesSink,
    Limits,
    Source,
    SqliteMirror,
    SqliteStore,
)

SECRET = "sentinel-password"
SOURCE = '[source]\nuser = "repl"\nserver_id = 4242\n'
STORE = '[store]\nkind = "sqlite"\npath = "state.db"\n'
SINK = '[sink]\nkind = "sqlite"\npath = "mirror.db"\n'
TABLES = 'tables = ["shop.*"]\n'
WHOLE = TABLES + SOURCE + STORE + SINK


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for the file, which is not the current one."""
    made = tmp_path / "etc"
    made.mkdir()
    return made


def load(folder: Path, text: str) -> Config:
    file = folder / "shop.toml"
    file.write_text(text, encoding="utf-8")
    return Config.from_toml(file)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, text)
    assert caught.value.__cause__ is None
    return str(caught.value)


# --- what is accepted -----------------------------------------------------------------------------


def test_the_smallest_file(folder: Path) -> None:
    """Everything else has the defaults of `Config` itself."""
    config = load(folder, WHOLE)

    assert config.source == Source(user="repl", server_id=4242)
    assert (config.delivery, config.limits) == (Delivery(), Limits())
    assert config.tables.texts == ("shop.*",)
    assert repr(config.store) == repr(SqliteStore(folder / "state.db"))
    assert repr(config.sink) == repr(SqliteMirror(folder / "mirror.db"))
    assert sorted(folder.iterdir()) == [folder / "shop.toml"]


def test_a_file_mirrors_the_sections(folder: Path) -> None:
    """Every option of every section can stand in the file, under its own name."""
    config = load(
        folder,
        """
        tables = ["shop.*", "crm.people"]
        [source]
        host = "db.example.org"
        port = 3307
        user = "repl"
        password = "in the open"
        server_id = 7
        tls = "verify_ca"
        tls_ca = "/etc/ca.pem"
        tls_cert = "/etc/cert.pem"
        tls_key = "/etc/key.pem"
        connect_timeout = 3
        heartbeat = 1.5
        liveness_timeout = 9
        settle_timeout = 4
        reconnect_attempts = 5
        accept_unlogged_cascades = ["shop.lines"]
        allowed_sources = ["5c217ed0-0000-4000-8000-000000000001"]
        [delivery]
        max_batch = 1
        sink_timeout = 20
        [limits]
        transaction_memory = 1000
        transaction_bytes = 2000
        spool_dir = "."
        """
        + STORE
        + SINK,
    )

    assert config.source == Source(
        host="db.example.org",
        port=3307,
        user="repl",
        password="in the open",
        server_id=7,
        tls="verify_ca",
        tls_ca="/etc/ca.pem",
        tls_cert="/etc/cert.pem",
        tls_key="/etc/key.pem",
        connect_timeout=3,
        heartbeat=1.5,
        liveness_timeout=9,
        settle_timeout=4,
        reconnect_attempts=5,
        accept_unlogged_cascades=["shop.lines"],
        allowed_sources=["5c217ed0-0000-4000-8000-000000000001"],
    )
    assert config.delivery == Delivery(max_batch=1, sink_timeout=20)
    assert config.limits == Limits(
        transaction_memory=1000, transaction_bytes=2000, spool_dir=str(folder)
    )
    assert config.tables.texts == ("crm.people", "shop.*")


def test_every_option_can_be_written_in_the_file(folder: Path) -> None:
    """A new option of a section is an option of the file without further ado."""
    for name, kind in (("source", Source), ("delivery", Delivery), ("limits", Limits)):
        for option in attrs.fields_dict(kind):
            text = re.sub(rf"^{option} = .*\n", "", WHOLE, flags=re.MULTILINE)
            header = f"[{name}]\n"
            text = text if header in text else text + header
            said = refusal(folder, text.replace(header, f"{header}{option} = {{ a = 1 }}\n"))
            assert said.startswith(f"{name}.{option}: ")
            assert "no such option" not in said


def test_all_tables(folder: Path) -> None:
    """D16: the word stands for `capstan.ALL`."""
    config = load(folder, WHOLE.replace('["shop.*"]', '"ALL"'))

    assert config.tables == attrs.evolve(config, tables=ALL).tables
    assert config.tables.everything


def test_paths_start_at_the_files_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the command is run, and wherever a relative name of the file itself starts."""
    (folder / "data").mkdir()
    text = (
        WHOLE.replace("state.db", "data/state.db")
        .replace("mirror.db", "../mirror.db")
        .replace("[store]", 'tls = "verify_ca"\ntls_ca = "ca.pem"\n[store]')
    ) + '[limits]\nspool_dir = "data"\n'
    (folder / "shop.toml").write_text(text)
    monkeypatch.chdir(folder.parent)

    config = Config.from_toml("etc/shop.toml")
    assert repr(config.store) == repr(SqliteStore(folder / "data/state.db"))
    assert repr(config.sink) == repr(SqliteMirror(folder.parent / "mirror.db"))
    assert config.source.tls_ca == str(folder / "ca.pem")
    assert config.limits.spool_dir == str(folder / "data")


def test_a_unix_socket_replaces_host_and_port(folder: Path) -> None:
    """Both beside it would be passed over, so they are refused."""
    text = WHOLE.replace(SOURCE, f'{SOURCE}unix_socket = "run/mysqld.sock"\n')
    assert load(folder, text).source.unix_socket == str(folder / "run/mysqld.sock")
    for option in ('host = "db"', "port = 3306"):
        said = refusal(folder, text.replace(SOURCE, f"{SOURCE}{option}\n"))
        assert said == f"source.{option.split()[0]}: is of no use beside unix_socket"


def test_json_lines_go_to_a_file(folder: Path) -> None:
    """Relative to the file's folder too."""
    config = load(folder, WHOLE.replace(SINK, '[sink]\nkind = "jsonl"\npath = "out.jsonl"\n'))

    assert repr(config.sink) == repr(JsonLinesSink(folder / "out.jsonl"))


def test_a_dash_is_standard_output_in_utf_8(folder: Path) -> None:
    """Whatever the locale says; where it is closed the file is refused."""
    (folder / "shop.toml").write_text(
        WHOLE.replace(SINK, '[sink]\nkind = "jsonl"\npath = "-"\n'), encoding="utf-8"
    )
    code = (
        "import sys; from capstan import Config, SchemaChange\n"
        "sink = Config.from_toml(sys.argv[1]).sink\n"
        "sink._target.write(['\\u00e9\\u20ac\\n'])\n"
    )
    command = [sys.executable, "-c", code, str(folder / "shop.toml")]
    environment = {"PYTHONIOENCODING": "latin-1", "LC_ALL": "C"}
    ended = subprocess.run(command, capture_output=True, env=environment, check=True)
    assert ended.stdout == "é€\n".encode()

    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command], capture_output=True, check=False
    )
    assert b"sink.path: standard output is closed" in closed.stderr


# --- secrets --------------------------------------------------------------------------------------


def with_password(text: str) -> str:
    return WHOLE.replace(SOURCE, f"{SOURCE}password = {text}\n")


def test_a_secret_comes_from_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unset variable is refused; an empty one is what it says."""
    text = with_password('{ env = "CAPSTAN_TEST_SECRET" }')
    for value in (SECRET, ""):
        monkeypatch.setenv("CAPSTAN_TEST_SECRET", value)
        assert load(folder, text).source.password == value
    monkeypatch.delenv("CAPSTAN_TEST_SECRET")
    assert refusal(folder, text) == "source.password: the environment variable is not set"


def test_a_secret_comes_from_a_file(folder: Path) -> None:
    """Relative to the configuration; line breaks at its end are no part of it."""
    text = with_password('{ file = "secret" }')
    for content, password in (
        (SECRET, SECRET),
        (f"{SECRET}\n", SECRET),
        (f" {SECRET} \r\n", f" {SECRET} "),
        ("pässword", "pässword"),
        ("", ""),
    ):
        (folder / "secret").write_text(content, encoding="utf-8")
        assert load(folder, text).source.password == password


def test_a_secret_file_that_cannot_be_read_is_refused(folder: Path) -> None:
    """Missing, a folder, or no text: without its name or content."""
    (folder / "bytes").write_bytes(b"\xff\xfe")
    for name in ("missing", ".", "bytes", "nul\\u0000"):
        said = refusal(folder, with_password(f'{{ file = "{name}" }}'))
        assert said == "source.password: the file cannot be read"


@pytest.mark.parametrize(
    "text",
    [
        "7",
        f'["{SECRET}"]',
        "{}",
        f'{{ environment = "{SECRET}" }}',
        f'{{ env = "{SECRET}", file = "x" }}',
        "{ env = 7 }",
    ],
)
def test_a_secret_of_another_form_is_refused(folder: Path, text: str) -> None:
    """R265: what stands there is not repeated."""
    assert refusal(folder, with_password(text)) == (
        'source.password: must be a text, { env = "NAME" } or { file = "PATH" }'
    )


# --- what is refused ------------------------------------------------------------------------------

REFUSED: list[tuple[str, str, str]] = [
    (TABLES, "", "tables: is missing"),
    (TABLES, TABLES + 'colour = "green"\n', "colour: no such option"),
    (TABLES, TABLES + "snapshots = 1\n", "snapshots: no such option"),
    (TABLES, 'tables = "shop.*"\n', "tables: must be a list of schema.table patterns"),
    (TABLES, "tables = [7]\n", "tables: every entry must be a text"),
    (TABLES, "tables = { shop = 1 }\n", "tables: must be a list of schema.table patterns"),
    (SOURCE, "", "[source] is missing"),
    (SOURCE, "[source]\nserver_id = 1\n", "source.user: is missing"),
    (SOURCE, '[source]\nuser = "u"\n', "source.server_id: is missing"),
    (SOURCE, SOURCE + "hots = 1\n", "source.hots: no such option"),
    (SOURCE, SOURCE + "start_position = 1\n", "source.start_position: no such option"),
    (SOURCE, SOURCE + "port = 0\n", "source.port: must be a whole number from 1 to 65535"),
    (SOURCE, SOURCE + 'tls = "yes"\n', "source.tls: must be one of disabled, "),
    (SOURCE, SOURCE + 'tls_ca = ""\n', "source.tls_ca: must be a non-empty text"),
    (SOURCE, SOURCE + "tls_ca = 7\n", "source.tls_ca: must be a non-empty text"),
    (SOURCE, SOURCE + "heartbeat = inf\n", "source.heartbeat: must be a number of seconds"),
    (SOURCE, SOURCE + "heartbeat = 60\n", "source.liveness_timeout: must be greater than"),
    (SOURCE, SOURCE + 'accept_unlogged_cascades = "a.b"\n', "source.accept_unlogged_cascades: "),
    (SOURCE, SOURCE + 'allowed_sources = ["a"]\n', "source.allowed_sources: "),
    (STORE, "", "[store] is missing"),
    (STORE, '[store]\npath = "x"\n', "store.kind: must be one of sqlite"),
    (STORE, STORE.replace('"sqlite"', '"memory"'), "store.kind: must be one of sqlite"),
    (STORE, STORE.replace('"sqlite"', '["sqlite"]'), "store.kind: must be one of sqlite"),
    (STORE, '[store]\nkind = "sqlite"\n', "store.path: must be a non-empty text without NUL"),
    (STORE, STORE.replace("state.db", "a\\u0000b"), "store.path: must be a non-empty text"),
    (STORE, STORE.replace("state.db", "no/state.db"), "store.path: its folder does not exist"),
    (STORE, STORE.replace("state.db", "."), "store.path: is a folder"),
    (STORE, STORE + 'paht = "x"\n', "store.paht: no such option"),
    (STORE, STORE.replace("state.db", "./mirror.db"), "sink.path: is the store's file"),
    (SINK, "", "[sink] is missing"),
    (SINK, SINK.replace('"sqlite"', '"kafka"'), "sink.kind: must be one of jsonl, sqlite"),
    (SINK, SINK.replace("mirror.db", "no/mirror.db"), "sink.path: its folder does not exist"),
    (SINK, '[sink]\nkind = "jsonl"\npath = 1\n', "sink.path: must be a non-empty text"),
    (SINK, SINK + "[delivery]\nbatch = 1\n", "delivery.batch: no such option"),
    (SINK, SINK + "[delivery]\nmax_batch = 0\n", "delivery.max_batch: must be a whole number"),
    (SINK, SINK + "[limits]\nspool_dir = 1\n", "limits.spool_dir: must be a non-empty text"),
    (SINK, SINK + '[limits]\nspool_dir = "no"\n', "limits.spool_dir: must be a folder that exists"),
    (SINK, SINK + "[[limits]]\nspool_dir = 1\n", "limits: must be a table, [limits]"),
    (TABLES + SOURCE, TABLES + "source = 7\n", "source: must be a table, [source]"),
]


@pytest.mark.parametrize(("old", "new", "said"), REFUSED)
def test_what_is_wrong_is_refused_by_name(folder: Path, old: str, new: str, said: str) -> None:
    """R65, R66: an unknown option is refused like a wrong one; there is no start position."""
    assert refusal(folder, WHOLE.replace(old, new)).startswith(said)
    assert sorted(folder.iterdir()) == [folder / "shop.toml"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"\npassword = {SECRET}\n", ": line 2, column 12"),
        (f'password = "{SECRET}', ": end of document"),
        (f"a = {'1' * 5000}", ""),
        (f"a = {'[' * 5000}", ""),
    ],
)
def test_what_is_no_toml_is_refused_by_its_place(folder: Path, text: str, place: str) -> None:
    """R265: line and column where they are known, never what stands there."""
    assert refusal(folder, text) == f"the configuration is not valid TOML{place}"


def test_a_file_that_cannot_be_read_is_refused(folder: Path) -> None:
    """Missing, a folder, or no text."""
    (folder / "bytes.toml").write_bytes(b'user = "\xff"')
    for name, said in (
        ("missing.toml", "the configuration cannot be read: No such file or directory"),
        (".", "the configuration cannot be read: Is a directory"),
        ("bytes.toml", "the configuration is not UTF-8"),
    ):
        with pytest.raises(ConfigError) as caught:
            Config.from_toml(folder / name)
        assert str(caught.value) == said


def test_reading_opens_no_connection_and_starts_no_thread(folder: Path) -> None:
    """A configuration is read before any socket; what it names is not touched."""
    before = threading.active_count()
    config: Any = load(folder, WHOLE.replace(SOURCE, SOURCE + 'host = "no-such-host.invalid"\n'))

    assert config.source.tls_mode == "verify_identity"
    assert threading.active_count() == before
