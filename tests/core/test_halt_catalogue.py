"""The catalogue: complete, value-free, and its remedies can be typed as they stand."""

import ast
import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import attrs
import click
import pytest
from helpers.mysql import PrivateServers, execute

from capstan.cli import main
from capstan.config import Delivery, Limits, Snapshot, Source
from capstan.core.halt_catalogue import CATALOGUE, GROUPS, Entry, describe
from capstan.core.halts import Fault, Halt, HaltReason

ROOT = Path(__file__).parents[2]
RAISED = {reason: entry for reason, entry in CATALOGUE.items() if entry.since is not None}
STATEMENT = re.compile(r"(?:SELECT|SHOW|SET|GRANT|ALTER) .+[^…)]")
SECTIONS = {
    "source": {field.name for field in attrs.fields(Source)},
    "delivery": {field.name for field in attrs.fields(Delivery)},
    "limits": {field.name for field in attrs.fields(Limits)},
    "snapshot": {field.name for field in attrs.fields(Snapshot)},
    "store": {"kind", "path"},
    "sink": {"kind", "path"},
}


def quoted(text: str) -> list[str]:
    """What stands in backquotes."""
    return re.findall(r"`([^`]+)`", text)


def quoted_in_remedies(start: str) -> list[str]:
    """Everything in backquotes that begins like this, in the remedies of raised reasons."""
    texts = (text for entry in RAISED.values() for text in quoted(entry.remedy))
    return list(dict.fromkeys(text for text in texts if text.startswith(start)))


# --- completeness ---------------------------------------------------------------------------------


def test_every_reason_has_one_row_in_the_order_of_the_list() -> None:
    """R164: one catalogue holds all reasons, those of the backfill among them."""
    assert list(CATALOGUE) == list(HaltReason)
    assert sum(map(len, GROUPS.values())) == len(HaltReason)


def test_the_reasons_of_the_backfill_are_those_with_its_prefix() -> None:
    """R164: each failure of a backfill has a reason of its own that begins with snapshot_."""
    prefixed = [reason for reason in HaltReason if reason.value.startswith("snapshot_")]
    assert list(GROUPS["Backfill"]) == prefixed


@pytest.mark.parametrize("reason", HaltReason)
def test_a_row_says_what_whose_and_what_to_do(reason: HaltReason) -> None:
    """R54: an operator can act on every reason."""
    entry = CATALOGUE[reason]

    assert isinstance(entry.fault, Fault)
    assert entry.document == f"docs/halts.md#{reason.value}"
    assert quoted(entry.remedy), "a remedy names something to type or to look at"
    for text in (entry.meaning, entry.remedy):
        assert text.endswith(".")
        assert 40 <= len(text) <= 420
        assert "\n" not in text
        assert "  " not in text
        assert text.count("`") % 2 == 0


def test_rows_are_written_for_their_reason() -> None:
    """No two rows share a meaning: a copied row would send the reader the wrong way."""
    assert len({entry.meaning for entry in CATALOGUE.values()}) == len(CATALOGUE)


def reasons_named_in(files: Iterator[Path]) -> set[HaltReason]:
    """The reasons that code names as `HaltReason.X` or as their text."""
    named = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Attribute(value=ast.Name(id="HaltReason"), attr=name):
                    named.add(HaltReason[name])
                case ast.Constant(value=str(text)) if text in set(HaltReason):
                    named.add(HaltReason(text))
    return named


def test_every_reason_is_raised_somewhere_or_reserved() -> None:
    """R164: the list holds no reason that a reader could wait for in vain."""
    own = {"halts.py", "halt_catalogue.py"}
    sources = (file for file in (ROOT / "capstan").rglob("*.py") if file.name not in own)
    assert reasons_named_in(sources) == set(RAISED)


def test_every_raised_reason_is_named_by_a_test() -> None:
    """No halt is left to be tried out for the first time by a user."""
    own = {"test_halts.py", "test_halt_catalogue.py"}
    tests = (file for file in (ROOT / "tests").rglob("*.py") if file.name not in own)
    assert set(RAISED) - reasons_named_in(tests) == set()


# --- remedies -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (HaltReason.UNRECOGNIZED_DUMP_ERROR, "RESET BINARY LOGS AND GTIDS"),
        (HaltReason.DATA_GAP, "capstan checkpoint set FILE.toml --current"),
        (HaltReason.CAPTURE_CONFIG_DRIFTED, "capstan checkpoint accept-tables FILE.toml"),
        (HaltReason.BINLOG_ROW_METADATA_NOT_FULL, "SET PERSIST binlog_row_metadata = 'FULL'"),
        (HaltReason.SNAPSHOT_PRIVILEGE_MISSING, "GRANT SELECT, LOCK TABLES ON shop.*"),
    ],
)
def test_a_remedy_names_the_exact_words(reason: HaltReason, words: str) -> None:
    """D4, D16, D24, D26: what to type stands in the remedy."""
    assert words in CATALOGUE[reason].remedy


def commands() -> list[str]:
    return quoted_in_remedies("capstan ")


@pytest.mark.parametrize("line", commands())
def test_a_command_in_a_remedy_exists(line: str) -> None:
    """R54: the command line knows every command and option that a remedy names."""
    _, *words = line.split()
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None
        command = found
    placeholders = {"FILE.toml": "/dev/null", "GTID": "x:1", "GTIDSET": "x:1"}
    assert command.make_parser(context).parse_args([placeholders.get(w, w) for w in words])


@pytest.mark.parametrize("entry", RAISED.values(), ids=list(RAISED))
def test_an_option_in_a_remedy_exists(entry: Entry) -> None:
    """R54: every option that is named with its section is one that the section has."""
    for names, section in re.findall(
        r"((?:`\w+`(?:,? and )?)+) (?:in|of) `\[(\w+)\]`", entry.remedy
    ):
        assert set(quoted(names)) <= SECTIONS[section]


def test_statements_in_remedies_make_a_wrong_server_right(new_server: PrivateServers) -> None:
    """R54, D26: run as they stand and in order, they turn every wrong setting into the needed."""
    wrong = {
        "binlog_format": "MIXED",
        "binlog_row_image": "MINIMAL",
        "binlog_row_metadata": "MINIMAL",
        "gtid_mode": "OFF",
        "enforce_gtid_consistency": "OFF",
    }
    statements = [text for text in quoted_in_remedies("") if STATEMENT.fullmatch(text)]
    assert len(statements) >= 15

    with contextlib.closing(new_server(options=wrong).connect()) as connection:
        execute(connection, "CREATE USER 'repl'@'%' ACCOUNT LOCK")
        execute(connection, "CREATE DATABASE shop")
        execute(connection, "CREATE TABLE shop.orders (id INT)")
        for statement in statements:
            execute(connection, statement)

        found = {name: execute(connection, f"SELECT @@GLOBAL.{name}")[0][0] for name in wrong}
        assert found == {
            "binlog_format": "ROW",
            "binlog_row_image": "FULL",
            "binlog_row_metadata": "FULL",
            "gtid_mode": "ON",
            "enforce_gtid_consistency": "ON",
        }


# --- description ----------------------------------------------------------------------------------


def test_a_halt_is_described_as_plain_data() -> None:
    """R54: what the command line prints is the halt and its row, and reads back from JSON."""
    halt = Halt(HaltReason.SINK_FAILED, "KeyError")
    entry = CATALOGUE[HaltReason.SINK_FAILED]

    assert json.loads(json.dumps(describe(halt))) == {
        "reason": "sink_failed",
        "detail": "KeyError",
        "meaning": entry.meaning,
        "fault": "sink",
        "remedy": entry.remedy,
        "document": "docs/halts.md#sink_failed",
        "also": [],
    }


def test_further_findings_are_described_with_their_own_rows() -> None:
    """D26: a preflight's findings all come with their remedies, not only the first."""
    halt = Halt(
        HaltReason.BINLOG_DISABLED,
        "log_bin=OFF",
        also=(Halt(HaltReason.GTID_MODE_NOT_ON, "gtid_mode=OFF"),),
    )

    (further,) = describe(halt)["also"]

    assert further == describe(Halt(HaltReason.GTID_MODE_NOT_ON, "gtid_mode=OFF"))
    assert further["remedy"] == CATALOGUE[HaltReason.GTID_MODE_NOT_ON].remedy


def test_a_description_is_plain_text_throughout() -> None:
    """R54: no enum member is left in it, so that any serialiser takes it."""
    described = describe(Halt(HaltReason.DATA_GAP))
    assert {type(value) for value in described.values()} == {str, list}
