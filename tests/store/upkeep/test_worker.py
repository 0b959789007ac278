from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from dreamd.store.upkeep.worker import MOST_WAITING, WorkQueue

Make = Callable[..., WorkQueue]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[WorkQueue] = []

    def make_(is_busy: Callable[[], bool] = lambda: False, **options: bool) -> WorkQueue:
        made.append(WorkQueue("dreamd-test", is_busy, **options))
        made[-1].start()
        return made[-1]

    yield make_
    for queue in made:
        queue.stop()


def held_up(queue: WorkQueue) -> threading.Event:
    """Let the thread wait in a job until the event is set."""
    began, go_on = threading.Event(), threading.Event()

    def job() -> None:
        began.set()
        assert go_on.wait(30)

    assert queue.put(job)
    assert began.wait(30)
    return go_on


def test_jobs_run_in_order_and_can_be_waited_for(make: Make) -> None:
    queue, done = make(), list[int]()
    for number in range(10):
        assert queue.put(partial(done.append, number))
    assert queue.settle(30)
    assert done == list(range(10))


def test_a_job_that_fails_is_given_up_and_the_next_runs(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    queue, done = make(), list[int]()

    def fail() -> None:
        raise OSError(28, "what a person said")

    queue.put(fail)
    queue.put(lambda: done.append(1))
    with caplog.at_level(logging.WARNING):
        assert queue.settle(30)
    assert (done, queue.failed) == ([1], 1)
    (told,) = caplog.messages
    assert "OSError" in told
    assert "what a person said" not in caplog.text


@pytest.mark.parametrize("finish_on_stop", [True, False])
def test_on_stop_waiting_jobs_run_or_are_dropped_and_settle_returns(make: Make, finish_on_stop: bool) -> None:
    queue, done = make(finish_on_stop=finish_on_stop), list[int]()
    go_on = held_up(queue)
    queue.put(lambda: done.append(1))
    settled: list[bool] = []
    waiting = threading.Thread(target=lambda: settled.append(queue.settle(30)))
    waiting.start()
    while queue._queue.qsize() < 2:
        pass
    ending = threading.Thread(target=queue.stop)
    ending.start()
    assert queue._stopping.wait(30)
    go_on.set()
    waiting.join()
    ending.join()
    assert (done, settled) == ([1] if finish_on_stop else [], [True])
    assert not queue.put(lambda: done.append(2))
    assert not queue.settle(30)


def test_a_full_queue_refuses_a_job_unless_told_otherwise(make: Make) -> None:
    queue, done = make(), list[str]()
    go_on = held_up(queue)
    while queue.put(lambda: None):
        assert queue._queue.qsize() <= MOST_WAITING
    assert queue.put(lambda: done.append("even so"), even_if_full=True)
    go_on.set()
    assert queue.settle(30)
    assert done == ["even so"]


def test_a_job_waits_while_requests_are_answered(make: Make) -> None:
    looks: list[bool] = []

    def is_busy() -> bool:
        looks.append(True)
        return len(looks) < 3

    queue = make(is_busy)
    seen: list[int] = []
    queue.put(lambda: seen.append(len(looks)))
    assert queue.settle(30)
    assert seen == [3]
