"""The backfill's section: what is accepted, and every refusal that needs no server."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from capstan import ALL, Config, ConfigError, FunctionSink, MemoryStore, Sink, Source
from capstan.config import Snapshot
from capstan.core.tables import CaptureList


def config(**options: Any) -> Config:
    usual = {
        "source": Source(user="repl", server_id=4242),
        "tables": ["shop.*"],
        "sink": FunctionSink(print, print),
        "store": MemoryStore(),
        "snapshot": Snapshot(),
    }
    return Config(**{**usual, **options})


def refusal(make: Any, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        make(**options)
    return str(caught.value)


def test_what_is_not_said_has_its_default() -> None:
    """R89: a bound in rows, one in bytes, a short lock wait, and a halt on an ALTER."""
    assert Snapshot() == Snapshot(
        tables=None,
        chunk_size=4096,
        chunk_bytes=16 << 20,
        lock_wait=1,
        retries=10,
        gate_timeout=300.0,
        rows_per_second=None,
        on_alter="halt",
    )


def test_without_a_section_there_is_no_backfill() -> None:
    """R69: nothing else is asked of sink and store."""
    made = config(snapshot=None, sink=Sink())
    assert made.snapshot is None
    assert made.snapshot_tables == CaptureList()


@pytest.mark.parametrize(
    ("tables", "snapshot", "expected"),
    [
        (["shop.*", "crm.people"], None, ("crm.people", "shop.*")),
        (["shop.*"], ["shop.orders"], ("shop.orders",)),
        (["shop.*"], ["shop.o*", "shop.l?"], ("shop.l?", "shop.o*")),
        (["shop.*"], CaptureList.parse(["shop.a"]), ("shop.a",)),
        (ALL, ["shop.*", "crm.people"], ("crm.people", "shop.*")),
        (ALL, ["s*.orders"], ("s*.orders",)),
    ],
)
def test_the_list_is_the_sections_own_or_the_captures(
    tables: Any, snapshot: Any, expected: tuple[str, ...]
) -> None:
    """R157-R158, D11: a concrete capture list serves, and ALL with a list of its own."""
    made = config(tables=tables, snapshot=Snapshot(tables=snapshot))
    assert made.snapshot_tables.texts == expected


@pytest.mark.parametrize("every", ["*.*", "*.orders", "**.o*", "?*.orders", "*?.*"])
def test_every_schema_at_once_is_refused(every: str) -> None:
    """R156, R166, D11: 'all' is refused, whether said here or taken over."""
    rule = "must not name every schema; list the tables, or patterns schema.*"
    assert refusal(Snapshot, tables=["shop.a", every]) == f"tables: {rule}"
    assert refusal(config, tables=[every]) == f"snapshot.tables: {rule}"


def test_all_is_refused() -> None:
    """R156: the word itself, and a capture list of ALL without a list here."""
    rule = "must not name every schema; list the tables, or patterns schema.*"
    assert refusal(Snapshot, tables=ALL) == f"tables: {rule}"
    assert refusal(Snapshot, tables=CaptureList.parse(None)) == f"tables: {rule}"
    assert refusal(config, tables=ALL) == f"snapshot.tables: {rule}"


@pytest.mark.parametrize("beyond", [["crm.people"], ["shop.a", "crm.*"], ["shop*.a"]])
def test_what_is_not_captured_is_not_backfilled(beyond: list[str]) -> None:
    """R166: its rows would come and never change."""
    said = refusal(config, snapshot=Snapshot(tables=beyond))
    assert said == "snapshot.tables: must not reach beyond `tables`"


@pytest.mark.parametrize("wrong", [[], ["shop"], [1], "shop.a", 5, {"shop.a": 1}])
def test_lists_that_are_none_are_refused(wrong: Any) -> None:
    """D11: as the capture list."""
    assert refusal(Snapshot, tables=wrong).startswith("tables: ")


@pytest.mark.parametrize(
    "option", ["chunk_size", "chunk_bytes", "lock_wait", "retries", "rows_per_second"]
)
@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "1", 1 << 40])
def test_numbers_have_bounds(option: str, wrong: Any) -> None:
    """R71, R89: whole and positive; a lock is never waited for long."""
    assert refusal(Snapshot, **{option: wrong}).startswith(f"{option}: must be a whole number")


def test_the_lock_is_never_waited_for_long() -> None:
    """R71: a minute at most; writers queue behind whoever waits."""
    assert Snapshot(lock_wait=60).lock_wait == 60
    assert refusal(Snapshot, lock_wait=61) == "lock_wait: must be a whole number from 1 to 60"


def test_what_follows_an_alter_is_one_of_two() -> None:
    """R164: nothing else is taken for one of them."""
    assert Snapshot(on_alter="backfill").on_alter == "backfill"
    assert refusal(Snapshot, on_alter="redo") == "on_alter: must be one of halt, backfill"
    assert refusal(Snapshot, gate_timeout=0).startswith("gate_timeout: must be a number of seconds")


class OwnSink:
    """A sink that does not inherit."""

    open = close = position = handle_transaction = handle_schema_changes = handle_batch = print


def test_a_sink_that_takes_no_chunks_is_refused() -> None:
    """R112-R113: at the start, not at the first chunk; without a section it serves."""
    said = "sink: lacks handle_snapshot, which a backfill needs"
    assert refusal(config, sink=Sink()) == said
    assert refusal(config, sink=FunctionSink(print)) == said
    assert refusal(config, sink=OwnSink()) == (
        "sink: lacks takes_snapshots, handle_snapshot, await_backfill, which a backfill needs"
    )
    assert config(sink=OwnSink(), snapshot=None).snapshot is None

    class Able(Sink):
        handle_snapshot = print

    assert config(sink=Able()).snapshot == Snapshot()
    assert config(sink=FunctionSink(print, on_snapshot=print)).snapshot == Snapshot()


def test_a_store_must_keep_the_backfills_state() -> None:
    """R60: or nothing could be resumed."""
    names = ("hold", "load_watermark", "save_watermark", "load_anchor", "load_sink_position")
    names += ("load_tables", "save_tables", "close", "load_snapshot")
    store = SimpleNamespace(**dict.fromkeys(names, print))
    said = "store: lacks save_snapshot, clear_snapshot, which a backfill needs"
    assert refusal(config, store=store) == said


TOML = """
tables = ["shop.*"]
[source]
user = "repl"
server_id = 4242
[store]
kind = "sqlite"
path = "state.db"
[sink]
kind = "sqlite"
path = "mirror.db"
"""


def load(folder: Path, text: str) -> Config:
    file = folder / "shop.toml"
    file.write_text(TOML + text)
    return Config.from_toml(file)


def test_a_file_mirrors_the_section(tmp_path: Path) -> None:
    """R89: every option under its own name; an empty section asks for a backfill of everything."""
    assert load(tmp_path, "").snapshot is None
    assert load(tmp_path, "[snapshot]\n").snapshot == Snapshot()
    section = load(
        tmp_path,
        """
        [snapshot]
        tables = ["shop.orders"]
        chunk_size = 100
        chunk_bytes = 1000
        lock_wait = 2
        retries = 3
        gate_timeout = 4.5
        rows_per_second = 1000
        on_alter = "backfill"
        """,
    ).snapshot
    assert section == Snapshot(
        tables=["shop.orders"],
        chunk_size=100,
        chunk_bytes=1000,
        lock_wait=2,
        retries=3,
        gate_timeout=4.5,
        rows_per_second=1000,
        on_alter="backfill",
    )


def test_every_option_can_be_written_in_the_file(tmp_path: Path) -> None:
    """A new option of the section is an option of the file without further ado."""
    for option in attrs.fields_dict(Snapshot):
        said = refusal(load, folder=tmp_path, text=f"[snapshot]\n{option} = {{ a = 1 }}\n")
        assert said.startswith(f"snapshot.{option}: ")
        assert "no such option" not in said
    said = refusal(load, folder=tmp_path, text="[snapshot]\nchunks = 1\n")
    assert said == "snapshot.chunks: no such option"
