"""Learning from read sessions: which of them are the person's, and how many of their turns are new."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ....store.model import InvalidInput, NewTurn, NodeId, SessionHead
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


# ---- the sessions that agents write now, and those that ended: for clients that wait for the end of one

LIVE_KEPT = 200
# Turns written so soon after the agent reported a session's end still belong to it.
LATE = timedelta(seconds=30)

# As long as working memory keeps a session: one that is quiet for a shorter time may still continue.
LOST = timedelta(hours=1)

# Why a session ended: no growth for a while, none for `LOST`, or its agent reported the end.
EndReason = Literal["", "quiet", "lost", "said"]


@dataclass(frozen=True, slots=True)
class LiveSession:
    """A session that grew while it was followed. `ended` is "" while it continues."""

    session_id: NodeId
    agent_id: str
    channel: str
    began_at: datetime
    last_at: datetime
    ended: EndReason = ""

    @property
    def is_active(self) -> bool:
        """Return True while it continues."""
        return not self.ended


class LiveSessions:
    """The latest sessions. Every method may be called from any thread."""

    def __init__(self, quiet: timedelta) -> None:
        self._quiet = quiet
        self._lock = threading.Lock()
        self._sessions: OrderedDict[NodeId, LiveSession] = OrderedDict()
        self._ended_at: OrderedDict[NodeId, datetime] = OrderedDict()

    def grew(self, head: SessionHead, now: datetime) -> None:
        """Note that a session grew. It is active again, unless the turns are late ones of a reported end."""
        with self._lock:
            ended_at = self._ended_at.get(head.session_id)
            ended: EndReason = "said" if ended_at is not None and now - ended_at <= LATE else ""
            # Removed and added again, so that the latest growth is at the end.
            known = self._sessions.pop(head.session_id, None)
            began_at = known.began_at if known else now
            self._sessions[head.session_id] = LiveSession(
                head.session_id, head.agent_id or "", head.channel, began_at, now, ended
            )
            while len(self._sessions) > LIVE_KEPT:
                self._sessions.popitem(last=False)

    def end(self, session_id: NodeId, now: datetime) -> None:
        """Note that an agent reported a session's end."""
        with self._lock:
            self._ended_at[session_id] = now
            while len(self._ended_at) > LIVE_KEPT:
                self._ended_at.popitem(last=False)
            if (known := self._sessions.get(session_id)) is not None:
                self._sessions[session_id] = replace(known, ended="said")

    def sweep(self, now: datetime) -> Sequence[LiveSession]:
        """End the sessions that did not grow for too long, and return them."""
        with self._lock:
            gone = [one for one in self._sessions.values() if one.is_active and now - one.last_at >= self._quiet]
            for one in gone:
                self._sessions[one.session_id] = replace(one, ended="quiet")
            return gone

    def lost(self, now: datetime) -> Sequence[NodeId]:
        """Return the sessions that have been quiet for `LOST`, each once."""
        with self._lock:
            gone = [one for one in self._sessions.values() if one.ended == "quiet" and now - one.last_at >= LOST]
            for one in gone:
                self._sessions[one.session_id] = replace(one, ended="lost")
            return [one.session_id for one in gone]

    def all(self) -> Sequence[LiveSession]:
        """Return all sessions, the latest growth first."""
        with self._lock:
            return list(reversed(self._sessions.values()))

    def active(self) -> Sequence[LiveSession]:
        """Return the active sessions, the latest growth first."""
        return [one for one in self.all() if one.is_active]
