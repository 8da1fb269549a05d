"""Private temporary files for transactions that are too large for memory (D25).

House rules: a file has no name from the moment it is open, so that nothing of it outlives the
process, whatever ends that; only its owner could ever open it. What stands in it is not known here.
Every fault of the system is the halt `spool_failed`, named by class and code. A descriptor that was
closed is never used again, whichever thread closed it: its number may be another file's by then.
"""

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final
from weakref import WeakSet

from capstan.core.halts import HaltReason, halted
from capstan.files import value_free

_SYSTEMS: Final = "the system's folder for temporary files"
_Guard = Callable[[], AbstractContextManager[None]]


class SpoolFile:
    """One such file; closed at the latest when nobody has it any more.

    Args:
        descriptor: Of the open, nameless file; owned from now on.
        guard: Turns what the system raises into a halt.
    """

    def __init__(self, descriptor: int, guard: _Guard) -> None:
        self._descriptor: int | None = descriptor
        self._guard = guard
        self._lock = threading.Lock()

    def __del__(self) -> None:
        """To drop a transaction is to drop its file."""
        self.close()

    @property
    def closed(self) -> bool:
        """Whether it was let go."""
        return self._descriptor is None

    def write(self, data: bytes) -> None:
        """Append.

        Raises:
            Halted: `spool_failed`.
            RuntimeError: After `close()`.
        """
        with self._using() as descriptor, self._guard():
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]

    def read(self, offset: int, size: int) -> bytes:
        """Exactly these bytes.

        Raises:
            Halted: `spool_failed`, also for a file that ends before.
            RuntimeError: After `close()`.
        """
        parts = []
        with self._using() as descriptor, self._guard():
            while size and (part := os.pread(descriptor, size, offset)):
                parts.append(part)
                offset, size = offset + len(part), size - len(part)
        if size:
            raise halted(HaltReason.SPOOL_FAILED, "the spool ends before what was written")
        return b"".join(parts)

    def close(self) -> None:
        """Let go of the file, behind whoever is using it; a second call does nothing."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                with suppress(OSError):  # nobody needs what could not be written
                    os.close(descriptor)

    @contextmanager
    def _using(self) -> Iterator[int]:
        with self._lock:
            if self._descriptor is None:
                raise RuntimeError("the spool is closed")
            yield self._descriptor


class SpoolFolder:
    """Makes spool files, and knows those that are still open.

    Args:
        folder: Where; None for the system's place for temporary files.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._files: WeakSet[SpoolFile] = WeakSet()

    def open(self) -> SpoolFile:
        """A new file.

        Raises:
            Halted: `spool_failed`.
        """
        with self._guard(), tempfile.TemporaryFile(buffering=0, dir=self._folder) as made:
            file = SpoolFile(os.dup(made.fileno()), self._guard)
        with self._lock:
            self._files.add(file)
        return file

    def open_files(self) -> int:
        """How many are open."""
        with self._lock:
            return sum(not file.closed for file in self._files)

    def close_all(self) -> None:
        """Close what is still open: whoever could ask for it is gone."""
        with self._lock:
            files = list(self._files)
        for file in files:
            file.close()

    def _guard(self) -> AbstractContextManager[None]:
        return value_free(HaltReason.SPOOL_FAILED, lambda: f"spool in {self._folder or _SYSTEMS}")
