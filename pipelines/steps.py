"""Progress of a dream, counted in steps, whose number never changes; progress within a step is in the note."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from .protocol import Progress

T = TypeVar("T")

DETAIL_EVERY_S = 0.5
OnProgress = Callable[[Progress], None]


class Steps:
    """Reports the step that a dream is at, and from time to time the progress within it."""

    def __init__(self, on_progress: OnProgress, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._on_progress = on_progress
        self._monotonic = monotonic
        self._at = Progress(stage="start")
        self._reported_s = 0.0

    def at(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Report that so many of the steps are done, and which one is next."""
        self._at = Progress(stage=stage, done=done, total=total)
        self._report(note)

    def detail(self, what: str, done: int, total: int) -> None:
        """Report progress within the step, at most every DETAIL_EVERY_S seconds."""
        if self._monotonic() - self._reported_s >= DETAIL_EVERY_S:
            self._report(f"{what} {done:,} of {total:,}")

    def counted(self, items: Sequence[T], what: str) -> Iterator[T]:
        """Yield items, and report how many have been."""
        for done, item in enumerate(items):
            self.detail(what, done, len(items))
            yield item

    def _report(self, note: str) -> None:
        self._reported_s = self._monotonic()
        self._on_progress(self._at.model_copy(update={"note": note}))
