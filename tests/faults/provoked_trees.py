"""Halts of the tree itself: nameless crashes, children that stay, actors stopped by others."""

from collections.abc import Iterator

import pykka
from faults.scene import OPENED, Provocation, Scene, sown, upto
from helpers import event_builder as events
from helpers import sentinels
from helpers.scripted_source import ScriptedLink, ScriptedSource

from capstan import HaltReason, Pipeline
from capstan.core.gtid import Gtid


class _NoLinks(ScriptedSource):
    """A source with a bug."""

    def link(self) -> ScriptedLink:
        raise RuntimeError(sentinels.EXCEPTION_TEXT)


def _bug_at_the_dial(scene: Scene) -> None:
    scene.refused(source=_NoLinks(lambda _: ()))


def _bug_in_the_stream(scene: Scene) -> None:
    """Each dial brings what is missing, the anchor included, and then crashes."""

    def script(_: int) -> Iterator[bytes | Exception]:
        asked = source.asked[-1]
        missing = [n for n in (1, 2) if Gtid(events.SOURCE, "", n) not in asked]
        yield events.packets([*events.opening(), *(raw for n in missing for raw in sown(n))])
        yield KeyError(sentinels.EXCEPTION_TEXT)

    source = ScriptedSource(script)
    scene.all_delivered = True
    scene.play([events.packets(OPENED)], source=source)


class _HangingSource(ScriptedSource):
    """Its links do not give way to an interrupt."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(lambda _: [events.packets(OPENED)])
        self.release = scene.release

    def link(self) -> ScriptedLink:
        return _HangingLink(self, iter(self.script(0)))


class _HangingLink(ScriptedLink):
    def __init__(self, source: _HangingSource, steps: Iterator[bytes | Exception]) -> None:
        super().__init__(source, steps)
        self._release = source.release

    def read(self, timeout: float) -> bytes | None:
        step = next(self._steps, None)
        assert not isinstance(step, Exception)
        if step is None:
            self._release.wait(60)
        return step


def _stays(scene: Scene) -> None:
    def stop(pipeline: Pipeline) -> None:
        assert pipeline.wait_for(upto(2), timeout=30)
        pipeline.stop()

    scene.after_two(source=_HangingSource(scene), act=stop)


def _everybody_is_stopped(scene: Scene) -> None:
    def stop(pipeline: Pipeline) -> None:
        assert pipeline.wait_for(upto(2), timeout=30)
        pykka.ActorRegistry.stop_all()

    scene.after_two(act=stop)


TREES = [
    Provocation(HaltReason.RESTARTS_EXHAUSTED, "a bug at every dial", _bug_at_the_dial),
    Provocation(HaltReason.RESTARTS_EXHAUSTED, "a bug in every stream", _bug_in_the_stream),
    Provocation(HaltReason.CHILD_WOULD_NOT_STOP, "a read that ignores the interrupt", _stays),
    Provocation(HaltReason.STOPPED_FROM_OUTSIDE, "a host that stops all", _everybody_is_stopped),
]
