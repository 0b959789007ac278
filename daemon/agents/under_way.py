"""The work under way, at the ends of a session: the anchor that it goes on from, and what earlier ones left open."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ...store import fenced, unmarked

if TYPE_CHECKING:
    from ...store import MemoryStore

MOST_THREADS = 3
LOST_WITHIN = timedelta(days=1)
"""An older anchor of a session that did not end is of another day's work, and is left to `anchor_recover`."""

LONGEST_TASK = 300
OPENING = "Left open by earlier sessions:"
SAME_SESSION = frozenset({"compact", "resume"})
"""The sources of a start whose agent had begun before: it goes on from its own anchor alone."""


def text_at_start(store: MemoryStore, channel: str, session_id: str, source: str, now: datetime) -> str:
    """Return the anchor that a session goes on from, and the open threads of its channel; "" for none."""
    if source in SAME_SESSION:
        return store.anchor_of_session(session_id).text
    lost = store.recover_anchor(channel, session_id)
    anchor = lost.text if lost.anchor is not None and now - lost.anchor.set_at <= LOST_WITHIN else ""
    return "\n".join(filter(None, (anchor, _threads(store, channel))))


def keep_task(store: MemoryStore, channel: str, session_id: str, prompt: str) -> None:
    """Note what a session was asked, before its agent forgets it, unless it left an anchor of its own."""
    if not prompt or store.paused or channel in store.channels_off:
        return
    if store.anchor_of_session(session_id).anchor is None:
        store.set_anchor(session_id, channel, task=" ".join(prompt.split())[:LONGEST_TASK])


def _threads(store: MemoryStore, channel: str) -> str:
    lines = [
        f"- since {(goal.thread_since or goal.changed_at):%-d %B %Y}, {goal.state}: “{unmarked(goal.text)}”"
        for goal in store.threads(channel)[:MOST_THREADS]
    ]
    return fenced("\n".join((OPENING, *lines))) if lines else ""
