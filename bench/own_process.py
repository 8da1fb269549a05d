"""Runs a contender in a process of its own, so that none warms or clutters another one's memory.

Owns: how a task goes in and what was measured comes out: as JSON on standard input and output.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import attrs

RUN_SECONDS: Final = 900
"""After which a run is given up."""


def measured(script: Path, *arguments: str, task: Any) -> dict[str, Any]:
    """What one run of a contender prints.

    Args:
        script: The file that holds the contenders.
        arguments: Which of them.
        task: An attrs object: what it is to do.
    """
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        input=json.dumps(attrs.asdict(task)),
        stdout=subprocess.PIPE,
        text=True,
        timeout=RUN_SECONDS,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found
