"""A source that plays scripts instead of talking to a server: for faults and for exact timing."""

import threading
from collections.abc import Callable, Iterable, Iterator

import attrs

from capstan.core.gtid import GtidSet
from capstan.core.preflight import BinlogFilters, Flavour, ServerFacts
from capstan.sources.base import Link, LinkLost, Source
from helpers import event_builder as events

SERVER_UUID = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"

GOOD_FACTS = ServerFacts(
    version_text="9.7.4",
    version=(9, 7, 4),
    flavour=Flavour.MYSQL,
    server_uuid=SERVER_UUID,
    server_id=1,
    log_bin=True,
    binlog_format="ROW",
    binlog_row_image="FULL",
    binlog_row_metadata="FULL",
    binlog_checksum="CRC32",
    gtid_mode="ON",
    gtid_executed=GtidSet.parse(f"{events.SOURCE}:1-1000000"),
    log_replica_updates=True,
    is_replica=False,
    filters=BinlogFilters(),
)

Script = Iterable[bytes | Exception]


class ScriptedSource(Source):
    """Each dial plays the next script: pieces are read, an exception is raised, then silence.

    Attributes:
        asked: The set of each dump request.
        reads: How many pieces were read, over all dials.
        links: How many links were made.
    """

    def __init__(self, script: Callable[[int], Script], facts: ServerFacts = GOOD_FACTS) -> None:
        self.script = script
        self.facts = facts
        self.asked: list[GtidSet] = []
        self.reads = 0
        self.links = 0

    def link(self) -> "ScriptedLink":
        """A link for the next dial, numbered from 0."""
        link = ScriptedLink(self, iter(self.script(self.links)))
        self.links += 1
        return link


class ScriptedLink(Link):
    """One dial of a scripted source."""

    tls = False

    def __init__(self, source: ScriptedSource, steps: Iterator[bytes | Exception]) -> None:
        self._source = source
        self._steps = steps
        self._interrupted = threading.Event()

    def open(self) -> ServerFacts:
        """The scripted facts."""
        return self._source.facts

    def executed(self) -> GtidSet:
        """The scripted gtid_executed."""
        return self._source.facts.gtid_executed

    def dump(self, gtid_set: GtidSet) -> None:
        """Remember what was asked for."""
        self._source.asked.append(gtid_set)

    def read(self, timeout: float) -> bytes | None:
        """The next step; silence behind the last one."""
        step = next(self._steps, None)
        if step is None:
            self._interrupted.wait(timeout)
            return None
        if isinstance(step, Exception):
            raise step
        self._source.reads += 1
        return step

    def close(self) -> None:
        """Nothing to close."""
        self._interrupted.set()

    def interrupt(self) -> None:
        """Wake a silent read."""
        self._interrupted.set()


def pieces(raws: Iterable[bytes], size: int | None = None) -> list[bytes]:
    """A dump of these events behind the usual opening, cut into pieces of `size` bytes."""
    data = events.packets([*events.opening(), *raws])
    if size is None:
        return [data]
    return [data[at : at + size] for at in range(0, len(data), size)]


def one_by_one(groups: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    """A dump in which every group of events is a piece of its own."""
    sequence = 1
    for group in ([*events.opening()], *groups):
        raws = list(group)
        yield events.packets(raws, sequence & 0xFF)
        sequence += len(raws)


def facts_with(**changes: object) -> ServerFacts:
    """Good facts, but for these."""
    return attrs.evolve(GOOD_FACTS, **changes)


def cut(stage: str = "read", code: int | None = 2013) -> LinkLost:
    """A link that breaks."""
    return LinkLost(stage, code)
