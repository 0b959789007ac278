"""Errands: what is done behind everybody's back, one after the other, when nobody waits for an answer."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from .courtesy import give_way

logger = logging.getLogger(__name__)

MOST_WAITING: Final = 1000

Errand = Callable[[], None]


class Errands:
    """A queue of errands and the thread that runs them. Every method may be called from any thread.

    An errand that fails is given up and counted in `failed`; the thread lives on. `is_busy` says that somebody waits
    for an answer: before every `at_once` errands in a row the thread gives way. At the end those that wait are run if
    `to_the_end`, else let go of.
    """

    def __init__(self, name: str, is_busy: Callable[[], bool], *, at_once: int = 1, to_the_end: bool = False) -> None:
        self.failed = 0
        self._is_busy = is_busy
        self._at_once = at_once
        self._to_the_end = to_the_end
        self._queue: SimpleQueue[Errand | threading.Event | None] = SimpleQueue()
        self._gate = threading.Lock()
        self._closed = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to run them."""
        self._thread.start()

    def stop(self) -> None:
        """End; whoever waits for errands that are let go of waits no longer."""
        with self._gate:
            self._closed = True
            self._stopping.set()
            self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def put(self, errand: Errand, *, even_if_full: bool = False) -> bool:
        """Have something done; False, and it never is, where MOST_WAITING wait already or it has stopped."""
        with self._gate:
            if self._closed or (self._queue.qsize() >= MOST_WAITING and not even_if_full):
                return False
            self._queue.put(errand)
            return True

    def settle(self, timeout_s: float) -> bool:
        """Wait until what was put so far is done or given up; False when that takes longer, or it has stopped."""
        reached = threading.Event()
        with self._gate:
            if self._closed:
                return False
            self._queue.put(reached)
        return reached.wait(timeout_s)

    def _run(self) -> None:
        run = 0
        while (item := self._queue.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
                continue
            if self._stopping.is_set() and not self._to_the_end:
                continue
            if run % self._at_once == 0:
                give_way(self._is_busy, self._stopping)
            self._try(item)
            run = 0 if self._queue.empty() else run + 1

    def _try(self, errand: Errand) -> None:
        try:
            errand()
        except Exception as error:
            self.failed += 1
            frame = traceback.extract_tb(error.__traceback__)[-1]  # not the message: it may hold a person's text
            logger.warning(
                "%s gave up an errand: %s at %s:%d",
                *(self._thread.name, type(error).__name__, frame.filename, frame.lineno),
            )
