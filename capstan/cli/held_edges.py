"""Store and sink in the hands of a command: held against every pipeline, closed at the end.

House rules: a command that changes what a run starts from holds the store meanwhile, so that nobody
streams; what is refused on the way ends the command as a halt.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from capstan.cli.console import end_halted
from capstan.config import Config
from capstan.core.halts import Halted


@contextmanager
def halts_told() -> Iterator[None]:
    """End the command with the halt that the block raises."""
    try:
        yield
    except Halted as verdict:
        end_halted(verdict.halt)


@contextmanager
def held(config: Config) -> Iterator[Config]:
    """The configuration, its store held against every pipeline; both edges closed at the end."""
    with halts_told():
        try:
            config.store.hold()
            yield config
        finally:
            config.sink.close()
            config.store.close()
