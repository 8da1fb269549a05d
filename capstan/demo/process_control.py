"""The pipeline's process as the demonstration sees it: started, killed, stopped, and heard out.

Owns: the child process and what it says at its end. Refuses to know: what a pipeline is.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Self

import attrs

from capstan.demo.pipeline_process import EXIT_CONFIG, EXIT_HALTED, EXIT_STOPPED

_LAST_LINES = 12


@attrs.frozen(kw_only=True)
class PipelineEndedError(Exception):
    """The pipeline's process ended by itself, or did not end well.

    Attributes:
        code: The exit code to pass on: 2 refused, 3 halted, 1 anything else.
        lines: Why, in words.
    """

    code: int
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)


class PipelineProcess:
    """A pipeline in a child process; one life after another, never two at once.

    Args:
        config: Its configuration file.
        log: Where it logs its deliveries.
        errors: Where its standard error goes.
    """

    def __init__(self, *, config: Path, log: Path, errors: Path) -> None:
        self._command = [
            sys.executable,
            "-m",
            "capstan.demo.pipeline_process",
            str(config),
            str(log),
        ]
        self._errors = errors
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; whether it goes well shows later."""
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - our own argument list, no shell
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )

    def kill(self) -> None:
        """SIGKILL: no warning, no last words; returns when it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def check(self) -> None:
        """Look whether it still lives.

        Raises:
            PipelineEndedError: It does not.
        """
        if self._process is not None:
            code = self._process.poll()
            if code is not None:
                raise self._end(code)

    def stop(self, timeout: float) -> None:
        """Ask it to stop and wait until it has.

        Args:
            timeout: Seconds, after which it is killed.

        Raises:
            PipelineEndedError: It did not stop in time, or not with the exit code of a stop.
        """
        if self._process is None:
            return
        self.check()
        self._process.terminate()
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise PipelineEndedError(
                code=1, lines=(f"the pipeline did not stop within {timeout:.0f} s",)
            ) from None
        if code != EXIT_STOPPED:
            raise self._end(code)
        self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _end(self, code: int) -> PipelineEndedError:
        lines = self._errors.read_text(encoding="utf-8", errors="replace").splitlines()
        if code == EXIT_HALTED and lines:
            halt = json.loads(lines[-1])
            said = f"pipeline halted: {halt['reason']}: {halt['detail']}"
            return PipelineEndedError(
                code=code, lines=(said, halt["meaning"], f"remedy: {halt['remedy']}")
            )
        if code == EXIT_CONFIG and lines:
            return PipelineEndedError(
                code=code, lines=(f"pipeline refused its configuration: {lines[-1]}",)
            )
        return PipelineEndedError(
            code=1, lines=(f"pipeline ended with code {code}:", *lines[-_LAST_LINES:])
        )
