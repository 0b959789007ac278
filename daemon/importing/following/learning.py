"""Learning of what was read: which of it is a person's, and how many of its turns were new."""

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
MOST_BEHIND = timedelta(hours=1)
"""As much as an agent's clock is taken to be behind; words that are older as they are written down were copied."""

OBSERVERS = frozenset({".claude-mem"})
"""Folders in which other memories run agents of their own, which repeat what was said."""


@dataclass(slots=True)
class Taken:
    """Counts of what was taken in since the start."""

    turns: int = 0
    skipped: int = 0
    bytes_of_backlog: int = 0
    seconds_of_backlog: float = 0.0


class Learning:
    """Keeps turns, and counts them. `own` are folders of dreamd: a session that was held there is not learned."""

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
        rewritten: bool = False,
        written_at: datetime | None = None,
    ) -> int:
        """Keep what was read; return how many turns were new. `grew` gets the head of a session that has new ones.

        `live`: the place is read as it is written. `rewritten`: other content was read there before. `written_at`: when
        the last of it was written, by the clock here.
        Raises StoreError where nothing can be kept now.
        """
        kept = []
        since = place.since and place.since - _behind(items, written_at)
        for head, turns in self._learnable(items, since):
            if rewritten and is_by_place(turns):
                self._store.settle()
                turns = renewed(self._store, turns, known_by_place(self._store, head.session_id))
            try:
                kept.append((head, self._store.observe(head, turns, live=live)))
            except InvalidInput:
                self.taken.skipped += 1
        added = 0
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
        """Say whether a path is in a folder of dreamd."""
        return any(path == folder or path.startswith(folder + "/") for folder in self._own)

    def _learnable(self, items: Items, since: datetime | None) -> Iterator[tuple[SessionHead, tuple[NewTurn, ...]]]:
        for item in items:
            if not isinstance(item, SessionRead):
                self.taken.skipped += 1
            elif self._is_a_memorys(item.head):
                continue
            elif since is None:
                yield item.head, item.turns
            elif said := tuple(turn for turn in item.turns if turn.at is None or turn.at >= since):
                yield replace(item.head, started_at=item.head.started_at or said[0].at), said

    def _is_a_memorys(self, head: SessionHead) -> bool:
        """Say whether a session was held by dreamd, or by another memory about what was said."""
        cwd = head.cwd or ""
        return self.is_own(cwd) or not OBSERVERS.isdisjoint(Path(cwd).parts)


def _behind(items: Items, written_at: datetime | None) -> timedelta:
    """Return by how much the clock of an agent is behind: its last words were written down as they were said."""
    said = [turn.at for item in items if isinstance(item, SessionRead) for turn in item.turns if turn.at]
    behind = written_at - max(said) if said and written_at else timedelta()
    return behind if timedelta() < behind <= MOST_BEHIND else timedelta()
