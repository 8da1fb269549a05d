"""The configuration: what is accepted, and every refusal, by its option's name, without values."""

import copy
import math
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

import capstan
from capstan import ALL, Config, ConfigError, Delivery, FunctionSink, Limits, MemoryStore, Source
from capstan.core.tables import CaptureList

SECRET = "sentinel-password"


def source(**options: Any) -> Source:
    return Source(**{"user": "repl", "server_id": 4242, **options})


def config(**options: Any) -> Config:
    usual = {
        "source": source(),
        "tables": ["shop.*"],
        "sink": FunctionSink(print),
        "store": MemoryStore(),
    }
    return Config(**{**usual, **options})


def refusal(make: Any, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        make(**options)
    return str(caught.value)


# --- what is there without being said -------------------------------------------------------------


def test_what_is_not_said_has_its_default() -> None:
    """Three names and a number are enough for a server on this machine."""
    made = config()

    assert (made.source.host, made.source.port, made.source.password) == ("127.0.0.1", 3306, "")
    assert made.delivery == Delivery(max_batch=1000, sink_timeout=300.0)
    assert made.limits == Limits(transaction_memory=64 << 20)
    assert made.observers == ()


def test_sections_are_values() -> None:
    """Nothing changes under a running pipeline."""
    for section in (source(), Delivery(), Limits(), config()):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            section.anything = 1


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({}, "preferred"),
        ({"host": "localhost"}, "preferred"),
        ({"host": "LocalHost"}, "preferred"),
        ({"host": "127.8.9.1"}, "preferred"),
        ({"host": "::1"}, "preferred"),
        ({"unix_socket": "/run/mysqld.sock"}, "preferred"),
        ({"host": "10.0.0.1"}, "verify_identity"),
        ({"host": "localhost.example.org"}, "verify_identity"),
        ({"host": "db"}, "verify_identity"),
        ({"host": "db", "tls": "disabled"}, "disabled"),
        ({"tls": "verify_ca"}, "verify_ca"),
    ],
)
def test_a_server_elsewhere_is_verified_unless_told_otherwise(
    options: dict[str, Any], mode: str
) -> None:
    """Only what never leaves this machine may do without."""
    assert source(**options).tls_mode == mode


# --- single options -------------------------------------------------------------------------------

WHOLE = {
    "port": (1, 65535),
    "server_id": (1, 2**32 - 1),
    "reconnect_attempts": (1, 1_000_000),
    "max_batch": (1, 1_000_000),
    "transaction_memory": (1, 2**63 - 1),
    "transaction_bytes": (1, 2**63 - 1),
}
SECONDS = ["connect_timeout", "heartbeat", "liveness_timeout", "settle_timeout", "sink_timeout"]
TEXTS = ["host", "user", "unix_socket", "tls_ca", "tls_cert", "tls_key", "spool_dir"]


def maker(option: str) -> Any:
    """The section that has this option."""
    return next(
        make
        for make, kind in ((source, Source), (Delivery, Delivery), (Limits, Limits))
        if option in attrs.fields_dict(kind)
    )


@pytest.mark.parametrize("option", WHOLE)
def test_whole_numbers_have_bounds(option: str) -> None:
    """Both ends are accepted; what is outside, no number or no whole one is refused."""
    low, high = WHOLE[option]
    for value in (low, high):
        assert getattr(maker(option)(**{option: value}), option) == value
    for wrong in (low - 1, high + 1, 1.5, "7", True, [7]):
        said = refusal(maker(option), **{option: wrong})
        assert said == f"{option}: must be a whole number from {low} to {high}"


@pytest.mark.parametrize("option", SECONDS)
def test_seconds_are_finite_and_positive(option: str) -> None:
    """Infinity fits into no clock, not-a-number compares with nothing, a year is enough."""
    assert maker(option)(**{option: 29, **({"heartbeat": 1} if "live" in option else {})})
    for wrong in (0, -1, 0.0001, math.inf, math.nan, 31_536_001, "5", True, None):
        said = refusal(maker(option), **{option: wrong})
        assert said == f"{option}: must be a number of seconds from 0.001 to 31536000"


@pytest.mark.parametrize("option", TEXTS)
def test_texts_are_not_empty(option: str) -> None:
    """No path and no name holds NUL; the system's calls would raise on it later."""
    for wrong in ("", "a\0b", 7, ["a"]):
        said = refusal(maker(option), **{option: wrong})
        assert said == f"{option}: must be a non-empty text without NUL"


def test_a_spool_folder_exists_and_can_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D25: said before the first large transaction, not when it comes."""
    said = "spool_dir: must be a folder that exists and can be written to"
    file = tmp_path / "file"
    file.touch()

    assert Limits(spool_dir=str(tmp_path)).spool_dir == str(tmp_path)
    for wrong in (tmp_path / "no", file, file / "below", tmp_path / ("x" * 5000)):
        assert refusal(Limits, spool_dir=str(wrong)) == said
    # Whoever runs the tests may be allowed everything.
    monkeypatch.setattr("os.access", lambda *_: False)
    assert refusal(Limits, spool_dir=str(tmp_path)) == said


@pytest.mark.parametrize("wrong", ["REQUIRED", "yes", "", True, ["required"]])
def test_tls_is_one_of_the_servers_own_mode_names(wrong: Any) -> None:
    """A slip does not end in the clear."""
    assert refusal(source, tls=wrong).startswith("tls: must be one of disabled, preferred, ")


@pytest.mark.parametrize("wrong", [None, 7, b"secret"])
def test_a_password_is_a_text(wrong: Any) -> None:
    """An unset environment variable is no password."""
    assert refusal(source, password=wrong) == "password: must be a text"


def test_accepted_cascades_are_names_of_tables() -> None:
    """D26: a single text would be a list of its letters."""
    rule = "accept_unlogged_cascades: must be a list of texts of the form schema.table"
    assert source(accept_unlogged_cascades=["a.b"]).accept_unlogged_cascades == ("a.b",)
    for wrong in ("a.b", ["ab"], [".b"], ["a."], [7], 7, {"a.b": 1}):
        assert refusal(source, accept_unlogged_cascades=wrong) == rule


def test_allowed_sources_are_server_uuids() -> None:
    """D14: a slip would refuse the right server, so it is told at once; case does not matter."""
    rule = "allowed_sources: must be a list of server_uuids"
    uuid = "5C217ED0-0000-4000-8000-00000000000A"
    assert source(allowed_sources=[uuid]).allowed_sources == (uuid.lower(),)
    for wrong in (uuid, [uuid[:-1]], [uuid + "0"], [uuid + "\n"], [7], 7, {uuid: 1}):
        assert refusal(source, allowed_sources=wrong) == rule


# --- options that must fit together ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"heartbeat": 30.0, "liveness_timeout": 30.0},
            "liveness_timeout: must be greater than heartbeat",
        ),
        ({"heartbeat": 31}, "liveness_timeout: must be greater than heartbeat"),
        ({"tls_key": "k", "tls": "required"}, "tls_key: needs tls_cert"),
        (
            {"tls_ca": "a", "tls": "disabled"},
            "tls_ca: is of no use without encryption; tls must be another mode",
        ),
        (
            {"tls_cert": "c", "tls": "disabled"},
            "tls_cert: is of no use without encryption; tls must be another mode",
        ),
        (
            {"tls_cert": "c", "unix_socket": "/s"},
            "tls_cert: is of no use without encryption; tls must be another mode",
        ),
        (
            {"tls_ca": "a", "unix_socket": "/s", "tls": "preferred"},
            "tls_ca: is of no use without encryption; tls must be another mode",
        ),
        (
            {"tls_ca": "a"},
            "tls_ca: is of no use with a loopback address unless tls says what to verify",
        ),
        (
            {"unix_socket": "/s", "tls": "verify_identity"},
            "tls: verify_identity needs a host; over a Unix socket there is none",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], said: str) -> None:
    """A protection that would not be had is no protection."""
    assert refusal(source, **options) == said


@pytest.mark.parametrize(
    "options",
    [
        {"host": "db", "tls_ca": "a"},
        {"host": "db", "tls_cert": "c", "tls_key": "k"},
        {"tls_ca": "a", "tls": "verify_ca"},
        {"tls_cert": "c"},
        {"unix_socket": "/s", "tls": "verify_ca", "tls_ca": "a"},
        {"unix_socket": "/s", "tls": "required", "tls_cert": "c"},
        {"heartbeat": 0.2, "liveness_timeout": 0.3},
    ],
)
def test_options_that_fit_are_accepted(options: dict[str, Any]) -> None:
    """What has its use is no contradiction."""
    assert attrs.asdict(source(**options)).items() >= options.items()


# --- tables, sink, store, observers ---------------------------------------------------------------


def test_tables_are_patterns_or_all() -> None:
    """D16: a list, of which the order does not count; or everything."""
    assert config(tables=("b.x", "a.*")).tables.texts == ("a.*", "b.x")
    assert config(tables=ALL).tables == CaptureList.parse(None)
    assert config(tables=CaptureList.parse(["a.b"])).tables.texts == ("a.b",)
    assert repr(ALL) == "capstan.ALL"


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ("shop.*", "must be a list of schema.table patterns, or capstan.ALL"),
        (b"shop.*", "must be a list of schema.table patterns, or capstan.ALL"),
        ({"shop.*": 1}, "must be a list of schema.table patterns, or capstan.ALL"),
        (None, "must be a list of schema.table patterns, or capstan.ALL"),
        ([7], "every entry must be a text of the form schema.table"),
        ([], "the capture list is empty"),
        (["orders"], "a capture pattern has the form schema.table"),
        (["shop."], "a capture pattern has the form schema.table"),
    ],
)
def test_tables_that_name_nothing_are_refused(tables: Any, said: str) -> None:
    """D16: a single text would be a list of its letters."""
    assert refusal(config, tables=tables) == f"tables: {said}"


def test_a_sink_and_a_store_must_have_their_methods() -> None:
    """Found out before the first socket, not at the first transaction."""
    assert refusal(config, sink=print).startswith("sink: lacks open, close, position, ")
    assert refusal(config, store=object()).startswith("store: lacks hold, load_watermark, ")
    assert refusal(config, sink=FunctionSink) == "sink: must be an object, not a class"
    assert refusal(config, store=MemoryStore) == "store: must be an object, not a class"


def test_a_sink_need_not_inherit() -> None:
    """The methods count, not the ancestry."""
    sink = FunctionSink(print)
    methods = {name: getattr(sink, name) for name in dir(sink) if not name.startswith("_")}
    duck = SimpleNamespace(**methods)

    assert config(sink=duck).sink is duck


def test_sections_must_be_sections() -> None:
    """Said as a refusal of the configuration, without a look at what was given."""
    assert refusal(config, source=SECRET) == "source: must be of the class Source"
    assert refusal(config, delivery={"max_batch": 1}) == "delivery: must be of the class Delivery"
    assert refusal(config, limits=None) == "limits: must be of the class Limits"


def test_observers_are_callables() -> None:
    """R54: any list of them."""
    assert config(observers=[print, len]).observers == (print, len)
    for wrong in (print, "print", [print, "len"], {"a": print}, 7):
        assert refusal(config, observers=wrong) == "observers: must be a list of callables"


def test_a_refusal_is_a_value_error() -> None:
    """Who does not know capstan's exceptions catches it all the same."""
    with pytest.raises(ValueError, match="server_id"):
        source(server_id=0)


# --- secrets --------------------------------------------------------------------------------------


def test_the_password_is_in_no_text() -> None:
    """R265: neither of the section nor of the whole."""
    secretive = config(source=source(password=SECRET))

    for text in (repr(secretive), str(secretive), f"{secretive.source}"):
        assert SECRET not in text


def test_the_password_is_not_pickled() -> None:
    """R265: whatever holds the section cannot carry it out of the process."""
    secretive = source(password=SECRET)
    with pytest.raises(TypeError, match="holds a secret"):
        pickle.dumps(secretive)
    with pytest.raises(TypeError, match="holds a secret"):
        copy.deepcopy({"source": secretive})
    assert attrs.evolve(secretive, port=3307).password == SECRET


@pytest.mark.parametrize(
    ("make", "option"),
    [
        *((source, name) for name in ("port", "server_id", "tls", "heartbeat", "connect_timeout")),
        (source, "accept_unlogged_cascades"),
        (source, "allowed_sources"),
        (Delivery, "max_batch"),
        (Limits, "transaction_bytes"),
        *((config, name) for name in ("source", "tables", "sink", "store", "observers")),
    ],
)
def test_a_refusal_never_repeats_what_was_given(make: Any, option: str) -> None:
    """R265: a secret that stands in the wrong place is not shown."""
    for wrong in (SECRET, [SECRET], {SECRET: SECRET}):
        said = refusal(make, **{option: wrong})
        assert said.startswith(f"{option}: ")
        assert SECRET not in said


def test_the_public_names_are_those_of_the_package() -> None:
    """What is configured is imported from `capstan` alone."""
    for name in ("ALL", "Config", "Delivery", "Limits", "Source", "ConfigError"):
        assert name in capstan.__all__
