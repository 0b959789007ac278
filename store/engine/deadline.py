"""Deadlines: for the statements that a thread gives to SQLite, and for its wait to work alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from ..model import StoreBusy

STEPS = 10_000
"""Steps of SQLite's virtual machine between two looks at the clock: about a millisecond, and no cost that shows."""

_mine = threading.local()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Interrupt this thread's reads that take longer, or longer than a deadline around this one. Raises StoreBusy."""
    outer: float = getattr(_mine, "until_s", float("inf"))
    _mine.until_s = min(outer, time.monotonic() + seconds)
    try:
        yield
    except apsw.InterruptError as error:
        raise StoreBusy("the question takes too long to answer", hint="Ask for less, or try again later.") from error
    finally:
        _mine.until_s = outer


@contextmanager
def lifted() -> Iterator[None]:
    """Let this thread take its time: for work that every later question needs and that is lost when it breaks off."""
    outer: float = getattr(_mine, "until_s", float("inf"))
    _mine.until_s = float("inf")
    try:
        yield
    finally:
        _mine.until_s = outer


def obey(connection: apsw.Connection) -> apsw.Connection:
    """Have a connection's statements end with InterruptError once the deadline of the thread that runs them is over."""
    connection.set_progress_handler(is_over, STEPS)
    return connection


def is_over() -> bool:
    """Return True if the deadline of this thread has passed."""
    return time.monotonic() > getattr(_mine, "until_s", float("inf"))


class SoftLock:
    """Lets threads through one at a time, and those that have waited for `patience_s` as well.

    It guards no data. Python runs one thread at a time, and threads that take it from each other in the middle of
    their work finish later than one after the other. It is reentrant.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._lock = threading.RLock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait until no other thread is inside, or for long enough."""
        is_alone = self._lock.acquire(timeout=self._patience_s)
        try:
            yield
        finally:
            if is_alone:
                self._lock.release()
