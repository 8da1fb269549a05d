"""`make soak SECONDS=600 SEED=…`: one line a minute, and an exit code."""

import argparse
import contextlib
import json
import sys
import tempfile
from pathlib import Path

from helpers.mysql import PrivateServers, programs_or_fail

from capstan.demo.process_control import PipelineEndedError
from capstan.demo.workload import new_seed
from soak.footprints import growth
from soak.soaking import Soak, SoakError


def say(line: str) -> None:
    """Print at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Soak; 0 when all was identical, nothing came twice and the footprint was flat."""
    parser = argparse.ArgumentParser(prog="soak")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--round", type=float, default=20.0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--note", type=Path, help="a file to which a clean run is added")
    options = parser.parse_args(arguments)
    seed = new_seed() if options.seed is None else options.seed
    say(f"soaking for {options.seconds:.0f} s with seed {seed}")
    with (
        contextlib.closing(PrivateServers(programs_or_fail())) as servers,
        tempfile.TemporaryDirectory(prefix="capstan-soak-") as folder,
    ):
        soak = Soak(servers(), Path(folder), seed, say)
        try:
            soak.run(options.seconds, options.round)
        except (SoakError, PipelineEndedError) as error:
            say(f"failed with seed {seed}: {error}")
            return 1
        run = soak.record()
    say(f"first: {run['first']}; middle: {run['middle']}; last: {run['last']}")
    grown = growth(soak.looks)
    if grown:
        say(f"failed with seed {seed}: not flat: {'; '.join(grown)}")
        return 1
    if options.note is not None:
        with options.note.open("a", encoding="ascii") as note:
            note.write(json.dumps(run) + "\n")
    say("clean")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
