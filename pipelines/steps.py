"""How far a dream is: in steps, whose number stays the same to its end; how far a step is stands in the note."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from .protocol import Progress

T = TypeVar("T")
Tell = Callable[[Progress], None]

DETAIL_EVERY_S = 0.5


class Steps:
    """Says which step a dream is at, and from time to time how far that one is."""

    def __init__(self, tell: Tell, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._tell = tell
        self._monotonic = monotonic
        self._at = Progress(stage="start")
        self._told_s = 0.0

    def at(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Say that so many of the steps are done, and which is the one."""
        self._at = Progress(stage=stage, done=done, total=total)
        self._say(note)

    def detail(self, what: str, done: int, total: int) -> None:
        """Say how far the step is, unless something was said a moment ago."""
        if self._monotonic() - self._told_s >= DETAIL_EVERY_S:
            self._say(f"{what} {done:,} of {total:,}")

    def counted(self, items: Sequence[T], what: str) -> Iterator[T]:
        """Yield items, and say how far that is."""
        for done, item in enumerate(items):
            self.detail(what, done, len(items))
            yield item

    def _say(self, note: str) -> None:
        self._told_s = self._monotonic()
        self._tell(self._at.model_copy(update={"note": note}))
