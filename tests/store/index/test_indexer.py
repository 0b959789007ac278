"""When the indexer takes what the writer placed: after those who write, within bounds, and at once for who waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import pytest
from dreamd.store.index.index import Index
from dreamd.store.index.indexer import LONGEST_REST_S, LONGEST_WAIT_S, MOST_RESTING, STOP_S, Indexer
from dreamd.store.ledger.journal import AppliedFile
from dreamd.store.model import StoreBusy

POLL_S = 0.01


class NotedIndex:
    """Takes note of what it was given."""

    def __init__(self) -> None:
        self.applied: list[str] = []
        self.between_slices = None
        self.raise_if_stopped: Callable[[], None] | None = None

    @contextmanager
    def batch(self) -> Iterator[None]:
        yield

    def apply(self, path: str, *_: object) -> None:
        self.applied.append(path)


class Case:
    """An indexer on a clock that stands still until it is moved, while somebody writes without a pause."""

    def __init__(self) -> None:
        self.now_s, self.is_writing = 0.0, True
        self.index = NotedIndex()
        self.looked = threading.Event()
        self.indexer = Indexer(
            cast(Index, self.index),
            lambda: None,
            is_writing=self.look,
            monotonic=lambda: self.now_s,
        )
        self.indexer.start(0)

    def look(self, within_s: float) -> bool:
        self.looked.set()
        return self.is_writing

    def raise_if_stopped(self) -> None:
        assert self.index.raise_if_stopped is not None
        self.index.raise_if_stopped()

    def place(self, number: int) -> None:
        self.indexer.placed([AppliedFile(f"facts/{number}.md", 0)], number)

    def has_taken(self, number: int) -> bool:
        """Look on until so many were taken, for 20 s at most."""
        for _ in range(int(20 / POLL_S)):
            if len(self.index.applied) >= number:
                return True
            time.sleep(POLL_S)
        return False


@pytest.fixture
def case() -> Iterator[Case]:
    made = Case()
    yield made
    made.indexer.stop()


def test_indexing_rests_during_writes_and_goes_on_in_a_pause(case: Case) -> None:
    case.place(1)
    assert case.looked.wait(20)
    assert case.index.applied == []
    case.is_writing = False
    assert case.has_taken(1)


def test_indexing_rests_for_a_bounded_time_during_steady_writes(case: Case) -> None:
    case.place(1)
    assert case.looked.wait(20)
    case.now_s = LONGEST_REST_S
    assert case.has_taken(1)


def test_wait_for_ends_the_rest(case: Case) -> None:
    case.place(1)
    assert case.looked.wait(20)
    assert case.indexer.wait_for(1, 20)
    assert case.index.applied == ["facts/1.md"]


def test_many_turns_behind_end_the_rest(case: Case) -> None:
    for number in range(1, MOST_RESTING + 1):
        case.place(number)
    assert case.has_taken(1)


def test_a_job_waits_for_the_placed_files_and_ends_a_rest_that_is_too_long(case: Case) -> None:
    case.place(1)
    assert case.looked.wait(20)
    ran = case.indexer.submit(lambda: list(case.index.applied))
    case.place(2)
    case.now_s = LONGEST_WAIT_S + 1.0
    assert ran.result(20) == ["facts/1.md", "facts/2.md"]


def test_a_stop_that_begins_ends_the_waiting_jobs_and_what_is_indexed(case: Case) -> None:
    """What stops before the indexer may wait for a job of its own, behind a file that takes minutes."""
    case.is_writing = False
    begun = threading.Event()

    def long_file() -> None:
        begun.set()
        for _ in range(int(20 / POLL_S)):
            case.raise_if_stopped()
            time.sleep(POLL_S)

    indexed = case.indexer.submit(long_file)
    waiting = case.indexer.submit(lambda: None)
    assert begun.wait(20)
    case.indexer.begin_to_stop()
    with pytest.raises(StoreBusy):
        waiting.result(0)
    with pytest.raises(StoreBusy):
        case.indexer.submit(lambda: None)
    case.now_s += STOP_S + 0.1
    with pytest.raises(StoreBusy):
        indexed.result(10)


def test_what_is_placed_after_a_stop_began_is_still_indexed(case: Case) -> None:
    case.indexer.begin_to_stop()
    case.place(1)
    assert case.has_taken(1)
