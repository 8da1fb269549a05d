"""A minute of the soak, as it runs for ten in `make soak`."""

from pathlib import Path

import pytest
from helpers.mysql import PrivateServers
from soak.footprints import Footprint, growth
from soak.soaking import Soak

from capstan.demo.workload import new_seed

SECONDS = 60.0
ROUND = 10.0


@pytest.mark.timeout(600)
def test_a_minute_of_everything_at_once_ends_identical_and_flat(
    new_server: PrivateServers, tmp_path: Path
) -> None:
    """R31, R42, R53, R121, R122, R130, R266, D12, D15: kills, crashes, faults, DDL, a backfill."""
    told: list[str] = []
    soak = Soak(new_server(), tmp_path, new_seed(), told.append)
    soak.run(SECONDS, ROUND)

    rounds = len(soak.looks)
    assert rounds >= 2
    assert soak.counts["server deaths"] + soak.counts["server restarts"] == rounds
    assert soak.counts["kills"] >= rounds
    assert soak.verified == 2 * (rounds + 1)
    assert growth(soak.looks) == [], told
    assert told


def test_what_grows_is_named() -> None:
    """R266: a leak of any kind fails the soak."""
    first = Footprint(memory=80 << 20, threads=20, files=30, temporary=0)
    for last, name in (
        (Footprint(memory=120 << 20, threads=20, files=30, temporary=0), "memory"),
        (Footprint(memory=80 << 20, threads=23, files=30, temporary=0), "threads"),
        (Footprint(memory=80 << 20, threads=20, files=45, temporary=0), "files"),
        (Footprint(memory=80 << 20, threads=20, files=30, temporary=1), "temporary files"),
    ):
        (told,) = growth([first, last])
        assert told.startswith(f"{name}: ")
    assert growth([first, first]) == []
    assert growth([last, first, first]) == []
