"""The sessions of agents, as far as a hook must know them: what each was handed already, and what it was asked last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

MOST_SESSIONS = 256
MOST_LINES = 300
KEPT = timedelta(days=2)
"""After so long without a word a session is taken for a new one."""


@dataclass(slots=True)
class AgentSession:
    """One session. `given` are the lines in its agent's context, `tokens` what they cost there.

    `prompt` is the last one, and `is_kept` once it is a turn.
    """

    seen_at: datetime
    given: list[str] = field(default_factory=list)
    tokens: int = 0
    prompt: str = ""
    prompts: int = 0
    is_kept: bool = False

    def note_prompt(self, prompt: str) -> None:
        """Note what the agent is asked now."""
        self.prompt = prompt
        self.is_kept = False
        self.prompts += 1

    def hand(self, lines: list[str], tokens: int) -> None:
        """Note what was handed over; the oldest are dropped beyond a bound."""
        self.given = [*self.given, *lines][-MOST_LINES:]
        self.tokens += tokens

    def forget_given(self) -> None:
        """Begin anew: the agent's context is empty again."""
        self.given = []
        self.tokens = 0


class AgentSessions:
    """The sessions that spoke last, bounded in number and in time. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: OrderedDict[tuple[str, str], AgentSession] = OrderedDict()

    def get(self, agent: str, session_id: str, now: datetime) -> AgentSession:
        """Return a session, a new one where none of that name spoke lately."""
        key = (agent, session_id)
        with self._lock:
            known = self._sessions.get(key)
            if known is None or now - known.seen_at > KEPT:
                known = self._sessions[key] = AgentSession(now)
            self._sessions.move_to_end(key)
            while len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
            return known
