"""The one way out for events: to the observers and to the debug log.

House rules: an observer that raises never disturbs the pipeline; it is counted. Logging is quiet
unless the host application configures the `capstan` logger.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from capstan.telemetry.events import Event

logger = logging.getLogger("capstan")
logger.addHandler(logging.NullHandler())


class Hooks:
    """Tells every observer each event, in order, on the thread where it happened."""

    def __init__(self, observers: Iterable[Callable[[Any], None]] = ()) -> None:
        self._observers = tuple(observers)
        self.failures = 0
        self._inside: set[int] = set()

    @contextmanager
    def host_code(self) -> Iterator[None]:
        """Mark the block as running the host's code on this pipeline's own thread."""
        thread = threading.get_ident()
        self._inside.add(thread)
        try:
            yield
        finally:
            self._inside.discard(thread)

    def in_host_code(self) -> bool:
        """Whether the calling thread is one of this pipeline's own, inside the host's code.

        Waiting for the pipeline's end there would wait for itself.
        """
        return threading.get_ident() in self._inside

    def emit(self, event: Event) -> None:
        """Tell everyone."""
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s %s", event.name, event)
        for observer in self._observers:
            try:
                with self.host_code():
                    observer(event)
            except BaseException:  # noqa: BLE001 - a host's observer must not be able to stop the pipeline
                self.failures += 1
