"""`capstan.binlog`: the names that users call, the two functions, and their example."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from helpers.binlog_files import group, inside_of_one, payload, rotate, stop, written
from helpers.binlog_stream import WRITE, begin, gtid, mapped, row, rows, xid
from helpers.event_builder import SOURCE

from capstan import binlog

ROOT = Path(__file__).parents[1]
PROMISED = """
FormatDescription TransactionBoundary TransactionAction TransactionDecoder GtidTransactionDecoder
CommittedTransaction RolledBack IncompleteTransaction read_events read_transactions
"""


def test_all_lists_the_public_names() -> None:
    """What the door offers is what it says it offers, and holds what is promised."""
    public = {
        name
        for name, value in vars(binlog).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    } - {"Iterator", "Sequence", "PathLike", "Path", "Paths", "EventReader", "TransactionReader"}
    assert set(binlog.__all__) == public
    assert set(PROMISED.split()) <= public


def test_transactions_are_read_with_their_rows(tmp_path: Path) -> None:
    """R214, R226: from a path, as text or not, or from several."""
    first = written(tmp_path / "b.1", *group(1, 7, 8), rotate("b.2"))
    second = written(
        tmp_path / "b.2", gtid(2), payload(inside_of_one(9)), stop(), before={SOURCE: (1, 2)}
    )
    ids = []
    for found in binlog.read_transactions([str(first), second]):
        assert isinstance(found.outcome, binlog.CommittedTransaction)
        ids += [change.key or change.values for e in found.outcome.row_events for change in e.rows]
    assert [values[0] for values in ids if values] == [7, 8, 9]
    assert len(list(binlog.read_transactions(str(first)))) == 1


def test_a_library_user_sets_limits(tmp_path: Path) -> None:
    """R238, R241: none unless given."""
    path = written(tmp_path / "b.1", *group(1, *range(1025)))
    assert len(list(binlog.read_transactions(path))) == 1
    with pytest.raises(binlog.DecodeError) as caught:
        list(binlog.read_transactions(path, limits=binlog.TransactionLimits()))
    assert caught.value.kind is binlog.DecodeErrorKind.LIMIT_EXCEEDED


def test_values_need_signs_from_the_file_or_a_schema(tmp_path: Path) -> None:
    """R202: a sign is never assumed."""
    path = written(tmp_path / "b.1", begin(), mapped(fields={}), rows(WRITE, [row(2**31)]), xid())
    with pytest.raises(binlog.DecodeError) as caught:
        list(binlog.read_transactions(path))
    assert caught.value.kind is binlog.DecodeErrorKind.SIGNEDNESS_MISSING
    schema = binlog.Schemas.read({"shop.items": [{"name": "id", "unsigned": True}, "name"]})
    (found,) = binlog.read_transactions(path, schema=schema)
    assert isinstance(found.outcome, binlog.CommittedTransaction)
    (event,) = found.outcome.row_events
    assert event.rows.images == [(2**31, b"n")]


def test_events_are_listed(tmp_path: Path) -> None:
    """R260: with rows only when asked for."""
    path = written(tmp_path / "b.1", *group(1, 5))
    plain, full = (list(binlog.read_events(path, rows=rows_)) for rows_ in (False, True))
    assert [event.offset for event in plain] == [event.offset for event in full]
    assert [event.rows for event in plain] == [None] * 7
    assert sum(event.rows is not None for event in full) == 1


def test_some_file_is_needed() -> None:
    """R260: an empty list is a mistake."""
    with pytest.raises(ValueError, match="no file"):
        binlog.read_events([])


def test_the_example_prints_the_largest_first(tmp_path: Path) -> None:
    """R248, R261: what the example prints is in the order of size, and only counts."""
    path = written(tmp_path / "b.1", *group(1, 1), *group(2, *range(50)), *group(3, 1, 2))
    program = ROOT / "examples" / "largest_transactions.py"
    done = subprocess.run(
        [sys.executable, str(program), str(path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert [line.split()[2] for line in done.stdout.splitlines()] == [
        f"{SOURCE}:2",
        f"{SOURCE}:3",
        f"{SOURCE}:1",
    ]
    assert "shop.items +50 ~0 -0" in done.stdout


def test_a_transactions_repr_holds_no_values(tmp_path: Path) -> None:
    """R265: counts, names and GTIDs at most."""
    path = written(tmp_path / "b.1", *group(1, 4242424242))
    (found,) = binlog.read_transactions(path)
    assert "4242424242" not in repr(found)


@pytest.mark.parametrize(
    "said",
    [
        "It is not a heap limit",
        "do not know whether a table's engine can roll back",
        "They never infer a commit",
        "Nothing is written anywhere",
        "nothing here promises a delivery",
    ],
)
def test_the_page_says_what_is_not_promised(said: str) -> None:
    """R248, R253, R254, R261, R268: limits, engines, autocommit, writes, delivery."""
    page = (ROOT / "docs" / "offline.md").read_text(encoding="utf-8")
    assert said in " ".join(page.split())


def test_the_page_tells_the_limits_in_force() -> None:
    """R238, R244, R245, R246, R247: the defaults on the page are those of the code."""
    page = (ROOT / "docs" / "offline.md").read_text(encoding="utf-8")
    limits = binlog.TransactionLimits()
    for number in (
        limits.events,
        limits.row_changes,
        limits.event_row_changes,
        limits.table_maps,
    ):
        assert f"{number:,}" in page
    assert f"{limits.encoded_bytes >> 20} MiB a transaction" in page
    assert f"{limits.event_bytes >> 20} MiB an event" in page
    assert f"{limits.image_bytes >> 20} MiB an image" in page
