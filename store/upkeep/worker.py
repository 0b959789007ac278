"""The work queue of the background threads: one job at a time, while no request is in flight."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

logger = logging.getLogger(__name__)

# Jobs that wait at most; later ones are turned away.
MOST_WAITING: Final = 1000

# The longest wait of background work for a moment without requests.
IDLE_WAIT_S: Final = 2.0

# The interval at which it looks for one.
IDLE_POLL_S: Final = 0.05

Job = Callable[[], None]


def wait_until_idle(is_busy: Callable[[], bool], stopping: threading.Event) -> None:
    """Wait while requests are being answered, until `stopping` is set, and for IDLE_WAIT_S at most."""
    until = time.monotonic() + IDLE_WAIT_S
    while is_busy() and time.monotonic() < until and not stopping.wait(IDLE_POLL_S):
        pass


class WorkQueue:
    """A queue of jobs and the thread that runs them. Every method may be called from any thread.

    A job that fails is given up and counted in `failed`; the thread lives on. `is_busy` says that a request is in
    flight: the thread waits for idleness before each run of up to `burst` jobs. On `stop` the jobs that wait are run
    if `finish_on_stop`, else dropped.
    """

    def __init__(self, name: str, is_busy: Callable[[], bool], *, burst: int = 1, finish_on_stop: bool = False) -> None:
        self.failed = 0
        self._is_busy = is_busy
        self._burst = burst
        self._finish_on_stop = finish_on_stop
        self._queue: SimpleQueue[Job | threading.Event | None] = SimpleQueue()
        self._gate = threading.Lock()
        self._closed = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; `settle` returns at once for callers that wait for jobs which are dropped."""
        with self._gate:
            self._closed = True
            self._stopping.set()
            self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def put(self, job: Job, *, even_if_full: bool = False) -> bool:
        """Queue a job; False, and it never runs, when MOST_WAITING jobs wait already or the queue has stopped."""
        with self._gate:
            if self._closed or (self._queue.qsize() >= MOST_WAITING and not even_if_full):
                return False
            self._queue.put(job)
            return True

    def settle(self, timeout_s: float) -> bool:
        """Wait until the jobs queued so far are done or given up; False after the timeout, or once stopped."""
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
            if self._stopping.is_set() and not self._finish_on_stop:
                continue
            if run % self._burst == 0:
                wait_until_idle(self._is_busy, self._stopping)
            self._try(item)
            run = 0 if self._queue.empty() else run + 1

    def _try(self, job: Job) -> None:
        try:
            job()
        except Exception as error:
            self.failed += 1
            frame = traceback.extract_tb(error.__traceback__)[-1]  # not the message: it may hold a person's text
            logger.warning(
                "%s gave up a job: %s at %s:%d",
                *(self._thread.name, type(error).__name__, frame.filename, frame.lineno),
            )
