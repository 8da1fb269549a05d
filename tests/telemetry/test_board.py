"""The board: written by the actors, read and waited for from any thread."""

import threading

import attrs
import pytest
from helpers.histories import up_to

from capstan.core.gtid import GtidSet
from capstan.telemetry.board import Board, Figures

DEADLINE = 20.0


def test_a_new_board_shows_nothing() -> None:
    """No lag before the first batch, no server before the first stream."""
    figures = Board().figures

    assert figures == Figures()
    assert (figures.watermark, figures.lag_seconds, figures.server_uuid) == (GtidSet(), None, None)


def test_an_update_leaves_the_other_figures_alone() -> None:
    """Each actor writes its own."""
    board = Board()
    board.update(transactions=3, batches=1)
    board.update(connection="x")

    assert board.figures == Figures(transactions=3, batches=1, connection="x")


def test_a_look_is_a_look_at_one_moment() -> None:
    """What was taken from the board does not change any more."""
    board = Board()
    look = board.figures
    board.update(batches=5)

    assert look.batches == 0
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        look.batches = 1  # type: ignore[misc]


def test_a_figure_that_does_not_exist_is_refused() -> None:
    """A misspelt name is seen at once."""
    with pytest.raises(TypeError):
        Board().update(batch=1)


def test_who_waits_hears_of_each_change() -> None:
    """The condition is looked at again whenever a figure was written."""
    board, reached = Board(), threading.Event()

    def wait() -> None:
        if board.wait(lambda figures: up_to(3) <= figures.watermark, DEADLINE):
            reached.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    for number in (1, 2, 3):
        board.update(watermark=up_to(number))
    waiting.join(DEADLINE)

    assert reached.is_set()


def test_a_wait_for_what_is_already_so_returns_at_once() -> None:
    """Nothing has to change for it."""
    board = Board()
    board.update(batches=1)

    assert board.wait(lambda figures: figures.batches == 1, 0)


def test_a_wait_in_vain_is_false() -> None:
    """By its timeout."""
    assert not Board().wait(lambda figures: figures.batches > 0, 0)


def test_the_end_wakes_everybody() -> None:
    """What was reached is true, all else is false; also for those who ask later."""
    board = Board()
    board.update(batches=1)
    answers: list[bool] = []
    threads = [
        threading.Thread(target=lambda n=n: answers.append(board.wait(lambda f: f.batches > n, 60)))
        for n in (5, 6)
    ]
    for thread in threads:
        thread.start()
    board.over()
    for thread in threads:
        thread.join(DEADLINE)

    assert answers == [False, False]
    assert board.wait(lambda figures: figures.batches == 1, None)
    assert not board.wait(lambda figures: figures.batches == 2, None)
