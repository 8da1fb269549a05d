"""The simulated source itself: what the lock is good for, and that a bare read is not."""

from random import Random

import pytest
from helpers.backfill_source import SimulatedSource
from helpers.changes_builder import gtid

SEEDS = range(60)


def inexact_captures(*, locks: bool) -> tuple[int, int]:
    """How many captures were made, and how many do not show exactly what their G says."""
    made = wrong = 0
    for seed in SEEDS:
        source = SimulatedSource(Random(seed), 30)
        while not source.quiet:
            source.write()
            captured = source.capture("t", locks=locks)
            if captured is None:
                continue
            position, view = captured
            rows = {table: dict(found) for table, found in source.at_start.items()}
            for writing in source.binlog:
                if gtid(writing.number) in position:
                    for write in writing.writes:
                        write.apply(rows)
            made += 1
            wrong += rows["t"] != view
    return made, wrong


def test_under_the_lock_a_view_shows_exactly_its_position() -> None:
    """R72, R84, D1: 0 ahead, 0 behind, though GTIDs and visibility lead each other."""
    made, wrong = inexact_captures(locks=True)
    assert made > 1_000
    assert wrong == 0


def test_a_bare_read_does_not() -> None:
    """R85, R86: without the lock there is no lower bound."""
    made, wrong = inexact_captures(locks=False)
    assert wrong > made / 10


def test_the_stream_may_be_ahead_of_the_view_and_out_of_order() -> None:
    """D6: the source of the model does what real ones were seen to do."""
    ahead = disordered = 0
    for seed in SEEDS:
        source = SimulatedSource(Random(seed), 30)
        while not source.quiet:
            source.write()
            ahead += any(not writing.executed for writing in source.binlog)
            done = [writing.executed for writing in source.binlog]
            disordered += done != sorted(done, reverse=True)
    assert ahead
    assert disordered


@pytest.mark.parametrize("table", ["t", "u", "o"])
def test_what_was_logged_is_what_is_there_in_the_end(table: str) -> None:
    """R120: the log makes the end from the beginning, in whatever order things became visible."""
    for seed in SEEDS:
        source = SimulatedSource(Random(seed), 30)
        while not source.quiet:
            source.write()
        rows = {name: dict(found) for name, found in source.at_start.items()}
        for writing in source.binlog:
            for write in writing.writes:
                write.apply(rows)
        assert rows[table] == source.visible[table]
