"""A lock for work that may run in parallel but is faster alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


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
