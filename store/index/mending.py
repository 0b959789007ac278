"""Mending: a damaged index gets a successor, which is filled from the vault, without anybody's hand."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from .opening import OpenIndex

logger = logging.getLogger(__name__)

RETRY_S: Final = 1.0
RETRY_AT_MOST_S: Final = 10.0
"""The wait after a failure (a full disk, an index that is damaged again), doubled with each."""


class Mending:
    """Replaces the index in use when it is found damaged, and fills it; in a thread of its own.

    `fill` reads the vault into whatever index is in use.
    """

    def __init__(self, opened: Callable[[], OpenIndex], fill: Callable[[], object]) -> None:
        self._opened = opened
        self._fill = fill
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._usable = threading.Event()
        self._usable.set()
        self._suspected = False
        self._thread = threading.Thread(target=self._run, name="dreamd-mending", daemon=True)

    def start(self) -> None:
        """Begin; what was noticed before is mended now."""
        self._thread.start()

    def stop(self) -> None:
        """End after what is at hand."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def noticed(self) -> None:
        """Start the replacement of the damaged index. From any thread, also from within a transaction."""
        self._usable.clear()
        self._wake.set()

    def suspect(self) -> None:
        """Something that read the index failed: look whether that is damaged."""
        self._suspected = True
        self._wake.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait until there is an index that can be asked, filled or not; False when that takes longer."""
        return self._usable.wait(timeout_s)

    def _run(self) -> None:
        retry_s = RETRY_S
        while self._wake.wait() and not self._stopping.is_set():
            self._wake.clear()
            try:
                self._mend()
                retry_s = RETRY_S
            except Exception as error:
                logger.warning("the index could not be made again (%s); trying later", type(error).__name__)
                self._stopping.wait(retry_s)
                retry_s = min(2 * retry_s, RETRY_AT_MOST_S)
                self._wake.set()

    def _mend(self) -> None:
        opened = self._opened()
        if self._suspected:
            opened.problems()
            self._suspected = False
        opened.replace_damaged()
        self._usable.set()
        if not opened.is_whole:
            self._fill()
            logger.info("the index is made again")
