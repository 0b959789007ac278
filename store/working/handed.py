"""The lines that each agent's session was handed: kept across restarts, so that none is handed to it twice."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Final

from ..ledger.ledger import Ledger
from ..ledger.work import HANDED_KEPT, MOST_HANDED, Handed, set_handed
from ..writer.writer import Writer

MOST_LINES: Final = 300


@dataclass(slots=True)
class HandedSession:
    """One session. `given` are the lines in its agent's context, `tokens` what they cost there.

    `prompt` is the last one, and `is_kept` once it is a turn; neither outlives a restart.
    """

    key: str
    generation: int
    seen_at: datetime
    given: list[str] = field(default_factory=list)
    tokens: int = 0
    prompts: int = 0
    prompt: str = ""
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


class HandedSessions:
    """The sessions that spoke last, bounded in number and in time. Every method may be called from any thread.

    A row is written within about a second after `keep`: nobody waits for it, and what a crash loses is handed again.
    """

    def __init__(self, ledger: Ledger, writer: Writer, now: Callable[[], datetime]) -> None:
        self._ledger = ledger
        self._writer = writer
        self._now = now
        self._lock = Lock()
        self._sessions: OrderedDict[str, HandedSession] = OrderedDict()
        self._generation = 0

    def get(self, agent: str, session_id: str) -> HandedSession:
        """Return a session, a new one where none of that name spoke lately."""
        key = hashlib.sha256(f"{agent}\0{session_id}".encode("utf-8", "surrogatepass")).hexdigest()
        now = self._now()
        with self._lock:
            known = self._sessions.get(key) or self._read(key)
            if known is None or now - known.seen_at > HANDED_KEPT:
                known = HandedSession(key, self._generation, now)
            self._sessions[key] = known
            self._sessions.move_to_end(key)
            while len(self._sessions) > MOST_HANDED:
                self._sessions.popitem(last=False)
            return known

    def keep(self, session: HandedSession) -> None:
        """Note that a session spoke now, and have what it was handed written down."""
        session.seen_at = self._now()
        with self._lock:
            if session.generation != self._generation:  # its lines may be what was purged
                return
            row = Handed(session.key, session.seen_at, session.tokens, session.prompts, tuple(session.given))
            self._writer.later(*set_handed(row))

    def forget(self) -> None:
        """Let go of all of them, for a purge; it removes the rows itself."""
        with self._lock:
            self._sessions.clear()
            self._generation += 1

    def _read(self, key: str) -> HandedSession | None:
        if (row := self._ledger.handed(key)) is None:
            return None
        return HandedSession(key, self._generation, row.at, list(row.lines), row.tokens, row.prompts)
