"""What a process takes of the machine, and whether it takes more and more.

House rules: looked at from outside, when the process has nothing to do. Flat means: not more than
in the middle, but for the tolerances below, which are far under what one leaked piece a
transaction, or one leaked thread or file a crash, would come to.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

_MORE_MEMORY: Final = 6 << 20
"""Bytes: caches of plans, and what the allocator keeps in its one arena."""
_MORE_FILES: Final = 11
"""The stream's link and the two of a chunk reader, each with what interrupts it: there or not."""
_MORE_THREADS: Final = 1


@attrs.frozen(kw_only=True)
class Footprint:
    """One look.

    Attributes:
        memory: Resident bytes.
        threads: Threads.
        files: Open file descriptors, spools without a name among them.
        temporary: Files in the folder for temporary files.
    """

    memory: int
    threads: int
    files: int
    temporary: int

    @classmethod
    def of(cls, pid: int, folder: Path) -> "Footprint":
        """Look at a process and at its folder for temporary files."""
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
        return cls(
            memory=_figure(status, "VmRSS") * 1024,
            threads=_figure(status, "Threads"),
            files=_entries(Path(f"/proc/{pid}/fd")),
            temporary=_entries(folder),
        )

    def __str__(self) -> str:
        return (
            f"{self.memory / 2**20:.0f} MiB, {self.threads} threads, {self.files} files,"
            f" {self.temporary} temporary"
        )


def _entries(folder: Path) -> int:
    return sum(1 for _ in folder.iterdir())


def _figure(status: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+)", status, re.MULTILINE)
    assert found is not None
    return int(found[1])


def warm(looks: Sequence[Footprint]) -> Footprint:
    """The look in the middle: by then every table and every name has been met (measured)."""
    return looks[(len(looks) - 1) // 2]


def growth(looks: Sequence[Footprint]) -> list[str]:
    """In what the last look is more than the one in the middle; in words."""
    middle, last = warm(looks), looks[-1]
    found = {
        "memory": last.memory - middle.memory > _MORE_MEMORY,
        "threads": last.threads - middle.threads > _MORE_THREADS,
        "files": last.files - middle.files > _MORE_FILES,
        "temporary files": last.temporary > middle.temporary,
    }
    return [f"{name}: {middle}, then {last}" for name, more in found.items() if more]
