from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from dreamd.store.background.worker import MOST_WAITING, Errands

Make = Callable[..., Errands]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[Errands] = []

    def make_(is_busy: Callable[[], bool] = lambda: False, **options: bool) -> Errands:
        made.append(Errands("dreamd-test", is_busy, **options))
        made[-1].start()
        return made[-1]

    yield make_
    for errands in made:
        errands.stop()


def held_up(errands: Errands) -> threading.Event:
    """Let the thread wait in an errand until the event is set."""
    began, go_on = threading.Event(), threading.Event()

    def errand() -> None:
        began.set()
        assert go_on.wait(30)

    assert errands.put(errand)
    assert began.wait(30)
    return go_on


def test_errands_are_run_in_order_and_waited_for(make: Make) -> None:
    errands, done = make(), list[int]()
    for number in range(10):
        assert errands.put(partial(done.append, number))
    assert errands.settle(30)
    assert done == list(range(10))


def test_one_that_fails_is_given_up_and_the_next_is_run(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    errands, done = make(), list[int]()

    def fail() -> None:
        raise OSError(28, "what a person said")

    errands.put(fail)
    errands.put(lambda: done.append(1))
    with caplog.at_level(logging.WARNING):
        assert errands.settle(30)
    assert (done, errands.failed) == ([1], 1)
    (told,) = caplog.messages
    assert "OSError" in told
    assert "what a person said" not in caplog.text


@pytest.mark.parametrize("to_the_end", [True, False])
def test_at_the_end_what_waits_is_run_or_let_go_of_and_nobody_waits_in_vain(make: Make, to_the_end: bool) -> None:
    errands, done = make(to_the_end=to_the_end), list[int]()
    go_on = held_up(errands)
    errands.put(lambda: done.append(1))
    settled: list[bool] = []
    waiting = threading.Thread(target=lambda: settled.append(errands.settle(30)))
    waiting.start()
    while errands._queue.qsize() < 2:
        pass
    ending = threading.Thread(target=errands.stop)
    ending.start()
    assert errands._stopping.wait(30)
    go_on.set()
    waiting.join()
    ending.join()
    assert (done, settled) == ([1] if to_the_end else [], [True])
    assert not errands.put(lambda: done.append(2))
    assert not errands.settle(30)


def test_what_finds_no_place_is_refused_unless_it_must_be(make: Make) -> None:
    errands, done = make(), list[str]()
    go_on = held_up(errands)
    while errands.put(lambda: None):
        assert errands._queue.qsize() <= MOST_WAITING
    assert errands.put(lambda: done.append("even so"), even_if_full=True)
    go_on.set()
    assert errands.settle(30)
    assert done == ["even so"]


def test_whoever_is_answered_goes_first(make: Make) -> None:
    looks: list[bool] = []

    def is_busy() -> bool:
        looks.append(True)
        return len(looks) < 3

    errands = make(is_busy)
    seen: list[int] = []
    errands.put(lambda: seen.append(len(looks)))
    assert errands.settle(30)
    assert seen == [3]
