"""opencode's database, read on from the latest change that was seen."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from ....store.model import ReadUpTo
from ..formats import opencode_db
from ..reading.items import SessionRead, Skipped
from .tail import Items

STEP_TURNS = 500
# A message is finished a while after it was begun, and its session is marked at both.
OVERLAP_MS = 10 * 60 * 1000


class Database:
    """One followed database. Of `read_up_to` the size is an instant: of the latest change that was read."""

    def __init__(self, path: Path, read: ReadUpTo | None) -> None:
        self.path = path
        self.read_up_to = read or ReadUpTo(0, 0, "")
        self.changed_ns = 0
        self.is_rewritten = False
        self._latest_ms = 0
        self._items: Iterator[SessionRead | Skipped] | None = None

    def step(self) -> tuple[Items, bool]:
        """Read some turns on; return what was read, and whether more is there. Raises OSError where it is away."""
        if not self.path.is_file():
            raise FileNotFoundError(self.path)
        if self._items is None:
            self.changed_ns = time.time_ns()
            self._latest_ms = opencode_db.latest_change_ms(self.path, int(time.time() * 1000))
            self._items = opencode_db.changed_since(self.path, max(0, self.read_up_to.size_bytes - OVERLAP_MS))
        items: Items = []
        turns = 0
        for item in self._items:
            items.append(item)
            turns += len(item.turns) if isinstance(item, SessionRead) else 0
            if turns >= STEP_TURNS:
                return items, True
        self._items = None
        if self._latest_ms:
            self.read_up_to = ReadUpTo(self._latest_ms, 0, "")
        return items, False
