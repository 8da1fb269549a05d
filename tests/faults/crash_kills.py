"""Kills one process after another in the crash matrix, in a process of its own that may be forked.

Run as a script: `crash_kills.py ACTOR SINK FOLDER`. For each strike of that actor one life is
killed there and another one goes on; what was seen of both is printed as one line of JSON.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from faults.crash_lives import Life
from faults.crash_matrix import Strike, strikes
from helpers.histories import gtid

from capstan import GtidSet
from capstan.testing import CrashPoints


def killed(life: Life, strike: Strike) -> dict[str, object]:
    """Kill one life, look, and let another one go on."""
    struck = life.die(strike.point, strike.hit)
    stored, journal = life.stored() or GtidSet(), life.journal()
    window = [number for number in journal.transactions if gtid(number) not in stored]
    chunks = sorted(set(journal.chunks))[life.chunks_done() :]
    with CrashPoints() as points:
        life.live(points, life.world())
    return {
        "strike": str(strike),
        "struck": struck,
        "window": [window, chunks],
        "again": again(life),
        "rows": sorted(life.rows().items()),
        "stored": str(life.stored()),
    }


def again(life: Life) -> list[list[int]]:
    """Which transactions and which chunks came a second time, each as often as that."""
    journal = life.journal()
    return [
        sorted((Counter(numbers) - Counter(set(numbers))).elements())
        for numbers in (journal.transactions, journal.chunks)
    ]


def main(actor: str, sink: str, folder: Path) -> None:
    """Strike everywhere."""
    for number, strike in enumerate(strikes(actor, sink)):
        place = folder / str(number)
        place.mkdir()
        seen = killed(Life(place, sink), strike)
        sys.stdout.write(json.dumps(seen) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
