"""SIGINT and SIGTERM: the first one asks for the end, the second one is it.

House rules: the two are blocked and waited for on a thread of their own. A handler would run on the
main thread, which may hold a lock or miss the second signal behind the first. Only a command may
touch the process's signals, never the library; what was there before is put back.
"""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any, Final, Self

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Inside the block a first signal asks for the end, and a second one ends the process.

    Threads that are started inside the block leave the signals alone; there must be none before.

    Args:
        ask: Asks for the end; called on a thread of its own.

    Attributes:
        received: The first signal; None while there was none.
    """

    def __init__(self, ask: Callable[[], None]) -> None:
        self.received: signal.Signals | None = None
        self._ask = ask
        self._over = False
        self._listener = threading.Thread(target=self._listen, name="capstan-signals", daemon=True)
        self._mask: set[int] = set()
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS))
        # Python's own handler for SIGINT would wait for the main thread.
        self._handlers = {number: signal.signal(number, signal.SIG_DFL) for number in _SIGNALS}
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        assert self._listener.ident is not None
        signal.pthread_kill(self._listener.ident, signal.SIGTERM)
        self._listener.join()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _listen(self) -> None:
        first = signal.Signals(signal.sigwait(_SIGNALS))
        if self._over:
            return
        self.received = first
        self._ask()
        second = signal.sigwait(_SIGNALS)
        if not self._over:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            os.kill(os.getpid(), second)


def end_by(number: signal.Signals) -> None:
    """End this process as this signal would have done, so that a shell sees that it was not done.

    On the main thread, outside the block.
    """
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
