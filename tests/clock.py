"""A clock that a test moves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(slots=True)
class Clock:
    """Returns `now` until a test sets another."""

    now: datetime

    def __call__(self) -> datetime:
        return self.now
