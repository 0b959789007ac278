"""Goals of a session; those that are open when it ends are the open threads of its channel."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from threading import Lock
from typing import Final

from ..core import Core
from ..door import outgoing
from ..ledger.work import end_session, set_goal
from ..limits import SESSION_TTL_S
from ..model import InvalidInput, NodeId, NotFound
from ..results import Goal, GoalState
from .sessions import SessionsAtWork

# Open goals of one session, and threads of one channel that are returned.
MOST_OPEN: Final = 50

MOST_CHARS: Final = 500
ID_CHARACTERS: Final = 8


class Goals:
    """Keeps goals, each durable when its method returns. Every method may be called from any thread.

    `gate` is held while one is changed. `keep_thread` makes a memory of a goal that was left open, `close_thread`
    archives it.
    """

    def __init__(
        self,
        core: Core,
        gate: Lock,
        sessions: SessionsAtWork,
        keep_thread: Callable[[Goal], None],
        close_thread: Callable[[Goal], None],
    ) -> None:
        self._core = core
        self._door = core.door
        self._ledger = core.ledger
        self._writer = core.writer
        self._now = core.now
        self._gate = gate
        self._sessions = sessions
        self._keep_thread = keep_thread
        self._close_thread = close_thread

    def set(
        self,
        session_id: NodeId | None,
        channel: str,
        *,
        text: str = "",
        goal_id: str | None = None,
        state: GoalState | None = None,
        parent: str | None = None,
    ) -> Goal:
        """Open a goal, or change one, by its id or by its words in the same session.

        A thread of an earlier session is taken up by its id: it belongs to this session from then on; without a session
        it stays in its own. Raises NotFound for an id that the channel does not have, InvalidInput for no text, too
        many open goals, or a circle of parents.
        """
        self._core.calls.note()
        session_id = None if session_id is None else self._door.checked_session(session_id, channel)
        self._core.switches.refuse_if_off(channel)
        text = self._door.line(text)
        if len(text) > MOST_CHARS:
            raise InvalidInput(f"the goal has {len(text):,} characters, more than {MOST_CHARS}", hint="Say it shorter.")
        with self._gate:
            goal = self._changed(session_id, channel, text, goal_id, state)
            if parent is not None:
                goal = replace(goal, parent=self._parent(goal, parent))
            self._writer.write(*set_goal(goal)).result()
        if not goal.is_open:
            self._close_thread(goal)
        return _shown(goal)

    def of(self, session_id: NodeId) -> list[Goal]:
        """Return the goals of a session, in the order in which they were opened."""
        self._core.calls.note()
        return [_shown(goal) for goal in self._ledger.goals(self._door.session_name(session_id))]

    def threads(self, channel: str) -> list[Goal]:
        """Return the goals that were open when their sessions ended, the newest first.

        A session that was not touched for an hour has ended, as one does that crashed.
        """
        self._core.calls.note()
        idle = self._now() - timedelta(seconds=SESSION_TTL_S)
        left = {
            goal.session_id
            for goal in self._ledger.goals(channel=channel)
            if goal.is_open and goal.thread_since is None and goal.changed_at < idle
        }
        for session_id in left.difference(self._sessions.ids()):
            self.end_session(session_id)
        found = [goal for goal in self._ledger.goals(channel=channel) if goal.is_open and goal.thread_since]
        found.sort(key=lambda goal: goal.changed_at, reverse=True)
        return [_shown(goal) for goal in found[:MOST_OPEN]]

    def end_session(self, session_id: NodeId) -> list[Goal]:
        """Note the end of a session; return its open goals, which are threads of its channel from now on."""
        self._core.calls.note()
        session_id = self._door.session_name(session_id)
        self._sessions.end(session_id)
        with self._gate:
            left = [goal for goal in self._ledger.goals(session_id) if goal.is_open and goal.thread_since is None]
            self._writer.write(*end_session(session_id, self._now())).result()
        for goal in left:
            self._keep_thread(goal)
        return [goal for goal in self.of(session_id) if goal.is_open]

    def _changed(
        self, session_id: NodeId | None, channel: str, text: str, goal_id: str | None, state: GoalState | None
    ) -> Goal:
        now = self._now()
        if goal_id is None and (session_id is None or not text):
            raise InvalidInput("there is no goal", hint="Give its session and its words, or its id.")
        name = goal_id or _id_of(session_id or "", text)
        known = next((goal for goal in self._ledger.goals(channel=channel) if goal.goal_id == name), None)
        if known is None:
            if goal_id is not None or session_id is None:
                raise NotFound(f"there is no goal {goal_id} in {channel}", hint="`goals` lists them.")
            if sum(goal.is_open for goal in self._ledger.goals(session_id)) >= MOST_OPEN:
                raise InvalidInput(f"{session_id} has {MOST_OPEN} open goals", hint="Complete or abandon some.")
            return Goal(name, session_id, channel, text, state or "active", None, now, now)
        return replace(
            known,
            session_id=session_id or known.session_id,
            text=text or known.text,
            state=state or known.state,
            changed_at=now,
            thread_since=None if session_id else known.thread_since,
        )

    def _parent(self, goal: Goal, parent: str) -> str | None:
        """Return the id of a goal's new parent, None for "". Raises NotFound, and InvalidInput for a circle."""
        if not parent:
            return None
        parents = {one.goal_id: one.parent for one in self._ledger.goals(channel=goal.channel)}
        if parent not in parents:
            raise NotFound(f"there is no goal {parent} in {goal.channel}", hint="`goals` lists them.")
        above: str | None = parent
        # Bounded by the number of goals: rows from elsewhere may hold a circle.
        for _ in parents:
            if above == goal.goal_id:
                raise InvalidInput(f"{parent} serves {goal.goal_id} already", hint="A goal cannot serve itself.")
            above = parents.get(above) if above else None
        return parent


def _id_of(session_id: NodeId, text: str) -> str:
    digest = hashlib.sha256(f"{session_id}\0{text}".encode("utf-8", "surrogatepass")).digest()
    return "goal-" + base64.b32encode(digest)[:ID_CHARACTERS].decode().lower()


def _shown(goal: Goal) -> Goal:
    return replace(goal, text=outgoing(goal.text))
