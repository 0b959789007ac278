"""The sessions that agents write now, and those that ended: for clients that wait for the end of one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from ....store.model import NodeId, SessionHead

KEPT = 200
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
            while len(self._sessions) > KEPT:
                self._sessions.popitem(last=False)

    def end(self, session_id: NodeId, now: datetime) -> None:
        """Note that an agent reported a session's end."""
        with self._lock:
            self._ended_at[session_id] = now
            while len(self._ended_at) > KEPT:
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
