"""The work that is open at the start of a session: the anchor to continue from, and the threads of its channel."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ...store import fenced, unmarked

if TYPE_CHECKING:
    from ...store import MemoryStore

MOST_THREADS = 3
# An older anchor of a session without an end is of another day's work, and is left to `anchor_recover`.
LOST_WITHIN = timedelta(days=1)

THREADS_OPENING = "Left open by earlier sessions:"
# The sources of a start at which an agent continues its session. Resumed, it has its context, and needs no anchor.
COMPACTED, RESUMED = "compact", "resume"


def open_work(store: MemoryStore, channel: str, session_id: str, source: str, now: datetime) -> str:
    """Return the anchor from which a session continues, and the open threads of its channel; "" without any."""
    if source in (COMPACTED, RESUMED):
        return store.anchor_of_session(session_id).text if source == COMPACTED else ""
    lost = store.lost_anchor(channel, session_id)
    anchor = lost.text if lost.anchor is not None and now - lost.anchor.set_at <= LOST_WITHIN else ""
    return "\n".join(filter(None, (anchor, _threads(store, channel))))


def _threads(store: MemoryStore, channel: str) -> str:
    lines = [
        f"- since {(goal.thread_since or goal.changed_at):%-d %B %Y}, {goal.state}: “{unmarked(goal.text)}”"
        for goal in store.threads(channel)[:MOST_THREADS]
    ]
    return fenced("\n".join((THREADS_OPENING, *lines))) if lines else ""
