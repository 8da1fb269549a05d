"""The two signals, in processes of their own: this one has threads that would not block them."""

import signal
import subprocess
import sys

import pytest

BEGIN = """
import os, signal, threading
from capstan.cli.stop_signals import StopSignals, end_by
asked = threading.Event()
def kill(number):
    os.kill(os.getpid(), number)
"""


def ended(code: str) -> tuple[int, str]:
    """Run this code; its exit code and what it printed."""
    process = subprocess.run(
        [sys.executable, "-c", BEGIN + code], capture_output=True, text=True, check=False
    )
    assert process.stderr == ""
    return process.returncode, process.stdout


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_the_first_signal_asks_and_is_remembered(name: str) -> None:
    """Asked once, on a thread of its own; the block goes on until it is left."""
    code = f"""
threads = []
def ask():
    threads.append(threading.current_thread())
    asked.set()
with StopSignals(ask) as signals:
    assert signals.received is None
    kill(signal.{name})
    asked.wait()
assert threads != [threading.main_thread()] and len(threads) == 1
print(signals.received.name)
"""
    assert ended(code) == (0, f"{name}\n")


def test_a_second_signal_is_heard_however_close_it_follows() -> None:
    """It ends the process, whichever of the two it is, while the first one is being answered."""
    code = """
with StopSignals(lambda: None):
    kill(signal.SIGTERM)
    kill(signal.SIGINT)
    threading.Event().wait()
"""
    returned, printed = ended(code)
    assert returned in {-signal.SIGINT, -signal.SIGTERM}
    assert printed == ""


def test_what_was_there_before_is_put_back() -> None:
    """Handlers and mask, and no thread is left; with a signal and without one."""
    code = """
def state():
    return signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), \\
        signal.pthread_sigmask(signal.SIG_BLOCK, ()), threading.active_count()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
before = state()
with StopSignals(asked.set):
    assert state() != before
assert state() == before and not asked.is_set()
with StopSignals(asked.set):
    kill(signal.SIGINT)
    asked.wait()
assert state() == before
"""
    assert ended(code) == (0, "")


def test_a_process_can_end_as_the_signal_would_have_ended_it() -> None:
    """A shell then does not go on with what was to come after it."""
    assert ended("end_by(signal.SIGINT)") == (-signal.SIGINT, "")
