"""A server that is not on our side: it gets no secret and no file, and costs no memory."""

import contextlib
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from capstan import Halt, HaltReason, Pipeline, PipelineHalted
from capstan.testing import Event, Misbehaviour, RecordingSink, ScriptedMysql, Table, misbehaviours
from capstan.testing.made_events import FORMAT_DESCRIPTION, TABLE_MAP, XID, query, xid

ITEMS = Table("shop.items", "id int unsigned", "name varchar(60)", key="id")
PASSWORD = "a-password-that-nobody-else-has"
SECRET = "what-stands-in-the-file"
MEBIBYTE = 1 << 20


def halt_of(source: ScriptedMysql, **link: Any) -> Halt:
    """Run a pipeline until it halts; nothing of it was delivered."""
    sink = RecordingSink()
    section = source.source(reconnect_attempts=1, **link)
    pipeline = Pipeline(source.config(sink, source=section, tables=["shop.*"]))
    with contextlib.suppress(PipelineHalted):
        pipeline.start()
        pipeline.wait(60)
    pipeline.stop()
    assert sink.gtids == []
    assert pipeline.halt is not None, pipeline.status()
    return pipeline.halt


@pytest.mark.parametrize(
    "plugin",
    ["mysql_clear_password", "mysql_old_password", "dialog", "client_ed25519", "unheard_of"],
)
@pytest.mark.parametrize("tls", ["disabled", "preferred"])
def test_a_server_that_wants_the_password_in_clear_does_not_get_it(plugin: str, tls: Any) -> None:
    """R265: over plain TCP it is refused, whatever the method is called, and not dialled again."""
    with ScriptedMysql(password=PASSWORD) as source:
        source.misbehave(misbehaviours.asks_for_plugin(plugin))
        halt = halt_of(source, tls=tls)
        assert halt.reason is HaltReason.AUTH_FAILED
        assert source.user.encode() in source.heard
        assert PASSWORD.encode() not in source.heard
        assert source.logins == 0


@pytest.mark.parametrize("tls", ["required", "verify_ca", "verify_identity"])
def test_a_server_without_tls_learns_nothing_when_tls_is_asked_for(tls: Any) -> None:
    """R265: it is turned down before account or proof are sent."""
    with ScriptedMysql(password=PASSWORD) as source:
        halt = halt_of(source, tls=tls)
        assert halt.reason is HaltReason.TLS_FAILED
        assert source.heard == b""


def test_a_wrong_password_is_refused_by_the_proof_alone(capstan_source: ScriptedMysql) -> None:
    """R265: neither the right nor the wrong one goes over the wire."""
    halt = halt_of(capstan_source, password=PASSWORD)
    assert halt.reason is HaltReason.AUTH_FAILED
    assert PASSWORD.encode() not in capstan_source.heard
    assert capstan_source.password.encode() not in capstan_source.heard


@pytest.mark.parametrize("path", ["", "/etc/passwd", "file"])
def test_a_server_that_wants_a_local_file_does_not_get_it(
    capstan_source: ScriptedMysql, tmp_path: Path, path: str
) -> None:
    """R265: LOCAL INFILE is never answered, whatever file is asked for."""
    file = tmp_path / "file"
    file.write_text(SECRET, encoding="utf-8")
    capstan_source.misbehave(misbehaviours.asks_for_file(str(file) if path == "file" else path))
    halt = halt_of(capstan_source)
    assert halt.reason is HaltReason.PRECONDITION_QUERY_FAILED
    assert capstan_source.heard.count(b"SELECT") == 1
    assert SECRET.encode() not in capstan_source.heard
    assert b"root:" not in capstan_source.heard


# --- sizes and counts -----------------------------------------------------------------------------


def peak_of(source: ScriptedMysql) -> int:
    """The most memory that was held while a pipeline ran into its halt, in bytes."""
    tracemalloc.start()
    try:
        halt_of(source)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak


@pytest.mark.parametrize(
    ("how", "bound"),
    [
        (misbehaviours.endless_greeting(), 40 * MEBIBYTE),
        (misbehaviours.endless_answer(), 200 * MEBIBYTE),
        (misbehaviours.endless_rows(), 200 * MEBIBYTE),
        (misbehaviours.absurd_answer(), 8 * MEBIBYTE),
        (misbehaviours.absurd_name(), 8 * MEBIBYTE),
        (misbehaviours.absurd_event_size(), 8 * MEBIBYTE),
        (misbehaviours.absurd_column_count(), 8 * MEBIBYTE),
        (misbehaviours.absurd_inflated_size(), 8 * MEBIBYTE),
        (misbehaviours.decompression_bomb(), 48 * MEBIBYTE),
    ],
    ids=str,
)
def test_what_never_ends_is_bounded_before_it_is_held(
    capstan_source: ScriptedMysql, how: Misbehaviour, bound: int
) -> None:
    """R266: sizes and counts that a server names, and those it does not name, cost no memory."""
    capstan_source.misbehave(how)
    capstan_source.commit(ITEMS.insert((1, "n1")))
    assert peak_of(capstan_source) < bound


def _document(levels: int) -> bytes:
    """An array in an array in an array, and the number 1 in the innermost one."""
    document = struct.pack("<IIBi", 1, 13, 7, 1)
    for _ in range(levels - 1):
        document = struct.pack("<IIBI", 1, 13 + len(document), 3, 13) + document
    return b"\3" + document


def _json_rows(document: bytes) -> list[Event]:
    """A row of a table with one JSON column, built by hand: no server would store it."""
    table_id = (900).to_bytes(6, "little")
    names = b"\x04\x04\x03doc"
    body = table_id + b"\1\0" + b"\4shop\0\4docs\0" + b"\1\xf5\1\4\1" + names
    row = b"\0" + struct.pack("<I", len(document)) + document
    rows = table_id + struct.pack("<HH", 1, 2) + b"\1\xff" + row
    return [query("BEGIN", "shop", 0), Event(TABLE_MAP, body), Event(30, rows), xid(1, 0)]


@pytest.mark.parametrize("levels", [101, 5000])
def test_a_document_that_is_too_deep_is_corrupt(capstan_source: ScriptedMysql, levels: int) -> None:
    """R266: it ends in a named halt, not in the interpreter's stack."""
    capstan_source.events(*_json_rows(_document(levels)))
    assert halt_of(capstan_source).reason is HaltReason.EVENT_CORRUPT


def test_a_document_as_deep_as_a_server_allows_arrives(capstan_source: ScriptedMysql) -> None:
    """R266: the bound is the server's own, so that nothing legal meets it."""
    capstan_source.events(*_json_rows(_document(100)))
    sink = RecordingSink()
    with Pipeline(capstan_source.config(sink, tables=["shop.*"])) as pipeline:
        assert pipeline.wait_for(capstan_source.executed, timeout=30)
    assert [change.values for change in sink.changes] == [("[" * 100 + "1" + "]" * 100,)]


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (Event(TABLE_MAP, b""), HaltReason.EVENT_CORRUPT),
        (Event(30, b"\1"), HaltReason.EVENT_CORRUPT),
        (Event(2, b"\xff" * 13), HaltReason.EVENT_CORRUPT),
        (Event(FORMAT_DESCRIPTION, b"\4"), HaltReason.EVENT_CORRUPT),
        (Event(4, b""), HaltReason.EVENT_CORRUPT),
        (Event(33, b"\0" * 20), HaltReason.EVENT_CORRUPT),
        (Event(35, b"\xff" * 8), HaltReason.EVENT_CORRUPT),
        (Event(40, b"\xff"), HaltReason.EVENT_CORRUPT),
        (Event(42, b"\xff" * 9), HaltReason.EVENT_CORRUPT),
        (Event(XID, b""), None),
    ],
    ids=lambda value: repr(value.kind) if isinstance(value, Event) else "",
)
def test_an_event_that_is_cut_short_is_a_named_halt(
    capstan_source: ScriptedMysql, event: Event, reason: HaltReason | None
) -> None:
    """R266: no length is believed and no crash comes of it, inside a transaction or before one."""
    capstan_source.events(event)
    halt = halt_of(capstan_source)
    assert halt.reason in {reason or HaltReason.EVENT_CORRUPT, HaltReason.EVENT_ORDER_INVALID}
