"""Something that is done at one moment of a backfill: between two of its captures."""

from collections.abc import Callable

from capstan import Config
from capstan.core.tables import TableName
from capstan.sources.base import Pinned
from capstan.wiring import view_source
from helpers.views import Altered, AlteredSource


def acting(config: Config, act: Callable[[], object], before_pin: int) -> AlteredSource:
    """Real views; something is done before the reader's n-th attempt to pin one.

    What is executed there is outside of the position of the capture before and inside of this one.
    So it is judged by the cursor that the chunk before left, and goes in front of this chunk.
    """

    class Acting(Altered):
        pins = 0

        def pin(self, table: TableName) -> Pinned:
            Acting.pins += 1
            if Acting.pins == before_pin:
                act()
            return super().pin(table)

    assert config.snapshot is not None
    return AlteredSource(view_source(config, config.snapshot), Acting)
