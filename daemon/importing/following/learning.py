"""Learning from read sessions: which of them are the person's, and how many of their turns are new."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ....store.model import InvalidInput, NewTurn, SessionHead
from ..items import SessionRead
from ..turns import is_by_place, known_by_place, renewed
from .followed_places import FollowedPlace
from .tail import Items

if TYPE_CHECKING:
    from ....store import MemoryStore

KEEP_TIMEOUT_S = 60.0
# The most that an agent's clock is assumed to be behind; turns that are older when they are written were copied.
MOST_BEHIND = timedelta(hours=1)

# Folders in which other memories run agents of their own, which repeat the turns of their person's sessions.
OBSERVERS = frozenset({".claude-mem"})


@dataclass(slots=True)
class Taken:
    """Counts of imported content since the start."""

    turns: int = 0
    skipped: int = 0
    bytes_of_backlog: int = 0
    seconds_of_backlog: float = 0.0


class Learning:
    """Keeps turns, and counts them. Sessions whose working directory is in `own`, dreamd's folders, are left out."""

    def __init__(self, store: MemoryStore, own: Sequence[Path]) -> None:
        self._store = store
        self._own = [str(folder) for folder in own]
        self.taken = Taken()

    def keep(
        self,
        items: Items,
        place: FollowedPlace,
        grew: Callable[[SessionHead], None],
        *,
        live: bool = False,
        named: bool = False,
        rewritten: bool = False,
        written_at: datetime | None = None,
    ) -> int:
        """Keep the turns of items; return how many were new. `grew` gets the head of each session with new turns.

        `live`: the place is read as it is written, `named`: now and then while it is. `rewritten`: the file held other
        content before. `written_at`: the time of its last change, by this machine's clock. Raises StoreError where
        nothing can be kept now.
        """
        kept = []
        since = place.since and place.since - _behind(items, written_at)
        for head, turns in self._learnable(items, since):
            # The turns that are known by these places may have other texts now.
            if rewritten and is_by_place(turns):
                self._store.settle()
                turns = renewed(self._store, turns, known_by_place(self._store, head.session_id))
            try:
                kept.append((head, self._store.observe(head, turns, live=live)))
                if named:
                    self._store.hear_read(head, turns)
            except InvalidInput:
                self.taken.skipped += 1
        added = 0
        # All batches are in the writer's queue before the first is waited for, so that they share a sync.
        for head, future in kept:
            try:
                observed = future.result(KEEP_TIMEOUT_S)
            except InvalidInput:
                self.taken.skipped += 1
                continue
            added += observed.added
            if observed.added:
                grew(head)
        self.taken.turns += added
        return added

    def is_own(self, path: str) -> bool:
        """Return True if a path is in a folder of dreamd."""
        return any(path == folder or path.startswith(folder + "/") for folder in self._own)

    def _learnable(self, items: Items, since: datetime | None) -> Iterator[tuple[SessionHead, tuple[NewTurn, ...]]]:
        for item in items:
            if not isinstance(item, SessionRead):
                self.taken.skipped += 1
            elif self._is_a_memorys(item.head):
                continue
            elif since is None:
                yield item.head, item.turns
            elif turns := tuple(turn for turn in item.turns if turn.at is None or turn.at >= since):
                yield replace(item.head, started_at=item.head.started_at or turns[0].at), turns

    def _is_a_memorys(self, head: SessionHead) -> bool:
        """Return True for a session of dreamd, or of another memory that observes its person's sessions."""
        cwd = head.cwd or ""
        return self.is_own(cwd) or not OBSERVERS.isdisjoint(Path(cwd).parts)


def _behind(items: Items, written_at: datetime | None) -> timedelta:
    """Return how far an agent's clock is behind ours: its latest turn was written down at once."""
    turn_times = [turn.at for item in items if isinstance(item, SessionRead) for turn in item.turns if turn.at]
    behind = written_at - max(turn_times) if turn_times and written_at else timedelta()
    return behind if timedelta() < behind <= MOST_BEHIND else timedelta()
