"""The sessions that agents write now, and those that ended: for who waits for the end of one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from ....store.model import NodeId, SessionHead

KEPT = 200

Reason = Literal["", "quiet", "said"]
"""Why a session ended: it did not grow for a while (it may have crashed), or its agent said so."""


@dataclass(frozen=True, slots=True)
class LiveSession:
    """A session that grew while it was followed. `ended` is "" while it goes on."""

    session_id: NodeId
    agent_id: str
    channel: str
    began_at: datetime
    last_at: datetime
    ended: Reason = ""

    @property
    def is_active(self) -> bool:
        """Say whether it goes on."""
        return not self.ended


class LiveSessions:
    """The latest sessions. Every method may be called from any thread."""

    def __init__(self, quiet: timedelta) -> None:
        self._quiet = quiet
        self._lock = threading.Lock()
        self._sessions: OrderedDict[NodeId, LiveSession] = OrderedDict()

    def grew(self, head: SessionHead, now: datetime) -> None:
        """Note that a session grew: it goes on, also after its end."""
        with self._lock:
            known = self._sessions.pop(head.session_id, None)
            began_at = known.began_at if known else now
            self._sessions[head.session_id] = LiveSession(
                head.session_id, head.agent_id or "", head.channel, began_at, now
            )
            while len(self._sessions) > KEPT:
                self._sessions.popitem(last=False)

    def end(self, session_id: NodeId) -> None:
        """Note that its agent said that it ended."""
        with self._lock:
            if (known := self._sessions.get(session_id)) is not None:
                self._sessions[session_id] = replace(known, ended="said")

    def sweep(self, now: datetime) -> Sequence[LiveSession]:
        """End the sessions that did not grow for too long, and return them."""
        with self._lock:
            gone = [one for one in self._sessions.values() if one.is_active and now - one.last_at >= self._quiet]
            for one in gone:
                self._sessions[one.session_id] = replace(one, ended="quiet")
            return gone

    def all(self) -> Sequence[LiveSession]:
        """Return them, the one that grew last first."""
        with self._lock:
            return list(reversed(self._sessions.values()))

    def active(self) -> Sequence[LiveSession]:
        """Return those that go on."""
        return [one for one in self.all() if one.is_active]
